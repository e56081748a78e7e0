"""Pixels of noisy images by what they and their neighbours show.

The neighbours come in opposite pairs, and all that is kept of a pair is how many of the two are 1.
So a pixel belongs to one of 2 * 3**P classes. In an image of two dimensions P = 4: the eight
neighbours; where many pixels are missing P = 2: those along the axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, beat
from logsuper.learning._examples import UNKNOWN, Codes

# Most pairs of a neighbourhood: 162 classes.
_PAIRS = 4
# How many times as many pixels must fit before a smaller neighbourhood is used: a line separates
# thin places from noise much worse than the others.
_TIMES = {"cross": 2, "chain": 8}
# Pixels per piece, and the maximum number of pieces that a variance is estimated from.
_PIECE = 1 << 17
_PIECES = 2

Offset = tuple[int, ...]


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


def choose(images: Codes) -> Neighbourhood | None:
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


def count(images: Codes, around: Neighbourhood) -> IntArray:
    """Count the pixels of each class whose neighbours were all observed."""
    total = np.zeros(around.classes, dtype=np.int64)
    for piece in _pieces(images, around):
        codes = _encode(piece, around)
        total += np.bincount(codes.ravel(), minlength=around.classes + 1)[:-1]
    return total


def variance(images: Codes, around: Neighbourhood, scores: FloatArray) -> FloatArray:
    """Estimate the covariance (P, P) of sums over the pixels of their scores (P, classes).

    Scores of pixels that share no neighbour are independent and have the mean 0, so that the
    products of all other pairs have all of it.
    """
    pieces = list(_pieces(images, around))
    used = pieces[:: -(-len(pieces) // _PIECES)]
    padded = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1).astype(np.float32)
    total = np.zeros((len(scores), len(scores)))
    for piece in used:
        beat()
        fields = padded[:, _encode(piece, around)]
        total += _products(fields, fields)
        for lag in _overlaps(around):
            here = [slice(max(0, -step), -step if step > 0 else None) for step in lag]
            there = [slice(max(0, step), step if step < 0 else None) for step in lag]
            product = _products(fields[:, :, *here], fields[:, :, *there])
            total += product + product.T
    size = sum(piece.size for piece in pieces)
    return total * (size / max(1, sum(piece.size for piece in used)))


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


def _pieces(images: Codes, around: Neighbourhood) -> Iterator[Codes]:
    """Yield parts of the images, each pixel the middle of a neighbourhood in one of them."""
    size = max(1, images[0].size) if len(images) else 1
    if size <= _PIECE:
        step = max(1, _PIECE // size)
        for k in range(0, len(images), step):
            beat()
            yield images[k : k + step]
        return
    reach = around.reach[0]
    rows = max(1, _PIECE // max(1, images[0, :1].size))
    for k in range(len(images)):
        for first in range(0, images.shape[1] - 2 * reach, rows):
            beat()
            yield images[k : k + 1, first : first + rows + 2 * reach]


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
