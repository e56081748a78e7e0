r"""Marginals where certified brackets are wide: a mixture of phases, clipped to the brackets.

A bracket is wide where the model has several phases and the fields hardly favour one of them.
Belief propagation finds some: in attractive models its equations are monotone, and its least and
greatest fixed points are the phases that are mostly 0 and mostly 1; started at the most probable x
it converges to the phase of that state. Each phase has a weight by its Bethe free energy F,

.. math:: P(x_d=1)\approx\frac{\sum_pe^{F_p}q^p_d}{\sum_pe^{F_p}},

so that without fields the first two have equal weights. The middle of a wide bracket, about one
half, is not informative, and the minimum of the free energy alone ignores all phases but one.
`python -m benchmarks.wide` compares these and other estimates with exact marginals.
"""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
from scipy.special import expit, softmax

from logsuper._base import FloatArray
from logsuper.bounds._messages import FreeEnergy, Messages
from logsuper.bounds._needs import need_pairwise
from logsuper.bounds._results import Marginals
from logsuper.functions import SubmodularFunction
from logsuper.solvers import maximize

# Minimum widths of brackets for an estimate by phases, and for a warning. On 14x40 grids with
# couplings of .8 to 6 and exact marginals, the middle was the better estimate at widths up to .5,
# the phases from .8 on.
_WIDE, _LOOSE = 0.5, 0.1
# Tolerance of messages, which is sufficient for the free energies of phases.
_TOL = 1e-6
_SWEEPS = 50
# Fixed points whose marginals all differ by less are the same phase.
_SAME = 0.01


def phases(f: SubmodularFunction) -> FloatArray:
    """Return a mixture of the extreme fixed points of belief propagation and that of the mode.

    Parameters
    ----------
    f : SubmodularFunction
        A pairwise function.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import logsuper as ls
    >>> fh, fv = ls.grid_cuts((12, 12))
    >>> bool(abs(phases(2.0 * fh + 2.0 * fv) - 0.5).max() < 1e-6)  # equal weights
    True
    >>> bool(phases(2.0 * fh + 2.0 * fv - ls.Modular([0.1] * 144)).min() > 0.95)
    True
    """
    model = need_pairwise(f, "bethe")
    rho = np.ones(len(model.weights))
    energy, messages = FreeEnergy(model, rho), Messages(model, rho)
    points = [messages.beliefs(u) for u, _ in messages.extremes(_TOL, _SWEEPS)]
    mode = maximize(f, np.zeros(f.n))[0].astype(np.float64)
    u, _ = messages.solve((2.0 * mode[messages.source] - 1.0) * messages.coupling, _TOL, _SWEEPS)
    third = messages.beliefs(u)
    if min(np.abs(expit(third) - expit(at)).max() for at in points) > _SAME:
        points.append(third)
    weight = softmax([energy(at)[0] for at in points])
    return np.asarray(weight @ expit(np.stack(points)))


def is_wide(found: Marginals) -> bool:
    """Return whether some certified bracket is too wide for its middle to be an estimate."""
    if found.lower is None or found.upper is None:
        return False
    return bool((found.upper - found.lower > _WIDE).any())


def settle(f: SubmodularFunction, found: Marginals) -> Marginals:
    """Return marginals with certified brackets, with estimates where these are wide."""
    if found.lower is None or found.upper is None or not is_wide(found):
        return found
    width = found.upper - found.lower
    values = np.where(width > _WIDE, np.clip(phases(f), found.lower, found.upper), found.values)
    details = {
        **found.details,
        "wide": int(np.count_nonzero(width > _WIDE)),
        "width": float(width.max()),
    }
    return dataclasses.replace(found, values=values, details=details)


@dataclasses.dataclass
class Widths:
    """Counts of the marginals that are only known to lie in a wide interval."""

    total: int = 0
    loose: int = 0
    wide: int = 0
    widest: float = 0.0

    def add(self, found: Marginals) -> Widths:
        """Add the marginals of one or several models."""
        self.total += found.values.size
        if found.lower is not None and found.upper is not None:
            width = found.upper - found.lower
            self.loose += int(np.count_nonzero(width > _LOOSE))
            self.wide += int(np.count_nonzero(width > _WIDE))
            self.widest = max(self.widest, float(width.max(initial=0.0)))
        return self

    def warn(self, stacklevel: int = 3) -> None:
        """Warn if there are any."""
        if self.loose:
            warnings.warn(
                f"{self.loose} of {self.total} marginals are certified only within an interval "
                f"wider than {_LOOSE:g}, {self.wide} of them wider than {_WIDE:g} (the widest: "
                f"{self.widest:.3f}). Their values are the middle of the interval, or, if it is "
                f"wider than {_WIDE:g}, a mixture of phases by belief propagation. "
                "m.marginals('sampling') estimates them with standard errors",
                UserWarning,
                stacklevel=stacklevel,
            )
