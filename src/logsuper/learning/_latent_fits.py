r"""The two optimisers of the likelihood of observations alone (section 4.4).

The objective is a difference of two convex functions of the parameters, plus the regulariser:

.. math:: F(\theta,\pi) = A(f_\theta) - \frac1N\sum_i\bigl(A(f_\theta-l_i)+c_i\bigr)+\Omega(\theta).

Expectation-maximisation: where both are maxima under perturbations that stay fixed, or exact, the
linear function that touches the posterior term at the present parameters lies below it (E step: its
slope is the vector of expected statistics). The rest is convex in the weights and in closed form
for the channel (M step), and a decrease of it is a decrease of F: the method is monotone (the
concave-convex procedure of A. L. Yuille and A. Rangarajan, Neural Computation 15, 2003). Strip
bounds are not convex, and an iteration with them can make F worse; it is then not taken.

Stochastic subgradients: every step takes two sets of cuts, with fresh perturbations: those of the
prior and those of the posteriors of a few images. The channel follows by an M step whenever the
objective is estimated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from logsuper._base import FloatArray
from logsuper.channels import Channel
from logsuper.learning._engines import FreshNoise, derive_key
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective
from logsuper.learning._penalty import Penalty
from logsuper.learning._smooth import Function, minimize
from logsuper.learning._steps import make_steps
from logsuper.learning._stochastic import Descent, batch_size, converged

# Relative rise of F that counts as rounding: it is a sum over all pixels of all images.
_ROUNDING = 1e-10
# Passes over the data from one estimate of the objective to the next, in stochastic descent.
_PASSES = 4


class Problem(NamedTuple):
    """The arguments of a fit to observations alone, and its start; see `latent`."""

    penalty: Penalty
    theta: FloatArray
    channel: Channel
    learn_channel: bool
    callback: Callback | None
    tol: float
    max_iter: int


def expectation_maximization(
    objective: Objective,
    problem: Problem,
    steps: int,
    fallback: Callable[[], Objective] | None = None,
) -> Learned:
    """Minimise F until an iteration gains less than tol of it.

    An iteration that makes F worse is not taken. The first time the fit goes on with the objective
    that `fallback` returns; else it ends without convergence, with the ``rise`` in the details.
    """
    penalty, theta, channel, learn_channel, callback, tol, max_iter = problem
    history, details = list[Record](), dict[str, float]()
    iteration, begin, done, before = 0, True, False, (theta, channel)
    pulse = Pulse(callback)
    curvature: FloatArray | None
    while True:
        if begin:
            free = objective.free(theta)
            cuts = free.cuts + (history[-1].cuts if history else 0)
            convex, curvature, last = free.value + penalty.value(theta), None, math.inf
        held = objective.held(theta, channel)
        value = convex - held.value
        cuts += held.cuts
        if not history and not math.isfinite(value):
            raise ValueError(
                f"the objective is {value:g} at the start; start from smaller parameters, or with "
                "a channel under which every observation is possible"
            )
        scale = max(1.0, abs(value))
        # NaN is not progress either
        if not value - last <= _ROUNDING * scale:
            theta, channel = before
            if fallback is None:
                details["rise"] = value - last
                break
            objective, fallback, begin = fallback(), None, True
            iteration = history[-1].step
            continue
        if iteration == len(history):  # else the point is the last one of the other objective
            history.append(Record(iteration, cuts, value))
            pulse(history[-1])
        done = last - value <= tol * scale
        if done or iteration == max_iter:
            break
        last, before, begin = value, (theta, channel), False
        # a line search on a nonsmooth objective may end early, but never above its start
        matching = _matching(objective, held.phi)
        found = minimize(
            matching, penalty, start=theta, max_iter=steps, curvature=curvature, warn=False
        )
        curvature, theta = found.details["curvature"], found.theta
        convex = found.history[-1].objective + float(held.phi @ theta)
        cuts += found.history[-1].cuts
        iteration += 1
        if learn_channel:
            channel = channel.refit(held.counts)
    parameters = objective.examples.layout.unpack(theta)
    return Learned(parameters, theta, done, tuple(history), channel, details)


def _matching(objective: Objective, target: FloatArray) -> Function:
    r"""Return the M step: :math:`A(f_\theta)-\theta^\top\mu`, least where the prior expects mu."""

    def loss(theta: FloatArray) -> Loss:
        free = objective.free(theta)
        value = free.value - float(target @ theta)
        return Loss(value, 0.0, free.phi - target, free.cuts)

    return Function(objective.examples, loss)


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
