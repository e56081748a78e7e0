"""Errors of denoised masks: `python -m benchmarks.denoising --data DIR`.

The first half of the pictures is for training, the second for testing; every seed draws new noise.
Without ``--data``, silhouettes that ship with the package replace the Weizmann horses.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.tables import show, write_page
from logsuper.report import Table

RATES = (0.01, 0.05, 0.10, 0.20)
COUNT = 200
UNKNOWN = "unsupervised, noise unknown, mean"
TEXT = (
    "Half of 200 silhouettes of 50 x 50 pixels trains, the other half tests; pixels are "
    "flipped at four rates. Mean and standard deviation over the seeds of the noise; the "
    'estimator is `MaskDenoiser` with the filter and without trees (context="filter"), and with '
    "its defaults but for what the row names. Seconds are processor time."
)

# Maximum error (%) at each noise level, for the rows that have a limit.
CEILINGS = {
    "supervised, mean": (0.24, 0.88, 1.75, 3.75),
    UNKNOWN: (0.25, 0.92, 1.85, 3.90),
    "max margin, map": (0.24, 0.85, 1.68, 3.80),
}

# Settings of the estimator per row; whether clean images, and the noise level, are given.
ROWS: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "supervised, mean": ({}, True, True),
    "supervised, map": ({"decode": "map"}, True, True),
    "supervised, no context, mean": ({"context": 0}, True, True),
    "max margin, map": ({"learner": "max_margin", "decode": "map"}, True, True),
    "pseudo-likelihood, mean": ({"learner": "pseudo"}, True, True),
    UNKNOWN: ({}, False, False),
    "unsupervised, noise unknown, no context, mean": ({"context": 0}, False, False),
    "unsupervised, noise known, mean": ({}, False, True),
}


def run(images: np.ndarray, name: str, rate: float, seed: int) -> dict[str, float]:
    """Fit on one half and return the error on the other, in percent."""
    settings, supervised, known = ROWS[name]
    noisy = ls.datasets.corrupt(images, ls.Flips(rate), seed)
    half = len(images) // 2
    model = ls.MaskDenoiser(rate if known else "auto", **{"context": "filter", **settings})
    start = time.process_time()
    model.fit(noisy[:half], images[:half] if supervised else None)
    fitted = time.process_time()
    error = 100.0 * (1.0 - model.score(noisy[half:], images[half:]))
    return {
        "error": error,
        "noise": float(model.noise_),
        "fit": fitted - start,
        "decode": time.process_time() - fitted,
    }


def cell(results: list[dict[str, float]], ceiling: float | None) -> str:
    """Return mean and standard deviation of the errors, and whether they are low enough."""
    errors = [result["error"] for result in results]
    text = f"{np.mean(errors):.2f} +- {np.std(errors):.2f}"
    return (
        text
        if ceiling is None
        else f"{text} ({'<=' if np.mean(errors) <= ceiling else 'ABOVE'} {ceiling:g})"
    )


def table(
    found: dict[tuple[str, float], list[dict[str, float]]], rows: list[str]
) -> list[list[str]]:
    """Return the cells, one line per row."""
    lines = []
    for name in rows:
        ceilings = CEILINGS.get(name, (None,) * len(RATES))
        cells = [cell(found[name, rate], c) for rate, c in zip(RATES, ceilings, strict=True)]
        every = [result for rate in RATES for result in found[name, rate]]
        seconds = [f"{np.mean([r[part] for r in every]):.2g}" for part in ("fit", "decode")]
        lines.append([name, *cells, *seconds])
    return lines


def noise_lines(found: dict[tuple[str, float], list[dict[str, float]]]) -> list[list[str]]:
    """Return, per noise level, the estimates and the largest error relative to its limit."""
    lines = []
    for rate in RATES:
        estimates = np.array([result["noise"] for result in found[UNKNOWN, rate]])
        allowed = max(0.001, 0.03 * rate)
        worst = float(np.abs(estimates - rate).max())
        verdict = "<=" if worst <= allowed else "ABOVE"
        listed = " ".join(f"{estimate:.4f}" for estimate in estimates)
        lines.append([f"{rate:.2f}", listed, f"{worst:.4f} ({verdict} {allowed:g})"])
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if an error exceeds its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.denoising", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--seeds", type=int, default=5, help="noise seeds 0 .. N-1 (default 5)")
    parser.add_argument("--rows", help="only rows whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    options = parser.parse_args(arguments)
    images = load_silhouettes(options.data, COUNT)
    rows = [name for name in ROWS if options.rows is None or options.rows in name]
    if not rows:
        parser.error(f"no row contains {options.rows!r}; there are: {'; '.join(ROWS)}")
    tasks = [(name, rate, seed) for name in rows for rate in RATES for seed in range(options.seeds)]
    results = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(run)(images, name, rate, seed) for name, rate, seed in tasks
    )
    found: dict[tuple[str, float], list[dict[str, float]]] = {}
    for (name, rate, _), result in zip(tasks, results, strict=True):
        found.setdefault((name, rate), []).append(result)
    head = ["learner, decoding", *(f"{100 * rate:g} %" for rate in RATES), "fit, s", "decode, s"]
    lines = table(found, rows)
    tables = [Table("Error on test images, percent of the pixels", head, lines)]
    if UNKNOWN in rows:
        columns = ["true", "estimates, one per seed", "worst distance"]
        title = "Rate of the noise, from noisy images alone"
        tables.append(Table(title, columns, noise_lines(found)))
    show(tables)
    if options.markdown:
        given = sys.argv[1:] if arguments is None else arguments
        write_page(options.markdown, "Denoising", "benchmarks.denoising", given, TEXT, tables)
    missed = any("ABOVE" in item for table in tables for line in table.rows for item in line)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
