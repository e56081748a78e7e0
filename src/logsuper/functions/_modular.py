"""Modular functions: one weight per element."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import EPS, FloatArray, IntArray, as_vector, check_number, frozen
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._graph import PairwiseGraph


class Modular(SubmodularFunction):
    r"""The modular function :math:`f(x)=t^\top x`.

    Modular functions are the only ones whose negative is submodular too, so a `Modular` can be
    multiplied by any number and subtracted from any function.

    Parameters
    ----------
    t : array-like of shape (n,)
        Weights of either sign.

    Attributes
    ----------
    t : ndarray of shape (n,)

    Examples
    --------
    >>> from logsuper.functions import Modular
    >>> f = Modular([1.0, -2.0, 0.5])
    >>> f([[1, 1, 0], [0, 0, 1]])
    array([-1. ,  0.5])
    """

    def __init__(self, t: ArrayLike) -> None:
        self.t = frozen(as_vector(t, "t"))
        self.n = len(self.t)

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return X @ self.t

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        return X @ self.t, EPS * self.n * (X @ np.abs(self.t))

    def _gains(self, X: FloatArray) -> FloatArray:
        return np.broadcast_to(self.t, X.shape)

    def _greedy(self, W: FloatArray) -> FloatArray:
        return np.broadcast_to(self.t, W.shape)

    def _lovasz(self, W: FloatArray) -> FloatArray:
        return W @ self.t

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        return Q @ self.t, np.broadcast_to(self.t, Q.shape)

    def _condition(self, free: IntArray, point: FloatArray) -> Modular:
        return Modular(self.t[free])

    def graph(self) -> PairwiseGraph:
        """Return the graph without edges."""
        return PairwiseGraph.from_arcs(self.n, unary=self.t)

    def __mul__(self, weight: object) -> Modular:
        """Return the function scaled by any finite number."""
        return Modular(self.t * check_number(weight, "the weight of a Modular"))

    __rmul__ = __mul__

    def __truediv__(self, number: object) -> Modular:
        """Return the function divided by any number except 0."""
        divisor = check_number(number, "the divisor of a Modular")
        if divisor == 0:
            raise ValueError(f"cannot divide {self!r} by 0")
        return Modular(self.t / divisor)

    def __neg__(self) -> Modular:
        """Return the function with all weights negated."""
        return Modular(-self.t)


def zero(n: int) -> Modular:
    """Return the function that is 0 everywhere on n elements."""
    return Modular(np.zeros(n))
