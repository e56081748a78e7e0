"""Open pixels solved again in a larger box."""

from __future__ import annotations

from typing import Any

import numpy as np

from logsuper._base import Bits, Box, IntArray, extent, on_frame
from logsuper.solvers._tile_grid import TileGrid, Units, box_field
from logsuper.solvers._tile_solve import OPEN, solve_box


def widen(
    grid: TileGrid,
    theta: Any,
    units: Units,
    tie: str | None,
    box: Box,
    labels: Bits,
    index: IntArray,
) -> tuple[IntArray, Bits]:
    """Return the open pixels in a box that are proven now, and their labels.

    Parameters
    ----------
    grid, theta, units, tie
        The whole problem.
    box : Box
    labels : ndarray of the shape of the box, uint8
        Proven labels; those of open pixels are not used.
    index : ndarray of int64
        All open pixels of the image, sorted.
    """
    flat = np.zeros(extent(box), dtype=np.int64)
    for axis, (side, size) in enumerate(zip(box, grid.shape, strict=True)):
        sides = [1] * len(box)
        sides[axis] = -1
        flat = flat * size + np.arange(side.start, side.stop).reshape(sides)
    place = np.searchsorted(index, flat)
    is_open = np.append(index, -1)[place] == flat
    field = box_field(grid.field_parts(theta, box))
    field = np.where(is_open, field, np.where(labels == 1, np.inf, -np.inf))
    ring = np.flatnonzero(on_frame(box, grid.shape) & is_open)
    found = solve_box(field, grid.parts(box), units, ring, tie)
    proven = is_open & (found != OPEN) & ~on_frame(box, grid.shape)
    return flat[proven], found[proven]
