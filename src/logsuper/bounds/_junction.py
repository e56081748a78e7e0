"""Elimination of the elements of a pairwise function, by tables over joined elements."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, places_of
from logsuper.bounds._orders import Scopes, best_order
from logsuper.structures import Pairwise


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
