r"""Stochastic subgradients of the likelihood of observations alone (section 4.4).

Every step takes two sets of cuts, with fresh perturbations: those of the prior and those of the
posteriors of a few images. The channel follows by an M step whenever the objective is estimated.
"""

from __future__ import annotations

import dataclasses

from logsuper._base import FloatArray, IntArray
from logsuper.channels import Channel
from logsuper.learning._descent import Descent, batch_size, converged
from logsuper.learning._engines import Engine, FreshNoise, Partition, step_key
from logsuper.learning._evidence import Evidence
from logsuper.learning._examples import Group
from logsuper.learning._learned import Callback, Learned, Record
from logsuper.learning._objective import Objective
from logsuper.learning._penalty import Penalty
from logsuper.learning._steps import make_steps

__all__ = ["descend_evidence"]

# Passes over the data from one estimate of the objective to the next.
_PASSES = 4


def descend_evidence(
    evidence: Evidence,
    penalty: Penalty,
    theta: FloatArray,
    channel: Channel,
    *,
    learn_channel: bool,
    callback: Callback | None,
    tol: float,
    max_iterations: int,
    batch: int | None,
    samples: int,
    key: int,
    n_jobs: int | None,
) -> Learned:
    """Minimise the objective by steps on a few images each; see `latent` for the options.

    `evidence`, with perturbations that stay, tells how good the average of the iterates is.
    """
    examples = evidence.examples
    objective = Objective(examples, FreshNoise(1, 0), latent=True)
    size = min(batch_size(objective) if batch is None else batch, examples.count)
    # as many cuts of the prior as of posteriors, where all examples share it
    engine = _Sides(
        FreshNoise(samples * (size if objective.alike else 1), step_key(key, 0), n_jobs),
        FreshNoise(samples, step_key(key, 1), n_jobs),
    )

    def through(channel: Channel) -> Objective:
        return Objective(examples.with_channel(channel), engine, latent=True)

    objective = through(channel)
    steps = make_steps("adaptive", examples, 1.0)
    descent = Descent(objective, penalty, objective, steps, size, step_key(key, 2))
    state = descent.init(theta)
    between = -(-_PASSES * examples.count // size)
    estimated = 0
    for iteration in range(max_iterations + 1):
        theta = descent.result(state)
        free, held = evidence.free(theta), evidence.held(theta, channel)
        estimated += free.cuts + held.cuts
        value = free.value - held.value + penalty.value(theta)
        line = Record(state.step, state.cuts + estimated, value)
        state = dataclasses.replace(state, history=(*state.history, line))
        if callback is not None:
            callback(line)
        if converged(state, tol) or iteration == max_iterations:
            break
        if learn_channel:
            channel = channel.refit(held.counts)
            descent = dataclasses.replace(descent, objective=through(channel))
        for _ in range(between):
            state = descent.update(state)
    return Learned(
        examples.layout.unpack(theta), theta, converged(state, tol), state.history, channel
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Sides:
    """An engine for each side of an `Objective`, which numbers them: the prior is even."""

    prior: Engine
    posterior: Engine

    def evaluate(
        self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray, step: int
    ) -> Partition:
        """Evaluate by the engine of the side."""
        engine = self.posterior if step % 2 else self.prior
        return engine.evaluate(group, rows, alpha, fields, step)
