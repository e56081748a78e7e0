"""What `MaskDenoiser` does by default, cross-validated: `python -m benchmarks.defaults --data DIR`.

One default is changed at a time, without and with clean images, on the half of the silhouettes that
trains elsewhere; the half that tests is not looked at. All rows but one have the filter alone: what
trees are by default is in `benchmarks.blind_spot --choices`, and from how many images on they are
the default in `benchmarks.trees_by_size`. Without ``--data``, silhouettes that ship with the
package replace the Weizmann horses.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from benchmarks.blind_spot import DEFAULT, FOLDS, PARTS, Result, denoise, measure, tabulate
from benchmarks.denoising import COUNT, RATES
from benchmarks.images import load_silhouettes
from benchmarks.tables import show, write_page
from logsuper.learning import LEARNERS
from logsuper.report import Table

KINDS = ("alpha", "modular", "filter", "scale")
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "the modular term shared": {"modular": "shared"},
    "no modular term": {"modular": "none"},
    "8 neighbours": {"neighbors": 8},
    "couplings by position": {"neighbors": "position"},
    "trees beside the filter": {"context": "trees"},
    "no filter": {"context": 0},
    "a filter of radius 1": {"context": 1},
    "a filter of radius 3": {"context": 3},
    "observations not scaled": {"scale": False},
    "the most probable mask": {"decode": "map"},
    "exact probabilities": {"marginals": "exact"},
    "256 perturbations": {"n_samples": 256},
    **{f"penalty of {kind} x {x:g}": {"penalty": (kind, x)} for kind in KINDS for x in (0.1, 10.0)},
}
OTHER_LEARNERS = {False: ("moments",), True: ("max_margin", "pseudo", "saa")}
"""Beside the default, without and with clean images."""
TEXT = (
    "; pixels are flipped at random, at a rate that is not told. One default of `MaskDenoiser` is "
    "changed at a time; all rows but that of trees have the filter alone. Mean and standard "
    "deviation over the seeds of the noise and over folds; seconds are processor time."
)


def vary(labelled: bool, name: str) -> Callable[..., tuple[Any, Any]]:
    """Return what fits a denoiser with one thing changed."""
    if name in LEARNERS:
        return denoise(context="filter", learner=name, labelled=labelled)
    settings = SETTINGS[name]
    if "penalty" not in settings:
        return denoise(**{"context": "filter", **settings}, labelled=labelled)
    learner = LEARNERS["logistic" if labelled else "resample"]
    usual = {
        "alpha": learner.alpha,
        "modular": learner.modular,
        "filter": learner.beta,
        "scale": learner.alpha,
    }
    one, factor = settings["penalty"]

    def run(train: Any, *others: Any) -> tuple[Any, Any]:
        weights = {kind: x * (factor if kind == one else 1.0) for kind, x in usual.items()}
        penalty = {kind: x / len(train) for kind, x in weights.items()}
        return denoise(context="filter", penalty=penalty, labelled=labelled)(train, *others)

    return run


def run(
    labelled: bool, name: str, images: np.ndarray, rate: float, seed: int, held: np.ndarray
) -> Result:
    """Measure one row."""
    return measure(vary(labelled, name), images, rate, seed, held)


def compare(images: np.ndarray, labelled: bool, rates: Any, seeds: int, jobs: int) -> list[Table]:
    """Return the tables without or with clean images."""
    rows = [*SETTINGS, *OTHER_LEARNERS[labelled]]
    splits = [np.arange(len(images)) % FOLDS == fold for fold in range(FOLDS)]
    tasks = [
        (name, rate, seed, held)
        for name in rows
        for rate in rates
        for seed in range(seeds)
        for held in splits
    ]
    # processes find the function by the name of its module, which is not __main__
    each = importlib.import_module("benchmarks.defaults").run
    results = joblib.Parallel(n_jobs=jobs)(
        joblib.delayed(each)(labelled, name, images, *task) for name, *task in tasks
    )
    found: dict[tuple[str, float], list[Result]] = {}
    for (name, rate, *_), result in zip(tasks, results, strict=True):
        found.setdefault((name, rate), []).append(result)
    words = f"learned {'from noisy and clean images' if labelled else 'from noisy images alone'}"
    return [
        dataclasses.replace(table, title=f"{table.title}: {words}")
        for table in tabulate(found, rows, rates, f"{words}, but for")
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--seeds", type=int, default=2, help="noise seeds 0 .. N-1 (default 2)")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, choices=RATES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    options = parser.parse_args(arguments)
    images = load_silhouettes(options.data, COUNT)
    images = images[: len(images) // 2]
    tables = []
    for labelled in (False, True):
        found = compare(images, labelled, options.rates, options.seeds, options.jobs)
        show(found)
        tables += found
    if options.markdown:
        given = sys.argv[1:] if arguments is None else arguments
        title = "What denoisers do by default"
        write_page(options.markdown, title, "benchmarks.defaults", given, PARTS + TEXT, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
