"""Concave functions of a count, and of a non-negative modular function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import (
    EPS,
    FloatArray,
    IntArray,
    as_float,
    as_members,
    as_numeric,
    as_vector,
    check_size,
    first_index,
    frozen,
    refuse_negative,
)
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._expectation import mean_of_count
from logsuper.functions._graph import PairwiseGraph, rounding
from logsuper.functions._walks import Pieces, Walk, one_group

# A callable is checked for concavity at all values of w'x up to this many elements, and otherwise
# at this many regular (and as many random) points.
_ENUMERATED = 10
_GRID = 257

# Tolerated distance of a point below its chord, relative to the largest value (rounding).
_ROUNDING = 1e-12


class ConcaveCardinality(SubmodularFunction):
    r"""A concave function of the number of ones, :math:`f(x)=g(\sum_{i\in C}x_i)-g(0)`.

    Parameters
    ----------
    g : array-like of shape (m + 1,) or callable
        The values at 0, 1, ..., m, where m is the size of the subset (or n); or a function of
        the count.  It must be concave, but need not start at 0 or increase.
    n : int, optional
        Number of elements; needed with a callable or a subset.
    subset : array-like of int, optional
        The elements that are counted; all elements by default.

    Attributes
    ----------
    g : ndarray of shape (m + 1,)
        Normalised, ``g[0] == 0``.
    subset : ndarray of shape (m,), int64
        In increasing order.

    Examples
    --------
    >>> from logsuper.functions import ConcaveCardinality
    >>> f = ConcaveCardinality([0.0, 3.0, 4.0, 4.0])
    >>> f([[1, 0, 0], [1, 1, 1]])
    array([3., 4.])
    >>> ConcaveCardinality(lambda k: k * (5 - k), n=5)
    ConcaveCardinality(n=5)
    """

    def __init__(
        self,
        g: ArrayLike | Callable[[int], float],
        n: int | None = None,
        subset: ArrayLike | None = None,
    ) -> None:
        if n is None and (callable(g) or subset is not None):
            raise ValueError("n is needed when g is a callable or a subset is given")
        if n is None:
            self.n = as_vector(g, "g").size - 1  # type: ignore[arg-type]
            if self.n < 0:
                raise ValueError("g must hold at least the value at 0")
        else:
            self.n = check_size(n)
        members = None if subset is None else np.sort(as_members(subset, self.n, "subset"))
        size = self.n if members is None else len(members)
        values = as_vector([g(k) for k in range(size + 1)] if callable(g) else g, "g")
        # checked before any array of this size is allocated: n may come from an untrusted file
        if len(values) != size + 1:
            raise ValueError(f"g must have {size + 1} values, at 0 to {size}, got {len(values)}")
        _check_concave(np.arange(size + 1.0), values)
        self._build(self.n, np.arange(size) if members is None else members, values)

    def _build(self, n: int, subset: IntArray, g: FloatArray) -> None:
        self.n = n
        self.subset = frozen(subset)
        self.g = frozen(g - g[0])
        self._slopes = np.diff(g)

    @property
    def _member(self) -> NDArray[np.bool_]:
        """Whether each element is counted; not stored, as n may be much larger than the subset."""
        member = np.zeros(self.n, dtype=bool)
        member[self.subset] = True
        return member

    def _count(self, X: FloatArray) -> IntArray:
        return np.asarray(X[:, self._member].sum(axis=1), dtype=np.int64)

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return self.g[self._count(X)]

    def _gains(self, X: FloatArray) -> FloatArray:
        gains = np.zeros_like(X)
        members = X[:, self._member].astype(np.int64)
        gains[:, self._member] = self._slopes[members.sum(axis=1, keepdims=True) - members]
        return gains

    def _chain(self, order: IntArray) -> FloatArray:
        entering = self._member[order]
        steps = np.zeros(order.shape)
        steps[entering] = self._slopes[np.cumsum(entering, axis=1)[entering] - 1]
        return steps

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        gradients = np.zeros(Q.shape)
        values, gradients[:, self.subset] = mean_of_count(Q[:, self.subset], self._slopes)
        return values, gradients

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        place = np.flatnonzero(self._member[free])
        start = int(self._count(point[None])[0])
        table = self.g[start : start + len(place) + 1]
        return ConcaveCardinality._built(len(free), place, table)

    def _walks(self) -> list[tuple[float, Walk]]:
        size = len(self.subset)
        pieces = Pieces(np.array([0, size + 1]), np.arange(size + 1.0), self.g)

        def profile(V: FloatArray, _: IntArray) -> FloatArray:
            return self.g[V.astype(np.int64)]

        return [(1.0, one_group(self.n, self.subset, np.ones(size), profile, pieces))]

    def graph(self) -> PairwiseGraph:
        """Return a graph with one auxiliary node per change of slope."""
        ends = np.arange(1.0, len(self.g))
        return _concave_graph(self._member.astype(np.float64), ends, self._slopes)

    def __repr__(self) -> str:
        size = "" if len(self.subset) == self.n else f", subset of {len(self.subset)}"
        return f"ConcaveCardinality(n={self.n}{size})"


class ConcaveOfModular(SubmodularFunction):
    r"""A concave function of a non-negative modular one, :math:`f(x)=g(w^\top x)-g(0)`.

    Parameters
    ----------
    g : callable, or pair of array-like (breakpoints, values)
        Concave on :math:`[0,\sum_i w_i]`.  A callable takes an array (a function of a single
        number works, more slowly); it is checked for concavity at all values of w'x if these are
        few and on a fine grid otherwise.  A pair is interpolated linearly; the breakpoints must
        increase and cover the whole interval.  Only a pair can be written as a graph.
    w : array-like of shape (n,)
        Non-negative.

    Attributes
    ----------
    weights : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.functions import ConcaveOfModular
    >>> f = ConcaveOfModular(np.sqrt, [1.0, 3.0, 5.0])
    >>> f([[1, 1, 0], [1, 1, 1]])
    array([2., 3.])
    >>> truncated = ConcaveOfModular(([0.0, 4.0, 9.0], [0.0, 4.0, 4.0]), [1.0, 3.0, 5.0])
    >>> truncated([1, 0, 1])
    4.0
    """

    def __init__(
        self,
        g: Callable[[Any], Any] | tuple[ArrayLike, ArrayLike],
        w: ArrayLike,
    ) -> None:
        weights = as_vector(w, "w")
        refuse_negative(weights, "w", "g(w'x) is then not submodular")
        with np.errstate(over="ignore"):
            total = float(weights.sum())
        if not np.isfinite(total):
            raise ValueError("the sum of w overflows; rescale it, and g")
        function: _Curve | _PiecewiseLinear
        if callable(g):
            points = _reachable(weights)
            function = _Curve(g, points)
            _check_concave(points, function(points))
        else:
            function = _PiecewiseLinear(g, total)
        self._build(weights, function, 0.0)

    def _build(self, weights: FloatArray, g: _Curve | _PiecewiseLinear, start: float) -> None:
        self.n = len(weights)
        self.weights = frozen(weights)
        self._total = float(weights.sum())
        self._function = g
        self._start = start

    def g(self, v: ArrayLike) -> FloatArray:
        r"""Return g, shifted to 0 at 0, at values of :math:`w^\top x`."""
        # by rounding, a sum of the weights in another order may lie outside the interval
        inside = np.clip(np.asarray(v, dtype=np.float64), 0.0, self._total) + self._start
        return self._function(inside) - self._function(np.float64(self._start))

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return self.g(X @ self.weights)

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        v = X @ self.weights
        values = self.g(v)
        # `slip` bounds the error of w'x; a concave g changes most at an end of [v - slip, v + slip]
        slip = EPS * (self.n + 4.0) * (v + self._start)
        change = np.maximum(np.abs(self.g(v + slip) - values), np.abs(self.g(v - slip) - values))
        size = np.abs(self._function(v + self._start)) + abs(
            float(self._function(np.float64(self._start)))
        )
        return values, change + 8.0 * EPS * size

    def _gains(self, X: FloatArray) -> FloatArray:
        without = (X @ self.weights)[:, None] - X * self.weights
        return self.g(without + self.weights) - self.g(without)

    def _chain(self, order: IntArray) -> FloatArray:
        return np.diff(self.g(np.cumsum(self.weights[order], axis=1)), axis=1, prepend=0.0)

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        # if all weights are equal, f is a function of a count; otherwise the cost is exponential
        members = np.flatnonzero(self.weights)
        if len(members) and np.ptp(self.weights[members]) > 0:
            return None
        step = self.weights[members].max(initial=0.0)
        slopes = np.diff(self.g(step * np.arange(len(members) + 1)))
        gradients = np.zeros(Q.shape)
        values, gradients[:, members] = mean_of_count(Q[:, members], slopes)
        return values, gradients

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        start = self._start + float(point @ self.weights)
        return ConcaveOfModular._built(self.weights[free], self._function, start)

    def _walks(self) -> list[tuple[float, Walk]]:
        pieces = None
        if isinstance(self._function, _PiecewiseLinear):
            ends, _ = self._function.pieces(self._start, self._start + self._total)
            points = np.concatenate([[0.0], ends[ends < self._total], [self._total]])[None]
            pieces = Pieces.stack(points, self.g(points))
        members = np.flatnonzero(self.weights)
        weights = self.weights[members]
        return [(1.0, one_group(self.n, members, weights, lambda V, _: self.g(V), pieces))]

    def graph(self) -> PairwiseGraph | None:
        """Return a graph with one auxiliary node per breakpoint; None if g is a callable."""
        if isinstance(self._function, _Curve):
            return None
        ends, slopes = self._function.pieces(self._start, self._start + self._total)
        return _concave_graph(self.weights, ends, slopes)


class _Curve:
    """Wrap a callable g, which may accept single numbers only, so that it accepts arrays."""

    def __init__(self, function: Callable[[Any], Any], points: FloatArray) -> None:
        self.function = function
        try:
            self.vectorised = np.shape(function(points)) == points.shape
        except (TypeError, ValueError):
            self.vectorised = False
        values = self(points)
        if not np.isfinite(values).all():
            [k] = first_index(~np.isfinite(values))
            raise ValueError(f"g({points[k]:g}) = {values[k]} is not finite")

    def __call__(self, v: FloatArray | np.float64) -> FloatArray:
        if self.vectorised:
            return as_numeric(self.function(v), "what g returns").astype(np.float64)
        flat = [_check_value(self.function(float(value)), float(value)) for value in np.ravel(v)]
        return np.array(flat).reshape(np.shape(v))


def _check_value(returned: Any, v: float) -> float:
    """Return the value of g at v as a float; raise a TypeError if it is not a number."""
    try:
        if isinstance(returned, str | bytes):
            raise TypeError
        return float(returned)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"g({v:g}) returned {returned!r}; it must return a number") from None


class _PiecewiseLinear:
    """A concave piecewise-linear g on [0, total]."""

    def __init__(self, pair: tuple[ArrayLike, ArrayLike], total: float) -> None:
        try:
            points, values = pair
        except (TypeError, ValueError):
            raise TypeError("g must be callable or a pair (breakpoints, values)") from None
        self.points = as_vector(points, "the breakpoints of g")
        self.values = as_float(values, "the values of g")
        if self.values.shape != self.points.shape or len(self.points) == 0:
            raise ValueError(
                f"g needs as many values as breakpoints and at least one, got "
                f"{len(self.points)} breakpoints and values of shape {self.values.shape}"
            )
        if (np.diff(self.points) <= 0).any():
            raise ValueError("the breakpoints of g must increase")
        if self.points[0] > 0 or self.points[-1] < total * (1 - _ROUNDING):
            raise ValueError(
                f"the breakpoints of g must cover [0, {total:g}], the range of w'x; they cover "
                f"[{self.points[0]:g}, {self.points[-1]:g}]"
            )
        _check_concave(self.points, self.values)

    def __call__(self, v: FloatArray | np.float64) -> FloatArray:
        return np.asarray(np.interp(v, self.points, self.values))

    def pieces(self, start: float, stop: float) -> tuple[FloatArray, FloatArray]:
        """Return the right ends of the linear pieces of [start, stop], minus start, and slopes."""
        slopes = np.diff(self.values) / np.diff(self.points)
        inside = (self.points[1:] > start) & (self.points[:-1] < stop)
        return self.points[1:][inside] - start, slopes[inside]


def _reachable(weights: FloatArray) -> FloatArray:
    """Return the points at which g is checked: all values of w'x if they can be enumerated."""
    n, total = len(weights), float(weights.sum())
    if n <= _ENUMERATED:
        subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return np.unique(subsets @ weights)
    if total <= 4096 and (weights == np.rint(weights)).all():
        return np.arange(total + 1.0)
    extra = np.random.default_rng(0).uniform(0.0, total, _GRID)
    return np.unique(np.concatenate([np.linspace(0.0, total, _GRID), extra]))


def _check_concave(points: FloatArray, values: FloatArray) -> None:
    if len(points) < 3:
        return
    left, right = np.diff(points)[:-1], np.diff(points)[1:]
    share = right / (left + right)
    chord = share * values[:-2] + (1.0 - share) * values[2:]
    convex = values[1:-1] < chord - _ROUNDING * np.abs(values).max()
    if convex.any():
        k = first_index(convex)[0] + 1
        raise ValueError(
            f"g is not concave at {points[k]:g}: g({points[k]:g}) = {values[k]:g} lies below the "
            f"line from g({points[k - 1]:g}) = {values[k - 1]:g} to "
            f"g({points[k + 1]:g}) = {values[k + 1]:g}"
        )


def _concave_graph(weights: FloatArray, ends: FloatArray, slopes: FloatArray) -> PairwiseGraph:
    r"""Return the graph of a concave piecewise-linear function of :math:`w^\top x`.

    With slopes :math:`s_1\ge\dots\ge s_J` on pieces that end at :math:`t_1<\dots<t_J`,
    :math:`g(v)=s_J v+\sum_{j<J}(s_j-s_{j+1})\min(v,t_j)`.
    """
    n = len(weights)
    if len(slopes) == 0:
        return PairwiseGraph.from_arcs(n)
    # rounding error of the slopes, of the lengths of the pieces and of their products
    parts = np.concatenate([slopes, np.diff(ends, prepend=0.0), slopes * ends])
    error = 4.0 * rounding(np.zeros(len(parts), dtype=np.int64), parts, 1)
    ends, slopes = _straighten(ends, slopes)
    bend = slopes[:-1] - slopes[1:]
    bends = np.flatnonzero(bend > 0)
    member = np.flatnonzero(weights)
    group = np.repeat(np.arange(len(bends)), len(member))
    return PairwiseGraph.from_truncations(
        n,
        thresholds=bend[bends] * ends[bends],
        group=group,
        member=np.tile(member, len(bends)),
        weight=np.outer(bend[bends], weights[member]).ravel(),
        side=np.ones(len(bends), dtype=np.int64),
        unary=slopes[-1] * weights,
        error=error,
    )


def _straighten(ends: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join pieces whose slopes differ only by rounding, since each bend costs an auxiliary node.

    A table such as ``np.minimum(np.arange(n + 1) / n, 0.5)`` has one true bend, but its computed
    slopes differ in the last digit at hundreds of places.
    """
    lengths = np.diff(ends, prepend=0.0)
    values = np.cumsum(slopes * lengths)
    noise = 8.0 * np.finfo(np.float64).eps * np.abs(values).max() / lengths
    true_bend = slopes[:-1] - slopes[1:] > noise[:-1] + noise[1:]
    knots = np.append(np.flatnonzero(true_bend), len(slopes) - 1)
    joined = np.diff(values[knots], prepend=0.0) / np.diff(ends[knots], prepend=0.0)
    # a piece that was not joined keeps its slope exactly
    alone = np.diff(knots, prepend=-1) == 1
    return ends[knots], np.where(alone, slopes[knots], joined)
