r"""Figure 1 of the paper: bounds on log Z of a graph cut, given an increasing number of labels.

Section 3.3 of Shpakova and Bach (2016), in the setting of Djolonga and Krause (2014): two clusters
of 50 points in the plane, a complete graph with weights :math:`e^{-c\|x-y\|}`, its cut function f,
and the distribution :math:`p(x)\propto e^{-f(x)}` conditioned on k points of the first cluster
being 1 and k points of the second being 0. More bounds are compared than in the paper.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from logsuper._base import FloatArray, check_integer, check_natural, check_number
from logsuper.bounds import Bound
from logsuper.datasets import gaussian_mixture_graph
from logsuper.experiments._job import Job, check_list
from logsuper.experiments._setting import Setting
from logsuper.functions import Modular
from logsuper.model import LogSupermodular
from logsuper.report import Picture, Section, Table, Words, chart

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


# ------------------------------------------------------------------------------------- the section

# The numbers k of given points that the shown tables include; the CSV files have all.
_SHOWN = (1, 5, 10, 25, 50)
# Colour (Okabe and Ito's, safe for colour-blind readers), dashes and marker; the markers alone
# distinguish the curves, also in a print in grey.
_STYLES: dict[str, tuple[str, Any, str]] = {
    "lfield": ("#000000", "-", "s"),
    "logistic_plain": ("#56b4e9", (0, (1, 1.2)), "x"),
    "logistic": ("#0072b2", "-", "o"),
    "power": ("#cc79a7", (0, (5, 1.5, 1, 1.5)), "D"),
    "trw": ("#e69f00", (0, (5, 1.5)), "^"),
    "bethe": ("#009e73", "-", "v"),
    "superdifferential": ("#d55e00", (0, (3, 1.5)), "P"),
}
# Curves drawn as points in the lower panels, where their noise exceeds the distances shown.
_NOISY = ("logistic_plain", "power")
_LINEAR = 1e-2  # nats around zero that the lower panels show on a linear scale
_LABELS = [curve.label.replace("$", "") for curve in CURVES]
_INDEX = {curve.key: i for i, curve in enumerate(CURVES)}
_EXACT = _INDEX["exact"]
_SAMPLED = {curve.key: i for i, curve in enumerate(CURVES) if curve.sampled}


def make_section(result: Result) -> Section:
    """Return the section of the report."""
    said = Words("logsuper.experiments", "figure1", result=result, **_numbers(result))
    values = [_values(result, c, said) for c in range(len(result.decays))]
    picture = Picture("figure1", draw(result), said["caption"])
    parts = {"tables": (*values, *_tables(result, said)), "pictures": (picture,)}
    return said.section("figure1", **parts, seeds=result.seeds, images=False)


def _numbers(result: Result) -> dict[str, Any]:
    """Return the numbers that are compared with the statements in section 3.3 of the paper."""
    value = {key: result.value[..., i] for key, i in _INDEX.items()}
    error = {key: np.sqrt(np.nanmean(result.stderr[..., i] ** 2)) for key, i in _SAMPLED.items()}
    return {
        "distance": {key: np.mean(value[key] - result.best_lower) for key in value},
        "excess": np.max(value["logistic"] - value["lfield"]),
        "below": np.mean(result.crossing(_INDEX["logistic_plain"])[0] > 0),
        "error": error,
        "levels": result.solves[..., _INDEX["lfield"]],
        "known": int(_known(result).sum()),
        "largest": CURVES[_EXACT].largest,
    }


def _known(result: Result) -> NDArray[np.bool_]:
    """Return which models have an exact value and at least one free element."""
    free = np.array(result.counts) < result.points
    return np.isfinite(result.value[..., _EXACT]) & free


def _values(result: Result, c: int, said: Words) -> Table:
    """Return the mean bounds for the decay with index c; the CSV of c = 0 has all numbers."""
    shown = [k for k in _SHOWN if k in result.counts] or list(result.counts)
    places = [result.counts.index(k) for k in shown]
    low, high = result.band()
    radius = (high - low) / 2
    several = len(result.seeds) > 1
    rows = []
    for i, curve in enumerate(CURVES):
        mean = result.mean[c, places, i]
        if np.isfinite(mean).any():
            cells = zip(mean, radius[c, places, i], strict=True) if several else mean
            rows.append([_LABELS[i], curve.side, *cells])
    title = f"Bounds on log Z in nats, c = {result.decays[c]:g}"
    head = ["bound", "side", *(f"k = {k}" for k in shown)]
    name = f"figure1_c{result.decays[c]:g}" if c else "figure1"
    return Table(title, head, rows, said["values"], name, data=() if c else list(_full(result)))


def _full(result: Result) -> Iterator[tuple[Any, ...]]:
    """Yield one row per decay, k and curve, the head first; unknown numbers are NaN.

    `mean`, `low` and `high` are the mean over the data sets and its 95 % interval, `stderr` the
    root mean square of the standard errors of single estimates, `seconds` and `solves` means.
    """
    numbers = ("mean", "low", "high", "stderr", "seconds", "solves")
    yield "decay", "k", "method", "side", *numbers
    error = np.sqrt((result.stderr**2).mean(axis=0))
    means = result.seconds.mean(axis=0), result.solves.mean(axis=0)
    found = np.stack([result.mean, *result.band(), error, *means], axis=-1)
    for c, k, i in np.argwhere(np.isfinite(result.mean)):
        key, side = CURVES[i].key, CURVES[i].side
        yield result.decays[c], result.counts[k], key, side, *found[c, k, i]


def _tables(result: Result, said: Words) -> Iterator[Table]:
    """Yield tables of the crossings of bounds, of their errors and of their cost."""
    rows: list[list[Any]] = []
    for i, curve in enumerate(CURVES):
        if curve.side != "lower":
            nats, errors = result.crossing(i)
            models, crossed = int(np.isfinite(result.value[..., i]).sum()), int((nats > 0).sum())
            most = f"{errors.max():.1f}" if curve.sampled else ""
            rows.append([_LABELS[i], models, crossed, nats.max(), most])
    head = ["bound", "models", "crossings", "largest (nats)", "largest (standard errors)"]
    yield said.table("figure1_order", head, rows, format=".3g")
    known = _known(result)
    if known.any():
        error = (result.value - result.value[..., [_EXACT]])[known]
        three = np.stack([error.min(axis=0), error.mean(axis=0), error.max(axis=0)], axis=-1)
        rows = [[_LABELS[i], *three[i]] for i in range(len(CURVES)) if i != _EXACT]
        head = ["bound", "least (nats)", "mean (nats)", "largest (nats)"]
        yield said.table("figure1_exact", head, rows, format=".3g")
    free = np.array(result.counts) < result.points
    cost = np.stack([1e3 * result.seconds[:, :, free], result.solves[:, :, free]], axis=-1)
    rows = []
    for i, label in enumerate(_LABELS):
        done = np.isfinite(cost[..., i, 0])
        if done.any():
            rows.append([label, *cost[..., i, :][done].mean(axis=0)])
    yield said.table("figure1_cost", ["bound", "milliseconds", "solves"], rows, format=".1f")


def draw(result: Result) -> bytes:
    """Return the picture: per decay, the bounds and their distances above the best lower bound."""
    distances = result.value - result.best_lower[..., None]
    order = np.argsort(result.counts)
    counts = np.array(result.counts)[order]
    # markers are spaced out, and at different k per curve so that they do not hide each other
    every = max(1, len(counts) // 8)

    def curve(axis: Any, values: FloatArray, key: str, place: int, dots: bool = False) -> None:
        """Draw the mean of one curve, values (seeds, counts), with its band; or only dots."""
        colour, dashes, marker = _STYLES[key]
        line = {
            "linestyle": dashes, "linewidth": 1.4, "markersize": 4.5,
            "markevery": (place % every, every), "label": CURVES[_INDEX[key]].label,
        }  # fmt: skip
        style = {"linestyle": "", "markersize": 2.8, "zorder": 1.5} if dots else line
        shared = {"color": colour, "marker": marker, "markerfacecolor": "white"}
        axis.plot(counts, values.mean(axis=0)[order], **shared, **style)
        if not dots:
            low, high = (end[order] for end in result.band(values))
            axis.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)

    def paint(axes: Any) -> None:
        for c, decay in enumerate(result.decays):
            above, below = axes[:, c]
            for place, key in enumerate(_STYLES):
                at = (slice(None), c, slice(None), _INDEX[key])
                curve(above, result.value[at], key, place)
                curve(below, distances[at], key, place, dots=key in _NOISY)
            above.set_title(f"c = {decay:g}")
            below.set_yscale("symlog", linthresh=_LINEAR, linscale=0.6)
            below.set_xlabel("points given in each cluster, k")
            for axis in (above, below):
                axis.axhline(0.0, color="0.6", linewidth=0.6, zorder=0)
        axes[0, 0].set_ylabel("log Z (nats)")
        axes[1, 0].set_ylabel("distance above the best lower bound (nats)")
        axes[0, 0].figure.align_ylabels(axes[:, 0])

    columns = len(result.decays)
    size = (1.0 + 4.1 * columns, 7.2)
    options: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (1.15, 1)}
    return chart.draw(paint, size, (2, columns), **options)
