"""How the arguments of a kernel call are broken."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INTEGERS = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64]
_OBJECTS = [None, "text", b"bytes", 1.5, [], [1, 2], {}, object(), np.float64(2), True, 1j]
_NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 1e-300, 1e19, 2.0**62]
_TYPES = "f4 f8 >f8 f2 i1 i4 i8 u1 u4 u8 ? c16 O U3 M8[s]".split()


def mutate(rng: np.random.Generator, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which one to three are broken."""
    broken = dict(arguments)
    for _ in range(rng.integers(1, 4)):
        if broken:
            name = str(rng.choice(list(broken)))
            broken[name] = _break(rng, broken[name])
    return broken


def _break(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, np.ndarray) and rng.random() < 0.85:
        return _break_array(rng, value)
    if isinstance(value, list) and value and isinstance(value[0], tuple) and rng.random() < 0.85:
        place = rng.integers(len(value))
        item = list(value[place])
        part = rng.integers(len(item))
        item[part] = _break(rng, item[part])
        return [*value[:place], tuple(item), *value[place + 1 :]]
    if isinstance(value, float) and rng.random() < 0.7:
        return _NUMBERS[rng.integers(len(_NUMBERS))]
    if rng.random() < 0.5:
        return _INTEGERS[rng.integers(len(_INTEGERS))]
    return _OBJECTS[rng.integers(len(_OBJECTS))]


def _break_array(rng: np.random.Generator, array: NDArray[Any]) -> Any:
    """Return an array with a wrong shape, type, layout, content or permission."""
    how = rng.integers(11)
    if how == 0:
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return array.astype(_TYPES[rng.integers(len(_TYPES))])
    if how in (1, 2) and array.size and array.ndim:
        axis = int(rng.integers(array.ndim))
        return np.delete(array, 0, axis=axis) if how == 1 else np.repeat(array, 2, axis=axis)
    if how == 3:
        return array[None] if rng.integers(2) else array.ravel()
    if how == 4 and array.ndim:
        if rng.integers(2):
            return np.asfortranarray(array)
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if how == 5:
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    if how == 6 and array.size:
        copy = array.copy()
        pool = _INTEGERS if array.dtype.kind in "iu" else _NUMBERS
        with contextlib.suppress(OverflowError, ValueError, TypeError):
            copy.flat[rng.integers(array.size)] = pool[rng.integers(len(pool))]
        return copy
    if how == 7:
        return np.empty((0,) * array.ndim, array.dtype)
    if how == 8:
        return np.array(1, array.dtype)  # no axes at all
    if how == 9 and array.ndim:
        shape = list(array.shape)
        shape[rng.integers(array.ndim)] = int(rng.integers(0, 4))
        return np.zeros(shape, array.dtype)
    return np.lib.stride_tricks.as_strided(array, array.shape, (0,) * array.ndim)
