"""Burn-in, thinning and initial states of the Markov chain samplers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits
from logsuper.sampling._budget import Meter, check_count, check_start

# advance(states, first, steps) advances the chains (C, n), in place, from step `first`
Advance = Callable[[Bits, int, int], None]
# cost(chains, steps) is the number of operations of that
Cost = Callable[[int, int], float]


def run_chains(
    advance: Advance,
    n: int,
    count: int,
    rng: np.random.Generator,
    burn_in: int,
    thin: int,
    chains: int | None,
    start: ArrayLike | None,
    meter: Meter,
    cost: Cost,
) -> Bits:
    """Return states after burn-in; sample i comes from chain i modulo the number of chains."""
    total, begin = check_count(count), check_count(burn_in, "burn_in")
    between = check_count(thin, "thin", 1)
    own = total if chains is None else min(total, check_count(chains, "chains", 1))
    rounds = -(-total // max(1, own))
    steps = begin + between * max(0, rounds - 1)
    check_count(steps, "the number of steps of a chain")
    operations = cost(own, steps)
    meter.require(operations, f"{steps} steps of {own} chains of {n} elements")
    meter.plan(operations)
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
        meter.spend(0.0, samples=min(own, total - k * own))
    return out
