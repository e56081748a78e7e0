"""Bits that flip, at one rate or at one each for zeros and ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from logsuper._base import FloatArray, entry, first_index
from logsuper.channels._base import Channel
from logsuper.channels._checks import LEAST_APART, as_counts, as_groups, as_rates, broadcast, short

__all__ = ["AsymmetricFlips", "Flips"]

# Fitted rates stay this far from 0, where an observation leaves no doubt, and from where it says
# nothing; both would hold them for ever.
_LEAST, _CLOSEST = 1e-6, 1e-3


class Flips(Channel):
    r"""Each element is flipped with some probability: :math:`P(z_d\ne x_d)=\pi_d`.

    Parameters
    ----------
    rate : float or array-like
        In [0, 1]: one number, or one an element (an array that broadcasts to the image), or one a
        group. A rate of 0 leaves no doubt about the element, one of .5 says nothing.
    groups : array-like of int, optional
        Of the shape of the image: the group of each element, an index into `rate`.

    Examples
    --------
    >>> import logsuper as ls
    >>> channel = ls.Flips(0.1)
    >>> channel.log_odds([0, 1, float("nan")]).round(3)
    array([-2.197,  2.197,  0.   ])
    >>> noisy = channel.sample([[0, 0], [1, 1]], seed=0)
    """

    def __init__(self, rate: ArrayLike, groups: ArrayLike | None = None) -> None:
        self.rate = as_rates(rate, "rate")
        self.groups = None if groups is None else as_groups(groups, self.rate)

    def _rates(self, shape: tuple[int, ...]) -> FloatArray:
        """Return the rate of each element."""
        given = self.rate if self.groups is None else self.rate[self.groups]
        return broadcast(given, shape, "rate" if self.groups is None else "groups")

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        rate = self._rates(observed.shape)
        return _flip_likelihoods(observed, rate, rate)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.abs(x - (rng.random(x.shape) < self._rates(x.shape)))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        _refuse_grey(z)
        flips, seen = zero * z + one * (1.0 - z), zero + one
        if self.groups is None:
            parts = [_collect(values, self.rate.shape) for values in (flips, seen)]
        else:
            group = broadcast(self.groups, z.shape, "groups").ravel()
            parts = [
                np.bincount(group, values.ravel(), len(self.rate)).astype(np.float64)
                for values in (flips, seen)
            ]
        return np.concatenate([part.ravel() for part in parts])

    def refit(self, counts: ArrayLike) -> Flips:
        rate = _shares(as_counts(counts, 2 * self.rate.size), self.rate)
        return Flips(np.clip(rate, _LEAST, 0.5 - _CLOSEST), self.groups)

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        rate = self._rates(observed.shape)
        return _unflip(observed, rate, rate)

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        rate = self._rates(shape)
        return _flip_divergence(rate, rate)

    def __repr__(self) -> str:
        return f"Flips({short(self.rate)})"


class AsymmetricFlips(Channel):
    r"""Zeros and ones are flipped at different rates.

    Parameters
    ----------
    on : float or array-like
        :math:`P(z_d=1\mid x_d=0)`, the rate of false ones; one number or one an element.
    off : float or array-like
        :math:`P(z_d=0\mid x_d=1)`, the rate of false zeros.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.AsymmetricFlips(on=0.05, off=0.3).log_odds([0, 1]).round(3)
    array([-1.153,  2.639])
    """

    def __init__(self, on: ArrayLike, off: ArrayLike) -> None:
        self.on = as_rates(on, "on")
        self.off = as_rates(off, "off")

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        on = broadcast(self.on, observed.shape, "on")
        off = broadcast(self.off, observed.shape, "off")
        return _flip_likelihoods(observed, on, off)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        on, off = broadcast(self.on, x.shape, "on"), broadcast(self.off, x.shape, "off")
        return np.abs(x - (rng.random(x.shape) < np.where(x == 1, off, on)))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        _refuse_grey(z)
        on = [_collect(values, self.on.shape) for values in (zero * z, zero)]
        off = [_collect(values, self.off.shape) for values in (one * (1.0 - z), one)]
        return np.concatenate([part.ravel() for part in (*on, *off)])

    def refit(self, counts: ArrayLike) -> AsymmetricFlips:
        total = as_counts(counts, 2 * (self.on.size + self.off.size))
        on, off = (
            np.clip(_shares(part, old), _LEAST, 1.0 - _LEAST)
            for part, old in zip(
                np.split(total, [2 * self.on.size]), (self.on, self.off), strict=True
            )
        )
        # Where on + off = 1 an observation says nothing: stop on the way there. The likelihood of
        # counts is concave, so it rises all the way.
        old, new = self.on + self.off, on + off
        room = np.maximum(1.0 - 2.0 * _CLOSEST - old, 0.0)
        step = np.where(new - old > room, room / np.maximum(new - old, _LEAST), 1.0)
        if on.shape != off.shape:  # a rate that several elements share takes the shortest of steps
            step = step.min()
        return AsymmetricFlips(self.on + step * (on - self.on), self.off + step * (off - self.off))

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        on = broadcast(self.on, observed.shape, "on")
        return _unflip(observed, on, broadcast(self.off, observed.shape, "off"))

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        return _flip_divergence(broadcast(self.on, shape, "on"), broadcast(self.off, shape, "off"))

    def __repr__(self) -> str:
        return f"AsymmetricFlips(on={short(self.on)}, off={short(self.off)})"


def _flip_likelihoods(z: FloatArray, on: Any, off: Any) -> tuple[FloatArray, FloatArray]:
    """Return log p(z | 0) and log p(z | 1) for bits that flip with rates `on` and `off`."""
    _refuse_grey(z)
    return np.log(np.where(z == 1, on, 1.0 - on)), np.log(np.where(z == 1, 1.0 - off, off))


def _unflip(z: FloatArray, on: FloatArray, off: FloatArray) -> FloatArray:
    """Return (z - on) / (1 - on - off), the only unbiased estimate of x for bits."""
    _refuse_grey(z)
    kept = 1.0 - on - off
    silent = np.abs(kept) < LEAST_APART
    if silent.any():
        index = first_index(silent)
        raise ValueError(
            f"flips of rates {on[index]:g} and {off[index]:g}, which add up to 1, say nothing "
            f"about x: no unbiased estimate of {entry('x', index)}"
        )
    return (z - on) / kept


def _flip_divergence(on: FloatArray, off: FloatArray) -> FloatArray:
    """Return the mean of the log-odds under x = 1 for bits."""
    return np.asarray(rel_entr(1.0 - off, on) + rel_entr(off, 1.0 - on))


def _refuse_grey(z: FloatArray) -> None:
    bad = (z != 0) & (z != 1)
    if bad.any():
        index = first_index(bad)
        raise ValueError(
            f"{entry('observed', index)} = {z[index]:g} is neither 0 nor 1; grey levels need the "
            "Gaussian channel, a missing entry is NaN"
        )


def _collect(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the sums over the entries that share a rate: the transpose of `broadcast`."""
    if len(shape) > 1 and values.shape == (math.prod(shape),):
        return values.reshape(shape)
    broadcast(np.empty(shape), values.shape, "rate")
    more = values.ndim - len(shape)
    shared = [more + axis for axis, size in enumerate(shape) if size == 1]
    return np.asarray(values.sum(axis=(*range(more), *shared))).reshape(shape)


def _shares(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Return events over trials, stacked in `counts`; the old rate where there was no trial."""
    events, trials = counts.reshape(2, *old.shape)
    return np.where(trials > 0, events / np.where(trials > 0, trials, 1.0), old)
