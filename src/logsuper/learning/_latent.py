r"""Learning from observations alone: x is never seen (section 4.4 of the paper).

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
import warnings
from collections.abc import Callable
from typing import NamedTuple

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    Seed,
    as_key,
    check_callback,
    check_choice,
    check_integer,
)
from logsuper.channels import Channel
from logsuper.learning._engines import SHARED, WIDTH, Exact, FreshNoise, KeptNoise, derive_key
from logsuper.learning._evidence import check_evidence
from logsuper.learning._exact import keep_references, measure_width
from logsuper.learning._examples import Examples
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem, refuse_certainty
from logsuper.learning._smooth import Function, check_start, check_tol, minimize
from logsuper.learning._stochastic import Descent, batch_size, converged, half_a_unit, make_steps

# Maximum number of perturbations of the prior that all images share, and of their noise values.
_PRIOR, _NOISE = 400, 1 << 23


def latent(
    examples: Examples,
    penalty: Penalty,
    *,
    method: str = "em",
    noise: str = "fixed",
    engine: str = "logistic",
    n_samples: int = 4,
    n_prior_samples: int | None = None,
    window: int | None = None,
    steps: int = 5,
    batch: int | None = None,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float | None = None,
    max_iter: int = 200,
) -> Learned:
    r"""Fit a model of x to noisy observations z, by maximum likelihood.

    .. math:: -\log p(z) = A(f) - A(f-l) - \sum_d\log p(z_d\mid x_d=0)

    is minimised, with l the log-odds of the observations. With the logistic bound instead of
    A this is the paper's objective. It is a difference of two upper bounds and itself is
    not a bound: where the noise is learned too, it favours too little of it. The moments of
    `logsuper.learning.moments` are the better start for pairwise functions.

    Parameters
    ----------
    examples : Examples
        With observations and their channel, without labels.
    penalty : Penalty
        Some on the modular term is advised: without coupling it alone explains the means of the
        observations, whatever the noise.
    method : {"em", "subgradient"}
        "em" alternates between expected statistics of the posterior and a few steps to match them.
        Its perturbations are fixed, a Latin hypercube, so that no iteration makes the objective
        worse; one that would, as with strips it can, is not taken. "subgradient" is the paper's:
        steps on a few images with fresh perturbations, for the logistic engine only; an iteration
        of it is four passes over the images.
    noise : {"fixed", "learned"}
        Whether the parameters of the channel are learned too. They then start from those of
        `examples.channel`: rather a rate too large, such as 0.3, than one too small.
    engine : {"logistic", "exact"}
        How A is computed: by the logistic bound, or by exact inference where possible. On image
        grids with a side of up to about 12 pixels, or 16 for a prior that all images share, that
        is exact. On larger ones A is bounded by strips, from above for the prior and from below
        for posteriors: an upper bound on the objective is minimised. Posteriors lose little by
        that, but strongly coupled priors can lose nats: see the ``width``.
    n_samples : int
        Perturbations of the posterior of each image.
    n_prior_samples : int, optional
        Perturbations of the prior. Where all images have the same, 400, or fewer for images above
        20 000 pixels; else `n_samples` for each.
    window : int, optional
        Columns of the strips. By default 6, and up to 12 for a prior that all images share.
    steps : int
        Steps of L-BFGS in each M step.
    batch : int, optional
        Images of a step of "subgradient"; about 20 thousand pixels by default.
    start : ndarray of shape (P,), optional
        Couplings of half a unit, and all else 0, by default.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; the result does not depend on them.
    callback : callable, optional
        Called with a `Record` after every iteration.
    tol : float, optional
        "em" has converged when an iteration lowers the objective by less than this share,
        1e-5 by default; "subgradient" when the second half of all steps has changed it by less
        than this share, 1e-3 by default.
    max_iter : int

    Returns
    -------
    Learned
        Its history is of :math:`-\log p(z)` plus the penalty, in nats per image, with the constant.
        With engine "exact" the details have the ``width``: the mean distance, of some images,
        between the bounds on :math:`-\log p(z)`, 0 up to rounding where all is exact. Where an
        iteration would have made the objective worse, they have by how much, as ``rise``.

    Warns
    -----
    ConvergenceWarning
        After `max_iter`, after an iteration that would have made the objective worse, and
        when the width is above a tenth of a nat.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, latent, make_examples
    >>> x = ls.make_silhouettes(20, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1), modular="shared"
    ... )
    >>> found = latent(data, Penalty.of(data.layout, modular=0.1), tol=1e-4)
    >>> found.converged, bool((found.parameters.alpha > 0.5).all())
    (True, True)
    """
    check_problem(examples, penalty)
    stochastic = check_choice(method, "method", ("em", "subgradient")) == "subgradient"
    learn = check_choice(noise, "noise", ("fixed", "learned")) == "learned"
    exact = check_choice(engine, "engine", ("logistic", "exact")) == "exact"
    check_callback(callback)
    if stochastic and exact:
        raise ValueError("method='subgradient' perturbs: it has engine='logistic' only")
    channel = check_evidence(examples)
    if any(group.labels is not None for group in examples.groups):
        raise ValueError("labels were given; latent learns from observations alone, leave them out")
    refuse_certainty(examples)
    if learn and (channel.levels[0] == channel.levels[1] or not channel.informative):
        raise ValueError(
            f"{channel!r} cannot be the start of learning the noise: observations must be evidence "
            "for what they show, with flip rates below one half (0.3, say) or different means"
        )
    tolerance = check_tol((1e-3 if stochastic else 1e-5) if tol is None else tol)
    most = check_integer(max_iter, "max_iter", 0, 2**31)
    count = check_integer(n_samples, "n_samples", 1, 2**31)
    inner = check_integer(steps, "steps", 1, 2**31)
    size = None if batch is None else check_integer(batch, "batch", 1, 2**31)
    theta = check_start(half_a_unit(examples) if start is None else start, examples.layout)
    key = as_key(seed)
    problem = Problem(penalty, theta, channel, learn, callback, tolerance, most)
    if exact:
        objectives = [_summed(examples, window, n_jobs)]

        def anchor() -> Objective:
            # if references follow the parameters, the bounds of strips are discontinuous
            objectives.append(keep_references(objectives[0]))
            return objectives[1]

        found = expectation_maximization(objectives[0], problem, inner, anchor)
        seen = examples.with_channel(found.channel)
        width = measure_width(dataclasses.replace(objectives[-1], examples=seen), found.theta)
        found = dataclasses.replace(found, details={**found.details, "width": width})
    else:
        objective = _perturbed(examples, count, n_prior_samples, key, n_jobs)
        if stochastic:
            fresh = FreshNoise(count, derive_key(key, 2), n_jobs)
            found = descend_evidence(objective, problem, fresh, size)
        else:
            found = expectation_maximization(objective, problem, inner)
    _warn(found, most, tolerance)
    return found


# ------------------------------------------------------------------------------------------ inside


def _summed(examples: Examples, window: int | None, n_jobs: int | None) -> Objective:
    """Return the two terms of the likelihood by sums, or by strips."""
    columns = {} if window is None else {"window": window}
    # one prior for all images may take longer than the posterior of each
    shared = window is None and examples.alike(observed=False)
    prior = Exact(**columns, n_jobs=n_jobs, budget=SHARED if shared else None)
    return Objective(examples, prior, None, True, Exact(**columns, n_jobs=n_jobs))


def _warn(found: Learned, most: int, tol: float) -> None:
    """Warn that a fit has stopped early, or how far its objective can be from the likelihood."""
    rise, width = found.details.get("rise"), found.details.get("width", 0.0)
    messages = []
    if rise is not None:
        messages.append(
            f"latent stopped after {len(found.history) - 1} iterations, at the best parameters: "
            f"the next would have raised the objective by {rise:.3g}, as bounds that are not tight "
            f"can; raise {'window' if 'width' in found.details else 'n_samples'}"
        )
    elif not found.converged:
        messages.append(
            f"latent stopped after {most} iterations while the objective still changed by more "
            f"than tol = {tol:g} of it; raise max_iter or tol"
        )
    if width > WIDTH:
        messages.append(
            f"log p(z) is known to {width:.2g} nats per image only, above {WIDTH:g}: an upper "
            "bound on -log p(z) was minimised, which can be as far from it, and couplings may come "
            "out too weak; raise window, each column of which doubles the time, or take smaller "
            "images"
        )
    for message in messages:
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _perturbed(
    examples: Examples, samples: int, n_prior_samples: int | None, key: int, n_jobs: int | None
) -> Objective:
    """Return the two terms of the likelihood by the logistic bound, with fixed perturbations."""
    shared = samples
    if n_prior_samples is not None:
        shared = check_integer(n_prior_samples, "n_prior_samples", 1, 2**31)
    elif examples.alike(observed=False):
        shared = max(samples, min(_PRIOR, _NOISE // max(1, examples.largest)))
    prior = KeptNoise(shared, derive_key(key, 0), n_jobs)
    return Objective(examples, prior, None, True, KeptNoise(samples, derive_key(key, 1), n_jobs))


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
