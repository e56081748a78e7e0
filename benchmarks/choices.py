"""Model selection by a score without labels: `python -m benchmarks.choices`.

On each of twenty sets of noisy images, models of one grid (penalties over five decades, with and
without the filter) are learned without labels. The score hides pixels of other noisy images and
lets each model predict them. The model with the best score is compared with the best of the grid,
by their errors on clean images that were not used otherwise. The exit code is 1 if the selected
model is worse than the best by more than 5 % on average, or 20 % in one case.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.shapes import blobs, discs, ellipses, half_planes, polygons
from benchmarks.tables import show, write_page
from logsuper.report import Table

PENALTIES = (1e-3, 1e-1, 1e1, 1e3, 1e5)
CONTEXTS = (0, 2)
RATES = (0.1, 0.2)
MOST_MEAN, MOST_WORST = 1.05, 1.20
COUNT = 24


def kinds(data: Path | None) -> dict[str, np.ndarray]:
    """Return sets of clean images: one third each for learning, scoring and testing."""
    n = 3 * COUNT
    found = {
        "silhouettes, 32x32": ls.make_silhouettes(n, (32, 32), seed=1),
        "silhouettes, 50x50": ls.make_silhouettes(n, (50, 50), seed=2),
        "silhouettes, 80x80": ls.make_silhouettes(n, (80, 80), seed=3),
        "discs, 50x50": discs(n, seed=4),
        "half-planes, 50x50": half_planes(n, seed=5),
        "blobs, 60x60, scale 3": blobs(n, 6, (60, 60), 3.0),
        "blobs, 60x60, scale 8": blobs(n, 7, (60, 60), 8.0),
        "ellipses, 60x60": ellipses(n, 8, 60, 6),
        "polygons, 60x60": polygons(n, 9, 60, 7),
        "silhouettes upside down, 50x50": 1 - ls.make_silhouettes(n, (50, 50), seed=10)[:, ::-1],
    }
    if data is not None:
        found["horses, 50x50"] = load_silhouettes(data, n)
        del found["silhouettes upside down, 50x50"]
    return found


def choose(name: str, clean: np.ndarray, rate: float) -> list[str]:
    """Return a row: the selected model, its error, the best of the grid, and their ratio."""
    noisy = ls.Flips(rate).sample(clean, seed=round(1000 * rate))
    learn, score, test = (slice(k * COUNT, (k + 1) * COUNT) for k in range(3))
    scores, errors = {}, {}
    for penalty, context in itertools.product(PENALTIES, CONTEXTS):
        model = ls.MaskDenoiser(penalty=penalty / COUNT, context=context, modular="shared")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(noisy[learn])
        scores[penalty, context] = model.score(noisy[score])
        errors[penalty, context] = 1.0 - model.score(noisy[test], clean[test])
    picked = max(scores, key=lambda key: scores[key])
    best = min(errors, key=lambda key: errors[key])
    return [
        f"{name}, {rate:.0%}",
        f"{picked[0]:g}, {picked[1]}",
        f"{best[0]:g}, {best[1]}",
        f"{100 * errors[picked]:.3f}",
        f"{100 * errors[best]:.3f}",
        f"{errors[picked] / errors[best]:.3f}",
        f"{100 * max(errors.values()):.3f}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if the limits do not hold."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.choices", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the table")
    options = parse.parse_args(command)
    cells = itertools.product(kinds(options.data).items(), RATES)
    rows = joblib.Parallel(n_jobs=options.jobs, verbose=5)(
        joblib.delayed(choose)(name, clean, rate) for (name, clean), rate in cells
    )
    ratios = np.array([float(row[5]) for row in rows])
    rows.append(["mean", "", "", "", "", f"{ratios.mean():.3f}", ""])
    rows.append(["worst", "", "", "", "", f"{ratios.max():.3f}", ""])
    head = ["images, flips", "picked: penalty, context", "best", "error, %", "best, %", "ratio"]
    table = Table("Models picked by hidden pixels", [*head, "worst of the grid, %"], rows)
    show([table])
    if options.markdown is not None:
        text = (
            "Models are learned from noisy images alone, by `MaskDenoiser` with ten choices of its "
            "penalty and context; `score` without labels picks one on other noisy images; errors "
            "are those on test images, which nothing else has seen."
        )
        write_page(
            options.markdown,
            "The score without labels",
            "benchmarks.choices",
            command,
            text,
            [table],
        )
    return int(ratios.mean() > MOST_MEAN or ratios.max() > MOST_WORST)


if __name__ == "__main__":
    sys.exit(main())
