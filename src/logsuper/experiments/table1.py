"""Table 1 of the paper: noisy silhouettes denoised by what was learned from clean ones.

Section 5.1 of Shpakova and Bach (2016). The paper's three columns, then what else this library can
learn from the same pairs of images, and what anyone would try without it.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence

import numpy as np

from logsuper._base import FloatArray
from logsuper.experiments._parts import Part, Progress, run_parts
from logsuper.experiments._section import Section
from logsuper.experiments._setting import NOISES, Setting, check_seeds
from logsuper.experiments._table1_columns import FITS, Pair, pairs, select, work
from logsuper.experiments._table1_report import Outcome, make_section

__all__ = ["Plan", "make_plan", "run", "run_plan"]


_PATHS = {
    "plain": pairs((100.0, 30.0, 10.0, 3.0, 1.0), (0.3, 0.1, 0.03, 0.01)),
    "svm": pairs((0.3, 0.1, 0.03, 0.01, 0.003), (1.0, 0.3, 0.1, 0.03)),
}
_QUICK_PATHS = {
    "plain": pairs((30.0, 3.0), (0.1, 0.03)),
    "svm": pairs((0.1, 0.01), (0.3, 0.1)),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much is done.

    Attributes
    ----------
    seeds : tuple of int
        Of the noise. Regularisers are selected, and slow fits are done, with the first.
    noises : tuple of float
    fits : tuple of str
    paths : mapping
        By fit: the weights of the regularisers of alpha and of t that are tried, in nats an image.
    folds : int
        Of the cross-validation that selects among them.
    pixels : int
        On which trees are grown.
    """

    seeds: tuple[int, ...]
    noises: tuple[float, ...] = NOISES
    fits: tuple[str, ...] = tuple(FITS)
    paths: Mapping[str, list[Pair]] = dataclasses.field(default_factory=lambda: dict(_PATHS))
    folds: int = 5
    pixels: int = 150_000

    def arguments(self) -> dict[str, object]:
        """Return what the numbers of a part depend on besides its name."""
        return {
            "experiment": "table1",
            "selected with": self.seeds[0],
            "paths": self.paths,
            "folds": self.folds,
            "pixels": self.pixels,
        }


def make_plan(seeds: Sequence[int], quick: bool = False) -> Plan:
    """Return the whole plan, or a small one: two noise levels and no slow fit."""
    kept = check_seeds(seeds)
    if not quick:
        return Plan(kept)
    return Plan(
        kept,
        noises=(0.1, 0.2),
        fits=tuple(key for key, fit in FITS.items() if not fit.once),
        paths=_QUICK_PATHS,
        folds=2,
        pixels=30_000,
    )


def run(
    setting: Setting,
    *,
    seeds: Sequence[int],
    quick: bool = False,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Section:
    """Measure the errors of all columns on the test images.

    Parameters
    ----------
    setting : Setting
    seeds : sequence of int
        Of the noise, on training and test images; the split stays.
    quick : bool, default False
        A look in half a minute for a seed: 10 % and 20 % noise, no exact likelihood.
    partial : path, optional
        A folder for finished parts, which are not done again.
    progress : callable, optional
        Called with the number of finished parts and of all.
    n_jobs : int
        Processes; the numbers do not depend on it.

    Returns
    -------
    Section

    Examples
    --------
    >>> from logsuper.experiments import table1
    >>> from logsuper.experiments._setting import load_setting
    >>> setting = load_setting(train=8, test=4, shape=(16, 16))
    >>> section = table1.run(setting, seeds=[0], quick=True)
    >>> [grid.name for grid in section.grids]
    ['table1', 'table1_methods', 'table1_selection', 'table1_seconds']
    """
    return run_plan(
        setting, make_plan(seeds, quick), partial=partial, progress=progress, n_jobs=n_jobs
    )


def run_plan(
    setting: Setting,
    plan: Plan,
    *,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Section:
    """Run a plan: the selection with what does not need its outcome, then the rest."""
    start = time.perf_counter()
    depends = {**setting.arguments(), **plan.arguments()}
    selections = {
        (fit, noise): _selection(setting, plan, fit, noise)
        for fit in plan.fits
        if FITS[fit].search is not None
        for noise in plan.noises
    }
    # slow parts first, so that no process is left alone with one at the end
    free = [
        _part(setting, plan, fit, noise, seed)
        for fit in sorted(reversed(plan.fits), key=lambda fit: not FITS[fit].once)
        for noise, seed in _cells(plan, fit)
        if FITS[fit].search is None
    ]
    total = len(selections) + sum(len(_cells(plan, fit)) for fit in plan.fits)

    def show(done: int, _: int) -> None:
        if progress is not None:
            progress(len(found) + done, total)

    def do(parts: Sequence[Part]) -> Mapping[str, FloatArray]:
        return run_parts(parts, depends, partial=partial, progress=show, n_jobs=n_jobs)

    found: dict[str, FloatArray] = {}
    found |= do([*selections.values(), *free])
    chosen = {
        (fit, noise): plan.paths[fit][int(np.argmin(found[part.name][:-1]))]
        for (fit, noise), part in selections.items()
    }
    found |= do(
        [
            _part(setting, plan, fit, noise, seed, chosen[fit, noise])
            for fit in plan.fits
            for noise, seed in _cells(plan, fit)
            if FITS[fit].search is not None
        ]
    )
    numbers = {
        fit: {cell: found[_name(fit, *cell)] for cell in _cells(plan, fit)} for fit in plan.fits
    }
    outcome = Outcome(
        setting=setting,
        seeds=plan.seeds,
        noises=plan.noises,
        folds=plan.folds,
        pixels=min(plan.pixels, setting.train * setting.masks.images[0].size),
        paths=plan.paths,
        selections={cell: found[part.name] for cell, part in selections.items()},
        numbers=numbers,
    )
    return make_section(outcome, time.perf_counter() - start)


# ------------------------------------------------------------------------------------------ inside


def _cells(plan: Plan, fit: str) -> list[tuple[float, int]]:
    """Return the noise levels and seeds of a fit, high noise first: it takes longer."""
    seeds = plan.seeds[:1] if FITS[fit].once else plan.seeds
    return [(noise, seed) for noise in sorted(plan.noises, reverse=True) for seed in seeds]


def _name(fit: str, noise: float, seed: int) -> str:
    return f"table1-{fit}-{noise:.2f}-{seed}"


def _part(
    setting: Setting, plan: Plan, fit: str, noise: float, seed: int, pair: Pair | None = None
) -> Part:
    arguments = {
        "setting": setting,
        "fit": fit,
        "noise": noise,
        "seed": seed,
        "pair": pair,
        "pixels": plan.pixels,
    }
    return Part(_name(fit, noise, seed), work, arguments, FITS[fit].size)


def _selection(setting: Setting, plan: Plan, fit: str, noise: float) -> Part:
    arguments = {
        "setting": setting,
        "fit": fit,
        "noise": noise,
        "seed": plan.seeds[0],
        "path": plan.paths[fit],
        "folds": plan.folds,
    }
    name = _name(f"{fit}-selection", noise, plan.seeds[0])
    return Part(name, select, arguments, len(plan.paths[fit]) + 1)
