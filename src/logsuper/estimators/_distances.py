"""Distances of pixels to scribbles, along the grid and along paths that avoid changes of colour."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from logsuper._base import FloatArray, IntArray
from logsuper.functions import grid_cuts

__all__ = ["Distances"]

# Cells of the coarse grid, at most about; its distances vary slowly, and the cut finds the edges.
_CELLS = 20_000
# Cost of a step within an even region, relative to one across a typical change of colour.
_EVEN = 0.1
# Added to distances before their ratio is taken: geodesic in the unit above, straight in pixels.
_NEAR_PATH, _NEAR_LINE = 0.1, 1.0


class Distances:
    """Distances to scribbles on a coarse grid over the image, prepared once per image.

    Parameters
    ----------
    colours : ndarray of shape (..., C)
    """

    def __init__(self, colours: FloatArray) -> None:
        self.shape = colours.shape[:-1]
        axes = len(self.shape)
        self._block = max(1, math.ceil((math.prod(self.shape) / _CELLS) ** (1.0 / axes)))
        self._coarse = tuple(-(-size // self._block) for size in self.shape)
        rows = self._blocks(colours).mean(axis=tuple(range(1, 2 * axes, 2)))
        flat = rows.reshape(-1, colours.shape[-1])
        cuts = grid_cuts(self._coarse, {1: 2, 2: 8, 3: 26}[axes], (1.0,) * axes)
        pairs = np.concatenate([cut.edges for cut in cuts])
        lengths = 1.0 / np.concatenate([cut.weights for cut in cuts])
        squares = ((flat[pairs[:, 0]] - flat[pairs[:, 1]]) ** 2).sum(axis=1)
        mean = squares.mean() if squares.size else 0.0
        costs = lengths * np.sqrt(_EVEN**2 + squares / (mean if mean > 0 else 1.0))
        both = np.concatenate([pairs, pairs[:, ::-1]])
        self._graph = coo_array(
            (np.concatenate([costs, costs]), (both[:, 0], both[:, 1])), shape=(len(flat),) * 2
        ).tocsr()
        # the last seeds of each label, and the distances to them
        self._last: dict[int, tuple[NDArray[np.bool_], FloatArray, FloatArray]] = {}

    def log_ratios(self, scribbles: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
        """Return the log of the distance to the background's scribbles over that to the object's.

        First along paths that avoid changes of colour (geodesic), then along straight lines; both
        in the shape of the image, positive where the object's scribbles are nearer.
        """
        counts = [self._count(scribbles == label) for label in (1, 2)]
        found = []
        for label, (own, other) in enumerate((counts, counts[::-1])):
            # a cell with scribbles of both kinds belongs to the more frequent one
            seeds = (own > 0) & (own >= other)
            if not seeds.any():
                seeds = own == own.max()
            # a stroke changes the scribbles of one label: keep the distances to the other's
            if label not in self._last or not np.array_equal(self._last[label][0], seeds):
                self._last[label] = (seeds, *self._measure(seeds))
            found.append(self._last[label][1:])
        return tuple(self._enlarge(np.log(b / a)) for a, b in zip(*found, strict=True))  # type: ignore[return-value]

    def _measure(self, seeds: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the distances of cells to some of them, along paths and along straight lines."""
        paths = dijkstra(self._graph, indices=np.flatnonzero(seeds), min_only=True)
        lines = self._block * distance_transform_edt(~seeds) + _NEAR_LINE
        return paths.reshape(self._coarse) + _NEAR_PATH, lines

    def _count(self, marked: NDArray[np.bool_]) -> IntArray:
        """Return the number of marked pixels in each cell."""
        cells = np.unravel_index(np.flatnonzero(marked), self.shape)
        numbers = np.ravel_multi_index(tuple(at // self._block for at in cells), self._coarse)
        return np.bincount(numbers, minlength=math.prod(self._coarse)).reshape(self._coarse)

    def _blocks(self, image: FloatArray) -> FloatArray:
        """Return the pixels of each cell, with axes (cells, block) in turn, then the channels."""
        pads = [
            (0, cells * self._block - size)
            for cells, size in zip(self._coarse, self.shape, strict=True)
        ]
        rest = image.shape[len(self.shape) :]
        padded = np.pad(image, [*pads, *((0, 0) for _ in rest)], mode="edge")
        parts = [size for cells in self._coarse for size in (cells, self._block)]
        return np.asarray(padded.reshape(*parts, *rest))

    def _enlarge(self, cells: FloatArray) -> FloatArray:
        """Return values of cells as an image, linear between the centres of cells."""
        if self._block == 1:
            return cells
        for axis, size in enumerate(self.shape):
            last = cells.shape[axis] - 1
            at = np.clip((np.arange(size) + 0.5) / self._block - 0.5, 0.0, last)
            low = np.minimum(at.astype(np.int64), max(last - 1, 0))
            part = (at - low).reshape([-1 if a == axis else 1 for a in range(cells.ndim)])
            near, far = cells.take(low, axis), cells.take(np.minimum(low + 1, last), axis)
            cells = near + part * (far - near)
        return cells
