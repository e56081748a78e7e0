"""Table 2 of the paper: masks from noisy images alone, with the noise known and unknown."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.estimators import MaskDenoiser
from logsuper.experiments._job import Job
from logsuper.experiments._setting import NOISES, Setting
from logsuper.report import Section

__all__ = ["DECODINGS", "METHODS", "PAPER", "Method", "Result", "boundary", "compute", "run"]

DECODINGS = ("MAP", "mean")
"""What the paper calls max-marginals and mean-marginals."""

PAPER: Mapping[tuple[bool, str], tuple[float, ...]] = MappingProxyType(
    {
        (True, "MAP"): (0.5, 0.9, 1.9, 5.3),
        (True, "mean"): (0.5, 1.0, 2.1, 6.0),
        (False, "MAP"): (1.0, 3.5, 6.8, 20.0),
        (False, "mean"): (1.0, 3.6, 7.0, 20.0),
    }
)
"""Percent of wrong pixels as printed there, at the rates `NOISES`: noise known or not, decoding."""

_QUICK_NOISES = (0.1, 0.2)
# The noise is learned from a rate that is rather too large: from one that is too small, all of it
# would be taken for signal.
_START = 0.3
# The paper's regulariser, and when its objective counts as converged: the second half of all steps
# has changed it by less than this share.
_PENALTY = 1e-2
_TOL, _QUICK_TOL = 2e-4, 1e-3


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to learn from noisy images alone.

    Attributes
    ----------
    key : str
        Of its parts.
    label : str
    known : bool
        Whether it is told the noise.
    learner : str
        Its name there; "latent" is the paper's objective.
    context : bool
        Whether it has a filter of the observations around a pixel.
    """

    key: str
    label: str
    known: bool
    learner: str
    context: bool = False

    @property
    def latent(self) -> bool:
        """Whether it is the paper's objective."""
        return self.learner == "latent"

    def denoiser(self, noise: float, tol: float, seed: int) -> MaskDenoiser:
        """Return the estimator, on one thread."""
        shared: dict[str, Any] = {"random_state": seed, "n_jobs": 1}
        if not self.latent:
            context = "auto" if self.context else 0
            return MaskDenoiser(
                noise if self.known else "flips", self.learner, context=context, **shared
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
    Method(f"{key}_{'known' if known else 'unknown'}", label, known, learner, context)
    for known in (True, False)
    for key, label, learner, context in (
        ("latent", "paper's objective", "latent", False),
        ("moments", "moments", "moments", False),
        ("context", "moments and filter", "moments", True),
        ("resample", "resampling and filter (the default)", "resample", True),
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
        Of the paper's objective.
    error, length : ndarray of shape (methods, noises, seeds, decodings)
        Percent of wrong pixels of the test images; boundary of the decoded masks, in pairs of
        neighbours that differ, over that of the true ones.
    rate, converged : ndarray of shape (methods, noises, seeds)
        The share of flipped pixels that was given, estimated or learned; 1 where the fit converged.
    """

    noises: tuple[float, ...]
    seeds: tuple[int, ...]
    tol: float
    error: FloatArray
    length: FloatArray
    rate: FloatArray
    converged: FloatArray

    def of(self, known: bool, latent: bool) -> list[int]:
        """Return which methods are told the noise or not, and are the paper's or not."""
        return [i for i, m in enumerate(METHODS) if (m.known, m.latent) == (known, latent)]

    def paper(self, known: bool, decoding: str) -> FloatArray:
        """Return the paper's numbers at these rates."""
        return np.array([PAPER[known, decoding][NOISES.index(noise)] for noise in self.noises])


def run(setting: Setting, job: Job) -> Section:
    """Learn from noisy images alone in all ways, and compare with the paper.

    Parameters
    ----------
    setting : Setting
    job : Job
        A quick one has two rates only, and a paper's objective that is not quite converged.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import table2
    >>> table2.PAPER[False, "MAP"]  # what it is compared with, where the noise is unknown
    (1.0, 3.5, 6.8, 20.0)
    """
    from logsuper.experiments._table2_report import make_section

    return make_section(compute(setting, job), setting)


def compute(setting: Setting, job: Job) -> Result:
    """Return the numbers; see `run`."""
    noises, tol = (_QUICK_NOISES, _QUICK_TOL) if job.quick else (NOISES, _TOL)
    table = job.grid(
        "table2",
        _fit,
        {"method": [method.key for method in METHODS], "noise": noises, "seed": job.seeds},
        (6,),
        {**setting.arguments(), "tol": tol},
        order=lambda cell: (not cell[0].startswith("latent"), cell[1]),
        setting=setting,
        tol=tol,
    )
    error, length, (rate, converged) = (
        table[..., :2],
        table[..., 2:4],
        np.moveaxis(table[..., 4:], -1, 0),
    )
    return Result(noises, job.seeds, tol, error, length, rate, converged)


def boundary(masks: NDArray[Any]) -> int:
    """Return the number of neighbours, along rows and columns, that differ."""
    return sum(int(np.count_nonzero(np.diff(masks.astype(np.int8), axis=axis))) for axis in (1, 2))


# ------------------------------------------------------------------------------------------ inside


def _fit(setting: Setting, method: str, noise: float, seed: int, tol: float) -> FloatArray:
    """Return errors and boundaries of both decodings, the rate, and whether the fit converged."""
    train, test = setting.noisy(noise, seed)
    clean = setting.clean[1]
    (chosen,) = (one for one in METHODS if one.key == method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by one of the numbers
        denoiser = chosen.denoiser(noise, tol, seed).fit(train)
    masks = [denoiser.set_params(decode=name.lower()).predict(test) for name in DECODINGS]
    errors = [100.0 * float(np.mean(found != clean)) for found in masks]
    lengths = [boundary(found) / boundary(clean) for found in masks]
    return np.array([*errors, *lengths, denoiser.noise_, denoiser.converged_], dtype=np.float64)
