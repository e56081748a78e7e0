"""What every channel can do, and what a new one has to say."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, Seed, as_generator, check_choice
from logsuper.bounds import NotApplicable
from logsuper.channels._checks import as_labels, as_means, as_observed, as_shape, refuse

CHANNELS: dict[str, type[Channel]] = {}
"""The channels that have a name in files, and in the argument ``noise`` of estimators."""


class Likelihoods(NamedTuple):
    """Log-likelihoods of observed entries under x = 0, and under x = 1."""

    zero: FloatArray
    one: FloatArray


class Channel(ABC):
    """Noise that acts on every element of x independently of the others.

    A new channel needs `_log_likelihoods` and `_draw`; for moment learning `_unbiased` and
    `_divergence`; to be fitted `_count` and `refit`. Missing entries are handled here. With a
    name, as in ``class Flips(Channel, kind="flips")``, it can be written to a file; with
    `from_pairs` or `from_images`, estimators find its parameters. The properties say the rest.

    Examples
    --------
    >>> import logsuper as ls
    >>> channel = ls.Flips(0.1)
    >>> isinstance(channel, ls.Channel)
    True
    >>> channel.log_odds([1, 0, float("nan")]).round(3)  # the last was not observed
    array([ 2.197, -2.197,  0.   ])
    """

    kind: ClassVar[str] = ""
    # Whether observations are 0 and 1 rather than grey levels, and whether `from_pairs` is there.
    binary: bool = False
    estimable: ClassVar[bool] = False

    def __init_subclass__(cls, kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = kind
        if kind and repr(CHANNELS.setdefault(kind, cls)) != repr(cls):  # but a module may reload
            raise ValueError(f"kind = {kind!r} is taken by {CHANNELS[kind].__name__}")
        if kind:
            CHANNELS[kind] = cls

    # ---------------------------------------------------------------------- what a channel says

    @abstractmethod
    def _log_likelihoods(self, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p(z | x = 0) and log p(z | x = 1); missing entries are 0 in `observed`."""

    @abstractmethod
    def _draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return an observation of x."""

    def _draw_seen(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return an observation of x without missing entries."""
        return self._draw(x, rng)

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        """Return h(z) with E[h(z) | x] = x; missing entries are 0 in `observed`."""
        raise NotApplicable(f"{self!r} has no unbiased estimate of x")

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        """Return E[log-odds | x = 1] of each element."""
        raise NotApplicable(f"{self!r} has no closed form for the mean of its log-odds")

    def _agreement(self, observed: FloatArray) -> FloatArray:
        """Return h(z) with E[h(z) | x] = E[l(z) x | x]; missing entries are 0 in `observed`."""
        return self._divergence(observed.shape) * self._unbiased(observed)

    def _count(self, z: FloatArray, zero: FloatArray, one: FloatArray) -> FloatArray:
        """Return sufficient statistics of z, given each entry's weights as a zero and as a one."""
        raise NotApplicable(f"{self!r} cannot be fitted; keep it fixed")

    @property
    def rates(self) -> dict[str, FloatArray]:
        """The flip rates by name, one per element or one for all; empty if nothing is flipped."""
        return {}

    @property
    def local(self) -> bool:
        """Whether the noise may differ between elements."""
        return any(rates.ndim > 0 for rates in self.rates.values())

    @property
    def levels(self) -> FloatArray:
        """What zeros and ones look like without noise, shape (2,)."""
        return np.array([0.0, 1.0])

    @property
    def noise(self) -> Any:
        """How much noise there is: a flip rate, two of them, or two standard deviations."""
        numbers = [float(r) if r.ndim == 0 else r for r in self.rates.values()]
        return numbers[0] if len(numbers) == 1 else tuple(numbers)

    @property
    def informative(self) -> bool:
        """Whether each observation is, on average, evidence for the value that it shows."""
        return True

    def objection(self, name: str) -> str | None:
        """Return why the channel cannot be used to clean images, None if it can.

        Parameters
        ----------
        name : str
            What the sentence calls the channel.
        """
        return None if self.informative else f"{name} = {self!r} says nothing about x"

    # ------------------------------------------------------------------------- estimates of itself

    @classmethod
    def from_pairs(cls, noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike]) -> Channel:
        """Estimate the channel from observations and the truth.

        Parameters
        ----------
        noisy : sequence of array-like
            NaN, or masked, where nothing was observed.
        clean : sequence of array-like, of the same shapes
            0 or 1; anything else has no label.

        Returns
        -------
        Channel

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Flips.from_pairs([[0, 1, 1, 1]], [[0, 0, 1, 1]])  # half an error is added
        Flips(0.3)
        """
        raise NotApplicable(f"{cls.__name__} cannot be estimated; give a channel")

    @classmethod
    def from_images(cls, noisy: Sequence[ArrayLike]) -> Channel:
        """Estimate the channel from observations alone; by default it cannot be.

        Parameters
        ----------
        noisy : sequence of array-like
            As for `from_pairs`.

        Returns
        -------
        Channel
        """
        raise NotApplicable(f"{cls.__name__} cannot be estimated without clean images")

    # --------------------------------------------------------------------------------------- files

    def to_dict(self) -> dict[str, Any]:
        """Return the kind of the channel and its arguments: text, numbers, arrays, dicts.

        Returns
        -------
        dict
            For `Channel.from_dict`.

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Missing(0.2, ls.AsymmetricFlips(0.1, 0.3)).to_dict()
        {'kind': 'missing', 'rate': 0.2, 'channel': {'kind': 'asymmetric', 'on': 0.1, 'off': 0.3}}
        """
        if CHANNELS.get(self.kind) is not type(self):
            raise TypeError(f"{self!r} has no kind, which its class must name to be written")
        found: dict[str, Any] = {"kind": self.kind}
        for name in inspect.signature(type(self)).parameters:
            match getattr(self, name):
                case Channel() as inside:
                    found[name] = inside.to_dict()
                case np.ndarray(ndim=0) as number:
                    found[name] = float(number)
                case value:
                    found[name] = value
        return found

    @staticmethod
    def from_dict(parts: Mapping[str, Any]) -> Channel:
        """Return the channel that `to_dict` was called on.

        Parameters
        ----------
        parts : mapping

        Returns
        -------
        Channel

        Examples
        --------
        >>> import logsuper as ls
        >>> ls.Channel.from_dict({"kind": "flips", "rate": 0.1})
        Flips(0.1)
        """
        known = CHANNELS[check_choice(parts.get("kind"), "kind", CHANNELS)]
        arguments = {
            name: Channel.from_dict(value) if isinstance(value, Mapping) else value
            for name, value in parts.items()
            if name != "kind"
        }
        return known(**arguments)

    # --------------------------------------------------------------------------------- likelihoods

    def _where_seen(
        self, observed: ArrayLike, missing: float, find: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return what is found for the observed entries, and a constant for the others."""
        z = as_observed(observed)
        lost = np.isnan(z)
        return np.where(lost, missing, find(np.where(lost, 0.0, z)))

    def log_likelihoods(self, observed: ArrayLike) -> Likelihoods:
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
        why = f"has probability 0 under {self!r}, whatever the element is"
        refuse(impossible, z, "observed", why)
        return Likelihoods(np.where(missing, 0.0, zero), np.where(missing, 0.0, one))

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
            Mostly outside of [0, 1]; NaN where nothing was observed.

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
        return self._where_seen(observed, np.nan, self._unbiased)

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
        return self._where_seen(observed, 0.0, self._agreement)

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
        """Draw another observation of x, with the same entries missing as in a given one.

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

    def count(self, observed: ArrayLike, mean: ArrayLike) -> FloatArray:
        """Return the statistics of some images that `refit` needs; add up those of several calls.

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
        z = as_observed(observed)
        m, seen = as_means(mean, z.shape), ~np.isnan(z)
        return self._count(np.where(seen, z, 0.0), seen * (1.0 - m), seen * m)

    def refit(self, counts: ArrayLike) -> Channel:
        r"""Return the channel of this kind that fits best: the M step of EM (section 4.4).

        It maximises :math:`\sum_dE\log p(z_d\mid x_d)` over the parameters of the channel, each
        image's x distributed as the mean that was counted. Rates without observations stay as they
        are. A flip rate stays below one half: a rate above it is one below it with 0 and 1
        exchanged.

        Parameters
        ----------
        counts : array-like
            A sum of results of `count` of this channel.

        Returns
        -------
        Channel
        """
        raise NotApplicable(f"{self!r} cannot be fitted; keep it fixed")
