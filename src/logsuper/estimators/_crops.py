"""Windows of large images to learn from, all of one size and only as many as needed.

The weights of a local model are the same everywhere, so that windows of a few thousand pixels are
enough to learn them. Windows of one shape share one structure, steps cost the same whichever image
is drawn, and the time to learn does not grow with the images.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from logsuper._base import beat
from logsuper.estimators._images import Image
from logsuper.learning import Place

SIDE = {2: 64, 3: 16}
"""Side of a window in pixels, for images and for volumes."""

PIXELS = 1 << 19
"""Maximum number of pixels in all windows together: that of two hundred images of 50x50."""

# Images stay whole if no side is longer than this number of windows.
_WHOLE = 1.5


def is_large(images: list[Image]) -> bool:
    """Return whether to learn from windows of the images."""
    longest = max(max(image.shape) for image in images)
    return bool(longest > _WHOLE * SIDE[images[0].ndim])


def crop(
    images: list[Image], labels: list[Image] | None, key: int, pixels: int = PIXELS
) -> tuple[list[Image], list[Image] | None, list[Place]]:
    """Return windows of the images and of their labels, of one shape where images allow it.

    They cover the images if `pixels` allows it, else they are drawn at random among those that
    would. Windows without a single label, or observation, are left out. The last part of the result
    says where each window comes from.
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
    chosen = np.sort(rng.permutation(len(places))[: max(1, pixels // size)])
    kept = [places[k] for k in chosen]
    return (
        [images[i][window] for i, window in kept],
        None if labels is None else [labels[i][window] for i, window in kept],
        [Place(i, tuple(part.start for part in window), images[i].shape) for i, window in kept],
    )


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
