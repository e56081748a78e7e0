"""Model selection by a score without labels: `python -m benchmarks.choices`.

On each of twenty sets of noisy images, models of one grid (penalties over five decades, with and
without the filter) are learned without labels. The score hides pixels of other noisy images and
lets each model predict them. The model with the best score is compared with the best of the grid,
by their errors on clean images that were not used otherwise. Rows are means over seeds of images
and noise. The exit code is 1 if the selected model is worse than the best by more than 5 % on
average, or 20 % in one set of images with one seed.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
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

PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4)
"""In nats, for all images together."""
CONTEXTS = (0, 2)
RATES = (0.1, 0.2)
MOST_MEAN, MOST_WORST = 1.05, 1.20
COUNT = 24


def kinds(data: Path | None, seed: int) -> dict[str, np.ndarray]:
    """Return sets of clean images: one third each for learning, scoring and testing."""
    n, first = 3 * COUNT, 100 * seed
    found = {
        "silhouettes, 32x32": ls.make_silhouettes(n, (32, 32), seed=first + 1),
        "silhouettes, 50x50": ls.make_silhouettes(n, (50, 50), seed=first + 2),
        "silhouettes, 80x80": ls.make_silhouettes(n, (80, 80), seed=first + 3),
        "discs, 50x50": discs(n, seed=first + 4),
        "half-planes, 50x50": half_planes(n, seed=first + 5),
        "blobs, 60x60, scale 3": blobs(n, first + 6, (60, 60), 3.0),
        "blobs, 60x60, scale 8": blobs(n, first + 7, (60, 60), 8.0),
        "ellipses, 60x60": ellipses(n, first + 8, 60, 6),
        "polygons, 60x60": polygons(n, first + 9, 60, 7),
        "silhouettes upside down": ls.make_silhouettes(n, (50, 50), seed=first + 10)[:, ::-1],
    }
    if data is not None:
        horses = load_silhouettes(data, 200)
        chosen = np.random.default_rng(first).permutation(len(horses))[:n]
        found["horses, 50x50"] = horses[chosen]
        del found["silhouettes upside down"]
    return found


@dataclasses.dataclass(frozen=True)
class Choice:
    """Errors of the selected model, of the best and of the worst of the grid, in percent."""

    penalty: float
    context: int
    error: float
    best: float
    worst: float

    @property
    def ratio(self) -> float:
        """Error of the selected model, as a multiple of that of the best."""
        return self.error / self.best


def choose(clean: np.ndarray, rate: float, seed: int) -> Choice:
    """Learn all models of the grid, and select one by its score."""
    rng = np.random.default_rng([seed, round(1000 * rate)])
    noisy = ls.Flips(rate).sample(clean, seed=rng)
    learn, score, test = (slice(k * COUNT, (k + 1) * COUNT) for k in range(3))
    scores, errors = {}, {}
    for penalty, context in itertools.product(PENALTIES, CONTEXTS):
        model = ls.MaskDenoiser(penalty=penalty / COUNT, context=context, modular="shared")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(noisy[learn])
        scores[penalty, context] = model.score(noisy[score])
        errors[penalty, context] = 100 * (1.0 - model.score(noisy[test], clean[test]))
    picked = max(scores, key=lambda key: scores[key])
    return Choice(*picked, errors[picked], min(errors.values()), max(errors.values()))


def summarise(name: str, choices: list[Choice]) -> list[str]:
    """Return a row: what was selected with each seed, and means of the errors."""

    def mean(what: str) -> float:
        return float(np.mean([getattr(choice, what) for choice in choices]))

    return [
        name,
        "; ".join(f"{choice.penalty:g}, {choice.context}" for choice in choices),
        *(f"{mean(what):.3f}" for what in ("error", "best", "worst", "ratio")),
        f"{max(choice.ratio for choice in choices):.3f}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if the limits do not hold."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.choices", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--seeds", type=int, default=5)
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the table")
    options = parse.parse_args(command)
    cells = [
        (name, clean, rate, seed)
        for seed in range(options.seeds)
        for name, clean in kinds(options.data, seed).items()
        for rate in RATES
    ]
    found = joblib.Parallel(n_jobs=options.jobs, verbose=5)(
        joblib.delayed(choose)(clean, rate, seed) for _, clean, rate, seed in cells
    )
    sets: dict[str, list[Choice]] = collections.defaultdict(list)
    for (name, _, rate, _), choice in zip(cells, found, strict=True):
        sets[f"{name}, {rate:.0%}"].append(choice)
    rows = [summarise(name, choices) for name, choices in sets.items()]
    ratios = np.array([choice.ratio for choice in found])
    rows.append(["all", "", "", "", "", f"{ratios.mean():.3f}", f"{ratios.max():.3f}"])
    head = ["images, flips", "selected: penalty, context", "error, %", "best, %", "worst, %"]
    title = f"Models selected by hidden pixels, {options.seeds} seeds"
    table = Table(title, [*head, "error / best", "largest"], rows)
    show([table])
    if options.markdown is not None:
        text = (
            f"Models are learned from {COUNT} noisy images alone, by `MaskDenoiser` with twelve "
            "choices of its penalty and context; `score` without labels selects one on as many "
            "other noisy images; errors are those on test images, which nothing else has seen, "
            "of the selected model, of the best of the grid and of the worst."
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
