"""What float64 may have cost a certified value."""

from __future__ import annotations

import numpy as np

from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray


def extreme_gains(f: SubmodularFunction) -> tuple[FloatArray, FloatArray]:
    r"""Return the largest gains :math:`f(\{d\})` and the smallest :math:`f(V)-f(V\setminus d)`."""
    largest, smallest = f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))
    return largest, smallest


def allowance(f: SubmodularFunction) -> float:
    """Return a bound on the error of a sum of terms of f and of n entropies.

    No value of f, and no cut weight, exceeds the sum of the absolute extreme gains; a sum of n
    numbers loses at most n rounding errors of its largest partial sum.
    """
    scale = f.n + float(np.abs(extreme_gains(f)).sum())
    return float(np.finfo(np.float64).eps) * f.n * scale
