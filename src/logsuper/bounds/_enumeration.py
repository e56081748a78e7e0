"""Exact inference by a sum over all states."""

from __future__ import annotations

import math

import numpy as np

from logsuper.bounds._errors import TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions._base import EPS, SubmodularFunction
from logsuper.functions._checks import FloatArray, check_natural

LIMIT = 22

# States that are evaluated at once.
_BLOCK_BITS = 12
# Errors of all values of a block, in nats, below which they are not looked at one by one.
_NEGLIGIBLE = 1e-12
# Operations, of about a nanosecond, for each number that an evaluation handles.
_NUMBER = 6.0


def log_partition(f: SubmodularFunction, *, limit: int = LIMIT) -> Bound:
    """Return log Z as the sum over all states.

    Parameters
    ----------
    f : SubmodularFunction
        Any.
    limit : int, default 22
        Functions of more elements are refused; each doubles the time.

    Examples
    --------
    >>> from logsuper.bounds._enumeration import log_partition
    >>> from logsuper.functions import LogDet
    >>> log_partition(LogDet([[2.0, 1.0], [1.0, 2.0]]))
    <exact 0.8472978604 by enumeration, certified>
    """
    log_z, error, _ = _sums(f, limit)
    return Bound.exactly(log_z, error, "enumeration")


def marginals(f: SubmodularFunction, *, limit: int = LIMIT) -> Marginals:
    """Return the exact marginals; see `log_partition` for the option."""
    _, error, mean = _sums(f, limit)
    return Marginals.exactly(mean, 2.0 * error, "enumeration")


def operations(f: SubmodularFunction) -> float:
    """Return about how many nanoseconds it takes; infinity beyond the limit."""
    return math.inf if f.n > LIMIT else _cost(f)


def _cost(f: SubmodularFunction) -> float:
    """Return about how many nanoseconds it would take."""
    return math.inf if f.n > 900 else _NUMBER * 2.0**f.n * (f.n + f._row_size())


def _sums(f: SubmodularFunction, limit: int) -> tuple[float, float, FloatArray]:
    """Return log Z, what rounding may have done to it, and the marginals, by blocks of states."""
    if f.n > min(check_natural(limit, "limit"), 62):
        raise TooLarge(
            f"enumeration would evaluate {f!r} at 2^{f.n} states, some {_cost(f):.2g} operations; "
            f"it may take functions of up to {limit} elements (limit=)",
            _cost(f),
        )
    low = min(f.n, _BLOCK_BITS)
    blocks = 1 << (f.n - low)
    X = np.zeros((1 << low, f.n))
    X[:, :low] = (np.arange(1 << low)[:, None] >> np.arange(low)) & 1
    # sums of e^(-f - top), where top is the largest -f so far; of the values, and of what they may
    # be at least and at most
    top, sums, ones, worst = -math.inf, np.zeros(3), np.zeros(f.n), 0.0
    for block in range(blocks):
        X[:, low:] = (block >> np.arange(f.n - low)) & 1
        with np.errstate(over="ignore", invalid="ignore"):
            values, errors = f._values_within(X)
        if not np.isfinite(values).all():
            bad = int(np.isfinite(values).argmin())
            raise ValueError(f"{f!r} is {values[bad]} at x = {X[bad].astype(int).tolist()}")
        peak = max(top, float(-values.min()))
        logs = -values - peak
        mass = np.exp(logs)
        fade = math.exp(top - peak)
        most = float(errors.max())
        worst = max(worst, most)
        if most < _NEGLIGIBLE:
            bounds = mass.sum() * np.exp([0.0, -most, most])
        else:
            # a state that is certain to be rare matters little, however wrong its value is
            most_likely = np.exp(np.minimum(logs + errors, 700.0))
            bounds = np.array([mass.sum(), np.exp(logs - errors).sum(), most_likely.sum()])
        sums = sums * fade + bounds
        ones = ones * fade + mass @ X
        top = peak
    total, least, greatest = sums
    log_z = top + math.log(total)
    off = worst
    if least > 0.0:
        off = min(worst, max(math.log(total / least), math.log(greatest / total)))
    off += EPS * (32.0 + blocks + abs(log_z) + abs(top))
    # two sums of the same terms in different order: rounding can take a certain element past 1
    return log_z, off, np.minimum(ones / total, 1.0)
