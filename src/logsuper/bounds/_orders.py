"""Elimination orders of the elements of a graph, and their costs."""

from __future__ import annotations

import heapq
import math

import numpy as np
from scipy.sparse import coo_array

from logsuper._base import IntArray, places_of

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
