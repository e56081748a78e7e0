"""Cross-validation of the learned filter: `python -m benchmarks.context --data DIR`.

Five folds of the first half of the pictures (the training half of the other benchmarks). Compared
are the radius of the filter and the inverse variance of the prior on its coefficients, with and
without labels.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import joblib
import numpy as np

import logsuper as ls
from benchmarks.denoising import COUNT
from benchmarks.images import load_silhouettes
from benchmarks.tables import show
from logsuper.learning import LEARNERS
from logsuper.report import Table

RATES = (0.05, 0.1, 0.2)
CHOICES = ((0, 30.0), (1, 30.0), (2, 3.0), (2, 30.0), (2, 300.0), (3, 30.0))
FOLDS = 5


def error(
    images: np.ndarray, learner: str, rate: float, choice: tuple[int, float], fold: int
) -> float:
    """Return the error (%) on one fold of a model learned from the others."""
    noisy = ls.datasets.corrupt(images, ls.Flips(rate), 0)
    held = np.arange(len(images)) % FOLDS == fold
    prior, count = LEARNERS[learner], np.count_nonzero(~held)
    weights = {
        "alpha": prior.alpha,
        "scale": prior.alpha,
        "modular": prior.modular,
        "filter": choice[1],
    }
    penalty = {kind: weight / count for kind, weight in weights.items()}
    model = ls.MaskDenoiser(noise=rate, learner=learner, context=choice[0], penalty=penalty)
    model.fit(noisy[~held], images[~held] if prior.labels else None)
    return 100.0 * (1.0 - model.score(noisy[held], images[held]))


def main(arguments: list[str] | None = None) -> int:
    """Print mean and standard error of the errors over the folds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--count", type=int, default=COUNT // 2, help="images (default 100)")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    images = load_silhouettes(options.data, COUNT)[: options.count]
    cells = [(name, rate, c) for name in ("logistic", "moments") for c in CHOICES for rate in RATES]
    found = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(error)(images, *cell, fold) for cell in cells for fold in range(FOLDS)
    )
    errors = np.reshape(found, (-1, len(RATES), FOLDS))
    rows = [
        [name, f"{radius}", f"{prior:g}"]
        + [f"{e.mean():.3f} +- {e.std(ddof=1) / np.sqrt(FOLDS):.3f}" for e in line]
        for (name, _, (radius, prior)), line in zip(cells[:: len(RATES)], errors, strict=True)
    ]
    head = ["learner", "radius", "prior", *(f"{100 * rate:g} %" for rate in RATES)]
    show([Table("Error in cross-validation, percent of the pixels", head, rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
