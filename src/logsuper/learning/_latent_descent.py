r"""Stochastic subgradients of the likelihood of observations alone (section 4.4).

Every step takes two sets of cuts, with fresh perturbations: those of the prior and those of the
posteriors of a few images. The channel follows by an M step whenever the objective is estimated.
"""

from __future__ import annotations

import dataclasses

from logsuper.channels import Channel
from logsuper.learning._em import Problem
from logsuper.learning._engines import FreshNoise, derive_key
from logsuper.learning._learned import Learned, Pulse, Record
from logsuper.learning._objective import Objective
from logsuper.learning._steps import make_steps
from logsuper.learning._stochastic import Descent, batch_size, converged

# Passes over the data from one estimate of the objective to the next.
_PASSES = 4


def descend_evidence(
    objective: Objective, problem: Problem, noise: FreshNoise, batch: int | None
) -> Learned:
    """Minimise the objective by steps on a few images each, with fresh noise.

    `objective`, whose perturbations stay the same, says how good the average of the iterates is.
    """
    penalty, theta, channel, learn_channel, callback, tol, max_iter = problem
    n_samples, key, n_jobs = noise.n_samples, noise.seed, noise.n_jobs
    examples = objective.examples
    size = min(batch_size(objective) if batch is None else batch, examples.count)
    # as many cuts of the prior as of posteriors, where all examples share it
    prior = FreshNoise(n_samples * (size if objective.alike else 1), derive_key(key, 0), n_jobs)
    posterior = FreshNoise(n_samples, derive_key(key, 1), n_jobs)

    def through(channel: Channel) -> Objective:
        return Objective(examples.with_channel(channel), prior, None, True, posterior)

    steps = make_steps("adaptive", examples, 1.0)
    fresh = through(channel)
    descent = Descent(fresh, penalty, fresh, steps, size, derive_key(key, 2))
    state = descent.init(theta)
    between = -(-_PASSES * examples.count // size)
    estimated, pulse = 0, Pulse(callback)
    for iteration in range(max_iter + 1):
        theta = descent.result(state)
        free, held = objective.free(theta), objective.held(theta, channel)
        estimated += free.cuts + held.cuts
        value = free.value - held.value + penalty.value(theta)
        line = Record(state.step, state.cuts + estimated, value)
        state = dataclasses.replace(state, history=(*state.history, line))
        pulse(line)
        if converged(state, tol) or iteration == max_iter:
            break
        if learn_channel:
            channel = channel.refit(held.counts)
            descent = dataclasses.replace(descent, objective=through(channel))
        for _ in range(between):
            state = descent.update(state)
    parameters = examples.layout.unpack(theta)
    return Learned(parameters, theta, converged(state, tol), state.history, channel)
