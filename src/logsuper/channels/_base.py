"""What every channel can do, and what a new one has to say."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, Seed, as_generator, as_numeric, first_index
from logsuper.bounds import NotApplicable
from logsuper.channels._checks import as_labels, as_observed, as_shape

__all__ = ["Channel"]


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
        z = as_observed(observed)
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
        z = as_observed(observed)
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
        z = as_observed(observed)
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
        sizes = as_shape(shape)
        with np.errstate(divide="ignore", over="ignore"):
            return np.broadcast_to(self._divergence(sizes), sizes)

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
        return self._draw(as_labels(x), as_generator(seed))

    def sample_like(self, observed: ArrayLike, x: ArrayLike, seed: Seed = None) -> FloatArray:
        """Draw another observation of x, with the same entries missing as in one that was made.

        Parameters
        ----------
        observed : array-like
            NaN, or masked, where nothing was observed.
        x : array-like of 0 and 1, of the shape of `observed`
        seed : int, Generator or None

        Returns
        -------
        ndarray of the shape of x, float64

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Flips(0.0).sample_like([0, float("nan"), 1], [1, 1, 0])
        array([ 1., nan,  0.])
        """
        z, bits = as_observed(observed), as_labels(x)
        if bits.shape != z.shape:
            raise ValueError(f"x has shape {bits.shape}, but observed {z.shape}")
        return np.where(np.isnan(z), np.nan, self._draw_seen(bits, as_generator(seed)))

    def _draw_seen(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw an observation of x, no entry of which is missing."""
        return self._draw(x, rng)

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
        z, m = as_observed(observed), np.asarray(as_numeric(mean, "mean"), dtype=np.float64)
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
