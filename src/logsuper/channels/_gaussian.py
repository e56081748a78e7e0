"""Grey levels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from logsuper._base import FloatArray, as_array, frozen
from logsuper.channels._base import Channel
from logsuper.channels._checks import LEAST_APART, as_counts
from logsuper.channels._pairs import by_label, count_pairs

# Minimum standard deviation of a refitted class, as a share of that of all grey levels; and of one
# estimated from pairs, as a share of the distance between the means.
_NARROWEST, _THINNEST = 1e-3, 1e-6
# A variance below this share of a second moment is rounding.
_ROUNDING = 1e-12


class Gaussian(Channel, kind="gaussian"):
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

    estimable = True

    def __init__(self, mean: ArrayLike = (0.0, 1.0), scale: ArrayLike = 1.0) -> None:
        self.mean = _as_pair(mean, "mean")
        self.tied = as_array(scale, "scale").ndim == 0
        self.scale = _as_pair(scale, "scale")
        for k, value in enumerate(self.scale):
            if value <= 0:
                raise ValueError(f"scale[{k}] = {value:g} must be positive")

    @classmethod
    def from_pairs(cls, noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike]) -> Gaussian:
        seen, mean = count_pairs(noisy, clean)
        unit = abs(mean[1] - mean[0]) or 1.0
        square = np.zeros(2)
        for value, part in by_label(noisy, clean):
            square[value] += np.sum(((part - mean[value]) / unit) ** 2)
        return cls(mean, unit * np.maximum(np.sqrt(square / seen), _THINNEST))

    @property
    def levels(self) -> FloatArray:
        return self.mean

    @property
    def noise(self) -> tuple[float, float]:
        zero, one = self.scale.tolist()
        return zero, one

    @property
    def informative(self) -> bool:
        return self._apart >= LEAST_APART

    def to_dict(self) -> dict[str, Any]:
        # a single scale stays single in `refit`
        return super().to_dict() | ({"scale": float(self.scale[0])} if self.tied else {})

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
        parts = zip((zero, one), self.mean, strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            counts = np.array([np.sum(w * (z - m) ** k) for w, m in parts for k in range(3)])
        if not np.isfinite(counts).all():
            raise ValueError("observed has entries so large that their squares overflow; rescale")
        return counts

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def refit(self, counts: ArrayLike) -> Gaussian:
        weight, first, second = as_counts(counts, 6).reshape(2, 3).T
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
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("counts have no finite means and spreads; rescale what was observed")
        return Gaussian(mean, scale[0] if self.tied else scale)

    def _unbiased(self, observed: FloatArray) -> FloatArray:
        # Of all h with E[h | 0] = 0 and E[h | 1] = 1, the one with the least sum of variances under
        # x = 0 and 1 is affine in r = p1 / (p0 + p1); E[r | 0] + E[r | 1] = 1 makes it this one.
        if not self.informative:
            raise ValueError(f"{self!r} says nothing about x: zeros and ones look alike")
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * self.log_odds(observed)) / self._apart)

    @cached_property
    def _apart(self) -> float:
        """The mean of (p1 - p0) / (p1 + p0) under x = 1, 0 if zeros and ones look alike."""
        one, weights, odds = self._narrower()
        return float(np.dot(weights, np.tanh(0.5 * odds if one else -0.5 * odds)) / weights.sum())

    def _agreement(self, observed: FloatArray) -> FloatArray:
        # l r is the mean of l x if x is 1 with probability r = p1 / (p0 + p1). Its own mean is e
        # under x = 0, and the divergence minus e under x = 1; with that corrected it is unbiased,
        # and varies with z as l x does, unlike the divergence times an estimate of x.
        odds, excess = self.log_odds(observed), self._excess
        return np.asarray(odds * expit(odds) + excess * (2.0 * self._unbiased(observed) - 1.0))

    @cached_property
    def _excess(self) -> float:
        """The mean of l r under x = 0, which is that of l (1 - r) under x = 1."""
        one, weights, odds = self._narrower()
        return float(np.dot(weights, odds * expit(-odds if one else odds)) / weights.sum())

    def _narrower(self) -> tuple[bool, FloatArray, FloatArray]:
        """Return the x of the narrower law, the weights of the trapezoidal rule in it, and l."""
        # no integrand varies faster than on the scale of this law
        one = bool(self.scale[1] < self.scale[0])
        noise = np.linspace(-12.0, 12.0, 4801)
        with np.errstate(over="ignore"):
            zeros, ones = self._log_likelihoods(self.mean[int(one)] + self.scale[int(one)] * noise)
        return one, np.exp(-0.5 * noise**2), ones - zeros

    def _divergence(self, shape: tuple[int, ...]) -> FloatArray:
        ratio = self.scale[1] / self.scale[0]
        shift = (self.mean[1] - self.mean[0]) / self.scale[0]
        return np.asarray(0.5 * (ratio**2 + shift**2 - 1.0) - np.log(ratio))

    def __repr__(self) -> str:
        return f"Gaussian(mean={tuple(self.mean.tolist())}, scale={tuple(self.scale.tolist())})"


def _as_pair(values: ArrayLike, name: str) -> FloatArray:
    array = as_array(values, name)
    if array.dtype.kind not in "iuf" or array.shape not in ((), (2,)):
        raise ValueError(f"{name} must be a number or a pair of numbers, for zeros and ones")
    pair = np.array(np.broadcast_to(array, 2), dtype=np.float64)
    if not np.isfinite(pair).all():
        raise ValueError(f"{name} must be finite, got {tuple(pair.tolist())}")
    return frozen(pair)
