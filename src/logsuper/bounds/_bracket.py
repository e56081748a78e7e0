r"""The tightest certified pair of bounds that a budget affords.

Independent parts are bounded one by one: for :math:`f(x)=\sum_Cf_C(x_C)` log Z is the sum of those
of the parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array

from logsuper._base import EPS, FloatArray, IntArray, Seed, check_budget, check_confidence
from logsuper.bounds import (
    _bethe,
    _exact,
    _lfield,
    _mean_field,
    _methods,
    _strips,
    _superdifferential,
    _trw,
)
from logsuper.bounds._heavy import lighten
from logsuper.bounds._margins import at_least, at_most
from logsuper.bounds._needs import NotApplicable
from logsuper.bounds._results import Bound, Bracket, Target
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise, image_of, pairwise_of, structure_of

# Nanoseconds of a sweep of mean field per element and edge (measured, rounded up), and per element
# of a family without edges; number of starts, and minimum number of sweeps of each.
_SWEEP, _EVALUATION, _STARTS, _SWEEPS = 50.0, 1e4, 10, 3
# Fractions of the budget for the lower bounds; the upper one, which takes more, gets the rest.
_FOR_MEAN_FIELD, _FOR_BETHE = 0.1, 0.15
_WINDOWS = range(16, 1, -1)
_SAMPLES = 400
# Width (nats) below which a bracket is not improved by sampling.
_NARROW = 1e-6
# Width (nats) of a bracket by strips below which variational bounds are not tried.
_CLOSE = 1e-3
# Sums of larger numbers may overflow.
_HUGE = 1e250


def bracket(
    f: SubmodularFunction,
    budget: float = 1e9,
    confidence: float | None = None,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bracket:
    """Return the best lower and upper bound; see `LogSupermodular.bracket`."""
    budget = check_budget(budget)
    confidence = None if confidence is None else check_confidence(confidence)
    if f.n == 0:
        nothing = Bound(0.0, "exact", "exact", certified=True, interval=(0.0, 0.0))
        return Bracket(nothing, nothing)
    # replace numbers whose sums overflow; each method deals with other large numbers by itself
    light = lighten(f, above=_HUGE)
    if light is None:
        return _bracket(f, budget, confidence, seed, n_jobs)
    return light.bracket(_bracket(light.f, budget, confidence, seed, n_jobs))


def _bracket(
    f: SubmodularFunction,
    budget: float,
    confidence: float | None,
    seed: Seed,
    n_jobs: int | None,
) -> Bracket:
    """Return the best bounds for a function whose sums do not overflow."""
    below, above = _by_parts(f, budget, n_jobs)
    if confidence is not None and above.value - below.value > _NARROW:
        options = {"n_samples": _SAMPLES, "rigorous": True, "confidence": confidence}
        sampled = _methods.log_partition(f, "logistic", **options, seed=seed, n_jobs=n_jobs)
        if sampled.value < above.value:
            return Bracket(below, sampled, confidence)
    return Bracket(below, above)


def _by_parts(f: SubmodularFunction, budget: float, n_jobs: int | None) -> tuple[Bound, Bound]:
    """Return the best pair: of f exactly if that is cheap, else of each of its parts."""
    if _exact.operations(f) <= budget:
        return _ends(_methods.log_partition(f, "exact", budget=budget))
    parts = components(f)
    if len(parts) == 1:
        return _best(f, budget, n_jobs)
    alone, error = single_elements(f, parts)
    pairs = []
    for part, g in restricted(f, parts):
        share = budget * len(part) / f.n
        if _exact.operations(g) <= share:
            pairs.append(_ends(_methods.log_partition(g, "exact", budget=share)))
        else:
            pairs.append(_best(g, share, n_jobs))
    below, above = zip(*pairs, strict=True) if pairs else ((), ())
    details = {"components": len(parts)}
    return (
        _joined(at_most([alone, *(b.value for b in below)], error), "lower", below, details),
        _joined(at_least([alone, *(b.value for b in above)], error), "upper", above, details),
    )


def _joined(
    value: float, target: Target, parts: tuple[Bound, ...], details: dict[str, int]
) -> Bound:
    """Return the sum of bounds, under the names of all methods."""
    methods = " + ".join(dict.fromkeys(b.method for b in parts)) or "exact"
    solves = sum(b.solves for b in parts)
    return Bound(value, target, methods, certified=True, solves=solves, details=details)


def _ends(exact: Bound) -> tuple[Bound, Bound]:
    """Return both ends of the interval of an exact value."""
    if exact.interval is None or exact.interval[0] == exact.interval[1]:
        return exact, exact
    low, high = exact.interval
    return (
        dataclasses.replace(exact, value=low, target="lower"),
        dataclasses.replace(exact, value=high, target="upper"),
    )


def _best(f: SubmodularFunction, budget: float, n_jobs: int | None) -> tuple[Bound, Bound]:
    """Return the best pair of all bounds that apply and are within the budget."""
    found = [*_certified(f, budget, n_jobs)]
    below = max((b for b in found if b.target == "lower"), key=lambda b: b.value)
    above = min((b for b in found if b.target == "upper"), key=lambda b: b.value)
    return below, above


def _certified(f: SubmodularFunction, budget: float, n_jobs: int | None) -> Iterator[Bound]:
    """Yield deterministic bounds: a cheap pair, then those that the rest of the budget affords."""
    below, gradients = _superdifferential.with_gradients(f, n_jobs)
    above, q = _lfield.with_point(f, n_jobs)
    yield from (below, above)
    left = budget
    if image_of(f) is not None:
        # half of the budget: without fields, the variational bounds are better
        left = budget / 2
        window = next((w for w in _WINDOWS if _strips.affordable(f, w, left)), None)
        if window is not None:
            light = lighten(f)
            low, high = _strips.brackets(f if light is None else light.f, window, n_jobs=n_jobs)
            if light is not None:
                low, high = light.bound(low), light.bound(high)
            yield from (low, high)
            if high.value - low.value <= _CLOSE:
                return
    yield from _variational(f, left, gradients, q)


def _variational(
    f: SubmodularFunction, budget: float, gradients: list[FloatArray], q: FloatArray
) -> Iterator[Bound]:
    """Yield mean field, Bethe and the tree-reweighted bound, as far as the budget goes.

    Mean field starts from the supergradients and from the marginals `q` of the L-field.
    """
    model = pairwise_of(f)
    size = f.n if model is None else f.n + len(model.edges)
    sweep = size * _STARTS * (_EVALUATION if model is None else _SWEEP)
    sweeps = int(min(1000.0, budget * (1.0 if model is None else _FOR_MEAN_FIELD) / sweep))
    mean = None
    if sweeps >= _SWEEPS:
        try:
            starts = _mean_field.inner_starts(f, gradients, q)
            _, mean, solves, _ = _mean_field.search(f, max_iter=sweeps, inner=starts)
            value = _mean_field.certified(f, mean)
            yield Bound(value, "lower", "mean_field", certified=True, solves=solves)
        except NotApplicable:  # a term without a closed form
            assert model is None
    if model is None:
        return
    some = _bethe.effort(model, _FOR_BETHE * budget)
    if some is not None:
        start = -np.mean(gradients, axis=0) if mean is None else mean
        yield _bethe.within(f, some, start)
    rest = _trw.effort(model, (1.0 - _FOR_MEAN_FIELD - _FOR_BETHE) * budget)
    if rest is not None:
        yield _trw.within(f, rest)


# Parts with at least this fraction of the elements are made by conditioning, which keeps a grid a
# grid; smaller parts of a pairwise function are taken from its list of edges.
_LARGE = 1 / 16


def components(f: SubmodularFunction) -> list[IntArray]:
    """Return the elements of each part, in order; a single part if f is not a graph."""
    # slow to import
    from scipy.sparse.csgraph import connected_components

    structure = structure_of(f)
    if structure.graphs is None:
        return [np.arange(f.n)]
    if structure.others:
        graph = f.graph()
        assert graph is not None
        size, edges = f.n + graph.n_aux, graph.edges
    else:
        size, edges = f.n, structure.edges[structure.table[0] > 0]
    links = coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(size, size))
    count, label = connected_components(links, directed=False)
    label = label[: f.n]
    if count == 1:
        return [np.arange(f.n)]
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((np.sort(part) for part in parts), key=lambda part: int(part[0]))


def restricted(
    f: SubmodularFunction, parts: list[IntArray]
) -> list[tuple[IntArray, SubmodularFunction]]:
    """Return the function of each part of two or more elements, with the elements."""
    several = [part for part in parts if len(part) > 1]
    small = [part for part in several if len(part) < _LARGE * f.n]
    model = pairwise_of(f) if small else None
    pieces = iter(_pieces(model, small) if model else ())
    found = []
    for part in several:
        if model and len(part) < _LARGE * f.n:
            g = next(pieces)
        else:
            others = np.setdiff1d(np.arange(f.n), part)
            g = f.condition(dict.fromkeys(others.tolist(), 0))[0] if len(others) else f
        found.append((part, g))
    return found


def single_elements(f: SubmodularFunction, parts: list[IntArray]) -> tuple[FloatArray, float]:
    """Return log(1 + e^t) of the parts of one element, and a bound on the error of their sum."""
    alone = np.array([part[0] for part in parts if len(part) == 1], dtype=np.int64)
    if not len(alone):
        return np.empty(0), 0.0
    field = -f.gains(np.zeros(f.n))[alone]
    values = np.logaddexp(0.0, field)
    return values, 8.0 * EPS * float((values + np.abs(field)).sum())


def _pieces(model: Pairwise, parts: list[IntArray]) -> list[SubmodularFunction]:
    """Return the functions of some parts of a pairwise one, in one pass over the edges."""
    number = np.full(model.n, -1, dtype=np.int64)
    place = np.empty(model.n, dtype=np.int64)
    for k, part in enumerate(parts):
        number[part], place[part] = k, np.arange(len(part))
    which = number[model.edges[:, 0]]
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(parts) + 1))
    found = []
    for k, part in enumerate(parts):
        mine = order[starts[k] : starts[k + 1]]
        edges = place[model.edges[mine]]
        piece = Pairwise(len(part), edges, model.weights[mine], model.t[part])
        found.append(piece.as_function())
    return found
