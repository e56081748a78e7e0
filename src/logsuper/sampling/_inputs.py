"""Argument checks shared by the samplers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, check_binary, check_integer

# Times, problems and samples must stay below this: the kernels count them in 32 bits.
MOST = 2**31


def check_count(value: object, name: str = "n_samples", least: int = 0) -> int:
    """Return a number of samples, sweeps or chains."""
    return check_integer(value, name, least, MOST)


def check_start(start: ArrayLike, chains: int, n: int) -> Bits:
    """Return the initial states (chains, n)."""
    states = check_binary(start, n)
    if states.shape not in ((n,), (chains, n)):
        raise ValueError(f"start must have shape ({n},) or ({chains}, {n}), got {states.shape}")
    return np.array(np.broadcast_to(states, (chains, n)), np.uint8, order="C")
