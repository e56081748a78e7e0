"""Budgets of operations, progress reports and shared checks of samplers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, check_binary, check_budget, check_callback, check_integer
from logsuper.bounds import TooLarge

# Default budget in operations (about one nanosecond each): some three hours on one thread.
BUDGET = 1e13
# Operations between two possible callbacks of a loop: well below a second.
PIECE = 2e8
# Minimum seconds between two calls of a callback; the documentation promises one per second.
_SECONDS = 0.5

_REMEDIES = {
    "cftp": "or take the approximate samplers: 'gibbs' with few chains, or 'perturb'",
    "ancestral": "or draw them in parts",
    "rejection": "or use 'cftp'",
    "gibbs": "or lower burn_in, thin or chains",
    "swendsen_wang": "or lower burn_in, thin, sweeps or chains",
    "perturb": "or take 'gibbs' with few chains",
    "ti": "lower steps, or bound log Z by bracket()",
    "ais": "lower steps, or bound log Z by bracket()",
}


@dataclasses.dataclass(frozen=True)
class Progress:
    """Argument of the callbacks of the samplers, of "ti" and of "ais".

    Attributes
    ----------
    operations : float
        Operations done so far, in the unit of the budget: about one nanosecond each.
    planned : float
        Operations known to be needed so far. It grows if the total is not known in advance, as in
        coupling from the past.
    finished : int
        Number of finished samples.
    n_samples : int
        Total number of samples.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], 1.0))
    >>> seen = []
    >>> X = m.sample(100, seed=0, callback=seen.append)
    >>> seen[-1].finished, seen[-1].n_samples
    (100, 100)
    """

    operations: float
    planned: float
    finished: int
    n_samples: int


Callback = Callable[[Progress], object]
"""Called at least once per second, and at the end; an exception that it raises ends the run."""


class _Asked(Exception):
    """Ends a dry run of a sampler at its call of `Meter.require`."""

    def __init__(self, operations: float) -> None:
        super().__init__()
        self.operations = operations


class Meter:
    """Counts operations against a budget, and calls a callback about once per second.

    Parameters
    ----------
    method : str
        Name of the method, for error messages.
    budget : float
        Maximum number of operations.
    callback : callable or None
    count : int
        Total number of samples.
    """

    def __init__(
        self,
        method: str,
        budget: float = BUDGET,
        callback: Callback | None = None,
        count: int = 0,
    ) -> None:
        self.method, self.count = method, count
        self.budget = check_budget(budget)
        check_callback(callback)
        self._callback = callback
        self._last = time.monotonic()
        self._done = self._planned = 0.0
        self._samples = 0
        self._rehearsing = False

    def require(self, operations: float, what: str) -> None:
        """Raise TooLarge, before any work, if the operations exceed the remaining budget."""
        if self._rehearsing:
            raise _Asked(operations)
        least = self._done + operations
        if least > self.budget:
            raise TooLarge(
                f"{self.method} would take at least {least:.2g} operations (of about a nanosecond) "
                f"for {what}, but budget = {self.budget:.2g}. Raise budget, draw fewer samples, "
                f"{_REMEDIES.get(self.method, 'or use another sampler')}",
                least,
            )

    def rehearse(self, run: Callable[[], object]) -> float:
        """Return the operations that a run would require, without doing its work."""
        self._rehearsing = True
        try:
            run()
        except _Asked as asked:
            return asked.operations
        finally:
            self._rehearsing = False
        return 0.0

    def affords(self, operations: float) -> bool:
        """Return whether that many more operations are within the budget."""
        return self._planned + operations <= self.budget

    def plan(self, operations: float) -> None:
        """Add operations that are known to be needed."""
        self._planned += operations

    def spend(self, operations: float, samples: int = 0) -> None:
        """Add operations that have been done, and samples that are finished."""
        self._done += operations
        self._samples += samples
        self.beat()

    @property
    def pulse(self) -> Callable[[], None] | None:
        """Function that long loops call regularly; None without a callback."""
        return None if self._callback is None else self.beat

    def beat(self) -> None:
        """Call the callback if the last call was long enough ago."""
        if self._callback is not None and time.monotonic() - self._last >= _SECONDS:
            self.report()

    def report(self) -> None:
        """Call the callback now."""
        if self._callback is not None:
            self._callback(Progress(self._done, self._planned, self._samples, self.count))
            self._last = time.monotonic()


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
