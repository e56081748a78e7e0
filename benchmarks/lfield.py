"""The L-field bound: the exact min-norm point against solvers of total-variation denoising.

The bound is sum_d log(1 + exp(-s_d)) at the min-norm point s of B(f - t), and for cuts -s is the
minimiser w of the total-variation objective P(w) = 1/2 |w - t|^2 + sum_e w_e |w_i - w_j|.
"""

from __future__ import annotations

import importlib
import operator
from functools import reduce
from typing import Any

import numpy as np

from benchmarks.measure import Contender, Settings, interleave
from benchmarks.outcome import Accuracy, Outcome
from benchmarks.tuning import Setting, fastest, make
from benchmarks.tv_peers import TV_PEERS
from benchmarks.workloads import Floats, Workload

LEVELS = [1e-3, 1e-6, 1e-9]
"""Relative gaps that the peers are tuned for."""

CERTIFIED = 1e-10
"""Maximum relative gap of ours; above, the run fails."""


def run_lfield(work: Workload, settings: Settings, outcome: Outcome) -> None:
    """Time the bound of each image; each peer with its defaults, and tuned for some accuracies."""
    ls = importlib.import_module("logsuper")
    terms = [float(a) * f for a, f in zip(work.alpha, work.functions(), strict=True)]
    cut = reduce(operator.add, terms)
    title = f"L-field bound, {work.title}"

    def ours(n_jobs: int) -> Any:
        # On one thread one call per image, as for the peers; threads work on the batch.
        batches = work.theta if n_jobs == 1 else [work.theta]
        points = [ls.min_norm_point(cut, theta=t, n_jobs=n_jobs) for t in batches]
        s = np.concatenate([np.atleast_2d(p.s) for p in points])
        return s, np.concatenate([np.atleast_1d(p.gap) for p in points]), _bound(-s)

    point, gap, bounds = ours(1)
    values = _objective(work, -point, work.theta)
    # Our gap certifies that the optimum lies between `least` and `values`.
    least = values - gap
    error = float((gap / values).max())
    if not error <= CERTIFIED:
        outcome.failures.append(f"{work.name}: the gap of ours is {error:.3g} relative")

    def gaps(answers: list[Floats], indices: Any = slice(None)) -> Floats:
        theirs = _objective(work, np.stack(answers), work.theta[indices])
        return np.asarray((theirs - least[indices]) / values[indices])

    chosen: dict[str, Setting] = {}
    for cls in TV_PEERS:
        peer = make(cls, work, title, outcome)
        if peer is None:
            continue
        chosen[f"{cls.name} as it comes"] = peer.default()
        levels = LEVELS[:2] if settings.quick else LEVELS
        tuned = fastest(
            peer.ladders(), lambda x: float(gaps(x).max()), work.theta, levels, settings.clock
        )
        chosen |= {f"{cls.name} to {level:.0e}": setting for level, setting in tuned.items()}

    def contender(name: str, setting: Setting) -> Contender:
        def run(indices: Any) -> list[tuple[Floats, Floats]]:
            points = [setting.solve(work.theta[k]) for k in indices]
            return [(w, _bound(w)) for w in points]

        return Contender(name, run, len(work.theta))

    peers = [contender(name, setting) for name, setting in chosen.items()]
    comparisons, _, _ = interleave(ours, len(work.theta), peers, settings)
    for each, comparison in zip(peers, comparisons, strict=True):
        solved = sorted(each.answers)
        theirs = gaps([each.answers[k][0] for k in solved], solved)
        off = max(abs(float(each.answers[k][1] - bounds[k])) for k in solved)
        note = f"{chosen[each.name].name}; its bound is off by {off:.1e} nats"
        outcome.accuracies.append(
            Accuracy(
                work.name, title, comparison, error, float(theirs.max()), threads=True, note=note
            )
        )
        if not bool(np.all(theirs >= -CERTIFIED)):
            outcome.failures.append(
                f"{work.name}: {each.name} is below what ours certifies, by "
                f"{-float(theirs.min()):.3g} relative"
            )


def _bound(w: Floats) -> Floats:
    """Return sum_d log(1 + exp(w_d))."""
    return np.asarray(np.logaddexp(0.0, w).sum(axis=-1))


def _objective(work: Workload, w: Floats, t: Floats) -> Floats:
    """Return P of each row."""
    i, j = work.graph.edges.T
    variation = np.abs(w[:, i] - w[:, j]) @ work.graph.weights
    return np.asarray(0.5 * ((w - t) ** 2).sum(axis=1) + variation)
