"""Submodular functions given by a Python callable."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import EPS, FloatArray, check_flag, check_size, first_index
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._submodularity import check_submodular

# Cost of calling a Python function, in elementary operations (see `_row_cost`).
_CALL = 500.0


class SetFunction(SubmodularFunction):
    """A submodular function given by a Python callable.

    Parameters
    ----------
    function : callable
        Takes a uint8 vector of shape (n,) and returns a number; with `vectorized`, an array of
        shape (M, n) and returns M numbers.  The value at 0 is subtracted.  To pickle the result,
        use a function defined at the top of a module.
    n : int
        Number of elements.
    check : bool, default True
        Run `check_submodular` and refuse a function that fails.  The check is exhaustive up to 12
        elements and a random spot check beyond; switch it off if the function is slow.
    vectorized : bool, default False
        Whether `function` takes a whole batch.

    Examples
    --------
    >>> from logsuper.functions import SetFunction
    >>> f = SetFunction(lambda x: 1.0 if x.any() else 0.0, 3)
    >>> f([[0, 0, 0], [0, 1, 1]])
    array([0., 1.])
    >>> SetFunction(lambda x: float(x.all()), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: function is not submodular: given [], elements 0 and 1 gain 1 more ...

    See `of_sets` for a function of the set of ones.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        n: int,
        check: bool = True,
        vectorized: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {type(function).__name__}")
        self.n = check_size(n)
        self.function = function
        self.vectorized = check_flag(vectorized, "vectorized")
        check = check_flag(check, "check")
        self._offset = 0.0
        self._offset = float(self._evaluate(np.zeros((1, self.n)))[0])
        if self.n and not self._evaluate(_some_points(self.n)).any():
            warnings.warn(
                f"function returned {self._offset:g} at every x that was tried, as if it did not "
                "depend on x: it is called with a vector of zeros and ones, whose length is always "
                "n. For a function of the set of ones, write SetFunction.of_sets(function, n)",
                UserWarning,
                stacklevel=2,
            )
        if check and not (report := check_submodular(self)):
            raise ValueError(f"function is not submodular: {report.violated}")

    @classmethod
    def of_sets(cls, function: Callable[[Any], Any], n: int, check: bool = True) -> SetFunction:
        """Return the submodular function of a Python callable that takes a set.

        Parameters
        ----------
        function : callable
            Takes a frozenset of integers in 0..n-1, the places of the ones, and returns a number.
        n : int
        check : bool, default True
            As in the constructor.

        Examples
        --------
        >>> from logsuper.functions import SetFunction
        >>> f = SetFunction.of_sets(lambda chosen: len(chosen) ** 0.5, 4)
        >>> float(f([1, 1, 1, 1]))
        2.0
        """
        if not callable(function):
            raise TypeError(f"function must be callable, got {type(function).__name__}")
        return cls(_OfSets(function), n, check)

    def _evaluate(self, X: FloatArray) -> FloatArray:
        points = X.astype(np.uint8)
        if self.vectorized:
            returned = self.function(points)
            try:
                values = np.asarray(returned, dtype=np.float64)
            except (TypeError, ValueError):
                raise TypeError(
                    f"a vectorized function must return {len(X)} numbers for an input of shape "
                    f"{X.shape}, got {returned!r}"
                ) from None
            if values.shape != (len(X),):
                raise ValueError(
                    f"a vectorized function must return shape ({len(X)},) for an input of shape "
                    f"{X.shape}, got {values.shape}"
                )
        else:
            values = np.array([_as_number(self.function(point), point) for point in points])
        if not np.isfinite(values).all():
            [k] = first_index(~np.isfinite(values))
            raise ValueError(f"function returned {values[k]} at x = {points[k].tolist()}")
        return values - self._offset

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        # the values that the callable returns are taken as exact
        values = self._evaluate(X)
        return values, EPS * np.abs(values)

    def _row_cost(self) -> float:
        # the cost of the callable is unknown; the call alone takes microseconds
        return super()._row_cost() + (0.0 if self.vectorized else _CALL)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"SetFunction({name}, n={self.n})"


@dataclasses.dataclass(frozen=True)
class _OfSets:
    """Turn a function of a set into a function of the set's 0/1 indicator vector."""

    function: Callable[[Any], Any]

    def __call__(self, x: NDArray[np.uint8]) -> Any:
        return self.function(frozenset(np.flatnonzero(x).tolist()))

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


def _some_points(n: int) -> FloatArray:
    """Return five test points: all ones, the first and the last element alone, two half sets."""
    points = np.zeros((5, n))
    points[0] = 1.0
    points[1, 0] = points[2, -1] = 1.0
    points[3, ::2] = points[4, : n // 2 + 1] = 1.0
    return points


def _as_number(returned: Any, point: NDArray[np.uint8]) -> float:
    try:
        if isinstance(returned, str | bytes):
            raise TypeError
        return float(returned)
    except (TypeError, ValueError):
        raise TypeError(
            f"function returned {returned!r} at x = {point.tolist()}; it must return a number"
        ) from None
