"""Windows of large images to learn from, all of one size and only as many as needed.

The weights of a local model are the same everywhere, so that windows of a few thousand pixels are
enough to learn them. Windows of one shape share one structure, steps cost the same whichever image
is drawn, and the time to learn does not grow with the images.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from logsuper._base import beat
from logsuper.estimators._images import Image
from logsuper.learning import LazyImages, Place, shapes_of

SIDE = {2: 64, 3: 16}
"""Side of a window in pixels, for images and for volumes."""

PIXELS = 1 << 19
"""Maximum number of pixels in all windows together: that of two hundred images of 50x50."""

# Images stay whole if no side is longer than this number of windows.
_WHOLE = 1.5


def is_large(images: Sequence[Image]) -> bool:
    """Return whether to learn from windows of the images."""
    shapes = shapes_of(images)
    return bool(max(map(max, shapes)) > _WHOLE * SIDE[len(shapes[0])])


def crop(
    images: Sequence[Image], labels: Sequence[Image] | None, key: int, pixels: int = PIXELS
) -> tuple[list[Image], list[Image] | None, list[Place]]:
    """Return windows of the images and of their labels, of one shape where images allow it.

    They cover the images if `pixels` allows it, else they are drawn at random among those that
    would. Windows without a single label, or observation, are left out. The last part of the result
    says where each window comes from.
    """
    known = images if labels is None else labels
    places = [
        (i, window)
        for i, image in enumerate(known)
        for window in _windows(image.shape, SIDE[image.ndim])
        if _tells(image[window])
    ]
    size = max(math.prod(part.stop - part.start for part in window) for _, window in places)
    rng = np.random.default_rng(key)
    chosen = np.sort(rng.permutation(len(places))[: max(1, pixels // size)])
    kept = [places[k] for k in chosen]
    shapes = shapes_of(images)
    return (
        _cut(images, kept),
        None if labels is None else _cut(labels, kept),
        [Place(i, tuple(part.start for part in window), shapes[i]) for i, window in kept],
    )


def _cut(images: Sequence[Image], places: list[tuple[int, tuple[slice, ...]]]) -> list[Image]:
    found = [images[i][window] for i, window in places]
    # a window must not keep the image that it is cut from in memory
    return [part.copy() for part in found] if isinstance(images, LazyImages) else found


def _windows(shape: tuple[int, ...], side: int) -> Iterator[tuple[slice, ...]]:
    """Yield windows that cover an image; they overlap if its sides are not multiples of theirs."""
    starts = []
    for length in shape:
        count = -(-length // side)
        first = np.linspace(0, max(0, length - side), count).round().astype(int)
        starts.append([slice(a, min(a + side, length)) for a in first.tolist()])
    return itertools.product(*starts)


def _tells(part: Image) -> bool:
    beat()
    return part.dtype.kind != "f" or not bool(np.isnan(part).all())
