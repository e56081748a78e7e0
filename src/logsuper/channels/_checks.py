"""What is given to channels, checked: observations, labels, rates, groups, counts."""

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
    first_index,
    frozen,
)

__all__ = [
    "LEAST_APART",
    "as_counts",
    "as_groups",
    "as_labels",
    "as_observed",
    "as_rates",
    "as_shape",
    "broadcast",
    "short",
]

LEAST_APART = 1e-6
"""Below this difference between the two laws of an observation, dividing by it only makes noise."""


def as_observed(observed: ArrayLike) -> FloatArray:
    """Return an observation as float64 with NaN where it is masked; refuse infinities."""
    if isinstance(observed, np.ma.MaskedArray):
        observed = np.ma.filled(observed.astype(np.float64), np.nan)
    array = as_array(observed, "observed")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"observed must hold real numbers, got dtype {array.dtype}")
    array = np.asarray(array, dtype=np.float64)
    infinite = np.isinf(array)
    if infinite.any():
        index = first_index(infinite)
        raise ValueError(f"observed[{', '.join(map(str, index))}] is infinite; NaN means missing")
    return array


def as_labels(x: ArrayLike) -> FloatArray:
    array = as_array(x, "x")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"x must hold 0 and 1, got dtype {array.dtype}")
    bad = (array != 0) & (array != 1)
    if bad.any():
        index = first_index(bad)
        raise ValueError(f"x[{', '.join(map(str, index))}] = {array[index]} is neither 0 nor 1")
    return array.astype(np.float64)


def as_rates(rate: ArrayLike, name: str) -> FloatArray:
    array = as_array(rate, name)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a probability, or an array of them")
    rates = np.array(array, dtype=np.float64)
    bad = ~((rates >= 0) & (rates <= 1))
    if bad.any():
        index = first_index(bad)
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise ValueError(f"{name}{place} = {rates[index]:g} is not a probability in [0, 1]")
    return frozen(rates)


def as_groups(groups: ArrayLike, rate: FloatArray) -> IntArray:
    array = as_array(groups, "groups")
    if array.dtype.kind not in "iu":
        raise TypeError(f"groups must hold integers, got dtype {array.dtype}")
    if rate.ndim != 1:
        raise ValueError(f"rate must have one entry a group, got shape {rate.shape}")
    bad = (array < 0) | (array >= len(rate))
    if bad.any():
        index = first_index(bad)
        place = ", ".join(map(str, index))
        raise ValueError(
            f"groups[{place}] = {array[index]} is not the index of one of the {len(rate)} rates"
        )
    return frozen(array.astype(np.int64))


def as_counts(counts: ArrayLike, size: int) -> FloatArray:
    array = np.asarray(as_numeric(counts, "counts"), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(
            f"counts must be {size} finite numbers, the sum of what count() of this channel "
            f"returned; got shape {array.shape}"
        )
    return array


def as_shape(shape: object) -> tuple[int, ...]:
    """Return the lengths of the axes of an array that there can be."""
    lengths = as_list(shape, "shape", "a tuple of integers")
    sizes = tuple(check_size(length, f"shape[{k}]") for k, length in enumerate(lengths))
    if math.prod(sizes) >= 2**59:
        raise ValueError(f"shape = {sizes} has more entries than memory can hold")
    return sizes


def broadcast(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Return the values for each entry; an image's worth of them also fits its flat form."""
    if values.ndim > 1 and shape == (values.size,):
        values = values.ravel()
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {values.shape}, which does not fit the observed {shape}"
        ) from None


def short(values: FloatArray) -> str:
    return f"{float(values):g}" if values.ndim == 0 else f"<{values.size} rates>"
