"""Exact inference by a sum over all states."""

from __future__ import annotations

import math

import numpy as np

from logsuper.bounds._errors import TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray, check_natural

LIMIT = 22

# States that are evaluated at once.
_BLOCK_BITS = 12
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
    log_z, _ = _sums(f, limit)
    return Bound(log_z, "exact", "enumeration", certified=True)


def marginals(f: SubmodularFunction, *, limit: int = LIMIT) -> Marginals:
    """Return the exact marginals; see `log_partition` for the option."""
    _, mean = _sums(f, limit)
    return Marginals(mean, "enumeration", mean, mean)


def operations(f: SubmodularFunction) -> float:
    """Return about how many nanoseconds it takes; infinity beyond the limit."""
    return math.inf if f.n > LIMIT else _cost(f)


def _cost(f: SubmodularFunction) -> float:
    """Return about how many nanoseconds it would take."""
    return math.inf if f.n > 900 else _NUMBER * 2.0**f.n * (f.n + f._row_size())


def _sums(f: SubmodularFunction, limit: int) -> tuple[float, FloatArray]:
    """Return log Z and the marginals, block by block of states."""
    if f.n > min(check_natural(limit, "limit"), 62):
        raise TooLarge(
            f"enumeration would evaluate {f!r} at 2^{f.n} states, some {_cost(f):.2g} operations; "
            f"it may take functions of up to {limit} elements (limit=)",
            _cost(f),
        )
    low = min(f.n, _BLOCK_BITS)
    X = np.zeros((1 << low, f.n))
    X[:, :low] = (np.arange(1 << low)[:, None] >> np.arange(low)) & 1
    # sums of e^(-f - top), where top is the largest -f so far
    top, total, ones = -math.inf, 0.0, np.zeros(f.n)
    for block in range(1 << (f.n - low)):
        X[:, low:] = (block >> np.arange(f.n - low)) & 1
        values = f(X)
        if not np.isfinite(values).all():
            bad = int(np.isfinite(values).argmin())
            raise ValueError(f"{f!r} is {values[bad]} at x = {X[bad].astype(int).tolist()}")
        peak = max(top, float(-values.min()))
        mass = np.exp(-values - peak)
        fade = math.exp(top - peak)
        total = total * fade + float(mass.sum())
        ones = ones * fade + mass @ X
        top = peak
    # two sums of the same terms in different order: rounding can take a certain element past 1
    return top + math.log(total), np.minimum(ones / total, 1.0)
