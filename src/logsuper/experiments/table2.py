"""Table 2 of the paper: learning from noisy images only, with known and unknown noise."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.estimators import MaskDenoiser, reuse_classifiers
from logsuper.experiments._job import Job
from logsuper.experiments._quality import judge, verdict
from logsuper.experiments._setting import NOISES, Setting, percent, spread_note
from logsuper.learning import SAMPLES
from logsuper.report import Section, Table, Words, least, show

__all__ = [
    "DECODINGS",
    "METHODS",
    "PAPER",
    "Method",
    "Result",
    "boundary",
    "compute",
    "probabilities",
    "run",
]

DECODINGS = ("MAP", "mean")
"""The decodings that the paper calls max-marginals and mean-marginals."""

PAPER: Mapping[tuple[bool, str], tuple[float, ...]] = MappingProxyType(
    {
        (True, "MAP"): (0.5, 0.9, 1.9, 5.3),
        (True, "mean"): (0.5, 1.0, 2.1, 6.0),
        (False, "MAP"): (1.0, 3.5, 6.8, 20.0),
        (False, "mean"): (1.0, 3.6, 7.0, 20.0),
    }
)
"""Percentage of wrong pixels in the paper at `NOISES`, by (noise known, decoding)."""

# The largest error (%) that was wanted beforehand with trees, the noise unknown, at `NOISES`.
_GOAL = (0.19, 0.72, 1.47, 3.35)

_QUICK_NOISES = (0.1, 0.2)
# Initial noise level if it is learned. It must be too large rather than too small: starting too
# small, all noise would be explained as signal.
_START = 0.3
# The paper's regulariser; and the relative change of its objective over the second half of all
# steps below which it has converged.
_PENALTY = 1e-2
_TOL, _QUICK_TOL = 2e-4, 1e-3


@dataclasses.dataclass(frozen=True)
class Method:
    """A method that learns from noisy images only.

    Attributes
    ----------
    kind : str
        Name of its parts, which it shares with the method that differs in `known` only.
    label : str
    known : bool
        Whether the noise level is given.
    learner : str
        Learner of `MaskDenoiser`; "latent" is the paper's objective.
    context : int or str
        What it has beside the observation of a pixel itself, as in `MaskDenoiser`: nothing (0), a
        linear filter of the observations around it ("filter"), "trees" beside that, or what is best
        for hidden pixels ("auto").
    """

    kind: str
    label: str
    known: bool
    learner: str
    context: int | str = 0

    @property
    def latent(self) -> bool:
        """Whether it is the paper's objective."""
        return self.learner == "latent"

    def denoiser(self, noise: float, tol: float, seed: int) -> MaskDenoiser:
        """Return the estimator, which uses one thread."""
        shared: dict[str, Any] = {"random_state": seed, "n_jobs": 1}
        if not self.latent:
            # estimated moments as they are: error bars are for images larger than these, and for
            # features that are as strongly correlated as those of filter and trees
            exact = self.learner == "moments" and self.context != "trees"
            options = {"relax": 0.0} if exact else None
            return MaskDenoiser(
                noise if self.known else "flips",
                self.learner,
                context=self.context,
                options=options,
                **shared,
            )
        return MaskDenoiser(
            noise if self.known else _START,
            "latent",
            modular="pixel",
            penalty=_PENALTY,
            tol=tol,
            options={"method": "subgradient", "noise": "fixed" if self.known else "learned"},
            **shared,
        )


METHODS = tuple(
    Method(kind, label, known, learner, context)
    for known in (True, False)
    for kind, label, learner, context in (
        ("latent", "paper's objective", "latent", 0),
        ("moments", "moments", "moments", 0),
        ("context", "moments and filter", "moments", "filter"),
        ("resample", "resampling and filter", "resample", "filter"),
        ("trees", "moments, filter and blind-spot trees", "moments", "trees"),
        ("default", "MaskDenoiser as it comes", "auto", "auto"),
    )
)


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """All numbers of the table.

    Attributes
    ----------
    noises : tuple of float
    seeds : tuple of int
    tol : float
        Tolerance of the paper's objective.
    error, length : ndarray of shape (methods, noises, seeds, decodings)
        Percentage of wrong pixels of the test images; boundary of the decoded masks (number of
        neighbouring pixels that differ) divided by that of the true ones.
    rate, converged, loss, calibration : ndarray of shape (methods, noises, seeds)
        The given, estimated or learned noise level; 1 if the fit converged, else 0; log loss of the
        probabilities in nats per pixel, and their calibration error in percent.
    """

    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    tol: float
    error: FloatArray
    length: FloatArray
    rate: FloatArray
    converged: FloatArray
    loss: FloatArray
    calibration: FloatArray

    def of(self, known: bool, latent: bool) -> list[int]:
        """Return the indices of the methods with these attributes `known` and `latent`."""
        return [i for i, m in enumerate(METHODS) if (m.known, m.latent) == (known, latent)]

    def paper(self, known: bool, decoding: str) -> FloatArray:
        """Return the paper's numbers at these noise levels."""
        return np.array([PAPER[known, decoding][NOISES.index(noise)] for noise in self.noises])


def run(setting: Setting, job: Job) -> Section:
    """Learn from noisy images only by all methods, and compare with the paper.

    Parameters
    ----------
    setting : Setting
    job : Job
        A quick job uses two noise levels, and a looser tolerance for the paper's objective.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import table2
    >>> table2.PAPER[False, "MAP"]  # the paper's errors if the noise is unknown
    (1.0, 3.5, 6.8, 20.0)
    """
    return make_section(compute(setting, job), setting)


def compute(setting: Setting, job: Job) -> Result:
    """Return the numbers; see `run`."""
    noises, tol = (_QUICK_NOISES, _QUICK_TOL) if job.quick else (NOISES, _TOL)
    table = _fits(setting, job, list(dict.fromkeys(method.kind for method in METHODS)))
    numbers = table.reshape(len(METHODS), *table.shape[2:])  # the order of METHODS
    others = np.moveaxis(numbers[..., 4:], -1, 0)
    return Result(noises, job.seeds, tol, numbers[..., :2], numbers[..., 2:4], *others)


def probabilities(setting: Setting, job: Job, kind: str) -> FloatArray:
    """Return log loss and calibration error (%) if the noise is unknown, (2, noises, seeds).

    A run that stores its parts does not fit again what `compute` has fitted with the same job.
    """
    return np.moveaxis(_fits(setting, job, [kind])[1, 0, ..., -2:], -1, 0)


def boundary(masks: NDArray[Any]) -> int:
    """Return the number of neighbouring pixels, along rows and columns, that differ."""
    return sum(int(np.count_nonzero(np.diff(masks.astype(np.int8), axis=axis))) for axis in (1, 2))


# ------------------------------------------------------------------------------------------ inside


def _fits(setting: Setting, job: Job, kinds: list[str]) -> FloatArray:
    """Return what `_fit` returns, of shape (2, kinds, noises, seeds, 8)."""
    noises, tol = (_QUICK_NOISES, _QUICK_TOL) if job.quick else (NOISES, _TOL)
    table = job.grid(
        "table2",
        _fit,
        {"kind": kinds, "noise": noises, "seed": job.seeds},
        (2, 8),
        {**setting.arguments(), "tol": tol},
        order=lambda cell: (cell[0] not in ("latent", "trees", "default"), cell[1]),
        setting=setting,
        tol=tol,
    )
    return np.moveaxis(table, -2, 0)


def _fit(setting: Setting, kind: str, noise: float, seed: int, tol: float) -> FloatArray:
    """Return the numbers with the noise known and unknown, of shape (2, 8).

    Errors and boundaries of both decodings, the rate, whether the fit converged, log loss and
    calibration error.
    """
    train, test = setting.noisy(noise, seed)
    clean, rows = setting.clean[1], []
    with reuse_classifiers():  # trees do not depend on the rate
        for method in (one for one in METHODS if one.kind == kind):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # returned as a number instead
                denoiser = method.denoiser(noise, tol, seed).fit(train)
            p = denoiser.predict_proba(test)
            masks = (denoiser.set_params(decode="map").predict(test), p > 0.5)
            errors = [100.0 * float(np.mean(found != clean)) for found in masks]
            lengths = [boundary(found) / boundary(clean) for found in masks]
            others = (denoiser.noise_, denoiser.converged_, *judge(p, clean))
            rows.append([*errors, *lengths, *others])
    return np.array(rows, dtype=np.float64)


_WORDS = {True: "known", False: "unknown"}


def make_section(result: Result, setting: Setting) -> Section:
    """Return the section: errors with known and unknown noise, estimated rates, boundaries."""
    compared = not setting.shipped
    said = Words(
        "logsuper.experiments", "table2", result=result, setting=setting, compared=compared,
        samples=SAMPLES, spread=spread_note(result.seeds).capitalize(), **_findings(result),
    )  # fmt: skip
    errors = (_errors(result, known, compared, said) for known in (True, False))
    goals = [_goals(result, said)] if compared else []
    tables = (*errors, *goals, *_others(result, said))
    return said.section("table2", tables=tables, seeds=result.seeds)


# ------------------------------------------------------------------------------------------ tables


def _errors(result: Result, known: bool, compared: bool, said: Words) -> Table:
    """Return the errors, next to those of the paper if the images are the same."""
    rows: list[tuple[Any, ...]] = []
    if compared:
        rows += [("paper", x, *(f"{y:.1f}" for y in result.paper(known, x))) for x in DECODINGS]
    above = len(rows)
    ours = [i for i, method in enumerate(METHODS) if method.known == known]
    for i in ours:
        for d, name in enumerate(DECODINGS):
            cells: Iterable[Any] = result.error[i, ..., d]
            if compared:
                change = result.error[i, ..., d].mean(axis=1) - result.paper(known, name)
                pairs = zip(cells, change, strict=True)
                cells = [f"{show(errors)} ({by:+z.2f})" for errors, by in pairs]
            rows.append((METHODS[i].label, name, *cells))
    means = result.error[ours].mean(axis=2)  # (methods, noises, decodings)
    return said.table(
        f"table2_{_WORDS[known]}",
        ["learned by", "decoding", *map(percent, result.noises)],
        rows,
        data=list(_full(result, ours)),
        best=least(np.concatenate(means.transpose(0, 2, 1)), above, 2),
        quoted=frozenset(np.ndindex(above, len(result.noises) + 2)),
    )


def _goals(result: Result, said: Words) -> Table:
    """Return whether the errors of mean decoding with trees are what was wanted."""
    rows = []
    for i, method in enumerate(METHODS):
        if method.kind in ("trees", "default") and not method.known:
            errors = result.error[i, ..., DECODINGS.index("mean")]
            rows.append((method.label, *verdict(errors, _GOAL, result.noises)))
    return said.table("table2_goals", ["learned by", *map(percent, result.noises)], rows)


def _others(result: Result, said: Words) -> Iterator[Table]:
    """Yield the tables of the estimated rates and of the boundaries."""
    noises = [percent(noise) for noise in result.noises]
    (latent,), free = result.of(known=False, latent=True), result.of(False, False)[0]
    rates = {"without a model": free, "paper's objective": latent}
    yield said.table(
        "table2_rate",
        ["estimated", *noises],
        [(label, *(100.0 * result.rate[i])) for label, i in rates.items()],
        data=list(_full(result, [free, latent])),
    )
    yield said.table(
        "table2_boundary",
        ["learned by", "noise", "decoding", *noises],
        [
            (method.label, _WORDS[method.known], name, *result.length[i, ..., d])
            for i, method in enumerate(METHODS)
            for d, name in enumerate(DECODINGS)
        ],
        data=list(_full(result, range(len(METHODS)))),
    )


def _full(result: Result, methods: Iterable[int]) -> Iterator[tuple[Any, ...]]:
    """Yield all numbers of some methods, the head first."""
    yield (
        "method", "noise known", "decoding", "noise", "seed",
        "percent wrong", "boundary ratio", "noise level", "converged", "log loss",
        "calibration error",
    )  # fmt: skip
    for i in methods:
        method = (METHODS[i].label, "yes" if METHODS[i].known else "no")
        for n, s, d in np.ndindex(*result.error.shape[1:]):
            case = (DECODINGS[d], percent(result.noises[n]), result.seeds[s])
            numbers = (result.error[i, n, s, d], result.length[i, n, s, d], result.rate[i, n, s])
            quality = (result.loss[i, n, s], result.calibration[i, n, s])
            yield *method, *case, *numbers, int(result.converged[i, n, s]), *quality


# ------------------------------------------------------------------------------------------- words


def _findings(result: Result) -> dict[str, Any]:
    """Return the values for the text of the section."""
    mean = result.error.mean(axis=2)  # (methods, noises, decodings)
    noises, sides = np.array(result.noises), []
    for known in (True, False):
        (latent,), others = result.of(known, latent=True), result.of(known, latent=False)
        paper = np.stack([result.paper(known, name) for name in DECODINGS], axis=-1)
        side = {
            "word": _WORDS[known],
            "more": mean[latent] - paper,
            "paper": paper.min(axis=1),
            "latent": mean[latent].min(axis=1),
            "ours": mean[others].min(axis=(0, 2)),
        }
        sides.append(side)
    free = result.of(known=False, latent=False)[0]
    poor = (sides[1]["latent"] > 80.0 * noises) & (result.rate[latent].mean(axis=1) < noises)
    papers = [i for i, method in enumerate(METHODS) if method.latent]
    length, error = result.length[papers].mean(axis=2), mean[papers]
    return {
        "sides": sides,
        "fits": result.converged[papers],
        "levels": 100.0 * noises,
        "poor": poor,
        "off": 100.0 * np.abs(result.rate[free] - noises[:, None]).max(),
        "change": np.abs(sides[1]["ours"] - sides[0]["ours"]).max(),
        "cells": error[..., 0].size,
        "short": (length < 1.0).sum(axis=(0, 1)),
        "better": (error[..., 0] < error[..., 1]).sum(),
        "signs": np.sign(length[..., 0] - length[..., 1]),
    }
