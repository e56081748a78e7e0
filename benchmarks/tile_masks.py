"""Noisy masks of any size for `benchmarks.tiles`, and the certified marginals of small ones."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import logsuper as ls
from logsuper.report import Table

RATE = 0.1
ODDS = math.log((1 - RATE) / RATE)


def blobs(rows: slice, columns: slice) -> Any:
    """Return a part of an endless noisy mask; the same pixels whatever the part is."""
    r = np.arange(rows.start, rows.stop, dtype=np.float32)[:, None]
    c = np.arange(columns.start, columns.stop, dtype=np.float32)[None, :]
    clean = np.sin(r / 37) * np.sin(c / 41) + 0.6 * np.sin(r / 13 + 2) * np.sin(c / 17) > 0.1
    noise = np.random.default_rng([rows.start, columns.start])
    return (clean ^ (noise.random(clean.shape, dtype=np.float32) < RATE)).astype(np.uint8)


class LogOdds:
    """The fields of a mask of any size: a source for `maximize_tiles`."""

    def __init__(self, mask: Any) -> None:
        self.mask, self.shape = mask, tuple(mask.shape)
        self.chunks = getattr(mask, "chunks", None)

    def __getitem__(self, box: tuple[slice, ...]) -> Any:
        field = np.asarray(self.mask[box]).astype(np.float64)
        field *= 2 * ODDS
        field -= ODDS
        return field


def model(shape: tuple[int, ...], strength: float) -> ls.SubmodularFunction:
    """Return the grid of an image, all edges of one weight."""
    return ls.Sum([(strength, cut) for cut in ls.grid_cuts(shape)])


def measure_marginals(side: int) -> Table:
    """Bracket the marginals of a noisy mask under several stencils, with windows of each size."""
    rows = []
    for axes, neighbors, strength in (
        *((2, 4, 0.5), (2, 4, 1.0), (2, 8, 0.3), (2, 8, 0.6)),
        *((3, 6, 0.3), (3, 18, 0.1), (3, 26, 0.1)),
    ):
        shape = (side, side) if axes == 2 else (side // 4,) * 3
        noisy = blobs(slice(0, shape[0]), slice(0, math.prod(shape[1:]))).reshape(shape)
        theta = ODDS * (2.0 * noisy - 1.0)
        f = ls.Sum([(strength, cut) for cut in ls.grid_cuts(shape, neighbors)])
        for window in (6, 8, 10):
            start = time.process_time()
            found = ls.marginals_tiles(f, theta, window=window, width=1.0)
            seconds = time.process_time() - start
            width = np.asarray(found.upper - found.lower)
            rows.append(
                [
                    f"{neighbors}",
                    f"{strength:g}",
                    f"{window}",
                    f"{1e6 * seconds / theta.size:.0f}",
                    f"{np.median(width):.1g}",
                    f"{np.quantile(width, 0.99):.1g}",
                    f"{width.max():.1g}",
                ]
            )
    head = ["neighbours", "weight", "window", "microseconds", "median width", "99 %", "largest"]
    title = f"Certified marginals of {side}x{side} pixels, or {side // 4} cubed: CPU per pixel"
    return Table(title, head, rows)
