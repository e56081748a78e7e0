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

# Probabilities that agree to this have converged, or are the same.
_SAME = 1e-6
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
        A lower bound, exact on trees and never below mean field; `details` has the norm of the
        ``gradient`` in the log-odds.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._bethe import log_partition
    >>> log_partition(ls.Cut(2, [(0, 1)]))
    <lower bound 1.006408868 by bethe, certified>
    """
    value, _, gradient, solves = _search(f)
    return Bound(
        value - allowance(f),
        "lower",
        "bethe",
        certified=True,
        solves=solves,
        details={"gradient": gradient},
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
    _, logits, gradient, solves = _search(f)
    if gradient > 1e-3:
        warnings.warn(
            f"the gradient of the Bethe free energy is {gradient:.3g}, not 0, at the best point "
            f"found for {f!r}; the marginals are rough",
            ConvergenceWarning,
            stacklevel=4,
        )
    q = np.asarray(expit(logits))
    return Marginals(q, "bethe", solves=solves, details={"gradient": gradient})


def _search(f: SubmodularFunction) -> tuple[float, FloatArray, float, int]:
    """Return the best value, its log-odds, the gradient there, and the number of solves."""
    model = need_pairwise(f, "bethe")
    rho = np.ones(len(model.weights))
    energy = FreeEnergy(model, rho)
    messages = Messages(model, rho)
    found = [messages.solve(sign * messages.coupling, damping=1.0) for sign in (-1.0, 1.0)]
    candidates = [messages.beliefs(u) for u, _ in found]
    solves = 0
    unique = np.abs(np.diff(expit(candidates), axis=0)).max() <= _SAME
    if not unique or max(worst for _, worst in found) > _SAME:
        _, logits, solves, _ = _mean_field.search(f)
        candidates += [_climb(energy, start) for start in (*candidates, logits)]
        best = max(candidates, key=lambda logits: energy(logits)[0])
        u, _ = messages.solve(energy.messages(best), damping=0.5, sweeps=1)
        candidates.append(messages.beliefs(u))
    values = [energy(logits)[0] for logits in candidates]
    best = candidates[int(np.argmax(values))]
    slope = float(np.abs(energy.in_logits(best)[1]).max())
    return max(values), np.clip(best, -LARGEST_LOGIT, LARGEST_LOGIT), slope, solves


def _climb(energy: FreeEnergy, logits: FloatArray) -> FloatArray:
    """Return the best point that a quasi-Newton method evaluates on its way."""
    best, lowest = logits, energy.in_logits(logits)[0]

    def watched(at: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, lowest
        value, gradient = energy.in_logits(at)
        if value < lowest:
            best, lowest = at.copy(), value
        return value, gradient

    options = {"maxiter": _POLISH, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9}
    start = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    minimize(watched, start, jac=True, method="L-BFGS-B", options=options)
    return best
