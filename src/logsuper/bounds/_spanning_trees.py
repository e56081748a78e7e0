"""Spanning forests, and the probabilities of the edges in a list of them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from logsuper._base import FloatArray, IntArray

# Minimum and maximum number of forests in the list, and their total number of edges, which takes a
# fraction of a second.
_FORESTS = (16, 64)
_EDGES = 1 << 20
# Minimum number of forests that each edge of a dense graph is in, to make the fractions more even.
_TIMES = 2


def edge_probabilities(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return a probability > 0 per edge: the fraction of a list of spanning forests that have it.

    Each forest prefers heavy edges that the ones before it left out, so that the fractions follow
    the weights as far as possible. They are exact edge probabilities for any graph.
    """
    uses = np.zeros(len(edges))
    if len(edges) == 0:
        return uses
    wanted = _wanted(n, len(edges))
    least = _TIMES if _is_dense(n, len(edges)) else 1
    rng = np.random.default_rng(0)
    some, forest = np.ones(len(edges), dtype=bool), np.zeros(len(edges))
    forests = 0
    while forests < wanted or uses.min() < least:
        left_out = uses == uses.min()
        if forests >= wanted and _is_dense(n, int(left_out.sum())):
            count, found = _disjoint_forests(n, edges[left_out], rng)
            uses[left_out] += found
            forests += count
            continue
        # order equal weights at random; otherwise the forests would be stars of the first elements
        gains = weights / (1.0 + uses) * (1.0 + 1e-6 * rng.random(len(edges)))
        if forests >= wanted:
            # the list is long enough: take as many of the edges that were left out as possible,
            # and complete them by edges of the last forest, which spans the graph
            gains[left_out] += weights.max()
            some = left_out | (forest > 0)
        forest = np.zeros(len(edges))
        forest[some] = best_forest(n, edges[some], gains[some])
        forests += 1
        if forest.all():  # no cycle: there is one forest only
            return forest
        uses += forest
    return uses / forests


def _disjoint_forests(n: int, edges: IntArray, rng: np.random.Generator) -> tuple[int, FloatArray]:
    """Return a number of forests, and the indicator of the edges that are in one of them.

    The edges of a dense graph are assigned at random to groups of about 4 n edges, most of which
    contain a spanning tree. All are found at once, on a graph of disjoint copies, one per group.
    """
    count = len(edges) // (4 * n)
    group = rng.permutation(len(edges)) % count
    order = np.argsort(group, kind="stable")
    inside = np.zeros(len(edges))
    copies = edges[order] + (group[order] * np.int64(n))[:, None]
    # in a random order; otherwise edges between the last elements would be left out
    inside[order] = best_forest(n * count, copies, rng.random(len(edges)))
    return count, inside


def operations(n: int, edges: int) -> float:
    """Return the approximate nanoseconds of `edge_probabilities`."""
    # the forests of the list, and some more for the edges that they leave out
    more = 24 * _TIMES if _is_dense(n, edges) else 8
    return (_wanted(n, edges) + more) * forest_operations(n, edges)


def forest_operations(n: int, edges: int) -> float:
    """Return the approximate nanoseconds of `best_forest` (measured, rounded up)."""
    return 100.0 * edges + 600.0 * n


def _is_dense(n: int, edges: int) -> bool:
    return edges > 8 * n


def _wanted(n: int, edges: int) -> int:
    """Return the number of forests chosen by weight: few for a dense graph, whose list is long."""
    return _FORESTS[0] if _is_dense(n, edges) else int(np.clip(_EDGES // max(1, edges), *_FORESTS))


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of maximum total gain."""
    # only the order matters, and the solver treats a price of 0 as a missing edge
    order = np.argsort(-gains, kind="stable")
    price = np.empty(len(edges))
    price[order] = np.arange(1.0, len(edges) + 1.0)
    chosen = minimum_spanning_tree(csr_array((price, tuple(edges.T)), shape=(n, n)))
    inside = np.zeros(len(edges))
    inside[order[chosen.data.astype(np.int64) - 1]] = 1.0
    return inside
