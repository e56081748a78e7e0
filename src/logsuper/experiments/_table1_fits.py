"""The denoising methods of table 1 and their fits."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper import learning
from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser, reuse_classifiers
from logsuper.experiments import _baselines
from logsuper.experiments._quality import judge
from logsuper.experiments._setting import Setting
from logsuper.functions import grid_cuts
from logsuper.learning import Examples, Learned, Penalty

FOLDS = 2
"""Number of folds of the cross-validation that chooses a field on trees."""

ON_TREES = ("logistic", "max_margin")
"""Learners of the fields on trees."""

# Tolerance of the exact likelihood, which takes a minute or more: moments are matched to a
# hundredth of their standard deviation.
_LOOSE = 1e-2

Pair = tuple[float, float]
"""Weights of the regularisers of alpha and of t."""

_Masks = NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class Search:
    """How the regularisers of a fit are selected: by cross-validation on the training images.

    Attributes
    ----------
    learner : callable
    score : {"mean", "map"}
        The decoding whose errors are minimised.
    scale : bool
        Whether the weight of the observations is learned; if so, it has the regulariser of alpha.
    """

    learner: Callable[..., Learned]
    score: str
    scale: bool


@dataclasses.dataclass(frozen=True)
class Fit:
    """A model that is learned once and decoded in one or several ways, the table's columns.

    Attributes
    ----------
    title : str
        Its name in tables.
    group : {"paper", "ours", "baseline", "trees"}
        A method of the paper, another model of this library, a baseline, or a model that has trees
        in it.
    columns : mapping
        Names of the columns in files, mapped to their names in tables.
    run : callable
        Called with a `Case`; returns the predictions of each column and some learned numbers.
    details : tuple of str
        Names of the learned numbers.
    once : bool
        Whether it is so slow that only one seed is run.
    search : Search, optional
        How its regularisers are selected; they are fixed by default.
    """

    title: str
    group: Literal["paper", "ours", "baseline", "trees"]
    columns: Mapping[str, str]
    run: Callable[[Case], Found]
    details: tuple[str, ...] = ()
    once: bool = False
    search: Search | None = None

    @property
    def size(self) -> int:
        """Number of numbers that `work` returns."""
        return len(self.columns) + 4 + len(self.details)


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """The predictions of a fit for each of its columns, some learned numbers, probabilities."""

    predictions: tuple[_Masks, ...]
    converged: bool = True
    details: tuple[float, ...] = ()
    probabilities: FloatArray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """Training images with labels, test images without, and all other inputs of a fit."""

    train: FloatArray
    clean: _Masks
    test: FloatArray
    noise: float
    seed: int
    pair: Pair | None = None
    pixels: int = 0

    def learn(self, learner: str = "logistic", **options: Any) -> MaskDenoiser:
        """Return a fitted denoiser that uses one thread."""
        options = {"modular": "pixel", "random_state": self.seed, "n_jobs": 1, **options}
        denoiser = MaskDenoiser(self.noise, learner, **options)
        # fits that do not converge are counted instead
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            return denoiser.fit(self.train, self.clean)

    def decode(
        self, denoiser: MaskDenoiser, *ways: Mapping[str, str], details: tuple[str, ...] = ()
    ) -> Found:
        """Decode the test images in each of the given ways; `details` are attribute names."""
        predictions = [denoiser.set_params(**way).predict(self.test) for way in ways or ({},)]
        numbers = tuple(float(getattr(denoiser, name)) for name in details)
        return Found(tuple(predictions), denoiser.converged_, numbers)

    def penalty(self, *names: str) -> dict[str, float]:
        """Return the selected regularisers; all weights except t have that of alpha."""
        assert self.pair is not None
        return {name: self.pair[name == "modular"] for name in names}


def work(
    setting: Setting, fit: str, noise: float, seed: int, pair: Pair | None, pixels: int
) -> FloatArray:
    """Return the errors (%) of the columns of a fit, and other numbers.

    These are its seconds, whether it converged, log loss and calibration error of its
    probabilities (NaN where it has none), and its details.
    """
    (train, test), (clean, truth) = setting.noisy(noise, seed), setting.clean
    start = time.perf_counter()
    found = FITS[fit].run(Case(train, clean, test, noise, seed, pair, pixels))
    seconds = time.perf_counter() - start
    errors = [100.0 * float(np.mean(x != truth)) for x in found.predictions]
    p = found.probabilities
    quality = (np.nan, np.nan) if p is None else judge(p, truth)
    return np.array([*errors, seconds, float(found.converged), *quality, *found.details])


def select(
    setting: Setting, fit: str, noise: float, seed: int, path: list[Pair], folds: int
) -> FloatArray:
    """Return the error (%) of each pair in cross-validation on the training images, and seconds."""
    search = FITS[fit].search
    assert search is not None
    (train, _), (clean, _) = setting.noisy(noise, seed), setting.clean
    start = time.perf_counter()
    examples = _examples(train, noise, clean, modular="pixel", scale=search.scale)
    penalties = [Penalty.of(examples.layout, alpha=a, modular=t, scale=a) for a, t in path]
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        found = learning.cross_validate(
            search.learner, examples, penalties, folds=folds, score=search.score, seed=seed
        )
    return np.array([*(100.0 * (1.0 - found.mean)), time.perf_counter() - start])


def _examples(
    observed: FloatArray, noise: float, labels: _Masks | None, **options: Any
) -> Examples:
    cuts, channel = grid_cuts(observed.shape[1:]), Flips(noise)
    return learning.make_examples(
        cuts, labels=labels, observed=observed, channel=channel, **options
    )


# -------------------------------------------------------------------------------------- the fits


def _plain(case: Case) -> Found:
    """Learn as in the paper, with weight 1 on the log-odds of the observations."""
    denoiser = case.learn(context=0, scale=False, penalty=case.penalty("alpha", "modular"))
    return case.decode(denoiser, {"decode": "map"}, {"decode": "mean"})


def _scale(case: Case) -> Found:
    denoiser = case.learn(context=0, decode="map")
    return case.decode(denoiser, {}, {"decode": "mean"}, details=("scale_", "decode_factor_"))


def _context(case: Case) -> Found:
    denoiser = case.learn(context="filter")
    return case.decode(denoiser, {}, {"marginals": "exact"}, details=("scale_",))


def _svm(case: Case) -> Found:
    penalty = case.penalty("alpha", "modular", "scale")
    return case.decode(case.learn("max_margin", context=0, penalty=penalty), details=("scale_",))


def _svm_context(case: Case) -> Found:
    return case.decode(case.learn("max_margin"), details=("scale_",))


def _exact(case: Case) -> Found:
    """Maximise the exact likelihood, starting from the maximum of the logistic bound."""
    near = case.learn(context=0)
    start = np.concatenate([near.alpha_, near.modular_.ravel(), [near.scale_]])
    denoiser = case.learn("exact", context=0, tol=_LOOSE, options={"start": start})
    return case.decode(denoiser, details=("scale_",))


def _boosting(case: Case) -> Found:
    odds = _baselines.boosting(
        case.train, case.clean, case.test, pixels=case.pixels, seed=case.seed
    )
    return Found(((odds > 0).astype(np.uint8),), probabilities=expit(odds))


def _field(case: Case) -> Found:
    """Fit trees and fields on top of them.

    Masks are those of the trees alone, of both learners of the field, of the one that is chosen by
    cross-validation, and of the default of the estimator.
    """
    with reuse_classifiers():  # all have the same trees
        errors = _cross_validate(case)
        fields = [case.learn(learner, modular="auto", context="trees") for learner in ON_TREES]
        default = case.learn("auto", modular="auto")
    odds, trees = fields[0].channel_.log_odds(case.test), fields[0].surroundings_
    assert trees is not None
    around = trees.judge_new()(np.arange(len(odds)), odds).reshape(odds.shape)
    masks = [field.predict(case.test) for field in fields]
    chosen = masks[int(np.argmin(errors))]
    predictions = ((around > 0).astype(np.uint8), *masks, chosen, default.predict(case.test))
    probabilities = fields[0].predict_proba(case.test)
    kept = float(default.surroundings_ is not None)
    details = (fields[0].scale_, fields[0].trust_, *errors, kept)
    return Found(predictions, all(field.converged_ for field in fields), details, probabilities)


def _cross_validate(case: Case) -> FloatArray:
    """Return the error (%) of each field on trees on training images that it was not fitted to.

    All that is learned, trees and field, is learned again from the other images.
    """
    fold = np.arange(len(case.train)) % FOLDS
    wrong = np.zeros(len(ON_TREES))
    for k in range(FOLDS):
        out = fold == k
        part = dataclasses.replace(case, train=case.train[~out], clean=case.clean[~out])
        for i, learner in enumerate(ON_TREES):
            field = part.learn(learner, modular="auto", context="trees")
            wrong[i] += np.count_nonzero(field.predict(case.train[out]) != case.clean[out])
    return 100.0 * wrong / case.train.size


def _baseline(key: str, label: str, denoise: Callable[[Case], _Masks]) -> Fit:
    """Return the fit of a baseline."""
    return Fit(label, "baseline", {key: label}, lambda case: Found((denoise(case),)))


# fmt: off
FITS = {
    "plain": Fit(
        "the paper's method", "paper",
        {"map": "the paper's method, MAP", "mean": "the paper's method, mean"},
        _plain, search=Search(learning.logistic, "mean", scale=False)),
    "svm": Fit(
        "SVM-Struct", "paper", {"svm": "SVM-Struct, MAP"},
        _svm, ("w",), search=Search(learning.max_margin, "map", scale=True)),
    "scale": Fit(
        "learned scale", "ours",
        {"scale_map": "learned scale, MAP with factor c", "scale_mean": "learned scale, mean"},
        _scale, ("w", "c")),
    "context": Fit(
        "learned scale and filter", "ours",
        {"context_mean": "learned scale and filter, mean",
         "context_exact": "learned scale and filter, exact marginals"},
        _context, ("w",)),
    "svm_context": Fit(
        "SVM-Struct with filter", "ours", {"svm_context": "SVM-Struct with filter, MAP"},
        _svm_context, ("w",)),
    "exact": Fit(
        "exact likelihood", "ours",
        {"exact": "exact likelihood, learned scale, exact marginals"},
        _exact, ("w",), once=True),
    "median": _baseline("median", "median of 3 x 3 pixels", lambda c: _baselines.median(c.test)),
    "total_variation": _baseline(
        "total_variation", "total variation, tuned",
        lambda c: _baselines.total_variation(c.train, c.clean, c.test)),
    "cut": _baseline(
        "cut", "one cut with one alpha, tuned",
        lambda c: _baselines.cut(c.train, c.clean, c.test)),
    "boosting": Fit(
        "boosted trees on 9 x 9 patches and position", "baseline",
        {"boosting": "boosted trees on 9 x 9 patches and position"}, _boosting),
    "field": Fit(
        "fields on trees, with their selection", "trees",
        {"field_trees": "boosted trees at three scales, no field",
         "field_mean": "a field on these trees, mean",
         "field_svm": "SVM-Struct on these trees, MAP",
         "field_chosen": "the one of both chosen by cross-validation",
         "field_default": "MaskDenoiser as it comes, mean"},
        _field, ("w", "b", "cross-validation error (%) by likelihood",
                 "cross-validation error (%) of SVM-Struct",
                 "share of default fits with trees")),
}
# fmt: on
"""The fits by name, in the order of their columns."""
