"""Couplings that depend on the position of a pixel: `python -m benchmarks.couplings --data DIR`.

The weight of each direction is a sum of overlapping tents with non-negative weights, which is
submodular and convex to learn, and contains one weight for all positions. Three folds of the
training half of the pictures; both models of a row see the same noisy images, the same folds and
the same trees, and differences are paired image by image. The rate of flips is known.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks.blind_spot import FOLDS
from benchmarks.denoising import COUNT
from benchmarks.images import load_silhouettes
from benchmarks.tables import show
from logsuper.estimators._blind_spot import train_blind_spot
from logsuper.estimators._mask_examples import KNOTS, gather, position_cuts
from logsuper.learning import LEARNERS, means
from logsuper.report import Table

ROWS = {"without clean images": "moments", "with clean images": "logistic"}


def run(images: np.ndarray, rate: float, trees: bool, learner: str, knots: int) -> np.ndarray:
    """Return the share of wrong pixels (%) of each image, (2, N): one coupling, and many."""
    noisy, channel = ls.datasets.corrupt(images, ls.Flips(rate), 0), ls.Flips(rate)
    found, shape = np.empty((2, len(images))), images[0].shape
    for fold in range(FOLDS):
        held = np.arange(len(images)) % FOLDS == fold
        train, test = list(noisy[~held]), list(noisy[held])
        labels = list(images[~held]) if LEARNERS[learner].labels else None
        judge: Any = None
        new: Any = None
        if trees:
            around, judge = train_blind_spot(
                train, labels, channel, None, images=train, windows=None, key=0, threads=1
            )
            new = around.judge_new(1)
        for row, functions in enumerate((None, position_cuts(shape, knots))):
            design = {
                "neighbors": functions,
                "modular": "pixel",
                "context": 2,
                "scale": True,
                "trees": trees,
            }
            data = gather(design, train, channel, labels, judge)
            penalty = LEARNERS[learner].penalty(data.layout, data.count)
            theta = LEARNERS[learner].learn(data, penalty, seed=0).theta
            p = np.asarray(means(gather(design, test, channel, judge=new), theta, seed=0))
            found[row, held] = 100.0 * ((p > 0.5) != images[held]).mean(axis=(1, 2))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with weizmann_horse_db")
    parser.add_argument("--count", type=int, default=COUNT, help="pictures; half of them train")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--knots", type=int, default=KNOTS, help="bumps per axis")
    parser.add_argument("--context", nargs="+", default=["filter", "trees"])
    parser.add_argument("--learn", nargs="+", default=list(ROWS), help="with, without clean images")
    given = parser.parse_args(arguments)
    images = load_silhouettes(given.data, given.count)[: given.count // 2]
    head = ["context", "learned", "flipped", "one weight", f"{given.knots}x{given.knots} bumps"]
    rows = []
    for context in given.context:
        for name in given.learn:
            for rate in given.rates:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ls.ConvergenceWarning)
                    one, many = run(images, rate, context == "trees", ROWS[name], given.knots)
                error = (many - one).std(ddof=1) / np.sqrt(len(images))
                change = f"{(many - one).mean():+.3f} +- {error:.3f}"
                cells = [f"{one.mean():.3f}", f"{many.mean():.3f}", change]
                rows.append([context, name, f"{rate:.0%}", *cells])
                print(*rows[-1], file=sys.stderr, flush=True)
    title = f"Wrong pixels (%), cross-validated on {len(images)} pictures"
    show([Table(title, [*head, "change"], rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
