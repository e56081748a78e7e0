r"""Log-odds of clean pixels given what was observed around them, from noisy images alone.

A classifier that predicts what was observed at a pixel, z, from its surroundings, the pixel itself
left out, estimates the mean of a known function of z. Where zeros and ones have other means of it,

.. math:: P(x_d=1\mid\text{around})=\frac{E[r(z_d)\mid\text{around}]-a_0}{a_1-a_0},\qquad
    a_x=E[r(z)\mid x]:

the channel, inverted (J. Batson and L. Royer, "Noise2Self: blind denoising by self-supervision",
2019, for predictions without the pixel itself). For flips r is z itself, for grey levels
:math:`p(z\mid1)/(p(z\mid0)+p(z\mid1))`. The result does not depend on the noise of its own pixel,
if the classifier was trained without that too: it is a legal feature for learning by moments.

With clean images the classifier predicts the clean pixel, and sees the noisy one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter
from scipy.special import expit, logit
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import FloatArray, IntArray, beat
from logsuper.channels import Channel
from logsuper.estimators._images import Image
from logsuper.estimators._surroundings import LEVELS, count_features, reach, surroundings
from logsuper.estimators._training import train_each
from logsuper.estimators._trees import Trees
from logsuper.learning import PART, Judge, Place

__all__ = ["BlindSpot", "check_classifier", "train_blind_spot"]

FOLDS = 3
"""Parts of the images; each gets its log-odds from a classifier trained on the others."""

PIXELS = 1 << 18
"""Maximum number of pixels that a classifier is trained on."""

# The folds of an image that is not in the training set, and of one that is cut into blocks.
_NEW, _BLOCKS = -2, -1
# Log-odds are those of probabilities at least this far from 0 and 1.
_CERTAIN = 1e-3
# Share of the training images in which pixels are hidden, as `score` hides them.
_HIDDEN = 0.5
# Pixels judged at a time.
_BLOCK = 1 << 16
# Minimum thickness of a block of an image, and as a multiple of the gap around it.
_THICK, _GAPS = 12, 3


def trees(seed: int) -> Any:
    """Return the default classifier."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    return HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=120,
        max_leaf_nodes=31,
        min_samples_leaf=200,
        max_features=0.3,
        early_stopping=False,
        random_state=seed % 2**31,
    )


def check_classifier(classifier: Any, name: str) -> None:
    """Refuse what is not a classifier with probabilities."""
    if isinstance(classifier, type) or not hasattr(classifier, "fit"):
        raise TypeError(f"{name} must be a classifier, an instance with fit, got {classifier!r}")
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"{name} = {type(classifier).__name__}() has no predict_proba; use a classifier that "
            "has one, CalibratedClassifierCV for instance"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class BlindSpot:
    """Classifiers of pixels given their surroundings, one per fold, and how to invert the channel.

    Attributes
    ----------
    models : tuple
        What has `predict_proba`; or the probability of a one, where a fold had one class only.
    ends : tuple of float
        The log-odds' probabilities at a prediction of 0 and of 1.
    binary : bool
        Whether observations are zeros and ones.
    whole : bool
        Whether the pixel itself is seen.
    places : bool
        Whether the place of a pixel is seen.
    levels : int
        Scales of the surroundings.
    seen : ndarray of shape (N,)
        Digests of the training images.
    folds : ndarray of shape (N,)
        Their folds; `_BLOCKS` where images have several, in blocks.
    threads : int
    """

    models: tuple[Any, ...]
    ends: tuple[float, float]
    binary: bool
    whole: bool
    places: bool
    levels: int
    seen: NDArray[np.uint64] = dataclasses.field(default_factory=lambda: np.empty(0, np.uint64))
    folds: NDArray[np.int8] = dataclasses.field(default_factory=lambda: np.empty(0, np.int8))
    threads: int = 1

    @property
    def valid(self) -> bool:
        """Whether a file held what it should."""
        flags = (self.binary, self.whole, self.places)
        return bool(
            isinstance(self.models, tuple)
            and len(self.models) == FOLDS
            and all(
                (isinstance(model, float) and 0.0 <= model <= 1.0)
                or (isinstance(model, Trees) and model.valid)
                for model in self.models
            )
            and isinstance(self.ends, tuple)
            and all(isinstance(end, float) and np.isfinite(end) for end in self.ends)
            and len(self.ends) == 2
            and all(isinstance(flag, bool) for flag in flags)
            and type(self.levels) is int
            and self.levels in range(LEVELS + 1)
            and self.threads == 1
            and all(isinstance(part, np.ndarray) for part in (self.seen, self.folds))
            and self.seen.dtype == np.uint64
            and self.folds.dtype == np.int8
            and self.seen.ndim == 1
            and self.seen.shape == self.folds.shape
            and bool(np.isin(self.folds, range(_BLOCKS, FOLDS)).all())
        )

    def fits(self, axes: int) -> bool:
        """Return whether boosted trees look at as many features as pixels have."""
        width = count_features(axes, self.levels) + axes * self.places + self.whole
        return all(model.width == width for model in self.models if isinstance(model, Trees))

    def rows(self, odds: FloatArray) -> NDArray[np.float32]:
        """Return the features of all pixels of some images, (B n, p), from their log-odds.

        In memory each feature is in one piece: so it is written, and read by trees.
        """
        signs = np.sign(odds) if self.binary else np.tanh(odds / 2.0)
        axes = odds.ndim - 1
        inner = count_features(axes, self.levels)
        width = inner + axes * self.places + self.whole
        found = np.zeros((width, *odds.shape), dtype=np.float32)
        surroundings(signs, self.levels, found[:inner])
        if self.places:
            steps = [np.linspace(0.0, 1.0, side) for side in odds.shape[1:]]
            for feature, place in zip(
                found[inner:], np.meshgrid(*steps, indexing="ij"), strict=False
            ):
                feature[:] = place
        if self.whole:
            found[-1] = signs
        return found.reshape(width, -1).T

    def judge_new(self, threads: int = 1) -> Judge:
        """Return what judges new images, by all classifiers together."""
        own = dataclasses.replace(self, threads=threads)
        return lambda _, odds: own._judge(odds, lambda rows, _, team: own._average(rows, team))

    def judge(self, images: Sequence[Image], threads: int = 1) -> Judge:
        """Return what judges some images, those of the training set as in training."""
        found: list[Any] = []
        for image in images:
            at = np.flatnonzero(self.seen == np.uint64(_digest(image)))
            fold = int(self.folds[at[0]]) if len(at) else _NEW
            gap = reach(image.ndim, self.levels)
            found.append(_stripes(image.shape, gap) if fold == _BLOCKS else fold)
        return dataclasses.replace(self, threads=threads).judge_own(found)

    def judge_own(self, folds: Sequence[Any]) -> Judge:
        """Return what judges training images by classifiers that have not seen them.

        Parameters
        ----------
        folds : sequence of int or ndarray
            The fold of each image, or of each of its pixels; `_NEW` for an image in none.
        """

        def judge(numbers: IntArray, odds: FloatArray) -> FloatArray:
            def predict(rows: NDArray[np.float32], part: slice, team: int) -> FloatArray:
                shape = odds.shape[1:]
                maps = [np.broadcast_to(folds[i], shape).ravel() for i in numbers[part]]
                fold, q = np.concatenate(maps), np.empty(len(rows))
                for k in np.unique(fold):
                    own = rows.T[:, fold == k].T
                    one = self._average(own, team) if k == _NEW else self._predict(k, own, team)
                    q[fold == k] = one
                return q

            return self._judge(odds, predict)

        return judge

    def _judge(
        self, odds: FloatArray, predict: Callable[[NDArray[np.float32], slice, int], FloatArray]
    ) -> FloatArray:
        """Judge images; `predict` gets features, of which images, and how many threads to use."""
        count, n = len(odds), int(np.prod(odds.shape[1:]))
        found, parts = np.empty((count, n)), list(_blocks(count, n))
        # other classifiers than trees have threads of their own
        trees = all(isinstance(model, Trees | float) for model in self.models)
        # a large image has the threads to itself, and only calls from this thread end by Ctrl-C
        pooled = trees and n <= _BLOCK and min(len(parts), self.threads) > 1

        def work(part: slice) -> None:
            rows = self.rows(odds[part])
            q = predict(rows, part, 1 if pooled else self.threads)
            found[part] = self.invert(q).reshape(-1, n)
            if (odds[part] == 0.0).any():
                # amid a wide gap, what is seen from afar is one piece of evidence for many pixels:
                # their sum would fill it, whatever lies at its border
                near = count_features(odds.ndim - 1, 0)
                blind = ~rows[:, :near].any(axis=1)
                found[part][blind.reshape(-1, n)] = 0.0

        with contextlib.ExitStack() as stack:
            apply: Callable[..., Iterator[None]] = map
            if pooled:
                apply = stack.enter_context(ThreadPoolExecutor(self.threads)).map
            stack.enter_context(threadpool_limits(limits=self.threads))
            for _ in apply(work, parts):
                beat()
        return found

    def invert(self, q: FloatArray) -> FloatArray:
        """Return log-odds of the clean pixels, given predictions."""
        p = self.ends[0] + q * (self.ends[1] - self.ends[0])
        return np.asarray(logit(np.clip(p, _CERTAIN, 1.0 - _CERTAIN)), dtype=np.float64)

    def _average(self, rows: NDArray[np.float32], threads: int) -> FloatArray:
        each = [self._predict(k, rows, threads) for k in range(len(self.models))]
        found: FloatArray = np.mean(each, axis=0)
        return found

    def _predict(self, k: int, rows: NDArray[np.float32], threads: int) -> FloatArray:
        model = self.models[k]
        if isinstance(model, float):
            return np.full(len(rows), model)
        if isinstance(model, Trees):
            return np.asarray(expit(model.decision_function(rows, threads)), dtype=np.float64)
        # sums over the features depend on the layout, by rounding
        p = model.predict_proba(np.ascontiguousarray(rows))[:, 1]
        return np.asarray(p, dtype=np.float64)


def train_blind_spot(
    parts: Sequence[Image],
    labels: Sequence[Image] | None,
    channel: Channel,
    classifier: Any,
    *,
    images: Sequence[Image],
    windows: Sequence[Place] | None,
    key: int,
    threads: int,
) -> tuple[BlindSpot, Judge]:
    """Train a classifier per fold; return them, and what judges the training images.

    Folds are made of whole images; of blocks of images where these are few, with a gap between
    them such that nothing in a block is seen by a classifier that will judge it.

    Parameters
    ----------
    parts : sequence of ndarray
        What was observed: images, or windows of them.
    labels : sequence of ndarray, optional
        Clean parts, NaN where there is no label.
    channel : Channel
    classifier : object or None
        Of scikit-learn; boosted trees by default.
    images : sequence of ndarray
        The images that the parts come from.
    windows : sequence of Place, optional
        Where parts come from if they are windows. Else, if images have one shape and are not few,
        the place of a pixel is seen, too.
    key : int
        Seed of folds, of the choice of pixels and of the default classifier.
    threads : int
    """
    rng = np.random.default_rng([key, 2])
    seen, first, copies = np.unique(
        np.array([_digest(image) for image in images], dtype=np.uint64),
        return_index=True,
        return_inverse=True,
    )
    few = len(seen) < FOLDS
    # copies of an image share a fold
    order = (rng.permutation(len(seen)) % FOLDS)[np.argsort(np.argsort(first))]
    known = np.full(len(seen), _BLOCKS) if few else order
    levels = _fit_levels(images) if few else LEVELS
    ends = (0.0, 1.0) if labels is not None else _ends(channel, parts)
    places = windows is None and not few and len({image.shape for image in images}) == 1
    blank = BlindSpot(
        models=(),
        ends=ends,
        binary=channel.binary,
        whole=labels is not None,
        places=places,
        levels=levels,
        seen=seen,
        folds=known.astype(np.int8),
        threads=threads,
    )
    folds: list[Any] = []
    for i, part in enumerate(parts):
        image = i if windows is None else windows[i].image
        whole = images[image].shape
        start = (0,) * part.ndim if windows is None else windows[i].origin
        inside = tuple(slice(a, a + side) for a, side in zip(start, part.shape, strict=True))
        gap = reach(part.ndim, levels)
        folds.append(_stripes(whole, gap)[inside] if few else int(order[copies[image]]))
    rows, targets, uses = _gather(blank, parts, labels, channel, folds, rng)
    template = trees(key) if classifier is None else classifier
    if not has_fit_parameter(template, "sample_weight"):
        # labels drawn by their probabilities have the same mean; where these are 0 or 1, they stay
        targets = (rng.random(len(targets)) < targets).astype(np.float64)
    models = train_each(template, rows, targets, list(uses), threads)
    found = dataclasses.replace(blank, models=models)
    return dataclasses.replace(found, threads=1), found.judge_own(folds)


# ------------------------------------------------------------------------------------------ inside


def _ends(channel: Channel, images: Sequence[Image]) -> tuple[float, float]:
    """Return the probability of a one that predictions of 0 and of 1 stand for."""
    if channel.local:
        raise ValueError(
            "context: a classifier that predicts noisy pixels needs the same noise at all of them, "
            "but noise has rates per pixel; give one rate, or the radius of a filter"
        )
    if channel.binary:
        zero, one = channel.unbiased([0.0, 1.0])
        return float(zero), float(one)
    # the unbiased estimate is affine in r, and these are three values of both
    z = np.quantile(np.concatenate([image[image == image] for image in images]), (0.1, 0.5, 0.9))
    r, x = expit(channel.log_odds(z)), channel.unbiased(z)
    slope = (x[2] - x[0]) / (r[2] - r[0])
    zero = x[0] - slope * r[0]
    if not abs(zero + slope * r[1] - x[1]) < 1e-6 * (1.0 + abs(slope)):
        raise ValueError(f"context: {channel!r} cannot be inverted; give the radius of a filter")
    return float(zero), float(zero + slope)


def _gather(
    blank: BlindSpot,
    images: Sequence[Image],
    labels: Sequence[Image] | None,
    channel: Channel,
    folds: list[Any],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float32], FloatArray, NDArray[np.bool_]]:
    """Return features and targets of random pixels, and for each fold those it may use."""
    share = max(1, PIXELS * FOLDS // (FOLDS - 1) // len(images))
    gap = reach(images[0].ndim, blank.levels)
    rows, targets, uses = [], [], []
    for i, image in enumerate(images):
        beat()
        z = image.astype(np.float64)
        odds = channel.log_odds(z)
        if labels is not None:
            target = np.asarray(labels[i], dtype=np.float64)
        else:
            target = z if channel.binary else np.where(np.isnan(z), np.nan, expit(odds))
        if rng.random() < _HIDDEN:
            odds = np.where(rng.integers(PART, size=z.shape) == 0, 0.0, odds)
        use = np.stack([_apart(folds[i], k, z.shape, gap).ravel() for k in range(FOLDS)])
        known = np.flatnonzero((target == target).ravel() & use.any(axis=0))
        at = np.sort(rng.permutation(known)[:share])
        rows.append(np.ascontiguousarray(blank.rows(odds[None])[at]))
        targets.append(target.ravel()[at])
        uses.append(use[:, at])
    return np.concatenate(rows), np.concatenate(targets), np.concatenate(uses, axis=1)


def _digest(image: Image) -> int:
    """Return what tells an image from others, whatever its dtype."""
    found = hashlib.blake2b(repr(image.shape).encode(), digest_size=8)
    size = max(1, _BLOCK // max(1, image[:1].size))
    for first in range(0, len(image), size):
        # zeros and missing pixels have several representations
        values = image[first : first + size].astype(np.float64) + 0.0
        found.update(np.where(np.isnan(values), np.nan, values).tobytes())
    return int.from_bytes(found.digest())


def _blocks(count: int, n: int) -> Iterator[slice]:
    """Split images into runs of a bounded number of pixels."""
    size = max(1, _BLOCK // max(1, n))
    for first in range(0, count, size):
        yield slice(first, first + size)


def _fit_levels(images: Sequence[Image]) -> int:
    """Return the number of scales that leave something to train on between blocks."""
    side = max(max(image.shape) for image in images)
    axes = images[0].ndim
    fits = (k for k in range(LEVELS, 0, -1) if side >= FOLDS * _GAPS * reach(axes, k))
    return next(fits, 0)


def _stripes(shape: tuple[int, ...], gap: int) -> NDArray[np.int8]:
    """Return the fold of each pixel of an image that is cut along its longest axis."""
    axis = int(np.argmax(shape))
    count = FOLDS * max(1, shape[axis] // (FOLDS * max(_THICK, _GAPS * gap)))
    stripe = np.arange(shape[axis]) * count // shape[axis] % FOLDS
    sides = [1] * len(shape)
    sides[axis] = shape[axis]
    return np.broadcast_to(stripe.reshape(sides), shape).astype(np.int8)


def _apart(fold: Any, k: int, shape: tuple[int, ...], gap: int) -> NDArray[np.bool_]:
    """Return the pixels that fold k may be trained on: none that sees one of its own."""
    if np.ndim(fold) == 0:
        return np.full(shape, fold != k)
    return np.asarray(~maximum_filter(fold == k, 2 * gap + 1))
