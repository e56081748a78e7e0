"""Learning by stochastic subgradients: any objective, and the logistic bound on labels."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    Seed,
    as_generator,
    as_key,
    as_keys,
    check_callback,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.learning._checkpoint import State, check_seed, fingerprint, load_state
from logsuper.learning._engines import Engine, FixedNoise, FreshNoise, Perturbations
from logsuper.learning._examples import Examples
from logsuper.learning._layout import LARGEST
from logsuper.learning._learned import Callback, Learned, Pulse
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem
from logsuper.learning._smooth import Function, check_start, minimize
from logsuper.learning._stochastic import (
    ESTIMATE,
    RULES,
    Descent,
    batch_size,
    draw_batch,
    draw_order,
    half_a_unit,
    make_steps,
    units,
)
from logsuper.learning._stochastic import Path as Path

# Perturbations of an example per step; pixels for which these are enough; the most per step; and
# those of an estimate where all examples share them.
_SAMPLES, _ENOUGH, _MOST, _DRAWS = 5, 20_000, 32, 128
# Warm start on features: iterations of L-BFGS, pixels that they use, the steps of descent that
# they count for, and the batches that the squared gradients of these steps are taken from.
_WARM_ITERATIONS, _WARM_PIXELS, _WARM_STEPS, _WARM_BATCHES = 20, 1 << 17, 30, 8


def descend(
    objective: Objective,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    batch: int | None = None,
    steps: str = "adaptive",
    rate: float = 1.0,
    average: bool | None = None,
    estimate: Engine | None = None,
    checkpoint: Path | None = None,
    warm: bool | None = None,
) -> Learned:
    r"""Minimise any objective by projected stochastic subgradient descent.

    Parameters
    ----------
    objective : Objective
        Its engine gives the subgradients; with fresh noise, new ones at every step.
    penalty : Penalty
    start : ndarray of shape (P,), optional
        By default half a unit of each function, t = 0, beta = 0 and w = 1; all of alpha is 0 for
        the rule "printed". With features, a few iterations of L-BFGS on a fixed draw follow:
        features are correlated, which slows a descent with one step length per parameter. They
        count as 30 steps, and are left out if `max_iter` is not larger.
    seed : int, Generator or None
        For the order of the examples; the engine has its own key.
    callback : callable, optional
        Called with each estimate of the objective, and between them at least each second.
    tol : float
        The fit has converged when the second half of all steps, which has seen every example, has
        improved the objective by no more than tol of it, or of 0.01 nats per pixel if that is
        more.
    max_iter : int
    batch : int, optional
        Examples of a step, each of them once in every pass over the data; by default about
        20 thousand pixels.
    steps : {"adaptive", "separate", "printed"}
        The rule for the length of steps.
    rate : float
        Factor on all steps.
    average : bool, optional
        Return the weighted average of the iterates, rather than the last one; the default, except
        for the rule "printed".
    estimate : Engine, optional
        Estimates the objective, with at most 1/8 of all cuts; by default the engine of the
        objective. With many or large examples it is estimated on a fixed part of them.
    checkpoint : path, optional
        File for the state. If it exists, the fit continues from it, with the same result as an
        uninterrupted one.
    warm : bool, optional
        Whether these iterations of L-BFGS come first; by default only without a `start`.

    Returns
    -------
    Learned
        Its details have the number of ``steps``, and the last iterate ``theta``.

    Warns
    -----
    ConvergenceWarning
        When `max_iter` steps were done before.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FreshNoise, Objective, Penalty, descend, make_examples
    >>> x = ls.make_silhouettes(20, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1))
    >>> latent = Objective(data, FreshNoise(n_samples=4, seed=1), latent=True)
    >>> fit = descend(latent, Penalty.of(data.layout, modular=0.3), tol=1e-2)
    >>> fit.converged
    True
    """
    examples = objective.examples
    check_problem(examples, penalty)
    rule = check_choice(steps, "steps", RULES)
    rate = check_number(rate, "rate")
    if not 1.0 / LARGEST <= rate <= LARGEST:
        raise ValueError(f"rate = {rate:g} must be positive, from {1 / LARGEST:g} to {LARGEST:g}")
    if check_number(tol, "tol") < 0.0:
        raise ValueError(f"tol = {tol:g} must be at least 0")
    limit = check_integer(max_iter, "max_iter", 1, ESTIMATE)
    most = batch_size(objective) if batch is None else check_integer(batch, "batch", 1, 2**31)
    check_callback(callback)
    check_seed(checkpoint, seed)
    key = as_key(seed)
    warm = (start is None if warm is None else warm) and rule == "adaptive"
    # features to warm up, and values to compare, without which there is no line search
    comparable = isinstance(objective.engine, Perturbations) and objective.convex
    warm = warm and limit > _WARM_STEPS and comparable and examples.layout.features > 0
    if start is None:
        start = examples.layout.fill() if rule == "printed" else half_a_unit(examples)
    lengths = make_steps(rule, examples, rate)
    judge = objective if estimate is None else dataclasses.replace(objective, engine=estimate)
    mean = rule != "printed" if average is None else bool(average)
    descent = Descent(objective, penalty, judge, lengths, most, key, mean)
    state = descent.init(check_start(start, examples.layout))
    problem = ""
    if checkpoint is not None:
        options = (rule, rate, most, key, descent.average, start, *vars(penalty).values())
        problem = fingerprint(objective, options)
        state = load_state(checkpoint, problem, examples.layout) or state
    if warm and not state.step:
        state = _warm(descent, state, callback)
    state = descent.run(
        state, tol=tol, max_iter=limit, callback=callback, checkpoint=checkpoint, problem=problem
    )
    done = descent.converged(state, tol)
    if not done:
        warnings.warn(
            f"descent: the objective still changed by more than tol = {tol:g} of it in the second "
            f"half of {state.step} steps; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
        if state.history[-1].step < state.step:
            state = descent.record(state)
    theta = descent.result(state)
    return Learned.of(examples, theta, done, state.history, steps=state.step, theta=state.theta)


def logistic(
    examples: Examples,
    penalty: Penalty,
    *,
    seed: Seed = 0,
    n_jobs: int | None = None,
    max_iter: int = 10_000,
    n_samples: int | None = None,
    noise: str = "fresh",
    checkpoint: Path | None = None,
    **options: Any,
) -> Learned:
    """Learn from labels by the logistic bound: the paper's maximum likelihood (4.2, 4.3).

    Parameters
    ----------
    examples : Examples
        With labels, all or some; conditional where there are observations.
    penalty : Penalty
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    max_iter, checkpoint
        As in `descend`.
    n_samples : int, optional
        Perturbations of each example of a step; by default five, and more where all examples
        share them.
    noise : {"fresh", "fixed"}
        New perturbations at every step, or a Latin hypercube of `n_samples` for each example, the
        same at all steps: then the objective is a fixed convex function.
    **options
        start, callback, tol, batch, steps, rate, average and warm, as in `descend`.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, logistic, make_examples
    >>> x = ls.make_silhouettes(20, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), scale=True
    ... )
    >>> fit = logistic(data, Penalty.of(data.layout, modular=0.03), tol=1e-2)
    >>> fit.converged, bool((fit.parameters.alpha > 0.5).all())
    (True, True)
    """
    check_problem(examples, penalty)
    check_seed(checkpoint, seed)
    rng = as_generator(seed)
    keys = as_keys(rng, 2)
    objective = Objective.supervised(examples, FreshNoise(1, 0))
    if n_samples is None:
        n_samples = draws_of(examples, objective.together)
    count = check_integer(n_samples, "n_samples", 1, 2**31)
    engine: Engine = FreshNoise(count, keys[0], n_jobs)
    estimate: Engine = FreshNoise(_DRAWS if objective.together else 2, keys[1], n_jobs)
    if check_choice(noise, "noise", ("fresh", "fixed")) == "fixed":
        engine = estimate = FixedNoise(count, keys[0], n_jobs)
    posed = dataclasses.replace(objective, engine=engine)
    options = {"max_iter": max_iter, "checkpoint": checkpoint, **options}
    return descend(posed, penalty, seed=rng, estimate=estimate, **options)


# ------------------------------------------------------------------------------------------ inside


def _warm(descent: Descent, state: State, callback: Callback | None) -> State:
    """Return a better state to start from."""
    examples = descent.objective.examples
    most = max(1, _WARM_PIXELS // examples.largest)
    index = np.sort(draw_order(descent.seed, 0, examples.count)[:most])
    pulse, spent = Pulse(callback), list[int]()

    def evaluate(theta: FloatArray) -> Loss:
        """Return the objective on these examples, with the same noise at every call."""
        loss = descent.objective.loss(theta, index, ESTIMATE - 1)
        spent.append(loss.cuts)
        return loss

    found = minimize(
        Function(examples, evaluate),
        descent.penalty,
        start=state.theta,
        callback=lambda line: pulse.beat(0, line.cuts),
        max_iter=_WARM_ITERATIONS,
        units=units(examples),
        warn=False,
    )
    squares, cuts = np.zeros_like(found.theta), sum(spent)
    for number in range(_WARM_BATCHES):
        batch = draw_batch(descent.seed, number + 1, descent.batch, examples.count)
        loss = descent.objective.loss(found.theta, batch, ESTIMATE - 2 - number)
        squares += (loss.gradient + descent.penalty.gradient(found.theta)) ** 2
        cuts += loss.cuts
    return dataclasses.replace(
        descent.init(found.theta), step=_WARM_STEPS, cuts=cuts, squares=squares / _WARM_BATCHES
    )


def draws_of(examples: Examples, together: bool = False) -> int:
    """Return the perturbations of each example, or of all together, of a step.

    A large image is many draws in one; of those that all share, as many as keep the kernel busy.
    """
    low, high = (_SAMPLES, _MOST) if together else (1, _SAMPLES)
    return max(low, min(high, _SAMPLES * _ENOUGH // max(1, examples.largest)))
