"""Exact inference in pairwise functions of moderate treewidth.

Before the tables, series-parallel reduction: elements with at most two neighbours, summed out in
closed form. The result is again pairwise, without additional edges, so that chains, trees and rings
vanish completely. These are the islet, twig and series rules of Arnborg and Proskurowski (*SIAM
Journal on Algebraic Discrete Methods* 7, 1986). Elements that are not neighbours are summed out
together, in one step over arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, add_up, check_number, places_of
from logsuper.bounds import _junction
from logsuper.bounds._margins import refuse_overflow
from logsuper.bounds._needs import TooLarge, need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise, pairwise_of, structure_of

BUDGET = 1e10
MEMORY = 1e9

# Operations (about one nanosecond each) per entry of a table, per table, and per element of a
# vectorised round.
_ENTRY, _TABLE, _ELEMENT = 5.0, 1.2e4, 150.0
# Cost of the marginals relative to log Z.
_BOTH_WAYS = 3.0
# Number of arrays of the size of the largest table in memory at a time.
_SCRATCH = 8


def log_partition(
    f: SubmodularFunction, *, budget: float = BUDGET, memory_limit: float = MEMORY
) -> Bound:
    r"""Return log Z by summing out one element after the other.

    Elements with at most two neighbours are summed out by a closed form, the others by tables over
    the elements that they are joined to, in the cheaper of a min-fill order and a breadth-first
    sweep. The cost is exponential in the width of the order, and known before any table is made.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        Pairwise.
    budget : float, default 1e10
        Maximum number of operations (about one nanosecond each).
    memory_limit : float, default 1e9
        Maximum number of bytes.

    Returns
    -------
    Bound
        With the `width` in its details.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.elimination(ls.Cut(3, [(0, 1), (1, 2), (0, 2)]))
    <exact 1.033900134 by elimination, certified>
    """
    pairwise, plan = _prepare(f, budget, memory_limit, keep=False)
    core, constant, _ = collapse(pairwise, plan.rounds)
    total, errors, _ = _junction.collect(plan.forest, core, keep=False)
    error = core.error + _junction.log_error(plan.forest, errors, total)
    error += 2.0 * EPS * (abs(constant) + abs(total))
    return Bound.exactly(constant + total, error, "elimination", {"width": plan.width})


def marginals(
    f: SubmodularFunction, *, budget: float = BUDGET, memory_limit: float = MEMORY
) -> Marginals:
    """Return the exact marginals; see `log_partition` for the options."""
    pairwise, plan = _prepare(f, budget, memory_limit, keep=True)
    mean, _, slip = _infer(pairwise, plan)
    # probabilities of 0 are computed as one minus those of 1
    absolute = 4.0 * EPS * (f.n + 8.0)
    return Marginals.exactly(mean, slip, "elimination", {"width": plan.width}, absolute)


def pair_marginals(f: SubmodularFunction) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Return the marginals, the edges of f's normal form, and their :math:`P(x_i\ne x_j)`.

    Examples
    --------
    >>> from logsuper.functions import Cut
    >>> mean, edges, apart = pair_marginals(Cut(2, [(0, 1)]))
    >>> edges, apart.round(4)
    (array([[0, 1]]), array([0.2689]))
    """
    pairwise, plan = _prepare(f, BUDGET, MEMORY, keep=True)
    mean, joint, _ = _infer(pairwise, plan)
    return mean, pairwise.edges, joint[:, 0, 1] + joint[:, 1, 0]


def operations(f: SubmodularFunction) -> float:
    """Return the approximate nanoseconds of log Z; infinity if elimination does not apply."""
    pairwise = None if _least_width(f) > _junction.WIDEST else pairwise_of(f)
    plan = None if pairwise is None else _find_plan(f, pairwise)
    return math.inf if plan is None or plan.bytes_summed > MEMORY else plan.operations


def _infer(pairwise: Pairwise, plan: _Plan) -> tuple[FloatArray, FloatArray, float]:
    """Return the marginals, the joint tables (E, 2, 2) of the edges, and the error of their logs.

    The error of the conditional log-odds of an element that a round removed is at most the total
    error of all numbers at that time.
    """
    core, _, steps = collapse(pairwise, plan.rounds)
    _, errors, conditionals = _junction.collect(plan.forest, core, keep=True)
    found = _junction.distribute(plan.forest, errors, conditionals, len(core.edges))
    mean, joint = expand(steps, *found[:2])
    slip = found[2] + 2.0 * core.error + len(steps) * (2.0 * core.error + 64.0 * EPS)
    return mean, joint, slip


# ------------------------------------------------------------------------------------------- plans


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    """How to sum out a graph, for any weights, and the cost of it."""

    rounds: list[Round]
    forest: _junction.Forest
    width: int
    operations: float  # of log Z
    bytes_summed: float  # for log Z
    bytes_kept: float  # for marginals


def _find_plan(f: SubmodularFunction, pairwise: Pairwise) -> _Plan | None:
    """Return the plan for a function, or None if it is too wide."""
    # a graph of treewidth k has fewer than k n edges; do not use a dense one as the key of a cache
    if _least_width(f) > _junction.WIDEST or len(pairwise.edges) > _junction.WIDEST * pairwise.n:
        return None
    return _plan(pairwise.n, pairwise.edges.tobytes())


def _least_width(f: SubmodularFunction) -> int:
    """Return a lower bound on the treewidth: about the shorter side of a grid, else 0."""
    grid = structure_of(f).grid
    return 0 if grid is None else grid.least_width


# Learners ask about one graph with many weights; the search for an order is done once.
@functools.lru_cache(maxsize=4)
def _plan(n: int, edge_bytes: bytes) -> _Plan | None:
    """Return the plan for a graph, or None if it is too wide."""
    edges = np.frombuffer(edge_bytes, dtype=np.int64).reshape(-1, 2)
    rounds, left, rest = plan_rounds(n, edges)
    forest = _junction.plan(left, rest)
    if forest is None:
        return None
    sizes = [2.0 ** len(scope) for scope in forest.scopes]
    work = sum(
        size * (1 + len(children)) for size, children in zip(sizes, forest.children, strict=True)
    )
    alive = peak = 0.0
    for size, children in zip(sizes, forest.children, strict=True):
        alive += size
        peak = max(peak, alive)
        alive -= sum(sizes[child] for child in children)
    scratch = _SCRATCH * max(sizes, default=0.0)
    shrinking = sum(len(step.gone) + len(step.kept) for step in rounds)
    return _Plan(
        rounds,
        forest,
        max(forest.width, 2 if rounds else 0),
        _ENTRY * work + _TABLE * len(sizes) + _ELEMENT * shrinking,
        8.0 * (peak + scratch),
        8.0 * (sum(sizes) + peak + scratch),
    )


def _prepare(
    f: SubmodularFunction, budget: float, memory_limit: float, keep: bool
) -> tuple[Pairwise, _Plan]:
    """Return the normal form and the plan; raise TooLarge if it exceeds the limits."""
    budget, memory_limit = (
        check_number(budget, "budget"),
        check_number(memory_limit, "memory_limit"),
    )
    pairwise = need_pairwise(f, "elimination")
    refuse_overflow(f, [pairwise.t, pairwise.weights])
    plan = _find_plan(f, pairwise)
    if plan is None:
        width = max(_least_width(f), _junction.WIDEST + 1)
        entries = 2.0 ** min(width, 1000)
        raise TooLarge(
            f"elimination would take more than {_ENTRY * entries:.1g} operations and "
            f"{8 * entries:.1g} bytes for {f!r}: it found no order of a width less than {width}; "
            "bound log Z by bracket(), or sample",
            _ENTRY * entries,
        )
    needed = _BOTH_WAYS * plan.operations if keep else plan.operations
    room = plan.bytes_kept if keep else plan.bytes_summed
    if needed > budget or room > memory_limit:
        what = "the marginals" if keep else "log Z"
        raise TooLarge(
            f"elimination would take {needed:.2g} operations and {room:.2g} bytes for {what} of "
            f"{f!r}, along an order of width {plan.width}; it may take {budget:.2g} operations "
            f"(budget=) and {memory_limit:.2g} bytes (memory_limit=)",
            needed,
        )
    return pairwise, plan


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


def plan_rounds(n: int, edges: IntArray) -> tuple[list[Round], int, IntArray]:
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
