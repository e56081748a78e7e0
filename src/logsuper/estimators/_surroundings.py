"""What was observed around each pixel, at three scales, without the pixel itself.

Single pixels nearby, boxes of 3 pixels a side farther away, boxes of 9 farther still: few numbers
that reach far. Sums are made of the summed pixels alone. Running sums, or a box minus its centre,
would be faster, but their rounding tells of the pixel that must not be seen, and trees find it.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray

__all__ = ["LEVELS", "count_features", "reach", "surroundings"]

LEVELS = 2
"""Scales beyond that of single pixels."""

# How many pixels, boxes of 3 and boxes of 9 on each side of the centre, in images and in volumes.
_COUNTS = {2: (2, 2, 1), 3: (1, 1, 1)}
_SIDE = 3


def reach(axes: int, levels: int = LEVELS) -> int:
    """Return the distance of the farthest pixel that is used, along an axis."""
    sides: list[int] = [_SIDE**k for k in range(levels + 1)]
    counts = _COUNTS[axes][: levels + 1]
    return max(n * side + side // 2 for n, side in zip(counts, sides, strict=True))


def count_features(axes: int, levels: int = LEVELS) -> int:
    """Return the number of features of a pixel."""
    counts = _COUNTS[axes][: levels + 1]
    return int(sum((2 * n + 1) ** axes for n in counts)) - 1


def surroundings(
    images: FloatArray, levels: int = LEVELS, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the means of pixels and boxes around each pixel, 0 beyond the border.

    Parameters
    ----------
    images : ndarray of shape (B, ...)
        Images or volumes.
    levels : int
        Scales beyond that of single pixels.
    out : ndarray of shape (p, B, ...), optional
        Zeros, where the features go.

    Returns
    -------
    ndarray of shape (p, B, ...)
        The features; no number depends on the pixel that it belongs to.
    """
    axes = images.ndim - 1
    if out is None:
        out = np.zeros((count_features(axes, levels), *images.shape), dtype=np.float32)
    boxes, ring, side, at = images.astype(np.float64), np.zeros(images.shape), 1, 0
    for level in range(levels + 1):
        n = _COUNTS[axes][level]
        if level:
            # of each box, the sum of the pixels or smaller boxes that it is made of
            boxes = _sum_boxes(boxes, side)
            side *= _SIDE
        means = (boxes / side**axes).astype(np.float32)
        around = np.zeros(images.shape)  # the next central box, without the pixel
        for step in itertools.product(range(-n, n + 1), repeat=axes):
            if any(step):
                to, where = _overlap([s * side for s in step], images.shape)
                out[at][to] = means[where]
                if max(map(abs, step)) <= 1:
                    around[to] += boxes[where]
            elif level:
                out[at] = ring / side**axes
                around += ring
            else:
                continue
            at += 1
        ring = around
    return out


def _sum_boxes(boxes: FloatArray, side: int) -> FloatArray:
    """Return the sums of three boxes along each axis."""
    for axis in range(1, boxes.ndim):
        step = [0] * (boxes.ndim - 1)
        step[axis - 1] = side
        boxes = _shift(boxes, [-s for s in step]) + boxes + _shift(boxes, step)
    return boxes


def _shift(images: FloatArray, step: list[int]) -> FloatArray:
    """Return what lies that far away from each pixel, 0 beyond the border."""
    found = np.zeros(images.shape)
    to, where = _overlap(step, images.shape)
    found[to] = images[where]
    return found


def _overlap(step: list[int], shape: tuple[int, ...]) -> tuple[tuple[slice, ...], ...]:
    """Return the pixels that have another one that far away, and these others."""
    to, where = [slice(None)], [slice(None)]
    for s, length in zip(step, shape[1:], strict=True):
        left, right = min(max(0, -s), length), min(max(0, s), length)
        to.append(slice(left, length - right))
        where.append(slice(right, length - left))
    return tuple(to), tuple(where)
