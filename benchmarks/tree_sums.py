"""Microseconds per row of boosted trees: `python -m benchmarks.tree_sums`.

The trees of `MaskDenoiser(context="trees")`, grown on silhouettes at 10 % flips, evaluated by the
compiled kernel, by the NumPy code in its place, and by scikit-learn. All take turns, and ratios are
those of successive runs; results of the first two must be the same to the bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from unittest import mock

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import logsuper as ls
from benchmarks.measure import Clock, Spread, timed
from benchmarks.tables import show
from logsuper.estimators import _blind_spot, _trees
from logsuper.estimators._surroundings import surroundings
from logsuper.estimators._trees import Trees
from logsuper.report import Table

SHAPE = (50, 50)
KERNEL = "kernel"
"""What the others are compared with: the first row."""


def grow(leaves: int, count: int) -> tuple[HistGradientBoostingClassifier, np.ndarray]:
    """Return trees that predict clean pixels from what is around them, and rows of new images.

    Features of rows are each in one piece, as those that denoisers compute.
    """
    clean = ls.make_silhouettes(2 * count, shape=SHAPE, seed=1)
    noisy = ls.datasets.corrupt(clean, ls.Flips(0.1), seed=0)
    features = surroundings(2.0 * noisy - 1.0).reshape(-1, 2, count * SHAPE[0] * SHAPE[1])
    template = _blind_spot.trees(0).set_params(max_leaf_nodes=leaves)
    own = np.ascontiguousarray(features[:, 0].T)
    return template.fit(own, clean[:count].ravel() > 0), np.ascontiguousarray(features[:, 1]).T


def ways(
    fitted: HistGradientBoostingClassifier, rows: np.ndarray
) -> dict[str, tuple[Clock, Callable[[], np.ndarray]]]:
    """Return how to evaluate the trees, and by which clock that is measured."""
    trees = Trees.take(fitted)
    assert trees is not None

    def without_kernel() -> np.ndarray:
        with mock.patch.object(_trees, "kernels", lambda: None):
            return dataclasses.replace(trees).decision_function(rows)

    usual = np.ascontiguousarray(rows)  # scikit-learn looks at one row after the other

    def peer(threads: int) -> np.ndarray:
        with threadpool_limits(threads):
            return np.asarray(fitted.decision_function(usual))

    return {
        KERNEL: ("cpu", lambda: trees.decision_function(rows)),
        "kernel, 2 threads": ("wall", lambda: trees.decision_function(rows, 2)),
        "NumPy": ("cpu", without_kernel),
        "scikit-learn": ("cpu", lambda: peer(1)),
        "scikit-learn, 2 threads": ("wall", lambda: peer(2)),
    }


def measure(leaves: int, count: int, repeat: int) -> Table:
    """Return the table of trees with so many leaves."""
    fitted, rows = grow(leaves, count)
    each = ways(fitted, rows)
    answers = {name: run() for name, (_, run) in each.items()}
    if answers[KERNEL].tobytes() != answers["NumPy"].tobytes():
        raise SystemExit("the kernel and NumPy differ")
    if not np.allclose(answers[KERNEL], answers["scikit-learn"], rtol=0, atol=1e-9):
        raise SystemExit("scikit-learn differs")
    seconds: dict[str, list[float]] = {name: [] for name in each}
    ratios: dict[str, list[float]] = {name: [] for name in each}
    for _ in range(repeat):
        for name, (clock, run) in each.items():
            each[KERNEL][1]()  # the tables are in the cache, whoever ran before
            ours = timed(each[KERNEL][1], clock)[1]
            theirs = timed(run, clock)[1]
            seconds[name].append(1e6 * theirs / len(rows))
            ratios[name].append(theirs / ours)
    lines = []
    for name, (clock, _) in each.items():
        ratio = Spread.of(ratios[name])
        text = f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        lines.append([name, clock, f"{np.median(seconds[name]):.3f}", text])
    head = ["", "clock", "microseconds per row", "time / time of the kernel on one thread"]
    title = f"{len(fitted._predictors)} trees of {leaves} leaves, {rows.shape[1]} features"
    return Table(title, head, lines)


def main(arguments: list[str] | None = None) -> int:
    """Print one table per size of the trees."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tree_sums", description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="+", default=[31, 63])
    parser.add_argument("--images", type=int, default=10, help="images of 50x50 (default 10)")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args(arguments)
    show([measure(leaves, options.images, options.repeat) for leaves in options.leaves])
    return 0


if __name__ == "__main__":
    sys.exit(main())
