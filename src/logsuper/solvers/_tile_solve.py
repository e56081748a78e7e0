"""One tile: the labels that do not depend on what lies outside it, and a record of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import (
    Bits,
    Box,
    FloatArray,
    IntArray,
    Tile,
    extent,
    flat_index,
    on_frame,
)
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._native import kernels
from logsuper.solvers._tile_grid import TileGrid, Units, WeightParts, box_field, tile_kernel

OPEN = 2
"""In arrays of labels: not the same for all that may lie outside."""
ABSENT = 3
"""In arrays of neighbours: outside the image."""


class OpenPixels(NamedTuple):
    """Pixels of a tile whose labels are not proven, with all that is needed to find them.

    Attributes
    ----------
    index : ndarray of shape (P,), int64
        Index in the whole image.
    field : ndarray of shape (P,)
    weights : ndarray of shape (P, 2 K)
        Weights of the edges along and against each step.
    labels : ndarray of shape (P, 2 K), uint8
        Labels of the neighbours: 0, 1, `OPEN` or `ABSENT`.
    """

    index: IntArray
    field: FloatArray
    weights: FloatArray
    labels: Bits


class Solution(NamedTuple):
    """What is known after a tile has been solved.

    Attributes
    ----------
    labels : ndarray of the shape of the block, uint8
        0 or 1. Unproven pixels have their smallest possible label, or the largest if ties go to 1.
    pixels : OpenPixels or None
    solved : int
        Number of pixels of the box that was solved.
    """

    labels: Bits
    pixels: OpenPixels | None
    solved: int


def solve_box(
    field: FloatArray, weights: WeightParts, units: Units, ring: IntArray, tie: str | None
) -> Bits:
    """Return the labels of a box: 0, 1, or `OPEN` where they depend on the pixels in `ring`.

    The box is solved with the pixels in `ring` (flat indices) set to 0, then to 1. The smallest
    (and the largest) maximiser is a monotone function of the values outside, hence labels on
    which both solutions agree are the same for all values.
    """
    shape = field.shape
    y = np.empty(field.size, dtype=np.uint8)
    if kernels() is not None and units.tier in ("narrow", "wide"):
        kernel = tile_kernel(shape, weights.steps, weights.commons)
        wide = units.tier == "wide"
        factors = weights.factors(shape)
        kernel.tile(field.ravel(), factors, ring, units.degree, tie == "max", wide, y)
        return y.reshape(shape)
    edges, costs = _listed(shape, weights)
    both = np.stack([field.ravel()] * (2 if len(ring) else 1))
    # pixels without edges are not rounded: their label is the sign of their field
    joined = np.zeros(field.size, dtype=bool)
    costs = units.rounded(costs)
    joined[edges[costs > 0]] = True
    both = np.where(joined, units.rounded(both), both)
    for row, outside in zip(both, (-np.inf, np.inf), strict=False):
        row[ring] = outside
    labels = solve_pairwise(field.size, edges, costs, both, tie or "min")
    y[:] = np.where(labels[0] == labels[-1], labels[0], OPEN)
    return y.reshape(shape)


def _listed(shape: Sequence[int], weights: WeightParts) -> tuple[IntArray, FloatArray]:
    """Return the edges (E, 2) of a box and their weights."""
    index = np.arange(np.prod(shape), dtype=np.int64).reshape(tuple(shape))
    pairs, costs = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for k, step in enumerate(weights.steps):
        first = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, shape, strict=True))
        second = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, shape, strict=True))
        if any(abs(s) >= n for s, n in zip(step, shape, strict=True) if s):
            continue
        pairs.append(np.stack([index[first].ravel(), index[second].ravel()], axis=1))
        costs.append(weights.of(k, shape).ravel())
    return np.concatenate(pairs), np.concatenate(costs)


class Task(NamedTuple):
    """All that is needed to solve one tile, in this process or in another one."""

    shape: tuple[int, ...]
    tile: Tile
    field: tuple[Any, Any]
    weights: WeightParts
    units: Units
    tie: str | None

    @classmethod
    def of(cls, grid: TileGrid, theta: Any, tile: Tile, units: Units, tie: str | None) -> Task:
        """Return the task of a tile of a grid."""
        parts = grid.field_parts(theta, tile.outer)
        return cls(grid.shape, tile, parts, grid.parts(tile.outer), units, tie)

    def run(self) -> Solution:
        """Solve the tile."""
        tile, shape = self.tile, extent(self.tile.outer)
        field = box_field(self.field)
        ring = np.flatnonzero(on_frame(tile.outer, self.shape))
        labels = solve_box(field, self.weights, self.units, ring, self.tie)
        core = labels[tile.inner].copy()
        places = np.nonzero(core == OPEN)
        if not len(places[0]):
            return Solution(core, None, field.size)
        core[places] = self.tie == "max"
        here = [p + side.start for p, side in zip(places, tile.inner, strict=True)]
        found = OpenPixels(
            flat_index(here, tile.outer, self.shape),
            field[tuple(here)],
            self.weights.at(shape, here),
            neighbours(labels, here, self.weights.steps, tile.outer, self.shape),
        )
        return Solution(core, found, field.size)


def run(task: Task) -> Solution:
    """Solve the tile of a task; a function, so that other processes find it by its name."""
    return task.run()


def neighbours(
    labels: Bits,
    places: Sequence[IntArray],
    steps: Sequence[tuple[int, ...]],
    box: Box,
    shape: Sequence[int],
) -> Bits:
    """Return the labels (P, 2 K) of the neighbours of pixels, along and against each step.

    They are `OPEN` where a box does not tell, and `ABSENT` outside the image. Pixels on the frame
    of a box are open, whatever their label there is.
    """
    known = np.where(on_frame(box, shape), OPEN, labels)
    found = np.empty((len(places[0]), 2 * len(steps)), dtype=np.uint8)
    for k, step in enumerate(steps):
        for back in (0, 1):
            sign = -1 if back else 1
            there = [p + sign * s for p, s in zip(places, step, strict=True)]
            inside = np.ones(len(places[0]), dtype=bool)
            for t, size in zip(there, labels.shape, strict=True):
                inside &= (t >= 0) & (t < size)
            found[:, 2 * k + back] = ABSENT
            found[inside, 2 * k + back] = known[tuple(t[inside] for t in there)]
    return found
