"""Spanning forests, and the probabilities of the edges in a list of them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from logsuper.functions._checks import FloatArray, IntArray

# Forests in the list: between these, what a fraction of a second can make.
_FORESTS = (16, 64)
_EDGES = 1 << 20


def edge_probabilities(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return a probability > 0 for each edge, its share in a list of spanning forests.

    Each forest of the list prefers heavy edges that the ones before it left out, so that the shares
    follow the weights as far as forests can; they are exact, whatever the graph.
    """
    uses = np.zeros(len(edges))
    if len(edges) == 0:
        return uses
    wanted = _wanted(len(edges))
    forests = 0
    while forests < wanted or uses.min() == 0:
        left_out = uses == 0
        if forests >= wanted and left_out.sum() > 4 * n:
            count, found = _disjoint_forests(n, edges[left_out])
            uses[left_out] = found
            forests += count
            continue
        gains = weights / (1.0 + uses)
        if forests >= wanted:  # the list is long enough: take all there can be of what is left out
            gains[left_out] += weights.max()
        forest = best_forest(n, edges, gains)
        forests += 1
        if forest.all():  # no cycle: there is one forest only
            return forest
        uses += forest
    return uses / forests


def _disjoint_forests(n: int, edges: IntArray) -> tuple[int, FloatArray]:
    """Return a number of forests, and the indicator of the edges that are in one of them.

    The edges of a dense graph are dealt out at random to groups of about 2 n, whose forests are
    found in one go: a graph of disjoint copies, one a group.
    """
    count = len(edges) // (2 * n)
    group = np.random.default_rng(0).permutation(len(edges)) % count
    order = np.argsort(group, kind="stable")
    inside = np.zeros(len(edges))
    copies = edges[order] + (group[order] * np.int64(n))[:, None]
    inside[order] = best_forest(n * count, copies, np.zeros(len(edges)))
    return count, inside


def operations(n: int, edges: int) -> float:
    """Return about how many nanoseconds `edge_probabilities` takes."""
    # those that the list has, and some to take in what they leave out
    return (_wanted(edges) + 8) * forest_operations(n, edges)


def forest_operations(n: int, edges: int) -> float:
    """Return about how many nanoseconds `best_forest` takes (measured, rounded up)."""
    return 100.0 * edges + 600.0 * n


def _wanted(edges: int) -> int:
    return int(np.clip(_EDGES // edges, *_FORESTS))


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of the greatest total gain.

    The edges are sorted by their first ends.
    """
    i, j = edges.T
    # the order is all that counts, and the solver takes a price of 0 for no edge
    order = np.argsort(-gains, kind="stable")
    price = np.empty(len(edges))
    price[order] = np.arange(1.0, len(edges) + 1.0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    chosen = minimum_spanning_tree(csr_array((price, j, starts), shape=(n, n)))
    inside = np.zeros(len(edges))
    inside[order[chosen.data.astype(np.int64) - 1]] = 1.0
    return inside
