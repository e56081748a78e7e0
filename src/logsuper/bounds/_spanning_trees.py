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
    wanted = int(np.clip(_EDGES // len(edges), *_FORESTS))
    forests = 0
    while forests < wanted or uses.min() == 0:
        gains = weights / (1.0 + uses)
        if forests >= wanted:  # the list is long enough: take all there can be of what is left out
            gains[uses == 0] += weights.max()
        forest = best_forest(n, edges, gains)
        forests += 1
        if forest.all():  # no cycle: there is one forest only
            return forest
        uses += forest
    return uses / forests


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of the greatest total gain."""
    i, j = edges.T
    # the order is all that counts, and the solver takes a price of 0 for no edge
    price = np.empty(len(edges))
    price[np.argsort(-gains, kind="stable")] = np.arange(1.0, len(edges) + 1.0)
    chosen = minimum_spanning_tree(csr_array((price, (i, j)), shape=(n, n))).tocoo()
    inside = np.isin(i * np.int64(n) + j, chosen.row * np.int64(n) + chosen.col)
    return inside.astype(np.float64)
