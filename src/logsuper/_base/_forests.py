"""Graphs without cycles, from the roots down."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from logsuper._base._types import IntArray

__all__ = ["root_forest"]


def root_forest(n: int, edges: IntArray) -> tuple[IntArray, IntArray] | None:
    """Direct the edges of a forest from a root of each tree to the leaves.

    Parameters
    ----------
    n : int
        Number of elements.
    edges : ndarray of shape (E, 2)
        Each pair at most once.

    Returns
    -------
    pairs : ndarray of shape (E, 2)
        (parent, child); an element is a child before it is a parent.
    index : ndarray of shape (E,)
        Which of the edges each pair is.
        None in place of both if there is a cycle.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper._base._forests import root_forest
    >>> pairs, index = root_forest(4, np.array([[2, 3], [0, 3]]))
    >>> pairs.tolist(), index.tolist()
    ([[0, 3], [3, 2]], [1, 0])
    >>> root_forest(3, np.array([[0, 1], [1, 2], [0, 2]])) is None
    True
    """
    # slow to import, and only needed here
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    i, j = edges.T
    graph = coo_array((np.ones(len(edges)), (i, j)), shape=(n, n))
    trees, label = connected_components(graph, directed=False)
    if len(edges) != n - trees:
        return None
    # one more element, n, above the first element of each tree
    _, roots = np.unique(label, return_index=True)
    ends = np.concatenate([i, np.full(trees, n)]), np.concatenate([j, roots])
    graph = coo_array((np.ones(n), ends), shape=(n + 1, n + 1))
    order, parents = breadth_first_order(graph.tocsr(), n, directed=False)
    children = order[1:][parents[order[1:]] != n]
    pairs = np.stack([parents[children], children], axis=1).astype(np.int64)
    place = np.full(n, -1, dtype=np.int64)  # of each child, its edge
    upward = parents[i] == j
    place[np.where(upward, i, j)] = np.arange(len(edges))
    return pairs, place[children]
