"""What every learner returns."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from logsuper._base import FloatArray, listening
from logsuper.channels import Channel
from logsuper.learning._examples import Examples
from logsuper.learning._layout import Parameters


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
        Estimate of the regularised objective, in nats per example; NaN in a line that only shows
        that the fit is alive: callbacks are called with such lines, no history has them.
    stderr : float
        Its standard error; 0 where it is exact.
    gap : float
        Certified distance to the optimum; NaN where there is no certificate.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, pseudo
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> record = pseudo(data, Penalty.of(data.layout, alpha=0.1, modular=0.1)).history[-1]
    >>> record.cuts, record.stderr
    (0, 0.0)
    """

    step: int
    cuts: int
    objective: float
    stderr: float = 0.0
    gap: float = float("nan")

    def later(self, step: int, cuts: int) -> Record:
        """Return the same line of a fit that follows so many steps and cuts of others."""
        return dataclasses.replace(self, step=self.step + step, cuts=self.cuts + cuts)


Callback = Callable[[Record], None]
"""Called with each new line of the history; whatever it raises ends the fit."""

_SECOND = 1.0


class Pulse:
    """Calls a callback with each line of the history, and at least each second.

    Parameters
    ----------
    callback : callable or None
    """

    def __init__(self, callback: Callback | None) -> None:
        self._callback = callback
        # a pulse that calls another one takes over the time of its last call
        self._last: float = callback._last if isinstance(callback, Pulse) else time.monotonic()
        self._step, self._cuts = 0, 0

    def __call__(self, line: Record) -> None:
        """Pass on a line of the history."""
        if self._callback is not None:
            self._step, self._cuts = line.step, line.cuts
            self._callback(line)
            self._last = time.monotonic()

    def beat(self, step: int | None = None, cuts: int | None = None) -> None:
        """Call back with a line without an objective, if the last call was a second ago.

        By default with the steps and cuts of the last one.
        """
        if self._callback is not None and time.monotonic() - self._last >= _SECOND:
            at = (self._step if step is None else step, self._cuts if cuts is None else cuts)
            self(Record(*at, math.nan))

    def listening(self) -> contextlib.AbstractContextManager[None]:
        """Call back at each `beat` of a loop inside, if there is a callback."""
        return contextlib.nullcontext() if self._callback is None else listening(self.beat)


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
        Further results, which depend on the learner.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, pseudo
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> learned = pseudo(data, Penalty.of(data.layout, alpha=0.1, modular=0.1))
    >>> learned.converged, learned.parameters.alpha.shape, learned.theta.shape
    (True, (2,), (3,))
    """

    parameters: Parameters
    theta: FloatArray
    converged: bool
    history: tuple[Record, ...]
    channel: Channel | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        weights = ", ".join(f"{weight:.4g}" for weight in self.parameters.alpha)
        state = "converged" if self.converged else "not converged"
        last = f" at objective {self.history[-1].objective:.6g}" if self.history else ""
        return f"<Learned alpha=[{weights}], {len(self.theta)} parameters, {state}{last}>"

    @classmethod
    def of(
        cls,
        examples: Examples,
        theta: FloatArray,
        converged: bool,
        history: Iterable[Record],
        /,
        **details: Any,
    ) -> Learned:
        """Return the outcome of a fit to examples, with their channel."""
        parameters, lines = examples.layout.unpack(theta), tuple(history)
        return cls(parameters, theta, converged, lines, examples.channel, details)
