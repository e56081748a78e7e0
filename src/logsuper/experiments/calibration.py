"""Calibration of the probabilities: reliability of marginals on test pixels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from logsuper._base import FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser
from logsuper.experiments._job import Job
from logsuper.experiments._setting import NOISES, Setting
from logsuper.functions import grid_cuts
from logsuper.learning import Examples, make_examples, make_model, means
from logsuper.report import Section

__all__ = ["BINS", "METHODS", "RECOMMENDED", "SAMPLES", "Result", "compute", "run"]

BINS = 20
"""Number of bins of equal width on [0, 1]."""

METHODS = ("exact", "logistic", "bethe", "lfield")
"""Methods of inference, all for the same learned model."""

RECOMMENDED = "logistic"
"""The default of `MaskDenoiser`: the method that its learner assumed."""

SAMPLES = 1000
"""Perturbations per image: a probability has a standard error of at most 1.6 %."""

_QUICK_NOISES = (0.1, 0.2)
_CONTEXT = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """Sums over the pixels of each bin.

    Attributes
    ----------
    noises : tuple of float
    seeds : tuple of int
    count, predicted, observed : ndarray of shape (noises, seeds, methods, bins)
        Number of pixels whose probability is in a bin, the sum of their probabilities, and the
        number of these pixels that are 1.
    """

    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    count: FloatArray
    predicted: FloatArray
    observed: FloatArray

    @property
    def error(self) -> FloatArray:
        """Expected calibration error in percent, of shape (noises, seeds, methods).

        The mean distance between a bin's mean probability and its fraction of ones, weighted by
        pixels.
        """
        off = np.abs(self.predicted - self.observed).sum(axis=-1)
        return np.asarray(100.0 * off / self.count.sum(axis=-1))


def run(setting: Setting, job: Job) -> Section:
    """Compare probabilities with the true values of test pixels, for four inference methods.

    Parameters
    ----------
    setting : Setting
    job : Job
        Its seeds are those of the noise, the learner and the perturbations; a quick job uses two
        noise levels.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import calibration
    >>> calibration.METHODS, calibration.RECOMMENDED
    (('exact', 'logistic', 'bethe', 'lfield'), 'logistic')
    """
    from logsuper.experiments._calibration_report import make_section

    return make_section(compute(setting, job), setting)


def compute(setting: Setting, job: Job) -> Result:
    """Return the sums; see `run`."""
    noises = _QUICK_NOISES if job.quick else NOISES
    axes, shape = {"noise": noises, "seed": job.seeds}, (len(METHODS), 3, BINS)
    depends = {**setting.arguments(), "bins": BINS, "samples": SAMPLES, "methods": METHODS}
    table = job.grid("calibration", _sums, axes, shape, depends, setting=setting)
    return Result(noises, job.seeds, *np.moveaxis(table, -2, 0))


# ------------------------------------------------------------------------------------------ inside


def _sums(setting: Setting, noise: float, seed: int) -> FloatArray:
    """Learn from pairs of images; return the sums of every method, shape (methods, 3, bins)."""
    train, test = setting.noisy(noise, seed)
    clean_train, clean_test = setting.clean
    shared: dict[str, Any] = {"modular": "pixel", "context": _CONTEXT}
    denoiser = MaskDenoiser(noise, "logistic", random_state=seed, n_jobs=1, **shared)
    denoiser.fit(train, clean_train)
    examples = make_examples(grid_cuts, observed=test, channel=Flips(noise), scale=True, **shared)
    theta = examples.layout.pack(denoiser.parameters_)
    found = (_marginals(examples, theta, method, seed) for method in METHODS)
    return np.stack([_bin(probabilities, clean_test) for probabilities in found])


def _marginals(examples: Examples, theta: FloatArray, method: str, seed: int) -> FloatArray:
    """Return the probabilities of all test pixels, computed by a method."""
    if method in ("exact", "logistic"):
        found = means(examples, theta, method=method, n_samples=SAMPLES, seed=seed, n_jobs=1)
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
    """Return count, sum of probabilities and number of ones of each bin, of shape (3, bins)."""
    p = np.clip(probabilities.ravel(), 0.0, 1.0)
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return np.stack([np.bincount(place, weight, BINS) for weight in (None, p, truth.ravel())])
