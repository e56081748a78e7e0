"""What every learner returns."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from logsuper._base import FloatArray
from logsuper.channels import Channel
from logsuper.learning._layout import Parameters

__all__ = ["Callback", "Learned", "Pulse", "Record"]


@dataclasses.dataclass(frozen=True)
class Record:
    """One line of a learner's history.

    Attributes
    ----------
    step : int
        Steps, passes or iterations done.
    cuts : int
        Maximisations solved so far; 0 for learners that solve none.
    objective : float
        Estimate of the regularised objective, in nats per example; NaN in a line that is only a
        sign of life, which callbacks hear and no history has.
    stderr : float
        Its standard error; 0 where it is exact.
    gap : float
        Certified distance to the optimum; NaN where there is no certificate.
    """

    step: int
    cuts: int
    objective: float
    stderr: float = 0.0
    gap: float = float("nan")


Callback = Callable[[Record], None]
"""Called with each new line of the history; whatever it raises ends the fit."""

_SECOND = 1.0


class Pulse:
    """A callback that hears of each line, and at least each second that the fit is alive.

    Parameters
    ----------
    callback : callable or None
    """

    def __init__(self, callback: Callback | None) -> None:
        self._callback, self._last = callback, time.monotonic()

    def __call__(self, line: Record) -> None:
        """Pass on a line of the history."""
        if self._callback is not None:
            self._callback(line)
            self._last = time.monotonic()

    def beat(self, step: int, cuts: int) -> None:
        """Give a sign of life, a line without an objective, if the last one was a second ago."""
        if self._callback is not None and time.monotonic() - self._last >= _SECOND:
            self(Record(step, cuts, math.nan))


@dataclasses.dataclass(frozen=True, eq=False)
class Learned:
    """The outcome of a fit.

    Attributes
    ----------
    parameters : Parameters
    theta : ndarray of shape (P,)
        The same as one vector, to start another fit from.
    converged : bool
        Whether the criterion of convergence was met.
    history : tuple of Record
        The last line is that of `parameters`.
    channel : Channel or None
        The channel, with the noise that was learned where it was.
    details : mapping
        What else the learner has to say.
    """

    parameters: Parameters
    theta: FloatArray
    converged: bool
    history: tuple[Record, ...]
    channel: Channel | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
