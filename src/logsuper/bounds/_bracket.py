"""The tightest certified pair of bounds that a budget affords."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from logsuper._random import Seed
from logsuper.bounds import _exact, _methods, _strips
from logsuper.bounds._errors import NotApplicable
from logsuper.bounds._heavy import lighten
from logsuper.bounds._pairwise import as_grid, as_pairwise
from logsuper.bounds._results import Bound, Bracket
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import check_confidence, check_number

# Operations that a variational method takes for each element and edge: iterations, starts, logs.
_VARIATIONAL = {"mean_field": 1e4, "bethe": 2e4, "trw": 5e4}
# A generic family has no edges to count; its evaluation costs about this much an element.
_EVALUATION = 100
_WINDOWS = range(16, 1, -1)
_SAMPLES = 400
# A bracket on log Z below this, in nats, needs no other.
_NARROW = 1e-6


def bracket(
    f: SubmodularFunction,
    budget: float = 1e9,
    confidence: float | None = None,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bracket:
    """Return the best lower and upper bound; see `LogSupermodular.bracket`."""
    budget = check_number(budget, "budget")
    if budget <= 0:
        raise ValueError(f"budget must be a positive number of operations, got {budget:g}")
    confidence = None if confidence is None else check_confidence(confidence)
    if f.n == 0:
        nothing = Bound(0.0, "exact", "exact", certified=True, interval=(0.0, 0.0))
        return Bracket(nothing, nothing)
    light = lighten(f)
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
    """Return the best bounds on a function whose numbers are not huge."""
    if _exact.operations(f) <= budget:
        exact = _methods.log_partition(f, "exact", budget=budget)
        return Bracket(exact, exact)
    found = [*_certified(f, budget, n_jobs)]
    below = max((b for b in found if b.target == "lower"), key=lambda b: b.value)
    above = min((b for b in found if b.target == "upper"), key=lambda b: b.value)
    if confidence is not None:
        options = {"samples": _SAMPLES, "rigorous": True, "confidence": confidence}
        sampled = _methods.log_partition(f, "logistic", **options, seed=seed, n_jobs=n_jobs)
        if sampled.value < above.value:
            return Bracket(below, sampled, confidence)
    return Bracket(below, above)


def _certified(f: SubmodularFunction, budget: float, n_jobs: int | None) -> Iterator[Bound]:
    """Yield deterministic bounds, the cheap pair first, then what the rest of the budget pays."""
    yield _methods.log_partition(f, "superdifferential", n_jobs=n_jobs)
    yield _methods.log_partition(f, "lfield", n_jobs=n_jobs)
    pairwise = as_pairwise(f)
    left = budget
    if as_grid(f) is not None:
        # half of the budget, so that the variational bounds, better without fields, have a chance
        left = budget / 2
        window = next((w for w in _WINDOWS if _strips.affordable(f, w, left)), None)
        if window is not None:
            below, above = _strips.brackets(f, window, n_jobs=n_jobs)
            yield from (below, above)
            if above.value - below.value <= _NARROW:
                return
    size = f.n * _EVALUATION if pairwise is None else f.n + len(pairwise.edges)
    for method, operations in _VARIATIONAL.items():
        if operations * size <= left and (pairwise is not None or method == "mean_field"):
            left -= operations * size
            with contextlib.suppress(NotApplicable):  # mean field has no closed form for some
                yield _methods.log_partition(f, method)
