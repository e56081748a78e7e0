"""Rooted forests (graphs without cycles)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from logsuper._base._checks import places_of
from logsuper._base._types import IntArray


def root_forest(n: int, edges: IntArray) -> tuple[IntArray, IntArray] | None:
    """Direct the edges of a forest away from one root per tree.

    Parameters
    ----------
    n : int
        Number of elements.
    edges : ndarray of shape (E, 2)
        Undirected edges, without repetitions.

    Returns
    -------
    pairs : ndarray of shape (E, 2)
        (parent, child), ordered so that the edge into an element precedes the edges out of it.
    index : ndarray of shape (E,)
        Row of `edges` that each pair comes from.
        If there is a cycle, None is returned instead of both arrays.

    Examples
    --------
    >>> import numpy as np
    >>> pairs, index = root_forest(4, np.array([[2, 3], [0, 3]]))
    >>> pairs.tolist(), index.tolist()
    ([[0, 3], [3, 2]], [1, 0])
    >>> root_forest(3, np.array([[0, 1], [1, 2], [0, 2]])) is None
    True
    """
    # slow to import and needed only here
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    i, j = edges.T
    graph = coo_array((np.ones(len(edges)), (i, j)), shape=(n, n))
    trees, label = connected_components(graph, directed=False)
    if len(edges) != n - trees:
        return None
    # add a node n, the parent of the first element of each tree
    _, roots = np.unique(label, return_index=True)
    ends = np.concatenate([i, np.full(trees, n)]), np.concatenate([j, roots])
    graph = coo_array((np.ones(n), ends), shape=(n + 1, n + 1))
    order, parents = breadth_first_order(graph.tocsr(), n, directed=False)
    children = order[1:][parents[order[1:]] != n]
    pairs = np.stack([parents[children], children], axis=1).astype(np.int64)
    below = np.where(parents[i] == j, i, j)  # the child of each edge
    return pairs, places_of(below, n)[children]
