"""Images and rows: elements are numbered in row-major order of a shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base._checks import as_list, check_size


def check_shape(shape: Sequence[int], n: int) -> tuple[int, ...]:
    """Return a shape with n elements."""
    given: list[int] = as_list(shape, "shape", "a sequence of integers, as in (4, 5)")
    sizes = tuple(check_size(size, f"shape[{axis}]") for axis, size in enumerate(given))
    if math.prod(sizes) != n:
        raise ValueError(f"shape = {sizes} has {math.prod(sizes)} elements, but f has {n}")
    return sizes


def as_rows(images: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return images (..., *shape) as rows (..., n); arrays of other shapes are not changed."""
    array = np.asarray(images)
    lead = array.ndim - len(shape)
    if lead < 0 or array.shape[lead:] != shape:
        return array
    return array.reshape(*array.shape[:lead], math.prod(shape))


def by_number(fixed: Mapping[Any, int], shape: tuple[int, ...]) -> Mapping[int, int]:
    """Return values of elements by their numbers, where keys are numbers or places in a shape."""
    if not isinstance(fixed, Mapping):
        return fixed  # refused by `check_fixed`
    found: dict[Any, int] = {}
    for key, value in fixed.items():
        number = _number(key, shape) if isinstance(key, tuple) else key
        if number in found:
            raise ValueError(f"fixed has the element {key} twice")
        found[number] = value
    return found


def _number(place: tuple[Any, ...], shape: tuple[int, ...]) -> int:
    try:
        return int(np.ravel_multi_index(place, shape))
    except (TypeError, ValueError):
        raise ValueError(f"fixed has the key {place}, which is not a place in {shape}") from None
