r"""Expectation-maximisation for observations alone (section 4.4).

The objective is a difference of two convex functions of the parameters, plus the regulariser:

.. math:: F(\theta,\pi) = A(f_\theta) - \frac1N\sum_i\bigl(A(f_\theta-l_i)+c_i\bigr)+\Omega(\theta).

Where both are maxima under perturbations that stay fixed, or exact, the linear function that
touches the posterior term at the present parameters lies below it (E step: its slope are the
expected statistics). What is left is convex in the weights and in closed form for the channel (M
step), and a decrease of it is one of F: the method is monotone (the concave-convex procedure of
A. L. Yuille and A. Rangarajan, Neural Computation 15, 2003). Strip bounds are not convex, and an
iteration with them can make F worse; it is then not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from logsuper._base import FloatArray
from logsuper.channels import Channel
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective
from logsuper.learning._penalty import Penalty
from logsuper.learning._smooth import Function, minimize

# Relative rise of F that counts as rounding: it is a sum over all pixels of all images.
_ROUNDING = 1e-10


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
    iteration, begin, converged, before = 0, True, False, (theta, channel)
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
        if iteration == len(history):  # else the point is where the other objective has ended
            history.append(Record(iteration, cuts, value))
            pulse(history[-1])
        converged = last - value <= tol * scale
        if converged or iteration == max_iter:
            break
        last, before, begin = value, (theta, channel), False
        # a nonsmooth objective ends a line search early, never above where it began
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
    return Learned(parameters, theta, converged, tuple(history), channel, details)


def _matching(objective: Objective, target: FloatArray) -> Function:
    r"""Return the M step: :math:`A(f_\theta)-\theta^\top\mu`, least where the prior expects mu."""

    def loss(theta: FloatArray) -> Loss:
        free = objective.free(theta)
        value = free.value - float(target @ theta)
        return Loss(value, 0.0, free.phi - target, free.cuts)

    return Function(objective.examples, loss)
