r"""Incremental computation of gains along Markov chains that flip one element at a time.

A sweep of a Markov chain needs the gain of one element, perhaps flips that element, and then needs
the gain of the next. Computing each gain from scratch costs n evaluations of f per sweep. A `Walk`
stores a few numbers from which a gain is cheap to compute, and updates them after each flip. These
classes advance many chains in parallel; the kernels do the same for one or two chains at a time.
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

# Tolerated rounding error of a gain, relative to the values whose difference it is.
_SLACK = 1e-9


class Walk(ABC):
    """One term of a function, with the numbers it stores about the states (R, n) of R chains.

    The caller owns the states, flips their entries and reports each flip by `flipped`.

    Attributes
    ----------
    work : float
        Approximate number of elementary operations per visit to an element: its gain and an
        occasional flip.
    """

    work: float

    @abstractmethod
    def start(self, X: FloatArray) -> None:
        """Start from the states X (R, n), which are kept by reference."""

    @abstractmethod
    def gain(self, d: int) -> FloatArray:
        """Return ``f(x, x_d=1) - f(x, x_d=0)`` at each state, shape (R,)."""

    @abstractmethod
    def flipped(self, d: int, rows: IntArray) -> None:
        """Update the stored numbers after the caller flipped entry d of some rows of X."""

    def renew(self) -> None:
        """Recompute stored numbers that accumulate rounding errors; called before each sweep."""
        return

    def add_to(self, scan: Any, weight: float) -> bool:
        """Add the term to a scan of the compiled kernels; return whether they support it."""
        return False


class Evaluated(Walk):
    """A general function, for which a gain is the difference of two evaluations."""

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
        # `gain(d)` was called just before
        self._values[rows] = self._others[rows]

    def refuse_rise(self, gains: FloatArray, d: int) -> None:
        """Raise a ValueError if a gain (P, 2) rises from the smaller to the larger state."""
        excess = float((gains[:, 1] - gains[:, 0]).max())
        if excess > _SLACK * (1.0 + float(np.abs(self._values).max())):
            raise ValueError(
                f"{self._function!r} is not submodular: the gain of element {d} rises by "
                f"{excess:.3g} as others are switched on; check_submodular looks for such elements"
            )

    def _evaluate(self, X: FloatArray) -> FloatArray:
        """Return the values at the rows of X; raise a ValueError if one is not finite."""
        return self._function._in_blocks(self._function._evaluate, X, ())


class Facilities(Walk):
    """Facility location; stores the best and the second best benefit of each user.

    Without facility d, a user's benefit is the second best if d is the best, and else the best.
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
    """Piecewise-linear profiles; that of group g interpolates points start[g] to start[g + 1].

    The first point of each profile is (0, 0), the points increase, and the profile is constant
    beyond the last point.
    """

    start: IntArray
    point: FloatArray
    value: FloatArray

    @classmethod
    def stack(cls, points: ArrayLike, values: ArrayLike) -> Pieces:
        """Return profiles that interpolate rows of non-decreasing points (G, P).

        Of several equal points in a row, the first is used.
        """
        table = np.asarray(points, dtype=np.float64)
        keep = np.diff(table, axis=1, prepend=-1.0) > 0
        start = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
        return cls(start, table[keep], np.asarray(values, dtype=np.float64)[keep])


class Groups(Walk):
    r"""The function :math:`\sum_gh_g(\sum_{i\in g}w_{gi}x_i)`; stores the sum of each group.

    Parameters
    ----------
    n : int
    group, member, weight : ndarray of shape (E,)
        Element `member[p]` is in group `group[p]` with weight `weight[p]`.
    n_groups : int
    profile : callable
        The functions h.
    pieces : Pieces, optional
        The functions h as piecewise-linear functions, for the compiled kernels.
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
            # recompute: a profile such as the square root is steep at 0 and magnifies rounding
            self._sums[rows] = self._X[rows] @ self._incidence
            return
        groups, weight = self._of(d)
        sign = 2.0 * self._X[rows, d, None] - 1.0
        self._sums[np.ix_(rows, groups)] += sign * weight

    def _of(self, d: int) -> tuple[IntArray, FloatArray]:
        """Return the groups that contain element d, and its weights in them."""
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
    """Return the `Walk` of a function of a single weighted sum."""
    return Groups(n, np.zeros(len(members), np.int64), members, weights, 1, profile, pieces)


class Determinant(Walk):
    r"""The function :math:`\log\det K_{SS}`; stores conditional covariances of nested ranges.

    The gain of d is the logarithm of its variance given the other elements of S. Each stored
    covariance is that of a range of elements around the current one, given all elements of S
    outside the range. Halving a range conditions on the elements of S in its other half. A sweep in
    order of index halves each range once, at the cost of a few determinants, and never undoes a
    conditioning, which would be inaccurate where K is nearly singular.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    on : bool
        Whether S is the set of elements that are on; otherwise it is the set of those off.
    """

    def __init__(self, K: FloatArray, on: bool = True) -> None:
        self._K, self._on, self._variance = K, on, np.diagonal(K)
        self.work = 32.0 + len(K) ** 2 / 8

    def start(self, X: FloatArray) -> None:
        self._X = X
        self.renew()

    def renew(self) -> None:
        # (first, last, conditional covariance of this range for each state), widest range first
        self._levels = [(0, len(self._K), np.broadcast_to(self._K, (len(self._X), *self._K.shape)))]

    def gain(self, d: int) -> FloatArray:
        self._climb(d)
        first, last, _ = self._levels[-1]
        while last - first > 1:
            middle = (first + last) // 2
            own = slice(0, middle - first) if d < middle else slice(middle - first, last - first)
            self._halve(own)
            first, last, _ = self._levels[-1]
        # clip to the range of a conditional variance, which rounding may leave
        most = self._variance[d]
        variance = np.log(np.clip(self._levels[-1][2][:, 0, 0], EPS * most, most))
        return np.asarray(variance if self._on else -variance)

    def flipped(self, d: int, rows: IntArray) -> None:
        self._climb(d)

    def _climb(self, d: int) -> None:
        """Drop the ranges that do not contain element d."""
        while not self._levels[-1][0] <= d < self._levels[-1][1]:
            self._levels.pop()

    def _halve(self, own: slice) -> None:
        """Append one half of the last range, conditioned on the elements of S in the other half."""
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
    """Return Cholesky factors; a small ridge is added if rounding made a matrix singular."""
    ridge = 0.0
    while True:
        try:
            return np.asarray(np.linalg.cholesky(blocks + ridge * np.eye(blocks.shape[-1])))
        except np.linalg.LinAlgError:
            ridge = max(2.0 * ridge, EPS * float(np.abs(blocks).max()))
