"""What every learner returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from logsuper.channels import Channel
from logsuper.functions._checks import FloatArray
from logsuper.learning._layout import Parameters

__all__ = ["Callback", "Learned", "Record"]


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
        Estimate of the regularised objective, in nats an example.
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
