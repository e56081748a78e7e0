"""Maximisers for float64 weights of any size: slower than the kernels, and exact."""

from __future__ import annotations

import numpy as np

from logsuper._base import Bits, FloatArray
from logsuper.functions import Cut, PairwiseGraph, SubmodularFunction, Sum
from logsuper.solvers._precision import report, solve_exactly
from logsuper.solvers._problems import Problems, some_rows
from logsuper.solvers._results import finite_dot
from logsuper.structures import Structure


def maximize_exactly(structure: Structure, problems: Problems, tie: str | None) -> Bits:
    """Return maximisers for float64 weights of any size; warn about rounding of sums."""
    n = structure.n
    y = np.empty((problems.size, n), dtype=np.uint8)
    field = tilted(structure, problems)
    every, factors = np.arange(problems.size), problems.factors
    together = len(problems.alpha) == 1 and (factors is None or len(factors) == 1)
    for rows in [every] if together else every[:, None]:
        first = problems.rows(rows[:1])
        alpha = first.alpha[0]
        weights = alpha @ _cut_weights(structure, first.factors)[0]
        graphs = [(1.0, Cut(n, structure.edges, weights).graph())]
        graphs += [(float(alpha[k]), g) for k, g in structure.graphs or () if alpha[k] > 0]
        own = np.broadcast_to(some_rows(field, rows), (len(rows), n))
        whole = PairwiseGraph.combine(n, graphs)
        y[rows] = solve_exactly(own, whole, tie)
        losses = np.full(len(rows), 2.0 * whole.error)
        for m in np.flatnonzero((losses > 0) & np.isinf(own).any(axis=1)):
            y[rows[m]], losses[m] = _conditioned(structure, own[m], weights, alpha, tie)
        report(losses, own)
    return y


def _conditioned(
    structure: Structure,
    field: FloatArray,
    weights: FloatArray,
    alpha: FloatArray,
    tie: str | None,
) -> tuple[Bits, float]:
    """Solve for the elements without an infinite field; return also a bound on the loss.

    Conditioning removes large terms, for instance the items that a fixed element covers, which
    would otherwise be added to the fields of other elements.
    """
    fixed = {int(d): int(field[d] > 0) for d in np.flatnonzero(np.isinf(field))}
    free = np.flatnonzero(np.isfinite(field))
    y = (field > 0).astype(np.uint8)
    functions: list[tuple[float, SubmodularFunction]] = [
        (1.0, Cut(structure.n, structure.edges, weights)),
        *((float(alpha[k]), f) for k, f in structure.others),
    ]
    whole = Sum([(weight, f.condition(fixed)[0]) for weight, f in functions]).graph()
    assert whole is not None
    y[free] = solve_exactly(field[free][None], whole, tie)[0]
    return y, 2.0 * whole.error


def evaluate(structure: Structure, y: Bits, problems: Problems) -> tuple[FloatArray, FloatArray]:
    """Return the values and statistics of given labels."""
    first, second = structure.edges.T
    cut = (y[:, first] != y[:, second]).astype(np.float64)
    stats = (_cut_weights(structure, problems.factors) * cut[:, None, :]).sum(axis=2)
    for k, tilt in structure.tilts.items():
        stats[:, k] += y @ tilt
    for k, other in structure.others:
        stats[:, k] += other(y)
    return finite_dot(problems.theta, y) - (problems.alpha * stats).sum(axis=1), stats


def _cut_weights(structure: Structure, factors: FloatArray | None) -> FloatArray:
    """Return the weights (1 or M, K, E) of the functions on the edges, times the factors."""
    table = structure.table[None]
    return table if factors is None else table * factors


def tilted(structure: Structure, problems: Problems) -> FloatArray:
    """Return the fields minus the modular terms of the functions."""
    if not structure.tilts:
        return problems.theta
    of = sorted(structure.tilts)
    tilt = problems.alpha[:, of] @ np.array([structure.tilts[k] for k in of])
    return np.asarray(problems.theta - tilt)
