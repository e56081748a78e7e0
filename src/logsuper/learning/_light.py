r"""Uneven light, found in the residual noise inside regions.

A residual r is an observation inside of a region less the mean of its label, over the deviation of
that. Under even light its mean is 0 at every place. Here its means over blocks of an image are
compared with a smooth surface for each label, a quadratic polynomial of the place u in
:math:`[-1,1]^d`,

.. math:: \bar r_b\approx s_x(u_b)=a_x+b_x^\top u_b+u_b^\top C_xu_b,

by the F statistic: what the surfaces explain of :math:`\sum_bn_b\bar r_b^2` per coefficient, over
what they leave per spare block. Blocks, not pixels, are compared, so noise that is correlated over
less than a block is not taken for light: it scatters the means about the surface as much. The share
of the variance of residuals that the surfaces explain, less that expected by chance, decides.

A surface in the residuals is light only if the image itself varies as much. Where a wide blur was
subtracted from it, it does not, and the surface is the halo of the mask in that blur.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from logsuper._base import FloatArray

# Share of the variance of residuals, and chance, at which a surface is light; least deviation of
# the image's own surface, in that of the residuals: halos of masks reach .8 of it, light is at 1.
_SHARE, _CHANCE, _OWN = 0.1, 1e-6, 0.85
# Blocks along the shorter side of an image; least and largest side of a block; least pixels of one.
_BLOCKS, _SIDES, _FILLED = 8, (8, 64), 8
# Blocks per coefficient of a surface.
_SUPPORT = 3


class Place(NamedTuple):
    """Where an example was cut out.

    Attributes
    ----------
    image : int
        Number of the image.
    origin : tuple of int
        The first pixel, in the image.
    shape : tuple of int
        Of the whole image.

    Examples
    --------
    >>> from logsuper.learning import Place
    >>> Place(image=0, origin=(64, 0), shape=(200, 300)).origin
    (64, 0)
    """

    image: int
    origin: tuple[int, ...]
    shape: tuple[int, ...]


class Extreme(NamedTuple):
    """Where the light is weakest or strongest.

    Attributes
    ----------
    value : float
        In standard deviations of the residuals.
    image : int
        Number of the image.
    at : tuple of int
        The pixel, in the whole image.
    """

    value: float
    image: int
    at: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Light:
    """Light that is not even.

    Attributes
    ----------
    share : float
        Of the variance of residuals that it explains.
    lowest, highest : Extreme
    left : list of ndarray
        The residuals without it.
    """

    share: float
    lowest: Extreme
    highest: Extreme
    left: list[FloatArray]


def find_light(
    residuals: Sequence[FloatArray],
    labels: Sequence[NDArray[Any]],
    places: Sequence[Place],
    mean: FloatArray,
    deviation: FloatArray,
) -> Light | None:
    """Return the light that residuals show, None where it is even.

    Parameters
    ----------
    residuals : sequence of arrays
        NaN where there is none.
    labels : sequence of arrays of 0 and 1
    places : sequence of Place
    mean, deviation : ndarray of shape (2,)
        Of the grey levels of each label.
    """
    examples = list(zip(residuals, labels, places, strict=True))
    parts: dict[int, list[_Blocks]] = {}
    for r, x, place in examples:
        parts.setdefault(place.image, []).append(_average(r, x, place))
    images = {image: _fit_labels(_join(several)) for image, several in parts.items()}
    share = _share(list(images.values()), mean, deviation)
    if not share:
        return None
    left = [_without(r, x, place, images[place.image].surfaces) for r, x, place in examples]
    shapes = {place.image: place.shape for place in places}
    low, high = (_extreme(sign, images, shapes) for sign in (-1.0, 1.0))
    return Light(share, low, high, left)


# ------------------------------------------------------------------------------------------ inside


class _Blocks(NamedTuple):
    """Means of the residuals of an image over blocks, one row per block and label."""

    label: NDArray[np.int64]
    place: FloatArray  # (rows, axes)
    pixels: FloatArray
    mean: FloatArray


class _Fitted(NamedTuple):
    """The blocks of an image, the surface of each label, and its height at the blocks."""

    blocks: _Blocks
    surfaces: tuple[FloatArray, ...]
    height: FloatArray


def _average(r: FloatArray, x: NDArray[Any], place: Place) -> _Blocks:
    """Return the blocks of an example."""
    side = float(np.clip(min(place.shape) / _BLOCKS, *_SIDES))
    number = np.zeros(r.shape, dtype=np.int64)
    for axis, length in enumerate(r.shape):
        pieces = max(1, round(length / side))
        piece = np.arange(length) * pieces // length
        number = number * pieces + piece.reshape([-1 if k == axis else 1 for k in range(r.ndim)])
    row = 2 * number + (x == 1)
    seen = ~np.isnan(r)
    where = _positions(r.shape, place)[seen]
    row, size = row[seen], 2 * int(number.max()) + 2
    count = np.bincount(row, minlength=size).astype(np.float64)
    sums = [np.bincount(row, values, size) for values in (r[seen], *where.T)]
    filled = np.flatnonzero(count >= _FILLED)
    mean, *centre = (total[filled] / count[filled] for total in sums)
    return _Blocks(filled % 2, np.stack(centre, axis=1), count[filled], mean)


def _positions(shape: tuple[int, ...], place: Place) -> FloatArray:
    """Return the place of each pixel, from -1 to 1 across the whole image: (..., axes)."""
    axes = [
        2.0 * (first + np.arange(length)) / max(whole - 1, 1) - 1.0
        for first, length, whole in zip(place.origin, shape, place.shape, strict=True)
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def _join(parts: list[_Blocks]) -> _Blocks:
    return _Blocks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _terms(place: FloatArray) -> FloatArray:
    """Return 1, the coordinates, and their products: (rows, coefficients)."""
    axes = range(place.shape[1])
    pairs = itertools.combinations_with_replacement(axes, 2)
    columns = [np.ones(len(place)), *place.T, *(place[:, i] * place[:, j] for i, j in pairs)]
    return np.stack(columns, axis=1)


def _fit(blocks: _Blocks, values: FloatArray, mine: NDArray[np.bool_]) -> FloatArray:
    """Return the coefficients of a surface, as many as there are blocks for; none without any."""
    terms, axes = _terms(blocks.place[mine]), blocks.place.shape[1]
    sizes = (terms.shape[1], 1 + axes, 1)
    size = next((k for k in sizes if len(terms) >= _SUPPORT * k), 0)
    if not size:
        return np.zeros(0)
    weight = np.sqrt(blocks.pixels[mine])
    found = np.linalg.lstsq(terms[:, :size] * weight[:, None], values[mine] * weight, rcond=None)
    return np.asarray(found[0])


def _height(surface: FloatArray, place: FloatArray) -> FloatArray:
    return np.asarray(_terms(place)[:, : surface.size] @ surface)


def _fit_labels(blocks: _Blocks) -> _Fitted:
    """Return the surface of the residuals of each label."""
    surfaces = tuple(_fit(blocks, blocks.mean, blocks.label == value) for value in (0, 1))
    zero, one = (_height(surface, blocks.place) for surface in surfaces)
    return _Fitted(blocks, surfaces, np.where(blocks.label == 1, one, zero))


def _share(images: list[_Fitted], mean: FloatArray, deviation: FloatArray) -> float:
    """Return the share of the variance of residuals that is light."""
    every = _join([image.blocks for image in images])
    height = np.concatenate([image.height for image in images])
    count, pixels = every.pixels, float(every.pixels.sum())
    used = sum(surface.size for image in images for surface in image.surfaces)
    # the mean of each label was subtracted before
    free, spare = used - len(np.unique(every.label)), len(count) - used
    if free < 1 or spare < 1:
        return 0.0
    explained = float(count @ (every.mean**2 - (every.mean - height) ** 2))
    scatter = float(count @ (every.mean - height) ** 2) / spare
    share = max(explained - free * scatter, 0.0) / pixels
    chance = fdtrc(free, spare, explained / free / scatter) if scatter > 0.0 else 0.0
    if share <= _SHARE or chance >= _CHANCE:
        return 0.0
    # the surface of the grey levels of each image, without regard to labels
    surfaces = []
    for blocks, _, _ in images:
        grey = mean[blocks.label] + deviation[blocks.label] * blocks.mean
        surfaces.append(_height(_fit(blocks, grey, np.full(len(grey), True)), blocks.place))
    own = np.concatenate(surfaces)
    varies = float(count @ (own - count @ own / pixels) ** 2)
    least = _OWN**2 * float(count @ (deviation[every.label] * height) ** 2)
    return share if varies > least else 0.0


def _without(
    r: FloatArray, x: NDArray[Any], place: Place, surfaces: tuple[FloatArray, ...]
) -> FloatArray:
    """Return residuals less the surface of their label."""
    left, where = r.copy(), _positions(r.shape, place)
    for value, surface in enumerate(surfaces):
        mine = (x == value) & ~np.isnan(r)
        left[mine] -= _height(surface, where[mine])
    return left


def _extreme(
    sign: float, images: dict[int, _Fitted], shapes: dict[int, tuple[int, ...]]
) -> Extreme:
    """Return the lowest block for sign -1, the highest for 1."""
    image = max(images, key=lambda k: float((sign * images[k].height).max(initial=-np.inf)))
    blocks, _, height = images[image]
    row = int(np.argmax(sign * height))
    at = (blocks.place[row] + 1.0) / 2.0 * (np.array(shapes[image]) - 1)
    return Extreme(float(height[row]), image, tuple(np.rint(at).astype(int).tolist()))
