"""Marginals: time to the same accuracy against belief propagation; and exact marginals."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from benchmarks.marginal_peers import PGMax, Pgmpy
from benchmarks.measure import Contender, Settings, interleave
from benchmarks.outcome import Accuracy, Limit, Outcome
from benchmarks.peers import version
from benchmarks.tuning import Setting, fastest, make
from benchmarks.workloads import Floats, Workload, row_marginals

METHODS: dict[str, list[dict[str, Any]]] = {
    "bethe": [{}],
    "mean_field": [{}],
    "strips": [{"window": columns, "n_jobs": 1} for columns in range(2, 11)],
}
"""Our approximate methods, and their options from rough to accurate if they have any."""

SLACK = 1.01
"""A peer is as accurate as ours if its error is at most this factor times ours."""

REFERENCE = {"method": "strips", "window": 12}
"""Reference for errors: its brackets are narrower than the errors by orders of magnitude."""

EXACT = 1e-9
"""Maximum error of our exact marginals; above, the run fails."""


def _model(work: Workload) -> Callable[[Floats], Any]:
    """Return a function that turns a field into a model of the library."""
    ls = importlib.import_module("logsuper")
    terms = [float(a) * f for a, f in zip(work.alpha, work.functions(), strict=True)]
    cut = reduce(operator.add, terms)
    return lambda theta: ls.LogSupermodular(cut - ls.Modular(theta), shape=(cut.n,))


def run_approximate(method: str, work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time one of our methods against belief propagation as in PGMax's examples, and tuned.

    If ours has options, the fastest that are as accurate as the peer's examples are used. The tuned
    peer is its fastest setting that is as accurate as ours, or as its examples if ours is better.
    """
    work = replace(work, title=f"{method} marginals, {work.title}")
    peer = make(PGMax, work, work.title, outcome)
    if peer is None:
        return
    model = _model(work)
    truth = [model(theta).marginals(**REFERENCE) for theta in work.theta]
    reference = np.stack([np.asarray(marginals) for marginals in truth])
    doubt = float(np.mean([0.5 * (m.upper - m.lower) for m in truth]))

    def error(answers: list[Floats], indices: Any = slice(None)) -> float:
        return float(np.abs(np.stack(answers) - reference[indices]).mean())

    def own(options: dict[str, Any]) -> Setting:
        name = ", ".join(f"{key} {value}" for key, value in options.items())
        return Setting(name, lambda t: np.asarray(model(t).marginals(method, **options)))

    example = peer.default()
    plain = error([example.solve(theta) for theta in work.theta])
    ladder = [own(options) for options in METHODS[method]]
    tuned = fastest([ladder], error, work.theta, [plain], settings.clock)
    mine = tuned.get(plain, ladder[-1])
    best = error([mine.solve(theta) for theta in work.theta])
    level = SLACK * max(best, plain)
    chosen = {"PGMax, 100 iterations": example}
    for setting in fastest(peer.ladders(), error, work.theta, [level], settings.clock).values():
        chosen["PGMax, tuned"] = setting

    def ours(n_jobs: int) -> list[Floats]:
        return [mine.solve(theta) for theta in work.theta]

    def contender(name: str, setting: Setting) -> Contender:
        return Contender(
            name, lambda ks: [setting.solve(work.theta[k]) for k in ks], len(work.theta)
        )

    peers = [contender(name, setting) for name, setting in chosen.items()]
    comparisons, _, _ = interleave(ours, len(work.theta), peers, settings)
    for each, comparison in zip(peers, comparisons, strict=True):
        solved = sorted(each.answers)
        theirs = error([each.answers[k] for k in solved], solved)
        note = f"{chosen[each.name].name}; errors are known to {doubt:.1e}"
        note += f"; ours: {mine.name}" if mine.name else ""
        outcome.accuracies.append(
            Accuracy(work.name, work.title, comparison, best, theirs, threads=False, note=note)
        )


def run_exact(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time exact marginals of a small grid against pgmpy's junction tree."""
    model = _model(work)
    side = int(np.sqrt(work.graph.n))
    reference = np.stack(
        [row_marginals(t.reshape(side, side), work.alpha).ravel() for t in work.theta]
    )

    def ours(n_jobs: int) -> Floats:
        return np.stack([np.asarray(model(theta).marginals()) for theta in work.theta])

    error = float(np.abs(ours(1) - reference).max())
    if not error <= EXACT:
        outcome.failures.append(f"{work.name}: exact marginals of ours are off by {error:.3g}")
    if version(Pgmpy.package) is None:
        note = f"not compared: {Pgmpy.package} is not installed"
        outcome.limits.append(Limit(work.name, f"{work.title}, pgmpy", None, "", None, note))
        return
    pgmpy = Pgmpy(work.graph)
    peer = Contender(
        Pgmpy.name, lambda ks: [pgmpy.solve(work.theta[k]) for k in ks], len(work.theta)
    )
    comparisons, _, _ = interleave(ours, len(work.theta), [peer], settings)
    solved = sorted(peer.answers)
    theirs = np.abs(np.stack([peer.answers[k] for k in solved]) - reference[solved])
    outcome.accuracies.append(
        Accuracy(
            work.name,
            work.title,
            comparisons[0],
            error,
            float(theirs.max()),
            threads=False,
            note="junction tree; largest error instead of the mean",
        )
    )
