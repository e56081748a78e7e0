"""Common base of functions that are sums over groups of elements."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from logsuper._base import FloatArray, IntArray, frozen, places_of
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._walks import Groups, Pieces, Walk


class GroupedFunction(SubmodularFunction):
    r"""A sum over groups, :math:`f(x)=\sum_g h_g(\sum_{i\in g}w_{gi}x_i)`, each h concave.

    Entry p of the three arrays says that element `member[p]` is in group `group[p]` with weight
    `weight[p]`; the entries are sorted by group.  A family defines h in `_profile`.
    """

    n: int
    n_groups: int
    group: IntArray
    member: IntArray
    weight: FloatArray

    @abstractmethod
    def _profile(self, V: FloatArray, group: IntArray | slice) -> FloatArray:
        """Return :math:`h_g(v)`, with :math:`h_g(0)=0`; column p of V belongs to ``group[p]``."""

    @abstractmethod
    def _pieces(self) -> Pieces:
        """Return piecewise-linear functions equal to the profiles at all sums that can occur."""

    def _set_groups(self, n: int, groups: list[IntArray], weights: list[FloatArray]) -> None:
        self.n = n
        self.n_groups = len(groups)
        self.members = tuple(frozen(group) for group in groups)
        sizes = [len(group) for group in groups]
        self.group = frozen(np.repeat(np.arange(len(groups)), sizes))
        self.member = frozen(np.concatenate([np.empty(0, dtype=np.int64), *groups]))
        self.weight = frozen(np.concatenate([np.empty(0), *weights]))

    def _keep(self, free: IntArray, keep: IntArray) -> tuple[list[IntArray], list[FloatArray]]:
        """Return, for each group in `keep`, its free members (renumbered) and their weights."""
        left = places_of(free, self.n)[self.member]
        entries = left >= 0
        counts = np.bincount(self.group[entries], minlength=self.n_groups)
        ends = np.cumsum(counts)[:-1]
        members = np.split(left[entries], ends)
        weights = np.split(self.weight[entries], ends)
        return [members[g] for g in keep], [weights[g] for g in keep]

    @cached_property
    def _incidence(self) -> tuple[csr_array, csr_array]:
        """The weighted matrix from elements to groups, and that from entries to elements."""
        count = len(self.member)
        to_group = csr_array((self.weight, (self.member, self.group)), (self.n, self.n_groups))
        to_element = csr_array((np.ones(count), (np.arange(count), self.member)), (count, self.n))
        return to_group, to_element

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._profile(X @ self._incidence[0], slice(None)).sum(axis=1))

    def _gains(self, X: FloatArray) -> FloatArray:
        to_group, to_element = self._incidence
        without = (X @ to_group)[:, self.group] - X[:, self.member] * self.weight
        without = np.maximum(without, 0.0)
        change = self._profile(without + self.weight, self.group)
        change -= self._profile(without, self.group)
        return np.asarray(change @ to_element)

    def _chain(self, order: IntArray) -> FloatArray:
        vertex = np.empty(order.shape)
        first = np.searchsorted(self.group, self.group)  # index at which each entry's group begins
        for m, row in enumerate(order):
            entries = np.lexsort((places_of(row, self.n)[self.member], self.group))
            weight = self.weight[entries]
            before = np.cumsum(weight) - weight
            before -= before[first]
            step = self._profile((before + weight)[None], self.group)
            step -= self._profile(before[None], self.group)
            vertex[m] = np.bincount(self.member[entries], step[0], minlength=self.n)
        return np.take_along_axis(vertex, order, axis=1)

    def _products(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the products (M, G) of P (M, n) over each group, and those leaving out one entry.

        Only for groups whose weights are all 1. Zeros are counted separately to avoid dividing by
        them.
        """
        to_group = self._incidence[0]
        zero = (P == 0).astype(np.float64)
        logs = np.log(np.where(P == 0, 1.0, P))
        total, zeros = logs @ to_group, zero @ to_group
        rest = np.exp(np.minimum(total[:, self.group] - logs[:, self.member], 0.0))
        others = zeros[:, self.group] - zero[:, self.member]
        return np.exp(total) * (zeros == 0), rest * (others == 0)

    def _walks(self) -> list[tuple[float, Walk]]:
        parts = (self.n, self.group, self.member, self.weight, self.n_groups)
        return [(1.0, Groups(*parts, self._profile, self._pieces()))]

    def _row_size(self) -> int:
        return max(self.n, len(self.member))
