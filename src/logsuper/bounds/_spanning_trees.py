"""Random spanning forests: the probabilities of their edges."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from logsuper.functions._checks import FloatArray, IntArray

# Up to this many nodes the Laplacian is inverted.
_DENSE = 1024
# Forests in the list of a larger graph: between these, what a second can make.
_FORESTS = (16, 128)
_EDGES = 1 << 22
# Probabilities may only be too small, which keeps them in the forest polytope.
_ROUNDING = 1e-12


def edge_probabilities(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    r"""Return a probability > 0 for each edge, all from one distribution of spanning forests.

    A spanning tree whose probability is proportional to the product of its weights has edge e with
    probability :math:`w_eR_e`, R the effective resistance (Kirchhoff); a large graph takes a list
    of forests, each of which prefers heavy edges that the ones before it left out.
    """
    if len(edges) == 0:
        return np.zeros(0)
    # weights far below the others would make the Laplacian singular, and the couplings infinite
    weights = np.maximum(weights, 1e-6 * weights.max())
    rho = _resistances(n, edges, weights) if n <= _DENSE else _shares(n, edges, weights)
    return np.clip(rho, _ROUNDING, 1.0) * (1.0 - _ROUNDING)


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of the greatest total gain."""
    i, j = edges.T
    # the order is all that counts, and the solver takes a price of 0 for no edge
    price = np.empty(len(edges))
    price[np.argsort(-gains, kind="stable")] = np.arange(1.0, len(edges) + 1.0)
    chosen = minimum_spanning_tree(csr_array((price, (i, j)), shape=(n, n))).tocoo()
    inside = np.isin(i * np.int64(n) + j, chosen.row * np.int64(n) + chosen.col)
    return inside.astype(np.float64)


def _resistances(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return weight times effective resistance between the ends, for each edge."""
    i, j = edges.T
    adjacency = coo_array((weights, (i, j)), shape=(n, n)).toarray()
    adjacency += adjacency.T
    _, part = connected_components(adjacency, directed=False)
    # the indicators of the components, which span the kernel, take the place of a grounded node
    together = weights.mean() * (part[:, None] == part)
    inverse = np.linalg.inv(np.diag(adjacency.sum(axis=1)) - adjacency + together)
    return np.asarray(weights * (inverse[i, i] + inverse[j, j] - inverse[i, j] - inverse[j, i]))


def _shares(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return in which share of a list of forests each edge is."""
    wanted = max(min(_FORESTS[1], _EDGES // len(edges)), _FORESTS[0], 4 * len(edges) // n)
    uses = np.zeros(len(edges))
    forests = 0
    while forests < wanted or uses.min() == 0:
        # once the list is long enough, forests that take all they can of what is left out
        gains = weights / (1.0 + uses) if forests < wanted else (uses == 0).astype(np.float64)
        uses += best_forest(n, edges, gains)
        forests += 1
    return uses / forests
