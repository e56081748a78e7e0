"""Higher-order potentials that favour agreement within sets: P^n Potts and robust P^n."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import (
    EPS,
    FloatArray,
    IntArray,
    add_up,
    as_hyperedges,
    as_list,
    as_vector,
    check_size,
    frozen,
    is_bit,
    is_single,
    refuse_negative,
)
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._cut import Cut
from logsuper.functions._expectation import mean_of_count
from logsuper.functions._graph import PairwiseGraph
from logsuper.functions._groups import GroupedFunction
from logsuper.functions._sum import combine
from logsuper.functions._walks import Pieces

_MEMBERS = "a list of elements or a list of such lists"


class PnPotts(GroupedFunction):
    r"""The :math:`P^n` Potts model, :math:`\sum_h w_h[\,x\text{ is not constant on }h\,]`.

    Parameters
    ----------
    n : int
        Number of elements.
    members : list of int, or list of lists of int
        The elements of one hyperedge, or of several; a Python set counts as a sorted list.
    weight : float or array-like of shape (n_groups,), default 1.0
        Cost of disagreement in each hyperedge, non-negative.

    Attributes
    ----------
    members : tuple of ndarray
    weights : ndarray of shape (n_groups,)

    References
    ----------
    Kohli, Kumar, Torr, "P3 & beyond: solving energies with higher order cliques", CVPR 2007.

    Examples
    --------
    >>> from logsuper.functions import PnPotts
    >>> f = PnPotts(4, [[0, 1, 2], [2, 3]], weight=[2.0, 1.0])
    >>> f([[1, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]])
    array([1., 2., 0.])
    """

    def __init__(self, n: int, members: Iterable[Any], weight: ArrayLike = 1.0) -> None:
        size = check_size(n)
        groups = as_hyperedges(as_list(members, "members", _MEMBERS), size)
        weights = as_vector(weight, "weight", len(groups))
        refuse_negative(weights, "weight", "this hyperedge would be repulsive, not submodular")
        self._build(size, groups, weights)

    def _build(self, n: int, groups: list[IntArray], weights: FloatArray) -> None:
        self._set_groups(n, groups, [np.ones(len(group)) for group in groups])
        self.weights = frozen(weights)
        self._sizes = np.array([len(group) for group in groups], dtype=np.float64)

    def _profile(self, V: FloatArray, group: IntArray | slice) -> FloatArray:
        return self.weights[group] * ((V > 0) & (V < self._sizes[group]))

    def _pieces(self) -> Pieces:
        size = np.maximum(self._sizes, 1.0)
        price = self.weights * (size > 1)
        zero, one = np.zeros_like(size), np.ones_like(size)
        points = np.stack([zero, one, np.maximum(size - 1.0, 1.0), size], axis=1)
        return Pieces.stack(points, np.stack([zero, price, price, zero], axis=1))

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        ones, others_one = self._products(Q)
        zeros, others_zero = self._products(1.0 - Q)
        price = self.weights[self.group]
        gradients = (price * (others_zero - others_one)) @ self._incidence[1]
        values = (1.0 - ones - zeros) @ (self.weights * (self._sizes > 0))
        return values, np.asarray(gradients)

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        fixed = np.ones(self.n, dtype=bool)
        fixed[free] = False
        ones = add_up(self.group, (fixed & (point == 1))[self.member].astype(float), self.n_groups)
        zeros = add_up(self.group, (fixed & (point == 0))[self.member].astype(float), self.n_groups)

        # if the fixed members of a hyperedge are all 0, any free one costs its weight once; and
        # the same with 0 and 1 exchanged
        untouched = np.flatnonzero((ones == 0) & (zeros == 0))
        left = self._keep(free, untouched)[0]
        rest = PnPotts._built(len(free), left, self.weights[untouched])
        parts: list[tuple[float, SubmodularFunction]] = [(1.0, rest)]
        for side, agree in ((1, ones == 0), (0, zeros == 0)):
            keep = np.flatnonzero(agree & ((ones > 0) | (zeros > 0)))
            groups, _ = self._keep(free, keep)
            if any(len(group) for group in groups):
                price = self.weights[keep]
                spread = [np.full(len(g), w) for g, w in zip(groups, price, strict=True)]
                parts.append((1.0, RobustPn._built(len(free), groups, spread, price, side)))
        return combine(parts if len(untouched) or len(parts) == 1 else parts[1:])

    def graph(self) -> PairwiseGraph:
        """Return a graph with two auxiliary nodes per hyperedge of more than three elements."""
        # [not constant] = min(1, sum x) + min(1, sum (1 - x)) - 1
        large = np.flatnonzero(self._sizes > 3)
        entries = np.isin(self.group, large)
        group = np.searchsorted(large, self.group[entries])
        price = self.weights[large]
        graph = PairwiseGraph.from_truncations(
            self.n,
            thresholds=np.tile(price, 2),
            group=np.concatenate([group, group + len(large)]),
            member=np.tile(self.member[entries], 2),
            weight=np.tile(price[group], 2),
            side=np.repeat([1, 0], len(large)),
            constant=-float(price.sum()),
        )
        # if two (three) elements are not all equal, exactly one (two) of their pairs differ
        pairs: list[tuple[int, ...]] = []
        prices: list[float] = []
        for members, weight in zip(self.members, self.weights, strict=True):
            if 2 <= len(members) <= 3:
                inside = list(combinations(members.tolist(), 2))
                pairs += inside
                prices += [weight / (len(members) - 1)] * len(inside)
        direct = Cut(self.n, pairs, prices).graph()
        return PairwiseGraph.combine(self.n, [(1.0, graph), (1.0, direct)])

    def __repr__(self) -> str:
        return f"PnPotts(n={self.n}, hyperedges={self.n_groups})"


class RobustPn(GroupedFunction):
    r"""The robust :math:`P^n` model: a cost per deviating element, up to a threshold.

    With side 1 the ones deviate, :math:`\sum_h\min(\tau_h,\sum_{i\in h}w_i x_i)`; with side 0 the
    zeros do, :math:`\sum_h\min(\tau_h,\sum_{i\in h}w_i(1-x_i))` minus its value at x = 0.

    Parameters
    ----------
    n : int
        Number of elements.
    members : list of int, or list of lists of int
        The elements of one hyperedge, or of several; a Python set counts as a sorted list.
    threshold : float or array-like of shape (n_groups,)
        Maximum cost of each hyperedge, non-negative.
    weights : float or (list of) array-like, default 1.0
        Cost of each member: one number for all, or numbers arranged like `members`.
    side : {1, 0}, default 1
        The value of an element that is charged.

    Attributes
    ----------
    members : tuple of ndarray
    weights : tuple of ndarray
    threshold : ndarray of shape (n_groups,)
    side : int

    References
    ----------
    Kohli, Ladický, Torr, "Robust higher order potentials for enforcing label consistency",
    IJCV 2009.

    Examples
    --------
    >>> from logsuper.functions import RobustPn
    >>> f = RobustPn(4, [0, 1, 2, 3], threshold=2.0, weights=0.75)
    >>> f([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    array([0.75, 1.5 , 2.  ])
    """

    def __init__(
        self,
        n: int,
        members: Iterable[Any],
        threshold: ArrayLike,
        weights: Any = 1.0,
        side: int = 1,
    ) -> None:
        size = check_size(n)
        given = as_list(members, "members", _MEMBERS)
        groups = as_hyperedges(given, size)
        single = len(groups) == 1 and is_single(given[0])
        limits = as_vector(threshold, "threshold", len(groups))
        refuse_negative(limits, "threshold", "a hyperedge costs at least 0")
        if not is_bit(side):
            raise ValueError(f"side must be 0 or 1, got {side!r}")
        one_number = isinstance(weights, Real) or getattr(weights, "ndim", 1) == 0
        shared = single or one_number
        parts = (
            [weights] * len(groups)
            if shared
            else as_list(weights, "weights", "a number or one part per hyperedge")
        )
        if len(parts) != len(groups):
            raise ValueError(f"weights must have {len(groups)} parts, got {len(parts)}")
        prices = []
        for k, (part, group) in enumerate(zip(parts, groups, strict=True)):
            name = "weights" if shared else f"weights[{k}]"
            price = as_vector(part, name, len(group))
            refuse_negative(price, name, "its member would be rewarded, which is not submodular")
            prices.append(price)
        self._build(size, groups, prices, limits, int(side))

    def _build(
        self,
        n: int,
        groups: list[IntArray],
        weights: list[FloatArray],
        threshold: FloatArray,
        side: int,
    ) -> None:
        self._set_groups(n, groups, weights)
        self.weights = tuple(frozen(weight) for weight in weights)
        self.threshold = frozen(threshold)
        self.side = side
        self._total = np.array([weight.sum() for weight in weights], dtype=np.float64)

    def _profile(self, V: FloatArray, group: IntArray | slice) -> FloatArray:
        limit = self.threshold[group]
        if self.side == 1:
            return np.minimum(limit, V)
        total = self._total[group]
        return np.minimum(limit, np.maximum(total - V, 0.0)) - np.minimum(limit, total)

    def _pieces(self) -> Pieces:
        zero, limit = np.zeros_like(self.threshold), np.minimum(self.threshold, self._total)
        if self.side == 1:
            points = np.stack([zero, limit], axis=1)
            return Pieces.stack(points, points)
        points = np.stack([zero, self._total - limit, self._total], axis=1)
        return Pieces.stack(points, np.stack([zero, zero, -limit], axis=1))

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, errors = super()._evaluate_within(X)
        if self.side == 0:  # the cost of the zeros is computed as a difference
            errors = errors + EPS * (self._row_size() + 8.0) * float(self._total.sum())
        return values, errors

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        # with equal costs within each hyperedge, f is a sum of functions of counts
        if any(len(price) and np.ptp(price) > 0 for price in self.weights):
            return None
        values, gradients = np.zeros(len(Q)), np.zeros(Q.shape)
        sizes = np.array([len(group) for group in self.members])
        for size in np.unique(sizes[sizes > 0]):
            groups = np.flatnonzero(sizes == size)
            members = np.stack([self.members[g] for g in groups])
            price = np.array([self.weights[g][0] for g in groups])
            table = self._profile(np.outer(np.arange(size + 1), price), groups)
            slopes = np.tile(np.diff(table, axis=0).T, (len(Q), 1))
            mean, slope = mean_of_count(Q[:, members].reshape(len(Q) * len(groups), size), slopes)
            values += mean.reshape(len(Q), len(groups)).sum(axis=1)
            for m, row in enumerate(slope.reshape(len(Q), members.size)):
                gradients[m] += add_up(members.ravel(), row, self.n)
        return values, gradients

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        deviates = point == self.side
        deviates[free] = False
        spent = add_up(self.group, self.weight * deviates[self.member], self.n_groups)
        groups, weights = self._keep(free, np.arange(self.n_groups))
        left = np.maximum(self.threshold - spent, 0.0)
        return RobustPn._built(len(free), groups, weights, left, self.side)

    def graph(self) -> PairwiseGraph:
        """Return a graph with one auxiliary node per hyperedge of more than two elements."""
        shift = 0.0 if self.side == 1 else np.minimum(self.threshold, self._total).sum()
        return PairwiseGraph.from_truncations(
            self.n,
            thresholds=self.threshold,
            group=self.group,
            member=self.member,
            weight=self.weight,
            side=np.full(self.n_groups, self.side),
            constant=-float(shift),
        )

    def __repr__(self) -> str:
        return f"RobustPn(n={self.n}, hyperedges={self.n_groups}, side={self.side})"
