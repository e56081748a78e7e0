"""What sampling may cost, and how far it has come."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from logsuper._base import check_callback, check_number
from logsuper.bounds import TooLarge

# Operations, of about a nanosecond: some three hours on one thread, minutes on many.
BUDGET = 1e13
# Operations after which a loop looks up, well below a second.
PIECE = 2e8
# Seconds between two calls of a callback, half of what is promised.
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
    """What a callback of a sampler, of "ti" or of "ais" is told.

    Attributes
    ----------
    operations : float
        Done so far, in the unit of the budget: about a nanosecond each.
    planned : float
        Known to be needed so far. Where nobody knows how many it will take, as in coupling from the
        past, it grows.
    finished : int
        Samples so far.
    n_samples : int
        In all.

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
"""Called at least each second, and at the end; whatever it raises ends the run."""


class _Asked(Exception):
    """What a rehearsal ends with."""

    def __init__(self, operations: float) -> None:
        super().__init__()
        self.operations = operations


class Meter:
    """Counts operations against a budget, and calls a callback about once a second.

    Parameters
    ----------
    method : str
        Which errors name.
    budget : float
    callback : callable or None
    count : int
        Samples in all.
    """

    def __init__(
        self,
        method: str,
        budget: float = BUDGET,
        callback: Callback | None = None,
        count: int = 0,
    ) -> None:
        self.method, self.count = method, count
        self.budget = check_number(budget, "budget")
        if self.budget <= 0:
            raise ValueError(f"budget must be a positive number of operations, got {budget:g}")
        check_callback(callback)
        self._callback = callback
        self._last = time.monotonic()
        self._done = self._planned = 0.0
        self._samples = 0
        self._rehearsing = False

    def require(self, operations: float, what: str) -> None:
        """Refuse what takes more than is left, before any work."""
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
        """Return what a run would require, and end it there: before any work."""
        self._rehearsing = True
        try:
            run()
        except _Asked as asked:
            return asked.operations
        finally:
            self._rehearsing = False
        return 0.0

    def affords(self, operations: float) -> bool:
        """Return whether that much more is within the budget."""
        return self._planned + operations <= self.budget

    def plan(self, operations: float) -> None:
        """Take note of what is known to be needed."""
        self._planned += operations

    def spend(self, operations: float, samples: int = 0) -> None:
        """Take note of what has been done, and of samples that are finished."""
        self._done += operations
        self._samples += samples
        self.beat()

    @property
    def pulse(self) -> Callable[[], None] | None:
        """What long loops call now and then; None where nobody listens."""
        return None if self._callback is None else self.beat

    def beat(self) -> None:
        """Call the callback, if it has been silent for long."""
        if self._callback is not None and time.monotonic() - self._last >= _SECONDS:
            self.report()

    def report(self) -> None:
        """Call the callback now."""
        if self._callback is not None:
            self._callback(Progress(self._done, self._planned, self._samples, self.count))
            self._last = time.monotonic()
