"""The size at which large images are learned from and decoded, and the way there and back.

A field couples neighbours, and its weights are learned from whole images or from windows of them.
Where an object is much larger than a window, neighbours nearly always agree: nothing in a window
says how far an object reaches. Large images are therefore reduced until their objects fit into a
window. Images and masks are averaged; log-odds and masks of the reduced image are interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects, label
from scipy.sparse import csr_array

from logsuper._base import FloatArray, beat
from logsuper.estimators._common import check_count
from logsuper.estimators._crops import SIDE, is_large
from logsuper.estimators._field_samples import Sample, Samples
from logsuper.learning import shapes_of

__all__ = ["choose_size", "enlarge", "reduce", "reduce_mask", "reduce_samples", "reduced_shape"]

# Bytes of reduced images of files that are kept; others are reduced again for each use.
KEPT = 1 << 27
# The smallest longer side that can be asked for, in pixels.
_LEAST = 16
# Masks that the automatic choice looks at.
_LOOKED_AT = 64
# Least intersection over union of masks with themselves, reduced and brought back; where it is not
# reached, objects are too thin for the size, which is raised by this factor.
_KEPT, _RAISE = 0.9, 2**0.5


def choose_size(asked: Any, masks: Sequence[NDArray[Any]]) -> int | None:
    """Return the longer side to which larger images are reduced, or None."""
    if asked is None or masks[0].ndim == 1:
        return None
    if not isinstance(asked, str):
        return check_count(asked, "working_size", _LEAST)
    if asked != "auto":
        raise ValueError(f"working_size must be 'auto', a number of pixels or None, got {asked!r}")
    if masks[0].ndim != 2 or not is_large(masks):
        return None
    some = [masks[i] for i in np.linspace(0, len(masks) - 1, _LOOKED_AT).round().astype(int)]
    some = list({id(mask): mask for mask in some}.values())
    reach = [found for mask in some if (found := _reach(mask)) is not None]
    longest = max(map(max, shapes_of(masks)))
    size = SIDE[2] / float(np.median(reach)) if reach else np.inf
    while size < longest and _agreement(some, round(size)) < _KEPT:
        size *= _RAISE
    return round(size) if size < longest else None


def _reach(mask: NDArray[Any]) -> float | None:
    """Return the longer side of the box around an object, in parts of that of the image.

    It is a mean over all pixels of objects; None if there are none.
    """
    beat()
    regions, count = label(mask == 1)
    if not count:
        return None
    areas = np.bincount(regions.ravel())[1:]
    sides = [max(part.stop - part.start for part in box) for box in find_objects(regions)]
    return float(np.average(sides, weights=areas) / max(mask.shape))


def _agreement(masks: Sequence[NDArray[Any]], size: int) -> float:
    """Return the mean intersection over union of masks and what reducing them leaves of them."""
    found = []
    for mask in masks:
        small = reduce_mask(mask, reduced_shape(mask.shape, size))
        again = enlarge(np.nan_to_num(small), mask.shape) > 0.5
        either = np.count_nonzero((again | (mask == 1)) & (mask == mask))
        if either:
            found.append(np.count_nonzero(again & (mask == 1)) / either)
    return float(np.mean(found)) if found else 1.0


def reduced_shape(shape: tuple[int, ...], size: int | None) -> tuple[int, ...]:
    """Return the shape of an image whose longer side is not longer than `size`."""
    if size is None or max(shape) <= size:
        return shape
    return tuple(max(1, round(side * size / max(shape))) for side in shape)


def reduce_samples(samples: Samples, size: int | None) -> Samples:
    """Return samples with large images reduced; graphs, and small images, as they are."""
    if size is None or samples[0].edges is not None:
        return samples
    found = Samples()
    left = KEPT
    for sample in samples:
        shape = reduced_shape(sample.shape, size)
        if shape == sample.shape:
            found.append(sample)
            continue
        small = Reduced(sample, shape)
        left -= 8 * math.prod(small.shape)
        found.append(Sample(small if sample.stored and left < 0 else small.load(), shape))
    found.stacked = samples.stacked
    return found


class Reduced(NamedTuple):
    """A sample that is reduced again for each use."""

    sample: Sample
    size: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, with channels."""
        return *self.size, *self.sample.source.shape[len(self.size) :]

    def load(self) -> FloatArray:
        """Reduce the sample."""
        return reduce(self.sample.array, self.size)


def reduce(array: NDArray[Any], shape: tuple[int, ...]) -> FloatArray:
    """Return the means of an array over the cells of a coarser grid, along its first axes.

    A pixel on the border of two cells belongs to each in part. NaN is left out of a mean; a cell
    with nothing else is NaN.
    """
    beat()
    matrices = [_averages(old, new) for old, new in zip(array.shape, shape, strict=False)]
    values = array.astype(np.float64)
    unknown = np.isnan(values)
    if not unknown.any():
        return _transform(values, matrices)
    total = _transform(np.where(unknown, 0.0, values), matrices)
    share = _transform((~unknown).astype(np.float64), matrices)
    # shares that should be 0 are, as all terms are 0
    found = np.full(total.shape, np.nan)
    np.divide(total, share, out=found, where=share > 0)
    return found


def reduce_mask(mask: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the label of most of what is labelled in each cell: 0 or 1, or NaN if nothing is."""
    if shape == mask.shape:
        return mask
    share = reduce(mask, shape)
    unknown = np.isnan(share)
    bits = (share > 0.5).astype(np.uint8)
    return np.where(unknown, np.nan, bits) if unknown.any() else bits


def enlarge(array: NDArray[Any], shape: tuple[int, ...]) -> FloatArray:
    """Return an array interpolated linearly between the centres of its cells, to a finer grid."""
    beat()
    matrices = [_interpolation(old, new) for old, new in zip(array.shape, shape, strict=True)]
    return _transform(array.astype(np.float64), matrices)


def _transform(values: FloatArray, matrices: Sequence[csr_array]) -> FloatArray:
    """Multiply an array by a matrix along each of its first axes."""
    for axis, matrix in enumerate(matrices):
        front = np.moveaxis(values, axis, 0)
        rows = matrix @ front.reshape(front.shape[0], -1)
        values = np.moveaxis(rows.reshape(-1, *front.shape[1:]), 0, axis)
    return np.ascontiguousarray(values)


def _averages(old: int, new: int) -> csr_array:
    """Return the matrix (new, old) of means over cells of equal length."""
    ends = np.arange(new + 1) * (old / new)
    ends[-1] = old
    first = np.floor(ends[:-1]).astype(np.int64)
    last = np.minimum(np.ceil(ends[1:]).astype(np.int64), old)
    counts = last - first
    rows = np.repeat(np.arange(new), counts)
    columns = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
    inside = np.minimum(columns + 1, ends[rows + 1]) - np.maximum(columns, ends[rows])
    inside = np.maximum(inside, 0.0)
    weights = inside / np.bincount(rows, inside)[rows]
    return csr_array((weights, (rows, columns)), shape=(new, old))


def _interpolation(old: int, new: int) -> csr_array:
    """Return the matrix (new, old) of linear interpolation, constant beyond the outer centres."""
    place = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0.0, old - 1.0)
    left = np.minimum(place.astype(np.int64), max(old - 2, 0))
    right = np.minimum(left + 1, old - 1)
    rows = np.tile(np.arange(new), 2)
    weights = np.concatenate([1.0 - (place - left), place - left])
    return csr_array((weights, (rows, np.concatenate([left, right]))), shape=(new, old))
