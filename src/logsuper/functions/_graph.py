"""Submodular functions as pairwise graphs with auxiliary nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array

from logsuper.functions._checks import (
    FloatArray,
    IntArray,
    add_up,
    arrays_in,
    as_indices,
    as_vector,
    check_binary,
    check_number,
    check_size,
    frozen,
    refuse_negative,
)

# Auxiliary nodes that are connected with each other are enumerated together in `value`.
_MAX_ENUMERATED = 16


@dataclass(frozen=True, eq=False)
class PairwiseGraph:
    r"""A function written as a minimum over auxiliary nodes of a pairwise function.

    .. math:: f(y)=c+\min_{a\in\{0,1\}^m}\sum_{e=(i,j)}w_e|v_i-v_j|+u^\top v,\qquad v=(y,a).

    This is what a max-flow solver needs: maximising :math:`\theta^\top y-f(y)` over y is one
    minimum cut over v.

    Attributes
    ----------
    n : int
        Real nodes; they come first.
    n_aux : int
        Auxiliary nodes, minimised out.
    edges : ndarray of shape (E, 2), int64
        Node pairs with ``i < j``, each at most once.
    weights : ndarray of shape (E,), float64
        Non-negative.
    unary : ndarray of shape (n + n_aux,), float64
    constant : float

    Examples
    --------
    >>> from logsuper.functions import PnPotts
    >>> graph = PnPotts(4, [0, 1, 2, 3], weight=2.0).graph()
    >>> graph.n, graph.n_aux, len(graph.edges)
    (4, 2, 8)
    >>> graph.value([[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]])
    array([0., 2., 0.])
    """

    n: int
    n_aux: int
    edges: IntArray
    weights: FloatArray
    unary: FloatArray
    constant: float = 0.0

    @classmethod
    def from_arcs(
        cls,
        n: int,
        n_aux: int = 0,
        tails: ArrayLike = (),
        heads: ArrayLike = (),
        costs: ArrayLike = (),
        unary: ArrayLike = 0.0,
        constant: float = 0.0,
    ) -> PairwiseGraph:
        r"""Build the graph of :math:`\sum_a c_a v_{tail}(1-v_{head})+u^\top v+c`.

        An arc costs :math:`c` when its tail is 1 and its head 0, which is
        :math:`\frac c2|p-q|+\frac c2(p-q)`.  Arcs that share a pair of nodes are merged.
        """
        size = check_size(n) + check_size(n_aux, "n_aux")
        tail = as_indices(tails, size, "tails")
        head = as_indices(heads, size, "heads")
        half = as_vector(costs, "costs") / 2.0
        field = as_vector(unary, "unary", size)
        if not tail.shape == head.shape == half.shape:
            raise ValueError(
                f"tails, heads and costs must be of one length, got shapes {tail.shape}, "
                f"{head.shape} and {half.shape}"
            )
        refuse_negative(half, "costs", "the arc would be repulsive, which is not submodular")
        field += add_up(tail, half, size)
        field -= add_up(head, half, size)
        edges, weights = merge_edges(np.stack([tail, head], axis=1), half, size)
        return cls(n, n_aux, edges, weights, frozen(field), check_number(constant, "constant"))

    @classmethod
    def from_truncations(
        cls,
        n: int,
        thresholds: FloatArray,
        group: IntArray,
        member: IntArray,
        weight: FloatArray,
        side: IntArray,
        unary: FloatArray | None = None,
        constant: float = 0.0,
    ) -> PairwiseGraph:
        r"""Build the graph of a sum of truncated non-negative modular functions.

        Group :math:`g` stands for :math:`\min(\tau_g,\sum_i w_i x_i)` when its side is 1, and
        :math:`\min(\tau_g,\sum_i w_i(1-x_i))` when its side is 0.  Entry p of `group`, `member`
        and `weight` says that `member[p]` is in `group[p]` with that weight.  It costs one
        auxiliary node a group, none where the threshold is never exceeded or two members are left.
        """
        groups = len(thresholds)
        weight = np.minimum(weight, thresholds[group])
        keep = weight > 0
        group, member, weight = group[keep], member[keep], weight[keep]
        order = np.argsort(group, kind="stable")
        group, member, weight = group[order], member[order], weight[order]
        count = np.bincount(group, minlength=groups)
        excess = add_up(group, weight, groups) - thresholds
        pair = (count == 2) & (excess > 0)
        auxiliary = (count > 2) & (excess > 0)

        # Outside the truncation, and in a pair, the function is linear in x (or 1 - x) up to an
        # edge: min(tau, a p + b q) = a p + b q - (a + b - tau) p q, and 2pq = p + q - |p - q|.
        field = np.zeros(n) if unary is None else np.array(unary, dtype=np.float64)
        linear = ~auxiliary[group]
        share = np.where(pair, excess / 2.0, 0.0)[group]
        slope = np.where(side[group] == 1, 1.0, -1.0) * (weight - share)
        field += add_up(member[linear], slope[linear], n)
        constant -= float(slope[linear & (side[group] == 0)].sum())
        ends = member[pair[group]].reshape(-1, 2)
        half = excess[pair] / 2.0

        # side 1: min over a of tau a + (1 - a) sum w x;  side 0: tau (1 - a) + a sum w (1 - x)
        node = n - 1 + np.cumsum(auxiliary)
        arcs = auxiliary[group]
        forward = (side[group] == 1)[arcs]
        real, other, cost = member[arcs], node[group][arcs], weight[arcs]
        tau = thresholds[auxiliary]
        upper = side[auxiliary] == 1
        return cls.from_arcs(
            n,
            int(auxiliary.sum()),
            # an undirected edge is an arc each way
            np.concatenate([np.where(forward, real, other), ends[:, 0], ends[:, 1]]),
            np.concatenate([np.where(forward, other, real), ends[:, 1], ends[:, 0]]),
            np.concatenate([cost, half, half]),
            np.concatenate([field, np.where(upper, tau, -tau)]),
            constant + float(tau[~upper].sum()),
        )

    @classmethod
    def combine(cls, n: int, graphs: Sequence[tuple[float, PairwiseGraph]]) -> PairwiseGraph:
        """Return the sum of graphs over the same n real nodes, with weights >= 0."""
        n_aux = sum(graph.n_aux for _, graph in graphs)
        unary = np.zeros(n + n_aux)
        edges, weights, first = [], [], n
        for factor, graph in graphs:
            unary[:n] += factor * graph.unary[:n]
            unary[first : first + graph.n_aux] = factor * graph.unary[n:]
            edges.append(np.where(graph.edges < n, graph.edges, graph.edges + (first - n)))
            weights.append(factor * graph.weights)
            first += graph.n_aux
        pairs = np.concatenate(edges) if edges else np.empty((0, 2), dtype=np.int64)
        merged = merge_edges(pairs, np.concatenate([*weights, np.empty(0)]), n + n_aux)
        constant = float(sum(factor * graph.constant for factor, graph in graphs))
        return cls(n, n_aux, *merged, frozen(unary), constant)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # numpy forgets in a pickle that an array is read-only
        for value in state.values():
            for array in arrays_in(value):
                frozen(array)
        self.__dict__.update(state)

    def value(self, Y: ArrayLike) -> FloatArray:
        """Evaluate by enumerating the auxiliary nodes; meant for tests.

        Parameters
        ----------
        Y : array-like of shape (M, n)

        Returns
        -------
        ndarray of shape (M,)

        Raises
        ------
        ValueError
            If more than 16 auxiliary nodes are connected with each other.
        """
        # slow to import, and only needed here
        from scipy.sparse.csgraph import connected_components

        Y = np.atleast_2d(check_binary(Y, self.n)).astype(np.float64)
        if Y.ndim != 2:
            raise ValueError(f"Y must have shape (M, {self.n}), got {Y.shape}")
        i, j = self.edges.T
        real = j < self.n
        total = self.constant + Y @ self.unary[: self.n]
        total += np.abs(Y[:, i[real]] - Y[:, j[real]]) @ self.weights[real]

        inner = i >= self.n
        links = coo_array(
            (np.ones(inner.sum()), (i[inner] - self.n, j[inner] - self.n)),
            shape=(self.n_aux, self.n_aux),
        )
        groups, label = connected_components(links, directed=False) if self.n_aux else (0, None)
        for group in range(groups):
            nodes = self.n + np.flatnonzero(label == group)
            total += self._minimum(Y, nodes)
        return total

    def _minimum(self, Y: FloatArray, nodes: IntArray) -> FloatArray:
        """Return the least cost of one connected group of auxiliary nodes for each row of Y."""
        if len(nodes) > _MAX_ENUMERATED:
            raise ValueError(f"cannot enumerate {len(nodes)} connected auxiliary nodes")
        states = ((np.arange(2 ** len(nodes))[:, None] >> np.arange(len(nodes))) & 1).astype(float)
        cost = np.tile(states @ self.unary[nodes], (len(Y), 1))
        i, j = self.edges.T
        for e in np.flatnonzero(np.isin(j, nodes)):
            a = states[:, np.searchsorted(nodes, j[e])]
            inside = i[e] >= self.n
            other = states[:, np.searchsorted(nodes, i[e])] if inside else Y[:, i[e], None]
            cost += self.weights[e] * np.abs(a - other)
        return np.asarray(cost.min(axis=1))


def merge_edges(edges: IntArray, weights: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Return the edges with ``i < j``, sorted, equal ones added up, those of weight 0 dropped."""
    keep = weights > 0
    low, high = np.sort(edges[keep], axis=1).T
    key, place = np.unique(low * np.int64(size) + high, return_inverse=True)
    merged = add_up(place, weights[keep], len(key))
    pairs = np.stack(np.divmod(key, max(1, size)), axis=1)
    return frozen(pairs), frozen(merged)
