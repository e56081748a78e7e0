"""Warnings after a fit whose result cannot be right, each with a remedy.

A mask that fits the images leaves residuals that are independent from pixel to pixel, and of two
levels where images are grey (`logsuper.learning.examine_residuals`). Its share of ones is the one
that the channel implies. And its pixels are uncertain where observations are uncertain and
neighbours disagree: at its borders.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter, minimum_filter
from scipy.special import expit

from logsuper import learning
from logsuper._base import FloatArray, beat
from logsuper.channels import Channel
from logsuper.estimators._images import Image
from logsuper.learning import Examples, Learned, Place, Residuals, choose_learner

__all__ = ["doubt_answer"]

# Maximum number of pixels examined; perturbations per image for their probabilities.
_ENOUGH, _DRAWS = 1 << 19, 16
# Maximum number of warnings per fit.
_MOST = 2
# Neighbours are not more alike than other pixels if their correlation is within this number of
# standard errors of 0.
_ALIKE = 3.0
# A weight of the observations below this counts as 0.
_NO_WEIGHT = 1e-2
# A mask of one label is doubted if this share of the pixels, plus this number of standard errors,
# has the other label; minimum number of pixels for that test.
_HIDDEN, _SIGMAS, _FEW = 0.01, 5.0, 100
# Probabilities within _CERTAIN of 0 or 1 are certain. They are too certain if this share of the
# pixels at borders is, although their own observations are wrong with probability _DOUBT or more;
# minimum number of pixels at borders. Axis-aligned squares, the most certain of shapes, have 92 %.
_CERTAIN, _NEARLY_ALL, _DOUBT, _BORDER = 1e-3, 0.98, 0.01, 20

_SAFEST = choose_learner(False, ()).name
_LABELS = "give labels of some pixels, fit(noisy, clean) with NaN for the others"
_OTHERWISE = f"{_LABELS}, or features of a classifier (logsuper.learning.make_examples)"


class _Seen(NamedTuple):
    """All observed pixels, in one row each.

    Attributes
    ----------
    doubt : ndarray
        Probability that the pixel is wrong given its own observation alone, with prior 1/2.
    probability : ndarray
        Probability of a one under the fitted model.
    border : ndarray of bool
        Whether a neighbour has the other label.
    """

    doubt: FloatArray
    probability: FloatArray
    border: NDArray[np.bool_]


def doubt_answer(
    examples: Examples,
    learned: Learned,
    images: Sequence[Image],
    places: list[Place] | None,
    *,
    labelled: bool,
    estimated: bool,
    residuals: bool,
    said: int,
    key: int,
    n_jobs: int | None,
) -> None:
    """Warn of a result that cannot be right; at most two warnings, earlier ones included.

    Parameters
    ----------
    examples : Examples
    learned : Learned
        What was learned from them.
    images : list of ndarray
        The observed images of the examples.
    places : list of Place, optional
        Where they come from if they are windows.
    labelled : bool
        Whether labels say what is right.
    estimated : bool
        Whether the channel was estimated without labels.
    residuals : bool
        Whether to examine residuals.
    said : int
        Number of warnings about these images so far.
    key : int
        Seed for the choice of examples and for perturbations.
    n_jobs : int, optional
    """
    index = examples.pick(_ENOUGH, key)
    channel = examples.channel if learned.channel is None else learned.channel
    assert channel is not None
    part = examples.subset(index).with_channel(channel)
    found = list(
        learning.means(
            part, learned.theta, method="logistic", n_samples=_DRAWS, seed=key, n_jobs=n_jobs
        )
    )
    observed = [images[i].astype(np.float64) for i in index]
    seen = _gather(channel, observed, found)
    texts = list(_degenerate(channel, learned, observed, seen, labelled))
    # of all pixels, as if they had the same label
    alike, error = learning.neighbour_correlation(observed, [np.zeros(z.shape) for z in observed])
    if estimated and not channel.binary and abs(alike) <= _ALIKE * error < np.inf:
        texts.append(_noise_alone(channel, alike, error))
    elif residuals:
        masks = [(p > 0.5).astype(np.uint8) for p in found]
        where = None if places is None else [places[i] for i in index]
        texts += _explain(learning.examine_residuals(observed, masks, where))
    if not (texts or labelled):  # else the reason is among them
        texts += _heavy(examples, learned)
    for text in texts[: max(_MOST - said, 0)]:
        warnings.warn(text, UserWarning, stacklevel=3)


# ------------------------------------------------------------------------------------------ inside


def _gather(channel: Channel, observed: list[FloatArray], found: list[FloatArray]) -> _Seen:
    rows = []
    for z, p in zip(observed, found, strict=True):
        beat()
        mask, there = (p > 0.5).astype(np.uint8), ~np.isnan(z)
        border = maximum_filter(mask, 3) != minimum_filter(mask, 3)
        doubt = expit(-np.abs(channel.log_odds(z)))
        rows.append([part[there] for part in (doubt, p, border)])
    return _Seen(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def _heavy(examples: Examples, learned: Learned) -> Iterator[str]:
    """Yield that a weight is larger than any pixel could feel."""
    name, weight = learning.heaviest(examples, learned.theta)
    if weight > learning.HEAVY:
        yield (
            f"the learned weight of {name} is {weight:.3g}, above {learning.HEAVY:g}, beyond which "
            "no pixel feels a difference: the fit has run away, and probabilities are too sure. "
            f"Raise penalty, give noise if you know it, or learner={_SAFEST!r}; {_OTHERWISE}"
        )


def _degenerate(
    channel: Channel, learned: Learned, observed: list[FloatArray], seen: _Seen, labelled: bool
) -> Iterator[str]:
    """Yield what is wrong with probabilities that are all or nothing."""
    parameters = learned.parameters
    # tanh(l / 2) is about l / 2 for weak evidence l
    weight = parameters.scale + 0.5 * float(np.abs(parameters.beta).sum())
    if weight < _NO_WEIGHT:
        yield (
            f"the learned weight of the observations is {weight:.1g}: masks would not depend on "
            f"the images. Give noise if you know it; {_OTHERWISE}"
        )
        return
    ones = seen.probability > 0.5
    if ones.all() or not ones.any():
        hidden, error = _hidden(channel, observed, float(ones.all()))
        if hidden > _HIDDEN + _SIGMAS * error:
            yield (
                f"one label covers everything, although {100 * hidden:.0f} % of the pixels look "
                "like the other one. Flatten uneven light (flatten_light), give noise if you know "
                f"it; {_OTHERWISE}"
            )
        return
    # labels, or a modular term per pixel, may know where borders are
    if labelled or parameters.modular.size > 1 or seen.border.sum() < _BORDER:
        return
    p = seen.probability[seen.border]
    sure, doubt = np.mean(np.minimum(p, 1.0 - p) < _CERTAIN), seen.doubt[seen.border].mean()
    if sure > _NEARLY_ALL and doubt > _DOUBT:
        yield (
            f"probabilities are all or nothing: {100 * sure:.0f} % of the pixels at borders of "
            f"masks are within {_CERTAIN:g} of 0 or 1, where the observations leave "
            f"{100 * doubt:.0f} % in doubt. The weights cannot be right: learner={_SAFEST!r} "
            f"is safest; {_OTHERWISE}"
        )


def _hidden(channel: Channel, observed: list[FloatArray], label: float) -> tuple[float, float]:
    """Return the share of pixels with the other label by the channel alone, and its error."""
    estimates = np.concatenate([channel.unbiased(z)[~np.isnan(z)] for z in observed])
    if estimates.size < _FEW:
        return 0.0, np.inf
    error = float(estimates.std()) / np.sqrt(estimates.size)
    return abs(float(estimates.mean()) - label), error


def _noise_alone(channel: Channel, alike: float, error: float) -> str:
    low, high = (f"{level:.4g}" for level in channel.levels)
    return (
        f"noisy looks like noise alone: neighbouring pixels are no more alike than others "
        f"(correlation {alike:.3f}, standard error {error:.3f}), and the levels {low} and {high} "
        f"mean nothing. Check that there is something to see; give noise if you know it; "
        f"{_OTHERWISE}"
    )


def _explain(found: Residuals) -> list[str]:
    """Return what is wrong with residuals, and what to do."""
    said = []
    for cause in found.causes:
        if cause == "light":
            assert found.lowest is not None and found.highest is not None
            high, low = (
                f"{abs(extreme.value):.1f} deviations {side} its level around "
                f"noisy[{extreme.image}]{list(extreme.at)}"
                for extreme, side in ((found.highest, "above"), (found.lowest, "below"))
            )
            said.append(
                f"the light is uneven: inside of regions, noisy is {high}, and {low}. Masks follow "
                "the light. Flatten it first: subtract a wide blur, as flatten_light(noisy) does; "
                f"or {_LABELS}"
            )
        elif cause == "levels":
            reason = (
                f"patches inside of regions differ (correlation {found.far:.2f} at 4 pixels)"
                if found.far > 0.0
                else f"grey levels are not Gaussian (distance {found.distance:.2f})"
            )
            said.append(
                f"two Gaussian levels do not describe noisy: {reason}: more levels, objects, "
                f"shades or texture. Masks are one of several ways to split it; {_OTHERWISE}"
            )
        else:
            said.append(
                f"the noise is not independent: inside of regions, neighbouring pixels have a "
                f"correlation of {found.near:.2f} that nothing smooth explains: blobs, stripes, "
                "compression, blur or texture, which masks then follow. Take every 4th pixel of "
                f"large images, noisy[:, ::4, ::4]; {_OTHERWISE}"
            )
    return said
