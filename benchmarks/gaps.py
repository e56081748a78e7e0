"""Masks with gaps: `python -m benchmarks.gaps --data DIR`.

Square holes, or pixels at random, are missing from noisy masks, in training and in use; the rate of
the noise is not told. What stands in the gaps afterwards is compared with the truth, for the filter
alone, for trees beside it, for the default, and for the least that one could do: each missing pixel
gets the label that the default gives to the nearest one that was observed. With ``--data``, horses
are among the images: those of the half that trains elsewhere.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy.ndimage import distance_transform_edt

import logsuper as ls
from benchmarks.folders import Images, horses
from benchmarks.probabilities import score
from benchmarks.tables import show, write_page
from logsuper.report import Table

RATE = 0.1
WAYS: dict[str, dict[str, Any]] = {
    "filter": {"context": "filter"},
    "trees": {"context": "trees"},
    "default": {},
}
NEAREST = "nearest observed pixel"
# Side of the square holes, their number per image; or the share of pixels at random.
GAPS = {"small": ((8, 4), (16, 1), 0.5), "large": ((30, 2), (60, 1), 0.5)}
HEAD = ["images", "missing", "by", "wrong in gaps, %", "expected, %", "log loss", "elsewhere, %"]
TEXT = (
    "Square holes at random places, or pixels at random, are missing from noisy masks (10 % flips, "
    "a rate that is not told), both from those to learn from and from others, which are cleaned. "
    "Wrong, expected and log loss are those of the missing pixels; in the last column the error of "
    "all other pixels. Nearest: each missing pixel gets the label that the default gives to the "
    "nearest one that was observed. Means over seeds, with standard deviations of the errors."
)


def images_of(data: Path | None) -> dict[str, tuple[Images, Images]]:
    """Return sets of clean masks to learn from and to test on."""
    found: dict[str, tuple[Images, Images]] = {}
    for side, count in ((50, 60), (256, 6)):
        clean = list(ls.make_silhouettes(2 * count, (side, side), seed=3))
        found[f"{count} silhouettes, {side}x{side}"] = clean[:count], clean[count:]
    if data is not None:
        whole, small, _ = (folder.load(0)[0] for folder in horses(data))
        found["50 horses, 50x50"] = small[:50], small[50:]
        found["8 horses, original sizes"] = whole[:8], whole[50:62]
    return found


def erase(images: Images, gap: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Return noisy images with gaps."""
    found = []
    for x in images:
        z = ls.Flips(RATE).sample(x, rng).astype(np.float64)
        if isinstance(gap, float):
            z[rng.random(x.shape) < gap] = np.nan
        else:
            side, count = gap
            for _ in range(count):
                top, left = (int(rng.integers(0, n - side + 1)) for n in x.shape)
                z[top : top + side, left : left + side] = np.nan
        found.append(z)
    return found


def nearest(mask: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return a mask whose missing pixels are as the nearest others."""
    index = distance_transform_edt(gone, return_distances=False, return_indices=True)
    return np.asarray(mask[tuple(index)])


def run(train: Images, test: Images, gap: Any, seed: int) -> dict[str, list[float]]:
    """Return the figures of each way."""
    rng = np.random.default_rng([seed, 7])
    seen, unseen = erase(train, gap, rng), erase(test, gap, rng)
    gone = [np.isnan(z) for z in unseen]
    truth = np.concatenate([x[g] for x, g in zip(test, gone, strict=True)])
    rest = np.concatenate([x[~g] for x, g in zip(test, gone, strict=True)])
    found = {}
    for way, settings in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.ConvergenceWarning)
            model = ls.MaskDenoiser(**settings, n_jobs=1).fit(seen)
        chance = model.predict_proba(unseen)
        inside, outside = (
            np.concatenate([p[g == there] for p, g in zip(chance, gone, strict=True)])
            for there in (True, False)
        )
        result = score(inside, truth)
        expected = float(np.minimum(inside, 1.0 - inside).mean())
        wrong = float(np.mean((outside > 0.5) != rest))
        found[way] = [100 * result.error, 100 * expected, result.log_loss, 100 * wrong]
    masks = [nearest(p > 0.5, g) for p, g in zip(chance, gone, strict=True)]
    filled = np.concatenate([mask[g] for mask, g in zip(masks, gone, strict=True)])
    found[NEAREST] = [100 * float(np.mean(filled != truth)), np.nan, np.nan, np.nan]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaps", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="write the table here, too")
    options = parser.parse_args(given)
    tasks = [
        (name, gap, seed, *pair)
        for name, pair in images_of(options.data).items()
        for gap in GAPS["small" if "50x50" in name else "large"]
        for seed in range(options.seeds)
    ]
    # processes find the function by the name of its module, which is not __main__
    each = importlib.import_module("benchmarks.gaps").run
    results = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(each)(train, test, gap, seed) for _, gap, seed, train, test in tasks
    )
    found: dict[tuple[str, Any], list[dict[str, list[float]]]] = {}
    for (name, gap, *_), result in zip(tasks, results, strict=True):
        found.setdefault((name, gap), []).append(result)
    rows = []
    for (name, gap), parts in found.items():
        kind = (
            f"{gap:.0%} of the pixels"
            if isinstance(gap, float)
            else f"{gap[1]} of {gap[0]}x{gap[0]}"
        )
        for way in (*WAYS, NEAREST):
            numbers = np.array([part[way] for part in parts])
            mean = numbers.mean(axis=0)
            spread = numbers[:, 0].std(ddof=1) if len(parts) > 1 else np.nan
            rest = ["", "", ""]
            if way != NEAREST:
                rest = [f"{mean[1]:.1f}", f"{mean[2]:.3f}", f"{mean[3]:.2f}"]
            rows.append([name, kind, way, f"{mean[0]:.1f} ± {spread:.1f}", *rest])
    table = Table(f"Missing pixels, {options.seeds} seeds", HEAD, rows)
    show([table])
    if options.markdown is not None:
        write_page(options.markdown, "Masks with gaps", "benchmarks.gaps", given, TEXT, [table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
