"""Entries that are lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray
from logsuper.channels._base import Channel
from logsuper.channels._checks import as_rates, broadcast, short
from logsuper.channels._flips import Flips


def _inside(name: str) -> Any:
    """Return a property that is an attribute of the channel inside."""
    return property(lambda self: getattr(self.channel, name))


class Missing(Channel, kind="missing"):
    """Some entries are lost at random, the others pass through another channel.

    Parameters
    ----------
    rate : float or array-like
        Probability that an entry is lost (NaN), one number or one per element.
    channel : Channel, optional
        What happens to the entries that remain; they are exact by default.

    Notes
    -----
    Losses do not depend on x, so they say nothing about it: the rate matters for drawing only, and
    the likelihood is that of the entries that remain.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.Missing(0.3, ls.Flips(0.1)).log_odds([1, float("nan")]).round(3)
    array([2.197, 0.   ])
    """

    def __init__(self, rate: ArrayLike, channel: Channel | None = None) -> None:
        self.rate = as_rates(rate, "rate")
        if channel is not None and not isinstance(channel, Channel):
            raise TypeError(f"channel must be a Channel or None, got {type(channel).__name__}")
        self.channel = Flips(0.0) if channel is None else channel

    # For the entries that remain, all of this is that of the inner channel.
    rates, levels, noise, informative = map(_inside, ("rates", "levels", "noise", "informative"))
    binary, objection, _log_likelihoods = map(_inside, ("binary", "objection", "_log_likelihoods"))
    _draw_seen, _count = map(_inside, ("_draw_seen", "_count"))
    _unbiased, _agreement, _divergence = map(_inside, ("_unbiased", "_agreement", "_divergence"))

    @property
    def local(self) -> bool:
        return self.rate.ndim > 0 or self.channel.local

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        lost = rng.random(x.shape) < broadcast(self.rate, x.shape, "rate")
        return np.where(lost, np.nan, self.channel._draw(x, rng))

    def refit(self, counts: ArrayLike) -> Missing:
        return Missing(self.rate, self.channel.refit(counts))

    def __repr__(self) -> str:
        return f"Missing({short(self.rate)}, {self.channel!r})"
