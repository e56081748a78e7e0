"""Checks of the solvers' arguments: one clear error, before any work."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import FloatArray, as_floats, refuse
from logsuper.solvers._noise import as_words


def check_theta(theta: ArrayLike, n: int, allow_nan: bool = False) -> tuple[FloatArray, bool]:
    """Return theta as (M, n) and whether it was a single field (n,)."""
    field = as_floats(theta, "theta")
    if field.ndim not in (1, 2) or field.shape[-1] != n:
        raise ValueError(f"theta must have shape ({n},) or (M, {n}), got {field.shape}")
    if not allow_nan:
        refuse_nan(field)
    return field if field.ndim == 2 else field[None], field.ndim == 1


def refuse_nan(theta: FloatArray) -> None:
    """Raise a ValueError that names the first NaN in theta."""
    remedy = "give 0 for an element without information; +-inf fixes an element"
    refuse(np.isnan(theta), theta, "theta", remedy)


def check_alpha(alpha: ArrayLike, k: int) -> FloatArray:
    """Return the weights of the functions as (1, K) or (M, K)."""
    array = as_floats(alpha, "alpha")
    if array.ndim == 0 and k == 1:
        array = array[None]
    if array.ndim not in (1, 2) or array.shape[-1] != k:
        raise ValueError(f"alpha must have shape ({k},) or (M, {k}), got {array.shape}")
    refuse(~np.isfinite(array), array, "alpha", "give each function a finite weight, 0 for none")
    refuse(array < 0, array, "alpha", "a negative weight makes a function supermodular")
    return array if array.ndim == 2 else array[None]


def check_edge_weights(weights: ArrayLike, k: int, edges: int) -> FloatArray:
    """Return the factors of the edges as (1 or M, 1 or K, E)."""
    array = as_floats(weights, "edge_weights")
    legal = f"({edges},), (M, {edges}) or (M, {k}, {edges})"
    if array.ndim not in (1, 2, 3) or array.shape[-1] != edges:
        raise ValueError(f"edge_weights must have shape {legal}, got {array.shape}")
    if array.ndim == 3 and array.shape[1] not in (1, k):
        raise ValueError(f"edge_weights must have shape {legal}, got {array.shape}")
    refuse(~np.isfinite(array), array, "edge_weights", "weights of edges must be finite")
    refuse(array < 0, array, "edge_weights", "a negative weight is repulsive, not submodular")
    return array.reshape(-1, array.shape[1] if array.ndim == 3 else 1, edges)


def check_batch(**lengths: int) -> int:
    """Return the number of problems, given the numbers of rows (1 is broadcast)."""
    count, first = 1, ""
    for name, length in lengths.items():
        if length == 1:
            continue
        if first and length != count:
            raise ValueError(
                f"{name} has {length} rows, but {first} has {count}; give one row, or as many"
            )
        count, first = length, name
    return count


def check_tie(tie: str | None) -> None:
    """Raise a ValueError unless tie is None, "min" or "max"."""
    if tie not in (None, "min", "max"):
        raise ValueError(f"tie must be None, 'min' or 'max', got {tie!r}")


def check_numbers(numbers: ArrayLike | None, problems: int) -> NDArray[np.uint64]:
    """Return the numbers of the problems of a batch, 0, 1, ... by default."""
    if numbers is None:
        return np.arange(problems, dtype=np.uint64)
    given = as_words(numbers, "numbers", 64)
    if given.shape != (problems,):
        raise ValueError(f"numbers must have shape ({problems},), got {given.shape}")
    return given
