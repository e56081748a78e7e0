"""Conditioning of functions without a closed form for it."""

from __future__ import annotations

import numpy as np

from logsuper._base import EPS, FloatArray, IntArray, frozen
from logsuper.functions._base import SubmodularFunction


class Conditioned(SubmodularFunction):
    """A function with some elements fixed, as a function of the others that is 0 at 0.

    Parameters
    ----------
    function : SubmodularFunction
    free : ndarray of int
        The elements that are not fixed.
    point : ndarray of shape (function.n,)
        The values of the fixed elements; 0 at the free elements.
    """

    def __init__(self, function: SubmodularFunction, free: IntArray, point: FloatArray) -> None:
        self.function = function
        self.free = frozen(free)
        self.point = frozen(point)
        self.n = len(free)
        self._constant = float(function(point))

    def _embed(self, X: FloatArray) -> FloatArray:
        full = self.point[None, :].repeat(len(X), axis=0)
        full[:, self.free] = X
        return full

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.function._evaluate(self._embed(X)) - self._constant)

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, errors = self.function._evaluate_within(self._embed(X))
        own = self.function._evaluate_within(self.point[None])[1]
        return values - self._constant, errors + own + EPS * np.abs(values - self._constant)

    def _gains(self, X: FloatArray) -> FloatArray:
        return self.function._gains(self._embed(X))[:, self.free]

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        found = self.function._multilinear(self._embed(Q))
        if found is None:
            return None
        return found[0] - self._constant, found[1][:, self.free]

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        return Conditioned(self.function, self.free[free], self._embed(point[None])[0])

    def _row_size(self) -> int:
        return self.function._row_size()

    def __repr__(self) -> str:
        return f"Conditioned({self.function!r}, n={self.n})"
