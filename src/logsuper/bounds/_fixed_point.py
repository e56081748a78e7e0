"""Numbers of any size as integers, whose sums are exact."""

from __future__ import annotations

import math

BITS = 200
"""Number of fractional bits; the truncated part is far below any rounding error."""


def to_integer(value: float) -> int:
    """Return a number in units of 2^-BITS, truncated."""
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + BITS
    whole = int(math.ldexp(mantissa, 53))
    return whole << shift if shift >= 0 else int(whole / 2.0 ** min(-shift, 1000))


def to_float(value: int) -> float:
    """Return the nearest float64 to a number in units of 2^-BITS."""
    try:
        return value / (1 << BITS)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_floats(value: int) -> list[float]:
    """Return floats whose sum is a number in units of 2^-BITS, to far below a rounding error."""
    pieces: list[float] = []
    while value and len(pieces) < 4:
        pieces.append(to_float(value))
        if math.isinf(pieces[-1]):
            break
        value -= to_integer(pieces[-1])
    return pieces
