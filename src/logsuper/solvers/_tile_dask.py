"""Labels of a dask array by tiles, as a lazy dask array.

Each chunk is solved with its halo, in one task that returns labels, open pixels and faces. One
task solves the open pixels of all chunks, and one task per chunk puts their labels into place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from logsuper._base import (
    Bits,
    Box,
    FloatArray,
    IntArray,
    Tile,
    extent,
    make_tiles,
    require_memory,
)
from logsuper.solvers._native import kernels
from logsuper.solvers._tile_grid import TileGrid, Units, WeightParts
from logsuper.solvers._tile_rest import BYTES_PER_PIXEL, Rest, by_block
from logsuper.solvers._tile_solve import OpenPixels, Task
from logsuper.solvers._tile_sources import Part, is_dask
from logsuper.solvers._tile_units import (
    bounds_of,
    choose_units,
    count_fields,
    edges_of,
    is_enough,
    possible_units,
    weight_bounds,
    weight_range,
)

T = TypeVar("T")

# Bytes of fields that workers may keep between the two passes over them.
_KEPT = 1 << 32


class Sealed(Generic[T]):
    """An argument of a task that dask must not look into: it would compute arrays in it."""

    def __init__(self, value: T) -> None:
        self.value = value


class Border(NamedTuple):
    """What other chunks need to know of a chunk.

    Attributes
    ----------
    pixels : OpenPixels or None
    shape : tuple of int
    faces : list of (ndarray, ndarray)
        For each axis the labels on the first and on the last plane of the block.
    """

    pixels: OpenPixels | None
    shape: tuple[int, ...]
    faces: list[tuple[Bits, Bits]]


def lazy_labels(grid: TileGrid, theta: Any, halo: int, tie: str | None) -> Any:
    """Return the labels of a whole image as a lazy dask array with the chunks of `theta`."""
    import dask.array as da
    from dask import delayed
    from dask.array.overlap import ensure_minimum_chunksize, overlap
    from dask.graph_manipulation import clone

    margin, wanted = halo + 1, theta.chunks
    theta = theta.rechunk(
        tuple(ensure_minimum_chunksize(min(margin, sum(each)), each) for each in wanted)
    )
    cuts = [[0, *itertools.accumulate(each)] for each in theta.chunks]
    tiles = make_tiles(grid.shape, cuts, margin, same_size=False)
    whole: Sealed[Any] = Sealed((grid, theta, [tile.core for tile in tiles], tie))
    # a single chunk along an axis has no neighbours to take a margin from
    depth = {axis: margin * (len(each) > 1) for axis, each in enumerate(theta.chunks)}
    outer = overlap(theta, depth, boundary="none", allow_rechunk=False).to_delayed().ravel()

    bounds = delayed(_bounds, pure=False)(_ranges(grid, tiles))
    # large fields are computed again for the solves, instead of being kept until all are counted
    counted = clone(theta) if theta.nbytes > _KEPT else theta
    counts = [
        delayed(_count, pure=False)(
            block, Sealed((tilt_of(grid, tile.core), tile.core)), bounds, tie
        )
        for block, tile in zip(counted.to_delayed().ravel(), tiles, strict=True)
    ]
    units = delayed(_decide, pure=False)(counts, bounds, whole)
    solutions = [
        delayed(_solve, pure=False)(
            block,
            Sealed((grid.shape, tile, weights, tilt_of(grid, tile.outer))),
            lazy,
            units,
            tie,
        )
        for block, tile, (weights, lazy) in zip(
            outer, tiles, (detach(grid.parts(tile.outer)) for tile in tiles), strict=True
        )
    ]
    borders = [delayed(_border, pure=False)(found) for found in solutions]
    labels = delayed(_finish, pure=False)(
        borders, Sealed((grid.shape, grid.steps, cuts, tie)), units
    )
    blocks = np.empty(len(tiles), dtype=object)
    for number, (found, tile) in enumerate(zip(solutions, tiles, strict=True)):
        merged = delayed(_merge, pure=False)(found, labels, number)
        blocks[number] = da.from_delayed(merged, extent(tile.core), dtype=np.uint8)
    nested = blocks.reshape([len(each) for each in theta.chunks]).tolist()
    return da.block(nested).rechunk(wanted)


def tilt_of(grid: TileGrid, box: Box) -> FloatArray | None:
    """Return the modular terms in a box."""
    return None if grid.tilt is None else grid.tilt[box]


def _serial(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterable[Any]:
    return itertools.starmap(function, arguments)


class Slot(NamedTuple):
    """The place of a lazy array that dask computes and passes to the task."""

    number: int


def detach(weights: WeightParts) -> tuple[WeightParts, list[Any]]:
    """Return weights without their dask arrays, and these, which tasks then depend on."""
    lazy: list[Any] = []
    terms = []
    for term in weights.terms:
        own = []
        for factor, part in term:
            if isinstance(part, Part) and is_dask(part.source):
                lazy.append(part.source[part.box])
                own.append((factor, Slot(len(lazy) - 1)))
            else:
                own.append((factor, part))
        terms.append(tuple(own))
    return weights._replace(terms=tuple(terms)), lazy


def attach(weights: WeightParts, arrays: Sequence[Any]) -> WeightParts:
    """Return weights with the arrays that `detach` took away, computed."""
    terms = tuple(
        tuple(
            (factor, np.asarray(arrays[part.number]) if isinstance(part, Slot) else part)
            for factor, part in term
        )
        for term in weights.terms
    )
    return weights._replace(terms=terms)


def _ranges(grid: TileGrid, tiles: Sequence[Tile]) -> Any:
    """Return the bounds of the weights, or a task per tile that computes their ranges."""
    from dask import delayed

    if kernels() is None:
        return (0.0, 0.0)
    if grid.uniform:
        return weight_bounds(grid, [], _serial)
    ranges = []
    for tile in tiles:
        weights, shape = edges_of(grid, tile.core)
        weights, lazy = detach(weights)
        ranges.append(delayed(_range, pure=False)(Sealed((weights, shape)), lazy))
    return ranges


def _range(edges: Sealed[Any], lazy: Sequence[Any]) -> FloatArray:
    weights, shape = edges.value
    return weight_range(attach(weights, lazy), shape)


def _bounds(ranges: Any) -> tuple[float, float]:
    return bounds_of(ranges) if isinstance(ranges, list) else ranges


def _count(
    block: FloatArray, where: Sealed[Any], bounds: tuple[float, float], tie: str | None
) -> IntArray:
    """Return the counts of a chunk for all integers that depend on the weights alone."""
    if kernels() is None or bounds[0] == 0:
        return np.zeros((1, 3), dtype=np.int64)
    tilt, core = where.value
    corner = [side.start for side in core]
    return np.array(
        [count_fields((block, tilt), corner, *each) for each in possible_units(*bounds, tie)]
    )


def _decide(counts: list[IntArray], bounds: tuple[float, float], whole: Sealed[Any]) -> Units:
    grid, theta, cores, tie = whole.value
    if kernels() is not None and bounds[0] > 0:
        total = np.sum(counts, axis=0)
        for (units, _), count in zip(possible_units(*bounds, tie), total, strict=True):
            if is_enough(count):
                return units
    # rare: weights far larger than the fields
    return choose_units(grid, theta, cores, tie, _serial)


def _solve(
    block: FloatArray, problem: Sealed[Any], lazy: Sequence[Any], units: Units, tie: str | None
) -> tuple[Bits, OpenPixels | None]:
    shape, tile, weights, tilt = problem.value
    task = Task(shape, tile, (np.asarray(block), tilt), attach(weights, lazy), units, tie)
    found, pixels = task.run_and_record()
    found.take_open(tie)
    return found.labels, pixels


def _border(found: tuple[Bits, OpenPixels | None]) -> Border:
    labels, pixels = found
    faces = [
        (labels.take([0], axis).squeeze(axis), labels.take([-1], axis).squeeze(axis))
        for axis in range(labels.ndim)
    ]
    return Border(pixels, labels.shape, faces)


def _finish(
    borders: Sequence[Border], problem: Sealed[Any], units: Units
) -> dict[int, tuple[tuple[IntArray, ...], Bits]]:
    """Return for chunks with open pixels their places and labels."""
    shape, steps, cuts, tie = problem.value
    some = {k: border.pixels for k, border in enumerate(borders) if border.pixels is not None}
    if not some:
        return {}
    count = sum(len(pixels.place) for pixels in some.values())
    remedy = "rechunk the fields into larger blocks, or give out, which solves them by boxes"
    require_memory(BYTES_PER_PIXEL * count, None, f"solving {count} unproven pixels", remedy)
    rest = Rest(some.values(), shape, steps, units)
    labels = rest.solve(tie, lambda index: _look(index, borders, shape, cuts))
    found = {}
    for number, mine, inside in by_block(rest.pixels.place, shape, cuts):
        found[number] = inside, labels[mine]
    return found


def _look(
    index: IntArray, borders: Sequence[Border], image: Sequence[int], cuts: Sequence[Sequence[int]]
) -> Bits:
    """Return the proven labels of pixels, all of which are on a face of their chunk."""
    found = np.empty(len(index), dtype=np.uint8)
    for number, mine, inside in by_block(index, image, cuts):
        _, shape, faces = borders[number]
        for axis, (first, last) in enumerate(faces):
            others = tuple(p for a, p in enumerate(inside) if a != axis)
            for face, place in ((first, 0), (last, shape[axis] - 1)):
                here = inside[axis] == place
                found[mine[here]] = face[tuple(p[here] for p in others)]
    return found


def _merge(
    found: tuple[Bits, OpenPixels | None], labels: dict[int, tuple[Any, Bits]], number: int
) -> Bits:
    block = found[0].copy()
    if number in labels:
        places, values = labels[number]
        block[places] = values
    return block
