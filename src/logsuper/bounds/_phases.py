r"""Marginals where certified brackets are wide: a mixture of two phases, held within the brackets.

A bracket is wide where the model has two phases, mostly 0 and mostly 1, that fields hardly choose
between. Belief propagation finds both: in attractive models its equations are monotone, and its
least and greatest fixed points are the phases. Each counts by its Bethe free energy F,

.. math:: P(x_d=1)\approx\frac{e^{F_0}q^0_d+e^{F_1}q^1_d}{e^{F_0}+e^{F_1}},

so that without fields both count alike. The middle of a wide bracket, one half, says nothing; and
the best point of the free energy alone takes one phase for certain, whatever the other weighs.
"""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
from scipy.special import expit, softmax

from logsuper._base import FloatArray
from logsuper.bounds._free_energy import FreeEnergy
from logsuper.bounds._messages import Messages
from logsuper.bounds._needs import need_pairwise
from logsuper.bounds._results import Marginals
from logsuper.functions import SubmodularFunction

# Brackets wider than this are wide. On 14x40 grids with couplings of .8 to 6 and exact marginals,
# the middle was the better estimate at widths up to .5, the phases from .8 on.
_WIDE = 0.5
# The free energies of phases need no more accurate messages than this.
_TOL = 1e-6
_SWEEPS = 50


def phases(f: SubmodularFunction) -> FloatArray:
    """Return the mixture of the two extreme fixed points of belief propagation.

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
    >>> from logsuper.bounds._phases import phases
    >>> fh, fv = ls.grid_cuts((12, 12))
    >>> bool(abs(phases(2.0 * fh + 2.0 * fv) - 0.5).max() < 1e-6)  # both phases alike
    True
    >>> bool(phases(2.0 * fh + 2.0 * fv - ls.Modular([0.1] * 144)).min() > 0.95)
    True
    """
    model = need_pairwise(f, "bethe")
    rho = np.ones(len(model.weights))
    energy, messages = FreeEnergy(model, rho), Messages(model, rho)
    points = [messages.beliefs(u) for u, _ in messages.extremes(_TOL, _SWEEPS)]
    weight = softmax([energy(at)[0] for at in points])
    return np.asarray(weight @ expit(np.stack(points)))


def settle(f: SubmodularFunction, found: Marginals) -> Marginals:
    """Return marginals with certified brackets, with estimates where those are wide."""
    if found.lower is None or found.upper is None:
        return found
    wide = found.upper - found.lower > _WIDE
    if not wide.any():
        return found
    values = np.where(wide, np.clip(phases(f), found.lower, found.upper), found.values)
    details = {
        **found.details,
        "wide": int(wide.sum()),
        "width": float((found.upper - found.lower).max()),
    }
    return dataclasses.replace(found, values=values, details=details)


@dataclasses.dataclass
class Widths:
    """How much of some marginals is an estimate, and how little is known for certain."""

    total: int = 0
    wide: int = 0
    widest: float = 0.0

    def add(self, found: Marginals) -> Widths:
        """Count the marginals of one more model."""
        self.total += found.values.size
        self.wide += found.details.get("wide", 0)
        self.widest = max(self.widest, found.details.get("width", 0.0))
        return self

    def warn(self, stacklevel: int = 3) -> None:
        """Say so, if there is anything to say."""
        if self.wide:
            warnings.warn(
                f"{self.wide} of {self.total} marginals are certified only within an interval "
                f"wider than {_WIDE:g} (the widest: {self.widest:.3f}); their values mix two "
                "phases of belief propagation. Samples, m.marginals('sampling'), have standard "
                "errors",
                UserWarning,
                stacklevel=stacklevel,
            )
