"""Denoising by blind-spot trees and a field: `python -m benchmarks.blind_spot --data DIR`.

Half of the pictures trains, the other half tests, as in the other benchmarks; with ``--cv`` only
the training half is used, in three folds, which is what defaults were chosen by. ``--choices`` does
so for what the trees' defaults are, one changed at a time. Every row is learned from the same noisy
images, without clean ones and without knowing their noise, unless it says otherwise. Without
``--data``, silhouettes that ship with the package replace the Weizmann horses.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
from scipy.special import expit

import logsuper as ls
from benchmarks.denoising import COUNT, RATES
from benchmarks.images import load_silhouettes
from benchmarks.tables import show, write_page
from logsuper.estimators import _blind_spot, reuse_classifiers
from logsuper.experiments._baselines import boosting
from logsuper.report import Table

FOLDS = 3
BINS = 15
# Maximum number of pixels that the trees with clean images are trained on: all of them here.
PIXELS = 250_000
TREES = "trees with clean images, no field"
OURS = "field on trees and filter, by moments"
WANTED = {OURS: (0.19, 0.72, 1.47, 3.35)}
"""Maximum error (%) at each noise level."""
HALVES = "Half of 200 silhouettes of 50 x 50 pixels trains, the other half tests"
PARTS = (
    "Three-fold cross-validation on the half of 200 silhouettes of 50 x 50 pixels that trains "
    "elsewhere; the half that tests is not looked at"
)
TEXT = (
    "; pixels are flipped at random. Mean and standard deviation over the seeds of the noise and "
    "over folds. Unless a row says otherwise it has seen neither a clean image nor the rate. "
    "Seconds are processor time; trees that an earlier row has trained cost a row nothing."
)

Result = dict[str, float]


def denoise(**settings: Any) -> Callable[..., tuple[Any, Any]]:
    """Return what fits a denoiser, and gives probabilities and masks."""
    labelled = settings.pop("labelled", False)

    def run(train: Any, clean: Any, test: Any, seed: int) -> tuple[Any, Any]:
        model = ls.MaskDenoiser(**settings).fit(train, clean if labelled else None)
        return model.predict_proba(test), model.predict(test)

    return run


def trees_alone(train: Any, clean: Any, test: Any, seed: int) -> tuple[Any, Any]:
    """Return what the blind-spot trees and the pixel itself say, without a field."""
    model = ls.MaskDenoiser(context="trees", max_iter=1).fit(train)
    odds = model.channel_.log_odds(test)
    around = model.surroundings_.judge_new()(np.arange(len(test)), odds)
    p = expit(odds + around.reshape(odds.shape))
    return p, p > 0.5


def trees_with_labels(train: Any, clean: Any, test: Any, seed: int) -> tuple[Any, Any]:
    """Return what boosted trees on 9x9 patches and position say that have seen clean images."""
    p = expit(boosting(train, clean, test, pixels=PIXELS, seed=seed))
    return p, p > 0.5


ROWS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "filter, by resampling": denoise(context="filter"),
    "filter, by moments": denoise(context="filter", learner="moments"),
    "blind-spot trees alone, channel inverted": trees_alone,
    OURS: denoise(context="trees"),
    "the same, by resampling": denoise(context="trees", learner="resample"),
    TREES: trees_with_labels,
    "field on trees and filter, with clean images, by likelihood": denoise(
        context="trees", labelled=True
    ),
    "field on trees and filter, with clean images, max margin": denoise(
        context="trees", labelled=True, learner="max_margin"
    ),
}


def vary(
    trees: dict[str, Any], constants: dict[str, Any], weight: float = 1.0, **settings: Any
) -> Any:
    """Return what fits a denoiser with other trees, constants, or weights of regularisers."""
    grow = _blind_spot.trees

    def run(train: Any, clean: Any, test: Any, seed: int) -> tuple[Any, Any]:
        changed = {**constants, "trees": lambda key: grow(key).set_params(**trees)}
        if weight != 1.0:
            usual = {"alpha": 10.0, "modular": 30.0, "filter": 30.0, "scale": 10.0}
            settings["penalty"] = {kind: weight * x / len(train) for kind, x in usual.items()}
        with mock.patch.multiple(_blind_spot, **changed):
            return denoise(context="trees", **settings)(train, clean, test, seed)

    return run


DEFAULT = "the defaults"
CHOICES: dict[str, Callable[..., tuple[Any, Any]]] = {
    DEFAULT: vary({}, {}),
    "by resampling": vary({}, {}, learner="resample"),
    "regularisers x 0.3": vary({}, {}, 0.3),
    "regularisers x 3": vary({}, {}, 3.0),
    "probabilities of trees in [.01, .99]": vary({}, {"_CERTAIN": 1e-2}),
    "probabilities of trees in [.0001, .9999]": vary({}, {"_CERTAIN": 1e-4}),
    "surroundings at two scales": vary({}, {"LEVELS": 1}),
    "60 rounds": vary({"max_iter": 60}, {}),
    "240 rounds": vary({"max_iter": 240}, {}),
    "15 leaves": vary({"max_leaf_nodes": 15}, {}),
    "63 leaves": vary({"max_leaf_nodes": 63}, {}),
    "learning rate .05": vary({"learning_rate": 0.05}, {}),
    "learning rate .2": vary({"learning_rate": 0.2}, {}),
    "50 pixels per leaf": vary({"min_samples_leaf": 50}, {}),
    "800 pixels per leaf": vary({"min_samples_leaf": 800}, {}),
    "a tenth of the features per split": vary({"max_features": 0.1}, {}),
    "all features per split": vary({"max_features": 1.0}, {}),
    "a quarter of the pixels": vary({}, {"PIXELS": 1 << 15}),
    "five folds": vary({}, {"FOLDS": 5}),
    "pixels hidden in no image": vary({}, {"_HIDDEN": 0.0}),
    "pixels hidden in all images": vary({}, {"_HIDDEN": 1.0}),
}
"""What trees are by default, and one thing changed at a time."""


def run_all(
    images: np.ndarray,
    names: list[str],
    rate: float,
    seed: int,
    held: np.ndarray,
    own: bool = False,
) -> list[Result]:
    """Run several rows on the same images; trees that they have in common are trained once."""
    with reuse_classifiers():
        return [run(images, name, rate, seed, held, own) for name in names]


def run(
    images: np.ndarray, name: str, rate: float, seed: int, held: np.ndarray, own: bool = False
) -> Result:
    """Fit to the images that are not held out, and look at the others; or at the same ones."""
    return measure({**ROWS, **CHOICES}[name], images, rate, seed, held, own)


def measure(
    learn: Callable[..., tuple[Any, Any]],
    images: np.ndarray,
    rate: float,
    seed: int,
    held: np.ndarray,
    own: bool = False,
) -> Result:
    """Return the scores of probabilities and masks of images that are held out, or are not."""
    noisy = ls.datasets.corrupt(images, ls.Flips(rate), seed)
    test = ~held if own else held
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ls.ConvergenceWarning)
        p, mask = learn(noisy[~held], images[~held], noisy[test], seed)
    y = images[test]
    # as predict_proba does, so that trees with labels have a finite log loss, too
    p = np.clip(p, 1e-4, 1.0 - 1e-4)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    off = np.bincount(bins.ravel(), (p - y).ravel(), BINS)
    return {
        "error": 100.0 * float(np.mean(mask != y)),
        "loss": -float(np.mean(np.log(np.where(y == 1, p, 1.0 - p)))),
        "calibration": 100.0 * float(np.abs(off).sum() / p.size),
        "seconds": time.process_time() - start,
        "stopped": float(any(issubclass(w.category, ls.ConvergenceWarning) for w in said)),
    }


def cell(results: list[Result], what: str, digits: int, most: float | None = None) -> str:
    """Return mean and standard deviation of a number, and whether it is small enough."""
    values = [result[what] for result in results]
    text = f"{np.mean(values):.{digits}f} +- {np.std(values):.{digits}f}"
    if most is None:
        return text
    return f"{text} ({'<=' if np.mean(values) <= most else 'ABOVE'} {most:g})"


def tabulate(
    found: dict[tuple[str, float], list[Result]],
    rows: list[str],
    rates: Sequence[float],
    first: str = "learned from noisy images alone, but for",
) -> list[Table]:
    """Return the tables of errors, log losses and calibration errors, and paired differences."""
    head = [first, *(f"{100 * r:g} %" for r in rates)]
    tables = []
    for title, what, digits in (
        ("Error, percent of the pixels", "error", 3),
        ("Log loss, nats per pixel", "loss", 4),
        ("Expected calibration error, percent", "calibration", 2),
    ):
        lines = []
        for name in rows:
            most = dict(zip(RATES, WANTED[name], strict=True)) if name in WANTED else {}
            cells = [
                cell(found[name, r], what, digits, most.get(r) if what == "error" else None)
                for r in rates
            ]
            if what == "error":
                every = [result for r in rates for result in found[name, r]]
                cells.append(f"{np.mean([result['seconds'] for result in every]):.0f}")
                cells.append(f"{np.sum([result['stopped'] for result in every]):.0f}")
            lines.append([name, *cells])
        more = ["seconds", "not converged"] if what == "error" else []
        tables.append(Table(title, [*head, *more], lines))
    base = next((name for name in (TREES, DEFAULT) if name in rows), None)
    if base is not None:
        lines = []
        for name in rows:
            gaps = [
                [
                    a["error"] - b["error"]
                    for a, b in zip(found[name, r], found[base, r], strict=True)
                ]
                for r in rates
            ]
            many = len(gaps[0]) > 1
            errors = [np.std(g, ddof=1) / np.sqrt(len(g)) if many else np.nan for g in gaps]
            cells = [f"{np.mean(g):+.3f} +- {e:.3f}" for g, e in zip(gaps, errors, strict=True)]
            lines.append([name, *cells])
        title = f"Error less that of {base}, and its standard error (paired)"
        tables.append(Table(title, head, lines))
    return tables


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if an error exceeds its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blind_spot", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--seeds", type=int, default=5, help="noise seeds 0 .. N-1 (default 5)")
    parser.add_argument("--rows", help="only rows whose name contains this")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, choices=RATES)
    parser.add_argument("--cv", action="store_true", help="cross-validate on the training half")
    parser.add_argument(
        "--choices", action="store_true", help="cross-validate what the defaults of trees are"
    )
    parser.add_argument("--own", action="store_true", help="look at the noisy training images")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    options = parser.parse_args(arguments)
    images = load_silhouettes(options.data, COUNT)
    place = np.arange(len(images))
    splits = [place >= len(images) // 2]
    if options.cv or options.choices:
        images = images[: len(images) // 2]
        splits = [np.arange(len(images)) % FOLDS == fold for fold in range(FOLDS)]
    listed = CHOICES if options.choices else ROWS
    rows = [name for name in listed if options.rows is None or options.rows in name]
    if not rows:
        parser.error(f"no row contains {options.rows!r}; there are: {'; '.join(listed)}")
    tasks = [
        (rate, seed, held)
        for rate in options.rates
        for seed in range(options.seeds)
        for held in splits
    ]
    # processes find the function by the name of its module, which is not __main__
    work = importlib.import_module("benchmarks.blind_spot").run_all
    results = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(work)(images, rows, *task, options.own) for task in tasks
    )
    found: dict[tuple[str, float], list[Result]] = {}
    for (rate, *_), each in zip(tasks, results, strict=True):
        for name, result in zip(rows, each, strict=True):
            found.setdefault((name, rate), []).append(result)
    tables = tabulate(found, rows, options.rates)
    show(tables)
    if options.markdown:
        given = sys.argv[1:] if arguments is None else arguments
        text = (PARTS if options.cv or options.choices else HALVES) + TEXT
        title = "What trees are by default" if options.choices else "Blind spots"
        write_page(options.markdown, title, "benchmarks.blind_spot", given, text, tables)
    tested = not (options.cv or options.choices or options.own)
    missed = any("ABOVE" in item for table in tables for line in table.rows for item in line)
    return int(tested and missed)


if __name__ == "__main__":
    sys.exit(main())
