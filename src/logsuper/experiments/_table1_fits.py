"""The denoising methods of table 1 and their fits."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from logsuper import learning
from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser
from logsuper.experiments import _baselines
from logsuper.experiments._setting import Setting
from logsuper.functions import grid_cuts
from logsuper.learning import Examples, Learned, Penalty

FOLDS = 3
"""Number of folds for the out-of-fold log-odds of trees, from which fields are learned."""

WEAK = 1e-3
"""Regulariser of fields on top of trees, nats per image; weak, as there are only four weights."""

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
    group : {"paper", "ours", "baseline", "behind"}
        A method of the paper, another model of this library, a baseline, or a model that has the
        log-odds of a baseline as a feature.
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
    group: Literal["paper", "ours", "baseline", "behind"]
    columns: Mapping[str, str]
    run: Callable[[Case], Found]
    details: tuple[str, ...] = ()
    once: bool = False
    search: Search | None = None

    @property
    def size(self) -> int:
        """Number of numbers that `work` returns."""
        return len(self.columns) + 2 + len(self.details)


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """The predictions of a fit for each of its columns, and some learned numbers."""

    predictions: tuple[_Masks, ...]
    converged: bool = True
    details: tuple[float, ...] = ()


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
        denoiser = MaskDenoiser(
            self.noise, learner, modular="pixel", random_state=self.seed, n_jobs=1, **options
        )
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
    """Return the errors (%) of the columns of a fit, its seconds, whether it converged, details."""
    (train, test), (clean, truth) = setting.noisy(noise, seed), setting.clean
    start = time.perf_counter()
    found = FITS[fit].run(Case(train, clean, test, noise, seed, pair, pixels))
    seconds = time.perf_counter() - start
    errors = [100.0 * float(np.mean(x != truth)) for x in found.predictions]
    return np.array([*errors, seconds, float(found.converged), *found.details])


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
    return case.decode(case.learn(), {}, {"marginals": "exact"}, details=("scale_",))


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


def _boosting(case: Case) -> FloatArray:
    return _baselines.boosting(
        case.train, case.clean, case.test, pixels=case.pixels, seed=case.seed
    )


def _behind(case: Case) -> Found:
    """Fit trees, then fields with two cuts and the trees' log-odds as a feature: four weights.

    The fields are learned from out-of-fold log-odds. There is no modular term, since the position
    of a pixel is a feature of the trees.
    """
    options: Any = {"modular": "none", "scale": True}
    before = _baselines.held_out(
        case.train, case.clean, folds=FOLDS, pixels=case.pixels, seed=case.seed
    )
    train = _examples(case.train, case.noise, case.clean, features=before[..., None], **options)
    odds = _boosting(case)[..., None]
    test = _examples(case.test, case.noise, None, features=odds, **options)
    penalty = Penalty.of(train.layout, alpha=WEAK, beta=WEAK, scale=WEAK)
    # fits that do not converge are counted instead
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        found = learning.logistic(train, penalty, seed=case.seed, n_jobs=1)
        sharp = learning.max_margin(train, penalty, seed=case.seed, n_jobs=1)
    mean = np.asarray(
        learning.means(test, found.theta, method="logistic", seed=case.seed, n_jobs=1)
    )
    mode = np.asarray(learning.modes(test, sharp.theta, n_jobs=1))
    details = (float(found.parameters.scale), float(found.parameters.beta[0]))
    predictions = ((mean > 0.5).astype(np.uint8), mode)
    return Found(predictions, found.converged and sharp.converged, details)


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
    "boosting": _baseline(
        "boosting", "boosted trees on 9 x 9 patches and position",
        lambda c: (_boosting(c) > 0).astype(np.uint8)),
    "behind": Fit(
        "fields behind trees, with the trees", "behind",
        {"behind_mean": "a field behind these trees, mean",
         "behind_svm": "SVM-Struct behind these trees, MAP"},
        _behind, ("w", "b")),
}
# fmt: on
"""The fits by name, in the order of their columns."""
