r"""Projected stochastic subgradient descent (sections 4.2 and 4.3).

At step h a few examples and a few perturbations of each are drawn, so that

.. math:: g_h=\frac1B\sum_i\bigl(\varphi_i(y_i^*)-\varphi_i(x_i)\bigr)+\nabla\Omega(\theta_h)

is an unbiased subgradient of the objective, y* being the maximiser under the perturbation. The
result is the average of the iterates with weights h, for which the rate is proved (S. Lacoste-
Julien, M. Schmidt and F. Bach, "A simpler approach to obtaining an O(1/t) convergence rate for the
projected stochastic subgradient method", arXiv:1212.2002, 2012).

All rules for the length of a step are :math:`\theta_j\leftarrow[\theta_j-c_jg_j/d_j]_+`:

- "printed": one :math:`c` for all and :math:`d=\sqrt h`, the algorithm of section 4.2;
- "separate": a :math:`c_j` for each kind of parameter, :math:`d=\sqrt h`;
- "adaptive": :math:`d_j^2=h\,m_j` with :math:`m_j` the mean of all :math:`g_j^2` so far, and
  :math:`c_j` the unit of the parameter. Statistics of a whole image vary a hundred times as much as
  those of a pixel; here each parameter finds its own step. That is AdaGrad (J. Duchi, E. Hazan and
  Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR
  12, 2011), except for the weights of the mean: step h has about the weight :math:`h^4`, so that
  the large gradients far from the optimum are forgotten.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time

import numpy as np

from logsuper._base import FloatArray, IntArray, check_choice
from logsuper.functions import Cut, SubmodularFunction
from logsuper.learning._checkpoint import State, save_state
from logsuper.learning._examples import Examples, Group
from logsuper.learning._features import Dense, Judged
from logsuper.learning._learned import Callback, Pulse, Record
from logsuper.learning._objective import Objective, Penalty

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


RULES = ("adaptive", "separate", "printed")

# The squared gradient of step h has about the weight h to this power.
_POWER = 4

# With the weight 1, a cut between neighbours in one direction changes a field by -2 to 2.
_RANGE = 4.0
# More cuts than these share their steps: each smooths, and together they would overshoot.
_ALONE = 6
# Sums over an image of D pixels move at this rate over D where steps are not adaptive.
_SUMS = 5.0


@dataclasses.dataclass(frozen=True, eq=False)
class Steps:
    """A rule and its constants.

    Attributes
    ----------
    scale : ndarray of shape (P,)
        The :math:`c_j`.
    adaptive : bool
    """

    scale: FloatArray
    adaptive: bool

    def average(self, squares: FloatArray, gradient: FloatArray, step: int) -> FloatArray:
        """Return the mean of the squared gradients with that of one more step."""
        return squares + (gradient**2 - squares) * ((_POWER + 1.0) / (step + _POWER))

    def length(self, gradient: FloatArray, squares: FloatArray, step: int) -> FloatArray:
        """Return what to subtract at a step, given the mean of the squares with this gradient."""
        if not self.adaptive:
            return self.scale * gradient / math.sqrt(step)
        root = np.sqrt(step * squares)
        root[root == 0.0] = 1.0  # all gradients were 0 so far, and so is the step
        return self.scale * gradient / root


def make_steps(rule: str, examples: Examples, rate: float) -> Steps:
    r"""Return a rule for the steps of `Descent`, :math:`\theta_j\leftarrow[\theta_j-c_jg_j/d_j]_+`.

    Parameters
    ----------
    rule : {"adaptive", "separate", "printed"}
        "printed" has one :math:`c` for all and :math:`d=\sqrt h` at step h, as the paper;
        "separate" has a :math:`c_j` for each kind of parameter; "adaptive" is AdaGrad that forgets,
        :math:`d_j^2=h` times the mean of the squared subgradients of late steps.
    examples : Examples
    rate : float
        Factor on all :math:`c_j`.

    Returns
    -------
    Steps
        The rule, with :math:`c` as ``scale``.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, make_steps
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> make_steps("adaptive", data, rate=1.0).scale.shape
    (3,)
    """
    check_choice(rule, "rule", RULES)
    if rule == "adaptive":
        return Steps(rate * units(examples), True)
    n = max(1, examples.largest)
    scale = np.full(examples.layout.size, rate * _SUMS / n)
    if rule == "separate" and examples.layout.modular > 1:
        scale[examples.layout.blocks["modular"]] = rate
    return Steps(scale, False)


def units(examples: Examples) -> FloatArray:
    """Return how much of each parameter changes the field of a pixel by about one.

    So rescaling a function, or a feature, rescales its parameter and nothing else. Of many cuts,
    as contrasts at several scales in many directions are, all together.
    """
    layout, group = examples.layout, examples.groups[0]
    unit = np.ones(layout.size)
    unit[layout.blocks["alpha"]] = [
        1.0 / (_gain_range(f) * factor)
        for f, factor in zip(group.prepared.functions, _mean_factors(group), strict=True)
    ]
    cuts = np.flatnonzero([isinstance(f, Cut) for f in group.prepared.functions])
    if len(cuts) > _ALONE:
        unit[layout.blocks["alpha"]][cuts] /= 0.5 * len(cuts)
    if group.features is not None:
        size = np.ones(layout.features)
        if isinstance(group.features, Dense):
            values = group.features.values
            size = np.sqrt(np.einsum("bdp,bdp->p", values, values) / max(1, values[..., 0].size))
        if isinstance(group.features, Judged) and group.around is not None:
            size[-1] = np.sqrt(np.mean(group.features.said(group.around) ** 2))
        # the changes of many features add up, at random
        root = math.sqrt(layout.features)
        unit[layout.blocks["beta"]] = 1.0 / (np.where(size > 0.0, size, 1.0) * root)
    return unit


def half_a_unit(examples: Examples) -> FloatArray:
    """Return the default start: half a unit of each function, t = 0, beta = 0 and w = 1.

    Without any coupling, noise could not be separated from signal.
    """
    theta, where = examples.layout.fill(), examples.layout.blocks["alpha"]
    theta[where] = 0.5 * units(examples)[where]
    return theta


def _gain_range(f: SubmodularFunction) -> float:
    """Return how much f varies the field of an element, on average, as a share of `_RANGE`."""
    if not f.n:
        return 1.0
    first, last = f.gains(np.zeros(f.n)), f.gains(np.ones(f.n))
    spread = float(np.mean(first - last)) / _RANGE
    return spread if spread > 0.0 else float(np.mean(np.abs(first))) or 1.0


def _mean_factors(group: Group) -> FloatArray:
    """Return the mean factor on the edges of each function."""
    count = len(group.prepared.functions)
    if group.edge_weights is None or not group.edge_weights.size:
        return np.ones(count)
    axes = (0, 2) if group.edge_weights.ndim == 3 else None
    mean = np.broadcast_to(group.edge_weights.mean(axis=axes), count)
    return np.where(mean > 0.0, mean, 1.0)
