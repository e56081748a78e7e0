r"""Replacement of numbers that are too large for float64 sums by moderate ones.

A hard constraint written as a weight of :math:`10^{16}` makes float64 lose a field of 0.3 that it
is added to. Two steps give a function g of moderate numbers with :math:`\log Z_f=c+\log Z_g` up to
a stated, tiny error:

1. *Caps.* Write f as costs >= 0: :math:`r_{uv}` where :math:`x_u=1,x_v=0`; :math:`e_u` where
   :math:`x_u` is not the value that its field prefers. If every state that pays a cost r could
   avoid it by a change that costs at most k, then the weight of those that pay is at most
   :math:`e^{k-r}` times that of the others, and a cost above k + `_MARGIN` may be lowered to that.
2. *Flows.* Pushing flow from positive to negative fields along arcs of large residual capacity
   gives other numbers for the same function, exactly: costs that cancel each other become small,
   and those that do not can then be capped. This is done in integers.

Both keep the graph of f: a grid stays a grid.
"""

from __future__ import annotations

import dataclasses
import heapq
import math

import numpy as np

from logsuper._base import EPS, FloatArray, IntArray, add_up
from logsuper.bounds._exact_numbers import exact_numbers, to_float, to_integer
from logsuper.bounds._results import Bound, Bracket, Marginals
from logsuper.functions import Cut, Modular, SubmodularFunction, combine
from logsuper.structures import pairwise_of, structure_of

# Excess cost (nats) above which a state is neglected: exp(-50) is 2e-22.
_MARGIN = 50.0
# Numbers up to this size lose at most about 1e-12 each in a sum.
_LIGHT = 2.0**12
# Minimum width (nats) of a path along which flow is pushed.
_LEAST_FLOW = 1.0
# Maximum number of nodes and edges, and of pushes of flow, which take some seconds.
_LARGEST, _PUSHES = 50_000, 2_000
_PASSES = 100
# Error (nats) of a normal form above which its numbers are computed again, exactly.
_NEGLIGIBLE = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Light:
    """A function of moderate numbers in place of one with huge ones.

    Attributes
    ----------
    f : SubmodularFunction
    constant : float
        log Z of the original minus that of `f`.
    error : float
        Bound on the error of that difference.
    """

    f: SubmodularFunction
    constant: float
    error: float

    def bound(self, bound: Bound) -> Bound:
        """Turn a bound on log Z of `f` into one on that of the original."""
        shifted = bound.shifted(self.constant)
        change = {"lower": -self.error, "upper": self.error}.get(bound.target, 0.0)
        interval = shifted.interval
        if interval is not None:
            interval = (interval[0] - self.error, interval[1] + self.error)
        return dataclasses.replace(
            shifted, value=shifted.value + change, interval=interval
        ).classified()

    def bracket(self, bracket: Bracket) -> Bracket:
        """Return the bracket of the original's log Z."""
        below, above = self.bound(bracket.below), self.bound(bracket.above)
        return Bracket(below, above, bracket.confidence)

    def marginals(self, found: Marginals) -> Marginals:
        """Return the marginals of the original: a probability is a quotient of two sums."""
        slip = math.expm1(2.0 * min(self.error, 1.0))
        lower = None if found.lower is None else np.maximum(found.lower - slip, 0.0)
        upper = None if found.upper is None else np.minimum(found.upper + slip, 1.0)
        return dataclasses.replace(found, lower=lower, upper=upper)


def lighten(f: SubmodularFunction, above: float = _LIGHT) -> Light | None:
    """Return a function of moderate numbers with almost the same log Z and marginals.

    Return None if the numbers of f are at most `above`, or f is not pairwise.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.functions import Cut, Modular
    >>> light = lighten(Cut(3, [(0, 1), (1, 2)], [1e16, 0.5]) - Modular([0.3, -0.1, 0.0]))
    >>> [atom.weights.round(1).tolist() for _, atom in light.f.terms() if hasattr(atom, "weights")]
    [[52.0, 0.5]]
    >>> light.constant, light.error < 1e-12
    (0.0, True)
    """
    cuts, t, error, anew = _parts(f)
    most = max((weight * cut.weights.max(initial=0.0) for weight, cut in cuts), default=0.0)
    if not anew and not max(most, np.abs(t).max(initial=0.0)) > above:
        return None
    costs = _Costs.of(f, cuts, t)
    if costs is None:
        return None
    costs.slip = error
    return costs.lightened()


Cuts = list[tuple[float, Cut]]


def _parts(f: SubmodularFunction) -> tuple[Cuts, FloatArray, float, bool]:
    """Return the cuts and the field of a pairwise f, their error, and whether they are new."""
    structure = structure_of(f)
    if not structure.others:
        return [(weight, cut) for _, weight, cut in structure.cuts], structure.field, 0.0, False
    pairwise = pairwise_of(f)
    if pairwise is None:
        return [], np.zeros(f.n), 0.0, False
    exact = None
    if pairwise.slack > _NEGLIGIBLE and f.n + len(pairwise.edges) <= _LARGEST:
        exact = exact_numbers(f)
    if exact is None:
        cut = Cut(f.n, pairwise.edges, pairwise.weights)
        return [(1.0, cut)], pairwise.t, pairwise.slack, False
    weights, fields = exact
    edges = np.array([*weights], dtype=np.int64).reshape(-1, 2)
    cut = Cut(f.n, edges, [to_float(w) / 2.0 for w in weights.values()])
    return [(1.0, cut)], np.array([to_float(t) / 2.0 for t in fields]), 0.0, True


@dataclasses.dataclass(eq=False)
class _Costs:
    r"""f as a constant and costs >= 0.

    .. math:: f(x)=C+\sum_{u:e_u>0}e_u(1-x_u)-\sum_{u:e_u<0}e_ux_u+\sum_{(u,v)}r_{uv}x_u(1-x_v).

    Attributes
    ----------
    n : int
    edges : ndarray of shape (E, 2)
    r : ndarray of shape (2, E)
        Costs of (1, 0) and of (0, 1) at the ends of each edge.
    e : ndarray of shape (n,)
    """

    f: SubmodularFunction
    n: int
    edges: IntArray
    r: FloatArray
    e: FloatArray
    cuts: Cuts
    places: list[IntArray]  # of the edges of each cut in `edges`
    w: FloatArray  # the numbers of f, the initial values of r and e
    t: FloatArray
    gain: int  # -C, in units of 2^-BITS
    caps: int = 0
    slip: float = 0.0

    @classmethod
    def of(cls, f: SubmodularFunction, cuts: Cuts, t: FloatArray) -> _Costs | None:
        """Return the form with a cost w both ways along each edge; None if one is infinite."""
        n = f.n
        keys = [cut.edges @ np.array([n, 1]) for _, cut in cuts]
        every, place = np.unique(
            np.concatenate([np.empty(0, np.int64), *keys]), return_inverse=True
        )
        values = np.concatenate([np.empty(0), *(weight * cut.weights for weight, cut in cuts)])
        w = add_up(place, values, len(every))
        if not (np.isfinite(w).all() and np.isfinite(t).all()):
            return None
        edges = np.stack(np.divmod(every, max(1, n)), axis=1)
        places = np.split(place, np.cumsum([len(key) for key in keys])[:-1]) if keys else []
        gain = sum(to_integer(value) for value in t[t > 0].tolist())
        return cls(f, n, edges, np.stack([w, w]), t.copy(), cuts, places, w, t, gain)

    def lightened(self) -> Light | None:
        """Return the function with all costs as small as possible."""
        self.cap()
        if self._largest() > _LIGHT and self.n + len(self.edges) <= _LARGEST:
            self.push()
            self.cap()
        w = (self.r[0] + self.r[1]) / 2.0
        # r x_u (1 - x_v) = r/2 |x_u - x_v| + r/2 (x_u - x_v)
        tilt = (self.r[0] - self.r[1]) / 2.0
        pull = add_up(self.edges[:, 0], tilt, self.n) - add_up(self.edges[:, 1], tilt, self.n)
        field = self.e - pull
        uneven = tilt != 0.0
        self.slip += 8.0 * EPS * float(np.abs(self.r[:, uneven]).sum() + np.abs(pull).sum())
        # weights of f are products and sums that were rounded
        self.slip += 4.0 * EPS * float(w.sum() + np.abs(self.e).sum())
        constant = to_float(self.gain - sum(map(to_integer, np.maximum(self.e, 0.0).tolist())))
        if not math.isfinite(constant):
            return None
        error = self.slip + 2.0 * self.caps * math.exp(-_MARGIN) + EPS * abs(constant)
        return Light(self._function(w, field), constant, error)

    def _function(self, w: FloatArray, field: FloatArray) -> SubmodularFunction:
        """Return the function with the same cuts; an edge of several cuts is given to the first."""
        parts: list[tuple[float, SubmodularFunction]] = []
        left = w.copy()
        for (_, cut), place in zip(self.cuts, self.places, strict=True):
            parts.append((1.0, cut.with_weights(left[place])))
            left[place] = 0.0
        return combine([*parts, (1.0, Modular(-field))])

    # ------------------------------------------------------------------------------------- caps

    def cap(self) -> None:
        """Lower every cost to what suffices to avoid it, until the costs hardly change."""
        for _ in range(_PASSES):
            before = self._magnitudes()
            self._cap_fields()
            self._cap_arcs()
            self._cap_clusters()
            if self._magnitudes() > before - 0.1 or self._largest() <= _LIGHT:
                break

    def _largest(self) -> float:
        return float(max(self.r.max(initial=0.0), np.abs(self.e).max(initial=0.0)))

    def _magnitudes(self) -> float:
        return float(np.log1p(self.r).sum() + np.log1p(np.abs(self.e)).sum())

    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """Return the total cost of the arcs into and out of each node, rounded up."""
        i, j = self.edges.T
        up = 1.0 + 4.0 * EPS * (len(self.edges) + 4.0)
        with np.errstate(over="ignore"):
            into = add_up(i, self.r[1], self.n) + add_up(j, self.r[0], self.n)
            out = add_up(i, self.r[0], self.n) + add_up(j, self.r[1], self.n)
            return into * up, out * up

    def _lower(self, values: FloatArray, limits: FloatArray) -> FloatArray:
        """Lower values to the limits, except small ones and those slightly above the limit."""
        lower = (values > limits * (1.0 + 1e-9)) & (values > _MARGIN)
        self.caps += int(lower.sum())
        return np.where(lower, limits, values)

    def _cap_fields(self) -> None:
        # x_u = 0 pays e_u; changing it costs at most the arcs out of u, and similarly for 1
        into, out = self._sums()
        limit = np.where(self.e > 0, out, into) + _MARGIN
        self.e = np.copysign(self._lower(np.abs(self.e), limit), self.e)

    def _cap_arcs(self) -> None:
        # (1, 0) at (u, v) pays r_uv; x_u = 0 costs the arcs into u except that from v, and e_u > 0;
        # x_v = 1 costs the arcs out of v except that to u, and e_v < 0
        into, out = self._sums()
        wish, shun = np.maximum(self.e, 0.0), np.maximum(-self.e, 0.0)
        i, j = self.edges.T
        slack = 8.0 * EPS * (len(self.edges) + 4.0)
        limits = []
        for (u, v), back in (((i, j), self.r[1]), ((j, i), self.r[0])):
            # rounded up, to allow for cancellation in a difference of two large sums
            with np.errstate(invalid="ignore"):
                first = into[u] - back + slack * into[u] + wish[u]
                second = out[v] - back + slack * out[v] + shun[v]
            limits.append(np.nan_to_num(np.minimum(first, second), nan=np.inf) + _MARGIN)
        self.r = self._lower(self.r, np.stack(limits))

    def _cap_clusters(self) -> None:
        """Cap the costs within sets of nodes that are joined in both directions by large ones.

        States in which such a set C is not constant pay at least k, the smallest of the arcs that
        join it strongly. Making it constant costs the arcs into C and its fields for 1, or the arcs
        out of C and those for 0, and up to :math:`2^{|C|}` states become the same one.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        i, j = self.edges.T
        tails, heads = np.concatenate([i, j]), np.concatenate([j, i])
        costs = self.r.ravel()
        candidates = np.unique(np.frexp(costs[costs > 2 * _MARGIN])[1])
        wish, shun = np.maximum(self.e, 0.0), np.maximum(-self.e, 0.0)
        up = 1.0 + 4.0 * EPS * (2 * len(self.edges) + 4.0)
        for exponent in candidates:
            least = math.ldexp(0.5, int(exponent))
            strong = costs >= least
            ones = np.ones(int(strong.sum()), dtype=np.int8)
            graph = csr_array((ones, (tails[strong], heads[strong])), shape=(self.n, self.n))
            count, label = connected_components(graph, connection="strong")
            size = np.bincount(label, minlength=count)
            crossing = label[tails] != label[heads]
            with np.errstate(over="ignore"):
                into = add_up(label[heads[crossing]], costs[crossing], count)
                out = add_up(label[tails[crossing]], costs[crossing], count)
                keep1 = into + add_up(label, wish, count)
                keep0 = out + add_up(label, shun, count)
            need = np.minimum(keep0, keep1) * up + _MARGIN + size * math.log(2.0)
            inside = ~crossing & (size[label[tails]] > 1) & (need <= least)[label[tails]]
            if inside.any():
                costs = np.where(inside, self._lower(costs, need[label[tails]]), costs)
        self.r = costs.reshape(2, -1)

    # ------------------------------------------------------------------------------------ flows

    def push(self) -> None:
        r"""Push flow along widest paths, in integers, while at least `_LEAST_FLOW` passes.

        One unit from u to v along an arc lowers :math:`e_u`, :math:`|e_v|` and :math:`r_{uv}` by
        one and raises :math:`r_{vu}` by one; f stays the same if C rises by one.
        """
        cost = [[to_integer(value) for value in row] for row in self.r.tolist()]
        excess = [to_integer(value) for value in self.e.tolist()]
        exact = exact_numbers(self.f)
        if exact is None:
            self.slip += 4.0 * EPS * float(self.r[self.r > _LIGHT].sum())
        else:
            # use the values before rounding of all numbers that were not capped
            weights, fields = exact
            self.gain = sum(max(field, 0) for field in fields) >> 1
            pairs = list(map(tuple, self.edges.tolist()))
            for row, same in zip(cost, (self.r == self.w).tolist(), strict=True):
                row[:] = [
                    weights.get(pair, 0) >> 1 if kept else value
                    for pair, kept, value in zip(pairs, same, row, strict=True)
                ]
            kept = (self.e == self.t).tolist()
            excess = [
                field >> 1 if own else value
                for field, own, value in zip(fields, kept, excess, strict=True)
            ]
        arcs: list[list[tuple[int, int, int]]] = [[] for _ in range(self.n)]
        for edge, (i, j) in enumerate(self.edges.tolist()):
            arcs[i].append((j, 0, edge))
            arcs[j].append((i, 1, edge))
        least = to_integer(_LEAST_FLOW)
        for _ in range(_PUSHES):
            path = _widest(arcs, cost, excess, least)
            if path is None:
                break
            source, steps, sink, amount = path
            for way, edge in steps:
                cost[way][edge] -= amount
                cost[1 - way][edge] += amount
            excess[source] -= amount
            excess[sink] += amount
            self.gain -= amount
        self.r = np.array([[to_float(value) for value in row] for row in cost]).reshape(2, -1)
        self.e = np.array([to_float(value) for value in excess])


def _widest(
    arcs: list[list[tuple[int, int, int]]],
    cost: list[list[int]],
    excess: list[int],
    least: int,
) -> tuple[int, list[tuple[int, int]], int, int] | None:
    """Return source, steps, sink and width of a widest path; None if its width is below `least`."""
    heap = [(-value, node) for node, value in enumerate(excess) if value >= least]
    heapq.heapify(heap)
    width = {node: -value for value, node in heap}
    origin: dict[int, tuple[int, int, int]] = {}
    best, end = 0, -1
    done = set()
    while heap:
        value, u = heapq.heappop(heap)
        here = -value
        if here <= best or u in done:
            continue
        done.add(u)
        if excess[u] < 0 and min(here, -excess[u]) > best:
            best, end = min(here, -excess[u]), u
        for v, way, edge in arcs[u]:
            through = min(here, cost[way][edge])
            if through >= least and through > width.get(v, 0):
                width[v] = through
                origin[v] = (u, way, edge)
                heapq.heappush(heap, (-through, v))
    if best < least:
        return None
    steps, node = [], end
    while node in origin:
        before, way, edge = origin[node]
        steps.append((way, edge))
        node = before
    return node, steps, end, best
