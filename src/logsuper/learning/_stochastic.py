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
import math
import os
import time

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.learning._checkpoint import State, save_state
from logsuper.learning._learned import Callback, Pulse, Record
from logsuper.learning._objective import Objective
from logsuper.learning._penalty import Penalty
from logsuper.learning._steps import Steps

Path = str | os.PathLike[str]

ESTIMATE = 1 << 40
"""Estimates are numbered from here, so that no step has the same noise."""

# Pixels and maximum number of examples of a batch: enough for the kernel to dominate Python.
_BATCH, _MOST = 20_000, 32
# Estimates of the objective: maximum pixels and examples, and their share of all cuts.
_PIXELS, _EXAMPLES, _SHARE = 1 << 22, 100, 1 / 8
# Minimum factor by which the steps grow from one estimate to the next.
_GROWTH = 1.2
# Floor on the objective (nats per pixel) in the relative tolerance.
_FLOOR = 0.01
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
    seed : int
        Of the stream of batches.
    average : bool
        Whether the average of the iterates is the result, or the last of them.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Descent, FreshNoise, Objective, Penalty
    >>> from logsuper.learning import make_examples, make_steps
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FreshNoise(n_samples=8, seed=1))
    >>> steps = make_steps("adaptive", data, rate=1.0)
    >>> descent = Descent(objective, Penalty.of(data.layout), objective, steps, batch=3, seed=2)
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
    seed: int
    average: bool = True

    def init(self, start: FloatArray) -> State:
        """Return the state before the first step."""
        return State(0, 0, 0, start, start, np.zeros_like(start))

    def update(self, state: State) -> State:
        """Return the state after one more step."""
        step, theta = state.step + 1, state.theta
        examples = self.objective.examples
        index = draw_batch(self.seed, step, self.batch, examples.count)
        loss = self.objective.loss(theta, index, step)
        gradient = loss.gradient + self.penalty.gradient(theta)
        squares = self.steps.average(state.squares, gradient, step)
        theta = examples.layout.project(theta - self.steps.length(gradient, squares, step))
        average = state.average + (theta - state.average) * (2.0 / (step + 1.0))
        cuts = state.cuts + loss.cuts
        return State(step, cuts, state.estimated, theta, average, squares, state.history)

    def result(self, state: State) -> FloatArray:
        """Return the parameters that a run that ended here would have found."""
        return state.average if self.average else state.theta

    def record(self, state: State) -> State:
        """Return the state with an estimate of the objective added to its history."""
        theta = self.result(state)
        value, variance, cuts = 0.0, 0.0, 0
        index = self._estimated_on
        size = max(1, _PIXELS // (4 * self.objective.examples.largest))
        parts = 1 if self.objective.together else -(-len(index) // size)
        for number, part in enumerate(np.array_split(index, parts)):
            loss = self.estimate.loss(theta, part, ESTIMATE + number)
            share = len(part) / len(index)
            value += share * loss.value
            variance += (share * loss.stderr) ** 2
            cuts += loss.cuts
        value += self.penalty.value(theta)
        line = Record(state.step, state.cuts + cuts, value, math.sqrt(variance))
        history, estimated = (*state.history, line), state.estimated + cuts
        return dataclasses.replace(state, cuts=line.cuts, estimated=estimated, history=history)

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
        max_iter: int,
        callback: Callback | None = None,
        checkpoint: Path | None = None,
        problem: str = "",
    ) -> State:
        """Take steps until `converged`, or `max_iter` are done."""
        saved, pulse = time.monotonic(), Pulse(callback)
        try:
            while not self.converged(state, tol):
                if self.due(state):
                    state = self.record(state)
                    pulse(state.history[-1])
                    continue
                if state.step >= max_iter:
                    break
                state = self.update(state)
                pulse.beat(state.step, state.cuts)
                if checkpoint is not None and time.monotonic() - saved > _SECONDS:
                    save_state(checkpoint, state, problem)
                    saved = time.monotonic()
        finally:
            if checkpoint is not None:  # also after an exception
                save_state(checkpoint, state, problem)
        return state

    def converged(self, state: State, tol: float) -> bool:
        """Whether the objective has settled, and the second half of all steps has used all data."""
        seen = state.step * self.batch >= 2 * self.objective.examples.count
        return seen and converged(state, tol, self.floor)

    @functools.cached_property
    def floor(self) -> float:
        """Floor on the objective in the relative tolerance, for very smooth images."""
        examples = self.objective.examples
        return max(1.0, _FLOOR * examples.pixels / examples.count)

    @functools.cached_property
    def _estimated_on(self) -> IntArray:
        """The examples for estimates of the objective: all if they are few and small.

        Else those that a warm start has not fitted, if there are enough.
        """
        examples = self.objective.examples
        if self.objective.together:
            return np.arange(examples.count)
        most = max(2, min(_EXAMPLES, _PIXELS // max(1, examples.largest)))
        return np.sort(draw_order(self.seed, 0, examples.count)[-most:])


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


def batch_size(objective: Objective) -> int:
    """Return the examples of a step: all where the cuts do not depend on them."""
    if objective.together:
        return objective.examples.count
    return max(1, min(_MOST, _BATCH // max(1, objective.examples.largest)))


def draw_batch(key: int, step: int, batch: int, count: int) -> IntArray | None:
    """Return the examples of a step, None for all; every pass has its own order."""
    if batch >= count:
        return None
    begun, place = divmod((step - 1) * batch, count)
    order = draw_order(key, begun + 1, count)
    if place + batch > count:
        order = np.concatenate([order, draw_order(key, begun + 2, count)])
    return order[place : place + batch]


@functools.lru_cache(maxsize=4)
def draw_order(key: int, number: int, count: int) -> IntArray:
    """Return the order of the examples in a pass."""
    pair = np.array([key, number], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=pair)).permutation(count)
