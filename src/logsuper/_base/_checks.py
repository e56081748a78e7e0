"""Argument checks shared by all rooms: one clear error, before any work."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base._types import BoolArray, FloatArray, IntArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


# Number of elements that a ground set must stay below: kernels index elements with 32-bit integers,
# and n**2 must be below 2**63.
_MAX_SIZE = 2**31


def check_size(n: object, name: str = "n") -> int:
    """Return a ground-set size as an ``int`` in ``[0, 2**31)``."""
    size = check_natural(n, name)
    if size >= _MAX_SIZE:
        raise ValueError(f"{name} must be below 2**31, the limit on elements, got {size}")
    return size


def check_natural(n: object, name: str) -> int:
    """Return an ``int >= 0``."""
    try:
        size = operator.index(n)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(n).__name__}") from None
    if size < 0:
        raise ValueError(f"{name} must be at least 0, got {size}")
    return size


def check_number(value: object, name: str) -> float:
    """Return a finite real number as a ``float``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise raise an error that lists them."""
    listed = tuple(choices)
    if not isinstance(value, str) or value not in listed:
        raise ValueError(f"{name} must be one of {', '.join(listed)}, got {value!r}")
    return value


def check_flag(value: object, name: str) -> bool:
    """Return a ``bool``; other types, including integers, are refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def check_callback(callback: object) -> None:
    """Raise a TypeError unless `callback` is None or callable."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None, got {type(callback).__name__}")


def check_confidence(confidence: object) -> float:
    """Return a probability strictly between 0 and 1."""
    level = check_number(confidence, "confidence")
    if not 0.0 < level < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {level:g}")
    return level


def check_budget(budget: object) -> float:
    """Return a number of operations, which must be positive."""
    number = check_number(budget, "budget")
    if number <= 0:
        raise ValueError(f"budget must be a positive number of operations, got {number:g}")
    return number


def as_float(values: ArrayLike, name: str) -> FloatArray:
    """Return a new float64 array of finite numbers; the error names the first other entry."""
    raw = as_numeric(values, name)
    array = np.array(raw, dtype=np.float64)
    refuse(~np.isfinite(array), array, name, "is not finite", " ")
    return array


def as_vector(values: ArrayLike, name: str, size: int | None = None) -> FloatArray:
    """Return a new finite float64 vector; with `size`, a scalar is repeated to that length."""
    array = as_float(values, name)
    if size is not None and array.ndim == 0:
        return np.full(size, float(array))
    if array.ndim != 1 or (size is not None and len(array) != size):
        wanted = "one-dimensional" if size is None else f"a number or of shape ({size},)"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    return array


def refuse_negative(values: FloatArray, name: str, why: str) -> None:
    """Raise a ValueError for the first negative entry; `why` is the reason in the message."""
    refuse(values < 0, values, name, f"is negative: {why}", " ")


def as_indices(values: ArrayLike, n: int, name: str) -> IntArray:
    """Return an int64 array of element indices, each in ``[0, n)``."""
    raw = as_array(values, name)
    if raw.size == 0:
        return np.empty(raw.shape, dtype=np.int64)
    if raw.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer indices, got dtype {raw.dtype}")
    outside = (raw < 0) | (raw >= n)
    if outside.any():
        index = first_index(outside)
        raise ValueError(f"{entry(name, index)} = {raw[index]} is outside [0, {n})")
    return np.array(raw, dtype=np.int64)


def as_members(values: ArrayLike, n: int, name: str) -> IntArray:
    """Return distinct element indices, in the order given."""
    members = as_indices(values, n, name)
    if members.ndim != 1:
        raise ValueError(f"{name} must be a flat list of elements, got shape {members.shape}")
    if len(np.unique(members)) < len(members):
        order = np.sort(members)
        twice = order[1:][order[1:] == order[:-1]][0]
        raise ValueError(f"{name} contains {twice} twice")
    return members


def is_single(value: Any) -> bool:
    """Return whether `value` is a scalar or a zero-dimensional array."""
    return np.isscalar(value) or getattr(value, "ndim", 1) == 0


def as_hyperedges(members: list[Any], n: int) -> list[IntArray]:
    """Return one or several sets of elements as a list of index arrays.

    ``[0, 1, 2]`` is one set; ``[[0, 1], [1, 2, 3]]`` is two sets.
    """
    if members and all(is_single(group) for group in members):
        return [as_members(members, n, "members")]
    return [as_members(group, n, f"members[{k}]") for k, group in enumerate(members)]


def as_list(values: Any, name: str, wanted: str) -> list[Any]:
    """Return an iterable as a list; Python sets, nested ones too, become sorted lists."""
    try:
        parts = list(values)
    except TypeError:
        raise TypeError(f"{name} must be {wanted}, got {type(values).__name__}") from None
    parts = [_in_order(part) if isinstance(part, Set) else part for part in parts]
    return _in_order(parts) if isinstance(values, Set) else parts


def _in_order(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # entries that are not numbers; the later check of entries reports them
        return list(values)


def check_binary(X: ArrayLike, n: int) -> NDArray[Any]:
    """Check that X has shape (..., n) and 0/1 entries; keep its dtype."""
    array = as_numeric(X, "X")
    _check_last_axis(array, n, "X")
    if array.dtype.kind != "b":
        refuse((array != 0) & (array != 1), array, "X", "is neither 0 nor 1", " ")
    return array


def check_field(w: ArrayLike, n: int) -> FloatArray:
    """Check that w has shape (..., n) and finite entries."""
    array = as_float(w, "w")
    _check_last_axis(array, n, "w")
    return array


def check_probabilities(q: ArrayLike, n: int, name: str = "q") -> FloatArray:
    """Check that q has shape (..., n) and entries in [0, 1]."""
    array = as_float(q, name)
    _check_last_axis(array, n, name)
    refuse((array < 0) | (array > 1), array, name, "is not a probability", " ")
    return array


def _check_last_axis(array: NDArray[Any], n: int, name: str) -> None:
    if array.ndim == 0 or array.shape[-1] != n:
        raise ValueError(f"{name} must have shape (..., {n}), got {array.shape}")


def check_fixed(fixed: Mapping[int, int], n: int) -> tuple[IntArray, FloatArray]:
    """Return the fixed elements in increasing order and their values."""
    if not isinstance(fixed, Mapping):
        raise TypeError(
            f"fixed must map elements to 0 or 1, as in {{3: 1}}, got {type(fixed).__name__}"
        )
    for index, value in fixed.items():
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise TypeError(f"fixed has the key {index!r}, which is not an element index")
        if not 0 <= index < n:
            raise ValueError(f"fixed has the key {index}, outside the ground set [0, {n})")
        if not is_bit(value):
            raise ValueError(f"fixed[{index}] = {value!r} is neither 0 nor 1")
    elements = np.array(sorted(int(index) for index in fixed), dtype=np.int64)
    return elements, np.array([float(fixed[int(i)]) for i in elements], dtype=np.float64)


def is_bit(value: Any) -> bool:
    """Return whether the value is the number 0 or 1 (False for arrays with axes)."""
    try:
        return getattr(value, "ndim", 0) == 0 and bool(value in (0, 1))
    except (TypeError, ValueError):
        return False


def arrays_in(value: object) -> list[NDArray[Any]]:
    """Return the arrays in the value of an attribute: itself, or the entries of a tuple."""
    parts = value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, np.ndarray)]


def frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Mark an array as read-only and return it; used for arrays that immutable objects own."""
    array.flags.writeable = False
    return array


def add_up(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return an array of length `size` whose entry i is the sum of the values with index i."""
    return np.asarray(np.bincount(index, values, minlength=size), dtype=np.float64)


def places_of(elements: IntArray, n: int) -> IntArray:
    """Return, for each of n elements, its place in a list of distinct ones; -1 if not in it."""
    place = np.full(n, -1, dtype=np.int64)
    place[elements] = np.arange(len(elements))
    return place


def first_appearances(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Return where the distinct keys appear first, in that order, and which of them each key is."""
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], places_of(order, len(order))[which.ravel()]


def first_index(mask: BoolArray) -> tuple[int, ...]:
    """Return the index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(int(mask.argmax()), mask.shape))


def as_numeric(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of booleans or real numbers; masked entries are refused."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; fill them first")
    array = as_array(values, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``np.asarray(values)``; refuse rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a rectangular array of numbers") from None


def entry(name: str, index: tuple[int, ...]) -> str:
    """Return the text for an entry of an argument, such as ``name[2, 3]``."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def as_floats(values: ArrayLike, name: str) -> FloatArray:
    """Return a contiguous float64 array, copied only if needed; NaN and infinity are allowed."""
    return np.asarray(as_numeric(values, name), dtype=np.float64, order="C")


def refuse(bad: BoolArray, values: NDArray[Any], name: str, why: str, link: str = ": ") -> None:
    """Raise a ValueError that names the first entry for which `bad` is true."""
    if bad.any():
        index = first_index(bad)
        raise ValueError(f"{entry(name, index)} = {values[index]:g}{link}{why}")


def check_integer(value: Any, name: str, low: int, high: int) -> int:
    """Return an integer in [low, high)."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = int(value)
    if not low <= number < high:
        raise ValueError(f"{name} must be at least {low} and below {high}, got {number}")
    return number
