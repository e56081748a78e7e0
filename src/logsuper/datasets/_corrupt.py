"""Noise with one seed per image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, Seed, as_list, stream_key
from logsuper.channels import Channel


def corrupt(
    images: NDArray[Any] | Sequence[NDArray[Any]], channel: Channel, seed: Seed = 0
) -> FloatArray:
    """Observe images through a channel, each with its own noise.

    Parameters
    ----------
    images : array-like of shape (N, ...), of 0 and 1
    channel : Channel
    seed : int, Generator or None, default 0
        The noise of image i depends on (seed, i) alone, not on the other images.

    Returns
    -------
    ndarray of shape (N, ...), float64

    Examples
    --------
    >>> import logsuper as ls
    >>> x = ls.make_silhouettes(3)
    >>> z = ls.datasets.corrupt(x, ls.Flips(0.1), seed=4)
    >>> bool((z[:2] == ls.datasets.corrupt(x[:2], ls.Flips(0.1), seed=4)).all())
    True
    """
    if not isinstance(channel, Channel):
        raise TypeError(f"channel must be a Channel, got {type(channel).__name__}")
    number = stream_key(seed)
    parts = [
        channel.sample(image, np.random.default_rng([number, i]))
        for i, image in enumerate(as_list(images, "images", "a stack or a list of images"))
    ]
    shapes = sorted({part.shape for part in parts})
    if len(shapes) > 1:
        raise ValueError(f"images must be of one shape, got {shapes[0]} and {shapes[1]}")
    return np.stack(parts) if parts else np.zeros(np.shape(images))
