r"""Forests: distributions whose couplings have no cycle, and the likeliest one of them.

.. math:: p(x)=\exp\Big(c+t^\top x+\sum_{(i,j)}J_{ij}x_ix_j\Big),\qquad J\ge0,

is known in closed form from the shares of rows in which two features are (1, 1), (1, 0), (0, 1) and
(0, 0): the likelihood is largest for the forest of pairs with the greatest total mutual information
(C. Chow and C. Liu, "Approximating discrete probability distributions with dependence trees",
1968), with couplings that give its pairs the shares that were seen. A pair that is seen unlike more
often than by chance would need J < 0, which is not submodular. Subject to J >= 0 its likeliest
coupling is 0, so that it is left out.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, root_forest
from logsuper.functions import Cut, Modular, SubmodularFunction

# Half an observation of each kind, which keeps probabilities away from 0.
_PRIOR = 0.5
# Maximum number of values held at once for rows with unknown entries.
_BLOCK = 1 << 22


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows of zeros and ones; those with unknown entries are kept apart.

    Attributes
    ----------
    count : int
    holes : ndarray of shape (count,)
        Whether a row has an unknown entry.
    complete : ndarray of shape (W, n)
        The rows without unknown entries.
    partial : ndarray of shape (count - W, n)
        The other rows, with 0 for unknown entries.
    known : ndarray of shape (count - W, n)
        Which of their entries are known.
    """

    count: int
    holes: NDArray[np.bool_]
    complete: FloatArray
    partial: FloatArray
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: FloatArray) -> Self:
        """Return rows that are given with NaN for unknown entries."""
        unknown = np.isnan(rows)
        holes: NDArray[np.bool_] = np.any(unknown, axis=1)
        partial = np.nan_to_num(rows[holes])
        return cls(len(rows), holes, rows[~holes], partial, ~unknown[holes])


@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """A distribution whose couplings form a forest.

    Attributes
    ----------
    pairs : ndarray of shape (E, 2)
        The coupled features, from the roots of the trees down; see `root_forest`.
    couplings : ndarray of shape (E,)
        J > 0.
    modular : ndarray of shape (n,)
        t.
    constant : float
        The log-probability c of x = 0.

    Examples
    --------
    >>> import numpy as np
    >>> shares = np.full((4, 2, 2), [[[0.4]], [[0.1]], [[0.1]], [[0.4]]])  # of one pair, twice
    >>> forest = Forest.likeliest(np.array([0.5, 0.5]), shares)
    >>> found = forest.log_likelihood(Rows.of(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, np.nan]])))
    >>> np.exp(found).round(3)
    array([0.4, 0.1, 0.5])
    """

    pairs: IntArray
    couplings: FloatArray
    modular: FloatArray
    constant: float

    @classmethod
    def independent(cls, p: FloatArray) -> Self:
        """Return independent features with probabilities p, in (0, 1)."""
        none = np.empty((0, 2), dtype=np.int64)
        return cls(none, np.empty(0), np.log(p / (1.0 - p)), float(np.log1p(-p).sum()))

    @classmethod
    def likeliest(cls, p: FloatArray, shares: FloatArray) -> Self:
        """Return the likeliest forest for the shares p of ones and (4, n, n) of pairs, all > 0."""
        rooted = root_forest(len(p), _span(shares))
        assert rooted is not None
        pairs = rooted[0]
        i, j = pairs.T
        both, first, second, neither = np.log(shares[:, i, j])
        # log p(x) = sum_i log p_i(x_i) + sum_ij log of p_ij(x_i, x_j) / (p_i(x_i) p_j(x_j))
        odds, absent = np.log(p / (1.0 - p)), np.log1p(-p)
        modular = odds.copy()
        np.add.at(modular, i, first - neither - odds[i])
        np.add.at(modular, j, second - neither - odds[j])
        constant = absent.sum() + (neither - absent[i] - absent[j]).sum()
        return cls(pairs, both + neither - first - second, modular, float(constant))

    # ---------------------------------------------------------------------------- as a submodular f

    @cached_property
    def cut(self) -> Cut:
        """The couplings: J x_i x_j is -J/2 |x_i - x_j| and a modular term."""
        order = np.lexsort(np.sort(self.pairs, axis=1).T[::-1])
        return Cut(len(self.modular), self.pairs[order], self.couplings[order] / 2.0)

    @cached_property
    def field(self) -> FloatArray:
        """The modular term that belongs to `cut`."""
        field = self.modular.copy()
        for end in self.pairs.T:
            np.add.at(field, end, self.couplings / 2.0)
        return field

    def energy(self) -> SubmodularFunction:
        """Return f, with log p = constant - f."""
        return self.cut - Modular(self.field)

    # ------------------------------------------------------------------------------------ inference

    def expect(self, p: FloatArray) -> float:
        """Return the mean of log p(x) over independent features with probabilities p."""
        i, j = self.pairs.T
        return float(self.constant + self.modular @ p + self.couplings @ (p[i] * p[j]))

    def log_likelihood(self, rows: Rows) -> FloatArray:
        """Return the log-probability of the known entries of each row, shape (count,)."""
        found = np.empty(rows.count)
        x, (i, j) = rows.complete, self.pairs.T
        found[~rows.holes] = self.constant + x @ self.modular + (x[:, i] * x[:, j]) @ self.couplings
        if rows.holes.any():
            found[rows.holes] = self._gather(rows.partial, rows.known)[1]
        return found

    def means(self, rows: Rows, weights: FloatArray) -> FloatArray:
        """Return the sum over the rows of their weight times the mean of x, shape (n,)."""
        if rows.holes.any() and len(self.pairs):
            return np.diagonal(self.together(rows, weights))
        filled = np.where(rows.known, rows.partial, expit(self.modular))
        return np.asarray(weights[~rows.holes] @ rows.complete + weights[rows.holes] @ filled)

    def together(self, rows: Rows, weights: FloatArray) -> FloatArray:
        """Return the sum over the rows of their weight times the mean of xx', shape (n, n)."""
        counted = weights > EPS  # smaller weights do not change the sum with a prior
        whole = counted[~rows.holes]
        x, w = rows.complete[whole], weights[~rows.holes][whole]
        found: FloatArray = x.T @ (x * w[:, None])
        use = np.flatnonzero(counted[rows.holes])
        size = max(1, _BLOCK // len(self.modular) ** 2)
        for first in range(0, len(use), size):
            part = use[first : first + size]
            found = found + self._expect_pairs(
                rows.partial[part], rows.known[part], weights[rows.holes][part]
            )
        return found

    def _gather(
        self, partial: FloatArray, known: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """Pass messages from the leaves to the roots.

        Returns the log-odds (n, M) of each feature given all that is known below it and a 0 above
        it, and the log-probability (M,) of what is known.
        """
        x, seen = partial.T, known.T
        odds = np.repeat(self.modular[:, None], len(partial), axis=1)
        total = np.full(len(partial), self.constant)
        for (parent, child), coupling in zip(
            self.pairs[::-1].tolist(), self.couplings[::-1].tolist(), strict=True
        ):
            sums = np.logaddexp(0.0, odds[child])
            total += np.where(seen[child], x[child] * odds[child], sums)
            more = np.logaddexp(0.0, odds[child] + coupling) - sums
            odds[parent] += np.where(seen[child], coupling * x[child], more)
        roots = self._roots
        sums = np.logaddexp(0.0, odds[roots])
        return odds, total + np.where(seen[roots], x[roots] * odds[roots], sums).sum(axis=0)

    def _expect_pairs(
        self, partial: FloatArray, known: NDArray[np.bool_], weights: FloatArray
    ) -> FloatArray:
        """Return the weighted sum of the means of xx' given what is known of each row."""
        n = len(self.modular)
        odds, _ = self._gather(partial, known)
        coupling = np.zeros(n)
        coupling[self.pairs[:, 1]] = self.couplings
        # the probability of a one, given a 0 above the feature and given a 1
        low = np.where(known, partial, expit(odds).T).T
        high = np.where(known, partial, expit(odds + coupling[:, None]).T).T
        above = dict(zip(self.pairs[:, 1].tolist(), self.pairs[:, 0].tolist(), strict=True))
        order = [*self._roots.tolist(), *self.pairs[:, 1].tolist()]
        place = {feature: k for k, feature in enumerate(order)}
        means = np.zeros((n, n, len(partial)))  # of x_a x_b, in this order of the features
        for k, feature in enumerate(order):
            single = means[np.arange(k), np.arange(k)]
            if feature in above:
                up = place[above[feature]]
                row = low[feature] * (single - means[up, :k]) + high[feature] * means[up, :k]
                own = low[feature] * (1.0 - single[up]) + high[feature] * single[up]
            else:
                row, own = low[feature] * single, low[feature]
            means[k, :k] = means[:k, k] = row
            means[k, k] = own
        found = np.empty((n, n))
        found[np.ix_(order, order)] = means @ weights
        return found

    @property
    def _roots(self) -> IntArray:
        """The features that are below no other."""
        return np.setdiff1d(np.arange(len(self.modular), dtype=np.int64), self.pairs[:, 1])


def independent_shares(p: FloatArray) -> FloatArray:
    """Return the shares (4, n, n) of pairs of independent features with probabilities p."""
    return _products(p[:, None], p[None, :])


def shares_of(together: FloatArray, total: float, prior: FloatArray) -> FloatArray:
    """Return the shares (4, n, n) of pairs in weighted rows, with prior weights added.

    Parameters
    ----------
    together : ndarray of shape (n, n)
        The weight of the rows in which both features of a pair are ones.
    total : float
        The weight of all rows.
    prior : ndarray of shape (4, n, n)
        Weights of the four kinds that are added to those of the rows.
    """
    ones = np.diagonal(together)
    alone = np.maximum(ones[:, None] - together, 0.0)  # rounding may leave less than 0
    neither = np.maximum(total - ones[:, None] - ones + together, 0.0)
    counts = np.array([together, alone, alone.T, neither]) + prior
    return np.asarray(counts / (total + prior[:, 0, 0].sum()))


def attractive_forest(rows: FloatArray) -> IntArray:
    """Return the pairs of features of the forest, (E, 2); NaN in a row is an unknown entry.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).integers(0, 2, (100, 1)).astype(float)
    >>> attractive_forest(np.hstack([x, 1 - x, x])).tolist()  # the second excludes the others
    [[0, 2]]
    """
    known = (~np.isnan(rows)).astype(np.float64)
    one, zero = np.nan_to_num(rows), known - np.nan_to_num(rows)
    # numbers of rows in which each pair is (1, 1), (1, 0), (0, 1) and (0, 0)
    counts = np.array([a.T @ b for a, b in ((one, one), (one, zero), (zero, one), (zero, zero))])
    return _span((counts + _PRIOR) / (counts.sum(axis=0) + 4.0 * _PRIOR))


def _span(shares: FloatArray) -> IntArray:
    """Return the forest of attractive pairs with the greatest total mutual information."""
    first, second = shares[0] + shares[1], shares[0] + shares[2]
    alone = _products(first, second)
    gain = (shares * np.log(shares / alone)).sum(axis=0)
    i, j = np.nonzero(np.triu((shares[0] > alone[0]) & (gain > 0), 1))
    # the solver minimises, and takes a price of 0 as the absence of a pair
    prices = coo_array((-gain[i, j], (i, j)), shape=gain.shape).tocsr()
    chosen = minimum_spanning_tree(prices).tocoo()
    pairs = np.sort(np.stack([chosen.row, chosen.col], axis=1).astype(np.int64), axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]


def _products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the probabilities of (1, 1), (1, 0), (0, 1) and (0, 0) of independent features."""
    no, none = 1 - first, 1 - second
    return np.array([first * second, first * none, no * second, no * none])
