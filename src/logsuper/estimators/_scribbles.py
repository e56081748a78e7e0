"""Images with scribbles as users give them: checks, channels, strokes, smaller copies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, label

from logsuper._base import (
    FloatArray,
    IntArray,
    as_array,
    as_numeric,
    check_integer,
    entry,
    first_index,
)

__all__ = [
    "Labels",
    "choose_block",
    "draw_scribbles",
    "enlarge",
    "find_strokes",
    "kind_of",
    "read_photograph",
    "read_scribbles",
    "shrink_image",
    "shrink_scribbles",
    "shrink_truth",
]

Labels = NDArray[np.uint8]

# Pixels of the rough mask, and of images that are learned from, at most about.
_PIXELS = 50_000
# The largest number in an image: its square is finite.
_LARGEST = 1e140
# Half the width of a drawn stroke, relative to the square root of the number of pixels.
_PEN = 0.004


def read_photograph(image: Any, channel_axis: Any, axes: int | None = None) -> tuple[Any, int]:
    """Return an image with its channels last, if it has any, and its number of other axes.

    With ``channel_axis="auto"`` the number of axes decides, where it is known from scribbles;
    else a last axis of at most four entries of an array of three axes holds channels, and so does
    the last of four.
    """
    values = as_numeric(image, "image")
    if channel_axis == "auto":
        if axes is None:
            axes = 2 if values.ndim == 3 and values.shape[-1] <= 4 else min(values.ndim, 3)
        channel_axis = -1 if values.ndim == axes + 1 else None
    if channel_axis is not None:
        axis = check_integer(channel_axis, "channel_axis", -values.ndim, max(values.ndim, 1))
        values = np.moveaxis(values, axis, -1)
    axes = values.ndim - (channel_axis is not None)
    if axes not in (2, 3) or not values.size:
        raise ValueError(
            f"image has shape {values.shape}; give an image (H, W) or a volume (Z, H, W), with "
            "channels last or at channel_axis, and at least one pixel"
        )
    if values.dtype.kind == "f":
        bad = ~(np.abs(values) <= min(_LARGEST, float(np.finfo(values.dtype).max)))
        if bad.any():
            at = first_index(bad)
            raise ValueError(
                f"{entry('image', at)} = {values[at]} ({_place(at, axes)}) is not finite, or too "
                "large to be squared; fill such pixels first"
            )
    return values, axes


def read_scribbles(
    scribbles: Any, shape: tuple[int, ...] | None, name: str = "scribbles"
) -> Labels:
    """Return labels 0, 1 and 2, each of the last two at least once."""
    labels = as_array(scribbles, name)
    if shape is not None and labels.shape != shape:
        kind = kind_of(len(shape))
        raise ValueError(
            f"{name} has shape {labels.shape}, but the {kind} {shape}; draw them at the size of "
            f"the {kind}, or give the {kind} at theirs"
        )
    if labels.dtype.kind not in "biu":
        raise TypeError(
            f"{name} must hold integers (0 unknown, 1 object, 2 background), got {labels.dtype}"
        )
    bad = (labels < 0) | (labels > 2)
    if bad.any():
        at = first_index(bad)
        raise ValueError(
            f"{entry(name, at)} = {labels[at]}: labels are 0 (unknown), 1 (object) and 2 "
            "(background); for more objects, segment one against the rest for each: "
            f"numpy.where({name} == 0, 0, numpy.where({name} == k, 1, 2))"
        )
    for value, kind in ((1, "object"), (2, "background")):
        if not (labels == value).any():
            raise ValueError(f"{name} has no {kind} (label {value}); mark a part of it")
    return labels.astype(np.uint8)


def kind_of(axes: int) -> str:
    """Return what an array is called, by its number of axes without channels."""
    return "volume" if axes == len("ZHW") else "image"


def _place(at: tuple[int, ...], axes: int) -> str:
    """Return what a place is called: that of a volume begins with its slice."""
    if kind_of(axes) == "volume":
        return f"slice {at[0]}, row {at[1]}, column {at[2]}"
    return f"row {at[0]}, column {at[1]}"


def find_strokes(scribbles: Labels) -> tuple[IntArray, int]:
    """Return the number of the stroke of each pixel, from 1 (0 for none), and their count."""
    neighbours = np.ones((3,) * scribbles.ndim)
    first, count = label(scribbles == 1, neighbours)
    second, more = label(scribbles == 2, neighbours)
    return np.where(second > 0, second + count, first).astype(np.int64), int(count + more)


def draw_scribbles(mask: NDArray[Any], rng: np.random.Generator) -> Labels:
    """Draw a few strokes on object and background, as a user might, from a mask with NaN or not.

    A stroke joins two random pixels far from the border of its region, and stays within it.
    """
    found = np.zeros(mask.shape, dtype=np.uint8)
    width = max(1.0, _PEN * math.sqrt(math.prod(mask.shape[-2:])))
    for value, count in ((1, 3), (2, 5)):
        region = mask == (value == 1)
        if not region.any():
            raise ValueError(
                f"a mask has no {'object' if value == 1 else 'background'} to draw scribbles on; "
                "give scribbles"
            )
        inside = distance_transform_edt(np.pad(region, 1))[(slice(1, -1),) * mask.ndim]
        deep = np.argwhere(inside >= 0.4 * inside.max())
        for _ in range(count):
            a, b = deep[rng.integers(len(deep), size=2)].astype(float)
            steps = np.linspace(0.0, 1.0, 2 + int(np.abs(b - a).max()))[:, None]
            line = np.round(a + steps * (b - a)).astype(int)
            stroke = np.zeros(mask.shape, dtype=bool)
            stroke[tuple(line.T)] = True
            found[(distance_transform_edt(~stroke) <= width) & region] = value
    return found


def choose_block(shape: tuple[int, ...]) -> int:
    """Return the side of blocks that leave few enough pixels."""
    return math.ceil(math.pow(math.prod(shape) / _PIXELS, 1.0 / len(shape)))


def shrink_image(image: NDArray[Any], axes: int, block: int) -> NDArray[Any]:
    """Return the means of blocks, integers in the dtype of the image."""
    within = tuple(range(1, 2 * axes, 2))
    small = _blocks(image, axes, block).mean(axis=within, dtype=np.float64)
    return np.asarray(np.round(small).astype(image.dtype) if image.dtype.kind in "iu" else small)


def shrink_scribbles(scribbles: Labels, block: int) -> Labels:
    """Return the more frequent label of each block that has one."""
    marks = _blocks(scribbles, scribbles.ndim, block)
    within = tuple(range(1, 2 * scribbles.ndim, 2))
    first, second = (np.count_nonzero(marks == value, axis=within) for value in (1, 2))
    return np.select([first + second == 0, first >= second], [0, 1], 2).astype(np.uint8)


def shrink_truth(truth: FloatArray, block: int) -> FloatArray:
    """Return the label in the middle of each block."""
    middle = (slice(None), block // 2) * truth.ndim
    return np.asarray(_blocks(truth, truth.ndim, block)[middle])


def enlarge(mask: NDArray[np.bool_], block: int, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return each pixel as a block, cut to a shape."""
    for axis in range(mask.ndim):
        mask = mask.repeat(block, axis)
    return mask[tuple(slice(0, size) for size in shape)]


def _blocks(image: NDArray[Any], axes: int, block: int) -> NDArray[Any]:
    """Return the pixels of each block, with axes (blocks, pixels) in turn; edges are repeated."""
    pads = [(0, -size % block) for size in image.shape[:axes]]
    padded = np.pad(image, [*pads, *((0, 0) for _ in image.shape[axes:])], mode="edge")
    parts = [part for size in padded.shape[:axes] for part in (size // block, block)]
    return padded.reshape(*parts, *padded.shape[axes:])
