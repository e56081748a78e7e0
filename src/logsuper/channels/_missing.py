"""Entries that are lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray
from logsuper.channels._base import Channel
from logsuper.channels._checks import as_rates, broadcast, short
from logsuper.channels._flips import Flips

__all__ = ["Missing"]


class Missing(Channel):
    """Some entries are lost at random, the others pass through another channel.

    Parameters
    ----------
    rate : float or array-like
        Probability that an entry is lost (NaN), one number or one an element.
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

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.channel._log_likelihoods(observed)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        lost = rng.random(x.shape) < broadcast(self.rate, x.shape, "rate")
        return np.where(lost, np.nan, self.channel._draw(x, rng))

    def _draw_seen(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return self.channel._draw_seen(x, rng)

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        return self.channel._count(z, zero, one)

    def refit(self, counts: ArrayLike) -> Missing:
        return Missing(self.rate, self.channel.refit(counts))

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        return self.channel._unbiased(observed)

    def _agreement(self, observed: FloatArray) -> FloatArray:
        return self.channel._agreement(observed)

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        return self.channel._divergence(shape)

    def __repr__(self) -> str:
        return f"Missing({short(self.rate)}, {self.channel!r})"
