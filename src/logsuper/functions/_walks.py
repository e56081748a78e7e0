r"""Gains of one element at a time, along walks that flip one element at a time.

A sweep of a Markov chain asks for one gain, perhaps flips that element, and asks for the gain of
the next. Evaluating f anew for each of them costs n evaluations per sweep; a walk keeps a few
numbers from which a gain takes few steps, and which a flip brings up to date. Many walks go side by
side here; the kernels do the same for one or two at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from logsuper._base import EPS, FloatArray, IntArray

if TYPE_CHECKING:
    from logsuper.functions._base import SubmodularFunction

# profile(V, group) returns h_g at column p of V (R, P) for ``group[p]``.
Profile = Callable[[FloatArray, IntArray], FloatArray]

# Rounding errors of a gain are smaller than this, relative to the values it is a difference of.
_SLACK = 1e-9


class Walk(ABC):
    """One term of a function, and what it keeps of the states (R, n) that walk.

    The states belong to the caller, who flips entries of them and says so.

    Attributes
    ----------
    work : float
        About how many numbers a visit to an element handles: its gain and, now and then, its flip.
    """

    work: float

    @abstractmethod
    def start(self, X: FloatArray) -> None:
        """Begin at the states X (R, n), which are kept by reference."""

    @abstractmethod
    def gain(self, d: int) -> FloatArray:
        """Return ``f(x, x_d=1) - f(x, x_d=0)`` at each state, (R,), whatever x_d is."""

    @abstractmethod
    def flipped(self, d: int, rows: IntArray) -> None:
        """Take note that entry d of some rows of X has been flipped."""

    def renew(self) -> None:
        """Make numbers again that rounding may have spoilt; asked for before each sweep."""
        return

    def add_to(self, scan: Any, weight: float) -> bool:
        """Add the term to a scan of the kernels; return whether they can do it."""
        return False


class Evaluated(Walk):
    """A function of which nothing is known: a gain is the difference of two values."""

    def __init__(self, function: SubmodularFunction) -> None:
        self._function = function
        self.work = function._row_cost()

    def start(self, X: FloatArray) -> None:
        self._X = X
        self._values = self._evaluate(X)

    def gain(self, d: int) -> FloatArray:
        old = self._X[:, d].copy()
        self._X[:, d] = 1.0 - old
        self._others = self._evaluate(self._X)
        self._X[:, d] = old
        return (self._others - self._values) * (1.0 - 2.0 * old)

    def flipped(self, d: int, rows: IntArray) -> None:
        # its gain was asked for just before
        self._values[rows] = self._others[rows]

    def refuse_rise(self, gains: FloatArray, d: int) -> None:
        """Refuse gains (P, 2) of pairs of states that rise from the smaller to the larger one."""
        excess = float((gains[:, 1] - gains[:, 0]).max())
        if excess > _SLACK * (1.0 + float(np.abs(self._values).max())):
            raise ValueError(
                f"{self._function!r} is not submodular: the gain of element {d} rises by "
                f"{excess:.3g} as others are switched on; check_submodular looks for such elements"
            )

    def _evaluate(self, X: FloatArray) -> FloatArray:
        """Return the values at the rows of X; one that is not finite is refused."""
        return self._function._in_blocks(self._function._evaluate, X, ())


class Facilities(Walk):
    """The best and the second best benefit of each user.

    Without facility d a user has the second best if d is the best; and if it is not, what d is
    worth is no more than the second best.
    """

    def __init__(self, benefits: FloatArray) -> None:
        self._benefits = benefits
        self._rows = np.ascontiguousarray(benefits.T)
        self.work = 8.0 + len(benefits)

    def start(self, X: FloatArray) -> None:
        self._X = X
        self._best, self._second = np.zeros((2, len(X), len(self._benefits)))
        for d in range(X.shape[1]):
            self._open(d, np.flatnonzero(X[:, d]))

    def gain(self, d: int) -> FloatArray:
        without = np.where(self._X[:, d, None] > 0, self._second, self._best)
        return np.asarray(np.maximum(self._rows[d] - without, 0.0).sum(axis=1))

    def flipped(self, d: int, rows: IntArray) -> None:
        on = self._X[rows, d] > 0
        self._open(d, rows[on])
        closed = rows[~on]
        row, user = np.nonzero((self._rows[d] >= self._second[closed]) & (self._rows[d] > 0))
        if len(row) == 0:
            return
        row = closed[row]
        left = np.zeros((len(row), max(2, len(self._rows))))
        left[:, : len(self._rows)] = self._benefits[user] * self._X[row]
        left.partition(left.shape[1] - 2, axis=1)
        self._second[row, user], self._best[row, user] = left[:, -2:].T

    def _open(self, d: int, rows: IntArray) -> None:
        benefit, best = self._rows[d], self._best[rows]
        self._second[rows] = np.maximum(self._second[rows], np.minimum(benefit, best))
        self._best[rows] = np.maximum(best, benefit)

    def add_to(self, scan: Any, weight: float) -> bool:
        scan.add_facilities(weight, self._benefits)
        return True


class Pieces(NamedTuple):
    """Piecewise-linear profiles: of group g through the points start[g] to start[g + 1].

    The first point of each is (0, 0); they increase, and beyond the last the profile is constant.
    """

    start: IntArray
    point: FloatArray
    value: FloatArray

    @classmethod
    def stack(cls, points: ArrayLike, values: ArrayLike) -> Pieces:
        """Return profiles through rows of points (G, P) that do not decrease.

        Of equal ones the first counts.
        """
        table = np.asarray(points, dtype=np.float64)
        keep = np.diff(table, axis=1, prepend=-1.0) > 0
        start = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
        return cls(start, table[keep], np.asarray(values, dtype=np.float64)[keep])


class Groups(Walk):
    r"""The sums of the groups, for :math:`\sum_gh_g(\sum_{i\in g}w_{gi}x_i)`.

    Parameters
    ----------
    n : int
    group, member, weight : ndarray of shape (E,)
        Element `member[p]` is in group `group[p]` with weight `weight[p]`.
    n_groups : int
    profile : callable
    pieces : Pieces, optional
        The same, for kernels.
    """

    def __init__(
        self,
        n: int,
        group: IntArray,
        member: IntArray,
        weight: FloatArray,
        n_groups: int,
        profile: Profile,
        pieces: Pieces | None = None,
    ) -> None:
        order = np.argsort(member, kind="stable")
        self._group, self._weight = group[order], weight[order]
        self._start = np.searchsorted(member[order], np.arange(n + 1)).astype(np.int64)
        self._incidence = csr_array((self._weight, self._group, self._start), (n, n_groups))
        self._profile, self._pieces = profile, pieces
        self.work = 8.0 + 16.0 * len(group) / n

    def start(self, X: FloatArray) -> None:
        self._X = X
        self.renew()

    def renew(self) -> None:
        self._sums = np.asarray(self._X @ self._incidence)

    def gain(self, d: int) -> FloatArray:
        groups, weight = self._of(d)
        without = np.maximum(self._sums[:, groups] - self._X[:, d, None] * weight, 0.0)
        change = self._profile(without + weight, groups) - self._profile(without, groups)
        return np.asarray(change.sum(axis=1))

    def flipped(self, d: int, rows: IntArray) -> None:
        if self._pieces is None:
            # a profile such as the root is steep at 0, where a sum must not be 0 but for rounding
            self._sums[rows] = self._X[rows] @ self._incidence
            return
        groups, weight = self._of(d)
        sign = 2.0 * self._X[rows, d, None] - 1.0
        self._sums[np.ix_(rows, groups)] += sign * weight

    def _of(self, d: int) -> tuple[IntArray, FloatArray]:
        """Return the groups of an element and its weights in them."""
        entries = slice(int(self._start[d]), int(self._start[d + 1]))
        return self._group[entries], self._weight[entries]

    def add_to(self, scan: Any, weight: float) -> bool:
        if self._pieces is None:
            return False
        scan.add_groups(weight, self._start, self._group, self._weight, *self._pieces)
        return True


def one_group(
    n: int, members: IntArray, weights: FloatArray, profile: Profile, pieces: Pieces | None
) -> Groups:
    """Return the walk of a function of one weighted sum."""
    return Groups(n, np.zeros(len(members), np.int64), members, weights, 1, profile, pieces)


class Determinant(Walk):
    r"""Conditional kernels of ever smaller ranges of elements, for :math:`\log\det K_{SS}`.

    The gain of d is the logarithm of its variance given the others in S. Each kernel is that of a
    range around the element that was asked for last, given all of S outside of the range. Halving
    a range takes the other half of it into account: a sweep in order halves each range once,
    which costs no more than some determinants, and takes nothing back, which would be inaccurate
    where K is nearly singular.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    on : bool
        Whether S are the elements that are on, or those that are off.
    """

    def __init__(self, K: FloatArray, on: bool = True) -> None:
        self._K, self._on, self._variance = K, on, np.diagonal(K)
        self.work = 32.0 + len(K) ** 2 / 8

    def start(self, X: FloatArray) -> None:
        self._X = X
        self.renew()

    def renew(self) -> None:
        # the range, and its kernel for each state
        self._levels = [(0, len(self._K), np.broadcast_to(self._K, (len(self._X), *self._K.shape)))]

    def gain(self, d: int) -> FloatArray:
        self._climb(d)
        first, last, _ = self._levels[-1]
        while last - first > 1:
            middle = (first + last) // 2
            own = slice(0, middle - first) if d < middle else slice(middle - first, last - first)
            self._halve(own)
            first, last, _ = self._levels[-1]
        # within what a variance can be but for rounding
        most = self._variance[d]
        variance = np.log(np.clip(self._levels[-1][2][:, 0, 0], EPS * most, most))
        return np.asarray(variance if self._on else -variance)

    def flipped(self, d: int, rows: IntArray) -> None:
        self._climb(d)

    def _climb(self, d: int) -> None:
        """Forget the ranges that do not have element d."""
        while not self._levels[-1][0] <= d < self._levels[-1][1]:
            self._levels.pop()

    def _halve(self, own: slice) -> None:
        """Add one half of the last range, given those of the other half that are in S."""
        first, last, K = self._levels[-1]
        other = slice(own.stop, last - first) if own.start == 0 else slice(0, own.start)
        given = self._X[:, first:last][:, other]
        given = given if self._on else 1.0 - given
        block = K[:, other, other] * given[:, :, None] * given[:, None, :]
        place = np.arange(block.shape[1])
        block[:, place, place] += 1.0 - given
        root = cholesky(block)
        explained = np.linalg.solve(root, K[:, other, own] * given[:, :, None])
        rest = K[:, own, own] - np.swapaxes(explained, 1, 2) @ explained
        self._levels.append((first + own.start, first + own.stop, rest))

    def add_to(self, scan: Any, weight: float) -> bool:
        scan.add_determinant(weight, self._K, self._on)
        return True


def cholesky(blocks: FloatArray) -> FloatArray:
    """Return the factors of positive definite matrices, which rounding may have made singular."""
    ridge = 0.0
    while True:
        try:
            return np.asarray(np.linalg.cholesky(blocks + ridge * np.eye(blocks.shape[-1])))
        except np.linalg.LinAlgError:
            ridge = max(2.0 * ridge, EPS * float(np.abs(blocks).max()))
