"""Errors of unequal costs: `python -m benchmarks.costs --data DIR`.

A one that is taken for a zero costs 5, a zero that is taken for a one costs 1. Three folds of the
training half of the pictures, with clean images and an unknown rate of flips. Differences are
paired image by image, with that of the decision by threshold from maximum likelihood.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks.blind_spot import FOLDS
from benchmarks.denoising import COUNT
from benchmarks.images import load_silhouettes
from benchmarks.tables import show
from logsuper.report import Table

COST = (1.0, 5.0)
BASE = "likelihood, threshold by the cost"
ROWS: dict[str, tuple[dict[str, Any], bool]] = {
    "likelihood, threshold 1/2": ({}, False),
    BASE: ({}, True),
    "max margin, Hamming": ({"learner": "max_margin"}, False),
    "max margin, weighted Hamming": ({"learner": "max_margin", "cost": COST}, True),
    "marginals, threshold by the cost": ({"learner": "marginal"}, True),
    "marginals, weighted by the cost": ({"learner": "marginal", "cost": COST}, True),
}
"""Arguments of the fit, and whether `predict` knows the cost."""


def run(images: np.ndarray, rate: float, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the mean cost (%) and the log loss per pixel of each image, and seconds per fit."""
    settings, told = ROWS[name]
    noisy = ls.datasets.corrupt(images, ls.Flips(rate), 0)
    cost, loss = np.empty(len(images)), np.empty(len(images))
    seconds = 0.0
    for fold in range(FOLDS):
        held = np.arange(len(images)) % FOLDS == fold
        start = time.process_time()
        model = ls.MaskDenoiser(context="filter", **settings).fit(noisy[~held], images[~held])
        seconds += (time.process_time() - start) / FOLDS
        y, x = (
            model.set_params(cost=COST if told else (1.0, 1.0)).predict(noisy[held]),
            images[held],
        )
        p = model.predict_proba(noisy[held])
        cost[held] = 100.0 * np.where(x == 1, COST[1] * (y == 0), COST[0] * (y == 1)).mean((1, 2))
        loss[held] = -np.log(np.where(x == 1, p, 1.0 - p)).mean(axis=(1, 2))
    return cost, loss, seconds


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with weizmann_horse_db")
    parser.add_argument("--count", type=int, default=COUNT, help="pictures; half of them train")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1])
    given = parser.parse_args(arguments)
    images = load_silhouettes(given.data, given.count)[: given.count // 2]
    tables = []
    for rate in given.rates:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.ConvergenceWarning)
            found = {name: run(images, rate, name) for name in ROWS}
        rows = []
        for name, (cost, loss, seconds) in found.items():
            off = cost - found[BASE][0]
            error = off.std(ddof=1) / np.sqrt(len(images))
            said = "" if name == BASE else f"{off.mean():+.3f} +- {error:.3f}"
            nats = "" if "margin," in name else f"{loss.mean():.4f}"
            rows.append([name, f"{cost.mean():.3f}", said, nats, f"{seconds:.1f}"])
        head = ["learned by", "cost (%)", "difference", "log loss", "seconds per fit"]
        title = f"Mean cost per pixel, {rate:.0%} flipped, {len(images)} pictures"
        tables.append(Table(title, head, rows))
    show(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
