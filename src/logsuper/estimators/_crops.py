"""Parts of large images to learn from: windows of one size, no more than learning needs.

Weights of a local model are the same everywhere, and each window of some thousand pixels tells of
them. Windows of one shape share one structure, steps do not depend on which image is drawn, and
the time to learn does not grow with the images.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from logsuper.estimators._images import Image
from logsuper.learning import Place

__all__ = ["crop", "is_large"]

SIDE = {2: 64, 3: 16}
"""Pixels of a window along each axis, in images and in volumes."""

PIXELS = 1 << 19
"""Pixels of all windows, as many as two hundred images of 50x50 have."""

# Images whose sides are at most so many windows long stay whole.
_WHOLE = 1.5


def is_large(images: list[Image]) -> bool:
    """Return whether learning would look at windows."""
    longest = max(max(image.shape) for image in images)
    return bool(longest > _WHOLE * SIDE[images[0].ndim])


def crop(
    images: list[Image], labels: list[Image] | None, key: int
) -> tuple[list[Image], list[Image] | None, list[Place]]:
    """Return windows of the images and of their labels, of one shape where images allow it.

    The last of what is returned is where they are from.

    They cover the images where that is not too much, else they are drawn at random among those that
    would; windows without a single label, or observation, are left out.
    """
    side = SIDE[images[0].ndim]
    known = images if labels is None else labels
    places = [
        (i, window)
        for i, image in enumerate(images)
        for window in _windows(image.shape, side)
        if _tells(known[i][window])
    ]
    size = max(math.prod(images[i][window].shape) for i, window in places)
    rng = np.random.default_rng(key)
    chosen = np.sort(rng.permutation(len(places))[: max(1, PIXELS // size)])
    kept = [places[k] for k in chosen]
    return (
        [images[i][window] for i, window in kept],
        None if labels is None else [labels[i][window] for i, window in kept],
        [Place(i, tuple(part.start for part in window), images[i].shape) for i, window in kept],
    )


def _windows(shape: tuple[int, ...], side: int) -> Iterator[tuple[slice, ...]]:
    """Yield windows that cover an image; they overlap where its sides are no multiples."""
    starts = []
    for length in shape:
        count = -(-length // side)
        first = np.linspace(0, max(0, length - side), count).round().astype(int)
        starts.append([slice(a, min(a + side, length)) for a in first.tolist()])
    return itertools.product(*starts)


def _tells(part: Image) -> bool:
    return part.dtype.kind != "f" or not bool(np.isnan(part).all())
