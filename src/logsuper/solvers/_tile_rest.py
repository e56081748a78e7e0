"""The pixels that tiles leave open: solved together, with the proven ones around them fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from logsuper._base import Bits, IntArray
from logsuper.functions import Cut
from logsuper.solvers._prepare import Prepared
from logsuper.solvers._tile_grid import Units
from logsuper.solvers._tile_solve import ABSENT, OPEN, OpenPixels

BYTES_PER_PIXEL = 1500.0
"""Approximate number of bytes per open pixel of a graph with four edges per pixel."""

Look = Callable[[IntArray], Bits]
"""Returns the proven labels of pixels, given by their indices in the whole image."""


class Rest:
    """Open pixels of a whole image, and the graph between them.

    All pixels around a connected set of open pixels are proven, so that the set can be solved by
    itself, exactly.

    Parameters
    ----------
    pixels : iterable of OpenPixels
    shape : sequence of int
        Shape of the image.
    steps : sequence of tuple of int
    units : Units
    """

    def __init__(
        self,
        pixels: Iterable[OpenPixels],
        shape: Sequence[int],
        steps: Sequence[tuple[int, ...]],
        units: Units,
    ) -> None:
        whole = OpenPixels.join(list(pixels))
        self.pixels = whole.some(np.argsort(whole.place))
        self.units = units
        index = self.pixels.place
        lags = []
        for step in steps:
            lag = 0
            for s, size in zip(step, shape, strict=True):
                lag = lag * size + s
            lags += [lag, -lag]
        self.beside = index[:, None] + np.array(lags, dtype=np.int64)
        """Index in the whole image of each neighbour."""
        place = np.minimum(np.searchsorted(index, self.beside), len(index) - 1)
        present = self.pixels.labels != ABSENT
        # also if the tile of a pixel has proven the neighbour, which its own tile left open: an
        # edge must be the same from both ends
        self.place = np.where(present & (index[place] == self.beside), place, -1)
        """Place among the open pixels of each neighbour, -1 if it is proven or absent."""
        first, direction = np.nonzero(self.place[:, ::2] >= 0)
        self.edges = np.stack([first, self.place[first, 2 * direction]], axis=1)
        self.costs = self.pixels.weights[first, 2 * direction]

    def solve(self, tie: str | None, look: Look | None = None) -> Bits:
        """Return the labels of the pixels, which must be whole components.

        `look` is asked for neighbours that their own tile has proven, and the pixel's tile has not.
        """
        together = self.place >= 0
        labels = np.where(together, np.uint8(OPEN), self.pixels.labels)
        elsewhere = (labels == OPEN) & ~together
        assert look is not None or not elsewhere.any()
        if look is not None:
            labels[elsewhere] = look(self.beside[elsewhere])
        weights = self.units.rounded(self.pixels.weights)
        field = self.units.rounded(self.pixels.field)
        n = len(field)
        pairs, costs = [self.edges], [self.units.rounded(self.costs)]
        known = (labels < OPEN) & (weights > 0)
        if self.units.tier == "narrow":
            # sums of integers of 32 bits are exact
            field = field + (np.where(known, 2.0 * labels - 1.0, 0.0) * weights).sum(axis=1)
        else:
            # one node per proven neighbour, so that no numbers are added
            pixel, direction = np.nonzero(known)
            leaf = n + np.arange(len(pixel))
            pairs.append(np.stack([pixel, leaf], axis=1))
            costs.append(weights[pixel, direction])
            fixed = np.where(labels[pixel, direction] == 1, np.inf, -np.inf)
            field = np.concatenate([field, fixed])
        graph = Cut(len(field), np.concatenate(pairs), np.concatenate(costs))
        y = Prepared([graph]).maximize(field, [1.0], tie=tie or "min").y
        return np.asarray(y[:n])


def by_block(
    index: IntArray, shape: Sequence[int], cuts: Sequence[Sequence[int]]
) -> Iterator[tuple[int, IntArray, tuple[IntArray, ...]]]:
    """Yield the numbers of blocks, which of the pixels are in them, and where in the block.

    `cuts` are as in `make_tiles`.
    """
    places = np.unravel_index(index, tuple(shape))
    cells = [np.searchsorted(cut, p, side="right") - 1 for cut, p in zip(cuts, places, strict=True)]
    numbers = np.ravel_multi_index(cells, [len(cut) - 1 for cut in cuts])
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order], append=-1)) + 1
    first = 0
    for end in ends.tolist():
        mine = order[first:end]
        first = end
        corner = [cut[cell[mine[0]]] for cut, cell in zip(cuts, cells, strict=True)]
        inside = tuple(p[mine] - c for p, c in zip(places, corner, strict=True))
        yield int(numbers[mine[0]]), mine, inside
