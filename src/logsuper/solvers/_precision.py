r"""Detection and exact solution of problems whose fields are too small for the number format.

The kernels round to integers whose quantum depends on the largest weights, and float64 rounds
:math:`\theta-u`, where :math:`u` is the linear part of a function with auxiliary nodes: a
`Coverage` of weight 1e9 adds 5e8 to every field of order 1. If either may cost more than
`TOLERANCE` of the fields, a warning is issued.
"""

from __future__ import annotations

import warnings

import numpy as np

from logsuper._base import Bits, BoolArray, FloatArray, PrecisionWarning
from logsuper.functions import Cut, PairwiseGraph, SubmodularFunction, Sum
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._problems import Problems, finite_dot, some_rows
from logsuper.structures import Structure

# Losses above this fraction of the sum of the fields' magnitudes are reported.
TOLERANCE = 1e-9
# Three in four fields must be at least this many units of 32-bit integers, of 64-bit integers, and
# of float64 rounding: the rule of the kernels (cuts.hpp), applied to fields before `u` is added.
_NARROW, _WIDE, _FLOAT = 2.0**20, 2.0**40, 2.0**30
# A field of more units than this exceeds the sum of all weights at its node: only its sign matters.
_LARGEST = {False: 2.0**29, True: 2.0**60}


def hidden(own: FloatArray, unary: FloatArray, quantum: FloatArray, wide: bool) -> BoolArray:
    """Return, for each problem, whether its fields were lost in rounding.

    Parameters
    ----------
    own : ndarray of shape (M, n)
        Fields without the linear part of functions with auxiliary nodes.
    unary : ndarray of shape (M,)
        Largest magnitude of that linear part.
    quantum : ndarray of shape (M,)
        Unit of the integers that the problem was solved with.
    wide : bool
        Whether the integers had 64 bits.
    """
    size = np.abs(own)
    unit = np.maximum(quantum * (_WIDE if wide else _NARROW), unary * (2.0**-52 * _FLOAT))
    most = np.maximum(quantum * _LARGEST[wide], unary)
    seen = (size > 0) & np.isfinite(size) & (size < most[:, None])
    coarse = seen & (size < unit[:, None])
    return np.asarray(4 * coarse.sum(axis=1) > seen.sum(axis=1))


def solve_exactly(own: FloatArray, graph: PairwiseGraph, tie: str | None) -> Bits:
    r"""Maximise :math:`\theta^\top y-f(y)` for fields (M, n) and the graph of f, exactly.

    No number is added to a field: a linear term :math:`u_iv_i` becomes an edge of weight
    :math:`|u_i|` between node i and a node that is fixed to 0, or to 1 if :math:`u_i<0`.
    """
    count, n = own.shape
    size = n + graph.n_aux
    pairs, prices, signs = [graph.edges], [graph.weights], [0.0] * graph.n_aux
    for linear in graph.unary_parts():
        for sign in (1.0, -1.0):
            node = np.flatnonzero(sign * linear > 0)
            pairs.append(np.stack([node, np.full(len(node), size)], axis=1))
            prices.append(np.abs(linear[node]))
            signs.append(-sign * np.inf)
            size += 1
    field = np.concatenate([own, np.tile(signs, (count, 1))], axis=1)
    labels = solve_pairwise(size, np.concatenate(pairs), np.concatenate(prices), field, tie)
    return labels[:, :n]


def report(losses: FloatArray, own: FloatArray) -> None:
    """Warn if losses (M,) by rounding are not negligible relative to the fields (M, n)."""
    size = np.where(np.isfinite(own) & (own != 0), np.abs(own), np.nan)
    rows = np.flatnonzero((losses > 0) & ~np.isnan(size).all(axis=1))
    if not len(rows):
        return  # nothing was lost, or there are no finite fields
    typical = np.nanmedian(size[rows], axis=1)
    excess = losses[rows] / (typical * np.isfinite(size[rows]).sum(axis=1))
    worst = int(excess.argmax())
    if excess[worst] > TOLERANCE:
        warnings.warn(
            f"the weights are so large relative to the fields (about {typical[worst]:.2g}) that "
            f"rounding of sums may have cost up to {losses[rows][worst]:.2g} of the value; scale "
            "the weights down, or fix elements by infinite fields",
            PrecisionWarning,
            stacklevel=5,
        )


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
