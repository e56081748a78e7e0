"""Progress of a fit: callbacks and printed lines."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager

from logsuper.learning import Callback, Pulse, Record

# Seconds after which a line says that the work goes on.
_SILENCE = 5.0


class Progress:
    """Passes records on to a callback, and prints them if asked to.

    A callback that has a method `stage(what, done, total)` is also told what is being done, and how
    many of a known number of fits have been (else 0 of 0).

    Attributes
    ----------
    callback : callable or None
        For the learner to call; None if nobody listens.
    """

    def __init__(self, callback: Callback | None, verbose: bool) -> None:
        self._given, self._verbose = callback, verbose
        self._begun = self._printed = time.monotonic()
        self._doing = ""
        self._fits = 0, 0
        self._pulse = Pulse(self._line if callback or verbose else None)
        self.callback: Callback | None = self._pulse if callback or verbose else None

    def begin(self, what: str) -> None:
        """Report the data before any work is done."""
        self.say(what)
        if self._given is not None:
            self._given(Record(0, 0, math.nan))

    def listening(self) -> AbstractContextManager[None]:
        """Report at least each second that the fit is alive."""
        return self._pulse.listening()

    def say(self, what: str, done: int = 0, total: int = 0) -> None:
        """Print a sentence with the seconds since the beginning."""
        self._doing = what
        self._print(what)
        if (stage := getattr(self._given, "stage", None)) is not None:
            stage(what, done, total)

    def expect(self, fits: int) -> None:
        """Tell how many fits there will be."""
        self._fits = 0, fits

    def begin_fit(self, what: str) -> None:
        """Print that the next fit begins."""
        done, total = self._fits
        self.say(what, done, total)
        self._fits = done + 1, total

    def _print(self, what: str) -> None:
        if self._verbose:
            self._printed = time.monotonic()
            print(f"[{self._printed - self._begun:6.1f} s] {what}", flush=True)

    def _line(self, line: Record) -> None:
        if self._given is not None:
            self._given(line)
        if not math.isnan(line.objective):
            cuts = f", {line.cuts} cuts" if line.cuts else ""
            self._print(f"step {line.step}{cuts}, objective {line.objective:.5g}")
        elif time.monotonic() - self._printed > _SILENCE:
            self._print(f"... {self._doing}")
