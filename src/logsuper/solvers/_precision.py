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
from logsuper.functions import PairwiseGraph
from logsuper.solvers._fallback import solve_pairwise

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
