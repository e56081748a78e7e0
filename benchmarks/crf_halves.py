"""What was decided by for `MaskCRF`: `python -m benchmarks.crf_halves --data DIR`.

Random halves of several sets of images, learned from and tested on both ways: the first 100
photographs of horses (the last 100, on which `benchmarks.crf` tests, are not looked at), 25
photographs of the GrabCut database, each with an object of another kind, scenes with colours of
their own, and masks seen through coloured noise, where the rest of the image says nothing of a
pixel. Beside the calibration error stands the one that probabilities would show that are right on
average, on as many images.
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
from PIL import Image
from scipy.special import expit

import logsuper as ls
from benchmarks.crf import HEAD, TRAIN, WORKING, bin_gaps, calibration_error, judge, load
from benchmarks.tables import show, write_page
from logsuper.estimators import _calibration
from logsuper.report import Table

TEXT = (
    "Images of 64x80 pixels, halved at random; one half is learned from and the other tested on, "
    "both ways. Means over splits; the floor is the calibration error of probabilities that are "
    "right on average, on as many images; share is the expected part of an image that is object "
    "less the true one. The built-in features of `MaskCRF` and the form of its calibration were "
    "decided by the tables of the horses, without the photographs that `benchmarks.crf` tests on, "
    "and looked at on the other sets."
)


def load_horses(data: Path) -> tuple[list[Any], list[Any]]:
    """Return the photographs of horses that are not tested on elsewhere."""
    photographs, masks = load(data / "weizmann_horse_db", WORKING)
    return photographs[:TRAIN], masks[:TRAIN]


def load_grabcut(data: Path) -> tuple[list[Any], list[Any]]:
    """Return photographs of the GrabCut database; the border, which has no label, is object."""
    photographs, masks = [], []
    for file in sorted((data / "grabcut" / "images").iterdir()):
        truth = data / "grabcut" / "ground_truth" / f"{file.stem}.png"
        with Image.open(file) as picture, Image.open(truth) as mask:
            colours = picture.convert("RGB").resize(WORKING[::-1], Image.Resampling.LANCZOS)
            small = mask.convert("L").resize(WORKING[::-1], Image.Resampling.BOX)
        photographs.append(np.asarray(colours) / np.float32(255.0))
        masks.append((np.asarray(small) > 127).astype(np.uint8))
    return photographs, masks


def make_scenes(data: Path) -> tuple[list[Any], list[Any]]:
    """Return scenes whose object and background have colours of their own in each."""
    scenes = ls.make_scenes(60, shape=WORKING, seed=0)
    return [image / np.float32(255.0) for image in scenes.images], list(scenes.masks)


def make_noise(data: Path) -> tuple[list[Any], list[Any]]:
    """Return masks in two colours under noise."""
    masks = ls.make_silhouettes(60, shape=WORKING, seed=0)
    noise = np.random.default_rng(0).normal(scale=0.8, size=(*masks.shape, 3))
    return list(masks[..., None] * [0.5, 0.2, -0.3] + noise), list(masks)


KINDS = {
    "horses": load_horses,
    "grabcut": load_grabcut,
    "scenes": make_scenes,
    "noise": make_noise,
}


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


def halve(data: Path, kind: str, split: int) -> dict[str, list[list[float]]]:
    """Return rows of scores of variants, learned from one half and tested on the other."""
    photographs, masks = KINDS[kind](data)
    order = np.random.default_rng(100 + split).permutation(len(masks))
    first, last = np.array_split(order, 2)
    found: dict[str, list[list[float]]] = {}

    def score(name: str, p: list[Any], truth: list[Any]) -> None:
        row = judge(p, [own > 0.5 for own in p], truth).mean(axis=0).tolist()
        shares = [100.0 * (own.mean() - mask.mean()) for own, mask in zip(p, truth, strict=True)]
        row += [calibration_error(p, truth), noise_floor(p, truth), abs(float(np.mean(shares)))]
        found.setdefault(name, []).append([*row, float(np.std(shares))])

    for learn, check in ((first, last), (last, first)):
        rows, targets = [photographs[i] for i in learn], [masks[i] for i in learn]
        new, truth = [photographs[i] for i in check], [masks[i] for i in check]
        for features in ("local", "context"):
            crf = Kept(features=features, n_jobs=1).fit(rows, targets)
            words = f"features={features!r}"
            score(f"unary alone, {words}", [expit(own) for own in crf.predict_unary(new)], truth)
            score(f"MaskCRF, {words}", crf.predict_proba(new), truth)
            with mock.patch.object(_calibration, "_RIDGE_OF_IMAGES", 1e9):
                crf._mix(*crf.given)
            score(f"MaskCRF without an effect of images, {words}", crf.predict_proba(new), truth)
    return found


def compare(data: Path, kind: str, splits: int, jobs: int) -> Table:
    """Return the scores of all variants, in the mean over splits and both ways."""
    each = importlib.import_module("benchmarks.crf_halves").halve
    done = Parallel(n_jobs=jobs)(delayed(each)(data, kind, split) for split in range(splits))
    rows = []
    for name in done[0]:
        own = np.array([row for part in done for row in part[name]])
        e, iou, loss, *rest = own.mean(axis=0)
        spread = own[:, 3].std(ddof=1)
        cells = [f"{e:.2f}", f"{iou:.4f}", f"{loss:.4f}", f"{rest[0]:.2f} (sd {spread:.2f})"]
        rows.append([name, *cells, *(f"{value:.2f}" for value in rest[1:])])
    head = [*HEAD[:5], "floor (%)", "share: bias (%)", "share: sd (%)"]
    title = f"Halves of {kind}, {splits} random splits, both ways"
    return Table(title, head, rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crf_halves", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public data")
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    tables = []
    for kind in args.only:
        tables.append(compare(args.data, kind, args.splits, args.jobs))
        show(tables[-1:])
    if args.markdown is not None:
        title, name = "MaskCRF on halves of training images", "benchmarks.crf_halves"
        write_page(args.markdown, title, name, given, TEXT, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
