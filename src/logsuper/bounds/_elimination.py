"""Exact inference in pairwise functions of moderate treewidth."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from logsuper._base import EPS, FloatArray, IntArray, check_number
from logsuper.bounds import _junction, _series
from logsuper.bounds._errors import TooLarge
from logsuper.bounds._margins import refuse_overflow
from logsuper.bounds._needs import need_pairwise
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
    core, constant, _ = _series.collapse(pairwise, plan.rounds)
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


def pair_marginals(
    f: SubmodularFunction, *, budget: float = BUDGET, memory_limit: float = MEMORY
) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Return the marginals, the edges of f's normal form, and their :math:`P(x_i\ne x_j)`.

    Examples
    --------
    >>> from logsuper.functions import Cut
    >>> mean, edges, apart = pair_marginals(Cut(2, [(0, 1)]))
    >>> edges, apart.round(4)
    (array([[0, 1]]), array([0.2689]))
    """
    pairwise, plan = _prepare(f, budget, memory_limit, keep=True)
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
    core, _, steps = _series.collapse(pairwise, plan.rounds)
    _, errors, conditionals = _junction.collect(plan.forest, core, keep=True)
    found = _junction.distribute(plan.forest, errors, conditionals, len(core.edges))
    mean, joint = _series.expand(steps, *found[:2])
    slip = found[2] + 2.0 * core.error + len(steps) * (2.0 * core.error + 64.0 * EPS)
    return mean, joint, slip


# ------------------------------------------------------------------------------------------- plans


@dataclasses.dataclass(frozen=True, eq=False)
class _Plan:
    """How to sum out a graph, for any weights, and the cost of it."""

    rounds: list[_series.Round]
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
    rounds, left, rest = _series.plan(n, edges)
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
