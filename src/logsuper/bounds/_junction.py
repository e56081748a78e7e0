"""Elimination of the elements of a pairwise function, by tables over joined elements.

First the elimination orders and their costs, then the tables along an order.
"""

from __future__ import annotations

import dataclasses
import heapq
import math

import numpy as np
from scipy.sparse import coo_array
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, places_of
from logsuper.structures import Pairwise

# Maximum number of axes of a table, whatever the budget; larger ones do not fit in memory.
WIDEST = 32
# Maximum number of set operations in the search for an order: a constant, and a number per element.
_EFFORT, _EFFORT_EACH = 1_000_000, 40

Scopes = list[list[int]]


def best_order(n: int, edges: IntArray) -> tuple[IntArray, Scopes] | None:
    """Return the cheaper of two elimination orders, with its scopes; None if both are too wide.

    Scope k lists the places in the order, latest first, of the later elements that the k-th one is
    joined to, directly or through elements before it.
    """
    if n == 0:
        return np.empty(0, dtype=np.int64), []
    if len(edges) > WIDEST * n:  # a graph of treewidth k has fewer than k n edges
        return None
    candidates = [_sweep(n, edges), _min_fill(n, edges)]
    found = [(order, _scopes(order, edges)) for order in candidates if order is not None]
    affordable = [(order, scopes) for order, scopes in found if scopes is not None]
    if not affordable:
        return None
    order, scopes = min(affordable, key=lambda pair: sum(2.0 ** len(s) for s in pair[1]))
    return _postorder(order, scopes)


def _sweep(n: int, edges: IntArray) -> IntArray | None:
    """Return the order that sweeps through the graph with a short front; None if it is too long.

    From the front it takes the element with the fewest neighbours beyond it, the oldest of several
    (King, *Int. J. Numerical Methods in Engineering* 2, 1970).
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # slow to import

    i, j = edges.T
    one_way = coo_array((np.ones(len(edges)), (i, j)), shape=(n, n)).tocsr()
    links = (one_way + one_way.T).tocsr()
    starts = reverse_cuthill_mckee(links, True).tolist()  # begins each component at its rim
    first, last = links.indptr[:-1].tolist(), links.indptr[1:].tolist()
    near = links.indices.tolist()
    beyond = [stop - start for start, stop in zip(first, last, strict=True)]
    age = [-1] * n
    done = [False] * n
    order: list[int] = []
    front: list[tuple[int, int, int]] = []
    touched = 0
    for start in starts:
        reached = [start] if age[start] < 0 else []
        while reached or front:
            for v in reached:
                age[v] = touched
                touched += 1
                heapq.heappush(front, (beyond[v], age[v], v))
                for u in near[first[v] : last[v]]:
                    beyond[u] -= 1
                    if age[u] >= 0 and not done[u]:
                        heapq.heappush(front, (beyond[u], age[u], u))
            if touched - len(order) > WIDEST + 1:
                return None
            reached = []
            count, _, v = heapq.heappop(front)
            if not done[v] and count == beyond[v]:
                done[v] = True
                order.append(v)
                reached = [u for u in near[first[v] : last[v]] if age[u] < 0]
    return np.array(order, dtype=np.int64)


def _min_fill(n: int, edges: IntArray) -> IntArray | None:
    """Return the greedy order that joins the fewest new pairs; None if it is too wide."""
    near: list[set[int]] = [set() for _ in range(n)]
    for i, j in edges.tolist():
        near[i].add(j)
        near[j].add(i)
    effort, limit = 0, _EFFORT + _EFFORT_EACH * n

    def rate(v: int) -> tuple[float, int]:
        """Return the number of pairs v would join (infinity if it is too wide), and its degree."""
        nonlocal effort
        around = near[v]
        if len(around) > WIDEST:
            return math.inf, len(around)
        effort += len(around)
        missing = sum(len(around - near[u]) for u in around)  # each u misses itself
        return (missing - len(around)) // 2, len(around)

    rates = [rate(v) for v in range(n)]
    heap = [(*key, v) for v, key in enumerate(rates)]
    heapq.heapify(heap)
    order: list[int] = []
    while heap and effort < limit:
        fill, degree, v = heapq.heappop(heap)
        if rates[v] != (fill, degree):
            continue
        if fill == math.inf:
            return None
        order.append(v)
        rates[v] = (-1, -1)
        around = near[v]
        lost: dict[int, int] = {}
        for u in around:
            near[u].discard(v)
        for u in around if fill else ():
            for w in around - near[u]:
                if u < w:
                    effort += 1
                    for x in near[u] & near[w]:
                        if x not in around:
                            lost[x] = lost.get(x, 0) + 1
        for u in around if fill else ():
            near[u] |= around
            near[u].discard(u)
        for u in around:
            rates[u] = rate(u)
            heapq.heappush(heap, (*rates[u], u))
        for x, pairs in lost.items():
            rates[x] = (rates[x][0] - pairs, rates[x][1])
            heapq.heappush(heap, (*rates[x], x))
    return np.array(order, dtype=np.int64) if len(order) == n else None


def _scopes(order: IntArray, edges: IntArray) -> Scopes | None:
    """Return the scopes of an order; None if one of them is too wide."""
    place = places_of(order, len(order))
    sets: list[set[int]] = [set() for _ in range(len(order))]
    for i, j in np.sort(place[edges], axis=1).tolist():
        sets[i].add(j)
    for scope in sets:
        if len(scope) > WIDEST:
            return None
        if scope:
            parent = min(scope)
            sets[parent] |= scope
            sets[parent].discard(parent)
    return [sorted(scope, reverse=True) for scope in sets]


def _postorder(order: IntArray, scopes: Scopes) -> tuple[IntArray, Scopes]:
    """Return the equivalent order that finishes each branch before the next, to save memory."""
    parents = [scope[-1] if scope else -1 for scope in scopes]
    children: list[list[int]] = [[] for _ in scopes]
    for child, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(child)
    turn: list[int] = []
    stack = [root for root, parent in enumerate(parents) if parent < 0]
    while stack:  # parents before their children, backwards
        top = stack.pop()
        turn.append(top)
        stack.extend(children[top])
    turn.reverse()
    place = places_of(np.array(turn, dtype=np.int64), len(turn)).tolist()
    renamed = [sorted((place[s] for s in scopes[old]), reverse=True) for old in turn]
    return order[turn], renamed


@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """The order of elimination and the tables.

    Table k, that of the k-th element in the order, has one axis per element of its scope, in
    reverse order of elimination. Its message goes to its parent, the element of the scope that is
    summed out first.

    Attributes
    ----------
    order : ndarray of shape (n,)
    scopes : list of list of int
        Places in the order.
    children : list of list of int
    spread : list of (tuple, tuple)
        How to broadcast the message of each table to the table of its parent: the shape of the
        latter, with adjacent axes merged if all or none are in the scope, and the shape of the
        message, with 1 for axes that it does not have.
    links : list of list of (int, int)
        Per element, the edges that are summed out with it, and their axes in its table.
    """

    order: IntArray
    scopes: Scopes
    children: list[list[int]]
    spread: list[tuple[tuple[int, ...], tuple[int, ...]]]
    links: list[list[tuple[int, int]]]

    @property
    def width(self) -> int:
        """Size of the largest scope: the treewidth, if the order is optimal."""
        return max((len(scope) for scope in self.scopes), default=0)


def plan(n: int, edges: IntArray) -> Forest | None:
    """Return the tables for a graph; None if they would be much too large."""
    found = best_order(n, edges)
    if found is None:
        return None
    order, scopes = found
    children: list[list[int]] = [[] for _ in scopes]
    spread: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for k, scope in enumerate(scopes):
        if scope:
            children[scope[-1]].append(k)
        spread.append(_runs(scopes[scope[-1]], set(scope)) if scope else ((), ()))
    place = places_of(order, n)
    links: list[list[tuple[int, int]]] = [[] for _ in scopes]
    for e, (first, last) in enumerate(np.sort(place[edges], axis=1).tolist()):
        links[first].append((e, scopes[first].index(last)))
    return Forest(order, scopes, children, spread, links)


def _runs(outer: list[int], inner: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the runs of axes of `outer` that are, or are not, in `inner`."""
    sizes: list[int] = []
    kept: list[int] = []
    previous = None
    for axis in outer:
        inside = axis in inner
        if inside != previous:
            sizes.append(1)
            kept.append(1)
        sizes[-1] *= 2
        kept[-1] = sizes[-1] if inside else 1
        previous = inside
    return tuple(sizes), tuple(kept)


def collect(
    forest: Forest, pairwise: Pairwise, keep: bool
) -> tuple[float, list[float], list[FloatArray]]:
    """Return log Z, bounds on the errors of the tables, and the tables P(x_k = 1 | scope of k).

    A log-sum-exp changes by at most the largest change of an exponent. So the errors of all
    operations add up: the error of a table includes those of the tables below it. The conditional
    tables are returned only if `keep` is true.
    """
    total = 0.0
    sizes, errors = [0.0] * len(forest.scopes), [0.0] * len(forest.scopes)
    t = pairwise.t[forest.order].tolist()
    weights = pairwise.weights.tolist()
    messages: dict[int, FloatArray] = {}
    conditionals: list[FloatArray] = []
    for k, scope in enumerate(forest.scopes):
        # the edges of x_k = 0 cost w x_s each, those of x_k = 1 cost w (1 - x_s)
        costs = [0.0] * len(scope)
        for e, axis in forest.links[k]:
            costs[axis] += weights[e]
        off = np.zeros(1)
        for cost in reversed(costs):
            off = np.concatenate([off, off - cost])
        on = (t[k] - sum(costs)) - off
        own = abs(t[k]) + 2.0 * sum(costs)
        size = own + 1.0 + sum(sizes[child] for child in forest.children[k])
        operations = len(scope) * own + (len(forest.children[k]) + 6.0) * size
        sizes[k] = size
        errors[k] = EPS * operations + sum(errors[child] for child in forest.children[k])
        for child in forest.children[k]:
            shape, kept = forest.spread[child]
            message = messages.pop(child).reshape(*kept, 2)
            off = (off.reshape(shape) + message[..., 0]).ravel()
            on = (on.reshape(shape) + message[..., 1]).ravel()
        odds = on - off
        if keep:
            conditionals.append(expit(odds))
        # log(e^off + e^on); log1p would be slower, and not more accurate when added to the maximum
        message = np.maximum(off, on) + np.log(1.0 + np.exp(-np.abs(odds)))
        if scope:
            messages[k] = message
        else:
            total += float(message[0])
    return total, errors, conditionals


def log_error(forest: Forest, errors: list[float], total: float) -> float:
    """Return a bound on the error of log Z: those of the roots, and that of their sum."""
    roots = [error for error, scope in zip(errors, forest.scopes, strict=True) if not scope]
    return sum(roots) + EPS * len(roots) * abs(total)


def distribute(
    forest: Forest, errors: list[float], conditionals: list[FloatArray], edges: int
) -> tuple[FloatArray, FloatArray, float]:
    """Return the marginals, the joint tables (E, 2, 2) of the edges, and the error of their logs.

    A probability is a product of conditional ones along a path from a root; the error of their
    log-odds is twice that of a table each.
    """
    mean = np.empty(len(forest.order))
    joint = np.empty((edges, 2, 2))
    beliefs: dict[int, FloatArray] = {}
    slips = [0.0] * len(forest.scopes)
    for k in range(len(forest.scopes) - 1, -1, -1):
        belief = beliefs.pop(k) if forest.scopes[k] else np.ones(1)
        above = slips[forest.scopes[k][-1]] if forest.scopes[k] else 0.0
        slips[k] = above + 2.0 * errors[k] + 64.0 * EPS
        on = belief * conditionals.pop()
        off = belief - on
        mean[forest.order[k]] = on.sum()
        for e, axis in forest.links[k]:
            cube = (1 << axis, 2, -1)
            pair = np.stack([part.reshape(cube).sum(axis=(0, 2)) for part in (off, on)])
            # rows are x_k; the edge has the smaller element first
            other = forest.order[forest.scopes[k][axis]]
            joint[e] = pair if forest.order[k] < other else pair.T
        if forest.children[k]:
            table = np.stack([off, on], axis=-1)
            for child in forest.children[k]:
                shape, kept = forest.spread[child]
                absent = tuple(i for i, size in enumerate(kept) if size == 1)
                beliefs[child] = table.reshape(*shape, 2).sum(axis=absent).ravel()
    return mean, joint, max(slips, default=0.0)
