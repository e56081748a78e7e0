"""Calibration of the probabilities: reliability of marginals on test pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from logsuper._base import FloatArray
from logsuper.channels import Flips
from logsuper.estimators import MaskDenoiser
from logsuper.experiments import table1, table2
from logsuper.experiments._job import Job
from logsuper.experiments._quality import BINS, calibration_error, count_bins, verdict
from logsuper.experiments._setting import NOISES, Setting, percent, spread_note
from logsuper.functions import grid_cuts
from logsuper.learning import Examples, make_examples, make_model, means
from logsuper.report import Picture, Section, Table, Words, chart, least

__all__ = ["BINS", "LEARNED", "METHODS", "RECOMMENDED", "SAMPLES", "Result", "compute", "run"]

METHODS = ("exact", "logistic", "bethe", "lfield")
"""Methods of inference, all for the same learned model."""

RECOMMENDED = "logistic"
"""The default of `MaskDenoiser`: the method that its learner assumed."""

SAMPLES = 1000
"""Perturbations per image: a probability has a standard error of at most 1.6 %."""

LEARNED: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        "without clean images, filter": (table2, "resample"),
        "without clean images, filter and trees": (table2, "trees"),
        "without clean images, MaskDenoiser as it comes": (table2, "default"),
        "boosted trees, with clean images": (table1, "boosting"),
    }
)
"""What is compared beside that: a table and the name of a method there."""

# What was wanted beforehand without clean images, with trees: the largest calibration error (%) at
# `NOISES`, and the largest log loss as a multiple of that of boosted trees with clean images.
_GOAL, _RATIO = (0.3, 0.3, 0.4, 0.6), (1.1,) * 4

_QUICK_NOISES = (0.1, 0.2)
_CONTEXT = 2

# Name, colour (Okabe and Ito's, safe for colour-blind readers) and marker.
_STYLES = {
    "exact": ("exact", "#000000", "s"),
    "logistic": ("logistic", "#0072b2", "o"),
    "bethe": ("Bethe", "#009e73", "v"),
    "lfield": ("L-field", "#d55e00", "P"),
}
_LABELS = [_STYLES[method][0] for method in METHODS]
_DRAWN = (0.1, 0.2)
# Minimum number of pixels of a bin that is drawn; the frequencies of smaller ones are too noisy.
_FEWEST = 30


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
    quality : ndarray of shape (learned, 2, noises, seeds)
        Log loss and calibration error (%) of the probabilities of each of `LEARNED`.
    """

    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    count: FloatArray
    predicted: FloatArray
    observed: FloatArray
    quality: FloatArray

    @property
    def error(self) -> FloatArray:
        """Expected calibration error in percent, of shape (noises, seeds, methods)."""
        return calibration_error(self.count, self.predicted, self.observed)


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
    return make_section(compute(setting, job), setting)


def compute(setting: Setting, job: Job) -> Result:
    """Return the sums; see `run`."""
    noises = _QUICK_NOISES if job.quick else NOISES
    axes, shape = {"noise": noises, "seed": job.seeds}, (len(METHODS), 3, BINS)
    depends = {**setting.arguments(), "bins": BINS, "samples": SAMPLES, "methods": METHODS}
    table = job.grid("calibration", _sums, axes, shape, depends, setting=setting)
    silent = dataclasses.replace(job, progress=None)
    quality = [module.probabilities(setting, silent, key) for module, key in LEARNED.values()]
    count, predicted, observed = np.moveaxis(table, -2, 0)
    return Result(noises, job.seeds, count, predicted, observed, np.array(quality))


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
    return np.stack([count_bins(probabilities, clean_test) for probabilities in found])


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


# ------------------------------------------------------------------------------------- the section


def make_section(result: Result, setting: Setting) -> Section:
    """Return the section of the report."""
    error, noises = result.error, [percent(noise) for noise in result.noises]
    mean = error.mean(axis=1)  # (noises, methods)
    chosen = METHODS.index(RECOMMENDED)
    said = Words(
        "logsuper.experiments",
        "calibration",
        setting=setting,
        samples=SAMPLES,
        bins=BINS,
        fewest=_FEWEST,
        levels=100.0 * np.array(result.noises),
        drawn=[percent(noise) for noise in result.noises if noise in _DRAWN],
        recommended=mean[:, chosen],
        best=sorted({_LABELS[i] for i in mean.argmin(axis=1)}),
        worst=_LABELS[int(mean.mean(axis=0).argmax())],
        spread=spread_note(result.seeds),
    )
    labels = [label + " (recommended)" * (m == chosen) for m, label in enumerate(_LABELS)]
    rows = [(label, *error[..., m]) for m, label in enumerate(labels)]
    head, data = ["marginals", *noises], list(_bins(result))
    table = said.table("calibration", head, rows, data=data, best=least(mean.T))
    # the curves show sums over pixels, no image, so that they may always be published
    picture = Picture("calibration", draw(result), said["caption"])
    tables = (table, *_learned(result, said, not setting.shipped))
    return said.section("calibration", tables=tables, pictures=(picture,), seeds=result.seeds)


def _learned(result: Result, said: Words, wanted: bool) -> Iterator[Table]:
    """Yield the tables of log losses and calibration errors, and what was wanted of them."""
    noises, (loss, error) = [percent(x) for x in result.noises], np.moveaxis(result.quality, 1, 0)
    for name, numbers, form in (("loss", loss, ".4f"), ("learned", error, ".2f")):
        rows = [(label, *numbers[i]) for i, label in enumerate(LEARNED)]
        best = least(numbers.mean(axis=-1))
        yield said.table(f"calibration_{name}", ["learned", *noises], rows, best=best, format=form)
    if wanted:
        *_, base = loss
        rows = []
        for i, label in list(enumerate(LEARNED))[1:-1]:
            most = (f"{x:.2f}" for x in error[i].max(axis=-1))
            rows += [
                (label, "calibration error (%)", *verdict(error[i], _GOAL, result.noises)),
                ("", "the same, the worst seed", *most),
                ("", "log loss, as a multiple", *verdict(loss[i] / base, _RATIO, result.noises)),
            ]
        yield said.table("calibration_goals", ["learned", "number", *noises], rows)


def _bins(result: Result) -> Iterator[tuple[Any, ...]]:
    """Yield every bin of every method, noise level and seed, the head first."""
    yield "marginals", "noise", "seed", "bin", "pixels", "mean probability", "share of ones"
    for (n, s, m, b), count in np.ndenumerate(result.count):
        sums = (result.predicted[n, s, m, b], result.observed[n, s, m, b])
        shares = (part / count if count else None for part in sums)
        yield _LABELS[m], percent(result.noises[n]), result.seeds[s], b, int(count), *shares


def draw(result: Result) -> bytes:
    """Return the reliability curves at two noise levels, over the pixels of all seeds."""
    shown = [n for n, noise in enumerate(result.noises) if noise in _DRAWN]

    def paint(axes: Any) -> None:
        for axis, n in zip(axes[0], shown, strict=True):
            axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=0, label="calibrated")
            for m, (label, colour, marker) in enumerate(_STYLES.values()):
                sums = (result.count, result.predicted, result.observed)
                count, predicted, observed = (part[n, :, m].sum(axis=0) for part in sums)
                use = count >= _FEWEST
                axis.plot(
                    predicted[use] / count[use], observed[use] / count[use], color=colour,
                    marker=marker, markersize=4.0, markerfacecolor="white", linewidth=1.2,
                    label=label,
                )  # fmt: skip
            title = f"{percent(result.noises[n])} noise"
            axis.set(title=title, xlabel="probability", aspect="equal")
        axes[0, 0].set_ylabel("share of pixels that are 1")

    size, shape = (0.6 + 3.4 * len(shown), 3.9), (1, len(shown))
    return chart.draw(paint, size, shape, legend=5, sharey=True)
