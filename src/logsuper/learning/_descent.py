r"""Projected stochastic subgradient descent (sections 4.2 and 4.3).

At step h a few examples and a few perturbations of each are drawn, so that

.. math:: g_h=\frac1B\sum_i\bigl(\varphi_i(y_i^*)-\varphi_i(x_i)\bigr)+\nabla\Omega(\theta_h)

is an unbiased subgradient of the objective, y* being the maximiser under the perturbation. The
result is the average of the iterates with weights h, for which the rate is proved (S. Lacoste-
Julien, M. Schmidt and F. Bach, "A simpler approach to obtaining an O(1/t) convergence rate for the
projected stochastic subgradient method", arXiv:1212.2002, 2012).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings

import numpy as np

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    IntArray,
    Seed,
    as_generator,
    as_key,
    as_keys,
    check_callback,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.learning._checkpoint import State, check_seed, fingerprint, load_state, save_state
from logsuper.learning._engines import Engine, FixedNoise, FreshNoise, Perturbations
from logsuper.learning._examples import Examples
from logsuper.learning._layout import LARGEST
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective
from logsuper.learning._penalty import Penalty, check_problem
from logsuper.learning._smooth import check_start, minimize
from logsuper.learning._steps import RULES, Steps, make_steps, units

__all__ = ["Descent", "State", "batch_size", "converged", "descend", "logistic"]

Path = str | os.PathLike[str]

# Pixels of a batch, the most examples and the perturbations of each: the kernel is busy for long
# beside what Python takes, and steps are many.
_BATCH, _MOST, _SAMPLES = 20_000, 32, 5
# Estimates of the objective: pixels, examples, perturbations, and the share of all cuts.
_PIXELS, _EXAMPLES, _DRAWS, _SHARE = 1 << 22, 100, 128, 1 / 8
# Steps grow by this factor from one estimate to the next, at least.
_GROWTH = 1.2
# Nats a pixel below which an objective counts as that.
_FLOOR = 0.01
# Estimates are numbered from here: no step has the same noise.
_ESTIMATE = 1 << 40
# Before the descent on features: iterations of L-BFGS, the pixels they look at, and the steps of
# descent that they count for, whose gradients are taken to be those of a few batches.
_WARM_ITERATIONS, _WARM_PIXELS, _WARM_STEPS, _WARM_BATCHES = 20, 1 << 17, 30, 8
# Seconds between checkpoints.
_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, eq=False)
class Descent:
    """A problem and the way to solve it: what leads from a `State` to the next.

    Step h is a function of the state and h alone, so that a run can be resumed.

    Attributes
    ----------
    objective : Objective
    penalty : Penalty
    estimate : Objective
        The same objective, with the noise to estimate it by.
    steps : Steps
    batch : int
        Examples of a step.
    key : int
        Of the stream of batches.
    average : bool
        Whether the average of the iterates is the result, or the last of them.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FreshNoise, Objective, Penalty, make_examples
    >>> from logsuper.learning._descent import Descent
    >>> from logsuper.learning._steps import make_steps
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FreshNoise(samples=8, key=1))
    >>> steps = make_steps("adaptive", data, rate=1.0)
    >>> descent = Descent(objective, Penalty.of(data.layout), objective, steps, batch=3, key=2)
    >>> state = descent.init(data.layout.fill(alpha=0.5))
    >>> for _ in range(20):
    ...     state = descent.update(state)
    >>> state.step, state.cuts
    (20, 160)
    """

    objective: Objective
    penalty: Penalty
    estimate: Objective
    steps: Steps
    batch: int
    key: int
    average: bool = True

    def init(self, start: FloatArray) -> State:
        """Return the state before the first step."""
        return State(0, 0, 0, start, start, np.zeros_like(start))

    def update(self, state: State) -> State:
        """Return the state after one more step."""
        step, theta = state.step + 1, state.theta
        examples = self.objective.examples
        index = _draw_batch(self.key, step, self.batch, examples.count)
        loss = self.objective.loss(theta, index, step)
        gradient = loss.gradient + self.penalty.gradient(theta)
        squares = self.steps.average(state.squares, gradient, step)
        theta = examples.layout.project(theta - self.steps.length(gradient, squares, step))
        return dataclasses.replace(
            state,
            step=step,
            cuts=state.cuts + loss.cuts,
            theta=theta,
            average=state.average + (theta - state.average) * (2.0 / (step + 1.0)),
            squares=squares,
        )

    def result(self, state: State) -> FloatArray:
        """Return the parameters that a run that ended here would have found."""
        return state.average if self.average else state.theta

    def record(self, state: State) -> State:
        """Return the state with an estimate of the objective added to its history."""
        theta = self.result(state)
        value, variance, cuts = 0.0, 0.0, 0
        index = self._estimated_on
        size = max(1, _PIXELS // (4 * self.objective.examples.largest))
        parts = [index] if self._shares_draws else np.array_split(index, -(-len(index) // size))
        for number, part in enumerate(parts):
            loss = self.estimate.loss(theta, part, _ESTIMATE + number)
            share = len(part) / len(index)
            value += share * loss.value
            variance += (share * loss.stderr) ** 2
            cuts += loss.cuts
        line = Record(
            state.step,
            state.cuts + cuts,
            value + self.penalty.value(theta),
            float(np.sqrt(variance)),
        )
        return dataclasses.replace(
            state,
            cuts=state.cuts + cuts,
            estimated=state.estimated + cuts,
            history=(*state.history, line),
        )

    def due(self, state: State) -> bool:
        """Whether it is time for an estimate: later ones are rarer, all cost a small share."""
        if not state.history:
            return True
        done = state.history[-1].step
        cost = state.estimated / len(state.history)
        worth = _SHARE * (state.cuts - state.estimated)
        return state.step >= max(done + 10, _GROWTH * done) and state.estimated + cost <= worth

    def run(
        self,
        state: State,
        *,
        tol: float,
        max_steps: int,
        callback: Callback | None = None,
        checkpoint: Path | None = None,
        problem: str = "",
    ) -> State:
        """Take steps until `converged`, or `max_steps` are done."""
        saved, pulse = time.monotonic(), Pulse(callback)
        try:
            while not self.converged(state, tol):
                if self.due(state):
                    state = self.record(state)
                    pulse(state.history[-1])
                    continue
                if state.step >= max_steps:
                    break
                state = self.update(state)
                pulse.beat(state.step, state.cuts)
                if checkpoint is not None and time.monotonic() - saved > _SECONDS:
                    save_state(checkpoint, state, problem)
                    saved = time.monotonic()
        finally:
            if checkpoint is not None:  # whatever ended the run
                save_state(checkpoint, state, problem)
        return state

    def converged(self, state: State, tol: float) -> bool:
        """Whether the objective has come to rest, and the second half of all steps saw all data."""
        seen = state.step * self.batch >= 2 * self.objective.examples.count
        return seen and converged(state, tol, self.floor)

    @functools.cached_property
    def floor(self) -> float:
        """A hundredth of a nat a pixel: of that, tol is small enough for very smooth images."""
        examples = self.objective.examples
        return max(1.0, _FLOOR * examples.pixels / examples.count)

    @functools.cached_property
    def _estimated_on(self) -> IntArray:
        """The examples that estimates look at: all if they are few and small.

        Else those that a warm start has not fitted, as far as there are others.
        """
        examples = self.objective.examples
        if self._shares_draws:
            return np.arange(examples.count)
        most = max(2, min(_EXAMPLES, _PIXELS // max(1, examples.largest)))
        return np.sort(_draw_order(self.key, 0, examples.count)[-most:])

    @functools.cached_property
    def _shares_draws(self) -> bool:
        """Whether perturbations serve all examples at once, so that all of them are cheap."""
        return self.objective.together


def converged(state: State, tol: float, floor: float = 1.0) -> bool:
    r"""Whether the last estimate is as good as that of half the steps, up to tol of it.

    Where the error falls as 1/h it is as large as what the second half of the steps has brought;
    where it falls as :math:`1/\sqrt h`, two and a half times that. All estimates use the same
    perturbations, which nearly cancel in the difference. Where the objective is below `floor`, tol
    is of that instead.
    """
    if not state.history:
        return False
    last = state.history[-1]
    before = [line for line in state.history if 0 < line.step <= last.step / 2]
    if last.step < state.step or not before:
        return False
    return abs(before[-1].objective - last.objective) <= tol * max(floor, abs(last.objective))


def descend(
    objective: Objective,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_steps: int = 10_000,
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
        Its engine gives the subgradients; with fresh noise, other ones at every step.
    penalty : Penalty
    start : ndarray of shape (P,), optional
        By default half a unit of each function, t = 0, beta = 0 and w = 1; all of alpha is 0 for
        the rule "printed". With features, a few iterations of L-BFGS on a fixed draw follow:
        features are correlated, which slows a descent that looks at each alone. They count for 30
        steps, and are left out where no more are allowed.
    seed : int, Generator or None
        For the order of the examples; the engine has its own key.
    callback : callable, optional
        Called with each estimate of the objective, and between them at least each second.
    tol : float
        The fit has converged when the second half of all steps, which has seen every example, has
        improved the objective by no more than tol of it, or of a hundredth of a nat a pixel if that
        is more.
    max_steps : int
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
        What the objective is estimated by, at most 1/8 of the cuts; by default the engine of the
        objective. With many or large examples a fixed part of them is looked at.
    checkpoint : path, optional
        Where the state is kept. If the file is there, the fit goes on from it, to the very same
        result.
    warm : bool, optional
        Whether these iterations of L-BFGS come first; by default only without a `start`.

    Returns
    -------
    Learned
        Its details have the number of ``steps``, and the last iterate ``theta``.

    Warns
    -----
    ConvergenceWarning
        When `max_steps` were done before.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FreshNoise, Objective, Penalty, make_examples
    >>> from logsuper.learning._descent import descend
    >>> x = ls.make_silhouettes(20, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1))
    >>> latent = Objective(data, FreshNoise(samples=4, key=1), latent=True)
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
    limit = check_integer(max_steps, "max_steps", 1, _ESTIMATE)
    most = batch_size(objective) if batch is None else check_integer(batch, "batch", 1, 2**31)
    check_callback(callback)
    check_seed(checkpoint, seed)
    key = as_key(seed)
    warm = (start is None if warm is None else warm) and rule == "adaptive"
    warm = warm and limit > _WARM_STEPS and _can_warm(objective)
    if start is None:
        start = examples.layout.fill()
        if rule != "printed":
            where = examples.layout.blocks["alpha"]
            start[where] = 0.5 * units(examples)[where]
    descent = Descent(
        objective,
        penalty,
        objective if estimate is None else dataclasses.replace(objective, engine=estimate),
        make_steps(rule, examples, rate),
        most,
        key,
        rule != "printed" if average is None else bool(average),
    )
    state = descent.init(check_start(start, examples.layout))
    problem = ""
    if checkpoint is not None:
        options = (rule, rate, most, key, descent.average, start, penalty.weights, penalty.center)
        problem = fingerprint(objective, options)
        state = load_state(checkpoint, problem, examples.layout) or state
    if warm and not state.step:
        state = _warm(descent, state, callback)
    state = descent.run(
        state,
        tol=tol,
        max_steps=limit,
        callback=callback,
        checkpoint=checkpoint,
        problem=problem,
    )
    done = descent.converged(state, tol)
    if not done:
        warnings.warn(
            f"descent: the objective still changed by more than tol = {tol:g} of it in the second "
            f"half of {state.step} steps; raise max_steps or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
        if state.history[-1].step < state.step:
            state = descent.record(state)
    theta = descent.result(state)
    return Learned(
        examples.layout.unpack(theta),
        theta,
        done,
        state.history,
        examples.channel,
        {"steps": state.step, "theta": state.theta},
    )


def logistic(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_steps: int = 10_000,
    samples: int | None = None,
    batch: int | None = None,
    noise: str = "fresh",
    steps: str = "adaptive",
    rate: float = 1.0,
    average: bool | None = None,
    checkpoint: Path | None = None,
    warm: bool | None = None,
) -> Learned:
    """Learn from labels by the logistic bound: the paper's maximum likelihood (4.2, 4.3).

    Parameters
    ----------
    examples : Examples
        With labels, all or some; conditional where there are observations.
    penalty : Penalty
    start, callback, tol, max_steps, batch, steps, rate, average, checkpoint, warm
        As in `descend`.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    samples : int, optional
        Perturbations of each example of a step; by default five, and more where all examples
        share them.
    noise : {"fresh", "fixed"}
        New perturbations at every step, or a Latin hypercube of `samples` for each example, the
        same at all steps: then the objective is a fixed convex function.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples
    >>> from logsuper.learning._descent import logistic
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
    if samples is None:
        samples = _draws(examples) if objective.together else draws_of(examples)
    count = check_integer(samples, "samples", 1, 2**31)
    engine: Engine = FreshNoise(count, keys[0], n_jobs)
    estimate: Engine = FreshNoise(_DRAWS if objective.together else 2, keys[1], n_jobs)
    if check_choice(noise, "noise", ("fresh", "fixed")) == "fixed":
        engine = estimate = FixedNoise(count, keys[0], n_jobs)
    return descend(
        dataclasses.replace(objective, engine=engine),
        penalty,
        start=start,
        seed=rng,
        callback=callback,
        tol=tol,
        max_steps=max_steps,
        batch=batch,
        steps=steps,
        rate=rate,
        average=average,
        estimate=estimate,
        checkpoint=checkpoint,
        warm=warm,
    )


# ------------------------------------------------------------------------------------------ inside


@dataclasses.dataclass(eq=False)
class _Snapshot:
    """An objective on some examples and one draw of the noise: a function of theta alone."""

    objective: Objective
    index: IntArray
    pulse: Pulse
    cuts: int = 0

    @property
    def examples(self) -> Examples:
        return self.objective.examples

    def loss(self, theta: FloatArray) -> Loss:
        found = self.objective.loss(theta, self.index, _ESTIMATE - 1)
        self.cuts += found.cuts
        self.pulse.beat(0, self.cuts)
        return found


def _can_warm(objective: Objective) -> bool:
    """Whether there are features, and values to compare, without which there is no line search."""
    perturbs = isinstance(objective.engine, Perturbations)
    return perturbs and objective.convex and objective.examples.layout.features > 0


def _warm(descent: Descent, state: State, callback: Callback | None) -> State:
    """Return a better state to start from."""
    examples = descent.objective.examples
    most = max(1, _WARM_PIXELS // examples.largest)
    index = np.sort(_draw_order(descent.key, 0, examples.count)[:most])
    snapshot = _Snapshot(descent.objective, index, Pulse(callback))
    found = minimize(
        snapshot,
        descent.penalty,
        start=state.theta,
        max_iterations=_WARM_ITERATIONS,
        units=units(examples),
        warn=False,
    )
    squares, cuts = np.zeros_like(found.theta), snapshot.cuts
    for number in range(_WARM_BATCHES):
        batch = _draw_batch(descent.key, number + 1, descent.batch, examples.count)
        loss = descent.objective.loss(found.theta, batch, _ESTIMATE - 2 - number)
        squares += (loss.gradient + descent.penalty.gradient(found.theta)) ** 2
        cuts += loss.cuts
    return dataclasses.replace(
        descent.init(found.theta), step=_WARM_STEPS, cuts=cuts, squares=squares / _WARM_BATCHES
    )


def draws_of(examples: Examples) -> int:
    """Return the perturbations of each example of a step: a large image is many draws in one."""
    return max(1, min(_SAMPLES, _SAMPLES * _BATCH // max(1, examples.largest)))


def _draws(examples: Examples) -> int:
    """Return how many cuts keep the kernel busy for one step."""
    return max(_SAMPLES, min(_MOST, _SAMPLES * _BATCH // max(1, examples.largest)))


def batch_size(objective: Objective) -> int:
    """Return the examples of a step: all where the cuts do not depend on them."""
    if objective.together:
        return objective.examples.count
    return max(1, min(_MOST, _BATCH // max(1, objective.examples.largest)))


def _draw_batch(key: int, step: int, batch: int, count: int) -> IntArray | None:
    """Return the examples of a step, None for all: pass after pass, each in an order of its own."""
    if batch >= count:
        return None
    begun, place = divmod((step - 1) * batch, count)
    order = _draw_order(key, begun + 1, count)
    if place + batch > count:
        order = np.concatenate([order, _draw_order(key, begun + 2, count)])
    return order[place : place + batch]


@functools.lru_cache(maxsize=4)
def _draw_order(key: int, number: int, count: int) -> IntArray:
    """Return the order of the examples in a pass."""
    pair = np.array([key, number], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=pair)).permutation(count)
