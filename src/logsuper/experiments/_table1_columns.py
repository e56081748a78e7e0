"""The columns of table 1, and the fits that fill them."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser
from logsuper.experiments import _baselines
from logsuper.experiments._setting import Setting
from logsuper.functions import grid_cuts
from logsuper.learning import (
    Examples,
    Learned,
    Penalty,
    cross_validate,
    logistic,
    make_examples,
    max_margin,
    means,
    modes,
)

__all__ = [
    "COLUMNS",
    "FITS",
    "FOLDS",
    "WEAK",
    "Column",
    "Fit",
    "Pair",
    "Search",
    "pairs",
    "select",
    "work",
]

FOLDS = 3
"""Parts of the training images that trees are grown without, for a field to learn from."""

WEAK = 1e-3
"""The regulariser of fields behind trees: two cuts and two more weights need next to none."""

# The likelihood needs a minute and more: moments are matched to a hundredth of their deviation.
_LOOSE = 1e-2

Pair = tuple[float, float]
"""Weights of the regularisers of alpha and of t."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A way to denoise.

    Attributes
    ----------
    key : str
        Its name in files.
    label : str
        Its name in tables.
    group : {"paper", "ours", "baseline", "behind"}
        Whether the paper has it, it is another model of this library, no such model, or one behind
        a baseline, whose log-odds it has as a feature.
    """

    key: str
    label: str
    group: str


@dataclasses.dataclass(frozen=True)
class Search:
    """How the regularisers of a fit are selected: by cross-validation on the training images.

    Attributes
    ----------
    learner : callable
    score : {"mean", "map"}
        The decoding whose errors count.
    scale : bool
        Whether the weight of the observations is learned; then it shares the regulariser of alpha.
    """

    learner: Callable[..., Learned]
    score: str
    scale: bool


@dataclasses.dataclass(frozen=True)
class Fit:
    """What is learned once to fill some columns.

    Attributes
    ----------
    key : str
        Its name in files.
    title : str
        Its name in tables.
    columns : tuple of Column
    run : callable
        Called with a `Case`; returns what it predicts for each column, with numbers of interest.
    details : tuple of str
        Names of those numbers.
    once : bool
        Whether it is so slow that one seed must do.
    search : Search, optional
        How its regularisers are selected, if they are.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    run: Callable[[Case], Found]
    details: tuple[str, ...] = ()
    once: bool = False
    search: Search | None = None

    @property
    def size(self) -> int:
        """How many numbers `work` returns."""
        return len(self.columns) + 2 + len(self.details)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """Training images with labels, test images without, and all else that a fit may know."""

    train: FloatArray
    clean: NDArray[np.uint8]
    test: FloatArray
    noise: float
    seed: int
    pair: Pair | None = None
    pixels: int = 0

    def learn(self, learner: str = "logistic", **options: Any) -> MaskDenoiser:
        """Return a fitted denoiser, on one thread."""
        denoiser = MaskDenoiser(
            self.noise, learner, modular="pixel", random_state=self.seed, n_jobs=1, **options
        )
        with warnings.catch_warnings():  # what has not converged is counted
            warnings.simplefilter("ignore", ConvergenceWarning)
            return denoiser.fit(self.train, self.clean)

    def predict(self, denoiser: MaskDenoiser, **options: Any) -> NDArray[np.uint8]:
        """Decode the test images."""
        found: NDArray[np.uint8] = denoiser.set_params(**options).predict(self.test)
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """What a fit predicts for each of its columns, and its numbers of interest."""

    predictions: tuple[NDArray[np.uint8], ...]
    converged: bool = True
    details: tuple[float, ...] = ()


def work(
    setting: Setting, fit: str, noise: float, seed: int, pair: Pair | None, pixels: int
) -> FloatArray:
    """Return the errors (%) of the columns of a fit, its seconds, whether it converged, details."""
    (train, test), (clean, truth) = setting.noisy(noise, seed), setting.clean
    start = time.perf_counter()
    found = FITS[fit].run(Case(train, clean, test, noise, seed, pair, pixels))
    seconds = time.perf_counter() - start
    errors = [100.0 * float(np.mean(x != truth)) for x in found.predictions]
    return np.array([*errors, seconds, float(found.converged), *found.details])


def pairs(alphas: tuple[float, ...], modulars: tuple[float, ...]) -> list[Pair]:
    """Return all pairs as a path whose neighbours are near, the strongest first."""
    return [
        (alpha, modular)
        for i, alpha in enumerate(alphas)
        for modular in (modulars if i % 2 == 0 else modulars[::-1])
    ]


def select(
    setting: Setting, fit: str, noise: float, seed: int, path: list[Pair], folds: int
) -> FloatArray:
    """Return the error (%) of each pair in cross-validation on the training images, and seconds."""
    search = FITS[fit].search
    assert search is not None
    (train, _), (clean, _) = setting.noisy(noise, seed), setting.clean
    start = time.perf_counter()
    examples = make_examples(
        grid_cuts(clean.shape[1:]),
        labels=clean,
        observed=train,
        channel=Flips(noise),
        modular="pixel",
        scale=search.scale,
    )
    penalties = [Penalty.of(examples.layout, alpha=a, modular=t, scale=a) for a, t in path]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = cross_validate(
            search.learner, examples, penalties, folds=folds, score=search.score, seed=seed
        )
    return np.array([*(100.0 * (1.0 - found.mean)), time.perf_counter() - start])


# -------------------------------------------------------------------------------------- the fits


def _plain(case: Case) -> Found:
    """Learn as the paper does, with the log-odds of the observations as they are."""
    assert case.pair is not None
    penalty = dict(zip(("alpha", "modular"), case.pair, strict=True))
    denoiser = case.learn(context=0, scale=False, penalty=penalty)
    predictions = case.predict(denoiser, decode="map"), case.predict(denoiser, decode="mean")
    return Found(predictions, denoiser.converged_)


def _scale(case: Case) -> Found:
    denoiser = case.learn(context=0, decode="map")
    predictions = case.predict(denoiser), case.predict(denoiser, decode="mean")
    return Found(predictions, denoiser.converged_, (denoiser.scale_, denoiser.decode_factor_))


def _context(case: Case) -> Found:
    denoiser = case.learn()
    predictions = case.predict(denoiser), case.predict(denoiser, marginals="exact")
    return Found(predictions, denoiser.converged_, (denoiser.scale_,))


def _svm(case: Case) -> Found:
    assert case.pair is not None
    penalty = {"alpha": case.pair[0], "modular": case.pair[1], "scale": case.pair[0]}
    denoiser = case.learn("max_margin", context=0, penalty=penalty)
    return Found((case.predict(denoiser),), denoiser.converged_, (denoiser.scale_,))


def _svm_context(case: Case) -> Found:
    denoiser = case.learn("max_margin")
    return Found((case.predict(denoiser),), denoiser.converged_, (denoiser.scale_,))


def _exact(case: Case) -> Found:
    """Maximise the likelihood from where the logistic bound has its maximum."""
    near = case.learn(context=0)
    start = np.concatenate([near.alpha_, near.modular_.ravel(), [near.scale_]])
    denoiser = case.learn("exact", context=0, tol=_LOOSE, options={"start": start})
    return Found((case.predict(denoiser),), denoiser.converged_, (denoiser.scale_,))


def _median(case: Case) -> NDArray[np.uint8]:
    return _baselines.median(case.test)


def _total_variation(case: Case) -> NDArray[np.uint8]:
    return _baselines.total_variation(case.train, case.clean, case.test)


def _cut(case: Case) -> NDArray[np.uint8]:
    return _baselines.cut(case.train, case.clean, case.test)


def _boosting(case: Case) -> NDArray[np.uint8]:
    odds = _baselines.boosting(
        case.train, case.clean, case.test, pixels=case.pixels, seed=case.seed
    )
    return (odds > 0).astype(np.uint8)


def _behind(case: Case) -> Found:
    """Grow trees, and learn fields that have their log-odds as a feature: cuts, and two weights.

    They learn from trees that have not seen the image. Trees know the place of a pixel, so there is
    no modular term.
    """
    options: Any = {"pixels": case.pixels, "seed": case.seed}
    odds = _baselines.boosting(case.train, case.clean, case.test, **options)
    before = _baselines.held_out(case.train, case.clean, folds=FOLDS, **options)

    def examples(observed: FloatArray, feature: FloatArray, labels: Any = None) -> Examples:
        return make_examples(
            grid_cuts(observed.shape[1:]),
            labels=labels,
            observed=observed,
            channel=Flips(case.noise),
            modular="none",
            features=feature[..., None],
            scale=True,
        )

    train, test = examples(case.train, before, case.clean), examples(case.test, odds)
    penalty = Penalty.of(train.layout, alpha=WEAK, beta=WEAK, scale=WEAK)
    with warnings.catch_warnings():  # what has not converged is counted
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = logistic(train, penalty, seed=case.seed, n_jobs=1)
        sharp = max_margin(train, penalty, seed=case.seed, n_jobs=1)
    mean = means(test, found.theta, method="logistic", seed=case.seed, n_jobs=1)
    predictions = (
        (np.asarray(mean) > 0.5).astype(np.uint8),
        np.asarray(modes(test, sharp.theta, n_jobs=1)),
    )
    details = (float(found.parameters.scale), float(found.parameters.beta[0]))
    return Found(predictions, found.converged and sharp.converged, details)


def _baseline(key: str, label: str, denoise: Callable[[Case], NDArray[np.uint8]]) -> Fit:
    """Return the fit of what is no model of this library."""

    def run(case: Case) -> Found:
        return Found((denoise(case),))

    return Fit(key, label, (Column(key, label, "baseline"),), run)


_ALL = (
    Fit(
        "plain",
        "the paper's method",
        (
            Column("map", "the paper's method, MAP", "paper"),
            Column("mean", "the paper's method, mean", "paper"),
        ),
        _plain,
        search=Search(logistic, "mean", scale=False),
    ),
    Fit(
        "svm",
        "SVM-Struct",
        (Column("svm", "SVM-Struct, MAP", "paper"),),
        _svm,
        ("w",),
        search=Search(max_margin, "map", scale=True),
    ),
    Fit(
        "scale",
        "learned scale",
        (
            Column("scale_map", "learned scale, MAP with factor c", "ours"),
            Column("scale_mean", "learned scale, mean", "ours"),
        ),
        _scale,
        ("w", "c"),
    ),
    Fit(
        "context",
        "learned scale and filter",
        (
            Column("context_mean", "learned scale and filter, mean", "ours"),
            Column("context_exact", "learned scale and filter, exact marginals", "ours"),
        ),
        _context,
        ("w",),
    ),
    Fit(
        "svm_context",
        "SVM-Struct with filter",
        (Column("svm_context", "SVM-Struct with filter, MAP", "ours"),),
        _svm_context,
        ("w",),
    ),
    Fit(
        "exact",
        "exact likelihood",
        (Column("exact", "exact likelihood, learned scale, exact marginals", "ours"),),
        _exact,
        ("w",),
        once=True,
    ),
    _baseline("median", "median of 3 x 3 pixels", _median),
    _baseline("total_variation", "total variation, tuned", _total_variation),
    _baseline("cut", "one cut with one alpha, tuned", _cut),
    _baseline("boosting", "boosted trees on 9 x 9 patches and position", _boosting),
    Fit(
        "behind",
        "fields behind trees, with the trees",
        (
            Column("behind_mean", "a field behind these trees, mean", "behind"),
            Column("behind_svm", "SVM-Struct behind these trees, MAP", "behind"),
        ),
        _behind,
        ("w", "b"),
    ),
)

FITS = {fit.key: fit for fit in _ALL}
"""The fits by name, in the order of their columns."""

COLUMNS = tuple(column for fit in _ALL for column in fit.columns)
"""The columns in the order in which they are shown."""
