"""The product of factors as a log-supermodular model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from logsuper._base import FloatArray
from logsuper.functions import Cut, Modular
from logsuper.io._factors import Factor
from logsuper.model import LogSupermodular

# Tolerated negative log-odds of agreement of a pair (relative, or in nats below 1) due to rounding.
_ROUNDING = 1e-12

# Maximum number of factors on one pair that an error message lists.
_LISTED = 3

# Logarithm of the product of the factors on a pair i < j, shape (2, 2), and the factors.
Pairs = dict[tuple[int, int], tuple[FloatArray, list[Factor]]]


def product(
    name: str, n: int, factors: Iterable[Factor], evidence: dict[int, int]
) -> LogSupermodular:
    """Return the model of the product of the factors, given the values of some variables."""
    constant, unary, pairs = _multiply(name, n, factors)
    fixed = _settle(name, unary, pairs, evidence)
    edges: list[tuple[int, int]] = []
    weights: list[float] = []
    for (i, j), (table, sources) in pairs.items():
        if i in fixed and j in fixed:
            constant += float(table[fixed[i], fixed[j]])
        elif i in fixed:
            unary[j] += table[fixed[i]]
        elif j in fixed:
            unary[i] += table[:, fixed[j]]
        else:
            # log p(a, b) = log p(0, 0) + u a + v b - w |a - b|
            weight = _weight(name, table, sources)
            constant += float(table[0, 0])
            unary[i, 1] += table[1, 0] - table[0, 0] + weight
            unary[j, 1] += table[0, 1] - table[0, 0] + weight
            edges.append((i, j))
            weights.append(weight)
    for variable, value in fixed.items():
        constant += float(unary[variable, value])
        unary[variable] = 0.0
    constant += float(unary[:, 0].sum())
    field = Modular(unary[:, 1] - unary[:, 0])
    f = Cut(n, edges, weights) - field if edges else -field
    return LogSupermodular(f, constant).condition(fixed)


def _multiply(name: str, n: int, factors: Iterable[Factor]) -> tuple[float, FloatArray, Pairs]:
    """Return the logarithms of the products of constants, per variable and per pair."""
    constant = 0.0
    unary = np.zeros((n, 2))
    pairs: Pairs = {}
    for factor in factors:
        logs = [math.log(entry) if entry else -math.inf for entry in factor.table]
        if len(logs) == 1:
            if factor.table[0] == 0.0:
                raise ValueError(f"{name}: {factor} makes the partition function 0")
            constant += logs[0]
        elif len(logs) == 2:
            unary[factor.scope[0]] += logs
        else:
            i, j = factor.scope
            table = np.array(logs).reshape(2, 2)
            if i > j:
                i, j, table = j, i, table.T
            product, sources = pairs.setdefault((i, j), (np.zeros((2, 2)), []))
            product += table
            sources.append(factor)
    return constant, unary, pairs


def _settle(name: str, unary: FloatArray, pairs: Pairs, evidence: dict[int, int]) -> dict[int, int]:
    """Return the evidence, plus each variable for which zeros in the tables leave one value."""
    possible = np.isfinite(unary)
    for variable, value in evidence.items():
        possible[variable, 1 - value] = False
    hard = [key for key, (table, _) in pairs.items() if not np.isfinite(table).all()]
    at = defaultdict(list)
    for key in hard:
        for variable in key:
            at[variable].append(key)
    while hard:
        i, j = hard.pop()
        allowed = np.isfinite(pairs[i, j][0]) & possible[i][:, None] & possible[j]
        for variable, left in ((i, allowed.any(axis=1)), (j, allowed.any(axis=0))):
            if (left != possible[variable]).any():
                possible[variable] = left
                hard += at[variable]
    count = possible.sum(axis=1)
    if (count == 0).any():
        raise ValueError(
            f"{name}: zeros in the tables, and the evidence, leave variable {int(count.argmin())} "
            "no value; the partition function is 0"
        )
    return {int(i): int(possible[i, 1]) for i in np.flatnonzero(count == 1)}


def _weight(name: str, table: FloatArray, sources: list[Factor]) -> float:
    """Return half of log p00 p11 / p01 p10 of two free variables, which must not be negative."""
    agree, differ = float(table[0, 0] + table[1, 1]), float(table[0, 1] + table[1, 0])
    if agree < differ - _ROUNDING * max(1.0, abs(differ)):
        raise ValueError(
            f"{name} is not log-supermodular: {_list(sources)} is repulsive, its variables prefer "
            "to differ (p00 p11 < p01 p10)"
        )
    if math.isinf(differ):
        raise ValueError(
            f"{name}: {_list(sources)} forbids two free variables to differ, which would take an "
            "infinite weight; replace the zero by a small number, or give one of them as evidence"
        )
    return max((agree - differ) / 2.0, 0.0)


def _list(factors: list[Factor]) -> str:
    """Return the factors as text, at most the first few."""
    more = [f"{len(factors) - _LISTED} more"] if len(factors) > _LISTED else []
    return " and ".join([*map(str, factors[:_LISTED]), *more])
