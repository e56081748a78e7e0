"""The pixels that are not proven yet: one bit each, and the boxes of their connected components."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from logsuper._base import Bits, BoolArray, Box, IntArray, extent, flat_index, volume
from logsuper.solvers._tile_grid import Step

# A box is solved by the kernel of grids if at least one in so many of its pixels is open; a graph
# of open pixels takes about so many times longer per pixel, and forty times the memory.
_DENSE = 64


class Group(NamedTuple):
    """Connected components of open pixels that are solved together.

    Attributes
    ----------
    box : Box
        Contains the components, and all their neighbours.
    size : int
        Number of their pixels.
    components : ndarray of int64
    """

    box: Box
    size: int
    components: IntArray

    @property
    def dense(self) -> bool:
        """Whether so many pixels of the box are open that it is best solved as a grid."""
        return volume(self.box) <= _DENSE * self.size


class Components(NamedTuple):
    """The connected components of open pixels.

    Attributes
    ----------
    sizes : ndarray of shape (C,), int64
    first, last : ndarray of shape (C, axes), int64
        Corners of their boxes; `last` is beyond the box.
    tile : ndarray of shape (C,), int64
        A tile in which each has pixels.
    begin : dict of int to int
        For each tile the number of its first local component in `number`.
    number : ndarray of int64
        Component of each local component of each tile.
    """

    sizes: IntArray
    first: IntArray
    last: IntArray
    tile: IntArray
    begin: dict[int, int]
    number: IntArray

    def groups(self, shape: Sequence[int], block: int) -> list[Group]:
        """Return the components, those that are small in groups by tile; large boxes first.

        `block` is the number of pixels of a tile.
        """
        first = np.maximum(self.first - 1, 0)
        last = np.minimum(self.last + 1, shape)
        small = (last - first).prod(axis=1) <= 4 * block
        found = [self._group(first, last, np.array([c])) for c in np.flatnonzero(~small)]
        order = np.flatnonzero(small)
        order = order[np.argsort(self.tile[order], kind="stable")]
        ends = np.flatnonzero(np.diff(self.tile[order])) + 1
        found += [self._group(first, last, some) for some in np.split(order, ends) if len(some)]
        return sorted(found, key=lambda group: -volume(group.box))

    def _group(self, first: IntArray, last: IntArray, some: IntArray) -> Group:
        low, high = first[some].min(axis=0), last[some].max(axis=0)
        box = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        return Group(box, int(self.sizes[some].sum()), some)


class OpenSet:
    """The open pixels of an image that is cut into tiles: one bit per pixel of a tile with any.

    Parameters
    ----------
    shape : sequence of int
    cuts : sequence of sequence of int
        As in `make_tiles`.
    steps : sequence of tuple of int
        Offsets of neighbours; each entry is -1, 0 or 1.
    """

    def __init__(
        self, shape: Sequence[int], cuts: Sequence[Sequence[int]], steps: Sequence[Step]
    ) -> None:
        self.shape, self.steps = tuple(shape), tuple(steps)
        self.cuts = [np.asarray(each, dtype=np.int64) for each in cuts]
        self._bits: dict[int, tuple[Bits, int]] = {}

    def __len__(self) -> int:
        return sum(count for _, count in self._bits.values())

    def core(self, number: int) -> Box:
        """Return the block of a tile."""
        cells = np.unravel_index(number, [len(cut) - 1 for cut in self.cuts])
        return tuple(
            slice(int(cut[c]), int(cut[c + 1])) for cut, c in zip(self.cuts, cells, strict=True)
        )

    def put(self, number: int, mask: BoolArray) -> None:
        """Set which pixels of a tile are open."""
        count = int(np.count_nonzero(mask))
        if count:
            self._bits[number] = np.packbits(mask), count
        else:
            self._bits.pop(number, None)

    def get(self, number: int) -> BoolArray:
        """Return which pixels of a tile are open."""
        sides = extent(self.core(number))
        if number not in self._bits:
            return np.zeros(sides, dtype=bool)
        flat = np.unpackbits(self._bits[number][0], count=math.prod(sides))
        return flat.view(bool).reshape(sides)

    def tiles(self) -> list[int]:
        """Return the numbers of the tiles that have open pixels."""
        return sorted(self._bits)

    def _overlaps(self, box: Box) -> Iterator[tuple[int, Box, Box]]:
        """Yield tiles with open pixels that meet a box, and the common part in both."""
        ranges = []
        for cut, side in zip(self.cuts, box, strict=True):
            begin = int(np.searchsorted(cut, side.start, side="right")) - 1
            ranges.append(range(begin, int(np.searchsorted(cut, side.stop, side="left"))))
        for cells in product(*ranges):
            number = int(np.ravel_multi_index(cells, [len(cut) - 1 for cut in self.cuts]))
            if number not in self._bits:
                continue
            core = self.core(number)
            both = [
                (max(b.start, c.start), min(b.stop, c.stop)) for b, c in zip(box, core, strict=True)
            ]
            yield (
                number,
                tuple(slice(a - b.start, z - b.start) for (a, z), b in zip(both, box, strict=True)),
                tuple(
                    slice(a - c.start, z - c.start) for (a, z), c in zip(both, core, strict=True)
                ),
            )

    def in_box(self, box: Box) -> BoolArray:
        """Return which pixels of a box are open."""
        found = np.zeros(extent(box), dtype=bool)
        for number, inside, own in self._overlaps(box):
            found[inside] = self.get(number)[own]
        return found

    def prove(self, box: Box, proven: BoolArray) -> None:
        """Remove pixels of a box."""
        for number, inside, own in list(self._overlaps(box)):
            mask = self.get(number)
            mask[own] &= ~proven[inside]
            self.put(number, mask)

    def places(self) -> IntArray:
        """Return the indices in the whole image of all open pixels, sorted."""
        found = [self._flat(number, np.nonzero(self.get(number))) for number in self.tiles()]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *found]))

    def _flat(self, number: int, where: Sequence[IntArray]) -> IntArray:
        return flat_index(where, self.core(number), self.shape)

    def _labelled(self, number: int) -> IntArray:
        """Return the local component, from 1, of each pixel of a tile; 0 if it is not open."""
        beside = np.zeros((3,) * len(self.shape), dtype=bool)
        beside[(1,) * len(self.shape)] = True
        for step in self.steps:
            beside[tuple(1 + s for s in step)] = beside[tuple(1 - s for s in step)] = True
        return np.asarray(ndimage.label(self.get(number), beside)[0])

    def components(self) -> Components:
        """Return the connected components."""
        begin: dict[int, int] = {}
        sizes, first, last, tile = [], [], [], []
        rim: list[tuple[IntArray, IntArray]] = []
        total = 0
        for number in self.tiles():
            local = self._labelled(number)
            boxes = ndimage.find_objects(local)
            begin[number] = total
            sizes.append(np.bincount(local.ravel())[1:])
            corner = np.array([side.start for side in self.core(number)])
            first.append(corner + [[side.start for side in box] for box in boxes])
            last.append(corner + [[side.stop for side in box] for box in boxes])
            tile.append(np.full(len(boxes), number))
            on_rim = np.ones(local.shape, dtype=bool)
            on_rim[(slice(1, -1),) * local.ndim] = False
            where = np.nonzero(on_rim & (local > 0))
            rim.append((self._flat(number, where), total + local[where] - 1))
            total += len(boxes)
        pairs = self._joined(*map(np.concatenate, zip(*rim, strict=True)))
        graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(total, total))
        count, number_of = connected_components(graph, directed=False)
        axes = len(self.shape)
        every = np.full((count, axes), np.iinfo(np.int64).max)
        np.minimum.at(every, number_of, np.concatenate(first))
        ends = np.zeros((count, axes), dtype=np.int64)
        np.maximum.at(ends, number_of, np.concatenate(last))
        some_tile = np.zeros(count, dtype=np.int64)
        some_tile[number_of] = np.concatenate(tile)
        of_size = np.zeros(count, dtype=np.int64)
        np.add.at(of_size, number_of, np.concatenate(sizes))
        return Components(of_size, every, ends, some_tile, begin, number_of.astype(np.int64))

    def _joined(self, index: IntArray, local: IntArray) -> IntArray:
        """Return pairs of local components that touch, given the pixels on the rims of tiles."""
        order = np.argsort(index)
        index, local = index[order], local[order]
        where = np.unravel_index(index, self.shape)
        pairs = [np.empty((0, 2), dtype=np.int64)]
        for step in self.steps:
            there = [p + s for p, s in zip(where, step, strict=True)]
            inside = np.ones(len(index), dtype=bool)
            for t, size in zip(there, self.shape, strict=True):
                inside &= (t >= 0) & (t < size)
            beside = np.ravel_multi_index([t[inside] for t in there], self.shape)
            place = np.minimum(np.searchsorted(index, beside), len(index) - 1)
            same = index[place] == beside
            pairs.append(np.stack([local[inside][same], local[place[same]]], axis=1))
        return np.unique(np.concatenate(pairs), axis=0)

    def pixels_of(
        self, found: Components, some: IntArray
    ) -> Iterator[tuple[int, tuple[IntArray, ...]]]:
        """Yield tiles, and where in the tile the pixels of some components are.

        The set must be the one that `found` was made of.
        """
        wanted = np.zeros(len(found.sizes), dtype=bool)
        wanted[some] = True
        begins = [*found.begin.values(), len(found.number)]
        for number, begin, end in zip(found.begin, begins, begins[1:], strict=False):
            own = wanted[found.number[begin:end]]
            if own.any():
                where = np.nonzero(np.append(False, own)[self._labelled(number)])
                yield number, where

    def prove_components(self, found: Components, some: IntArray) -> None:
        """Remove whole components, for which the set must be the one that `found` was made of."""
        for number, where in self.pixels_of(found, some):
            mask = self.get(number)
            mask[where] = False
            self.put(number, mask)
