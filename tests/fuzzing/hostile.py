"""Values that nobody asked for: wrong numbers, shapes, types and layouts, broken functions."""

from __future__ import annotations

import contextlib
import decimal
import fractions
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import logsuper as ls
from tests.fuzzing.outcomes import UserError
from tests.oracles import FAMILIES, BoltzmannMachine

Rng = np.random.Generator

NUMBERS = (
    *(float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 0.5, 2.0),
    *(5e-324, 1e-300, 1e-200, 1e16, 1e100, 1e200, -1e200, 1e300, -1e300, 1.7e308, -1.7e308),
)
INTEGERS = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30)
# How many of something: a legal number that only takes very long is no attack.
COUNTS = (-(10**30), -(2**63), -1, 0, 1, 2, 3, 2**63, 2**64, 10**30)
OBJECTS: tuple[Any, ...] = (
    *(None, True, False, "text", "", b"bytes", 1.5, 1j, [], (), {}, set(), [[]], [[1], [2, 3]]),
    *(object(), Ellipsis, slice(None), np, {0: 1}, {"a": 1}, range(3), [None], ["x"]),
    *(
        decimal.Decimal("0.1"),
        fractions.Fraction(1, 3),
        np.float32(0.1),
        np.int8(3),
        np.bool_(True),
    ),
    *(np.datetime64("2020-01-01"), np.ma.masked, np.array(1.0), np.array("x"), np.array(None)),
    *([float("nan")], [np.array([1.0]), np.array([1.0, 2.0])], [10**30], [2**63]),
)
WORDS = ("", "exact", "AUTO", "auto ", "ä", "[/x]", "min", "none", "\0", "x" * 1000)
TYPES = "f4 f8 >f8 f2 g i1 i4 i8 u1 u4 u8 >i4 ? c16 O U3 S3 M8[s] m8[s]".split()
# Arguments that say how many of something; their legal values are kept small.
COUNT_NAMES = frozenset(
    "n_samples n_prior_samples count counts steps max_iter sweeps burn_in thin chains n points "
    "batch blocks folds starts context budget memory memory_limit window limit train test "
    "neighbors".split()
)


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """Return one of some values."""
    return values[int(rng.integers(len(values)))]


def spoil(rng: Rng, name: str, value: Any) -> Any:
    """Return something else in the place of the argument `name` with the given value."""
    if rng.random() < 0.15:
        return pick(rng, OBJECTS)
    if isinstance(value, ls.SubmodularFunction):
        return hostile_function(rng, value.n)
    if isinstance(value, ls.Channel):
        return hostile_channel(rng)
    if isinstance(value, np.ndarray):
        return spoil_array(rng, value)
    if isinstance(value, bool):
        return pick(rng, OBJECTS)
    if isinstance(value, str):
        return pick(rng, WORDS)
    if isinstance(value, int | np.integer):
        if rng.random() < 0.3:
            return pick(rng, NUMBERS)
        return pick(rng, COUNTS if name in COUNT_NAMES else INTEGERS)
    if isinstance(value, float):
        return pick(rng, NUMBERS)
    if isinstance(value, dict) and value:
        return _spoil_dict(rng, value)
    if isinstance(value, list | tuple) and value:
        return _spoil_list(rng, name, value)
    if callable(value):
        return hostile_callable(rng)
    return pick(rng, OBJECTS)


def spoil_array(rng: Rng, array: np.ndarray) -> Any:
    """Return an array with other content, shape, type, layout or permission, or no array."""
    return pick(rng, (_other_numbers, _other_shape, _other_type, _other_layout))(rng, array)


def _other_numbers(rng: Rng, array: np.ndarray) -> Any:
    copy = array.astype(float) if array.dtype.kind in "biuf" and rng.integers(2) else array.copy()
    if not copy.size:
        return copy
    how = rng.integers(4)
    pool = NUMBERS if copy.dtype.kind == "f" else INTEGERS
    with contextlib.suppress(OverflowError, ValueError, TypeError), np.errstate(all="ignore"):
        if how == 0:
            copy[...] = pick(rng, pool)
        elif how == 1:
            copy.flat[rng.integers(copy.size)] = pick(rng, pool)
        elif how == 2 and copy.dtype.kind == "f":
            copy *= 10.0 ** int(rng.integers(-300, 301))
        elif how == 3 and copy.dtype.kind == "f":
            copy *= 10.0 ** rng.integers(-300, 301, copy.shape)
        else:
            copy.flat[rng.integers(copy.size)] *= -1
    return copy


def _other_shape(rng: Rng, array: np.ndarray) -> Any:
    axis = int(rng.integers(max(array.ndim, 1)))
    how = rng.integers(8)
    if how == 0 and array.size and array.ndim:
        return np.delete(array, 0, axis=axis)
    if how == 1 and array.ndim:
        return np.repeat(array, 2, axis=axis)
    if how == 2:
        return array[None]
    if how == 3:
        return array[..., None]
    if how == 4:
        return array.ravel()
    if how == 5 and array.size:
        return array.flat[0]
    if how == 6:
        return np.empty((0, *array.shape[1:]), array.dtype)
    return np.empty((*array.shape[:-1], 0), array.dtype)


def _other_type(rng: Rng, array: np.ndarray) -> Any:
    how = rng.integers(6)
    if how == 0:
        return np.ma.array(array, mask=rng.random(array.shape) < 0.3)
    if how == 1:
        return array.tolist()
    if how == 2 and array.ndim:
        return iter(array)
    with contextlib.suppress(TypeError, ValueError, RuntimeError), np.errstate(all="ignore"):
        return array.astype(pick(rng, TYPES))
    return array


def _other_layout(rng: Rng, array: np.ndarray) -> Any:
    how = rng.integers(6)
    if how == 0:
        return np.asfortranarray(array)
    if how == 1 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if how == 2:
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    if how == 3 and array.size:
        return np.lib.stride_tricks.as_strided(array, array.shape, (0,) * array.ndim)
    if how == 4 and array.ndim:
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    return (
        np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    )


def _spoil_dict(rng: Rng, value: dict[Any, Any]) -> Any:
    key = pick(rng, list(value))
    copy = dict(value)
    how = rng.integers(3)
    if how == 0:
        copy[key] = spoil(rng, str(key), value[key])
    elif how == 1:
        del copy[key]
    else:
        with contextlib.suppress(TypeError):  # not all can be keys
            copy[pick(rng, (*INTEGERS, *OBJECTS))] = copy.pop(key)
    return copy


def _spoil_list(rng: Rng, name: str, value: Sequence[Any]) -> Any:
    parts = list(value)
    how, place = rng.integers(5), int(rng.integers(len(parts)))
    if how <= 2:
        parts[place] = spoil(rng, name, parts[place])
    elif how == 3:
        del parts[place]
    else:
        parts.append(parts[place])
    return tuple(parts) if isinstance(value, tuple) and rng.integers(2) else parts


# ------------------------------------------------------------------------------- broken functions


def some_function(rng: Rng, n: int | None = None) -> ls.SubmodularFunction:
    """Return an honest function of a random family."""
    size = int(rng.integers(1, 8)) if n is None else n
    return FAMILIES[pick(rng, list(FAMILIES))](rng, size)


def hostile_function(rng: Rng, n: int) -> Any:
    """Return a function that is legal but extreme, or one that lies, or none."""
    how = int(rng.integers(8))
    if how == 0:
        return some_function(rng, n + 1)
    if how == 1:
        return ls.Modular(np.zeros(0))
    if how == 2:
        return _legal(lambda: 10.0 ** int(rng.integers(-300, 301)) * some_function(rng, n))
    if how == 3:
        edges = [(i, i + 1) for i in range(n - 1)]
        return _legal(lambda: ls.Cut(n, edges, 10.0 ** rng.integers(-300, 301, max(n - 1, 0))))
    if how == 4:
        return _legal(
            lambda: (
                some_function(rng, n)
                - ls.Modular(rng.normal(size=n) * 10.0 ** rng.integers(0, 308))
            )
        )
    if how == 5:
        return _legal(lambda: ls.SetFunction(hostile_callable(rng), n, check=False))
    if how == 6:
        return _legal(lambda: ls.SetFunction(_supermodular, n, check=False))
    return _legal(lambda: ls.Cut(n, [], []))


def _legal(make: Callable[[], Any]) -> Any:
    """Return what is made, or zero if that is refused."""
    try:
        with np.errstate(all="ignore"):
            return make()
    except (ValueError, TypeError, OverflowError, MemoryError, UserError):
        return ls.Modular([0.0])


def hostile_channel(rng: Rng) -> Any:
    """Return a channel at the edge of what is legal."""
    return pick(
        rng,
        (
            ls.Flips(0.0),
            ls.Flips(0.5),
            ls.Flips(5e-324),
            ls.Flips([0.1, 0.2]),
            ls.AsymmetricFlips(0.0, 0.0),
            ls.AsymmetricFlips(1e-300, 0.3),
            ls.Gaussian((0.0, 1e-300), 1e-300),
            ls.Gaussian((0.0, 1e150), 1.0),
            ls.Gaussian((0.0, 1.0), (1e-200, 1e100)),
            ls.Missing(0.5),
            ls.Missing(0.0, ls.Flips(0.1)),
            0.1,
            "flips",
            ls.Flips,
        ),
    )


def hostile_callable(rng: Rng) -> Callable[..., Any]:
    """Return a callable that returns what it should not, or raises."""
    return pick(
        rng,
        (
            _Returns(float("nan")),
            _Returns(float("inf")),
            _Returns(-1e300),
            _Returns(None),
            _Returns("text"),
            _Returns(1j),
            _Returns([]),
            _Returns([1.0, 2.0]),
            _Returns(np.zeros((2, 2))),
            _Raises(),
            _length,
        ),
    )


def _length(x: Any, *arguments: Any, **options: Any) -> int:
    return len(x)


def _supermodular(x: Any) -> float:
    return float(sum(x)) ** 2


def is_honest(f: ls.SubmodularFunction) -> bool:
    """Return whether f is known to be submodular: nobody checks what a callable says."""
    return all(
        not isinstance(atom, ls.SetFunction) or isinstance(atom.function, BoltzmannMachine)
        for _, atom in f.terms()
    )


class _Returns:
    """Returns the same whatever it is given."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.value

    def __repr__(self) -> str:
        return f"returns({self.value!r})"


class _Raises:
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise UserError("raised by the user's function")

    def __repr__(self) -> str:
        return "raises()"
