"""Marginals: ours against belief propagation, the time to the same accuracy; and exact ones."""

from __future__ import annotations

import importlib
import operator
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from benchmarks.marginal_peers import PGMax, Pgmpy
from benchmarks.measure import Contender, Settings, interleave
from benchmarks.outcome import Accuracy, Limit, Outcome
from benchmarks.peers import version
from benchmarks.tuning import Setting, fastest
from benchmarks.workloads import Floats, Workload, row_marginals

SLACK = 1.01
"""A peer counts as accurate as ours up to this factor of its error."""

EXACT = 1e-9
"""How far exact marginals of ours may be off: beyond, the run fails."""


def _models(work: Workload) -> list[Any]:
    ls = importlib.import_module("logsuper")
    terms = [float(a) * f for a, f in zip(work.alpha, work.functions(), strict=True)]
    cut = reduce(operator.add, terms)
    return [ls.LogSupermodular(cut - ls.Modular(theta)) for theta in work.theta]


def _missing(work: Workload, name: str, why: str, outcome: Outcome) -> None:
    title = f"{work.title}, {name}"
    outcome.limits.append(Limit(work.name, title, None, "", None, f"not compared: {why}"))


def run_approximate(method: str, work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time one of our methods against belief propagation as in PGMax's examples, and at its best.

    Its best is the fastest setting with the mean error of ours, whatever method ours is.
    """
    work = replace(work, title=f"{method} marginals, {work.title}")
    models = _models(work)
    truth = [model.marginals("strips") for model in models]
    reference = np.stack([np.asarray(marginals) for marginals in truth])
    doubt = float(np.mean([0.5 * (m.upper - m.lower) for m in truth]))

    def ours(n_jobs: int) -> Floats:
        return np.stack([np.asarray(model.marginals(method)) for model in models])

    def error(answers: Any, indices: Any = slice(None)) -> float:
        return float(np.abs(np.stack(list(answers)) - reference[indices]).mean())

    own = error(ours(1))
    if version(PGMax.package) is None:
        _missing(work, PGMax.name, f"{PGMax.package} is not installed", outcome)
        return
    try:
        peer = PGMax((50, 50), work.alpha, work.graph)
    except Exception as problem:
        # It is bound to certain releases of JAX; with others it cannot be measured.
        _missing(work, PGMax.name, f"{type(problem).__name__}: {problem}", outcome)
        return
    chosen = {"PGMax, 100 iterations": peer.default()}
    tuned = fastest(peer.ladders(), error, work.theta, [SLACK * own], settings.clock)
    chosen.update(zip(["PGMax to our error"], tuned.values(), strict=False))

    def contender(name: str, setting: Setting) -> Contender:
        return Contender(name, lambda ks: [setting.solve(work.theta[k]) for k in ks], len(models))

    peers = [contender(name, setting) for name, setting in chosen.items()]
    comparisons, _, _ = interleave(ours, len(models), peers, settings)
    for each, comparison in zip(peers, comparisons, strict=True):
        solved = sorted(each.answers)
        theirs = error([each.answers[k] for k in solved], solved)
        note = f"{chosen[each.name].name}; errors are known to {doubt:.1e}"
        outcome.accuracies.append(
            Accuracy(work.name, work.title, comparison, own, theirs, threads=False, note=note)
        )


def run_exact(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time exact marginals of a small grid against pgmpy's junction tree."""
    models = _models(work)
    side = int(np.sqrt(work.graph.n))
    reference = np.stack(
        [row_marginals(t.reshape(side, side), work.alpha).ravel() for t in work.theta]
    )

    def ours(n_jobs: int) -> Floats:
        return np.stack([np.asarray(model.marginals()) for model in models])

    error = float(np.abs(ours(1) - reference).max())
    if not error <= EXACT:
        outcome.failures.append(f"{work.name}: exact marginals of ours are off by {error:.3g}")
    if version(Pgmpy.package) is None:
        _missing(work, Pgmpy.name, f"{Pgmpy.package} is not installed", outcome)
        return
    pgmpy = Pgmpy(work.graph)
    peer = Contender(Pgmpy.name, lambda ks: [pgmpy.solve(work.theta[k]) for k in ks], len(models))
    comparisons, _, _ = interleave(ours, len(models), [peer], settings)
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
