r"""Series-parallel reduction: elements with at most two neighbours, summed out in closed form.

The result is again pairwise, without additional edges, so that chains, trees and rings vanish
completely. These are the islet, twig and series rules of Arnborg and Proskurowski (*SIAM Journal on
Algebraic Discrete Methods* 7, 1986). Elements that are not neighbours are summed out together, in
one step over arrays.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, add_up, places_of
from logsuper.structures import Pairwise

# Minimum fraction of the elements that a round must remove to be worthwhile.
_LEAST = 0.05


@dataclasses.dataclass(frozen=True, eq=False)
class Round:
    """Elements that are summed out together, with their neighbours and edges.

    Attributes
    ----------
    gone, kept : ndarray of int64
        Elements that are removed and kept; the latter are renumbered in this order.
    ends : ndarray of shape (2, len(gone))
        Their neighbours, in the new numbering, sorted; a missing one is `len(kept)`.
    links : ndarray of shape (2, len(gone))
        The edges to them; a missing one is the number of edges.
    untouched : ndarray of int64
        The edges that are kept.
    onto : ndarray of int64
        The new edge of each entry of `untouched`.
    born : ndarray of int64
        The new edge that joins the two neighbours of an element, or the number of new edges.
    edges : ndarray of shape (E, 2)
        The new edges.
    before : int
        The number of edges before.
    """

    gone: IntArray
    kept: IntArray
    ends: IntArray
    links: IntArray
    untouched: IntArray
    onto: IntArray
    born: IntArray
    edges: IntArray
    before: int


def plan(n: int, edges: IntArray) -> tuple[list[Round], int, IntArray]:
    """Return the rounds of the reduction, and the size and edges of the remaining graph."""
    rounds: list[Round] = []
    rank = np.random.default_rng(0).permutation(n)  # any fixed order without long monotone runs
    while n:
        gone = _independent(edges, rank)
        if len(gone) < _LEAST * n:
            break
        step = _round(n, edges, gone)
        rounds.append(step)
        n, edges, rank = len(step.kept), step.edges, rank[step.kept]
    return rounds, n, edges


def _independent(edges: IntArray, rank: IntArray) -> IntArray:
    """Return elements with at most two neighbours, no two of which are neighbours."""
    n = len(rank)
    few = np.bincount(edges.ravel(), minlength=n) <= 2
    i, j = edges[few[edges].all(axis=1)].T
    later = np.where(rank[i] > rank[j], i, j)
    few[later] = False
    return np.flatnonzero(few)


def _round(n: int, edges: IntArray, gone: IntArray) -> Round:
    """Return the bookkeeping of one round."""
    leaves = np.zeros(n, dtype=bool)
    leaves[gone] = True
    kept = np.flatnonzero(~leaves)
    number = np.full(n, len(kept), dtype=np.int64)
    number[kept] = np.arange(len(kept))
    slot = places_of(gone, n)

    ends = np.full((2, len(gone)), len(kept), dtype=np.int64)
    links = np.full((2, len(gone)), len(edges), dtype=np.int64)
    touched = np.flatnonzero(leaves[edges].any(axis=1))
    first = leaves[edges[touched, 0]]
    inner = np.where(first, edges[touched, 0], edges[touched, 1])
    outer = np.where(first, edges[touched, 1], edges[touched, 0])
    order = np.argsort(slot[inner], kind="stable")
    place = slot[inner[order]]
    second = np.zeros(len(place), dtype=np.int64)
    second[1:] = place[1:] == place[:-1]
    ends[second, place] = number[outer[order]]
    links[second, place] = touched[order]
    ranks = np.argsort(ends, axis=0, kind="stable")
    ends, links = (np.take_along_axis(part, ranks, axis=0) for part in (ends, links))

    untouched = np.flatnonzero(~leaves[edges].any(axis=1))
    pairs = ends[:, ends[1] < len(kept)].T
    everything = np.concatenate([number[edges[untouched]], pairs])
    key, where = np.unique(everything @ [len(kept), 1], return_inverse=True)
    born = np.full(len(gone), len(key), dtype=np.int64)
    born[ends[1] < len(kept)] = where[len(untouched) :]
    return Round(
        gone,
        kept,
        ends,
        links,
        untouched,
        where[: len(untouched)],
        born,
        np.stack(np.divmod(key, max(1, len(kept))), axis=1),
        len(edges),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """The numbers of a round: fields of the removed elements, and weights to their neighbours."""

    round: Round
    t: FloatArray
    weights: FloatArray  # (2, len(gone)), 0 where there is no neighbour


def collapse(pairwise: Pairwise, rounds: list[Round]) -> tuple[Pairwise, float, list[Step]]:
    """Return the reduced function, the constant that is added to log Z, and the numbers.

    The error of the reduced function bounds the rounding error of log Z so far: log Z changes by at
    most the change of the constant, a field or a weight.
    """
    constant, steps = 0.0, []
    weights, t, off = pairwise.weights, pairwise.t, pairwise.slack
    n, edges = pairwise.n, pairwise.edges
    for step in rounds:
        w = np.append(weights, 0.0)[step.links]
        field = t[step.gone]
        steps.append(Step(step, field, w))
        # log sum_v exp(t v - w_a |v - a| - w_b |v - b|) = c + t_a a + t_b b - w |a - b|
        a, b = w
        both0, both1 = np.logaddexp(0.0, field - a - b), np.logaddexp(-a - b, field)
        only_a, only_b = np.logaddexp(-a, field - b), np.logaddexp(-b, field - a)
        constant += float(both0.sum())
        # a few sums of numbers that do not exceed these, for each of four results
        off += EPS * (64.0 * float((np.abs(field) + a + b + 1.0).sum()) + 2.0 * abs(constant))
        link = np.maximum((both0 + both1 - only_a - only_b) / 2.0, 0.0)
        size = len(step.kept)
        t = t[step.kept]
        for end, only, other in ((step.ends[0], only_a, only_b), (step.ends[1], only_b, only_a)):
            # t_a = ((11) - (00) + (10) - (01)) / 2
            share = (both1 - both0 + only - other) / 2.0
            t = t + add_up(end, share, size + 1)[:size]
        count = len(step.edges)
        weights = add_up(step.onto, weights[step.untouched], count)
        weights += add_up(step.born, link, count + 1)[:count]
        n, edges = size, step.edges
        touched = np.concatenate(
            [np.append(np.abs(t), 0.0)[step.ends], np.append(weights, 0.0)[step.born][None]]
        )
        off += 4.0 * EPS * float(touched.sum())
    return Pairwise(n, edges, weights, t, off), constant, steps


def expand(steps: list[Step], mean: FloatArray, joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the marginals and the joint tables of the edges of the original function.

    Parameters
    ----------
    steps : list of Step
    mean : ndarray of shape (n,)
        Probabilities of 1 in the reduced function.
    joint : ndarray of shape (E, 2, 2)
        Probabilities of (x_i, x_j) for each edge i < j of the reduced function.
    """
    for step in reversed(steps):
        mean, joint = _expand(step, mean, joint)
    return mean, joint


def _expand(step: Step, mean: FloatArray, joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Undo one round."""
    here = step.round
    # P(a, b) of the two neighbours; a missing one is treated as 0
    a, b = here.ends
    certain = np.append(mean, 0.0)
    table = np.zeros((len(here.gone), 2, 2))
    table[:, 0, 0], table[:, 1, 0] = 1.0 - certain[a], certain[a]
    two = b < len(here.kept)
    table[two] = joint[here.born[two]]
    # P(v = 1 | a, b) = sig(t + w_a (2a - 1) + w_b (2b - 1)), and P(v = 0 | a, b) likewise
    sign = np.array([-1.0, 1.0])
    pull = step.weights[:, :, None] * sign
    odds = step.t[:, None, None] + pull[0][:, :, None] + pull[1][:, None, :]
    three = np.stack([expit(-odds), expit(odds)], axis=1) * table[:, None]

    full = np.empty(len(here.kept) + len(here.gone))
    full[here.kept] = mean
    full[here.gone] = three[:, 1].sum(axis=(1, 2))
    tables = np.empty((here.before, 2, 2))
    tables[here.untouched] = joint[here.onto]
    original = np.append(here.kept, 0)  # the numbers of the neighbours before the round
    for which, axis in ((0, 3), (1, 2)):
        have = here.links[which] < here.before
        pair = three[have].sum(axis=axis)  # (v, neighbour)
        swap = original[here.ends[which][have]] < here.gone[have]
        pair[swap] = pair[swap].transpose(0, 2, 1)
        tables[here.links[which][have]] = pair
    return full, tables
