r"""The Bethe approximation, a lower bound for attractive pairwise models.

The maximum of the Bethe free energy is at most log Z when every factor is log-supermodular
(Ruozzi, "The Bethe partition function of log-supermodular graphical models", NIPS 2012), so that
every locally consistent point gives a lower bound, whether belief propagation converges or not.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from logsuper._base import FloatArray, IntArray
from logsuper.bounds import _mean_field
from logsuper.bounds._dominant import contracted
from logsuper.bounds._messages import LARGEST_LOGIT, Effort, FreeEnergy, Messages
from logsuper.bounds._needs import need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise

# Tolerance below which two messages, or two probabilities, count as equal.
_SAME = 1e-6
# Tolerance, relative to 1 + value, below which two values count as equal.
_EQUAL = 1e-10
# Residual of a point above which its marginals come with a warning.
_ROUGH = 1e-3
# The default effort; steps are iterations of the quasi-Newton method from each candidate.
_FULL = Effort(sweeps=200, newton_steps=40, steps=200)
# Nanoseconds per element and edge of a sweep over messages from both extremes, and of an evaluation
# of the free energy (measured, rounded up); minimum number of sweeps.
_SWEEP, _EVALUATE, _LEAST = 40.0, 250.0, 20


def log_partition(f: SubmodularFunction) -> Bound:
    r"""Bound log Z from below by the Bethe free energy.

    Belief propagation is monotone in attractive models: from messages that are all at their
    minimum, and all at their maximum, it finds the extreme fixed points; all others lie between
    these. If the two differ, the mean-field optimum is tried too, and a quasi-Newton method climbs
    from all of them.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        A pairwise function.

    Returns
    -------
    Bound
        A lower bound, exact on trees and never below mean field; `details` has the ``residual`` of
        the messages, or of the gradient in the log-odds, at the best point.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.bethe(ls.Cut(2, [(0, 1)]))
    <lower bound 1.006408868 by bethe, certified>
    """
    return within(f, _FULL)


def effort(model: Pairwise, budget: float) -> Effort | None:
    """Return the effort that a number of operations affords; None if it is below the minimum."""
    size = model.n + len(model.edges)
    left = budget - _LEAST * _SWEEP * size - _EVALUATE * size
    if left < 0:
        return None
    sweeps = min(_FULL.sweeps, _LEAST + int(left / 2 / (_SWEEP * size)))
    left -= (sweeps - _LEAST) * _SWEEP * size
    messages = Messages(model, np.ones(len(model.weights)))
    newton = min(_FULL.newton_steps, int(left / 2 / (2.0 * messages.newton_operations)))
    left -= 2.0 * newton * messages.newton_operations
    # three candidates, and some evaluations per iteration
    return Effort(sweeps, newton, min(_FULL.steps, int(left / (3 * 1.3 * _EVALUATE * size))))


def within(f: SubmodularFunction, most: Effort, start: FloatArray | None = None) -> Bound:
    """Return the bound for the given effort; `start` is the mean-field optimum, if known."""
    energy, label, logits, residual, solves = _search(f, most, start)
    return Bound(
        energy.certified(logits[np.unique(label, return_index=True)[1]]),
        "lower",
        "bethe",
        certified=True,
        solves=solves,
        details={"residual": residual},
    )


def marginals(f: SubmodularFunction) -> Marginals:
    """Return the marginals of the best point of the Bethe free energy.

    Warns
    -----
    ConvergenceWarning
        If that point is not stationary.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0]))
    >>> m.marginals("bethe").values.round(3)
    array([0.731, 0.607])
    """
    _, _, logits, residual, solves = _search(f)
    if residual > _ROUGH:
        from logsuper._base import ConvergenceWarning  # imports scikit-learn

        warnings.warn(
            f"the best point found for {f!r} is not a fixed point of belief propagation: its "
            f"residual is {residual:.3g}, and the marginals are inaccurate",
            ConvergenceWarning,
            stacklevel=4,
        )
    q = np.asarray(expit(logits))
    return Marginals(q, "bethe", solves=solves, details={"residual": residual})


def _search(
    f: SubmodularFunction, most: Effort = _FULL, start: FloatArray | None = None
) -> tuple[FreeEnergy, IntArray, FloatArray, float, int]:
    """Return the free energy, a label per element, log-odds, their residual, number of solves.

    The free energy is that of the model in which heavy edges are contracted, and the label of an
    element of f is its element there. The log-odds are those of the best point that was found.
    """
    model, label = contracted(need_pairwise(f, "bethe"))
    rho = np.ones(len(model.weights))
    energy = FreeEnergy(model, rho)
    messages = Messages(model, rho, most.newton_steps)
    # candidates, and the residual of their messages or of their gradient
    points = [(messages.beliefs(u), off) for u, off in messages.extremes(sweeps=most.sweeps)]
    solves = 0
    apart = np.abs(expit(points[0][0]) - expit(points[1][0])).max()
    if max(apart, *(off for _, off in points)) > _SAME:
        if start is None:
            _, start, solves, _ = _mean_field.search(f)
        mean = np.bincount(label, start) / np.bincount(label)
        starts = [*(at for at, _ in points), mean]
        points += [_climb(energy, at, most.steps) for at in starts]
        best, _ = max(points, key=lambda point: energy(point[0])[0])
        u, off = messages.solve(energy.messages(best), sweeps=1)
        points.append((messages.beliefs(u), off))
        values = np.array([energy(at)[0] for at, _ in points])
        lowest = values.max() - _EQUAL * (1.0 + np.abs(values.max()))
        points = [points[k] for k in np.flatnonzero(values >= lowest)]
    logits, off = min(points, key=lambda point: point[1])
    return energy, label, np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)[label], off, solves


def _climb(energy: FreeEnergy, logits: FloatArray, most: int) -> tuple[FloatArray, float]:
    """Return the best point that a quasi-Newton method evaluates, and the size of its gradient."""
    start = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    best, lowest, slope = start, np.inf, np.inf

    def watched(at: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, lowest, slope
        value, gradient = energy.in_logits(at)
        if value < lowest:
            best, lowest, slope = at.copy(), value, float(np.abs(gradient).max())
        return value, gradient

    if most == 0:
        watched(start)
        return best, slope
    options = {"maxiter": most, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9}
    minimize(watched, start, jac=True, method="L-BFGS-B", options=options)
    return best, slope
