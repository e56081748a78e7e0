r"""Pairwise maximisation with scipy's integer max-flow, exact for float64 weights.

The problem, for each field :math:`\theta` of a batch, is

.. math:: \max_{y \in \{0, 1\}^n} \; \theta^\top y - \sum_{e = (i, j)} w_e |y_i - y_j|,
          \qquad w \ge 0,

which is a minimum cut: arcs of capacity :math:`w_e` both ways between :math:`i` and :math:`j`, an
arc :math:`s \to i` of capacity :math:`\theta_i` if :math:`\theta_i > 0`, an arc :math:`i \to t`
of capacity :math:`-\theta_i` if :math:`\theta_i < 0`; the source side is :math:`\{y = 1\}`.
This module is used if the compiled kernel is missing. It is slower, but exact.

**From int32 to float64.** ``scipy.sparse.csgraph.maximum_flow`` takes 32-bit capacities only.
Float64 capacities are integer multiples of a small power of two; their digits are processed from
the most significant ones on, some 28 bits at a time. With quantum :math:`q = 2^p`, a residual
capacity is :math:`r q + \rho`, where :math:`r` is an integer and the remainder
:math:`0 \le \rho < q` has not been used yet.

1. A maximum flow of the integers :math:`r` leaves a cut :math:`C` whose arcs have :math:`r = 0`.
   The true remaining flow is therefore at most :math:`R = \sum_{a \in C} \rho_a`. If
   :math:`R = 0` the flow is maximum for the float64 capacities: done, with no rounding anywhere.
2. An arc whose residual capacity exceeds :math:`R` can no longer be saturated: it is treated as
   infinite from now on. The nodes that the source reaches (or that reach the sink) along infinite
   arcs have the same value in every optimal solution; if no other node is left: done.
3. The remaining arcs have residual capacities of at most :math:`R`, so the quantum can be reduced
   to about :math:`2^{-28} R`, and all numbers fit 32 bits again. Subtracting the leading digits
   from a float64 is exact, hence so is the whole scheme, whatever the spread of the weights.

Two or three rounds solve a problem with random weights; only exact ties need all bits. Several
problems are stacked into one disconnected graph to save calls.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, refuse
from logsuper.solvers._problems import check_theta, check_tie, finite_dot

_BITS = 28  # the remaining flow is kept below 2**_BITS quanta,
_UNBOUNDED = np.int64(1) << 29  # so this capacity acts as infinite, and twice it still fits int32
_SMALLEST_EXPONENT = -1074  # every float64 is a multiple of 2**-1074
_LARGE = 2.0**960  # problems with larger numbers are scaled down first, to avoid overflow of sums
_SLACK = 1.0 + 1e-9  # covers the rounding of sums of up to a few million non-negative terms
_STACK = 1 << 16  # number of nodes and edges that are stacked into one graph


def solve_pairwise(
    n_nodes: int,
    edges: ArrayLike,
    weights: ArrayLike,
    theta: ArrayLike,
    tie: str | None = None,
) -> Bits:
    r"""Maximise :math:`\theta^\top y - \sum_e w_e |y_i - y_j|`, exactly, for a batch of fields.

    Parameters
    ----------
    n_nodes : int
        Number of nodes :math:`n`.
    edges : array_like of int, shape (E, 2)
        End points. The weights of repeated edges are summed; loops are ignored.
    weights : array_like of float, shape (M, E), (1, E) or (E,)
        Finite weights :math:`w \ge 0`, one row per problem or one row for all.
    theta : array_like of float, shape (M, n)
        Fields; infinite entries fix their node. A single field (n,) is treated as one row.
    tie : {None, "min", "max"}, optional
        Which of several maximisers to return: the smallest one (the nodes that the source
        reaches), the largest one (the nodes that do not reach the sink), or any.

    Returns
    -------
    ndarray of uint8, shape (M, n)
        One maximiser per row.

    Notes
    -----
    The result is optimal for the given float64 numbers, without a tolerance: two maximisers are
    tied only if their values are equal as real numbers. (Repeated edges are first summed in
    float64.)

    Examples
    --------
    >>> solve_pairwise(3, [[0, 1], [1, 2]], [1.0, 1e-10], [[1.0, -0.5, -1e-11]])
    array([[1, 1, 1]], dtype=uint8)
    >>> solve_pairwise(2, [[0, 1]], [1.0], [[0.5, -0.5]], tie="min")
    array([[0, 0]], dtype=uint8)
    """
    check_tie(tie)
    field, _ = check_theta(theta, n_nodes)
    ends, cost = _checked_edges(n_nodes, edges, weights, field.shape[0])
    labels = np.empty(field.shape, dtype=np.uint8)
    step = max(1, _STACK // max(1, n_nodes + ends.shape[0]))
    for first in range(0, field.shape[0], step):
        rows = slice(first, first + step)
        block = field[rows]
        count = block.shape[0]
        offsets = (n_nodes * np.arange(count, dtype=np.int64))[:, None]
        block_cost = np.broadcast_to(cost if cost.shape[0] == 1 else cost[rows], (count, len(ends)))
        labels[rows] = _solve(
            (ends[:, 0] + offsets).ravel(),
            (ends[:, 1] + offsets).ravel(),
            block_cost.ravel(),
            block.ravel(),
            largest=tie == "max",
        ).reshape(count, n_nodes)
    return labels


def _checked_edges(
    n_nodes: int, edges: ArrayLike, weights: ArrayLike, count: int
) -> tuple[IntArray, FloatArray]:
    """Check edges and weights; drop loops, and sum the weights of repeated edges."""
    ends = np.asarray(edges)
    if ends.size == 0:
        ends = np.empty((0, 2), dtype=np.int64)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise ValueError(f"edges must be integers of shape (E, 2), got {ends.dtype} {ends.shape}")
    outside = ((ends < 0) | (ends >= n_nodes)).any(axis=1)
    if outside.any():
        bad = int(outside.argmax())
        raise ValueError(f"edges[{bad}] = {ends[bad].tolist()} is outside 0..{n_nodes - 1}")
    cost = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if ends.shape[0] == 0 and cost.size == 0:
        cost = np.empty((1, 0))
    if cost.ndim != 2 or cost.shape[1] != ends.shape[0] or cost.shape[0] not in (1, count):
        raise ValueError(
            f"weights must have shape ({count}, {ends.shape[0]}) or (1, {ends.shape[0]}), "
            f"got {np.shape(weights)}"
        )
    legal = (cost >= 0) & np.isfinite(cost)
    refuse(~legal, cost, "weights", "must be finite and not negative", " ")
    ends = np.sort(ends.astype(np.int64), axis=1)
    proper = ends[:, 0] < ends[:, 1]
    if not proper.all():
        ends, cost = ends[proper], cost[:, proper]
    unique, inverse = np.unique(ends[:, 0] * n_nodes + ends[:, 1], return_inverse=True)
    if unique.size < ends.shape[0]:
        total = np.zeros((cost.shape[0], unique.size))
        np.add.at(total.T, inverse.ravel(), cost.T)
        ends, cost = np.stack([unique // n_nodes, unique % n_nodes], axis=1), total
    return ends, cost


@dataclasses.dataclass
class _Residual:
    """The undecided part of the residual graph; a residual capacity is ``digits * 2**p + rest``.

    Digits at or above ``_UNBOUNDED`` stand for a capacity that can never be saturated. A node is
    connected to at most one terminal: to the source if ``side`` is 1, to the sink if it is -1.
    """

    node: IntArray  # the caller's index of the node
    side: IntArray
    link: IntArray  # digits of the terminal arc
    link_rest: FloatArray  # remainder of the terminal arc, below the quantum
    tail: IntArray
    head: IntArray
    forward: IntArray  # digits of tail -> head
    backward: IntArray  # digits of head -> tail
    rest: FloatArray  # remainder of both directions, equal since a flow changes digits only
    exponent: int = 0

    def reach(
        self, link: BoolArray, forward: BoolArray, backward: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """Return the nodes that the source reaches, and that reach the sink, by marked arcs."""
        n = self.node.size
        up, down = link & (self.side > 0), link & (self.side < 0)
        tails = np.concatenate([self.tail[forward], self.head[backward]])
        heads = np.concatenate([self.head[forward], self.tail[backward]])
        return _search(n, tails, heads, up), _search(n, heads, tails, down)

    def cut_rest(self, inside: BoolArray) -> float:
        """Sum of the remainders on the arcs that leave a set around the source."""
        link = np.where(self.side > 0, ~inside, inside & (self.side < 0))
        across = inside[self.tail] != inside[self.head]
        return float(self.link_rest[link].sum() + self.rest[across].sum())

    def release(self, bound: float) -> None:
        """Treat arcs whose residual capacity exceeds the remaining flow as infinite."""
        parts = (self.link, self.link_rest), (self.forward, self.rest), (self.backward, self.rest)
        for digits, rest in parts:
            free = np.ldexp(digits.astype(np.float64), self.exponent) + rest > bound
            digits[free] = _UNBOUNDED
        self.link_rest[self.link >= _UNBOUNDED] = 0.0
        self.rest[(self.forward >= _UNBOUNDED) & (self.backward >= _UNBOUNDED)] = 0.0

    def settle(self, labels: Bits) -> bool:
        """Write the labels of decided nodes and drop them; return whether any node is left."""
        ones, zeros = self.reach(
            self.link >= _UNBOUNDED, self.forward >= _UNBOUNDED, self.backward >= _UNBOUNDED
        )
        labels[self.node[ones]] = 1
        labels[self.node[zeros]] = 0
        decided = ones | zeros
        if not decided.any():
            return True
        # A decided node acts as its terminal. It stays in the graph, tied to that terminal by an
        # infinite arc, for as long as it has an undecided neighbour.
        self.side[ones], self.side[zeros] = 1, -1
        self.link[decided], self.link_rest[decided] = _UNBOUNDED, 0.0
        edge = ~(decided[self.tail] & decided[self.head])
        for name in ("tail", "head", "forward", "backward", "rest"):
            setattr(self, name, getattr(self, name)[edge])
        keep = ~decided
        keep[self.tail] = True
        keep[self.head] = True
        renumber = np.cumsum(keep) - 1
        self.tail, self.head = renumber[self.tail], renumber[self.head]
        for name in ("node", "side", "link", "link_rest"):
            setattr(self, name, getattr(self, name)[keep])
        return bool((~decided).any())

    def refine(self, exponent: int) -> None:
        """Reduce the quantum: move digits from the remainders to the integers."""
        link_fine, fine = (
            np.floor(np.ldexp(rest, -exponent)).astype(np.int64)
            for rest in (self.link_rest, self.rest)
        )
        self.link_rest -= np.ldexp(link_fine.astype(np.float64), exponent)
        self.rest -= np.ldexp(fine.astype(np.float64), exponent)
        shift = self.exponent - exponent
        parts = (self.link, link_fine), (self.forward, fine), (self.backward, fine)
        for digits, extra in parts:
            # After a large reduction, only zeros (and unbounded arcs) are left to be shifted.
            finite = digits < _UNBOUNDED
            shifted = np.ldexp(digits[finite].astype(np.float64), shift).astype(np.int64)
            digits[finite] = shifted + extra[finite]
        self.exponent = exponent

    def push(self) -> None:
        """Push a maximum flow of the digits and store the residual digits."""
        n = self.node.size
        source, sink = n, n + 1
        up, down = np.flatnonzero(self.side > 0), np.flatnonzero(self.side < 0)
        tails = np.concatenate([self.tail, np.full(up.size, source), down])
        heads = np.concatenate([self.head, up, np.full(down.size, sink)])
        there = np.concatenate([self.forward, self.link[up], self.link[down]])
        back = np.concatenate([self.backward, np.zeros(up.size + down.size, dtype=np.int64)])
        capacity = np.minimum(np.concatenate([there, back]), _UNBOUNDED).astype(np.int32)
        graph = _csr(
            capacity, np.concatenate([tails, heads]), np.concatenate([heads, tails]), n + 2
        )
        sent = _entries(maximum_flow(graph, source, sink).flow, tails, heads)
        m = self.tail.size
        for digits, amount in ((self.forward, sent[:m]), (self.backward, -sent[:m])):
            digits -= np.where(digits < _UNBOUNDED, amount, 0)
        for nodes, amount in ((up, sent[m : m + up.size]), (down, sent[m + up.size :])):
            self.link[nodes] -= np.where(self.link[nodes] < _UNBOUNDED, amount, 0)


def _csr(
    values: NDArray[Any], rows: IntArray, columns: IntArray, size: int
) -> scipy.sparse.csr_array:
    """Return a square sparse matrix with 32-bit indices, as the graph routines require."""
    place = rows.astype(np.int32), columns.astype(np.int32)
    return scipy.sparse.csr_array((values, place), shape=(size, size))


def _entries(matrix: scipy.sparse.csr_array, rows: IntArray, columns: IntArray) -> IntArray:
    """Return stored entries of a sparse matrix (scipy's own indexing varies by version)."""
    matrix.sort_indices()
    n = matrix.shape[1]
    stored = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    place = np.searchsorted(stored * n + matrix.indices, rows * n + columns)
    entries: IntArray = matrix.data[place].astype(np.int64)
    return entries


def _search(n: int, tails: IntArray, heads: IntArray, starts: BoolArray) -> BoolArray:
    """Mark the nodes that can be reached from any start along the arcs."""
    first = np.flatnonzero(starts)
    ones = np.ones(tails.size + first.size, dtype=np.int8)
    rows = np.concatenate([tails, np.full(first.size, n)])
    graph = _csr(ones, rows, np.concatenate([heads, first]), n + 1)
    found = breadth_first_order(graph, n, directed=True, return_predecessors=False)
    mark = np.zeros(n + 1, dtype=bool)
    mark[found] = True
    return mark[:n]


def _solve(
    tail: IntArray, head: IntArray, weight: FloatArray, theta: FloatArray, largest: bool
) -> Bits:
    """Solve one graph; see the module's docstring for the scheme."""
    n = theta.size
    top = max(
        np.max(weight, initial=0.0), np.max(np.abs(theta), initial=0.0, where=np.isfinite(theta))
    )
    if top > _LARGE:
        weight, theta = np.ldexp(weight, -64), np.ldexp(theta, -64)
    # The influence of a node's neighbours is at most the sum of its weights: a larger field decides
    # the node, so that no larger (or infinite) number enters the flow.
    pull = np.bincount(tail, weight, n) + np.bincount(head, weight, n)
    decided = np.abs(theta) > pull * _SLACK
    used = weight > 0
    state = _Residual(
        node=np.arange(n, dtype=np.int64),
        side=np.sign(theta).astype(np.int64),
        link=np.where(decided, _UNBOUNDED, 0),
        link_rest=np.where(decided, 0.0, np.abs(theta)),
        tail=tail[used],
        head=head[used],
        forward=np.zeros(np.count_nonzero(used), dtype=np.int64),
        backward=np.zeros(np.count_nonzero(used), dtype=np.int64),
        rest=weight[used].copy(),
    )
    labels = np.full(n, largest, dtype=np.uint8)
    undecided = state.settle(labels)
    # So far, the flow is bounded only by the capacity of the arcs around each terminal.
    around_source = (state.side > 0) & (state.link >= _UNBOUNDED)
    around_sink = (state.side < 0) & (state.link >= _UNBOUNDED)
    bound = min(state.cut_rest(around_source), state.cut_rest(~around_sink))
    while undecided and bound > 0:
        bound *= _SLACK
        state.release(bound)
        undecided = state.settle(labels)
        if not undecided:
            break
        state.refine(max(_SMALLEST_EXPONENT, int(np.frexp(bound)[1]) - _BITS))
        state.push()
        from_source, to_sink = state.reach(state.link > 0, state.forward > 0, state.backward > 0)
        bound = min(state.cut_rest(from_source), state.cut_rest(~to_sink))
    if undecided:
        # The flow is maximum: the arcs with residual capacity give the smallest and largest cut.
        more = state.rest > 0
        from_source, to_sink = state.reach(
            (state.link > 0) | (state.link_rest > 0),
            (state.forward > 0) | more,
            (state.backward > 0) | more,
        )
        labels[state.node] = ~to_sink if largest else from_source
    return labels


class FallbackKernel:
    """One graph and the weights of several functions on its edges, laid out as in `EdgeLists`.

    Results are written to arrays of the caller. `wide`, `threads` and `memory` have no effect:
    every solve is exact in float64 and runs on one thread; `precision` stays 0.
    """

    def __init__(
        self, nodes: int, edges: IntArray, starts: IntArray, places: IntArray, weights: FloatArray
    ) -> None:
        self.nodes = nodes
        self.edges = len(edges)
        self.functions = len(starts) - 1
        self._ends = edges
        self._table = np.zeros((self.functions, len(edges)))
        for k in range(self.functions):
            terms = slice(int(starts[k]), int(starts[k + 1]))
            np.add.at(self._table[k], places[terms], weights[terms])

    def workspace(self, threads: int, wide: bool, min_norm: bool) -> tuple[int, int]:
        """Return the approximate minimum and maximum number of bytes of one solve."""
        size = 100 * self.edges + 100 * self.nodes
        return size, size

    def maximize(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        factors: FloatArray | None,
        maximal: bool,
        wide: bool,
        threads: int,
        y: Bits,
        values: FloatArray,
        stats: FloatArray,
        memory: int | None = None,
        precision: FloatArray | None = None,
        shifted: None = None,  # terms on few elements come added to the field
        shift: None = None,
    ) -> None:
        problems = len(y)
        with np.errstate(over="ignore", invalid="ignore"):  # solve_pairwise refuses overflows
            table = self._table[None] if factors is None else self._table * factors  # (., K, E)
            weights = (alpha[:, :, None] * table).sum(axis=1)
        field = np.broadcast_to(theta, (problems, self.nodes))
        labels = solve_pairwise(
            self.nodes, self._ends, weights, field, tie="max" if maximal else "min"
        )
        y[:] = labels[:, : y.shape[1]]
        cut = (labels[:, self._ends[:, 0]] != labels[:, self._ends[:, 1]]).astype(np.float64)
        stats[:] = (table * cut[:, None, :]).sum(axis=2)
        values[:] = finite_dot(field, labels) - (alpha * stats).sum(axis=1)
