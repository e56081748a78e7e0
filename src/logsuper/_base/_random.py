"""Random seeds: users give a seed or a generator, kernels take a 64-bit stream key."""

from __future__ import annotations

import operator

import numpy as np

from logsuper._base._checks import check_integer

Seed = int | np.random.Generator | None
"""A seed: an integer, a numpy Generator (whose state advances), or None for fresh randomness."""


def as_generator(seed: Seed) -> np.random.Generator:
    """Return a numpy generator made from a seed; a generator is returned unchanged."""
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
    """Return the key of a random stream; an integer seed is itself the key."""
    if seed is None or isinstance(seed, np.random.Generator):
        return as_key(seed)
    return check_integer(seed, "seed", 0, 2**64)


def as_keys(seed: Seed, count: int) -> list[int]:
    """Return the 64-bit keys of `count` random streams derived from a seed."""
    return [int(key) for key in as_generator(seed).integers(2**64, size=count, dtype=np.uint64)]


def as_key(seed: Seed) -> int:
    """Return the 64-bit key of a counter-based random stream derived from a seed."""
    return int(as_generator(seed).integers(2**64, dtype=np.uint64))
