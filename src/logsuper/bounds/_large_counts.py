r"""The recursion over counts with exact costs.

A sum :math:`\sum_xe^{-c(x)}` is represented by its smallest cost, an integer of any size, and the
logarithm of the rest, between 0 and n log 2. Large costs that cancel each other cause no error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray
from logsuper.bounds._exact_numbers import BITS, to_floats, to_integer
from logsuper.functions import ConcaveCardinality, Modular, SubmodularFunction

# Maximum number of elements of a set; more would take seconds.
_LARGEST = 2000
# Costs (nats) above this are treated as infinite.
_NEVER = 10_000

Integers = NDArray[Any]
"""Arrays of Python integers, in units of 2^-BITS."""
Groups = list[tuple[IntArray, Integers]]


def parts(f: SubmodularFunction) -> tuple[Integers, Groups] | None:
    """Return the field and, for each counted set, its members and g, all exactly.

    Return None for functions of a count that are computed, not tabulated, and for large sets. The
    sets must not overlap, which is not checked.
    """
    t = _integers(np.zeros(f.n))
    groups: dict[bytes, tuple[IntArray, Integers]] = {}
    for weight, atom in f.terms():
        factor = to_integer(weight)
        if isinstance(atom, Modular):
            t = t - _scaled(factor, _integers(atom.t))
        elif isinstance(atom, ConcaveCardinality) and len(atom.subset) <= _LARGEST:
            key = atom.subset.tobytes()
            _, before = groups.get(key, (atom.subset, 0))
            groups[key] = (atom.subset, before + _scaled(factor, _integers(atom.g)))
        else:
            return None
    return t, list(groups.values())


def log_partition(t: Integers, groups: Groups) -> tuple[float, float]:
    """Return log Z and a bound on its rounding error."""
    gains, logs, free = 0, [], np.ones(len(t), dtype=bool)
    for members, g in groups:
        cost, rest, _ = _backward(g, t[members], keep=False)
        gains -= int(cost)
        logs.append(rest)
        free[members] = False
    for field in t[free]:
        gains += max(field, 0)
        logs.append(math.log1p(math.exp(-min(abs(field) / (1 << BITS), 700.0))))
    pieces = to_floats(gains)
    value = math.fsum([*pieces, *logs]) if all(map(math.isfinite, pieces)) else math.inf
    return value, _error(len(t)) + EPS * abs(value)


def marginals(t: Integers, groups: Groups) -> tuple[FloatArray, float]:
    """Return the marginals, and a bound on the rounding error of their log-odds."""
    mean = expit(_nats(t))
    for members, g in groups:
        _, _, odds = _backward(g, t[members], keep=True)
        count = np.ones(1)
        for j, member in enumerate(members):
            on = count * expit(odds.pop())
            mean[member] = min(on.sum(), 1.0)
            count = np.append(count - on, 0.0)
            count[1:] += on
            assert len(count) == j + 2
    return mean, _error(len(t))


def _backward(g: Integers, t: Integers, keep: bool) -> tuple[Any, float, list[FloatArray]]:
    """Return the smallest cost, the log of the rest of the sum, and the log-odds of each element.

    The log-odds, for each count of ones before the element, start with the last element; they are
    computed only if `keep` is true.
    """
    cost, rest = g, np.zeros(len(g))
    odds = []
    for field in t[::-1]:
        off, on = cost[:-1], cost[1:] - field
        cost = np.minimum(off, on)
        zero, one = rest[:-1] - _nats(off - cost), rest[1:] - _nats(on - cost)
        if keep:
            odds.append(one - zero)
        rest = np.logaddexp(zero, one)
    return cost[0], float(rest[0]), odds


def _integers(values: FloatArray) -> Integers:
    found = np.empty(len(values), dtype=object)
    found[:] = [to_integer(value) for value in values.tolist()]
    return found


def _scaled(factor: int, values: Integers) -> Integers:
    """Return the products, back in the same units."""
    return (factor * values) >> BITS


def _nats(costs: Integers) -> FloatArray:
    """Return differences of costs as float64, clipped where their exponential is 0."""
    limit = _NEVER << BITS
    return np.asarray(np.clip(costs, -limit, limit) / (1 << BITS), dtype=np.float64)


def _error(n: int) -> float:
    """Return a bound on the error of n steps on a logarithm of at most n log 2, and of clipping."""
    return 4.0 * EPS * n * (n + 8.0)
