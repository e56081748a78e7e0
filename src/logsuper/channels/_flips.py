"""Bits that flip, at one rate or at one each for zeros and ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from logsuper._base import FloatArray, entry, first_index
from logsuper.channels._base import Channel
from logsuper.channels._checks import (
    LEAST_APART,
    as_counts,
    as_groups,
    as_rates,
    broadcast,
    refuse,
    short,
)
from logsuper.channels._pairs import count_pairs

# Fitted rates keep these distances from 0, where an observation leaves no doubt, and from where it
# says nothing: EM would never leave either.
_LEAST, _CLOSEST = 1e-6, 1e-3


class _Bits(Channel):
    """Zeros become ones at the rate `on`, ones become zeros at the rate `off`."""

    binary = True
    estimable = True

    @abstractmethod
    def _on_off(self, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return both rates of each element."""

    @property
    def informative(self) -> bool:
        return not self._silent.any()

    @property
    def _silent(self) -> NDArray[np.bool_]:
        """Where an observation says nothing, or the opposite."""
        rates = [*self.rates.values()]
        return np.asarray(rates[0] + rates[-1] >= 1.0)

    def objection(self, name: str) -> str | None:
        for key, rates in self.rates.items():
            if (rates <= 0).any():
                at = first_index(rates <= 0)
                label = name if len(self.rates) == 1 else f"{name}, {key}"
                return (
                    f"{entry(label, at)} = {rates[at]:g} leaves no doubt about a pixel, so that "
                    "there is nothing to remove or to learn; it must lie in (0, .5)"
                )
        if self.informative:
            return None
        at, single = first_index(self._silent), len(self.rates) == 1
        shown = f"{entry(name, at)} = {rates[at]:g}" if single else f"{name} = {self!r}"
        return (
            f"{shown}: where on + off >= 1, as with a rate of .5 or more, an observation says "
            "nothing, or the opposite (invert the images)"
        )

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        _refuse_grey(observed)
        (on, off), one = self._on_off(observed.shape), observed == 1
        return np.log(np.where(one, on, 1.0 - on)), np.log(np.where(one, 1.0 - off, off))

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        on, off = self._on_off(x.shape)
        return np.abs(x - (rng.random(x.shape) < np.where(x == 1, off, on)))

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        # (z - on) / (1 - on - off) is the only unbiased estimate of x
        _refuse_grey(observed)
        on, off = self._on_off(observed.shape)
        kept = 1.0 - on - off
        silent = np.abs(kept) < LEAST_APART
        if silent.any():
            index = first_index(silent)
            raise ValueError(
                f"flips of rates {on[index]:g} and {off[index]:g}, which add up to 1, say nothing "
                f"about x: no unbiased estimate of {entry('x', index)}"
            )
        return (observed - on) / kept

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        on, off = self._on_off(shape)
        return np.asarray(rel_entr(1.0 - off, on) + rel_entr(off, 1.0 - on))


class Flips(_Bits, kind="flips"):
    r"""Each element is flipped with some probability: :math:`P(z_d\ne x_d)=\pi_d`.

    Parameters
    ----------
    rate : float or array-like
        In [0, 1]: one number, or one per element (an array that broadcasts to the image), or one
        per group. A rate of 0 leaves no doubt about the element, one of .5 says nothing.
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

    @classmethod
    def from_pairs(cls, noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike]) -> Flips:
        seen, mean = count_pairs(noisy, clean, both=False)
        wrong = seen * [mean[0], 1.0 - mean[1]]
        return cls((wrong.sum() + 0.5) / (seen.sum() + 1.0))

    @property
    def rates(self) -> dict[str, FloatArray]:
        return {"rate": self.rate if self.groups is None else self.rate[self.groups]}

    def _on_off(self, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        name = "rate" if self.groups is None else "groups"
        rate = broadcast(self.rates["rate"], shape, name)
        return rate, rate

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        _refuse_grey(z)
        parts = zero * z + one * (1.0 - z), zero + one  # flips, and all
        if self.groups is None:
            return _collect(parts, self.rate.shape)
        group = broadcast(self.groups, z.shape, "groups").ravel()
        size = len(self.rate)
        return np.concatenate([np.bincount(group, part.ravel(), size) for part in parts]) + 0.0

    def refit(self, counts: ArrayLike) -> Flips:
        rate = _shares(as_counts(counts, 2 * self.rate.size), self.rate)
        return Flips(np.clip(rate, _LEAST, 0.5 - _CLOSEST), self.groups)

    def __repr__(self) -> str:
        return f"Flips({short(self.rate)})"


class AsymmetricFlips(_Bits, kind="asymmetric"):
    r"""Zeros and ones are flipped at different rates.

    Parameters
    ----------
    on : float or array-like
        :math:`P(z_d=1\mid x_d=0)`, the rate of false ones; one number or one per element.
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

    @classmethod
    def from_pairs(cls, noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike]) -> AsymmetricFlips:
        seen, mean = count_pairs(noisy, clean)
        return cls(*(seen * [mean[0], 1.0 - mean[1]] + 0.5) / (seen + 1.0))

    @property
    def rates(self) -> dict[str, FloatArray]:
        return {"on": self.on, "off": self.off}

    def _on_off(self, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        return broadcast(self.on, shape, "on"), broadcast(self.off, shape, "off")

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        _refuse_grey(z)
        on = _collect((zero * z, zero), self.on.shape)
        return np.concatenate([on, _collect((one * (1.0 - z), one), self.off.shape)])

    def refit(self, counts: ArrayLike) -> AsymmetricFlips:
        total = as_counts(counts, 2 * (self.on.size + self.off.size))
        parts = np.split(total, [2 * self.on.size])
        on, off = (
            np.clip(_shares(part, old), _LEAST, 1.0 - _LEAST)
            for part, old in zip(parts, (self.on, self.off), strict=True)
        )
        # Where on + off = 1 an observation says nothing: stop on the way there. The likelihood of
        # counts is concave, so it rises all the way.
        old, new = self.on + self.off, on + off
        room = np.maximum(1.0 - 2.0 * _CLOSEST - old, 0.0)
        step = np.where(new - old > room, room / np.maximum(new - old, _LEAST), 1.0)
        if on.shape != off.shape:  # a rate that elements share takes the shortest of their steps
            step = step.min()
        return AsymmetricFlips(self.on + step * (on - self.on), self.off + step * (off - self.off))

    def __repr__(self) -> str:
        return f"AsymmetricFlips(on={short(self.on)}, off={short(self.off)})"


def _refuse_grey(z: FloatArray) -> None:
    remedy = "grey levels need the Gaussian channel, a missing entry is NaN"
    refuse((z != 0) & (z != 1), z, "observed", f"is neither 0 nor 1; {remedy}")


def _collect(parts: tuple[FloatArray, ...], shape: tuple[int, ...]) -> FloatArray:
    """Return the sums over the entries that share a rate: the transpose of `broadcast`."""
    values = np.stack(parts)
    seen = values.shape[1:]
    if not (len(shape) > 1 and seen == (math.prod(shape),)):
        broadcast(np.empty(shape), seen, "rate")
        more = len(seen) - len(shape)
        shared = [1 + more + axis for axis, size in enumerate(shape) if size == 1]
        values = values.sum(axis=(*range(1, 1 + more), *shared))
    return values.ravel()


def _shares(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Return events over trials, stacked in `counts`; the old rate where there was no trial."""
    events, trials = counts.reshape(2, *old.shape)
    return np.where(trials > 0, events / np.where(trials > 0, trials, 1.0), old)
