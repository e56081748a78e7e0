r"""A proper score of noisy data: how well a model predicts pixels that it did not see.

Some observed pixels are hidden: they are missing everywhere, in the evidence and in the filter.
The model says from the others how probable a one is behind each, :math:`m_d`, and the channel what
would then be observed,

.. math:: P(z_d\mid z_{\text{seen}})=m_d\,p(z_d\mid1)+(1-m_d)\,p(z_d\mid0).

Its mean logarithm is largest, on average, for the true law of the images, whatever the model, its
features and its approximations, because a hidden pixel is never seen (T. Gneiting and A. Raftery,
"Strictly proper scoring rules, prediction, and estimation", 2007). It needs no clean image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from logsuper._base import (
    FloatArray,
    Seed,
    as_generator,
    as_keys,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.learning._decoding import METHODS, MeanFinder, means
from logsuper.learning._examples import UNKNOWN, Examples, Group, check_observed
from logsuper.learning._features import Dense
from logsuper.learning._make_examples import with_inputs
from logsuper.learning._smooth import check_start

PART = 16
"""One pixel in so many is hidden at a time: enough others are left to predict it from."""

# Perturbations behind a prediction.
_SAMPLES = 32
# A prediction is never nearer than this to 0 or 1: no model is that sure of its own assumptions.
_DOUBT = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Score:
    """Log-probabilities of hidden pixels.

    Attributes
    ----------
    pixels : tuple of ndarray of shape (N, n)
        Of each group, the log-probability of each pixel; NaN where it was never hidden.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, score
    >>> z = ls.Flips(0.1).sample(ls.make_silhouettes(2, shape=(30, 30), seed=0), seed=1)
    >>> data = make_examples(ls.grid_cuts((30, 30)), observed=z, channel=ls.Flips(0.1))
    >>> found = score(data, data.layout.fill(alpha=1.2))
    >>> [part.shape for part in found.pixels]
    [(2, 900)]
    """

    pixels: tuple[FloatArray, ...]

    @property
    def value(self) -> float:
        """Mean log-probability, in nats per pixel; larger is better."""
        return _mean(self.pixels)[0]

    @property
    def stderr(self) -> float:
        """Standard error of the mean, from image to image."""
        return _mean(self.pixels)[1]

    def minus(self, other: Score) -> tuple[float, float]:
        """Return by how much this is better than another, and the standard error of that.

        Both must be of the same examples with the same seed: differences are taken pixel by pixel.
        """
        return _mean(tuple(a - b for a, b in zip(self.pixels, other.pixels, strict=True)))


def score(
    examples: Examples,
    theta: FloatArray,
    *,
    features: Callable[[Any], Any] | None = None,
    edge_weights: Callable[[Any], Any] | None = None,
    method: str = "logistic",
    patterns: int = 4,
    n_samples: int = _SAMPLES,
    temperature: float = 1.0,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> Score:
    """Predict observed pixels that are hidden from the model, and score the predictions.

    Parameters
    ----------
    examples : Examples
        With observations; labels are not looked at.
    theta : ndarray of shape (P,)
        The parameters.
    features, edge_weights : callable, optional
        Needed where `examples` have arrays of that name, which might know the hidden pixels. Called
        for each pattern with the observed images, NaN at hidden pixels: an array (N, ...), or a
        list where shapes differ. Returns the array or list that `make_examples` takes. What is
        not made from the observations may be returned as it is. ``context`` needs no callable.
    method : {"logistic", "exact", "auto"}
        How predictions are found, as in `means`: score the probabilities that will be used.
    patterns : int, 1 to 16
        How often other pixels are hidden, one in 16 each time; with 16, each pixel once.
    n_samples : int
        Perturbations behind each prediction, for "logistic".
    temperature : float
        Log-odds of predictions are divided by it, see `soften`.
    seed : int, Generator or None
        Which pixels are hidden, and the perturbations. With the same seed, differences between
        models have little noise.
    n_jobs : int, optional

    Returns
    -------
    Score

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, score
    >>> z = ls.Flips(0.1).sample(ls.make_silhouettes(10, shape=(30, 30), seed=0), seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((30, 30)), observed=z, channel=ls.Flips(0.1), modular="none"
    ... )
    >>> smooth, rough = (score(data, data.layout.fill(alpha=a)) for a in (1.2, 0.1))
    >>> better, error = smooth.minus(rough)
    >>> bool(better > 3 * error)
    True
    """
    made = blind(examples, features, edge_weights)
    t = check_temperature(temperature)
    return Hiding(patterns, n_samples, seed, n_jobs, method, made).score(examples, theta, t)


def check_temperature(temperature: object) -> float:
    """Return a temperature, which must be positive."""
    number = check_number(temperature, "temperature")
    if number <= 0:
        raise ValueError(f"temperature must be positive, got {number:g}")
    return number


def heat(p: FloatArray, temperature: float) -> FloatArray:
    """Return probabilities, or NaN, with log-odds divided by a temperature."""
    return p if temperature == 1.0 else np.asarray(expit(logit(p) / temperature))


def score_labels(
    examples: Examples,
    theta: FloatArray,
    *,
    method: str = "logistic",
    n_samples: int = _SAMPLES,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> Score:
    """Return the log-probabilities of labels, NaN where there is none: minus the log loss."""
    found = means(examples, theta, method=method, n_samples=n_samples, seed=seed, n_jobs=n_jobs)
    pixels = []
    for group in examples.groups:
        assert group.labels is not None
        p = np.clip([found[i].ravel() for i in group.index], _DOUBT, 1.0 - _DOUBT)
        x = group.labels[np.arange(group.count)]
        logs = np.log(np.where(x == 1, p, 1.0 - p))
        pixels.append(np.where(x == UNKNOWN, np.nan, logs))
    return Score(tuple(pixels))


@dataclasses.dataclass(frozen=True, eq=False)
class Hiding:
    """How pixels are hidden and predicted; features see them, unless they are `made` without."""

    patterns: int
    n_samples: int
    seed: Seed
    n_jobs: int | None
    method: str = "logistic"
    made: Callable[[Examples], Examples] | None = None

    def score(self, examples: Examples, theta: FloatArray, temperature: float = 1.0) -> Score:
        """Return the score of some parameters."""
        pixels = []
        for group, mean in zip(examples.groups, self.means(examples, theta), strict=True):
            parts = [
                log_predictive(examples, group, rows, heat(mean[rows], temperature))
                for rows in group.pieces()
            ]
            pixels.append(np.concatenate(parts))
        return Score(tuple(pixels))

    def means(self, examples: Examples, theta: FloatArray) -> list[FloatArray]:
        """Return, of each group, the probability of a one behind each pixel while it is hidden.

        NaN where it never is.
        """
        check_observed(examples, "a score without labels needs")
        theta = check_start(theta, examples.layout)
        count = check_integer(self.patterns, "patterns", 1, PART + 1)
        draws = check_integer(self.n_samples, "n_samples", 1, 2**31)
        check_choice(self.method, "method", METHODS)
        places, key = as_keys(as_generator(self.seed), 2)
        turns = [
            np.random.default_rng([places, g]).integers(PART, size=(group.count, group.prepared.n))
            for g, group in enumerate(examples.groups)
        ]
        found = [np.full(turn.shape, np.nan) for turn in turns]
        find = MeanFinder(examples.layout.unpack(theta).alpha, self.method, draws, key, self.n_jobs)
        observed = [group.read_observed(np.arange(group.count)) for group in examples.groups]
        for number in range(count):
            hidden = [turn == number for turn in turns]
            seen = examples.with_observed(
                [np.where(h, np.nan, z) for h, z in zip(hidden, observed, strict=True)]
            )
            if self.made is not None:
                seen = self.made(seen)
            for g, group in enumerate(seen.groups):
                for rows in group.pieces():
                    mean = find(group, rows, seen.fields(theta, group, rows), group.index[rows])
                    found[g][rows] = np.where(hidden[g][rows], mean, found[g][rows])
        find.widths.warn(stacklevel=5)
        return found


def blind(
    examples: Examples,
    features: Callable[[Any], Any] | None,
    edge_weights: Callable[[Any], Any] | None,
) -> Callable[[Examples], Examples]:
    """Return what gives examples with hidden pixels the features made without these pixels.

    Arrays that may have been made with them are refused.
    """
    check_observed(examples, "a score without labels needs")
    there = {
        "features": any(isinstance(group.features, Dense) for group in examples.groups),
        "edge_weights": any(group.edge_weights is not None for group in examples.groups),
    }
    makers = {"features": features, "edge_weights": edge_weights}
    for name, maker in makers.items():
        if maker is not None and not callable(maker):
            raise TypeError(
                f"{name} must be a callable of the observed images, got a {type(maker).__name__}"
            )
        if there[name] and maker is None:
            raise ValueError(
                f"examples have {name} as an array, which may know the pixels that are to be "
                f"hidden: give {name}=callable, which gets the observed images with NaN at hidden "
                f"pixels and returns the array (lambda z: array, if it was not made from them)"
            )
        if maker is not None and not there[name]:
            raise ValueError(f"{name} is given, but the examples have none to be replaced")

    def made(seen: Examples) -> Examples:
        images = seen.in_order([group.images(np.arange(group.count)) for group in seen.groups])
        return with_inputs(seen, *(maker and maker(images) for maker in makers.values()))

    return made


def log_predictive(
    examples: Examples, group: Group, rows: NDArray[np.int64], mean: FloatArray
) -> FloatArray:
    """Return the log-probability of what was observed, NaN where nothing was, or no mean."""
    channel = examples.channel
    assert channel is not None
    z = group.images(rows)
    zero, one = (part.reshape(len(rows), -1) for part in channel.log_likelihoods(z))
    unknown = np.isnan(mean) | np.isnan(z.reshape(len(rows), -1))
    p = np.clip(np.where(unknown, 0.5, mean), _DOUBT, 1.0 - _DOUBT)
    return np.where(unknown, np.nan, np.logaddexp(np.log1p(-p) + zero, np.log(p) + one))


# ------------------------------------------------------------------------------------------ inside


def _mean(pixels: tuple[FloatArray, ...]) -> tuple[float, float]:
    """Return the mean of what is known, and its standard error from image to image."""
    known = np.concatenate([np.count_nonzero(part == part, axis=1) for part in pixels])
    sums = np.concatenate([np.nansum(part, axis=1) for part in pixels])
    total = known.sum()
    if not total:
        return float("nan"), float("nan")
    mean = float(sums.sum() / total)
    images = np.count_nonzero(known)
    if images < 2:
        return mean, float("nan")
    spread = ((sums - mean * known) ** 2).sum() * images / (images - 1)
    return mean, float(np.sqrt(spread) / total)
