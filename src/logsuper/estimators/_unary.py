"""What a field knows of each pixel by itself: a classifier's log-odds, or features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.sparse import coo_array
from scipy.special import logit
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import FloatArray, as_float, beat
from logsuper.estimators._field_samples import Sample, Samples, refuse_nonfinite
from logsuper.estimators._training import fit_each
from logsuper.estimators._trees import Trees

__all__ = ["Unary", "describe", "make_unary"]

# What makes features: a callable, or "local" or "context" for the built-in ones.
Maker = Callable[[Any], Any] | str
WORDS = ("trees", "linear", "log_odds", "probabilities")

# Sides of the windows that describe the surroundings of a pixel, in parts of the shorter side.
_WINDOWS = (0.05, 0.15, 0.4)
# Distances at which "context" looks at the second of these windows, in the same parts.
_DISTANCES = (0.2, 0.4)
# Distance that brought and predicted probabilities keep from 0 and 1.
_CERTAIN = 1e-6
# Bytes of features of training images that are kept until they are judged.
_KEPT = 1 << 27
# In the place of features that nobody asked for.
_NONE = np.empty((0, 0))
# Pixels that a classifier judges at a time.
_BLOCK = 1 << 18


def describe(array: Any, axes: int | None = None, context: bool = False) -> FloatArray:
    """Return the built-in features of each pixel: its channels, those around it, and its place.

    Parameters
    ----------
    array : ndarray of shape (*shape,) or (*shape, C)
        An image or a volume.
    axes : int, optional
        Number of axes of its mask; by default all but the last one.
    context : bool, default False
        Whether to compare each pixel with its whole image, too.

    Returns
    -------
    ndarray of shape (*shape, C + 3 (C + 1) + axes), or (..., + C (1 + 5 axes)) with context
        Channels; their means in three windows and the root mean square deviation from them; the
        place, from 0 to 1 along each axis. With context, what the mean of the first window is less
        than that of the image, of each line through the pixel, and of windows at two distances to
        either side of it along each axis.
    """
    picture = np.asarray(array, dtype=np.float64)
    axes = picture.ndim - 1 if axes is None else axes
    shape = picture.shape[:axes]
    picture = picture.reshape(*shape, -1)
    found = [picture]
    means = []
    for part in _WINDOWS:
        size = tuple([2 * round(0.5 * part * min(shape)) + 1] * axes + [1])
        mean = uniform_filter(picture, size)
        variance = (uniform_filter(picture**2, size) - mean**2).mean(axis=-1, keepdims=True)
        found += [mean, np.sqrt(np.maximum(variance, 0.0))]
        means.append(mean)
        beat()
    steps = [np.linspace(0.0, 1.0, side) for side in shape]
    found.append(np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1))
    if context:
        found += _compare(picture, means[0], means[1])
    return np.concatenate(found, axis=-1)


def _compare(picture: FloatArray, near: FloatArray, around: FloatArray) -> list[FloatArray]:
    """Return what the means near each pixel are less than others in the image."""
    axes = range(picture.ndim - 1)
    shape = picture.shape[:-1]
    found = [picture.mean(axis=tuple(axes), keepdims=True) - near]
    found += [picture.mean(axis=axis, keepdims=True) - near for axis in axes]
    for part in _DISTANCES:
        step = round(part * min(shape))
        for axis in axes:
            for shift in (step, -step):
                places = np.clip(np.arange(shape[axis]) + shift, 0, shape[axis] - 1)
                found.append(np.take(around, places, axis=axis) - near)
                beat()
    return found


def _describe_graph(sample: Sample) -> FloatArray:
    """Return the features of each node and their means over its neighbours."""
    values, edges = sample.channels, sample.edges
    assert edges is not None
    ends = np.concatenate([edges, edges[:, ::-1]])
    links = coo_array((np.ones(len(ends)), tuple(ends.T)), shape=(len(values),) * 2).tocsr()
    links.data[:] = 1.0  # an edge that is given twice counts once
    count = np.asarray(links.sum(axis=1)).reshape(-1, 1)
    around = np.where(count > 0, (links @ values) / np.maximum(count, 1.0), values)
    return np.hstack([values, around])


class Unary(ABC):
    """Features of the pixels of samples, whatever they are made from.

    Attributes
    ----------
    picture : int
        Number of the first channel of the picture, by which contrast is judged.
    judges : bool
        Whether the one feature of a pixel is its log-odds.
    brought : bool
        Whether features are read from the sample, so that those of its own size cost nothing.
    classifier : object or None
        Fitted, where there is one.
    """

    picture = 0
    judges = False
    brought = False
    classifier: Any = None

    def check(self, samples: Samples) -> None:
        """Refuse samples that cannot be used, before any work."""
        for i, sample in enumerate(samples):
            refuse_nonfinite(sample, i, self.picture)

    def learn(
        self,
        samples: Samples,
        masks: Sequence[NDArray[Any]],
        key: int,
        wanted: Collection[int] | None = None,
    ) -> list[FloatArray]:
        """Learn what must be learned; return features of the samples as of new ones.

        With `wanted`, those of other samples may be empty.
        """
        if wanted is None:
            return self.features(samples)
        return [
            self.features([sample])[0] if i in wanted else _NONE for i, sample in enumerate(samples)
        ]

    @abstractmethod
    def features(self, samples: Sequence[Sample]) -> list[FloatArray]:
        """Return the features of new samples, (n, p) each."""


class Brought(Unary):
    """The first channel is what the user's own model says."""

    picture = 1
    judges = True
    brought = True

    def __init__(self, word: str) -> None:
        self.word = word

    def check(self, samples: Samples) -> None:
        super().check(samples)
        for i, sample in enumerate(samples):
            first = sample.channels[:, 0]
            if np.isinf(first).any():
                raise ValueError(
                    f"images[{i}] has infinite log-odds in its first channel; clip them, to +-20 "
                    "for instance"
                )
            wrong = (first < 0) | (first > 1)
            if self.word == "probabilities" and wrong.any():
                raise ValueError(
                    f"images[{i}] has {first[wrong][0]:g} in its first channel, which is not a "
                    "probability; for log-odds use unary='log_odds'"
                )

    def features(self, samples: Sequence[Sample]) -> list[FloatArray]:
        found = []
        for sample in samples:
            first = sample.channels[:, :1]
            if self.word == "probabilities":
                first = logit(np.clip(first, _CERTAIN, 1.0 - _CERTAIN))
            found.append(np.nan_to_num(first))
        return found


class Linear(Unary):
    """Features that the field itself weighs: built-in ones, or those of a callable."""

    def __init__(self, make: Maker, scaling: FloatArray | None) -> None:
        self.make, self.scaling = make, scaling

    def learn(
        self,
        samples: Samples,
        masks: Sequence[NDArray[Any]],
        key: int,
        wanted: Collection[int] | None = None,
    ) -> list[FloatArray]:
        kept = Kept(lambda i: self._raw(i, samples[i]), math.inf if wanted is None else _KEPT)
        every = range(len(samples))
        shapes = [kept(i).shape for i in every]
        widths = {width for _, width in shapes}
        if len(widths) > 1:
            raise ValueError(f"unary returns {sorted(widths)} features for different images")
        count = sum(rows for rows, _ in shapes)
        mean = sum(kept(i).sum(axis=0) for i in every) / count
        spread = np.sqrt(sum(((kept(i) - mean) ** 2).sum(axis=0) for i in every) / count)
        self.scaling = np.stack([mean, np.where(spread > 0, spread, 1.0)])
        return [self._scale(kept(i)) if wanted is None or i in wanted else _NONE for i in every]

    def features(self, samples: Sequence[Sample]) -> list[FloatArray]:
        return [self._scale(self._raw(i, sample)) for i, sample in enumerate(samples)]

    def _raw(self, i: int, sample: Sample) -> FloatArray:
        return feature_rows(sample, self.make, f"unary(images[{i}])")

    def _scale(self, rows: FloatArray) -> FloatArray:
        assert self.scaling is not None
        if rows.shape[1] != self.scaling.shape[1]:
            raise ValueError(
                f"unary returns {rows.shape[1]} features, but {self.scaling.shape[1]} at the fit"
            )
        return np.asarray((rows - self.scaling[0]) / self.scaling[1])


class Classified(Unary):
    """The log-odds of a classifier that judges one pixel at a time.

    Its training images get log-odds from classifiers that have not seen them: those of the
    classifier itself would be too good, and the field would trust them too much.
    """

    judges = True

    def __init__(
        self,
        template: Any,
        make: Maker,
        folds: int,
        most: int,
        threads: int,
        fitted: Any = None,
    ) -> None:
        self.template, self.make, self.folds, self.most = template, make, folds, most
        self.threads, self.classifier = threads, fitted

    def learn(
        self,
        samples: Samples,
        masks: Sequence[NDArray[Any]],
        key: int,
        wanted: Collection[int] | None = None,
    ) -> list[FloatArray]:
        if len(samples) < 2:
            raise ValueError(
                "images has one entry; a classifier is trained without the images that the field "
                "learns from, and needs two at least: cut it into parts, or bring log-odds"
            )
        rng = np.random.default_rng(key)
        # features of all pixels are many times larger than the images: what does not fit is made
        # again when it is judged
        kept = Kept(lambda i: self._rows(i, samples[i]), _KEPT)
        X, labels, share = [], [], max(1, self.most // len(samples))
        for i, mask in enumerate(masks):
            own = np.asarray(mask, dtype=np.float64).ravel()
            at = np.sort(rng.permutation(np.flatnonzero(own == own))[:share])
            X.append(kept(i)[at])
            labels.append(own[at])
        y = np.concatenate(labels)
        if len(np.unique(y)) < 2:
            raise ValueError(f"masks has no other label than {y[0]:g}; a classifier needs both")
        fold = rng.permutation(len(samples)) % min(self.folds, len(samples))
        owner = np.repeat(np.arange(len(samples)), list(map(len, labels)))
        uses = [fold[owner] != k for k in np.unique(fold)]
        *others, last = fit_each(
            self.template, np.concatenate(X), y, [*uses, np.ones(len(y), dtype=bool)], self.threads
        )
        self.classifier = last
        found: list[FloatArray] = [_NONE] * len(samples)
        with self._few_threads():
            for k, classifier in zip(np.unique(fold), others, strict=True):
                judge = _Judge(classifier, self.threads)
                for i in np.flatnonzero(fold == k).tolist():
                    if wanted is None or i in wanted:
                        found[i] = judge(kept(i))
        return found

    def features(self, samples: Sequence[Sample]) -> list[FloatArray]:
        judge = _Judge(self.classifier, self.threads)
        with self._few_threads():
            return [judge(self._rows(i, sample)) for i, sample in enumerate(samples)]

    def _few_threads(self) -> Any:
        """Let a classifier use as many threads as the user allows, not one per processor."""
        return threadpool_limits(limits=self.threads)

    def _rows(self, i: int, sample: Sample) -> NDArray[np.float32]:
        rows = feature_rows(sample, self.make, f"features(images[{i}])")
        return rows.astype(np.float32)


class Kept:
    """Features of images, made when they are asked for; a bounded number of bytes is kept."""

    def __init__(self, make: Callable[[int], NDArray[Any]], most: float) -> None:
        self._make, self._left = make, most
        self._kept: dict[int, NDArray[Any]] = {}

    def __call__(self, i: int) -> NDArray[Any]:
        """Return the features of an image."""
        if i in self._kept:
            return self._kept[i]
        rows = self._make(i)
        if rows.nbytes <= self._left:
            self._kept[i] = rows
            self._left -= rows.nbytes
        return rows


class _Judge:
    """Log-odds of a fitted classifier, or the same for all pixels."""

    def __init__(self, classifier: Any, threads: int) -> None:
        self.classifier, self.threads = classifier, threads
        # the same to the bit as what scikit-learn's own trees say, many times faster
        own = type(classifier).__module__.startswith("sklearn.")
        self.trees = Trees.take(classifier) if own else None
        if isinstance(classifier, Trees):  # from a file
            self.trees = classifier

    def __call__(self, rows: NDArray[np.float32]) -> FloatArray:
        if isinstance(self.classifier, float):  # its training images had one label only
            return np.full((len(rows), 1), logit(self.classifier))
        found = []
        for first in range(0, len(rows), _BLOCK):
            beat()
            found.append(self._some(rows[first : first + _BLOCK]))
        return np.concatenate(found).reshape(-1, 1)

    def _some(self, rows: NDArray[np.float32]) -> FloatArray:
        if hasattr(self.classifier, "predict_proba"):
            if self.trees is not None and not np.isnan(rows).any():
                p = self.trees.predict_proba(rows, self.threads)[:, 1]
            else:
                p = self.classifier.predict_proba(rows)[:, 1]
            return np.asarray(logit(np.clip(p, _CERTAIN, 1.0 - _CERTAIN)), dtype=np.float64)
        return np.asarray(self.classifier.decision_function(rows), dtype=np.float64)


def feature_rows(sample: Sample, make: Maker, name: str) -> FloatArray:
    """Return features (n, p) of a sample: built-in ones, or those of a callable."""
    if not callable(make):
        if sample.edges is not None:
            return _describe_graph(sample)
        rows = describe(sample.array, len(sample.shape), make == "context")
        return rows.reshape(sample.size, -1)
    given = sample.array if sample.edges is None else (sample.array, sample.edges)
    found = as_float(make(given), name)
    if found.shape[: len(sample.shape)] != sample.shape or found.ndim > len(sample.shape) + 1:
        wanted = ", ".join(map(str, sample.shape))
        raise ValueError(f"{name} has shape {found.shape}; return ({wanted}, p), one row per pixel")
    return found.reshape(sample.size, -1)


def make_unary(
    unary: Any,
    features: Any,
    folds: int,
    max_pixels: int,
    key: int,
    threads: int,
    fitted: Any = None,
    scaling: FloatArray | None = None,
) -> Unary:
    """Return what an estimator's arguments ask for, as fitted before where it was."""
    word = isinstance(features, str) and features in ("auto", "context", "local")
    if not (word or callable(features)):
        raise TypeError(
            f"features must be callable, 'auto', 'context' or 'local', got {features!r}"
        )
    if word and features == "auto":
        # trees pass over what does not help; others would fit noise with so many features
        features = "context" if isinstance(unary, str) and unary == "trees" else "local"
    if isinstance(unary, str):
        if unary not in WORDS:
            raise ValueError(
                f"unary must be one of {', '.join(WORDS)}, a classifier or a callable, "
                f"got {unary!r}"
            )
        if unary in ("log_odds", "probabilities"):
            return Brought(unary)
        if unary == "linear":
            return Linear(features, scaling)
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        unary = HistGradientBoostingClassifier(
            max_iter=150, early_stopping=False, min_samples_leaf=50, random_state=key % 2**31
        )
    if not isinstance(unary, type) and hasattr(unary, "fit"):
        if not (hasattr(unary, "predict_proba") or hasattr(unary, "decision_function")):
            raise TypeError(
                f"unary = {type(unary).__name__}() has neither predict_proba nor "
                "decision_function; use a classifier that has one"
            )
        return Classified(unary, features, folds, max_pixels, threads, fitted)
    if callable(unary) and not isinstance(unary, type):
        if callable(features):
            raise ValueError("features is for a classifier; a callable unary returns its own")
        return Linear(unary, scaling)
    raise TypeError(
        f"unary must be one of {', '.join(WORDS)}, a classifier or a callable, got {unary!r}"
    )
