"""L-BFGS for losses without randomness, with bounds on the parameters and scaled variables.

R. H. Byrd, P. Lu, J. Nocedal and C. Zhu, "A limited memory algorithm for bound constrained
optimization", SIAM Journal on Scientific Computing 16, 1995.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as _minimize

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    as_floats,
    check_callback,
    check_integer,
    check_number,
    refuse,
)
from logsuper.learning._examples import Examples
from logsuper.learning._layout import Layout
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem

# How far a parameter is moved to measure the curvature of the loss.
_PROBE = 0.01
# Minimum curvature that is used as a scale.
_FLAT = 1e-9
# Pairs of steps and gradients that L-BFGS remembers.
_MEMORY = 20


class Function(NamedTuple):
    """A mean loss of examples without randomness, where an `Objective` would say more."""

    examples: Examples
    loss: Callable[[FloatArray], Loss]


Differentiable = Objective | Function


def minimize(
    objective: Differentiable,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
    curvature: FloatArray | None = None,
    units: FloatArray | None = None,
    warn: bool = True,
) -> Learned:
    r"""Minimise a smooth loss plus a penalty under the bounds of the layout.

    Statistics of a whole image vary a hundred times as much as those of a pixel. So the variables
    are :math:`\theta_j\sqrt{h_j}`, with :math:`h_j` the curvature of the objective along the
    parameters of a kind (each function its own), measured once at the start.

    Parameters
    ----------
    objective : Objective or Function
        What has `examples` and a `loss` without randomness.
    penalty : Penalty
    start : ndarray of shape (P,), optional
        No coupling, no fields and w = 1 by default.
    callback : callable, optional
        Called with a `Record` after every iteration.
    tol : float
        The fit has converged when no entry of the projected gradient is larger than
        :math:`\mathrm{tol}\,\max(1,\sqrt{h_j})`: for likelihoods, when expected and observed
        statistics differ by at most tol, or by tol standard deviations where these are larger.
    max_iter : int
    curvature : ndarray of shape (P,), optional
        The :math:`h_j` of an earlier, similar fit, to save measuring them.
    units : ndarray of shape (P,), optional
        What counts as one of each parameter when curvatures are measured; 1 by default.
    warn : bool
        Whether to warn; not for a few steps of many.

    Returns
    -------
    Learned
        Its details have the largest entry of the ``projected_gradient``, as compared with tol, the
        number of ``evaluations`` and the ``curvature``.

    Raises
    ------
    ValueError
        When the objective or its gradient is not finite at the start.

    Warns
    -----
    ConvergenceWarning
        When the criterion is not met.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import FixedNoise, Objective, Penalty, make_examples, minimize
    >>> data = make_examples([ls.Modular([0.0])], labels=[[1], [1], [1], [0]])
    >>> objective = Objective.supervised(data, FixedNoise(1001, seed=0))
    >>> penalty = Penalty.of(data.layout, alpha=1.0)
    >>> found = minimize(objective, penalty, tol=1e-3)
    >>> np.round(found.parameters.modular, 2)  # log 3
    array([1.1])
    """
    check_problem(objective.examples, penalty)
    layout = objective.examples.layout
    tolerance = check_tol(tol)
    most = check_integer(max_iter, "max_iter", 0, 2**31)
    run = _Run(objective, penalty, callback)
    first = run.evaluate(check_start(start, layout))
    broken = int(np.sum(~np.isfinite(first.gradient)))
    if broken or not np.isfinite(first.value):
        raise ValueError(
            f"the objective is {first.value:g} at the start, with {broken} entries of its gradient "
            "that are not finite; start from smaller parameters, and see that every observation is "
            "possible and none certain under the channel (rates above 0 and below 1)"
        )
    measured = curvature
    if measured is None:
        measured = run.curvature(first, np.ones(layout.size) if units is None else units)
    size = np.sqrt(measured)
    run.accept(first)

    def residual(at: _Point) -> float:
        """Return the largest entry of the projected gradient, in the units of tol."""
        blocked = (at.theta <= layout.lower) & (at.gradient > 0)
        return float(np.max(np.where(blocked, 0.0, np.abs(at.gradient) / np.maximum(size, 1.0))))

    def evaluate(scaled: FloatArray) -> tuple[float, FloatArray]:
        point = run.evaluate(layout.project(scaled / size))
        return point.value, point.gradient / size

    def after(intermediate_result: OptimizeResult) -> None:
        # the point that ends a line search is the last one that was evaluated
        run.accept(run.last)
        if residual(run.last) <= tolerance:
            raise StopIteration

    if most and residual(first) > tolerance:
        limits = {"maxiter": most, "maxfun": 20 * most, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
        _minimize(
            evaluate,
            first.theta * size,
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, None) for low in layout.lower],  # 0 or none, in any unit
            callback=after,
            options=limits,
        )
    found = run.accepted
    left = residual(found)
    converged = left <= tolerance and bool(np.isfinite(found.value))
    if not converged and warn:
        warnings.warn(
            f"L-BFGS stopped after {run.history[-1].step} iterations with a projected gradient of "
            f"{left:.3g}, above {tolerance:g}; raise max_iter or tol, or add a penalty",
            ConvergenceWarning,
            stacklevel=2,
        )
    details = {"projected_gradient": left, "evaluations": run.evaluations, "curvature": measured}
    return Learned.of(objective.examples, found.theta, converged, run.history, **details)


def check_tol(tol: object) -> float:
    """Return a tolerance above 0."""
    number = check_number(tol, "tol")
    if number <= 0:
        raise ValueError(f"tol = {number:g} must be positive")
    return number


def check_start(start: FloatArray | None, layout: Layout) -> FloatArray:
    """Return a legal start of a fit: the given one, or alpha = 0, t = 0, beta = 0 and w = 1."""
    if start is None:
        return layout.fill()
    theta = as_floats(start, "start")
    if theta.shape != (layout.size,):
        raise ValueError(f"start must have shape ({layout.size},), got {theta.shape}")
    refuse(~np.isfinite(theta), theta, "start", "parameters must be finite")
    return layout.project(theta)


class _Point(NamedTuple):
    """Where the objective was evaluated, and what it was."""

    theta: FloatArray
    value: float
    gradient: FloatArray


class _Run:
    """Evaluations of the regularised objective, and the history of a fit."""

    def __init__(
        self, objective: Differentiable, penalty: Penalty, callback: Callback | None
    ) -> None:
        check_callback(callback)
        self.objective, self.penalty, self.pulse = objective, penalty, Pulse(callback)
        self.history: list[Record] = []
        self.cuts = self.evaluations = 0
        self.last: _Point
        self.accepted: _Point

    def evaluate(self, theta: FloatArray) -> _Point:
        """Return the objective at a point."""
        loss = self.objective.loss(theta)
        self.cuts += loss.cuts
        self.evaluations += 1
        self.pulse.beat(len(self.history), self.cuts)
        value = loss.value + self.penalty.value(theta)
        self.last = _Point(theta, value, loss.gradient + self.penalty.gradient(theta))
        return self.last

    def accept(self, point: _Point) -> None:
        """Note a point as the next of the fit."""
        self.accepted = point
        record = Record(len(self.history), self.cuts, point.value)
        self.history.append(record)
        self.pulse(record)

    def curvature(self, at: _Point, units: FloatArray) -> FloatArray:
        """Measure the second derivative along each function's weight and each other kind."""
        layout = self.objective.examples.layout
        result = units**-2.0
        kinds = [slice(k, k + 1) for k in range(layout.functions)]
        kinds += [layout.blocks[name] for name in ("modular", "beta", "scale")]
        for where in kinds:
            slope = at.gradient[where] * units[where]
            steepest = np.max(np.abs(slope), initial=0.0)
            if steepest == 0.0:
                continue
            step = np.zeros(layout.size)
            # single parameters move up, which no bound forbids
            step[where] = _PROBE * (1.0 if len(slope) == 1 else -slope / steepest)
            change = self.evaluate(at.theta + step * units).gradient - at.gradient
            measured = abs(float((step * units) @ change)) / float(step @ step)
            if measured > _FLAT:
                result[where] *= measured
        return np.maximum(result, self.penalty.weights)
