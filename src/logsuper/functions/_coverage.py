"""Coverage and facility location functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import (
    FloatArray,
    IntArray,
    add_up,
    as_array,
    as_float,
    as_list,
    as_members,
    as_vector,
    frozen,
    places_of,
    refuse_negative,
)
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._graph import PairwiseGraph
from logsuper.functions._groups import GroupedFunction
from logsuper.functions._walks import Facilities, Pieces, Walk


class Coverage(GroupedFunction):
    r"""The weight of the covered items, :math:`\sum_u w_u[\,\text{some }i\text{ on covers }u\,]`.

    Parameters
    ----------
    sets : list of lists of int, or boolean array-like of shape (n, n_items)
        ``sets[i]`` is the list or set of items that element i covers, or their indicator vector.
    weights : float or array-like of shape (n_items,), default 1.0
        Weight of each item, non-negative.

    Attributes
    ----------
    weights : ndarray of shape (n_items,)

    Examples
    --------
    >>> from logsuper.functions import Coverage
    >>> f = Coverage([[0, 1], [1, 2], []], weights=[1.0, 2.0, 4.0])
    >>> f([[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    array([3., 7., 0.])
    """

    def __init__(self, sets: Iterable[Any], weights: ArrayLike = 1.0) -> None:
        worth = as_float(weights, "weights")
        listed = as_list(sets, "sets", "a list of lists of items or a boolean matrix")
        rows = [as_array(row, f"sets[{i}]") for i, row in enumerate(listed)]
        if isinstance(sets, np.ndarray) and sets.ndim == 2 and sets.shape[1] > 1:
            if sets.dtype.kind in "iuf" and np.isin(sets, (0, 1)).all():
                raise ValueError(
                    "sets is a matrix of the numbers 0 and 1: pass a boolean matrix, "
                    "sets.astype(bool), or lists of items"
                )
        if rows and all(row.dtype == bool and row.ndim == 1 for row in rows):
            if len({len(row) for row in rows}) > 1:
                raise ValueError("the rows of a boolean sets matrix must have the same length")
            items = len(rows[0])
            rows = [np.flatnonzero(row) for row in rows]
        elif worth.ndim == 1:
            items = len(worth)
        else:
            whole = (row for row in rows if row.size and row.dtype.kind in "iu")
            items = 1 + max((int(row.max()) for row in whole), default=-1)
        covered = [as_members(row, items, f"sets[{i}]") for i, row in enumerate(rows)]
        worth = as_vector(weights, "weights", items)
        refuse_negative(worth, "weights", "covering this item would be punished, not submodular")
        element = np.repeat(np.arange(len(rows)), [len(row) for row in covered])
        item = np.concatenate([np.empty(0, dtype=np.int64), *covered])
        self._build(len(rows), item, element, worth)

    def _build(self, n: int, item: IntArray, element: IntArray, weights: FloatArray) -> None:
        order = np.argsort(item, kind="stable")
        self.n = n
        self.n_groups = len(weights)
        self.group = frozen(item[order])
        self.member = frozen(element[order])
        self.weight = frozen(np.ones(len(item)))
        self.weights = frozen(weights)

    def _profile(self, V: FloatArray, group: IntArray | slice) -> FloatArray:
        return self.weights[group] * (V > 0)

    def _pieces(self) -> Pieces:
        points = np.tile([0.0, 1.0], (self.n_groups, 1))
        return Pieces.stack(points, points * self.weights[:, None])

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        covered = np.zeros(self.n_groups, dtype=bool)
        covered[self.group[point[self.member] > 0]] = True
        member = places_of(free, self.n)[self.member]
        left = (member >= 0) & ~covered[self.group]
        number = np.cumsum(~covered) - 1
        group, weights = number[self.group[left]], self.weights[~covered]
        return Coverage._built(len(free), group, member[left], weights)

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        # an item is missed if all elements that cover it are off
        missed, without = self._products(1.0 - Q)
        gradients = (self.weights[self.group] * without) @ self._incidence[1]
        return (1.0 - missed) @ self.weights, np.asarray(gradients)

    def graph(self) -> PairwiseGraph:
        """Return a graph with one auxiliary node per item that more than two elements cover."""
        return PairwiseGraph.from_truncations(
            self.n,
            thresholds=self.weights,
            group=self.group,
            member=self.member,
            weight=self.weights[self.group],
            side=np.ones(self.n_groups, dtype=np.int64),
        )

    def __repr__(self) -> str:
        return f"Coverage(n={self.n}, items={self.n_groups})"


class FacilityLocation(SubmodularFunction):
    r"""The benefit of the best open facility per user, :math:`\sum_u\max_{i:x_i=1}b_{ui}`.

    The benefit is 0 if no facility is open.

    Parameters
    ----------
    benefits : array-like of shape (n_users, n)
        Benefit of facility i to user u, non-negative.

    Attributes
    ----------
    benefits : ndarray of shape (n_users, n)

    Examples
    --------
    >>> from logsuper.functions import FacilityLocation
    >>> f = FacilityLocation([[3.0, 1.0, 0.0], [0.0, 2.0, 5.0]])
    >>> f([[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    array([3., 5., 8.])
    """

    def __init__(self, benefits: ArrayLike) -> None:
        table = as_float(benefits, "benefits")
        if table.ndim != 2:
            raise ValueError(f"benefits must have shape (n_users, n), got {table.shape}")
        refuse_negative(table, "benefits", "opening a facility cannot hurt a user")
        self.benefits = frozen(table)
        self.n = table.shape[1]

    def _evaluate(self, X: FloatArray) -> FloatArray:
        best = (X[:, None, :] * self.benefits).max(axis=2, initial=0.0)
        return np.asarray(best.sum(axis=1))

    def _gains(self, X: FloatArray) -> FloatArray:
        open_ = X[:, None, :] * self.benefits
        winner = open_.argmax(axis=2)[..., None]
        best = np.take_along_axis(open_, winner, axis=2)
        np.put_along_axis(open_, winner, 0.0, axis=2)
        second = open_.max(axis=2, keepdims=True)
        # benefit of each user without facility d: the second best if d is the best
        without = np.where(np.arange(self.n) == winner, second, best)
        return np.asarray(np.maximum(self.benefits - without, 0.0).sum(axis=1))

    def _chain(self, order: IntArray) -> FloatArray:
        steps = np.empty(order.shape)
        for m, row in enumerate(order):
            best = np.maximum.accumulate(self.benefits[:, row], axis=1)
            steps[m] = np.diff(best, axis=1, prepend=0.0).sum(axis=0)
        return steps

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        best = (self.benefits * point).max(axis=1, initial=0.0)
        return FacilityLocation(np.maximum(self.benefits[:, free] - best[:, None], 0.0))

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        order = np.argsort(-self.benefits, axis=1, kind="stable")
        worth = np.take_along_axis(self.benefits, order, axis=1)
        open_ = Q[:, order]
        # expected surplus of each facility to a user over the best of the lower-ranked ones
        surplus = np.empty(open_.shape)
        best = np.zeros(open_.shape[:2])
        for k in reversed(range(self.n)):
            surplus[..., k] = worth[:, k] - best
            best += open_[..., k] * surplus[..., k]
        # the surplus is realised only if all higher-ranked facilities are closed
        surplus[..., 1:] *= np.cumprod(1.0 - open_[..., :-1], axis=2)
        gradients = np.empty(open_.shape)
        np.put_along_axis(gradients, order[None].repeat(len(Q), axis=0), surplus, axis=2)
        return best.sum(axis=1), gradients.sum(axis=1)

    def _walks(self) -> list[tuple[float, Walk]]:
        return [(1.0, Facilities(self.benefits))]

    def _row_size(self) -> int:
        return max(1, self.benefits.size)

    def graph(self) -> PairwiseGraph:
        r"""Return a graph with one auxiliary node per user and distinct benefit.

        With levels :math:`v_1>\dots>v_L>v_{L+1}=0` of one user, node :math:`b_l` indicates that a
        facility of level l or better is open: it costs :math:`v_l-v_{l+1}`, and :math:`b_l=0` while
        a facility of level l is open, or while :math:`b_{l-1}=1`, costs :math:`v_l`.
        """
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        arcs, nodes, costs = [(none, none, nothing)], [none], [nothing]
        size = self.n
        for benefit in self.benefits:
            facility = np.flatnonzero(benefit)
            if len(facility) == 0:
                continue
            negated, level = np.unique(-benefit[facility], return_inverse=True)
            values = -negated
            alone = facility[level == 0]  # a unique best facility serves as the first level's node
            alone = alone if len(alone) == 1 else alone[:0]
            node = np.concatenate([alone, size + np.arange(len(values) - len(alone))])
            size += len(values) - len(alone)
            own = node[level] != facility
            arcs.append((facility[own], node[level][own], values[level][own]))
            arcs.append((node[:-1], node[1:], values[1:]))
            nodes.append(node)
            costs.append(-np.diff(values, append=0.0))
        tails, heads, prices = (np.concatenate(part) for part in zip(*arcs, strict=True))
        unary = add_up(np.concatenate(nodes), np.concatenate(costs), size)
        return PairwiseGraph.from_arcs(self.n, size - self.n, tails, heads, prices, unary)

    def __repr__(self) -> str:
        return f"FacilityLocation(n={self.n}, users={len(self.benefits)})"
