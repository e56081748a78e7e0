"""The choice of integers for a whole image, made from its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from logsuper._base import Box, FloatArray, IntArray
from logsuper.solvers._native import kernels
from logsuper.solvers._tile_grid import TileGrid, Units, WeightParts, box_field

Map = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterable[Any]]
"""``map(function, tuples of arguments)``: the results, in order."""

NO_EDGES = Units("narrow", 0.0, 1.0)
"""For images without edges, whose labels are the signs of the fields."""
_EDGES = 32  # the allowance for edges at one node of the kernels (cuts.hpp)


def choose_units(
    grid: TileGrid, theta: Any, boxes: Iterable[Box], tie: str | None, over: Map
) -> Units:
    """Return the integers that a whole solve would use; reads all fields once, by boxes.

    A whole solve tries 32-bit integers (unless a tie rule asks for the highest precision), 64-bit
    ones, 64-bit ones that are as fine as the total flow allows, and at last no rounding; the first
    that are fine enough for three in four fields are used.
    """
    boxes = list(boxes)
    if kernels() is None:
        for box in boxes:
            refuse_nan(box_field(grid.field_parts(theta, box)), [side.start for side in box])
        return Units("exact", 0.0, 0.0)
    degree, smallest = weight_bounds(grid, boxes, over)
    if degree == 0:
        return NO_EDGES
    parts = [(grid.field_parts(theta, box), [side.start for side in box]) for box in boxes]
    tries = possible_units(degree, smallest, tie)
    for units, bound in tries:
        if is_enough(_sum(over(count_fields, ((*part, units, bound) for part in parts)))):
            return units
    capped = _capped(grid, parts, degree, tries[-1][0].scale, over)
    return Units("exact", 0.0, 0.0) if capped is None else capped


def possible_units(degree: float, smallest: float, tie: str | None) -> list[tuple[Units, float]]:
    """Return the integers that depend on the weights alone, and their bounds on fields."""
    native = kernels()
    assert native is not None
    tries = []
    for wide in (False, True):
        if wide or (tie is None and native.narrow_is_enough(degree, smallest)):
            scale, bound = native.quantiser(degree, wide, math.inf, _EDGES)
            tries.append((Units("wide" if wide else "narrow", degree, scale), bound))
    return tries


def count_fields(parts: tuple[Any, Any], corner: list[int], units: Units, bound: float) -> IntArray:
    """Return how many fields of a box there are, how many are too small, how many become 0."""
    native = kernels()
    assert native is not None
    field = box_field(parts)
    counts = np.zeros(3, dtype=np.int64)
    try:
        native.measure_field(field.ravel(), units.scale, bound, units.tier != "narrow", counts)
    except ValueError:
        refuse_nan(field, corner)
        raise
    return counts


def refuse_nan(field: FloatArray, corner: list[int]) -> None:
    """Raise a ValueError that names the first NaN of a box."""
    places = np.argwhere(np.isnan(field))
    if len(places):
        place = ", ".join(map(str, (places[0] + corner).tolist()))
        raise ValueError(f"theta[{place}] is NaN; use 0 for no information")


def _sum(parts: Iterable[Any]) -> Any:
    """Return the sum of arrays."""
    return sum(parts, np.zeros(1, dtype=np.int64))


def is_enough(count: IntArray) -> bool:
    """Return whether integers are fine enough, given the counts of a whole image."""
    seen, coarse, lost = count
    return bool(4 * coarse <= seen and not lost)


def weight_bounds(grid: TileGrid, boxes: list[Box], over: Map) -> tuple[float, float]:
    """Return the bound on the sum of the weights at a pixel, and the smallest positive weight."""
    if grid.uniform:
        return bounds_of([np.array([(w, w if w > 0 else math.inf) for w in grid.commons()])])
    return bounds_of(list(over(weight_range, (edges_of(grid, box) for box in boxes))))


def bounds_of(ranges: Iterable[FloatArray]) -> tuple[float, float]:
    """Return the bounds of `weight_bounds`, given the ranges of the weights in all boxes."""
    found = np.array(list(ranges))
    largest, smallest = found[..., 0].max(axis=0), found[..., 1].min(axis=0)
    degree = 0.0
    for each in largest:
        degree += 2.0 * float(each)
    if not degree <= np.finfo(np.float64).max / 4:
        raise ValueError("alpha times the weights of the edges is too large: it overflows")
    return degree, float(smallest.min())


def edges_of(grid: TileGrid, box: Box) -> tuple[WeightParts, tuple[int, ...]]:
    """Return the weights of all edges whose smaller end is in a box; they may leave the box."""
    reach = tuple(
        slice(side.start, min(side.stop + 1, size))
        for side, size in zip(box, grid.shape, strict=True)
    )
    return grid.parts(reach), tuple(side.stop - side.start for side in reach)


def weight_range(weights: WeightParts, shape: tuple[int, ...]) -> FloatArray:
    """Return the largest and the smallest positive weight (K, 2) of each step."""
    found = np.empty((len(weights.steps), 2))
    for k in range(len(weights.steps)):
        own = weights.of(k, shape)
        positive = own[own > 0]
        found[k] = own.max(initial=0.0), positive.min(initial=math.inf)
    return found


def _capped(
    grid: TileGrid, parts: list[Any], degree: float, wide_scale: float, over: Map
) -> Units | None:
    """Return integers as fine as the total flow allows (``tiers.hpp``), or None."""
    native = kernels()
    assert native is not None
    sums = _sum(over(clipped_sums, ((part, degree) for part, _ in parts)))
    cap = float(sums.min()) or float(sums.max())
    flow = float(np.max(_sum(over(clipped_sums, ((part, cap) for part, _ in parts)))))
    scale, bound = native.quantiser(flow, True, cap, max(_EDGES, grid.size))
    if scale <= wide_scale:
        return None
    units = Units("capped", degree, scale)
    count = _sum(over(count_fields, ((*part, units, bound) for part in parts)))
    return units if is_enough(count) else None


def clipped_sums(parts: tuple[Any, Any], most: float) -> FloatArray:
    """Return the sums of the positive and of the negative fields, each at most `most`."""
    field = box_field(parts)
    return np.array([np.clip(field, 0.0, most).sum(), np.clip(-field, 0.0, most).sum()])
