r"""The path from a modular model to f, along which log Z is integrated or annealed.

With :math:`f(x)=g(x)-t^\top x`, where :math:`-t^\top x` are the modular terms,

.. math:: f_b(x)=b\,g(x)-t^\top x,\qquad A(b)=\log\sum_xe^{-f_b(x)},\qquad
          A(0)=\sum_d\log(1+e^{t_d}),\quad A'(b)=-E_b[g].

:math:`A''(b)=\mathrm{Var}_b(g)\ge 0`: the mean of g can only fall along the path.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray
from logsuper.functions._modular import Modular, zero
from logsuper.functions._sum import combine


@dataclasses.dataclass(frozen=True)
class Path:
    """A function in two parts, f = g - t'x."""

    g: SubmodularFunction
    t: FloatArray

    @classmethod
    def of(cls, f: SubmodularFunction) -> Path:
        """Split a function into its modular terms and the others."""
        t = np.zeros(f.n)
        others = []
        for weight, atom in f.terms():
            if isinstance(atom, Modular):
                t -= weight * atom.t
            else:
                others.append((weight, atom))
        return cls(combine(others) if others else zero(f.n), t)

    @property
    def start(self) -> float:
        """A(0), in closed form."""
        return float(np.logaddexp(0.0, self.t).sum())

    def at(self, b: float) -> SubmodularFunction:
        """Return f_b."""
        return b * self.g - Modular(self.t)


def schedule(steps: int) -> FloatArray:
    """Return the points of the path, 0 and 1 included: closer where g falls fastest, near 0."""
    return np.linspace(0.0, 1.0, steps + 1) ** 2
