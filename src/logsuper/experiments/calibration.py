"""Whether probabilities can be trusted: reliability of marginals on test pixels."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence

import numpy as np

from logsuper._base import FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser
from logsuper.experiments._parts import Part, Progress, run_parts
from logsuper.experiments._section import Section
from logsuper.experiments._setting import NOISES, Setting, check_seeds
from logsuper.functions import grid_cuts
from logsuper.learning import Examples, make_examples, make_model, means

__all__ = ["BINS", "METHODS", "RECOMMENDED", "SAMPLES", "Result", "run"]

BINS = 20
"""Of equal width, on [0, 1]."""

METHODS = ("exact", "logistic", "bethe", "lfield")
"""Of inference, all under the same learned model."""

RECOMMENDED = "logistic"
"""What `MaskDenoiser` does by default: the method that its learner assumed."""

SAMPLES = 1000
"""Perturbations of an image: a probability has a standard error of at most 1.6 %."""

_QUICK_NOISES = (0.1, 0.2)
_CONTEXT = 2
# Of each bin: how many pixels, the sum of their probabilities, and how many of them are 1.
_SUMS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """Sums over the pixels of each bin.

    Attributes
    ----------
    noises : tuple of float
    seeds : tuple of int
    count, predicted, observed : ndarray of shape (noises, seeds, methods, bins)
        Pixels whose probability falls into a bin, the sum of those probabilities, and how many of
        these pixels are 1.
    """

    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    count: FloatArray
    predicted: FloatArray
    observed: FloatArray

    @property
    def error(self) -> FloatArray:
        """Expected calibration error in percent, of shape (noises, seeds, methods).

        The mean distance of a bin's mean probability from its share of ones, weighted by pixels.
        """
        off = np.abs(self.predicted - self.observed).sum(axis=-1)
        return np.asarray(100.0 * off / self.count.sum(axis=-1))


def run(
    setting: Setting,
    *,
    seeds: Sequence[int],
    quick: bool = False,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Section:
    """Compare probabilities with what is true of test pixels, for four ways of inference.

    Parameters
    ----------
    setting : Setting
    seeds : sequence of int
        Of the noise, the learner and the perturbations.
    quick : bool
        The first seed at two rates only.
    partial : path, optional
        The folder where finished parts are kept.
    progress : callable, optional
    n_jobs : int
        Processes; the numbers do not depend on them.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import calibration
    >>> calibration.METHODS, calibration.RECOMMENDED
    (('exact', 'logistic', 'bethe', 'lfield'), 'logistic')
    """
    from logsuper.experiments._calibration_report import draw, grids, text

    begun = time.perf_counter()
    result = compute(
        setting, seeds=seeds, quick=quick, partial=partial, progress=progress, n_jobs=n_jobs
    )
    return Section(
        "calibration",
        "Calibration: can the probabilities be trusted?",
        text(result, setting),
        grids(result),
        draw(result),
        seconds=time.perf_counter() - begun,
        seeds=result.seeds,
    )


def compute(
    setting: Setting,
    *,
    seeds: Sequence[int],
    quick: bool = False,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Result:
    """Return the sums; see `run`."""
    kept = check_seeds(seeds)
    noises = _QUICK_NOISES if quick else NOISES
    shape = (len(METHODS), _SUMS, BINS)
    parts = [
        Part(
            f"calibration-{noise:.2f}-{seed}",
            _sums,
            {"setting": setting, "noise": noise, "seed": seed},
            int(np.prod(shape)),
        )
        for noise in noises
        for seed in kept
    ]
    depends = {**setting.arguments(), "bins": BINS, "samples": SAMPLES, "methods": METHODS}
    found = run_parts(parts, depends, partial=partial, progress=progress, n_jobs=n_jobs)
    table = np.stack([found[part.name] for part in parts]).reshape(len(noises), len(kept), *shape)
    return Result(noises, kept, *np.moveaxis(table, -2, 0))


# ------------------------------------------------------------------------------------------ inside


def _sums(setting: Setting, noise: float, seed: int) -> FloatArray:
    """Learn from pairs, and return the sums of every method and bin, flattened."""
    train, test = setting.noisy(noise, seed)
    clean_train, clean_test = setting.clean
    denoiser = MaskDenoiser(
        noise, "logistic", modular="pixel", context=_CONTEXT, random_state=seed, n_jobs=1
    ).fit(train, clean_train)
    examples = make_examples(
        grid_cuts,
        observed=test,
        channel=Flips(noise),
        modular="pixel",
        context=_CONTEXT,
        scale=True,
    )
    theta = examples.layout.pack(denoiser.parameters_)
    return np.concatenate(
        [_bin(_marginals(examples, theta, method, seed), clean_test) for method in METHODS]
    )


def _marginals(examples: Examples, theta: FloatArray, method: str, seed: int) -> FloatArray:
    """Return the probabilities of all test pixels by a method."""
    if method in ("exact", "logistic"):
        found = means(examples, theta, method=method, samples=SAMPLES, seed=seed, n_jobs=1)
        return np.asarray(found)
    (group,) = examples.groups
    rows = np.arange(group.count)
    alpha = theta[examples.layout.blocks["alpha"]]
    return np.stack(
        [
            make_model(group, int(row), alpha, field).marginals(method).values
            for row, field in zip(rows, examples.fields(theta, group, rows), strict=True)
        ]
    )


def _bin(probabilities: FloatArray, truth: np.ndarray) -> FloatArray:
    """Return count, sum of probabilities and number of ones of each bin, flattened."""
    p = np.clip(probabilities.ravel(), 0.0, 1.0)
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    weights = (None, p, truth.ravel())
    return np.concatenate([np.bincount(place, weight, BINS) for weight in weights])
