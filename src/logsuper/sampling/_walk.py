"""What Markov chain samplers share: burn-in, thinning and where chains start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from logsuper.sampling._inputs import Bits, check_count, check_start

# advance(states, first, steps) moves the chains (C, n) on, in place, from step `first`
Advance = Callable[[Bits, int, int], None]


def walk(
    advance: Advance,
    n: int,
    count: int,
    rng: np.random.Generator,
    burn_in: int,
    thin: int,
    chains: int | None,
    start: ArrayLike | None,
) -> Bits:
    """Return states after burn-in; sample i comes from chain i modulo the number of chains."""
    total, begin = check_count(count), check_count(burn_in, "burn_in")
    between = check_count(thin, "thin", 1)
    own = total if chains is None else min(total, check_count(chains, "chains", 1))
    rounds = -(-total // max(1, own))
    check_count(begin + between * max(0, rounds - 1), "the number of steps of a chain")
    if start is None:
        states = rng.integers(0, 2, (own, n), dtype=np.uint8)
    else:
        states = check_start(start, own, n)
    out = np.empty((total, n), dtype=np.uint8)
    done = 0
    for k in range(rounds):
        steps = between if k else begin
        advance(states, done, steps)
        done += steps
        out[k * own : (k + 1) * own] = states[: total - k * own]
    return out
