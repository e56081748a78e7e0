r"""Figure 1 of the paper: bounds on log Z of a graph cut, given more and more of its labels.

Section 3.3 of Shpakova and Bach (2016), in the setting of Djolonga and Krause (2014): two clusters
of 50 points in the plane, a complete graph with weights :math:`e^{-c\|x-y\|}`, its cut function f,
and the distribution :math:`p(x)\propto e^{-f(x)}` conditioned on k points of the first cluster
being 1 and k points of the second being 0. More bounds are compared than in the paper.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student

from logsuper._base import FloatArray, check_natural, check_number
from logsuper.bounds import Bound
from logsuper.datasets import gaussian_mixture_graph
from logsuper.experiments._partial import Partial
from logsuper.functions import Modular
from logsuper.model import LogSupermodular

__all__ = ["CURVES", "Curve", "Result", "run"]

# Noise of the last digits, when bounds that are equal in theory are compared.
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
        That of `LogSupermodular.log_partition`.
    options : mapping
        For the method.
    sampled : bool
        Whether the method draws samples: it is given their number and a seed.
    largest : int or None
        Leave the curve out for models with more free elements.
    """

    key: str
    side: Literal["lower", "upper", "exact"]
    label: str
    method: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sampled: bool = False
    largest: int | None = None

    def bound(self, model: LogSupermodular, samples: int, seed: list[int]) -> Bound | None:
        """Return the bound on log Z of a model, None where it is left out."""
        if self.largest is not None and len(model.free) > self.largest:
            return None
        options = dict(self.options)
        if self.sampled and len(model.free):
            options |= {"samples": samples, "seed": np.random.default_rng(seed)}
        return model.log_partition(self.method, **options)


CURVES = (
    Curve("lfield", "upper", "L-field", "lfield"),
    Curve(
        "logistic_plain",
        "upper",
        "logistic, plain",
        "logistic",
        {"variance_reduction": "none"},
        sampled=True,
    ),
    Curve("logistic", "upper", "logistic, low variance", "logistic", sampled=True),
    Curve("power", "upper", "power $U_a$", "power", sampled=True),
    Curve("trw", "upper", "tree-reweighted", "trw"),
    Curve("bethe", "lower", "Bethe", "bethe"),
    Curve("superdifferential", "lower", "superdifferential", "superdifferential"),
    Curve("exact", "exact", "exact", "exact", largest=16),
)
"""The curves, upper bounds first; the paper has the first two and the superdifferential."""

_FIELDS = ("value", "stderr", "seconds", "solves")


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The checked arguments of a run."""

    seeds: tuple[int, ...]
    decays: tuple[float, ...]
    counts: tuple[int, ...]
    points: int
    samples: int

    def __post_init__(self) -> None:
        if self.points < 1:
            raise ValueError(f"points must be at least 1, got {self.points}")
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2, got {self.samples}")
        for i, decay in enumerate(self.decays):
            if decay < 0:
                raise ValueError(f"decays[{i}] = {decay:g} is negative")
        for i, count in enumerate(self.counts):
            if count > self.points:
                raise ValueError(
                    f"counts[{i}] = {count}, but a cluster has only {self.points} points"
                )

    @property
    def models(self) -> int:
        """Number of models of a data set."""
        return len(self.decays) * len(self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the results of a data set."""
        return len(self.decays), len(self.counts), len(CURVES), len(_FIELDS)

    def arguments(self) -> dict[str, Any]:
        """Return what the results of a data set depend on, the data set apart."""
        arguments = {key: value for key, value in vars(self).items() if key != "seeds"}
        return {**arguments, "curves": [(c.key, dict(c.options), c.largest) for c in CURVES]}


@dataclasses.dataclass(frozen=True, eq=False)
class Result(_Settings):
    """Bounds on log Z for each data set, decay, number of given pairs, and curve.

    Attributes
    ----------
    seeds : tuple of int
        One a data set.
    decays : tuple of float
        The rates c.
    counts : tuple of int
        Numbers k of points that are given in each cluster.
    points, samples : int
        Points in a cluster, and samples of an estimate.
    curves : tuple of Curve
    value, stderr, seconds, solves : ndarray of shape (seeds, decays, counts, curves)
        The bound, its standard error by sampling (NaN where nothing is sampled), how long it took,
        and how many submodular minimisations that were. All NaN where a curve is left out.
    """

    curves: tuple[Curve, ...]
    value: FloatArray
    stderr: FloatArray
    seconds: FloatArray
    solves: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean value over the data sets, shape (decays, counts, curves)."""
        return np.asarray(self.value.mean(axis=0))

    def band(self, values: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the 95 % confidence interval of a mean over data sets, Student's.

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
        lower = [i for i, curve in enumerate(self.curves) if curve.side == "lower"]
        return np.asarray(self.value[..., lower].max(axis=-1))

    def crossing(self, curve: int) -> tuple[FloatArray, FloatArray]:
        """Return by how much a bound is on the wrong side of the best one on the other side.

        Parameters
        ----------
        curve : int
            Index of an upper or exact curve: how far below the best lower bound it is.

        Returns
        -------
        nats : ndarray of shape (seeds, decays, counts)
            Zero where bounds are in order up to rounding, or the curve is left out.
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


def run(
    seeds: Iterable[int] = range(10),
    *,
    decays: Iterable[float] = (1.0, 3.0),
    counts: Iterable[int] | None = None,
    points: int = 50,
    samples: int = 100,
    partial: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    n_jobs: int | None = None,
) -> Result:
    r"""Compute every bound on every conditional model.

    Model k fixes the first k points of the first cluster to 1 and the first k of the second to 0.
    The paper speaks of "at least k points on one side"; points that are given make the event a
    condition under which f stays submodular. Allowing either side adds :math:`\log 2` to log Z.

    Parameters
    ----------
    seeds : iterable of int, default range(10)
        One a data set: the seed of `gaussian_mixture_graph`, and of the noise of sampled bounds.
    decays : iterable of float, default (1.0, 3.0)
    counts : iterable of int, default 1, ..., points
        The numbers k, each from 0 to `points`.
    points : int, default 50
        In each cluster.
    samples : int, default 100
        Of each sampled bound.
    partial : path, optional
        Folder for the results of finished data sets. Those found there under the same arguments are
        not computed again.
    progress : callable, optional
        Called with the number of models that are done, and that of all.
    n_jobs : int, optional
        Processes, as in joblib; the values do not depend on it.

    Returns
    -------
    Result

    Examples
    --------
    >>> from logsuper.experiments import figure1
    >>> result = figure1.run([0, 1], decays=[1.0], counts=[1, 4], points=4)
    >>> result.value.shape == (2, 1, 2, len(figure1.CURVES))
    True
    >>> lfield, exact = result.mean[0, 0, 0], result.mean[0, 0, -1]
    >>> bool(lfield > exact)
    True
    """
    each = check_natural(points, "points")
    settings = _Settings(
        _listed(seeds, "seeds", check_natural),
        _listed(decays, "decays", check_number),
        _listed(range(1, each + 1) if counts is None else counts, "counts", check_natural),
        each,
        check_natural(samples, "samples"),
    )
    store = None if partial is None else Partial(partial, settings.arguments())
    done = 0

    def advance(models: int) -> None:
        nonlocal done
        done += models
        if progress is not None:
            progress(done, len(settings.seeds) * settings.models)

    parts = []
    for seed in settings.seeds:
        name = f"figure1-{seed}"
        part = None if store is None else store.load(name, settings.shape)
        if part is not None:
            advance(settings.models)
        else:
            part = _data_set(settings, seed, n_jobs, advance)
            if store is not None:
                store.store(name, part)
        parts.append(part)
    fields = np.moveaxis(np.stack(parts), -1, 0)
    arrays = dict(zip(_FIELDS, fields, strict=True))
    return Result(**vars(settings), curves=CURVES, **arrays)


def _listed(
    values: Iterable[Any], name: str, check: Callable[[object, str], Any]
) -> tuple[Any, ...]:
    """Return the checked entries of a list, at least one and none twice."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of numbers, got {type(values).__name__}")
    entries = tuple(check(value, f"{name}[{i}]") for i, value in enumerate(values))
    if not entries:
        raise ValueError(f"{name} is empty; give at least one")
    if len(set(entries)) < len(entries):
        raise ValueError(f"{name} has an entry twice, got {list(entries)}")
    return entries


def _data_set(
    settings: _Settings, seed: int, n_jobs: int | None, advance: Callable[[int], None]
) -> FloatArray:
    """Return the fields of all models of a data set."""
    tasks = (
        delayed(_model)(settings, seed, decay, count)
        for decay in settings.decays
        for count in settings.counts
    )
    rows = []
    for row in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
        rows.append(row)
        advance(1)
    return np.array(rows).reshape(settings.shape)


def _model(settings: _Settings, seed: int, decay: float, count: int) -> FloatArray:
    """Return the fields of each curve, shape (curves, 4), for one conditional model."""
    graph = gaussian_mixture_graph(settings.points, decay, seed=seed)
    given = [*range(count), *range(settings.points, settings.points + count)]
    model = LogSupermodular(graph.cut).condition({i: int(graph.labels[i]) for i in given})
    # the first call loads every method, which is no part of the first one's time
    LogSupermodular(Modular([0.0])).log_partition("lfield")
    rows = np.full((len(CURVES), len(_FIELDS)), np.nan)
    for row, curve in zip(rows, CURVES, strict=True):
        start = time.perf_counter()
        bound = curve.bound(model, settings.samples, [seed, count])
        seconds = time.perf_counter() - start
        if bound is not None:
            stderr = np.nan if bound.stderr is None else bound.stderr
            row[:] = bound.value, stderr, seconds, bound.solves
    return rows
