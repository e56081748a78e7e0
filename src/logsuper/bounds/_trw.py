r"""The tree-reweighted upper bound for pairwise functions.

Wainwright, Jaakkola and Willsky, "A new class of upper bounds on the log partition function",
IEEE Transactions on Information Theory 51, 2005. The probabilities of the edges are those in a list
of spanning forests.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import entr, expit

from logsuper._base import EPS, FloatArray, IntArray, add_up, check_integer
from logsuper.bounds import _lfield
from logsuper.bounds._dominant import capped
from logsuper.bounds._margins import at_least
from logsuper.bounds._messages import PER_SWEEP, Effort, Messages
from logsuper.bounds._needs import need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise

# Slack, relative to 1 + value, above which the L-field bound is computed too.
_CONVERGED = 1e-6

# The default effort; steps are those over the edge probabilities.
_FULL = Effort(sweeps=200, newton_steps=40, steps=10)
# Sweeps per step over the edge probabilities, and minimum number of sweeps without such steps.
_SWEEPS, _LEAST = 30, 20
# Nanoseconds per element and edge of the bound for given messages.
_JUDGE = 600.0


def log_partition(
    f: SubmodularFunction, *, max_iter: int | None = None, n_jobs: int | None = None
) -> Bound:
    r"""Bound log Z from above by a mixture of trees.

    Any messages u write the model as a product of their beliefs q and pair tables
    :math:`\tau`, :math:`e^{-f(x)}=e^C\prod_iq_i(x_i)\prod_e(\tau_e/q_iq_j)^{\rho_e}`. If
    :math:`\rho` are the edge probabilities of random forests, then by the convexity of log Z it is
    at most C plus the mean of the forests' own. At a fixed point these are normalised, with log Z =
    0; elsewhere each edge adds at most the largest log-ratio of a marginal of its table and the
    belief. The value is C plus this slack, hence valid for any messages and tight at convergence.

    The probabilities start from a list of forests that prefer strong couplings, and move towards
    the forest of the greatest mutual information, the gradient of the bound (the conditional
    gradient method of the paper).

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        A pairwise function.
    max_iter : int, optional
        Maximum number of steps over the edge probabilities, 10 by default.
    n_jobs : int, optional
        Number of threads of the L-field bound, which is used if the messages do not converge.

    Returns
    -------
    Bound
        An upper bound, exact on trees; `details` has the ``slack``.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.trw(ls.Cut(2, [(0, 1)]))
    <upper bound 1.006408868 by trw, certified>
    """
    most = _at_most(max_iter)
    bound = within(f, most)
    solves = 0
    value, slack = bound.value, bound.details["slack"]
    if slack > _CONVERGED * (1.0 + abs(value)):
        other = _lfield.log_partition(f, n_jobs=n_jobs)
        value, solves = min(value, other.value), other.solves
    return dataclasses.replace(bound, value=value, solves=solves)


def _at_most(max_iter: int | None) -> Effort:
    """Return the full effort, with the given number of steps."""
    if max_iter is None:
        return _FULL
    return _FULL._replace(steps=check_integer(max_iter, "max_iter", 0, 2**31))


def effort(model: Pairwise, budget: float) -> Effort | None:
    """Return the effort that a number of operations affords; None if it is below the minimum."""
    edges = len(model.edges)
    size = model.n + edges
    least = _LEAST * PER_SWEEP * size + _JUDGE * size
    left = budget - trees_operations(model.n, edges) - least
    if left < 0:
        return None
    messages = Messages(model, np.ones(edges))
    # half for the first messages, half for steps, each with sweeps and a few Newton steps
    newton = messages.newton_operations
    newton_steps = min(_FULL.newton_steps, int(left / 4 / newton))
    sweeps = min(_FULL.sweeps, _LEAST + int(left / 4 / (PER_SWEEP * size)))
    forest = forest_operations(model.n, edges)
    each = forest + (_SWEEPS * PER_SWEEP + 2 * _JUDGE) * size + (4 * newton if newton_steps else 0)
    return Effort(sweeps, newton_steps, min(_FULL.steps, int(left / 2 / each)))


def within(f: SubmodularFunction, most: Effort) -> Bound:
    """Return the bound for the given effort."""
    model = need_pairwise(f, "trw")
    moderate, constant = capped(model)
    messages, u, slack = _search(moderate, most)
    value = certified(messages, u, moderate, constant)
    return Bound(value, "upper", "trw", certified=True, details={"slack": slack})


def marginals(f: SubmodularFunction, *, max_iter: int | None = None) -> Marginals:
    """Return the beliefs of the tree-reweighted messages.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0]))
    >>> m.marginals("trw").values.round(3)
    array([0.731, 0.607])
    """
    most = _at_most(max_iter)
    messages, u, _ = _search(capped(need_pairwise(f, "trw"))[0], most)
    return Marginals(np.asarray(expit(messages.beliefs(u))), "trw")


def _search(model: Pairwise, most: Effort) -> tuple[Messages, FloatArray, float]:
    """Return the equations and messages of the best bound that was found, and its slack."""
    rho = edge_probabilities(model.n, model.edges, model.weights)
    messages = _equations(model, rho, most)
    u, _ = messages.solve(np.zeros(2 * len(rho)), sweeps=most.sweeps)
    best = messages, u, *dual(messages, u)
    for step in range(most.steps if (rho < 1.0).any() else 0):
        forest = best_forest(model.n, model.edges, _mutual_information(messages, u))
        rho = rho + (forest - rho) / (step + 6)
        messages = _equations(model, rho, most)
        u, _ = messages.solve(u, sweeps=_SWEEPS)
        found = messages, u, *dual(messages, u)
        best = min(best, found, key=lambda entry: entry[2] + entry[3])
    messages, u, _, slack = best
    return messages, u, slack


def _equations(model: Pairwise, rho: FloatArray, most: Effort) -> Messages:
    """Return the equations, with numbers rounded to the safe side.

    Smaller weights have a larger log Z, and smaller edge probabilities are still those of forests.
    """
    safe = model.weights * (1.0 - model.relative - 8.0 * EPS)
    if (rho < 1.0).any():
        rho = rho * (1.0 - 256.0 * EPS)
    return Messages(dataclasses.replace(model, weights=safe), rho, most.newton_steps)


def certified(
    messages: Messages, u: FloatArray, model: Pairwise, constant: FloatArray | float = 0.0
) -> float:
    """Return an upper bound on the exact value of the bound by the messages.

    Beliefs are sums of deg + 1 numbers; the terms depend on them with slopes of at most 1.
    """
    terms, worst = _terms(messages, u)
    count = len(u) // 2
    rho, k = messages.rho[:count], messages.coupling[:count]
    _, cavity = messages.residual(u)
    size = np.abs(messages.t) + add_up(messages.target, messages.rho * np.abs(u), messages.n)
    degree = np.bincount(messages.target, minlength=messages.n)
    slope = 1.0 + 2.0 * add_up(messages.target, messages.rho, messages.n)
    rounded = (EPS * (degree + 4) * size * slope).sum()
    rounded += sum(8.0 * EPS * np.abs(term).sum() for term in terms)
    rounded += (EPS * (degree + 1) * np.logaddexp(0.0, messages.beliefs(u))).sum()
    large = np.abs(cavity[:count]) + np.abs(cavity[count:]) + size[messages.source[:count]]
    large = large + size[messages.target[:count]] + 4.0
    rounded += (32.0 * EPS * rho * (large + np.minimum(k, 800.0))).sum()
    return at_least([*terms, worst, constant], float(rounded) + model.error)


def _mutual_information(messages: Messages, u: FloatArray) -> FloatArray:
    """Return the mutual information of the pair table of each edge."""
    count = len(u) // 2
    _, cavity = messages.residual(u)
    first, second, k = cavity[:count], cavity[count:], messages.coupling[:count]
    logs = np.stack([np.zeros(count), first - k, second - k, first + second])
    logs -= np.logaddexp.reduce(logs, axis=0)
    table = np.exp(logs)
    ends = np.stack([table[1] + table[3], table[2] + table[3]])
    return np.asarray((entr(ends) + entr(1.0 - ends)).sum(axis=0) + (table * logs).sum(axis=0))


def dual(messages: Messages, u: FloatArray) -> tuple[float, float]:
    """Return the constant C of the factorisation by the messages u, and the slack to add."""
    terms, worst = _terms(messages, u)
    return float(sum(term.sum() for term in terms)), float(worst.sum())


def _terms(messages: Messages, u: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the terms of the constant C, and those of the slack."""
    beliefs = messages.beliefs(u)
    off, cavity = messages.residual(u)
    count = len(u) // 2
    rho, k = messages.rho[:count], messages.coupling[:count]
    first, second = cavity[:count], cavity[count:]
    # log-partition functions of the tables exp(first x_i + second x_j - k |x_i - x_j|)
    apart = np.logaddexp(first, second) - k
    tables = np.logaddexp(np.logaddexp(0.0, first + second), apart)
    alone = 1.0 - add_up(messages.target, messages.rho, messages.n)
    # the marginal of a table has log-odds b + r, r the residual of the message
    b = beliefs[messages.target]
    on = np.logaddexp(0.0, -b) - np.logaddexp(0.0, -b - off)
    zero = np.logaddexp(0.0, b) - np.logaddexp(0.0, b + off)
    worst = np.maximum(on, zero)
    slack = rho * np.maximum(worst[:count], worst[count:])
    return [alone * np.logaddexp(0.0, beliefs), rho * tables], slack


# Minimum and maximum number of forests in the list, and their total number of edges, which takes a
# fraction of a second.
_FORESTS = (16, 64)
_EDGES = 1 << 20
# Minimum number of forests that each edge of a dense graph is in, to make the fractions more even.
_TIMES = 2


def edge_probabilities(n: int, edges: IntArray, weights: FloatArray) -> FloatArray:
    """Return a probability > 0 per edge: the fraction of a list of spanning forests that have it.

    Each forest prefers heavy edges that the ones before it left out, so that the fractions follow
    the weights as far as possible. They are exact edge probabilities for any graph.
    """
    uses = np.zeros(len(edges))
    if len(edges) == 0:
        return uses
    wanted = _wanted(n, len(edges))
    least = _TIMES if _is_dense(n, len(edges)) else 1
    rng = np.random.default_rng(0)
    some, forest = np.ones(len(edges), dtype=bool), np.zeros(len(edges))
    forests = 0
    while forests < wanted or uses.min() < least:
        left_out = uses == uses.min()
        if forests >= wanted and _is_dense(n, int(left_out.sum())):
            count, found = _disjoint_forests(n, edges[left_out], rng)
            uses[left_out] += found
            forests += count
            continue
        # order equal weights at random; otherwise the forests would be stars of the first elements
        gains = weights / (1.0 + uses) * (1.0 + 1e-6 * rng.random(len(edges)))
        if forests >= wanted:
            # the list is long enough: take as many of the edges that were left out as possible,
            # and complete them by edges of the last forest, which spans the graph
            gains[left_out] += weights.max()
            some = left_out | (forest > 0)
        forest = np.zeros(len(edges))
        forest[some] = best_forest(n, edges[some], gains[some])
        forests += 1
        if forest.all():  # no cycle: there is one forest only
            return forest
        uses += forest
    return uses / forests


def _disjoint_forests(n: int, edges: IntArray, rng: np.random.Generator) -> tuple[int, FloatArray]:
    """Return a number of forests, and the indicator of the edges that are in one of them.

    The edges of a dense graph are assigned at random to groups of about 4 n edges, most of which
    contain a spanning tree. All are found at once, on a graph of disjoint copies, one per group.
    """
    count = len(edges) // (4 * n)
    group = rng.permutation(len(edges)) % count
    order = np.argsort(group, kind="stable")
    inside = np.zeros(len(edges))
    copies = edges[order] + (group[order] * np.int64(n))[:, None]
    # in a random order; otherwise edges between the last elements would be left out
    inside[order] = best_forest(n * count, copies, rng.random(len(edges)))
    return count, inside


def trees_operations(n: int, edges: int) -> float:
    """Return the approximate nanoseconds of `edge_probabilities`."""
    # the forests of the list, and some more for the edges that they leave out
    more = 24 * _TIMES if _is_dense(n, edges) else 8
    return (_wanted(n, edges) + more) * forest_operations(n, edges)


def forest_operations(n: int, edges: int) -> float:
    """Return the approximate nanoseconds of `best_forest` (measured, rounded up)."""
    return 100.0 * edges + 600.0 * n


def _is_dense(n: int, edges: int) -> bool:
    return edges > 8 * n


def _wanted(n: int, edges: int) -> int:
    """Return the number of forests chosen by weight: few for a dense graph, whose list is long."""
    return _FORESTS[0] if _is_dense(n, edges) else int(np.clip(_EDGES // max(1, edges), *_FORESTS))


def best_forest(n: int, edges: IntArray, gains: FloatArray) -> FloatArray:
    """Return the indicator of the edges of a spanning forest of maximum total gain."""
    # only the order matters, and the solver treats a price of 0 as a missing edge
    order = np.argsort(-gains, kind="stable")
    price = np.empty(len(edges))
    price[order] = np.arange(1.0, len(edges) + 1.0)
    chosen = minimum_spanning_tree(csr_array((price, tuple(edges.T)), shape=(n, n)))
    inside = np.zeros(len(edges))
    inside[order[chosen.data.astype(np.int64) - 1]] = 1.0
    return inside
