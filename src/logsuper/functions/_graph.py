"""Submodular functions as pairwise graphs with auxiliary nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from logsuper._base import (
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

# Largest connected group of auxiliary nodes whose states `value` enumerates.
_MAX_ENUMERATED = 16


@dataclass(frozen=True, eq=False)
class PairwiseGraph:
    r"""A function written as a minimum over auxiliary nodes of a pairwise function.

    .. math:: f(y)=c+\min_{a\in\{0,1\}^m}\sum_{e=(i,j)}w_e|v_i-v_j|+u^\top v,\qquad v=(y,a).

    This is the input of a max-flow solver: maximising :math:`\theta^\top y-f(y)` over y is one
    minimum cut problem over v.

    Attributes
    ----------
    n : int
        Number of original nodes, which come first.
    n_aux : int
        Number of auxiliary nodes, over which f is a minimum.
    edges : ndarray of shape (E, 2), int64
        Node pairs with ``i < j``, without repetitions.
    weights : ndarray of shape (E,), float64
        Non-negative.
    unary : ndarray of shape (n + n_aux,), float64
    constant : float
    error : float
        Bound on the rounding error of a value of the function, not counting that of the sums in
        `unary`.
    linear_nodes, linear_terms : ndarrays of equal length, or None
        Nodes and the numbers to be summed there, of which `unary` is the rounded sum; None if
        `unary` was given directly.

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
    error: float = 0.0
    linear_nodes: IntArray | None = None
    linear_terms: FloatArray | None = None

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
        error: float = 0.0,
        linear: tuple[IntArray, FloatArray] | None = None,
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
                f"tails, heads and costs must be of equal length, got shapes {tail.shape}, "
                f"{head.shape} and {half.shape}"
            )
        refuse_negative(half, "costs", "the arc would be repulsive, which is not submodular")
        nodes = np.concatenate([tail, head, np.arange(size)])
        terms = np.concatenate([half, -half, field])
        if linear is not None:
            nodes, terms = np.append(nodes, linear[0]), np.append(terms, linear[1])
        field = add_up(nodes, terms, size)
        edges, weights, lost = merge_edges(np.stack([tail, head], axis=1), half, size)
        return cls(
            n,
            n_aux,
            edges,
            weights,
            frozen(field),
            check_number(constant, "constant"),
            error + lost,
            frozen(nodes),
            frozen(terms),
        )

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
        error: float = 0.0,
    ) -> PairwiseGraph:
        r"""Build the graph of a sum of truncated non-negative modular functions.

        Group :math:`g` stands for :math:`\min(\tau_g,\sum_i w_i x_i)` if its side is 1, and
        :math:`\min(\tau_g,\sum_i w_i(1-x_i))` if its side is 0.  Entry p of `group`, `member`
        and `weight` says that `member[p]` is in `group[p]` with that weight.  Each group needs one
        auxiliary node, or none if the threshold is never exceeded or it has at most two members of
        positive weight.
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
        field = np.zeros(n) if unary is None else np.asarray(unary, dtype=np.float64)
        alone, paired = ~auxiliary[group], pair[group]
        sign = np.where(side[group] == 1, 1.0, -1.0)
        share = (sign * excess[group] / 2.0)[paired]
        linear = (
            np.concatenate([member[alone], member[paired]]),
            np.concatenate([(sign * weight)[alone], -share]),
        )
        off = side[group] == 0
        constant += float(weight[alone & off].sum() - (excess[group] / 2.0)[paired & off].sum())
        ends = member[paired].reshape(-1, 2)
        half = excess[pair] / 2.0
        # the excess of a pair becomes an edge weight; for other groups only its sign matters
        unsure = pair | (np.abs(excess) <= 2.0**-50 * count * thresholds)
        error += rounding(
            np.concatenate([group, np.arange(groups)]),
            np.concatenate([weight, thresholds]) / 2.0,
            groups,
            unsure,
        )

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
            # an undirected edge is one arc in each direction
            np.concatenate([np.where(forward, real, other), ends[:, 0], ends[:, 1]]),
            np.concatenate([np.where(forward, other, real), ends[:, 1], ends[:, 0]]),
            np.concatenate([cost, half, half]),
            np.concatenate([field, np.where(upper, tau, -tau)]),
            constant + float(tau[~upper].sum()),
            error,
            linear,
        )

    @classmethod
    def combine(cls, n: int, graphs: Sequence[tuple[float, PairwiseGraph]]) -> PairwiseGraph:
        """Return the weighted sum of graphs over the same n original nodes, with weights >= 0."""
        n_aux = sum(graph.n_aux for _, graph in graphs)
        edges, weights, nodes, terms, first = [], [], [], [], n
        for factor, graph in graphs:
            shift = first - n
            edges.append(np.where(graph.edges < n, graph.edges, graph.edges + shift))
            weights.append(factor * graph.weights)
            node, term = graph.terms
            nodes.append(np.where(node < n, node, node + shift))
            terms.append(factor * term)
            first += graph.n_aux
        place = np.concatenate([*nodes, np.empty(0, dtype=np.int64)])
        linear = np.concatenate([*terms, np.empty(0)])
        pairs = np.concatenate(edges) if edges else np.empty((0, 2), dtype=np.int64)
        joined, prices, lost = merge_edges(
            pairs, np.concatenate([*weights, np.empty(0)]), n + n_aux
        )
        constant = float(sum(factor * graph.constant for factor, graph in graphs))
        error = lost + sum(factor * graph.error for factor, graph in graphs)
        unary = frozen(add_up(place, linear, n + n_aux))
        own = frozen(place), frozen(linear)
        return cls(n, n_aux, joined, prices, unary, constant, error, *own)

    @property
    def terms(self) -> tuple[IntArray, FloatArray]:
        """The linear part: nodes and the numbers to be summed at them."""
        if self.linear_nodes is not None and self.linear_terms is not None:
            return self.linear_nodes, self.linear_terms
        return np.arange(len(self.unary)), self.unary

    def unary_parts(self) -> list[FloatArray]:
        """Return three arrays of the length of `unary` whose exact sum is the linear part.

        Two arrays would suffice unless the terms cancel to the last digit; three always do.
        """
        nodes, numbers = self.terms
        some = numbers != 0
        nodes, numbers = nodes[some], numbers[some]
        order = np.argsort(nodes, kind="stable")
        stops = np.cumsum(np.bincount(nodes, minlength=len(self.unary)))
        lists = np.split(numbers[order], stops[:-1]) if len(self.unary) else []
        parts = []
        for _ in range(3):
            sums = np.array([math.fsum(numbers) for numbers in lists])
            parts.append(sums)
            lists = [np.append(numbers, -s) for numbers, s in zip(lists, sums, strict=True)]
        return parts

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a pickled numpy array loses its read-only flag
        for value in state.values():
            for array in arrays_in(value):
                frozen(array)
        self.__dict__.update(state)

    def value(self, Y: ArrayLike) -> FloatArray:
        """Evaluate f by enumerating the states of the auxiliary nodes; meant for tests.

        Parameters
        ----------
        Y : array-like of shape (M, n)

        Returns
        -------
        ndarray of shape (M,)

        Raises
        ------
        ValueError
            If more than 16 auxiliary nodes are connected with each other, or sums overflow.
        """
        Y = np.atleast_2d(check_binary(Y, self.n)).astype(np.float64)
        if Y.ndim != 2:
            raise ValueError(f"Y must have shape (M, {self.n}), got {Y.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            total = self._values(Y)
        if not np.isfinite(total).all():
            raise ValueError("sums of unary and weights overflow; rescale them")
        return total

    def _values(self, Y: FloatArray) -> FloatArray:
        # slow to import and needed only here
        from scipy.sparse.csgraph import connected_components

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
        """Return the minimum cost of one connected group of auxiliary nodes for each row of Y."""
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


def rounding(
    place: IntArray, terms: FloatArray, size: int, where: NDArray[np.bool_] | bool = True
) -> float:
    """Return a bound on the total rounding error of the sums of `terms` grouped by `place`.

    A sum is exact if float64 represents all of its partial sums: the terms are multiples of a power
    of two, and their absolute values sum to less than 2^53 times that power. Only the places for
    which `where` is true are included.
    """
    some = (terms != 0) & (where if isinstance(where, bool) else where[place])
    place, terms = place[some], np.abs(terms[some])
    mantissa, exponent = np.frexp(terms)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    unit = np.full(size, np.inf)
    np.minimum.at(unit, place, np.ldexp((digits & -digits).astype(np.float64), exponent - 53))
    total, count = add_up(place, terms, size), np.bincount(place, minlength=size)
    inexact = (count > 1) & ~(total < 2.0**53 * unit)
    return 2.0**-52 * float((count * total)[inexact].sum())


def merge_edges(
    edges: IntArray, weights: FloatArray, size: int
) -> tuple[IntArray, FloatArray, float]:
    """Return sorted edges with ``i < j`` and their weights; duplicates are summed, zeros dropped.

    The third result bounds the change of a function value by the rounding of these sums.
    """
    keep = weights > 0
    low, high = np.sort(edges[keep], axis=1).T
    key, place = np.unique(low * np.int64(size) + high, return_inverse=True)
    merged = add_up(place, weights[keep], len(key))
    pairs = np.stack(np.divmod(key, max(1, size)), axis=1)
    error = rounding(place.ravel(), weights[keep], len(key)) if len(key) < keep.sum() else 0.0
    return frozen(pairs), frozen(merged), error
