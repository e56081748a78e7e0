r"""Figure 1 of the paper: bounds on log Z of a graph cut, given an increasing number of labels.

Section 3.3 of Shpakova and Bach (2016), in the setting of Djolonga and Krause (2014): two clusters
of 50 points in the plane, a complete graph with weights :math:`e^{-c\|x-y\|}`, its cut function f,
and the distribution :math:`p(x)\propto e^{-f(x)}` conditioned on k points of the first cluster
being 1 and k points of the second being 0. More bounds are compared than in the paper.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.stats import t as student

from logsuper._base import FloatArray, check_integer, check_natural, check_number
from logsuper.bounds import Bound
from logsuper.datasets import gaussian_mixture_graph
from logsuper.experiments._job import Job, check_list
from logsuper.experiments._setting import Setting
from logsuper.functions import Modular
from logsuper.model import LogSupermodular
from logsuper.report import Section

__all__ = ["CURVES", "QUICK_COUNTS", "Curve", "Result", "compute", "run"]

QUICK_COUNTS = (1, 2, 5, 10, 25, 45, 50)
"""Numbers of given points in a quick run."""

# Relative tolerance for the comparison of bounds that are equal in theory.
_ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of the figure.

    Attributes
    ----------
    key : str
        Its name in tables.
    side : {"lower", "upper", "exact"}
    label : str
        Its name in the legend.
    method : str
        Method of `LogSupermodular.log_partition`.
    options : mapping
        Options of the method.
    sampled : bool
        Whether the method draws samples, and takes their number and a seed.
    largest : int or None
        Maximum number of free elements; the curve is left out for larger models.
    """

    key: str
    side: Literal["lower", "upper", "exact"]
    label: str
    method: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sampled: bool = False
    largest: int | None = None

    def bound(self, model: LogSupermodular, samples: int, seed: list[int]) -> Bound | None:
        """Return the bound on log Z of a model, or None if the model is too large."""
        if self.largest is not None and len(model.free) > self.largest:
            return None
        options = dict(self.options)
        if self.sampled and len(model.free):
            options |= {"n_samples": samples, "seed": np.random.default_rng(seed)}
        return model.log_partition(self.method, **options)


_PLAIN = {"variance_reduction": "none"}
CURVES = (
    Curve("lfield", "upper", "L-field", "lfield"),
    Curve("logistic_plain", "upper", "logistic, plain", "logistic", _PLAIN, sampled=True),
    Curve("logistic", "upper", "logistic, low variance", "logistic", sampled=True),
    Curve("power", "upper", "power $U_a$", "power", sampled=True),
    Curve("trw", "upper", "tree-reweighted", "trw"),
    Curve("bethe", "lower", "Bethe", "bethe"),
    Curve("superdifferential", "lower", "superdifferential", "superdifferential"),
    Curve("exact", "exact", "exact", "exact", largest=16),
)
"""The curves, upper bounds first; the paper has the first two and the superdifferential."""


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """Bounds on log Z for each data set, decay, number of given pairs, and curve.

    Attributes
    ----------
    seeds : tuple of int
        One seed per data set.
    decays : tuple of float
        The rates c.
    counts : tuple of int
        Numbers k of points that are given per cluster.
    points, samples : int
        Number of points per cluster, and of samples per estimate.
    value, stderr, seconds, solves : ndarray of shape (seeds, decays, counts, curves)
        The bound, its standard error by sampling (NaN without sampling), the time, and the number
        of submodular minimisations. All are NaN if a curve is left out.
    """

    seeds: tuple[int, ...]
    decays: tuple[float, ...]
    counts: tuple[int, ...]
    points: int
    samples: int
    value: FloatArray
    stderr: FloatArray
    seconds: FloatArray
    solves: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean value over the data sets, shape (decays, counts, curves)."""
        return np.asarray(self.value.mean(axis=0))

    def band(self, values: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the ends of Student's 95 % confidence interval of a mean over data sets.

        Parameters
        ----------
        values : ndarray whose first axis is the data sets, default `value`

        Returns
        -------
        low, high : ndarray
            Both equal to the mean if there is one data set.
        """
        values = self.value if values is None else values
        count, mean = len(values), values.mean(axis=0)
        if count == 1:
            return mean, mean
        radius = student.ppf(0.975, count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)
        return mean - radius, mean + radius

    @property
    def best_lower(self) -> FloatArray:
        """Best lower bound of each model, shape (seeds, decays, counts)."""
        lower = [i for i, curve in enumerate(CURVES) if curve.side == "lower"]
        return np.asarray(self.value[..., lower].max(axis=-1))

    def crossing(self, curve: int) -> tuple[FloatArray, FloatArray]:
        """Return how far an upper bound is below the best lower bound.

        Parameters
        ----------
        curve : int
            Index of an upper or exact curve.

        Returns
        -------
        nats : ndarray of shape (seeds, decays, counts)
            Zero if the bounds are in order up to rounding, or the curve is left out.
        errors : ndarray of shape (seeds, decays, counts)
            The same in standard errors; infinite for a crossing without sampling.
        """
        excess = self.best_lower - self.value[..., curve]
        scale = 1.0 + np.abs(self.best_lower)
        nats = np.where(excess > _ROUNDING * scale, excess, 0.0)
        noise = np.nan_to_num(self.stderr[..., curve])
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(nats > 0, nats / noise, 0.0)
        return nats, errors


def run(setting: Setting | None, job: Job) -> Section:
    """Compare bounds on log Z of graph cuts.

    Parameters
    ----------
    setting : Setting
        Not used: the figure uses points in the plane.
    job : Job
        With one seed per data set; a quick job uses fewer numbers of given points.

    Returns
    -------
    Section
    """
    from logsuper.experiments._figure1_report import make_section

    return make_section(compute(job, counts=QUICK_COUNTS if job.quick else ()))


def compute(
    job: Job,
    *,
    decays: Iterable[float] = (1.0, 3.0),
    counts: Sequence[int] = (),
    points: int = 50,
    n_samples: int = 100,
) -> Result:
    r"""Compute every bound on every conditional model.

    Model k fixes the first k points of the first cluster to 1 and the first k of the second to 0.
    The paper speaks of "at least k points on one side"; with given points, the condition keeps f
    submodular. Allowing either side adds :math:`\log 2` to log Z.

    Parameters
    ----------
    job : Job
        With one seed per data set, for `gaussian_mixture_graph` and for sampled bounds.
    decays : iterable of float, default (1.0, 3.0)
    counts : sequence of int, default 1, ..., points
        The numbers k, each from 0 to `points`.
    points : int, default 50
        Number of points per cluster.
    n_samples : int, default 100
        Number of samples per sampled bound.

    Returns
    -------
    Result

    Examples
    --------
    >>> from logsuper.experiments import Job, figure1
    >>> result = figure1.compute(Job((0, 1)), decays=[1.0], counts=[1, 4], points=4)
    >>> result.value.shape == (2, 1, 2, len(figure1.CURVES))
    True
    >>> lfield, exact = result.mean[0, 0, 0], result.mean[0, 0, -1]
    >>> bool(lfield > exact)
    True
    """
    points = check_integer(points, "points", 1, 2**31)
    samples = check_integer(n_samples, "n_samples", 2, 2**31)
    rates = check_list(decays, "decays", check_number)
    given = check_list(counts or range(1, points + 1), "counts", check_natural)
    for i, decay in enumerate(rates):
        if decay < 0:
            raise ValueError(f"decays[{i}] = {decay:g} is negative")
    for i, count in enumerate(given):
        if count > points:
            raise ValueError(f"counts[{i}] = {count}, but a cluster has only {points} points")
    fixed: dict[str, Any] = {"counts": given, "points": points, "samples": samples}
    depends = {**fixed, "curves": [(c.key, dict(c.options), c.largest) for c in CURVES]}
    axes = {"seed": job.seeds, "decay": rates}
    numbers = job.grid("figure1", _models, axes, (len(given), len(CURVES), 4), depends, **fixed)
    return Result(job.seeds, rates, given, points, samples, *np.moveaxis(numbers, -1, 0))


def _models(
    seed: int, decay: float, counts: Sequence[int], points: int, samples: int
) -> FloatArray:
    """Return value, error, seconds and solves of each curve for the models of a graph."""
    graph = gaussian_mixture_graph(points, decay, seed=seed)
    return np.array([_model(graph, seed, count, samples) for count in counts])


def _model(graph: Any, seed: int, count: int, samples: int) -> FloatArray:
    """Return the numbers of one conditional model, shape (curves, 4)."""
    points = len(graph.labels) // 2
    given = [*range(count), *range(points, points + count)]
    model = LogSupermodular(graph.cut).condition({i: int(graph.labels[i]) for i in given})
    # the first call imports the methods; make one before the clock starts
    LogSupermodular(Modular([0.0])).log_partition("lfield")
    rows = np.full((len(CURVES), 4), np.nan)
    for row, curve in zip(rows, CURVES, strict=True):
        start = time.perf_counter()
        bound = curve.bound(model, samples, [seed, count])
        seconds = time.perf_counter() - start
        if bound is not None:
            stderr = np.nan if bound.stderr is None else bound.stderr
            row[:] = bound.value, stderr, seconds, bound.solves
    return rows
