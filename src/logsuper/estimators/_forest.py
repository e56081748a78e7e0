r"""Which features to couple: the forest of attractive pairs that explains the rows best.

The likelihood of a distribution whose couplings form a forest is largest for the pairs with the
greatest total mutual information (C. Chow and C. Liu, "Approximating discrete probability
distributions with dependence trees", 1968). Pairs that are seen unlike each other more often than
by chance cannot be coupled by a submodular function, and are left out.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from logsuper._base import FloatArray, IntArray

__all__ = ["attractive_forest"]

# Half an observation of each kind, which keeps probabilities away from 0.
_PRIOR = 0.5


def attractive_forest(rows: FloatArray) -> IntArray:
    """Return the pairs of features of the forest, (E, 2); NaN in the rows is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.estimators._forest import attractive_forest
    >>> x = np.random.default_rng(0).integers(0, 2, (100, 1)).astype(float)
    >>> attractive_forest(np.hstack([x, 1 - x, x])).tolist()  # the second excludes the others
    [[0, 2]]
    """
    known = (~np.isnan(rows)).astype(np.float64)
    one, zero = np.nan_to_num(rows), known - np.nan_to_num(rows)
    # of each pair, in how many rows it is (1, 1), (1, 0), (0, 1) and (0, 0), as a share
    counts = np.array([a.T @ b for a, b in ((one, one), (one, zero), (zero, one), (zero, zero))])
    shares = (counts + _PRIOR) / (counts.sum(axis=0) + 4.0 * _PRIOR)
    first, second = shares[0] + shares[1], shares[0] + shares[2]
    alone = np.array(
        [first * second, first * (1 - second), (1 - first) * second, (1 - first) * (1 - second)]
    )
    gain = (shares * np.log(shares / alone)).sum(axis=0)
    i, j = np.nonzero(np.triu((shares[0] > alone[0]) & (gain > 0), 1))
    # the solver takes the cheapest, and a price of 0 for no pair
    prices = coo_array((-gain[i, j], (i, j)), shape=gain.shape).tocsr()
    chosen = minimum_spanning_tree(prices).tocoo()
    pairs = np.stack([chosen.row, chosen.col], axis=1).astype(np.int64)
    pairs = np.sort(pairs, axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]
