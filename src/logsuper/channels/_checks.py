"""Checks of what channels are given: observations, labels, rates, groups, counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import (
    FloatArray,
    IntArray,
    as_array,
    as_list,
    as_numeric,
    check_size,
    entry,
    first_index,
    frozen,
)

LEAST_APART = 1e-6
"""Below this difference between the two laws of an observation, dividing by it only makes noise."""


def refuse(bad: NDArray[np.bool_], array: NDArray[Any], name: str, why: str) -> None:
    """Raise a ValueError that names the first entry marked as bad."""
    if bad.any():
        index = first_index(bad)
        raise ValueError(f"{entry(name, index)} = {array[index]:g} {why}")


def as_kind(values: ArrayLike, name: str, kinds: str, wanted: str) -> NDArray[Any]:
    """Return an array whose dtype is of one of some kinds."""
    array = as_array(values, name)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must {wanted}, got dtype {array.dtype}")
    return array


def as_observed(observed: ArrayLike, name: str = "observed") -> FloatArray:
    """Return an observation as float64, with NaN where it is masked; refuse infinities."""
    if isinstance(observed, np.ma.MaskedArray):
        observed = np.ma.filled(observed.astype(np.float64), np.nan)
    array = as_kind(observed, name, "biuf", "hold real numbers").astype(np.float64, copy=False)
    infinite = np.isinf(array)
    if infinite.any():
        raise ValueError(f"{entry(name, first_index(infinite))} is infinite; NaN means missing")
    return array


def as_labels(x: ArrayLike) -> FloatArray:
    """Return 0 and 1 as float64."""
    array = as_kind(x, "x", "biuf", "hold 0 and 1").astype(np.float64)
    refuse((array != 0) & (array != 1), array, "x", "is neither 0 nor 1")
    return array


def as_rates(rate: ArrayLike, name: str) -> FloatArray:
    """Return probabilities as a read-only float64 array."""
    rates = as_kind(rate, name, "iuf", "be a probability, or an array of them").astype(np.float64)
    refuse(~((rates >= 0) & (rates <= 1)), rates, name, "is not a probability in [0, 1]")
    return frozen(rates)


def as_means(mean: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return probabilities, one per entry of an observation."""
    means = np.asarray(as_numeric(mean, "mean"), dtype=np.float64)
    if means.shape != shape:
        raise ValueError(f"mean has shape {means.shape}, but observed {shape}")
    refuse(~((means >= 0) & (means <= 1)), means, "mean", "is not a probability in [0, 1]")
    return means


def as_groups(groups: ArrayLike, rate: FloatArray) -> IntArray:
    """Return the group of each element, an index into the rates."""
    array = as_kind(groups, "groups", "iu", "hold integers").astype(np.int64)
    if rate.ndim != 1:
        raise ValueError(f"rate must have one entry per group, got shape {rate.shape}")
    outside = (array < 0) | (array >= len(rate))
    refuse(outside, array, "groups", f"is not the index of one of the {len(rate)} rates")
    return frozen(array)


def as_counts(counts: ArrayLike, size: int) -> FloatArray:
    """Return a sum of what `count` returned."""
    array = np.asarray(as_numeric(counts, "counts"), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(
            f"counts must be {size} finite numbers, the sum of what count() of this channel "
            f"returned; got shape {array.shape}"
        )
    return array


def as_shape(shape: object) -> tuple[int, ...]:
    """Return the lengths of the axes of an array that fits into memory."""
    lengths = as_list(shape, "shape", "a tuple of integers")
    sizes = tuple(check_size(length, f"shape[{k}]") for k, length in enumerate(lengths))
    if math.prod(sizes) >= 2**59:
        raise ValueError(f"shape = {sizes} has more entries than memory can hold")
    return sizes


def broadcast(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Return one value per entry; values in the shape of an image also fit its flat form."""
    if values.ndim > 1 and shape == (values.size,):
        values = values.ravel()
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {values.shape}, which does not fit the observed {shape}"
        ) from None


def short(values: FloatArray) -> str:
    """Return a number, or how many there are."""
    return f"{float(values):g}" if values.ndim == 0 else f"<{values.size} rates>"
