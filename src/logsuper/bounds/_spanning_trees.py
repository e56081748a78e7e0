"""Edge probabilities of random spanning forests."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from logsuper.functions._checks import FloatArray, IntArray

# Up to this many nodes the Laplacian is inverted.
_DENSE = 1024
# Forests, for larger graphs: within these limits what a second can make, but enough for every
# edge to be in about four.
_FORESTS = (16, 128)
_EDGES = 1 << 22
# Probabilities may only be too small, which keeps them in the forest polytope.
_ROUNDING = 1e-12


def edge_probabilities(n: int, edges: IntArray) -> FloatArray:
    r"""Return a probability > 0 for each edge, all from one distribution of spanning forests.

    In a uniform spanning tree an edge occurs with its effective resistance (Kirchhoff),
    :math:`L^+_{ii}+L^+_{jj}-2L^+_{ij}`. For large graphs it is the share of a list of spanning
    forests, each of which prefers the edges that the ones before it left out.
    """
    if len(edges) == 0:
        return np.zeros(0)
    rho = _resistances(n, edges) if n <= _DENSE else _shares(n, edges)
    return np.minimum(rho, 1.0) * (1.0 - _ROUNDING)


def _resistances(n: int, edges: IntArray) -> FloatArray:
    """Return the effective resistances between the ends of the edges."""
    i, j = edges.T
    adjacency = coo_array((np.ones(len(edges)), (i, j)), shape=(n, n)).toarray()
    adjacency += adjacency.T
    _, part = connected_components(adjacency, directed=False)
    # the indicators of the components, which span the kernel, take the place of a grounded node
    together = part[:, None] == part
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency + together
    inverse = np.linalg.inv(laplacian)
    return np.asarray(inverse[i, i] + inverse[j, j] - inverse[i, j] - inverse[j, i])


def _shares(n: int, edges: IntArray) -> FloatArray:
    """Return in which share of a list of forests each edge is."""
    i, j = edges.T
    wanted = max(min(_FORESTS[1], _EDGES // len(edges)), _FORESTS[0], 4 * len(edges) // n)
    place = csr_array((np.arange(len(edges)), (i, j)), shape=(n, n))
    uses = np.zeros(len(edges))
    forests = 0
    # a forest takes all it can of the unused edges, hence the second condition ends the loop
    while forests < wanted or uses.min() == 0:
        forests += 1
        price = csr_array((1.0 + uses[place.data], place.indices, place.indptr), shape=(n, n))
        chosen = minimum_spanning_tree(price).tocoo()
        uses[_find(place, chosen.row, chosen.col)] += 1.0
    return uses / forests


def _find(place: csr_array, rows: IntArray, columns: IntArray) -> IntArray:
    """Return the stored integers of a sparse matrix at the given entries."""
    return np.asarray(place[rows, columns], dtype=np.int64).ravel()
