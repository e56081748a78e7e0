"""What was decided by for `MaskCRF`: `python -m benchmarks.crf_halves --data DIR`.

Random halves of the first 100 photographs of horses, learned from and tested on both ways; the last
100, on which `benchmarks.crf` tests, are not looked at. Beside the calibration error stands the one
that probabilities would show that are right on average, on as many photographs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

import logsuper as ls
from benchmarks.crf import HEAD, TRAIN, WORKING, bin_gaps, calibration_error, judge, load
from benchmarks.tables import show
from logsuper.estimators import _calibration
from logsuper.report import Table


class Kept(ls.MaskCRF):
    """Keeps what its calibration was chosen on, to choose another one."""

    def _mix(self, *given: Any) -> None:
        self.given = given
        super()._mix(*given)


def noise_floor(probabilities: list[Any], masks: list[Any]) -> float:
    """Return the calibration error (%) of probabilities that are right on average.

    Gaps of bins are then normal, with the deviations of their means over images.
    """
    gaps = bin_gaps(probabilities, masks)
    spread = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return float(100.0 * np.sqrt(2.0 / np.pi) * spread.sum())


def halve(folder: Path, split: int) -> dict[str, list[list[float]]]:
    """Return rows of scores of variants, learned from one half and tested on the other."""
    photographs, masks = load(folder, WORKING)
    first, last = np.split(np.random.default_rng(100 + split).permutation(TRAIN), 2)
    found: dict[str, list[list[float]]] = {}

    def score(name: str, p: list[Any], truth: list[Any]) -> None:
        row = judge(p, [own > 0.5 for own in p], truth).mean(axis=0).tolist()
        shares = [100.0 * (own.mean() - mask.mean()) for own, mask in zip(p, truth, strict=True)]
        row += [calibration_error(p, truth), noise_floor(p, truth), abs(float(np.mean(shares)))]
        found.setdefault(name, []).append([*row, float(np.std(shares))])

    for learn, check in ((first, last), (last, first)):
        rows, targets = [photographs[i] for i in learn], [masks[i] for i in learn]
        new, truth = [photographs[i] for i in check], [masks[i] for i in check]
        for features in (None, "context"):
            crf = Kept(features=features, n_jobs=1).fit(rows, targets)
            words = f"features={features!r}"
            score(f"unary alone, {words}", [expit(own) for own in crf.predict_unary(new)], truth)
            score(f"MaskCRF, {words}", crf.predict_proba(new), truth)
            with mock.patch.object(_calibration, "_RIDGE_OF_IMAGES", 1e9):
                crf._mix(*crf.given)
            score(f"MaskCRF without an effect of images, {words}", crf.predict_proba(new), truth)
    return found


def compare(folder: Path, splits: int, jobs: int) -> Table:
    """Return the scores of all variants, in the mean over splits and both ways."""
    each = importlib.import_module("benchmarks.crf_halves").halve
    done = Parallel(n_jobs=jobs)(delayed(each)(folder, split) for split in range(splits))
    rows = []
    for name in done[0]:
        own = np.array([row for part in done for row in part[name]])
        e, iou, loss, *rest = own.mean(axis=0)
        spread = own[:, 3].std(ddof=1)
        cells = [f"{e:.2f}", f"{iou:.4f}", f"{loss:.4f}", f"{rest[0]:.2f} (sd {spread:.2f})"]
        rows.append([name, *cells, *(f"{value:.2f}" for value in rest[1:])])
    head = [*HEAD[:5], "floor (%)", "share: bias (%)", "share: sd (%)"]
    title = f"Halves of the first {TRAIN} photographs at 64x80, {splits} random splits, both ways"
    return Table(title, head, rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crf_halves", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with weizmann_horse_db")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    args = parser.parse_args(arguments)
    show([compare(args.data / "weizmann_horse_db", args.splits, args.jobs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
