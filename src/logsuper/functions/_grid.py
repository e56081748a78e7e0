"""Cut functions on the pixel grids of images and volumes."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import (
    FloatArray,
    IntArray,
    as_array,
    as_list,
    as_vector,
    check_size,
    frozen,
    refuse_negative,
)
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._cut import Cut

# For 1, 2 and 3 axes: number of neighbours -> number of axes along which neighbours may differ.
_NEIGHBORS = {1: {2: 1}, 2: {4: 1, 8: 2}, 3: {6: 1, 18: 2, 26: 3}}

# Elements that a grid must stay below: the addressable number of float64 values. A grid stores its
# one weight only, so that memory does not limit its size at construction.
_MAX_PIXELS = 2**59


def grid_cuts(
    shape: Sequence[int],
    neighbors: int | None = None,
    spacing: Sequence[float] | None = None,
) -> tuple[Cut, ...]:
    """Return the unit-weight cuts of a grid, one cut per direction.

    Parameters
    ----------
    shape : sequence of one to three int
        Size of each axis of the image or volume; elements are numbered in row-major order.
    neighbors : int, optional
        4 (default) or 8 for images, 6 (default), 18 or 26 for volumes, 2 for a chain.
    spacing : sequence of float, optional
        Size of a pixel along each axis.  Edge weights are then one over the distance between the
        two pixel centres.  By default all weights are 1, including those of diagonal edges.

    Returns
    -------
    tuple of Cut
        First the cuts along the axes, starting with the last axis, then the diagonals: for an
        image horizontal, vertical, down-right and down-left.

    Examples
    --------
    >>> from logsuper.functions import grid_cuts
    >>> horizontal, vertical = grid_cuts((2, 3))
    >>> horizontal.edges.tolist()
    [[0, 1], [1, 2], [3, 4], [4, 5]]
    >>> len(grid_cuts((4, 4, 4), neighbors=26))
    13
    """
    given = as_list(shape, "shape", "a sequence of one to three integers, as in (4, 5)")
    sizes = tuple(check_size(size, f"shape[{axis}]") for axis, size in enumerate(given))
    axes = len(sizes)
    if axes not in _NEIGHBORS:
        raise ValueError(f"shape must have one to three axes, got {axes}")
    if 0 in sizes:
        raise ValueError(f"shape[{sizes.index(0)}] is 0; a grid needs at least one element")
    choices = _NEIGHBORS[axes]
    wanted = min(choices) if neighbors is None else neighbors
    reach = choices.get(wanted) if isinstance(wanted, int | np.integer) else None
    if reach is None:
        listed = ", ".join(map(str, choices))
        raise ValueError(f"neighbors must be one of {listed} for {axes} axes, got {neighbors!r}")
    if math.prod(sizes) >= _MAX_PIXELS:
        raise ValueError(f"shape = {sizes} has 2**59 elements or more, which cannot be addressed")
    step = None
    if spacing is not None:
        step = as_vector(spacing, "spacing", axes)
        if (step <= 0).any():
            raise ValueError(f"spacing[{int((step <= 0).argmax())}] must be positive")

    cuts = []
    for offset in _offsets(axes, reach):
        cuts.append(_GridCut(sizes, offset, 1.0 if step is None else _weight(step * offset)))
    return tuple(cuts)


def grid_shape(f: SubmodularFunction) -> tuple[int, ...]:
    """Return the shape of the grid that the cuts of a function were made for, else (n,)."""
    shapes = {atom.shape for _, atom in f.terms() if isinstance(atom, Cut) and atom.shape}
    return shapes.pop() if len(shapes) == 1 else (f.n,)


def _weight(step: FloatArray) -> float:
    """Return the weight of an edge: one over the distance between the two pixel centres."""
    distance = math.hypot(*step)  # avoids overflow and underflow of squares
    if not 1.0 / sys.float_info.max < distance < math.inf:
        raise ValueError(
            f"spacing puts neighbours {distance:g} apart, and the weight of an edge, one over "
            "this distance, is not a positive finite number; rescale spacing"
        )
    return 1.0 / distance


class _GridCut(Cut):
    """The cut of one direction of a grid, which uses slices instead of lists of indices."""

    shape: tuple[int, ...]
    offset: tuple[int, ...]

    def __init__(self, shape: tuple[int, ...], offset: tuple[int, ...], weight: float) -> None:
        self.n = math.prod(shape)
        self.shape = shape
        self.offset = offset
        self._first = tuple(
            slice(max(0, -o), size - max(0, o)) for o, size in zip(offset, shape, strict=True)
        )
        self._second = tuple(
            slice(max(0, o), size - max(0, -o)) for o, size in zip(offset, shape, strict=True)
        )
        count = math.prod(size - abs(o) for o, size in zip(offset, shape, strict=True))
        # a broadcast view, which takes one number of memory whatever the size of the grid
        self.weights = np.broadcast_to(np.float64(weight), count)

    @cached_property
    def edges(self) -> IntArray:  # type: ignore[override]
        """Pairs of elements (E, 2) with ``i < j``, computed on first use."""
        index = np.arange(self.n, dtype=np.int64).reshape(self.shape)
        ends = [index[self._first].ravel(), index[self._second].ravel()]
        return frozen(np.stack(ends, axis=1))

    def with_weights(self, weights: ArrayLike) -> Cut:
        """Return the cut with new weights; a single number is stored as one number."""
        given = as_array(weights, "weights")
        if given.ndim > 0:  # check the length first, which does not need the list of edges
            return super().with_weights(as_vector(given, "weights", len(self.weights)))
        [weight] = as_vector(weights, "weights", 1)
        refuse_negative(weight, "weights", "edges would be repulsive, which is not submodular")
        other = self._copy()
        other.weights = np.broadcast_to(weight, self.weights.shape)
        return other

    def _gather(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        grid = X.reshape(-1, *self.shape)
        first, second = grid[:, *self._first], grid[:, *self._second]
        size = (len(X), len(self.weights))
        return first.reshape(size), second.reshape(size)

    def _scatter(self, first: FloatArray, second: FloatArray) -> FloatArray:
        out = np.zeros((len(first), *self.shape))
        inner = out[:, *self._first]
        inner += first.reshape(inner.shape)
        inner = out[:, *self._second]
        inner += second.reshape(inner.shape)
        return out.reshape(len(first), self.n)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if not any(self.weights.strides):  # a pickle of the broadcast view would hold E copies
            count = len(self.weights)
            state["weights"] = (float(self.weights[0]) if count else 1.0, count)
        return state

    def __setstate__(self, state: Any) -> None:
        weights = state["weights"]
        if isinstance(weights, tuple):
            state = {**state, "weights": np.broadcast_to(np.float64(weights[0]), weights[1])}
        super().__setstate__(state)

    def __repr__(self) -> str:
        return f"Cut(n={self.n}, edges={len(self.weights)}, shape={self.shape})"


def _offsets(axes: int, reach: int) -> list[tuple[int, ...]]:
    """Return the offsets to those neighbours that have a larger row-major index."""
    steps = [
        step
        for step in product((-1, 0, 1), repeat=axes)
        if any(step) and next(s for s in step if s) > 0 and sum(map(abs, step)) <= reach
    ]
    # fewer changed axes first, then the last axes first, then down-right before down-left
    return sorted(
        steps, key=lambda step: (sum(map(abs, step)), [*map(abs, step)], [-s for s in step])
    )
