r"""What is observed of x: channels that corrupt each element on its own.

A channel says :math:`p(z_d\mid x_d)`. Seen from x it only adds a modular term, the log-odds
:math:`\log p(z_d\mid1)-\log p(z_d\mid0)`, so that a posterior is again log-supermodular (eq. 6 of
the paper). An entry that is NaN, or masked, was not observed: its likelihood is 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, rel_entr

from logsuper._random import Seed, as_generator
from logsuper.bounds._errors import NotApplicable
from logsuper.functions._checks import FloatArray, IntArray, as_array, entry, first_index, frozen

__all__ = ["AsymmetricFlips", "Channel", "Flips", "Gaussian", "Missing"]

# Below this difference between the two laws of an observation, dividing by it only makes noise.
_LEAST_APART = 1e-6


class Channel(ABC):
    """Noise that acts on every element of x independently of the others.

    A new channel needs `_log_likelihoods` and `_draw`, and for moment learning `_unbiased` and
    `_divergence`; missing entries are dealt with here.
    """

    @abstractmethod
    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p(z | x = 0) and log p(z | x = 1) where nothing is missing; NaN may be in."""

    @abstractmethod
    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return an observation of x."""

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        """Return h(z) with E[h(z) | x] = x where nothing is missing; NaN may be in."""
        raise NotApplicable(f"{self!r} has no unbiased estimate of x")

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        """Return E[log-odds | x = 1] of each element."""
        raise NotApplicable(f"{self!r} has no closed form for the mean of its log-odds")

    def _agreement(self, observed: FloatArray) -> FloatArray:
        """Return h(z) with E[h(z) | x] = E[l(z) x | x] where nothing is missing; NaN may be in."""
        return self._divergence(observed.shape) * self._unbiased(observed)

    def log_likelihoods(self, observed: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the log-likelihood of each entry under x = 0, and under x = 1.

        Parameters
        ----------
        observed : array-like
            NaN, or the mask of a masked array, means "not observed".

        Returns
        -------
        zero, one : ndarray of the shape of `observed`
            Both 0 where nothing was observed.
        """
        z = _as_observed(observed)
        missing = np.isnan(z)
        with np.errstate(over="ignore", divide="ignore"):  # log 0 rules a value out
            zero, one = self._log_likelihoods(np.where(missing, 0.0, z))
        impossible = np.isneginf(zero) & np.isneginf(one) & ~missing
        if impossible.any():
            index = first_index(impossible)
            place = ", ".join(map(str, index))
            raise ValueError(
                f"observed[{place}] = {z[index]:g} has probability 0 under {self!r}, "
                "whatever the element is"
            )
        return np.where(missing, 0.0, zero), np.where(missing, 0.0, one)

    def log_odds(self, observed: ArrayLike) -> FloatArray:
        """Return log p(z | x = 1) - log p(z | x = 0), the field that the observation adds.

        Parameters
        ----------
        observed : array-like

        Returns
        -------
        ndarray of the shape of `observed`
            Infinite where the observation leaves no doubt.
        """
        zero, one = self.log_likelihoods(observed)
        return one - zero

    def unbiased(self, observed: ArrayLike) -> FloatArray:
        r"""Return an unbiased estimate of x, :math:`E[\hat x(z)\mid x]=x`.

        As elements are corrupted independently, a product of such estimates is unbiased for the
        product of the x, and a multilinear function of them for the function at x.

        Parameters
        ----------
        observed : array-like

        Returns
        -------
        ndarray of the shape of `observed`
            Outside of [0, 1] more often than not; NaN where nothing was observed.

        Raises
        ------
        ValueError
            Where an observation says nothing about its element, as with flips of rate 1/2.

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Flips(0.1).unbiased([0, 1, float("nan")])
        array([-0.125,  1.125,    nan])
        """
        z = _as_observed(observed)
        missing = np.isnan(z)
        return np.where(missing, np.nan, self._unbiased(np.where(missing, 0.0, z)))

    def agreement(self, observed: ArrayLike) -> FloatArray:
        r"""Return an unbiased estimate of :math:`l(z)\,x`, with l the log-odds.

        Parameters
        ----------
        observed : array-like

        Returns
        -------
        ndarray of the shape of `observed`
            0 where nothing was observed.

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Flips(0.1).agreement([0, 1, float("nan")]).round(3)
        array([-0.22 ,  1.978,  0.   ])
        """
        z = _as_observed(observed)
        missing = np.isnan(z)
        return np.where(missing, 0.0, self._agreement(np.where(missing, 0.0, z)))

    def divergence(self, shape: tuple[int, ...] = ()) -> FloatArray:
        r"""Return the Kullback-Leibler divergence of :math:`p(z\mid1)` from :math:`p(z\mid0)`.

        It is the mean of the log-odds l(z) of an element with x = 1.

        Parameters
        ----------
        shape : tuple of int
            Shape of the observation, where the noise differs between elements.

        Returns
        -------
        ndarray of the given shape
            Infinite where an observation can rule out x = 0.

        Examples
        --------
        >>> import logsuper as ls
        >>> float(ls.Gaussian(mean=(0.0, 1.0), scale=0.5).divergence())
        2.0
        """
        with np.errstate(divide="ignore"):
            return np.broadcast_to(self._divergence(shape), shape)

    def sample(self, x: ArrayLike, seed: Seed = None) -> FloatArray:
        """Draw an observation of x.

        Parameters
        ----------
        x : array-like of 0 and 1, of any shape
        seed : int, Generator or None

        Returns
        -------
        ndarray of the shape of x, float64
        """
        return self._draw(_as_labels(x), as_generator(seed))

    def count(self, observed: ArrayLike, mean: ArrayLike) -> FloatArray:
        """Return what `refit` needs to know of some images; add up what several calls return.

        Parameters
        ----------
        observed : array-like
            NaN, or masked, where nothing was observed: such entries do not count.
        mean : array-like of the shape of `observed`
            The probability that each element is 1, given what was observed.

        Returns
        -------
        ndarray with one axis

        Examples
        --------
        >>> import logsuper as ls
        >>> channel = ls.Flips(0.3)
        >>> counts = channel.count([0, 1, 1], [0.0, 1.0, 0.4]) + channel.count([1, 0], [1.0, 0.0])
        >>> channel.refit(counts)
        Flips(0.12)
        """
        z, m = _as_observed(observed), np.asarray(as_array(mean, "mean"), dtype=np.float64)
        if m.shape != z.shape:
            raise ValueError(f"mean has shape {m.shape}, but observed {z.shape}")
        bad = ~((m >= 0) & (m <= 1))
        if bad.any():
            index = first_index(bad)
            place = ", ".join(map(str, index))
            raise ValueError(f"mean[{place}] = {m[index]:g} is not a probability in [0, 1]")
        seen = ~np.isnan(z)
        return self._count(np.where(seen, z, 0.0), seen * (1.0 - m), seen * m)

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        """Return sufficient statistics of z, each entry weighed as coming from a zero and a one."""
        raise NotApplicable(f"{self!r} cannot be fitted; keep it fixed")

    def refit(self, counts: ArrayLike) -> Channel:
        r"""Return the channel of this kind that fits best: the M step of EM (section 4.4).

        It maximises :math:`\sum_dE\log p(z_d\mid x_d)` over the parameters of the channel, each
        image's x distributed as the mean that was counted. Rates that nothing was observed of stay
        as they are, and none leaves the side on which an observation speaks for itself: a flip
        rate stays below one half, for rates above are those below with 0 and 1 exchanged.

        Parameters
        ----------
        counts : array-like
            A sum of what `count` returned, of this very channel.

        Returns
        -------
        Channel
        """
        raise NotApplicable(f"{self!r} cannot be fitted; keep it fixed")


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
        self.rate = _as_rates(rate, "rate")
        self.groups = None if groups is None else _as_groups(groups, self.rate)

    def _rates(self, shape: tuple[int, ...]) -> FloatArray:
        """Return the rate of each element."""
        given = self.rate if self.groups is None else self.rate[self.groups]
        return _broadcast(given, shape, "rate" if self.groups is None else "groups")

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        rate = self._rates(observed.shape)
        return _flip_likelihoods(observed, rate, rate)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.abs(x - (rng.random(x.shape) < self._rates(x.shape)))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        flips, seen = zero * z + one * (1.0 - z), zero + one
        if self.groups is None:
            parts = [_collect(values, self.rate.shape) for values in (flips, seen)]
        else:
            group = _broadcast(self.groups, z.shape, "groups").ravel()
            parts = [
                np.bincount(group, values.ravel(), len(self.rate)).astype(np.float64)
                for values in (flips, seen)
            ]
        return np.concatenate([part.ravel() for part in parts])

    def refit(self, counts: ArrayLike) -> Flips:  # noqa: D102
        rate = _shares(_as_counts(counts, 2 * self.rate.size), self.rate)
        return Flips(np.clip(rate, _LEAST, 0.5 - _CLOSEST), self.groups)

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        rate = self._rates(observed.shape)
        return _unflip(observed, rate, rate)

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        rate = self._rates(shape)
        return _flip_divergence(rate, rate)

    def __repr__(self) -> str:
        return f"Flips({_short(self.rate)})"


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
        self.on = _as_rates(on, "on")
        self.off = _as_rates(off, "off")

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        on = _broadcast(self.on, observed.shape, "on")
        off = _broadcast(self.off, observed.shape, "off")
        return _flip_likelihoods(observed, on, off)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        on, off = _broadcast(self.on, x.shape, "on"), _broadcast(self.off, x.shape, "off")
        return np.abs(x - (rng.random(x.shape) < np.where(x == 1, off, on)))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        on = [_collect(values, self.on.shape) for values in (zero * z, zero)]
        off = [_collect(values, self.off.shape) for values in (one * (1.0 - z), one)]
        return np.concatenate([part.ravel() for part in (*on, *off)])

    def refit(self, counts: ArrayLike) -> AsymmetricFlips:  # noqa: D102
        total = _as_counts(counts, 2 * (self.on.size + self.off.size))
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
        on = _broadcast(self.on, observed.shape, "on")
        return _unflip(observed, on, _broadcast(self.off, observed.shape, "off"))

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        return _flip_divergence(
            _broadcast(self.on, shape, "on"), _broadcast(self.off, shape, "off")
        )

    def __repr__(self) -> str:
        return f"AsymmetricFlips(on={_short(self.on)}, off={_short(self.off)})"


class Gaussian(Channel):
    r"""Grey levels: :math:`z_d\sim N(\mu_{x_d},\sigma_{x_d}^2)`.

    Parameters
    ----------
    mean : pair of float, default (0.0, 1.0)
        The mean grey level of zeros and of ones.
    scale : float or pair of float, default 1.0
        The standard deviation, > 0; a pair for zeros and ones. One number stays one in `refit`.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.Gaussian(mean=(50.0, 200.0), scale=30.0).log_odds([60.0, 125.0, 180.0]).round(2)
    array([-10.83,   0.  ,   9.17])
    """

    def __init__(self, mean: ArrayLike = (0.0, 1.0), scale: ArrayLike = 1.0) -> None:
        self.mean = _as_pair(mean, "mean")
        self.tied = np.ndim(scale) == 0
        self.scale = _as_pair(scale, "scale")
        for k, value in enumerate(self.scale):
            if value <= 0:
                raise ValueError(f"scale[{k}] = {value:g} must be positive")

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        zero, one = (
            -0.5 * ((observed - m) / s) ** 2 - np.log(s) - 0.5 * np.log(2.0 * np.pi)
            for m, s in zip(self.mean, self.scale, strict=True)
        )
        return zero, one

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        kind = x.astype(np.int64)
        return np.asarray(self.mean[kind] + self.scale[kind] * rng.standard_normal(x.shape))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        # deviations from the present means, so that no digits cancel
        powers = [z - mean for mean in self.mean]
        return np.array(
            [
                float(np.sum(weight * power**k))
                for weight, power in zip((zero, one), powers, strict=True)
                for k in range(3)
            ]
        )

    def refit(self, counts: ArrayLike) -> Gaussian:  # noqa: D102
        weight, first, second = _as_counts(counts, 6).reshape(2, 3).T
        if not weight.sum():
            return self
        share = np.maximum(weight, np.finfo(np.float64).tiny)
        mean = self.mean + np.where(weight > 0, first / share, 0.0)
        square = np.where(weight > 0, second / share - (mean - self.mean) ** 2, self.scale**2)
        if self.tied:
            square[:] = np.dot(weight, square) / weight.sum()
        # A class that shrinks to one grey level has unbounded density: the spread of all bounds it.
        whole = np.dot(weight, mean) / weight.sum()
        spread = np.dot(weight, np.maximum(square, 0.0) + (mean - whole) ** 2) / weight.sum()
        if spread <= _ROUNDING * second.sum() / weight.sum():  # all grey levels are the same
            square, spread = self.scale**2, 0.0
        scale = np.sqrt(np.maximum(square, _NARROWEST**2 * spread))
        return Gaussian(mean, scale[0] if self.tied else scale)

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        # Of all h with E[h | 0] = 0 and E[h | 1] = 1, the one with the least sum of variances under
        # x = 0 and 1 is affine in r = p1 / (p0 + p1); E[r | 0] + E[r | 1] = 1 makes it this one.
        apart = self._apart
        if apart < _LEAST_APART:
            raise ValueError(f"{self!r} says nothing about x: zeros and ones look alike")
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * self.log_odds(observed)) / apart)

    @cached_property
    def _apart(self) -> float:
        """The mean of (p1 - p0) / (p1 + p0) under x = 1, 0 if zeros and ones look alike."""
        # by the trapezoidal rule in the narrower law, on whose scale nothing varies faster
        one = int(self.scale[1] < self.scale[0])
        noise = np.linspace(-12.0, 12.0, 4801)
        weights = np.exp(-0.5 * noise**2)
        at = self.mean[one] + self.scale[one] * noise
        likelihoods = self._log_likelihoods(at)
        contrast = np.tanh(0.5 * (likelihoods[one] - likelihoods[1 - one]))
        return float(np.dot(weights, contrast) / weights.sum())

    def _agreement(self, observed: FloatArray) -> FloatArray:
        # l r is what x agrees with z on average, x being 1 with probability r = p1 / (p0 + p1). It
        # has the mean e_0 under x = 0 and the divergence plus e_1 under x = 1: less these it is
        # unbiased, and varies with z as l x does, unlike the divergence times an estimate of x.
        zero, one = self._excess
        return self._expected(observed) - zero - (one - zero) * self._unbiased(observed)

    def _expected(self, observed: FloatArray) -> FloatArray:
        odds = self.log_odds(observed)
        return np.asarray(odds * expit(odds))

    @cached_property
    def _excess(self) -> tuple[float, float]:
        """The mean of l r under x = 0, and under x = 1 less the divergence."""
        noise = np.linspace(-12.0, 12.0, 4801)
        weights = np.exp(-0.5 * noise**2)
        zero, one = (
            float(np.dot(weights, self._expected(m + s * noise)) / weights.sum())
            for m, s in zip(self.mean, self.scale, strict=True)
        )
        return zero, one - float(self._divergence(()))

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        ratio = self.scale[1] / self.scale[0]
        shift = (self.mean[1] - self.mean[0]) / self.scale[0]
        return np.asarray(0.5 * (ratio**2 + shift**2 - 1.0) - np.log(ratio))

    def __repr__(self) -> str:
        return f"Gaussian(mean={tuple(self.mean.tolist())}, scale={tuple(self.scale.tolist())})"


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
        self.rate = _as_rates(rate, "rate")
        if channel is not None and not isinstance(channel, Channel):
            raise TypeError(f"channel must be a Channel or None, got {type(channel).__name__}")
        self.channel = Flips(0.0) if channel is None else channel

    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.channel._log_likelihoods(observed)

    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        lost = rng.random(x.shape) < _broadcast(self.rate, x.shape, "rate")
        return np.where(lost, np.nan, self.channel._draw(x, rng))

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        return self.channel._count(z, zero, one)

    def refit(self, counts: ArrayLike) -> Missing:  # noqa: D102
        return Missing(self.rate, self.channel.refit(counts))

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        return self.channel._unbiased(observed)

    def _agreement(self, observed: FloatArray) -> FloatArray:
        return self.channel._agreement(observed)

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        return self.channel._divergence(shape)

    def __repr__(self) -> str:
        return f"Missing({_short(self.rate)}, {self.channel!r})"


# ------------------------------------------------------------------------------------------ inside

# Fitted rates stay this far from 0, where an observation leaves no doubt, and from where it says
# nothing; both would hold them for ever.
_LEAST, _CLOSEST = 1e-6, 1e-3
# The least standard deviation of a fitted class, as a share of that of all grey levels.
_NARROWEST = 1e-3
# A variance below this share of a second moment is rounding.
_ROUNDING = 1e-12


def _flip_likelihoods(z: FloatArray, on: Any, off: Any) -> tuple[FloatArray, FloatArray]:
    """Return log p(z | 0) and log p(z | 1) for bits that flip with rates `on` and `off`."""
    _refuse_grey(z)
    return np.log(np.where(z == 1, on, 1.0 - on)), np.log(np.where(z == 1, 1.0 - off, off))


def _unflip(z: FloatArray, on: FloatArray, off: FloatArray) -> FloatArray:
    """Return (z - on) / (1 - on - off), the only unbiased estimate of x for bits."""
    _refuse_grey(z)
    kept = 1.0 - on - off
    silent = np.abs(kept) < _LEAST_APART
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


def _as_observed(observed: ArrayLike) -> FloatArray:
    """Return an observation as float64 with NaN where it is masked; refuse infinities."""
    if isinstance(observed, np.ma.MaskedArray):
        observed = np.ma.filled(observed.astype(np.float64), np.nan)
    array = as_array(observed, "observed")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"observed must hold real numbers, got dtype {array.dtype}")
    array = np.asarray(array, dtype=np.float64)
    infinite = np.isinf(array)
    if infinite.any():
        index = first_index(infinite)
        raise ValueError(f"observed[{', '.join(map(str, index))}] is infinite; NaN means missing")
    return array


def _as_labels(x: ArrayLike) -> FloatArray:
    array = as_array(x, "x")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"x must hold 0 and 1, got dtype {array.dtype}")
    bad = (array != 0) & (array != 1)
    if bad.any():
        index = first_index(bad)
        raise ValueError(f"x[{', '.join(map(str, index))}] = {array[index]} is neither 0 nor 1")
    return array.astype(np.float64)


def _as_rates(rate: ArrayLike, name: str) -> FloatArray:
    array = as_array(rate, name)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a probability, or an array of them")
    rates = np.array(array, dtype=np.float64)
    bad = ~((rates >= 0) & (rates <= 1))
    if bad.any():
        index = first_index(bad)
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise ValueError(f"{name}{place} = {rates[index]:g} is not a probability in [0, 1]")
    return frozen(rates)


def _as_groups(groups: ArrayLike, rate: FloatArray) -> IntArray:
    array = as_array(groups, "groups")
    if array.dtype.kind not in "iu":
        raise TypeError(f"groups must hold integers, got dtype {array.dtype}")
    if rate.ndim != 1:
        raise ValueError(f"rate must have one entry a group, got shape {rate.shape}")
    bad = (array < 0) | (array >= len(rate))
    if bad.any():
        index = first_index(bad)
        place = ", ".join(map(str, index))
        raise ValueError(
            f"groups[{place}] = {array[index]} is not the index of one of the {len(rate)} rates"
        )
    return frozen(array.astype(np.int64))


def _as_pair(values: ArrayLike, name: str) -> FloatArray:
    array = as_array(values, name)
    if array.dtype.kind not in "iuf" or array.shape not in ((), (2,)):
        raise ValueError(f"{name} must be a number or a pair of numbers, for zeros and ones")
    pair = np.array(np.broadcast_to(array, 2), dtype=np.float64)
    if not np.isfinite(pair).all():
        raise ValueError(f"{name} must be finite, got {tuple(pair.tolist())}")
    return frozen(pair)


def _broadcast(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Return the values for each entry; an image's worth of them also fits its flat form."""
    if values.ndim > 1 and shape == (values.size,):
        values = values.ravel()
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {values.shape}, which does not fit the observed {shape}"
        ) from None


def _collect(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return the sums over the entries that share a rate: the transpose of `_broadcast`."""
    if len(shape) > 1 and values.shape == (math.prod(shape),):
        return values.reshape(shape)
    _broadcast(np.empty(shape), values.shape, "rate")
    more = values.ndim - len(shape)
    shared = [more + axis for axis, size in enumerate(shape) if size == 1]
    return np.asarray(values.sum(axis=(*range(more), *shared))).reshape(shape)


def _as_counts(counts: ArrayLike, size: int) -> FloatArray:
    array = np.asarray(as_array(counts, "counts"), dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(
            f"counts must be {size} finite numbers, the sum of what count() of this channel "
            f"returned; got shape {array.shape}"
        )
    return array


def _shares(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Return events over trials, stacked in `counts`; the old rate where there was no trial."""
    events, trials = counts.reshape(2, *old.shape)
    return np.where(trials > 0, events / np.where(trials > 0, trials, 1.0), old)


def _short(values: FloatArray) -> str:
    return f"{float(values):g}" if values.ndim == 0 else f"<{values.size} rates>"
