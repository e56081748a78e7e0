"""Solvers that do not use a graph: closed forms and the min-norm point."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Self

import numpy as np

from logsuper._base import Bits, FloatArray, IntArray
from logsuper.functions import SubmodularFunction, Sum, split_modular
from logsuper.solvers._closed_form import closed_form_kind, maximize_closed_form
from logsuper.solvers._min_norm import maximize_generic
from logsuper.solvers._precision import report
from logsuper.solvers._problems import Noise, Perturbed, Problems, perturb_each
from logsuper.structures import Structure


class Direct:
    """Solve each problem by building its weighted sum of functions."""

    def __init__(self, functions: Sequence[SubmodularFunction]) -> None:
        self.functions = tuple(functions)
        self.n = functions[0].n
        self.k = len(functions)

    @staticmethod
    def has_closed_form(functions: Sequence[SubmodularFunction]) -> bool:
        """Return whether every weighted sum of the functions can be maximised by sorting."""
        return closed_form_kind(Sum([(1.0, f) for f in functions])) is not None

    def maximize(self, problems: Problems, tie: str | None) -> tuple[Bits, FloatArray, FloatArray]:
        y = np.empty((problems.size, self.n), dtype=np.uint8)
        values = np.empty(problems.size)
        fields = np.broadcast_to(problems.theta, y.shape)
        # Problems with equal weights share one function.
        rows, place = np.unique(problems.alpha, axis=0, return_inverse=True)
        which = np.broadcast_to(place.ravel(), problems.size)
        for r, row in enumerate(rows):
            f = weighted_sum(row, self.functions)
            mine = which == r
            if closed_form_kind(f) is not None:
                y[mine], values[mine] = maximize_closed_form(f, fields[mine], tie)
            else:
                y[mine], values[mine], gaps = maximize_generic(f, fields[mine], tie)
                # the tolerated gaps are relative to the largest numbers in f, so report large ones
                own = fields[mine] + split_modular(f)[1]
                report(gaps + _rounding(f), own)
        return y, values, self._statistics(y)

    def perturb(self, problems: Problems, noise: Noise, return_samples: bool) -> Perturbed:
        solve = functools.partial(self.maximize, tie=None)
        return perturb_each(solve, problems, noise, return_samples)

    def _statistics(self, y: Bits) -> FloatArray:
        return np.stack([f(y) for f in self.functions], axis=1)

    @property
    def edges(self) -> IntArray:
        """No edge has a weight of its own."""
        return np.empty((0, 2), dtype=np.int64)


class Sorting(Direct):
    """Modular terms and at most one concave function of a count or of a modular function."""

    name = "sorting"

    @classmethod
    def build(cls, structure: Structure, memory_limit: int | None = None) -> Self | None:
        """Return the solver of the functions, None if it is not for them."""
        functions = structure.functions
        return cls(functions) if Direct.has_closed_form(functions) else None


class MinNorm(Direct):
    """Any functions, by the min-norm point of their sum."""

    name = "min_norm"

    @classmethod
    def build(cls, structure: Structure, memory_limit: int | None = None) -> Self | None:
        """Return the solver of the functions."""
        return cls(structure.functions)


def weighted_sum(
    weights: FloatArray, functions: Sequence[SubmodularFunction]
) -> SubmodularFunction:
    """Return the sum of the functions with the given weights."""
    return Sum([(float(weight), f) for weight, f in zip(weights, functions, strict=True)])


def _rounding(f: SubmodularFunction) -> float:
    """Return an approximate bound on the rounding error of a sum of n gains of f."""
    gains = f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))
    return float(np.finfo(np.float64).eps * f.n * np.abs(gains).max(axis=0).sum())
