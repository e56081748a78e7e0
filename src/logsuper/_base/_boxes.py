"""Boxes of pixels: blocks of an image or volume, each with a margin around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from logsuper._base._types import BoolArray, IntArray

Box = tuple[slice, ...]
"""One slice with start and stop per axis."""


class Tile(NamedTuple):
    """A block of an image, and the box that is read to solve it.

    Attributes
    ----------
    core : Box
        The block whose pixels the tile is responsible for; the blocks partition the image.
    outer : Box
        The block with a margin on each side, within the image.
    """

    core: Box
    outer: Box

    @property
    def inner(self) -> Box:
        """The block relative to the outer box."""
        return relative(self.core, self.outer)


def make_tiles(
    shape: Sequence[int], cuts: Sequence[Sequence[int]], margin: int, same_size: bool = True
) -> list[Tile]:
    """Return the tiles of an image, in row-major order.

    Parameters
    ----------
    shape : sequence of int
    cuts : sequence of sequence of int
        For each axis the first pixels of the blocks, and the size of the axis at the end.
    margin : int
        Pixels beyond the block on each side, where the image has them.
    same_size : bool
        Whether outer boxes at the border are moved inwards instead of being cut off, so that all
        of them have the same shape and can share the work space of one solver.

    Examples
    --------
    >>> from logsuper._base import make_tiles
    >>> for tile in make_tiles((10,), [(0, 5, 10)], 2):
    ...     print(tile.core, tile.outer)
    (slice(0, 5, None),) (slice(0, 9, None),)
    (slice(5, 10, None),) (slice(1, 10, None),)
    """
    axes = []
    for size, starts in zip(shape, cuts, strict=True):
        pairs = list(pairwise(starts))
        widest = min(size, max(b - a for a, b in pairs) + 2 * margin)
        ends = []
        for a, b in pairs:
            first, last = max(0, a - margin), min(size, b + margin)
            if same_size:
                first = max(0, min(first, size - widest))
                last = first + widest
            ends.append((slice(a, b), slice(first, last)))
        axes.append(ends)
    return [Tile(tuple(c for c, _ in each), tuple(o for _, o in each)) for each in product(*axes)]


def even_cuts(shape: Sequence[int], block: Sequence[int]) -> list[list[int]]:
    """Return, for each axis, where blocks of about equal size and at most `block` begin, and end.

    Examples
    --------
    >>> from logsuper._base import even_cuts
    >>> even_cuts((10, 3), (4, 4))
    [[0, 3, 7, 10], [0, 3]]
    """
    found = []
    for size, most in zip(shape, block, strict=True):
        count = max(1, -(-size // most))
        found.append([round(size * i / count) for i in range(count + 1)])
    return found


def relative(box: Box, outer: Box) -> Box:
    """Return a box in the coordinates of an outer box."""
    return tuple(
        slice(b.start - o.start, b.stop - o.start) for b, o in zip(box, outer, strict=True)
    )


def extent(box: Box) -> tuple[int, ...]:
    """Return the shape of a box."""
    return tuple(side.stop - side.start for side in box)


def volume(box: Box) -> int:
    """Return the number of pixels of a box."""
    return math.prod(extent(box))


def on_frame(box: Box, shape: Sequence[int]) -> BoolArray:
    """Return which pixels of a box lie on a face of it beyond which the image goes on."""
    found = np.zeros(extent(box), dtype=bool)
    for axis, (side, size) in enumerate(zip(box, shape, strict=True)):
        plane: list[slice | int] = [slice(None)] * len(box)
        if side.start > 0:
            plane[axis] = 0
            found[tuple(plane)] = True
        if side.stop < size:
            plane[axis] = -1
            found[tuple(plane)] = True
    return found


def flat_index(where: Sequence[IntArray], box: Box, shape: Sequence[int]) -> IntArray:
    """Return the indices in the whole image of pixels given by their coordinates in a box."""
    flat = np.zeros(len(where[0]), dtype=np.int64)
    for place, side, size in zip(where, box, shape, strict=True):
        flat = flat * size + (place + side.start)
    return flat
