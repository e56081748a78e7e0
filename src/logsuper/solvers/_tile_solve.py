"""One tile: the labels that do not depend on what lies outside it, and a record of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import (
    Bits,
    BoolArray,
    Box,
    FloatArray,
    IntArray,
    Tile,
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
    place : ndarray of shape (P,), int64
        Index in the whole image.
    field : ndarray of shape (P,)
    weights : ndarray of shape (P, 2 K)
        Weights of the edges along and against each step.
    labels : ndarray of shape (P, 2 K), uint8
        Labels of the neighbours: 0, 1, `OPEN` or `ABSENT`.
    """

    place: IntArray
    field: FloatArray
    weights: FloatArray
    labels: Bits

    def some(self, rows: Any) -> OpenPixels:
        """Return some of the pixels."""
        return OpenPixels(self.place[rows], self.field[rows], self.weights[rows], self.labels[rows])

    @classmethod
    def join(cls, parts: Sequence[OpenPixels]) -> OpenPixels:
        """Return the pixels of several tiles."""
        return cls(
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.field for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )


class Solution(NamedTuple):
    """What is known after a tile has been solved.

    Attributes
    ----------
    labels : ndarray of the shape of the block, uint8
        0, 1 or `OPEN`.
    solved : int
        Number of pixels of the box that was solved.
    """

    labels: Bits
    solved: int

    def take_open(self, tie: str | None) -> BoolArray:
        """Return which pixels are open, and give them their label for the time being.

        This is the smallest possible one, or the largest if ties go to 1.
        """
        is_open: BoolArray = self.labels == OPEN
        self.labels[is_open] = tie == "max"
        return is_open


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


def prove_inside(
    field: FloatArray,
    weights: WeightParts,
    units: Units,
    tile: Tile,
    shape: Sequence[int],
    tie: str | None,
) -> tuple[Bits, bool]:
    """Return the labels of the box of a tile, and whether those of its block are proven.

    Otherwise labels that depend on what lies outside are `OPEN`.

    The box is solved once, with all that lies outside set to 0, which bounds the labels of the
    whole image from below. Narrow strips along the sides of the block, with all around them set to
    1, bound them from above. If both agree on a closed loop around the block, then the labels on
    the loop are those of the whole image, hence so are the labels inside it, which depend on
    nothing else. This takes little more than one solve. If they differ, or for volumes and edges
    with weights of their own, the box is solved a second time, with all outside set to 1.

    The outermost pixels of `field` are overwritten.
    """
    native = kernels() is not None and units.tier in ("narrow", "wide")
    if not native or field.ndim != 2 or weights.commons is None:
        ring = np.flatnonzero(on_frame(tile.outer, shape))
        return solve_box(field, weights, units, ring, tie), False
    outer, inner = tile.outer, tile.inner
    margin = [
        (i.start if o.start else 0, o.stop - o.start - i.stop if o.stop < n else 0)
        for i, o, n in zip(inner, outer, shape, strict=True)
    ]
    _set_frame(field, margin, -np.inf)
    labels = _solve_once(field, weights.steps, weights.commons, units, tie)
    sides = [(axis, end) for axis in (0, 1) for end in (0, 1) if margin[axis][end]]
    if all(
        margin[axis][end] >= _QUICK
        and _loop_holds(field, labels, weights, units, tie, inner, margin, axis, end)
        for axis, end in sides
    ):
        return labels, True
    _set_frame(field, margin, np.inf)
    other = _solve_once(field, weights.steps, weights.commons, units, tie)
    labels[labels != other] = OPEN
    return labels, False


# Smallest margin for which strips are tried.
_QUICK = 3
_Margin = list[tuple[int, int]]


def _loop_holds(
    field: FloatArray,
    labels: Bits,
    weights: WeightParts,
    units: Units,
    tie: str | None,
    inner: Box,
    margin: _Margin,
    axis: int,
    end: int,
) -> bool:
    """Return whether the labels of one side of the loop around a block are proven."""
    across, along = inner[axis], inner[1 - axis]
    line = across.stop if end else across.start - 1
    reach = margin[axis][end] - 1
    thick = slice(max(0, line - reach), min(field.shape[axis], line + reach + 1))
    # the line ends at the loop's corners, or at the border of the image
    before, after = margin[1 - axis]
    first = along.start - 1 if before else 0
    last = along.stop + 1 if after else field.shape[1 - axis]
    long = slice(
        max(0, first - reach) if before else 0,
        min(field.shape[1 - axis], last + reach) if after else field.shape[1 - axis],
    )
    upright, row_labels = (field, labels) if axis == 0 else (field.T, labels.T)
    strip = np.array(upright[thick, long], order="C")
    whole = upright.shape
    sides = [
        (
            int(thick.start > 0 or margin[axis][0] > 0),
            int(thick.stop < whole[0] or margin[axis][1] > 0),
        ),
        (int(before > 0), int(after > 0)),
    ]
    _set_frame(strip, sides, np.inf)
    commons = weights.commons
    assert commons is not None
    # diagonals are the same after a transposition
    turned = commons if axis == 0 else (commons[1], commons[0], *commons[2:])
    found = _solve_once(strip, weights.steps, turned, units, tie)
    part = slice(first - long.start, last - long.start)
    return bool((found[line - thick.start, part] == row_labels[line, first:last]).all())


def _set_frame(field: FloatArray, sides: _Margin, value: float) -> None:
    """Set the outermost pixels of a field on the sides whose number is positive."""
    (top, bottom), (left, right) = sides
    if top:
        field[0] = value
    if bottom:
        field[-1] = value
    if left:
        field[:, 0] = value
    if right:
        field[:, -1] = value


def _solve_once(
    field: FloatArray,
    steps: tuple[tuple[int, ...], ...],
    commons: tuple[float, ...],
    units: Units,
    tie: str | None,
) -> Bits:
    """Return the labels of a box by itself, in the integers of the whole image."""
    y = np.empty(field.size, dtype=np.uint8)
    kernel = tile_kernel(field.shape, steps, commons)
    kernel.tile(field.ravel(), None, _NONE, units.degree, tie == "max", units.tier == "wide", y)
    return y.reshape(field.shape)


_NONE = np.empty(0, dtype=np.int64)


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
        return self._solve()[0]

    def run_and_record(self) -> tuple[Solution, OpenPixels | None]:
        """Solve the tile, and return what is needed to find the labels of its open pixels."""
        found, field, labels = self._solve()
        where = np.nonzero(found.labels == OPEN)
        if not len(where[0]):
            return found, None
        tile = self.tile
        here = [p + side.start for p, side in zip(where, tile.inner, strict=True)]
        labels[on_frame(tile.outer, self.shape)] = OPEN  # whatever it was set to
        return found, record(field, self.weights, labels, here, tile.outer, self.shape)

    def _solve(self) -> tuple[Solution, FloatArray, Bits]:
        """Return the solution of the block, and the field and the labels of the outer box."""
        tile = self.tile
        field = box_field(self.field, copy=True)
        labels, _ = prove_inside(field, self.weights, self.units, tile, self.shape, self.tie)
        return Solution(labels[tile.inner].copy(), field.size), field, labels


def solve_again(
    grid: TileGrid,
    theta: Any,
    units: Units,
    tie: str | None,
    box: Box,
    labels: Bits,
    is_open: BoolArray,
) -> tuple[BoolArray, Bits]:
    """Return which open pixels of a box are proven once the proven ones are fixed, and all labels.

    Parameters
    ----------
    grid, theta, units, tie
        The whole problem.
    box : Box
    labels : ndarray of the shape of the box, uint8
        Those of open pixels are not used.
    is_open : ndarray of the shape of the box, bool
    """
    field = box_field(grid.field_parts(theta, box), copy=True)
    np.copyto(field, np.inf, where=~is_open & (labels == 1))
    np.copyto(field, -np.inf, where=~is_open & (labels != 1))
    frame = on_frame(box, grid.shape)
    found = solve_box(field, grid.parts(box), units, np.flatnonzero(frame & is_open), tie)
    return is_open & (found != OPEN) & ~frame, found


def record(
    field: FloatArray,
    weights: WeightParts,
    labels: Bits,
    here: Sequence[IntArray],
    box: Box,
    shape: Sequence[int],
) -> OpenPixels:
    """Return open pixels of a box, of which the fields and labels are given.

    Parameters
    ----------
    field : ndarray of the shape of the box
    weights : WeightParts
    labels : ndarray of the shape of the box, uint8
        0, 1 or `OPEN`.
    here : sequence of ndarray
        Where in the box the pixels are.
    box : Box
    shape : sequence of int
        Shape of the image.
    """
    return OpenPixels(
        flat_index(here, box, shape),
        field[tuple(here)],
        weights.at(field.shape, here),
        neighbours(labels, here, weights.steps),
    )


def neighbours(labels: Bits, places: Sequence[IntArray], steps: Sequence[tuple[int, ...]]) -> Bits:
    """Return the labels (P, 2 K) of the neighbours of pixels, along and against each step.

    They are `ABSENT` outside the box, hence outside the image: the box has all neighbours.
    """
    found = np.empty((len(places[0]), 2 * len(steps)), dtype=np.uint8)
    for k, step in enumerate(steps):
        for back in (0, 1):
            sign = -1 if back else 1
            there = [p + sign * s for p, s in zip(places, step, strict=True)]
            inside = np.ones(len(places[0]), dtype=bool)
            for t, size in zip(there, labels.shape, strict=True):
                inside &= (t >= 0) & (t < size)
            found[:, 2 * k + back] = ABSENT
            found[inside, 2 * k + back] = labels[tuple(t[inside] for t in there)]
    return found
