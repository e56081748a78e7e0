"""Randomness enters here: a seed or a generator at the door, a stream key inside."""

from __future__ import annotations

import operator

import numpy as np

from logsuper._base._checks import check_integer

Seed = int | np.random.Generator | None
"""What users may give: an integer, a numpy Generator (which moves on), or None for fresh noise."""


def as_generator(seed: Seed) -> np.random.Generator:
    """Return the generator that a seed stands for; a generator is returned as it is."""
    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed)
    if isinstance(seed, bool):
        raise TypeError("seed must be an integer >= 0, a numpy Generator or None, got a bool")
    try:
        number = operator.index(seed)
    except TypeError:
        kind = type(seed).__name__
        raise TypeError(
            f"seed must be an integer >= 0, a numpy Generator or None, got {kind}"
        ) from None
    if number < 0:
        raise ValueError(f"seed must be at least 0, got {number}")
    return np.random.default_rng(number)


def stream_key(seed: Seed) -> int:
    """Return the key of a stream: an integer seed is its own, which needs no mixing."""
    if seed is None or isinstance(seed, np.random.Generator):
        return as_key(seed)
    return check_integer(seed, "seed", 0, 2**64)


def as_keys(seed: Seed, count: int) -> list[int]:
    """Return the keys of several streams that a seed stands for."""
    return [int(key) for key in as_generator(seed).integers(2**64, size=count, dtype=np.uint64)]


def as_key(seed: Seed) -> int:
    """Return the 64-bit key of the counter-based stream that a seed stands for."""
    return int(as_generator(seed).integers(2**64, dtype=np.uint64))
