r"""Sums rounded to the safe side: proven bounds on the rounding error of certified bounds.

A bound is evaluated as a sum of many terms, each of which is a short formula of positive numbers,
with a relative error of at most a few units of :math:`\epsilon=2^{-52}`. `math.fsum` adds the terms
as if with infinite precision, hence

.. math:: |\text{computed}-\text{true}|\le c\,\epsilon\sum_k|\text{term}_k|,

where exact terms (fields, weights) are omitted on the right side: a weight of 1e16 that does not
contribute to the value does not increase its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from logsuper._base import EPS, FloatArray
from logsuper.functions import SubmodularFunction


def extreme_gains(f: SubmodularFunction) -> tuple[FloatArray, FloatArray]:
    r"""Return the largest gains :math:`f(\{d\})` and the smallest :math:`f(V)-f(V\setminus d)`."""
    largest, smallest = f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))
    return largest, smallest


def at_most(parts: Iterable[FloatArray | float], error: float) -> float:
    """Return a float64 that is at most the sum of all numbers minus the error."""
    return _sum(parts, -error, -math.inf)


def at_least(parts: Iterable[FloatArray | float], error: float) -> float:
    """Return a float64 that is at least the sum of all numbers plus the error."""
    return _sum(parts, error, math.inf)


def _sum(parts: Iterable[FloatArray | float], error: float, towards: float) -> float:
    numbers = [np.ravel(part) for part in parts]
    # the error itself is a sum in float64 of numbers of one sign
    total = math.fsum([*np.concatenate(numbers).tolist(), error * (1.0 + 2.0**-30)])
    return math.nextafter(total, towards)


def margin(f: SubmodularFunction) -> float:
    """Return a bound on the error of a value of f, plus n entropies, for a function of any kind.

    No value of f exceeds the sum of the absolute extreme gains, and a formula that reads r numbers
    loses at most about r rounding errors of that size.
    """
    with np.errstate(over="ignore"):
        scale = f.n + float(np.abs(extreme_gains(f)).sum())
    _refuse_sum(f, scale, math.inf)
    return 2.0 * EPS * (f.n + f._row_size()) * scale


def refuse_overflow(f: SubmodularFunction, parts: Iterable[FloatArray]) -> None:
    """Raise a ValueError if a sum of the parts of f, each taken a few times, may overflow."""
    size = sum(float(np.abs(part).max(initial=0.0)) * len(part) for part in parts)
    _refuse_sum(f, size, 1e300)


def _refuse_sum(f: SubmodularFunction, size: float, limit: float) -> None:
    if not size < limit:
        raise ValueError(f"the numbers in {f!r} are so large that their sums overflow; rescale f")
