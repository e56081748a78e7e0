r"""Error bars of estimated moments, and the match of moments that heeds them.

Estimated moments :math:`\hat\mu` are off by the noise of the pixels, each statistic by a standard
error :math:`s_j`; and by the error :math:`s_\pi` of the rate of the noise, which moves all of them
together along :math:`v=d\hat\mu/d\pi`. For flips

.. math:: \frac{d\hat x}{d\pi}=\frac{2\hat x-1}{1-2\pi},\qquad
    \frac{d\hat f_k}{d\pi}=-\frac{2(n_k-2\hat f_k)}{1-2\pi}

with :math:`n_k` the weight of all edges: in a large smooth image, an error of .001 of the rate
moves the estimated boundary by as much as its length. So the model of maximum entropy is wanted
whose moments are those of some rate within :math:`cs_\pi` of the given one, up to :math:`cs_j`
each. Its dual is the loss of moments with a regulariser that vanishes as data grow,

.. math:: \min_\theta A(\theta)-\theta^\top\hat\mu
    +c\sum_js_j|\theta_j-c_j|+c\,s_\pi|\theta^\top v|

(M. Dudik, S. Phillips and R. Schapire, "Maximum entropy density estimation with generalized
regularization", JMLR 8, 2007).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from logsuper._base import FloatArray, IntArray, as_keys
from logsuper.channels import Channel
from logsuper.learning._examples import Codes, Examples, Group
from logsuper.learning._features import Judged
from logsuper.learning._make_examples import corrupt_again
from logsuper.learning._moment_targets import cuts_of, estimate, moment_targets
from logsuper.learning._objective import Penalty
from logsuper.learning._stochastic import units

# Errors are found from at most _PIXELS pixels. Noise is drawn on _IMAGES images at least, several
# times on each where they are few, and on at most _MOST pixels; where pixels are missing, _DRAWS
# times on all.
_PIXELS, _IMAGES, _MOST, _DRAWS = 1 << 19, 256, 1 << 22, 64
# Rounds of votes among neighbours that give the images to draw noise on.
_VOTES = 2
# Distance of the two rates of a finite difference.
_STEP = 1e-4
# Absolute values are parabolas within this share of a unit of each parameter.
_SMOOTH = 0.05


@dataclasses.dataclass(frozen=True, eq=False)
class ErrorBars:
    """How far estimated moments, as means over the examples, may be off.

    Attributes
    ----------
    stderr : ndarray of shape (P,)
        Standard errors due to the noise of the pixels, in the order of the parameters.
    direction : ndarray of shape (P,)
        Derivatives with respect to the rate of flips.
    rate : float
        Standard error of that rate.
    """

    stderr: FloatArray
    direction: FloatArray
    rate: float


@dataclasses.dataclass(frozen=True, eq=False)
class Relaxed(Penalty):
    r"""A regulariser with :math:`\sum_ja_j|\theta_j-c_j|+b|\theta^\top v|` beside the parabola.

    Attributes
    ----------
    slack : ndarray of shape (P,)
        :math:`a_j`: by how much the moment of a model may differ from its target.
    direction : ndarray of shape (P,)
        :math:`v`.
    shift : float
        :math:`b`: how far targets may be moved along v.
    widths : ndarray of shape (P,)
        Within these distances from 0, absolute values are parabolas.
    width : float
        The same for :math:`\theta^\top v`.
    """

    slack: FloatArray
    direction: FloatArray
    shift: float
    widths: FloatArray
    width: float

    @classmethod
    def make(cls, penalty: Penalty, bars: ErrorBars, factor: float, examples: Examples) -> Relaxed:
        """Return the regulariser of a match within `factor` standard errors."""
        widths = _SMOOTH * units(examples)
        width = float(np.max(np.abs(bars.direction) * widths, initial=0.0)) or 1.0
        slack, shift = factor * bars.stderr, factor * bars.rate
        return cls(penalty.weights, penalty.center, slack, bars.direction, shift, widths, width)

    @property
    def least(self) -> float:
        r"""What no loss with these absolute values is below if some distribution is in the bars.

        It would be 0 with :math:`|\theta_j|` for :math:`|\theta_j-c_j|` and without parabolas.
        """
        rounded = self.slack @ (np.abs(self.center) + self.widths / 2.0)
        return -float(rounded + self.shift * self.width / 2.0)

    def value(self, theta: FloatArray) -> float:
        """Return the penalty."""
        along = float(theta @ self.direction)
        own = self.slack @ _smooth_abs(theta - self.center, self.widths)
        return super().value(theta) + float(own + self.shift * _smooth_abs(along, self.width))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return its gradient."""
        along = float(theta @ self.direction)
        own = self.slack * np.clip((theta - self.center) / self.widths, -1.0, 1.0)
        common = self.shift * np.clip(along / self.width, -1.0, 1.0) * self.direction
        return np.asarray(super().gradient(theta) + own + common)


def find_error_bars(examples: Examples, rate_stderr: float, key: int) -> ErrorBars:
    """Return the error bars of the moments that `moment_targets` estimates.

    The noise of the pixels is drawn anew, on images that are nearly clean: how much estimates
    differ from the statistics of these images is what they are off by.
    """
    direction = np.zeros(examples.layout.size)
    if rate_stderr > 0.0:
        direction = rate_direction(examples)
    return ErrorBars(_pixel_errors(examples, key), direction, rate_stderr)


def rate_direction(examples: Examples) -> FloatArray:
    """Return the derivatives of the estimated moments with respect to the rates of flips.

    All rates move by the same number. Log-odds and context stay what they are: they are fixed
    functions of the observations.
    """
    channel = examples.channel
    assert channel is not None
    part = examples.some(_PIXELS, 0).with_channel(channel)
    rates = np.concatenate([rates.ravel() for rates in channel.rates.values()])
    step = min(_STEP, 0.5 * float(rates.min()))
    low, high = (_mean_targets(part, move_rates(channel, by)) for by in (-step, step))
    return (high - low) / (2.0 * step)


def move_rates(channel: Channel, by: float) -> Channel:
    """Return a channel of flips with all rates moved by a number."""

    def moved(parts: Mapping[str, Any]) -> dict[str, Any]:
        if "channel" in parts:  # the noise is that of the channel inside
            return {**parts, "channel": moved(parts["channel"])}
        return {**parts, **{name: parts[name] + by for name in channel.rates}}

    return Channel.from_dict(moved(channel.to_dict()))


# ------------------------------------------------------------------------------------------ inside


def _smooth_abs(t: Any, width: Any) -> Any:
    """Return |t|, or a parabola where that is below `width` (P. Huber, 1964)."""
    size = np.abs(t)
    return np.where(size > width, size - width / 2, size**2 / (2 * width))


def _pixel_errors(examples: Examples, key: int) -> FloatArray:
    """Return the standard errors of the mean statistics that the noise of the pixels makes."""
    whole = not any(_has_missing(group) for group in examples.groups)
    some, *keys = as_keys(np.random.default_rng(key), 1 + _IMAGES)
    part = _settle(examples.some(_PIXELS if whole else _MOST // _DRAWS, some))
    clean = [_vote(part, group) for group in part.groups]
    draws = min(-(-_IMAGES // part.count), max(1, _MOST // part.pixels)) if whole else _DRAWS
    squares = np.zeros(examples.layout.size)
    for seed in keys[:draws]:
        again = corrupt_again(part, clean, np.random.default_rng(seed))
        targets = moment_targets(again)
        off = [
            targets.statistics(group, rows)
            - again.statistics(group, rows, again.label_moments(group, rows))
            for group, rows in again.pieces()
        ]
        if whole:
            squares += sum(np.sum(piece**2, axis=0) for piece in off)
        else:  # missing entries are filled in by others, so that errors of images are not apart
            squares += np.sum([np.sum(piece, axis=0) for piece in off], axis=0) ** 2
    return np.sqrt(squares / (draws * part.count * examples.count))


def _settle(examples: Examples) -> Examples:
    """Return the examples with judges that repeat what they said, whatever is observed.

    Given the features, errors are those of the estimates of x; and judges may take long.
    """
    groups = []
    for group in examples.groups:
        if isinstance(group.features, Judged):
            parts = [
                group.features.said(group.inputs(rows, examples.log_odds(group, rows)))
                for rows in group.pieces()
            ]
            said = np.concatenate(parts)
            judge = functools.partial(_repeat, said)
            own = Judged(group.features.around, judge, np.arange(group.count))
            group = dataclasses.replace(group, features=own)
        groups.append(group)
    return dataclasses.replace(examples, groups=tuple(groups))


def _repeat(said: FloatArray, numbers: IntArray, odds: FloatArray) -> FloatArray:
    return said[numbers]


def _has_missing(group: Group) -> bool:
    return any(bool(np.isnan(group.read_observed(rows)).any()) for rows in group.pieces())


def _vote(examples: Examples, group: Group) -> Codes:
    """Return images that are nearly clean: each pixel as most of its neighbours, and itself, are.

    Missing pixels have no vote.
    """
    structure = cuts_of(group)
    x = np.empty((group.count, group.prepared.n), dtype=np.uint8)
    for rows in group.pieces():
        votes = np.nan_to_num(estimate(examples, group, rows) - 0.5)
        for _ in range(_VOTES):
            signs = np.sign(votes)
            votes = signs.copy()
            for _, _, cut in structure.cuts:
                first, second = cut._gather(signs)
                votes += cut._scatter(second, first)
        x[rows] = votes > 0
    return x


def _mean_targets(examples: Examples, channel: Channel) -> FloatArray:
    """Return the mean estimated statistics, with estimates made for another channel of flips."""
    # log-odds, and what is made of them, are kept in the groups
    other = dataclasses.replace(examples, channel=channel)
    targets = moment_targets(other)
    total = np.zeros(examples.layout.size)
    for group, rows in other.pieces():
        total += targets.statistics(group, rows).sum(axis=0)
    if examples.layout.scale:
        pieces = other.pieces()
        total[-1] = sum(_agreement(examples, other, group, rows) for group, rows in pieces)
    return total / examples.count


def _agreement(examples: Examples, other: Examples, group: Group, rows: IntArray) -> float:
    """Return an estimate of the sum of l'x, with the log-odds l of the channel of `examples`."""
    assert examples.channel is not None and other.channel is not None
    mean = np.zeros(group.shape)  # of l where x = 1
    for z in (np.zeros(group.shape), np.ones(group.shape)):
        mean += np.exp(other.channel.log_likelihoods(z).one) * examples.channel.log_odds(z)
    return float(np.nansum(estimate(other, group, rows) * mean.ravel()))
