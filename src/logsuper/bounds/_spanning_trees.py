"""Spanning forests, and the probabilities of the edges in a list of them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from logsuper._base import FloatArray, IntArray

# Forests in the list: between these, what a fraction of a second can make.
_FORESTS = (16, 64)
_EDGES = 1 << 20
# How often each edge of a dense graph is in a forest, at least: their shares are the more even.
_TIMES = 2


def edge_probabilities(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return a probability > 0 for each edge, its share in a list of spanning forests.

    Each forest of the list prefers heavy edges that the ones before it left out, so that the shares
    follow the weights as far as forests can; they are exact, whatever the graph.
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
        # equal weights in a random order, or the forests would be stars of the first elements
        gains = weights / (1.0 + uses) * (1.0 + 1e-6 * rng.random(len(edges)))
        if forests >= wanted:
            # the list is long enough: take all there can be of what is left out, and for the rest
            # edges of the last forest, which span
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

    The edges of a dense graph are dealt out at random to groups of about 4 n, most of which hold
    a spanning tree; all are found in one go, on a graph of disjoint copies, one a group.
    """
    count = len(edges) // (4 * n)
    group = rng.permutation(len(edges)) % count
    order = np.argsort(group, kind="stable")
    inside = np.zeros(len(edges))
    copies = edges[order] + (group[order] * np.int64(n))[:, None]
    # in a random order, or what is left out would be edges between the last elements
    inside[order] = best_forest(n * count, copies, rng.random(len(edges)))
    return count, inside


def operations(n: int, edges: int) -> float:
    """Return about how many nanoseconds `edge_probabilities` takes."""
    # those that the list has, and some to take in what they leave out
    more = 24 * _TIMES if _is_dense(n, edges) else 8
    return (_wanted(n, edges) + more) * forest_operations(n, edges)


def forest_operations(n: int, edges: int) -> float:
    """Return about how many nanoseconds `best_forest` takes (measured, rounded up)."""
    return 100.0 * edges + 600.0 * n


def _is_dense(n: int, edges: int) -> bool:
    return edges > 8 * n


def _wanted(n: int, edges: int) -> int:
    """Return how many forests are chosen by weight: few of a dense graph, whose list is long."""
    return _FORESTS[0] if _is_dense(n, edges) else int(np.clip(_EDGES // max(1, edges), *_FORESTS))


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of the greatest total gain."""
    # the order is all that counts, and the solver takes a price of 0 for no edge
    order = np.argsort(-gains, kind="stable")
    price = np.empty(len(edges))
    price[order] = np.arange(1.0, len(edges) + 1.0)
    chosen = minimum_spanning_tree(csr_array((price, tuple(edges.T)), shape=(n, n)))
    inside = np.zeros(len(edges))
    inside[order[chosen.data.astype(np.int64) - 1]] = 1.0
    return inside
