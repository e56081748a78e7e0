"""Solvers that do not use a graph: closed forms and the min-norm point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.functions import SubmodularFunction, Sum, split_modular
from logsuper.solvers._closed_form import closed_form_kind, maximize_closed_form
from logsuper.solvers._min_norm import maximize_generic
from logsuper.solvers._noise import logistic_noise
from logsuper.solvers._precision import report
from logsuper.solvers._results import Perturbed
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

    def maximize(
        self, theta: FloatArray, alpha: FloatArray, problems: int, tie: str | None
    ) -> tuple[NDArray[np.uint8], FloatArray, FloatArray]:
        y = np.empty((problems, self.n), dtype=np.uint8)
        values = np.empty(problems)
        fields = np.broadcast_to(theta, (problems, self.n))
        # Problems with equal weights share one function.
        rows, place = np.unique(alpha, axis=0, return_inverse=True)
        which = np.broadcast_to(place.ravel(), problems)
        for r, row in enumerate(rows):
            f = Sum([(float(weight), g) for weight, g in zip(row, self.functions, strict=True)])
            mine = which == r
            if closed_form_kind(f) is not None:
                y[mine], values[mine] = maximize_closed_form(f, fields[mine], tie)
            else:
                y[mine], values[mine], gaps = maximize_generic(f, fields[mine], tie)
                # the tolerated gaps are relative to the largest numbers in f, so report large ones
                own = fields[mine] + split_modular(f)[1]
                report(gaps + _rounding(f), own)
        return y, values, self._statistics(y)

    def perturb(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        numbers: NDArray[np.uint64],
        samples: int,
        key: int,
        first_sample: int,
        return_samples: bool,
    ) -> Perturbed:
        problems = len(numbers)
        mean = np.empty((problems, self.n))
        stats = np.empty((problems, self.k))
        values = np.empty((problems, samples))
        kept = np.empty((problems, samples, self.n), np.uint8) if return_samples else None
        draws = np.arange(first_sample, first_sample + samples)
        for m in range(problems):
            noise = logistic_noise(key, numbers[m], draws, self.n)[0]
            row = alpha[:1] if len(alpha) == 1 else alpha[m : m + 1]
            field = theta[0 if len(theta) == 1 else m] + noise
            y, values[m], each = self.maximize(field, row, samples, None)
            mean[m] = y.mean(axis=0)
            stats[m] = each.mean(axis=0)
            if kept is not None:
                kept[m] = y
        return Perturbed(mean, stats, values, kept)

    @property
    def edges(self) -> NDArray[np.int64]:
        """No edge has a weight of its own."""
        return np.empty((0, 2), dtype=np.int64)

    def _statistics(self, y: NDArray[np.uint8]) -> FloatArray:
        return np.stack([f(y) for f in self.functions], axis=1)


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


def _rounding(f: SubmodularFunction) -> float:
    """Return an approximate bound on the rounding error of a sum of n gains of f."""
    gains = f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))
    return float(np.finfo(np.float64).eps * f.n * np.abs(gains).max(axis=0).sum())
