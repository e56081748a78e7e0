"""Log-odds in windows of a grid, by transfer matrices over all rows of some columns.

What the columns outside a window do to it is replaced by a field on its border columns. In a
log-supermodular model the probability of a 1 can only rise when a field rises (Holley 1974), so a
lower and an upper bound on those fields bracket every log-odds inside. All bounds are widened by
what rounding can do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logsuper._base import EPS, FloatArray, IntArray
from logsuper.bounds import _windows_numpy
from logsuper.bounds._errors import TooLarge
from logsuper.bounds._needs import magnitude
from logsuper.solvers import kernels
from logsuper.structures import Image

Pair = tuple[FloatArray, FloatArray]
"""A lower and an upper bound."""

WIDEST = 24
"""Columns of the widest window: a profile of 24 columns takes 128 megabytes."""
MEMORY = 2.0**30
"""Bytes that profiles may take."""
_HALF_ULP = 2.0**-53


def size_of(profiles: float, columns: int) -> float:
    """Return the bytes of some profiles of so many columns."""
    return profiles * 8.0 * 2.0 ** min(columns, 1000)


def refuse_too_large(method: str, columns: int, profiles: float, operations: float) -> None:
    """Raise when profiles of so many columns cannot be held."""
    need = size_of(profiles, columns)
    if columns > WIDEST or need > MEMORY:
        raise TooLarge(
            f"{method} over {columns} columns would take {need / 2**30:.3g} GiB and "
            f"{operations:.3g} operations",
            operations,
        )


def outside_fields(grid: Image, window: int, threads: int) -> Pair:
    r"""Bound the field with which column c and those beyond it act on the pixels of column c - 1.

    Integrating the columns from c on out leaves a supermodular function of column c - 1. The log of
    the factor by which pixel (r, c - 1) is likelier to be 1 is largest when all others of its
    column are 1, and depends on the outside only through the log-odds q of its neighbour (r, c)
    without it: :math:`\log\frac{e^{q}+e^{-a}}{e^{q-a}+1}`, with a the weight of the edge between
    them. A window of columns from c on bounds q, with the bound on the fields from beyond it; the
    columns are visited from the right edge.

    Returns
    -------
    low, high : ndarray of shape (rows, columns)
        Column 0 is 0; both lie within the weight of the edge.
    """
    native = kernels()
    if native is None:
        return _windows_numpy.outside_fields(grid, window)
    low, high = np.zeros(grid.shape), np.zeros(grid.shape)
    native.strip_fields(grid.t, grid.across, grid.down, window, threads, low, high)
    return low, high


def edge_fields(grid: Image) -> Pair:
    """Return the crudest bounds on the same fields: column c all 0, and all 1."""
    high = np.zeros(grid.shape)
    high[:, 1:] = grid.across
    return -high, high


def chain_odds(
    grid: Image,
    window: int,
    reference: NDArray[np.uint8],
    fields: Pair,
    threads: int,
) -> Pair:
    """Bound the log-odds of each pixel, given the reference at all pixels before it.

    Before it are the columns to the left and the pixels above in its own column.
    """
    native = kernels()
    if native is None:
        return _windows_numpy.chain_odds(grid, window, reference, fields)
    low, high = np.empty(grid.shape), np.empty(grid.shape)
    parts = (grid.t, grid.across, grid.down)
    native.strip_chain(*parts, window, reference, *fields, threads, low, high)
    return low, high


def chain_gradient(
    grid: Image, window: int, reference: NDArray[np.uint8], threads: int, upper: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Differentiate :math:`-\sum_d\log p(\hat x_d\mid\hat x_{<d})` in t, across and down.

    Each probability is the upper one of its window with `edge_fields`: the reference likes best the
    border that has its own value. With `upper`, for an upper bound on log Z, it is the lower one.
    """
    native = kernels()
    if native is None:
        return _windows_numpy.chain_gradient(grid, window, reference, upper)
    parts = (grid.t, grid.across, grid.down)
    dt, dacross, ddown = (np.zeros_like(part) for part in parts)
    native.strip_gradient(*parts, window, reference, threads, dt, dacross, ddown, upper)
    return dt, dacross, ddown


def window_odds(
    grid: Image, window: int, starts: IntArray, left: Pair, right: Pair, threads: int
) -> Pair:
    """Bound the log-odds of all pixels of the windows that begin at `starts`.

    ``left[b][:, c]`` acts on column c from before it, ``right[b][:, c]`` on column c - 1 from c on.

    Returns
    -------
    low, high : ndarray of shape (windows, rows, window)
    """
    native = kernels()
    if native is None:
        return _windows_numpy.window_odds(grid, window, starts, left, right)
    shape = (len(starts), grid.shape[0], window)
    low, high = np.empty(shape), np.empty(shape)
    parts, fields = (grid.t, grid.across, grid.down), (*left, *right)
    native.strip_windows(*parts, window, starts, *fields, threads, low, high)
    return low, high


def transfer(grid: Image, odds: bool) -> tuple[float, FloatArray | None]:
    """Return log Z of the whole grid and, if wanted, the log-odds (rows, columns) of its pixels."""
    native = kernels()
    if native is None:
        return _windows_numpy.transfer(grid, odds)
    out = np.empty(grid.shape) if odds else None
    return float(native.strip_transfer(grid.t, grid.across, grid.down, out)), out


def transfer_error(grid: Image) -> float:
    """Return what rounding may do to the log Z of `transfer`, and to each of its log-odds.

    A site adds some twelve numbers no larger than twice the spread of a row to each logarithm, and
    the last sum has a term for every profile.
    """
    (h, w), spread = grid.shape, np.abs(grid.t).sum(axis=1)
    spread = spread + grid.across.sum(axis=1)
    spread[1:] += grid.down.sum(axis=1)
    widest = float(spread.max())
    columns = max(4, w)  # the kernels pad
    sites = h * columns * (12.0 + 16.0 * widest * (widest > 300.0 or kernels() is None))
    return _HALF_ULP * (sites + 2.0**columns + 4.0 * widest + 8.0) + 4.0 * EPS * magnitude(grid)
