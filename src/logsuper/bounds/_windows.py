"""Log-odds in windows of image grids, by transfer matrices over all rows of some columns.

The columns outside a window are replaced by a field on its border columns. In a log-supermodular
model the probability of a 1 is non-decreasing in every field (Holley 1974), so that a lower and an
upper bound on these fields bracket every log-odds inside the window. All bounds include a margin
for rounding.

All functions take one `Image`, or a `Stack` of images of one shape, which is one call of the
kernel; their arrays then have a leading axis with one entry per image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from logsuper._base import EPS, Bits, FloatArray, IntArray
from logsuper.bounds import _windows_numpy
from logsuper.bounds._needs import TooLarge, magnitude
from logsuper.solvers import kernels
from logsuper.structures import Image

Pair = tuple[FloatArray, FloatArray]
"""A lower and an upper bound."""

WIDEST = 24
"""Columns of the widest window; one profile of 24 columns takes 128 megabytes."""
MEMORY = 2.0**30
"""Maximum size of all profiles, in bytes."""
_HALF_ULP = 2.0**-53

_Arrays = TypeVar("_Arrays", bound=tuple[FloatArray, ...])


class Stack(NamedTuple):
    r"""Functions :math:`\sum_ew_e|x_i-x_j|-t^\top x` on M images of one shape.

    Attributes
    ----------
    t : ndarray of shape (M, rows, columns)
    across : ndarray of shape (M, rows, columns - 1)
        Weights >= 0 between horizontal neighbours; the first axis has length 1 if they are common.
    down : ndarray of shape (M, rows - 1, columns)
        Weights >= 0 between vertical neighbours, or one array for all images.
    """

    t: FloatArray
    across: FloatArray
    down: FloatArray

    @classmethod
    def of(cls, grid: Image) -> Stack:
        """Return an image as a stack of one."""
        return cls(grid.t[None], grid.across[None], grid.down[None])

    @classmethod
    def lay(
        cls, shape: tuple[int, int], edges: IntArray, weights: FloatArray, fields: FloatArray
    ) -> Stack:
        """Return the functions with weights (M or 1, E) on distinct edges and fields (M, n)."""
        planes = np.zeros((len(weights), 2, fields.shape[1]))
        planes[:, is_down(edges, shape).astype(np.int64), edges[:, 0]] = weights
        across, below = planes.reshape(-1, 2, *shape).swapaxes(0, 1)
        return cls(
            fields.reshape(-1, *shape),
            np.ascontiguousarray(across[:, :, :-1]),
            np.ascontiguousarray(below[:, :-1]),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.t.shape[1], self.t.shape[2]

    def some(self, rows: NDArray[Any]) -> Stack:
        """Return some of the images."""
        return Stack(*(part if len(part) == 1 else part[rows] for part in self))

    def largest(self) -> FloatArray:
        """Return the largest weight or absolute value of a field of each image."""
        most = [np.abs(part).reshape(len(part), -1).max(axis=1, initial=0.0) for part in self]
        return np.asarray(np.maximum(np.maximum(most[0], most[1]), most[2]))

    def transposed(self) -> Stack:
        """Return the same functions with rows and columns exchanged."""
        parts = (self.t, self.down, self.across)
        return Stack(*(np.ascontiguousarray(part.swapaxes(1, 2)) for part in parts))

    def images(self) -> list[Image]:
        """Return the images one by one."""
        everywhere = np.arange(self.t[0].size)
        return [
            Image(
                self.shape,
                t,
                self.across[m % len(self.across)],
                self.down[m % len(self.down)],
                everywhere,
            )
            for m, t in enumerate(self.t)
        ]


def is_down(edges: IntArray, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return whether each edge (first, second) of an image joins vertical neighbours."""
    return np.diff(edges)[:, 0] == shape[1] if shape[1] > 1 else np.ones(len(edges), dtype=bool)


def size_of(profiles: float, columns: int) -> float:
    """Return the size in bytes of some profiles of so many columns."""
    return profiles * 8.0 * 2.0 ** min(columns, 1000)


def refuse_too_large(method: str, columns: int, profiles: float, operations: float) -> None:
    """Raise if the profiles do not fit in memory."""
    need = size_of(profiles, columns)
    if columns > WIDEST or need > MEMORY:
        raise TooLarge(
            f"{method} over {columns} columns would take {need / 2**30:.3g} GiB and "
            f"{operations:.3g} operations",
            operations,
        )


def _one_by_one(stack: Stack, find: Callable[..., _Arrays], *arrays: Any) -> _Arrays:
    """Call a function of an image and of arrays that belong to it for each image of a stack."""
    found = [find(image, *rest) for image, *rest in zip(stack.images(), *arrays, strict=True)]
    return tuple(map(np.stack, zip(*found, strict=True)))  # type: ignore[return-value]


def outside_fields(stack: Stack, window: int, threads: int) -> Pair:
    r"""Bound the field with which column c and those beyond it act on the pixels of column c - 1.

    Integrating out the columns from c on leaves a supermodular function of column c - 1. The log of
    the factor by which pixel (r, c - 1) becomes likelier to be 1 is largest if all others of its
    column are 1, and depends on the outside only through the log-odds q of its neighbour (r, c)
    without it: :math:`\log\frac{e^{q}+e^{-a}}{e^{q-a}+1}`, a being the weight of the edge between
    them. A window of columns from c on bounds q, with the bounds on the fields from beyond it; the
    columns are visited from the right edge.

    Returns
    -------
    low, high : ndarray of shape (..., rows, columns)
        Column 0 is 0; all other entries are at most the weight of the edge in absolute value.
    """
    native = kernels()
    if native is None:
        return _one_by_one(stack, lambda one: _windows_numpy.outside_fields(one, window))
    low, high = np.zeros((2, *stack.t.shape))
    native.strip_fields(*stack, window, threads, low, high)
    return low, high


def edge_fields(stack: Stack) -> Pair:
    """Return the widest bounds on the same fields: those of a column c of all 0, and of all 1."""
    high = np.zeros(stack.t.shape)
    high[..., 1:] = stack.across
    return -high, high


def chain_odds(stack: Stack, window: int, reference: Bits, fields: Pair, threads: int) -> Pair:
    """Bound the log-odds of each pixel, given the reference at all pixels before it.

    These are the pixels of the columns to its left and those above it in its own column.
    """
    native = kernels()
    if native is None:

        def find(one: Image, x: Bits, low: FloatArray, high: FloatArray) -> Pair:
            return _windows_numpy.chain_odds(one, window, x, (low, high))

        return _one_by_one(stack, find, reference, *fields)
    low, high = np.zeros((2, *stack.t.shape))
    native.strip_chain(*stack, window, reference, *fields, threads, low, high)
    return low, high


def chain_gradient(
    stack: Stack, window: int, reference: Bits, threads: int, upper: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Differentiate :math:`-\sum_d\log p(\hat x_d\mid\hat x_{<d})` in t, across and down.

    Each probability is the upper bound of its window with `edge_fields`: the reference is likeliest
    if the border has the pixel's own value. With `upper`, for an upper bound on log Z, it is the
    lower bound.
    """
    native = kernels()
    if native is None:

        def find(one: Image, x: Bits) -> tuple[FloatArray, FloatArray, FloatArray]:
            return _windows_numpy.chain_gradient(one, window, x, upper)

        return _one_by_one(stack, find, reference)
    dt, dacross, ddown = (np.zeros((len(stack.t), *part.shape[1:])) for part in stack)
    native.strip_gradient(*stack, window, reference, threads, dt, dacross, ddown, upper)
    return dt, dacross, ddown


def marginal_odds(stack: Stack, window: int, reach: int, step: int, threads: int) -> Pair:
    """Bound the log-odds of all pixels, by the best of overlapping windows.

    Parameters
    ----------
    stack : Stack
    window : int
        Columns per window, at most those of the grid.
    reach : int
        Columns of the windows that bound the fields from outside.
    step : int
        Distance between the first columns of consecutive windows, at most `window`.
    threads : int
        Over images, or over windows if there are more threads than images.
    """
    native = kernels()
    if native is None:
        return _one_by_one(
            stack, lambda one: _windows_numpy.marginal_odds(one, window, reach, step)
        )
    low, high = np.zeros((2, *stack.t.shape))
    native.strip_marginals(*stack, window, reach, step, threads, low, high)
    return low, high


def transfer(grid: Image, odds: bool) -> tuple[float, FloatArray | None]:
    """Return log Z of the whole grid and, if wanted, the log-odds (rows, columns) of its pixels."""
    native = kernels()
    if native is None:
        return _windows_numpy.transfer(grid, odds)
    out = np.empty((1, *grid.shape)) if odds else None
    log_z = float(native.strip_transfer(*Stack.of(grid), out))
    return log_z, None if out is None else out[0]


def transfer_error(grid: Image) -> float:
    """Return a bound on the rounding error of the log Z and of the log-odds of `transfer`.

    See `rounding` in src/kernels/strips_windows.hpp.
    """
    (h, w), spread = grid.shape, np.abs(grid.t).sum(axis=1)
    spread = spread + grid.across.sum(axis=1)
    spread[1:] += grid.down.sum(axis=1)
    widest = float(spread.max())
    columns = max(4, w)  # narrower grids are padded
    sites = h * columns * (16.0 + 16.0 * widest * (widest > 300.0 or kernels() is None))
    return _HALF_ULP * (sites + 2.0**columns + 4.0 * widest + 8.0) + 4.0 * EPS * magnitude(grid)
