"""Procedural colour scenes: an animal in front of patches of colour, with scribbles on both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from logsuper._base import Seed, as_generator
from logsuper.datasets._silhouettes import make_silhouettes
from logsuper.estimators import draw_scribbles

__all__ = ["Scenes", "make_scenes"]

# Colours of the patches of an object and of a background, and the noise of the camera.
_PATCHES, _NOISE = (2, 3), 0.03
# Least distance between colours of the two, in red, green and blue from 0 to 1.
_APART = 0.3


class Scenes(NamedTuple):
    """Colour images with their masks and scribbles.

    Attributes
    ----------
    images : ndarray of shape (N, H, W, 3), uint8
    masks : ndarray of shape (N, H, W), uint8
        1 for the object.
    scribbles : ndarray of shape (N, H, W), uint8
        0 unknown, 1 object, 2 background.

    Examples
    --------
    >>> import logsuper as ls
    >>> scenes = ls.make_scenes(2, shape=(40, 60), seed=0)
    >>> scenes.images.shape, scenes.masks.shape
    ((2, 40, 60, 3), (2, 40, 60))
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    scribbles: NDArray[np.uint8]


def make_scenes(n_samples: int = 4, shape: tuple[int, int] = (120, 160), seed: Seed = 0) -> Scenes:
    """Draw animals in front of patches of colour, with a few strokes on object and background.

    Object and background consist of patches of random colours, under a light
    that changes across the image, slightly out of focus and with noise: harder than one colour
    against another, easier than a photograph.

    Parameters
    ----------
    n_samples : int, default=4
        Number of scenes.
    shape : tuple of two ints, default=(120, 160)
        Height and width in pixels, each at least 16.
    seed : int, numpy Generator or None, default=0
        Where the randomness comes from. Scene i does not depend on how many there are.

    Returns
    -------
    Scenes
        With `images`, `masks` and `scribbles`.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, masks, scribbles = ls.make_scenes(2, shape=(32, 48), seed=0)
    >>> images.shape, images.dtype, sorted(set(scribbles.ravel().tolist()))
    ((2, 32, 48, 3), dtype('uint8'), [0, 1, 2])
    """
    animals, paint = as_generator(seed).spawn(2)
    masks = make_silhouettes(n_samples, shape, animals)
    images = np.empty((*masks.shape, 3), dtype=np.uint8)
    scribbles = np.empty(masks.shape, dtype=np.uint8)
    for i, (mask, rng) in enumerate(zip(masks, paint.spawn(len(masks)), strict=True)):
        images[i] = _paint(mask, rng)
        scribbles[i] = draw_scribbles(mask, rng)
    return Scenes(images, masks, scribbles)


def _paint(mask: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    side = min(mask.shape)
    colours = _colours(rng)
    parts = [_patches(mask.shape, own, 0.25 * side, rng) for own in np.split(colours, _PATCHES[:1])]
    picture = np.where(mask[..., None] == 1, *parts)
    rows, columns = (np.linspace(-0.5, 0.5, size) for size in mask.shape)
    slope = rng.normal(0.0, 0.25, size=2)
    light = 1.0 + slope[0] * rows[:, None] + slope[1] * columns
    picture = gaussian_filter(picture * light[..., None], (0.6, 0.6, 0.0))
    picture += rng.normal(0.0, _NOISE, size=picture.shape)
    return np.asarray(np.round(255.0 * np.clip(picture, 0.0, 1.0)), dtype=np.uint8)


def _colours(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return colours of the patches, first the object's, none of them too near the background's."""
    first = _PATCHES[0]
    while True:
        colours = rng.uniform(0.1, 0.9, size=(sum(_PATCHES), 3))
        apart = np.linalg.norm(colours[:first, None] - colours[None, first:], axis=-1)
        if apart.min() > _APART:
            return colours


def _patches(
    shape: tuple[int, ...],
    colours: NDArray[np.float64],
    width: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return an image of patches, each the place where its own random surface is the highest."""
    surfaces = gaussian_filter(rng.normal(size=(len(colours), *shape)), (0.0, width, width))
    texture = gaussian_filter(rng.normal(size=shape), 1.0)
    return np.asarray(colours[surfaces.argmax(axis=0)] + 0.05 * texture[..., None] / texture.std())
