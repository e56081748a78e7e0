"""Pixels of noisy images by what they and their neighbours show.

The neighbours come in opposite pairs, and all that is kept of a pair is how many of the two are 1.
So a pixel belongs to one of 2 * 3**P classes. In an image of two dimensions P = 4: the eight
neighbours; where many pixels are missing P = 2: those along the axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, beat
from logsuper.learning._examples import UNKNOWN, Codes
from logsuper.learning._lazy_images import LazyImages
from logsuper.learning._make_examples import as_codes

# Most pairs of a neighbourhood: 162 classes.
_PAIRS = 4
# How many times as many pixels must fit before a smaller neighbourhood is used: a line separates
# thin places from noise much worse than the others.
_TIMES = {"cross": 2, "chain": 8}
# Pixels per piece, and the maximum number of pieces that a variance is estimated from.
_PIECE = 1 << 17
_PIECES = 2

Offset = tuple[int, ...]


class LazyStack:
    """Images (N, ...) of one shape and of 0 and 1, which are read when parts are asked for."""

    def __init__(self, images: LazyImages, numbers: Sequence[int]) -> None:
        self.images, self.numbers = images, numbers
        self.shape = (len(numbers), *(images.shapes[numbers[0]] or (1,)))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: tuple[slice, ...]) -> Codes:
        first, *inside = place
        return np.stack([self._read(i)[tuple(inside)] for i in self.numbers[first]])

    def __iter__(self) -> Iterator[Codes]:
        return map(self._read, self.numbers)

    def _read(self, i: int) -> Codes:
        remedy = "grey levels need kind='gaussian'"
        return np.atleast_1d(as_codes(self.images[i], f"observed[{i}]", remedy))


Stack = Codes | LazyStack


class Neighbourhood(NamedTuple):
    """The neighbours that classify a pixel.

    Attributes
    ----------
    kind : {"box", "cross", "chain"}
        All neighbours in a plane, those along the axes, or the next two on a line.
    pairs : tuple of tuples of int
        The offset of one neighbour of each opposite pair.
    """

    kind: str
    pairs: tuple[Offset, ...]

    @property
    def classes(self) -> int:
        """Number of classes of pixels."""
        return int(2 * 3 ** len(self.pairs))

    @property
    def reach(self) -> Offset:
        """How far the neighbours lie along each axis."""
        return tuple(max(map(abs, steps)) for steps in zip(*self.pairs, strict=True))


def choose(images: Stack) -> Neighbourhood | None:
    """Return the neighbourhood to use in images (N, ...) of one shape, if one fits in."""
    shape = images.shape[1:]
    # the longest axes, in their order, of those that are long enough
    long = [axis for axis, size in enumerate(shape) if size > 2]
    axes = sorted(sorted(long, key=lambda axis: -shape[axis])[:_PAIRS])
    units = [tuple(int(a == axis) for a in range(len(shape))) for axis in axes]
    # from the most informative neighbourhood to the one that fits in most often
    fitting = []
    if len(units) == 2:
        down, right = (np.array(unit) for unit in units)
        diagonals = (tuple((down + sign * right).tolist()) for sign in (1, -1))
        fitting.append(Neighbourhood("box", (*units, *diagonals)))
    if len(units) > 1:
        fitting.append(Neighbourhood("cross", tuple(units)))
    if len(units) == 1 and shape[axes[0]] > 4:
        fitting.append(Neighbourhood("chain", (units[0], tuple(2 * step for step in units[0]))))
    fitting += [Neighbourhood("chain", (unit,)) for unit in units]
    if not fitting:
        return None
    if not any((piece == UNKNOWN).any() for piece in _pieces(images, fitting[0])):
        return fitting[0]
    seen = [int(count(images, each).sum()) for each in fitting]
    best = 0
    for k in range(1, len(fitting)):
        if seen[k] > _TIMES[fitting[k].kind] * seen[best]:
            best = k
    return fitting[best]


def count(images: Stack, around: Neighbourhood) -> IntArray:
    """Count the pixels of each class whose neighbours were all observed."""
    total = np.zeros(around.classes, dtype=np.int64)
    for piece in _pieces(images, around):
        codes = _encode(piece, around)
        total += np.bincount(codes.ravel(), minlength=around.classes + 1)[:-1]
    return total


def variance(images: Stack, around: Neighbourhood, scores: FloatArray) -> FloatArray:
    """Estimate the covariance (P, P) of sums over the pixels of their scores (P, classes).

    Scores of pixels that share no neighbour are independent and have the mean 0, so that the
    products of all other pairs have all of it.
    """
    places = list(_places(images.shape, around))
    used = places[:: -(-len(places) // _PIECES)]
    padded = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1).astype(np.float32)
    total = np.zeros((len(scores), len(scores)))
    for place in used:
        beat()
        fields = padded[:, _encode(images[place], around)]
        total += _products(fields, fields)
        for lag in _overlaps(around):
            here = [slice(max(0, -step), -step if step > 0 else None) for step in lag]
            there = [slice(max(0, step), step if step < 0 else None) for step in lag]
            product = _products(fields[:, :, *here], fields[:, :, *there])
            total += product + product.T
    size, some = (sum(_size(images.shape, each) for each in few) for few in (places, used))
    return total * (size / max(1, some))


def _products(first: NDArray[np.float32], second: NDArray[np.float32]) -> FloatArray:
    left, right = (fields.reshape(len(fields), -1) for fields in (first, second))
    return (left @ right.T).astype(np.float64)


def _overlaps(around: Neighbourhood) -> list[Offset]:
    """Return half of the lags at which two pixels have a neighbour in common, or are neighbours."""
    offsets = [np.zeros(len(around.pairs[0]), dtype=int)]
    for pair in around.pairs:
        offsets += [np.array(pair), -np.array(pair)]
    lags = {tuple((a - b).tolist()) for a in offsets for b in offsets}
    return sorted(lag for lag in lags if lag > tuple([0] * len(lag)))


def _pieces(images: Stack, around: Neighbourhood) -> Iterator[Codes]:
    """Yield parts of the images, each pixel the middle of a neighbourhood in one of them."""
    for place in _places(images.shape, around):
        beat()
        yield images[place]


def _places(shape: tuple[int, ...], around: Neighbourhood) -> Iterator[tuple[slice, ...]]:
    """Yield where these parts are: some images, or some rows of one."""
    size = max(1, math.prod(shape[1:]))
    if size <= _PIECE:
        step = max(1, _PIECE // size)
        for k in range(0, shape[0], step):
            yield (slice(k, k + step),)
        return
    reach = around.reach[0]
    rows = max(1, _PIECE // max(1, math.prod(shape[2:])))
    for k in range(shape[0]):
        for first in range(0, shape[1] - 2 * reach, rows):
            yield slice(k, k + 1), slice(first, first + rows + 2 * reach)


def _size(shape: tuple[int, ...], place: tuple[slice, ...]) -> int:
    """Return the number of pixels of a part."""
    sides = [len(range(n)[part]) for n, part in zip(shape, place, strict=False)]
    return math.prod(sides) * math.prod(shape[len(sides) :])


def _encode(images: Codes, around: Neighbourhood) -> NDArray[np.uint8]:
    """Return the class of each pixel inside, or the number of classes where one is missing."""
    sizes = list(zip(around.reach, images.shape[1:], strict=True))

    def shifted(*offset: int) -> Codes:
        steps = zip(sizes, offset, strict=True)
        return images[:, *(slice(r + step, size - r + step) for (r, size), step in steps)]

    codes = shifted(*[0] * len(sizes)).copy()
    seen: Any = codes != UNKNOWN
    for pair in around.pairs:
        ahead, behind = shifted(*pair), shifted(*(-step for step in pair))
        codes *= 3
        codes += ahead
        codes += behind
        seen &= (ahead != UNKNOWN) & (behind != UNKNOWN)
    codes[~seen] = around.classes
    return codes
