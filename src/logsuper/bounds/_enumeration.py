"""Exact inference by a sum over all states."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from logsuper._base import EPS, FloatArray, check_natural
from logsuper.bounds._needs import TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction

LIMIT = 22

# Logarithm to base 2 of the number of states that are evaluated at a time.
_BLOCK_BITS = 12
# Largest error (nats) of the values of a block below which it is used for all of them.
_NEGLIGIBLE = 1e-12
# Largest logarithm that is exponentiated; bound on the loss where exp underflows.
_LARGEST, _LOST = 700.0, 1e-300
# Operations (about one nanosecond each) per number that an evaluation handles.
_NUMBER = 6.0


def log_partition(f: SubmodularFunction, *, limit: int = LIMIT) -> Bound:
    """Return log Z as the sum over all states.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        Any.
    limit : int, default 22
        Maximum number of elements; each element doubles the time.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.enumeration(ls.LogDet([[2.0, 1.0], [1.0, 2.0]]))
    <exact 0.8472978604 by enumeration, certified>
    """
    found = _sums(f, limit)
    return Bound.exactly(found.log_z, found.error, "enumeration")


def marginals(f: SubmodularFunction, *, limit: int = LIMIT) -> Marginals:
    """Return the exact marginals; see `log_partition` for the option."""
    found = _sums(f, limit)
    return Marginals(found.mean, "enumeration", found.lower, found.upper)


def operations(f: SubmodularFunction) -> float:
    """Return the approximate nanoseconds; infinity beyond the limit."""
    return math.inf if f.n > LIMIT else _cost(f)


def _cost(f: SubmodularFunction) -> float:
    """Return the approximate nanoseconds, for any number of elements."""
    return math.inf if f.n > 900 else _NUMBER * 2.0**f.n * (f.n + f._row_size())


@dataclasses.dataclass(frozen=True)
class _Sums:
    """Sums over all states, with bounds on the effect of rounding."""

    log_z: float
    error: float
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


def _sums(f: SubmodularFunction, limit: int) -> _Sums:
    """Sum over all states, in blocks."""
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
    # sums of e^(-f - top), where top is the largest -f so far: of the values, their lower and their
    # upper bounds; over all states, and over those with a one, or a zero, in each place
    top, sums, ones, zeros = -math.inf, np.zeros(3), np.zeros((3, f.n)), np.zeros((3, f.n))
    worst, vague = 0.0, False
    for block in range(blocks):
        X[:, low:] = (block >> np.arange(f.n - low)) & 1
        with np.errstate(over="ignore", invalid="ignore"):
            values, errors = f._values_within(X)
        if not np.isfinite(values).all():
            bad = int(np.isfinite(values).argmin())
            raise ValueError(f"{f!r} is {values[bad]} at x = {X[bad].astype(int).tolist()}")
        peak = max(top, float(-values.min()))
        logs = -values - peak
        mass = np.exp(logs)[None]
        fade = math.exp(top - peak)
        most = float(errors.max())
        worst = max(worst, most)
        if most >= _NEGLIGIBLE:
            # a large error of a state with a small weight matters little
            vague = vague or bool((logs + errors > _LARGEST).any())
            mass = np.exp([logs, logs - errors, np.minimum(logs + errors, _LARGEST)])
        # if errors are small, one sum is enough: its error is at most the largest of them
        factors = np.ones(3) if most >= _NEGLIGIBLE else np.exp([0.0, -most, most])
        sums = sums * fade + factors * mass.sum(axis=1)
        ones = ones * fade + factors[:, None] * (mass @ X)
        zeros = zeros * fade + factors[:, None] * (mass @ (1.0 - X))
        top = peak
    total, least, greatest = sums
    log_z = top + math.log(total)
    off = worst
    if least > 0.0 and not vague:
        off = min(worst, max(math.log(total / least), math.log(greatest / total)))
    off += EPS * (32.0 + blocks + abs(log_z) + abs(top))
    # two sums of the same terms in different order: by rounding, their ratio may exceed 1
    mean = np.minimum(ones[0] / total, 1.0)
    if vague:
        return _Sums(log_z, off, mean, np.zeros(f.n), np.ones(f.n))
    # losses below e^-745, and by rounding of logarithms of up to 745 and of sums
    ones[2] += _LOST
    zeros[2] += _LOST
    slip = EPS * (1600.0 + 2.0 * blocks)
    lower = ones[1] / (ones[1] + zeros[2]) * (1.0 - slip)
    upper = np.minimum(ones[2] / (ones[2] + zeros[1]) * (1.0 + slip), 1.0)
    return _Sums(log_z, off, mean, np.minimum(lower, mean), np.maximum(upper, mean))
