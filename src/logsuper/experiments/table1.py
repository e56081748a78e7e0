"""Table 1 of the paper: supervised denoising of silhouettes.

Section 5.1 of Shpakova and Bach (2016). The table has the paper's three columns, other models of
this library learned from the same pairs of images, and baselines without such a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from logsuper._base import FloatArray
from logsuper.experiments._job import Job, Part
from logsuper.experiments._quality import verdict
from logsuper.experiments._setting import NOISES, Setting, at, percent, spread_note
from logsuper.experiments._table1_fits import FITS, FOLDS, Pair, select, work
from logsuper.learning import SAMPLES
from logsuper.report import Section, Table, Words, least

__all__ = ["PAPER", "Plan", "Result", "compute", "make_plan", "probabilities", "run"]

PAPER = {"map": (0.4, 1.1, 2.1, 4.2), "mean": (0.4, 1.1, 2.0, 4.1), "svm": (0.6, 1.5, 2.8, 6.0)}
"""Percentage of wrong pixels printed in the paper, by column, at the noise levels `NOISES`."""

# What was wanted of fields on trees before this was measured, at `NOISES`: the largest mean
# difference of a column from boosted trees in points, and the largest error in percent.
_AHEAD = {
    "field_mean": (0.02,) * 4,
    "field_svm": (None,) * 4,
    "field_chosen": (0.0,) * 4,
    "field_default": (None,) * 4,
}
_GOAL = (None, None, 1.37, 3.15)


def _pairs(alphas: tuple[float, ...], modulars: tuple[float, ...]) -> list[Pair]:
    """Return all pairs as a path, strongest first, in which successive pairs are close."""
    ways = (modulars, modulars[::-1])
    return [(alpha, t) for i, alpha in enumerate(alphas) for t in ways[i % 2]]


_PATHS = {
    "plain": _pairs((100.0, 30.0, 10.0, 3.0, 1.0), (0.3, 0.1, 0.03, 0.01)),
    "svm": _pairs((0.3, 0.1, 0.03, 0.01, 0.003), (1.0, 0.3, 0.1, 0.03)),
}
_QUICK_PATHS = {
    "plain": _pairs((30.0, 3.0), (0.1, 0.03)),
    "svm": _pairs((0.1, 0.01), (0.3, 0.1)),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """The size of the experiment.

    Attributes
    ----------
    noises : tuple of float
    fits : tuple of str
    paths : mapping
        For each fit, the candidate weights of the regularisers of alpha and of t, in nats per
        image.
    folds : int
        Number of folds of the cross-validation that selects among them.
    pixels : int
        Number of training pixels of the trees.
    """

    noises: tuple[float, ...] = NOISES
    fits: tuple[str, ...] = tuple(FITS)
    paths: Mapping[str, list[Pair]] = dataclasses.field(default_factory=lambda: dict(_PATHS))
    folds: int = 5
    pixels: int = 150_000


def make_plan(quick: bool = False) -> Plan:
    """Return the full plan, or a quick one: two noise levels and no slow fit."""
    if not quick:
        return Plan()
    fits = tuple(key for key, fit in FITS.items() if not fit.once and fit.group != "trees")
    return Plan((0.1, 0.2), fits, _QUICK_PATHS, folds=2, pixels=30_000)


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """All numbers of the table.

    Attributes
    ----------
    setting : Setting
    plan : Plan
    seeds : tuple of int
    selections : mapping
        For each fit, the cross-validation error of each pair of regularisers, and seconds, shape
        (noises, pairs + 1).
    numbers : mapping
        For each fit, what `work` returns, shape (noises, seeds, numbers); slow fits have the first
        seed only.
    """

    setting: Setting
    plan: Plan
    seeds: tuple[int, ...]
    selections: Mapping[str, FloatArray]
    numbers: Mapping[str, FloatArray]

    @property
    def columns(self) -> dict[str, str]:
        """The columns that were computed, and their names in tables."""
        return {key: label for fit in self.numbers for key, label in FITS[fit].columns.items()}

    def errors(self, column: str) -> FloatArray:
        """Return the errors of a column (%), of shape (noises, seeds)."""
        fit = next(fit for fit in self.numbers if column in FITS[fit].columns)
        return self.numbers[fit][..., list(FITS[fit].columns).index(column)]

    def mean(self, column: str) -> FloatArray:
        """Return the mean errors of a column (%), of shape (noises,)."""
        return np.asarray(self.errors(column).mean(axis=1))

    def paper(self, column: str) -> FloatArray:
        """Return the paper's numbers at these noise levels."""
        return np.array([PAPER[column][NOISES.index(noise)] for noise in self.plan.noises])

    def seconds(self, fit: str) -> FloatArray:
        """Return the mean seconds of a fit with its decoding, of shape (noises,)."""
        return np.asarray(self.numbers[fit][..., len(FITS[fit].columns)].mean(axis=1))

    def detail(self, fit: str, name: str) -> FloatArray:
        """Return the mean of a learned number, of shape (noises,)."""
        place = len(FITS[fit].columns) + 4 + FITS[fit].details.index(name)
        return np.asarray(self.numbers[fit][..., place].mean(axis=1))

    def chosen(self, fit: str) -> FloatArray:
        """Return the regularisers with the least error in cross-validation, shape (noises, 2)."""
        best = self.selections[fit][:, :-1].argmin(axis=1)
        return np.asarray(np.array(self.plan.paths[fit])[best])

    def at_the_edge(self, fit: str) -> FloatArray:
        """Return at which noise levels a selected regulariser is at an edge of its candidates."""
        tried, chosen = np.array(self.plan.paths[fit]), self.chosen(fit)
        edge = (chosen == tried.min(axis=0)) | (chosen == tried.max(axis=0))
        return np.asarray(edge.any(axis=1))

    @property
    def converged(self) -> FloatArray:
        """Whether each fit has converged, 1 or 0."""
        flags = [x[..., len(FITS[fit].columns) + 1].ravel() for fit, x in self.numbers.items()]
        return np.concatenate(flags)


def run(setting: Setting, job: Job) -> Section:
    """Measure the errors of all columns on the test images.

    Parameters
    ----------
    setting : Setting
    job : Job
        Its seeds are those of the noise on training and test images; the split is fixed. A quick
        job takes half a minute per seed: 10 % and 20 % noise, no exact likelihood, and no field on
        trees.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import Job, load_setting, table1
    >>> setting = load_setting(train=8, test=4, shape=(16, 16))
    >>> section = table1.run(setting, Job(quick=True))
    >>> [table.name for table in section.tables]
    ['table1', 'table1_methods', 'table1_selection', 'table1_seconds']
    """
    return make_section(compute(setting, make_plan(job.quick), job))


def probabilities(setting: Setting, job: Job, fit: str) -> FloatArray:
    """Return log loss and calibration error (%) of a fit, shape (2, noises, seeds).

    A run that stores its parts does not fit again what `compute` has fitted with the same job.
    """
    plan = dataclasses.replace(make_plan(job.quick), fits=(fit,))
    place = len(FITS[fit].columns) + 2
    return np.moveaxis(compute(setting, plan, job).numbers[fit][..., place : place + 2], -1, 0)


def compute(setting: Setting, plan: Plan, job: Job) -> Result:
    """Run a plan: the selection and all fits that do not depend on it, then the other fits."""
    first, noises, found = job.seeds[0], plan.noises, dict[str, FloatArray]()
    depends = {"selected with": first, "paths": plan.paths, "folds": plan.folds}
    depends |= {"pixels": plan.pixels, **setting.arguments()}
    seeds = {fit: job.seeds[:1] if FITS[fit].once else job.seeds for fit in plan.fits}
    searched = [fit for fit in plan.fits if FITS[fit].search is not None]
    total = len(noises) * (len(searched) + sum(map(len, seeds.values())))

    def do(parts: Sequence[Part]) -> None:
        def show(done: int, _: int) -> None:
            if job.progress is not None:
                job.progress(len(found) + done, total)

        found.update(dataclasses.replace(job, progress=show).do(parts, depends))

    def part(fit: str, noise: float, seed: int, pair: Pair | None = None) -> Part:
        given = {"fit": fit, "noise": noise, "seed": seed, "pair": pair, "pixels": plan.pixels}
        name, shape = f"table1-{fit}-{noise}-{seed}", (FITS[fit].size,)
        return Part(name, work, {"setting": setting, **given}, shape)

    def selection(fit: str, noise: float) -> Part:
        given = {"fit": fit, "noise": noise, "seed": first, "folds": plan.folds}
        name, shape = f"table1-{fit}-selection-{noise}-{first}", (len(plan.paths[fit]) + 1,)
        return Part(name, select, {"setting": setting, "path": plan.paths[fit], **given}, shape)

    # slow parts first, for even use of processes; high noise takes longer
    loud = sorted(noises, reverse=True)
    free = sorted(plan.fits[::-1], key=lambda fit: not FITS[fit].once)
    selections = {fit: [selection(fit, noise) for noise in noises] for fit in searched}
    others = [
        part(fit, noise, seed)
        for fit in free
        if fit not in searched
        for noise in loud
        for seed in seeds[fit]
    ]
    do([*(one for parts in selections.values() for one in parts), *others])
    errors = {fit: np.array([found[one.name] for one in selections[fit]]) for fit in searched}
    pairs = {
        (fit, noise): plan.paths[fit][int(errors[fit][i, :-1].argmin())]
        for fit in searched
        for i, noise in enumerate(noises)
    }
    do([part(*cell, seed, pairs[cell]) for cell in pairs for seed in seeds[cell[0]]])
    numbers = {
        fit: np.array([[found[part(fit, n, seed).name] for seed in seeds[fit]] for n in noises])
        for fit in plan.fits
    }
    return Result(setting, plan, job.seeds, errors, numbers)


# ------------------------------------------------------------------------------------- the section

_NAMES = {"map": "MAP", "mean": "mean", "svm": "SVM-Struct"}


def make_section(result: Result) -> Section:
    """Return the section of the report."""
    said = Words("logsuper.experiments", "table1", result=result, **_findings(result))
    goals = [_goals(result, said)] if "field" in result.numbers else []
    tables = (_paper(result, said), _all(result, said), *goals, *_fits(result, said))
    return said.section("table1", tables=tables, seeds=result.seeds)


# ------------------------------------------------------------------------------------------ tables


def _paper(result: Result, said: Words) -> Table:
    """Return the paper's columns, next to its numbers if the images are the same."""
    compared = not result.setting.shipped
    kept = slice(None) if compared else slice(1, 2)
    head, means = ["noise"], np.array([result.mean(key) for key in PAPER])
    shown: list[list[Any]] = [[percent(noise)] for noise in result.plan.noises]
    data: list[list[Any]] = [[noise] for noise in result.plan.noises]
    for key, name in _NAMES.items():
        head += [f"{name}, paper", f"{name}, ours", "difference"][kept]
        columns = zip(result.paper(key), result.errors(key), result.mean(key), strict=True)
        for i, (paper, errors, mean) in enumerate(columns):
            shown[i] += [f"{paper:.1f}", errors, f"{mean - paper:+.2f}"][kept]
            data[i] += [paper, mean, mean - paper][kept]
    width = 3 if compared else 1
    best = frozenset((i, 1 + width // 2 + width * k) for i, k in enumerate(means.argmin(axis=0)))
    quoted = frozenset((i, 1 + 3 * k) for i in range(len(shown)) for k in range(3) if compared)
    return said.table("table1", head, shown, data=[head, *data], best=best, quoted=quoted)


def _all(result: Result, said: Words) -> Table:
    """Return all columns, shown as rows since there are many."""
    data: list[tuple[Any, ...]] = [("method", "group", "noise", "seed", "error")]
    for fit in result.numbers:
        for key in FITS[fit].columns:
            for (n, s), error in np.ndenumerate(result.errors(key)):
                noise, seed = result.plan.noises[n], result.seeds[s]
                data.append((key, FITS[fit].group, noise, seed, error))
    head = ["method", *_noises(result)]
    rows = [(label, *result.errors(key)) for key, label in result.columns.items()]
    best = least(np.array([result.mean(key) for key in result.columns]))
    return said.table("table1_methods", head, rows, data=data, best=best)


def _goals(result: Result, said: Words) -> Table:
    """Return paired differences from boosted trees, and whether they are what was wanted."""
    wanted, noises, rows = not result.setting.shipped, result.plan.noises, list[tuple[str, ...]]()
    for key, limits in _AHEAD.items():
        gap = result.errors(key) - result.errors("boosting")
        cells = verdict(gap, limits if wanted else (None,) * 4, noises)
        rows.append((f"{result.columns[key]}, less boosted trees", *cells))
    if wanted:
        cells = verdict(result.errors("field_chosen"), _GOAL, noises)
        rows.append((f"{result.columns['field_chosen']}, error", *cells))
    return said.table("table1_goals", ["number", *_noises(result)], rows)


def _fits(result: Result, said: Words) -> Iterable[Table]:
    """Yield tables of the selected regularisers and learned numbers, and of the seconds."""
    rows: list[tuple[Any, ...]] = []
    times: list[tuple[Any, ...]] = []
    data: list[tuple[Any, ...]] = [("fit", "noise", "alpha", "modular", "error")]
    for fit, errors in result.selections.items():
        title, kinds = FITS[fit].title, "alpha and w" if "w" in FITS[fit].details else "alpha"
        for name, weights in zip((kinds, "t"), result.chosen(fit).T, strict=True):
            rows.append((f"λ of {name}, {title}", *(f"{weight:g}" for weight in weights)))
        error = errors[:, :-1].min(axis=1)
        rows.append((f"error in cross-validation, {title}", *(f"{x:.2f} %" for x in error)))
        times.append((f"selection of λ, {title}", *errors[:, -1]))
        for noise, of_pairs in zip(result.plan.noises, errors, strict=True):
            pairs = zip(result.plan.paths[fit], of_pairs, strict=False)  # the last are seconds
            data += [(fit, noise, *pair, error) for pair, error in pairs]
    for fit in result.numbers:
        title = FITS[fit].title
        rows += [(f"{name}, {title}", *result.detail(fit, name)) for name in FITS[fit].details]
        times.append((title, *result.seconds(fit)))
    yield said.table("table1_selection", ["number", *_noises(result)], rows, data=data)
    head = ["fit and decoding", *_noises(result)]
    yield said.table("table1_seconds", head, times, format=".1f")


def _noises(result: Result) -> list[str]:
    return [f"{percent(noise)} noise" for noise in result.plan.noises]


# ------------------------------------------------------------------------------------------- words


def _findings(result: Result) -> dict[str, Any]:
    """Return the values for the text of the section."""
    noises, setting = result.plan.noises, result.setting
    mean = {key: result.mean(key) for key in result.columns}

    def best(columns: Iterable[str]) -> str:
        """Return the column with the least mean log-error over the noise levels."""
        return min(columns, key=lambda key: float(np.log(np.maximum(mean[key], 1e-9)).sum()))

    def columns(*groups: str) -> list[str]:
        """Return the columns of fits in these groups that were run for all seeds."""
        fits = (FITS[fit] for fit in result.numbers if not FITS[fit].once)
        return [key for fit in fits if fit.group in groups for key in fit.columns]

    def below(column: str, *others: str) -> str:
        """Return a phrase with the noise levels at which a column has a lower error than others."""
        return at(mean[column] < np.min([mean[key] for key in others], axis=0), noises)

    excess = np.array([mean[key] - result.paper(key) for key in ("map", "mean")])
    key, n = np.unravel_index(excess.argmax(), excess.shape)
    ours, base = best(columns("paper", "ours")), best(columns("baseline"))
    printed = np.min([result.paper(key) for key in PAPER], axis=0)
    above = mean["svm"] > np.maximum(mean["map"], mean["mean"])
    return {
        "at": lambda found: at(found, noises),
        "below": below,
        "mean": mean,
        "labels": result.columns,
        "compared": not setting.shipped,
        "excess": excess,
        "most": f"{('MAP', 'mean')[key]}, {percent(noises[n])}",
        "ours": ours,
        "levels": 100.0 * np.array(noises),
        "printed": printed,
        "above": above,
        "base": base,
        "others": [
            key for key in columns("baseline") if key != base and (mean[key] < mean[ours]).any()
        ],
        "spread": spread_note(result.seeds),
        "pixels": min(result.plan.pixels, setting.train * setting.masks.images[0].size),
        "samples": SAMPLES,
        "tree_folds": FOLDS,
        "fits": [FITS[fit] for fit in result.numbers],
        "edges": [
            f"{FITS[fit].title} at {percent(noise)}"
            for fit in result.selections
            for noise, edge in zip(noises, result.at_the_edge(fit), strict=True)
            if edge
        ],
    }
