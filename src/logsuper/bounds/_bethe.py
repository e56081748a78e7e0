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

from logsuper._warnings import ConvergenceWarning
from logsuper.bounds import _mean_field
from logsuper.bounds._free_energy import LARGEST_LOGIT, FreeEnergy
from logsuper.bounds._messages import Messages
from logsuper.bounds._pairwise import need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.bounds._rounding import allowance
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray

# Messages, and probabilities, that agree to this are the same.
_SAME = 1e-6
# Values that agree to this, relative to 1 + value, are the same.
_EQUAL = 1e-10
# Marginals of a point with this residual, and above, come with a warning.
_ROUGH = 1e-3
# Steps of the quasi-Newton polish of each candidate.
_POLISH = 200


def log_partition(f: SubmodularFunction) -> Bound:
    r"""Bound log Z from below by the Bethe free energy.

    Belief propagation is monotone in attractive models: from all messages at their least, and at
    their greatest, it finds the extreme fixed points, and all others lie between. Where the two
    differ, the mean-field optimum is tried too, and a quasi-Newton method climbs from all of them.

    Parameters
    ----------
    f : SubmodularFunction
        A pairwise function.

    Returns
    -------
    Bound
        A lower bound, exact on trees and never below mean field; `details` has the ``residual`` of
        the messages, or of the gradient in the log-odds, at the best point.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._bethe import log_partition
    >>> log_partition(ls.Cut(2, [(0, 1)]))
    <lower bound 1.006408868 by bethe, certified>
    """
    energy, logits, residual, solves = _search(f)
    return Bound(
        energy(logits)[0] - allowance(f),
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
        When that point is not stationary.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._bethe import marginals
    >>> marginals(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0])).values.round(3)
    array([0.731, 0.607])
    """
    _, logits, residual, solves = _search(f)
    if residual > _ROUGH:
        warnings.warn(
            f"the best point found for {f!r} is no fixed point of belief propagation: it is off by "
            f"{residual:.3g}, and the marginals are rough",
            ConvergenceWarning,
            stacklevel=4,
        )
    q = np.asarray(expit(logits))
    return Marginals(q, "bethe", solves=solves, details={"residual": residual})


def _search(f: SubmodularFunction) -> tuple[FreeEnergy, FloatArray, float, int]:
    """Return the free energy, log-odds of its best point, how far they are off, and the solves."""
    model = need_pairwise(f, "bethe")
    rho = np.ones(len(model.weights))
    energy = FreeEnergy(model, rho)
    messages = Messages(model, rho)
    # candidates, and the residual of their messages or of their gradient
    points = [(messages.beliefs(u), off) for u, off in messages.extremes()]
    solves = 0
    apart = np.abs(expit(points[0][0]) - expit(points[1][0])).max()
    if max(apart, *(off for _, off in points)) > _SAME:
        _, logits, solves, _ = _mean_field.search(f)
        points += [_climb(energy, start) for start in (*(at for at, _ in points), logits)]
        best, _ = max(points, key=lambda point: energy(point[0])[0])
        u, off = messages.solve(energy.messages(best), sweeps=1)
        points.append((messages.beliefs(u), off))
        values = np.array([energy(at)[0] for at, _ in points])
        lowest = values.max() - _EQUAL * (1.0 + np.abs(values.max()))
        points = [points[k] for k in np.flatnonzero(values >= lowest)]
    logits, off = min(points, key=lambda point: point[1])
    return energy, np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT), off, solves


def _climb(energy: FreeEnergy, logits: FloatArray) -> tuple[FloatArray, float]:
    """Return the best point that a quasi-Newton method evaluates on its way, and its gradient."""
    start = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    best, lowest, slope = start, np.inf, np.inf

    def watched(at: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, lowest, slope
        value, gradient = energy.in_logits(at)
        if value < lowest:
            best, lowest, slope = at.copy(), value, float(np.abs(gradient).max())
        return value, gradient

    options = {"maxiter": _POLISH, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9}
    minimize(watched, start, jac=True, method="L-BFGS-B", options=options)
    return best, slope
