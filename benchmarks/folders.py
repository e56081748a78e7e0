"""Learning without labels on folders of images: `python -m benchmarks.folders`.

Every row is a set of images and a noise level: the default `MaskDenoiser`, fitted to noisy images
only and to pairs of noisy and clean images, denoises other images of the same kind. With `--data`,
the horses are included, at their original sizes, at 50x50, and half of each. Figures are means over
seeds; the exit code is 1 if a row exceeds a limit: an error without labels of 1.15 times that with
labels, an expected error within a quarter of the true one, weights of at most 10. With `--times`,
large fits are timed instead, and the exit code is 1 if the clock shows more than a limit: 5 seconds
for 30 horses of original sizes, a minute for one mask of 4000x4000 and for 1000 of 512x512, half a
minute for 100 horses of 50x50, which have trees by default, on two idle cores. CPU seconds are
printed beside, for machines that have other work.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import logsuper as ls
from benchmarks.probabilities import score
from benchmarks.shapes import blobs
from benchmarks.tables import show, write_page
from logsuper.datasets import load_weizmann
from logsuper.report import Table

Images = list[NDArray[np.uint8]]

MOST_ERROR, MOST_OFF, MOST_WEIGHT = 1.15, 0.25, 10.0
MOST_SECONDS = {
    "30 horses, original sizes": 5.0,
    "one smooth mask, 4000x4000": 60.0,
    "1000 silhouettes, 512x512": 60.0,
    "100 horses, 50x50": 30.0,
}
SIZES = {64: 60, 128: 30, 256: 12, 512: 6}


@dataclass(frozen=True)
class Folder:
    """A name, and training and test images for a seed."""

    name: str
    load: Callable[[int], tuple[Images, Images]]


def folders(data: Path | None) -> Iterator[Folder]:
    """Yield the sets of images."""
    if data is not None:
        yield from horses(data)
    for size, count in SIZES.items():
        yield Folder(f"{count} silhouettes, {size}x{size}", _silhouettes(size, count))
    yield Folder("one smooth mask, 600x600", _smooth)


def horses(data: Path) -> Iterator[Folder]:
    """Yield the sets of horses: of original sizes, of 50x50, and half of each."""
    root = next(p for p in (data, data / "weizmann_horse_db") if (p / "figure_ground").is_dir())
    files = sorted((root / "figure_ground").glob("*.jpg"))
    large: Images = []
    for file in files:
        with Image.open(file) as picture:
            large.append((np.asarray(picture.convert("L")) > 127).astype(np.uint8))
    small = list(load_weizmann(root).images)
    mixed = [*large[:50], *small[50:100]], [*large[-100:-50], *small[-50:]]
    yield Folder("100 horses, original sizes", lambda seed: (large[:100], large[-100:]))
    yield Folder("100 horses, 50x50", lambda seed: (small[:100], small[-100:]))
    yield Folder("100 horses, half original, half 50x50", lambda seed: mixed)


def _silhouettes(size: int, count: int) -> Callable[[int], tuple[Images, Images]]:
    def load(seed: int) -> tuple[Images, Images]:
        masks = ls.make_silhouettes(2 * count, (size, size), seed=seed + 1)
        return list(masks[:count]), list(masks[count:])

    return load


def _smooth(seed: int) -> tuple[Images, Images]:
    return (
        list(blobs(1, seed, (600, 600), scale=20.0)),
        list(blobs(1, 1000 + seed, (600, 600), scale=20.0)),
    )


@dataclass(frozen=True)
class Outcome:
    """Results of a fit: fractions of pixels, nats per pixel, seconds."""

    wrong: float
    expected: float
    log_loss: float
    calibration: float
    weight: float
    warned: bool
    seconds: float


def run(model: ls.MaskDenoiser, noisy: Images, clean: Images | None, test: tuple) -> Outcome:
    """Fit a model, and test it on other images."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(noisy, clean)
    seconds = time.perf_counter() - start
    assert model.converged_ or said, "neither converged nor warned"
    found = model.predict_proba(test[0])
    p = np.concatenate([part.ravel() for part in found])
    scores = score(p, np.concatenate([part.ravel() for part in test[1]]))
    return Outcome(
        scores.error,
        float(np.mean(np.minimum(p, 1 - p))),
        scores.log_loss,
        scores.calibration,
        float(max(model.alpha_.max(), model.scale_)),
        bool(said),
        seconds,
    )


def measure(folder: Folder, rate: float, seeds: int, jobs: int) -> tuple[list[list[str]], bool]:
    """Return two rows, without labels and with them, and whether the limits hold."""
    both: dict[str, list[Outcome]] = {"none": [], "all": []}
    for seed in range(seeds):
        train, test = folder.load(seed)
        rng = np.random.default_rng([seed, round(1000 * rate)])
        noisy, unseen = ([ls.Flips(rate).sample(x, rng) for x in part] for part in (train, test))
        for labels, outcomes in both.items():
            model = ls.MaskDenoiser(n_jobs=jobs)
            clean = train if labels == "all" else None
            outcomes.append(run(model, noisy, clean, (unseen, test)))

    def mean(labels: str, name: str) -> float:
        return float(np.mean([getattr(outcome, name) for outcome in both[labels]]))

    ratio = mean("none", "wrong") / mean("all", "wrong")
    off = mean("none", "expected") / mean("none", "wrong")
    heaviest = max(outcome.weight for outcome in both["none"])
    good = ratio <= MOST_ERROR and abs(off - 1.0) <= MOST_OFF and heaviest <= MOST_WEIGHT
    rows = []
    for labels, outcomes in both.items():
        rows.append(
            [
                folder.name,
                f"{rate:.0%}",
                labels,
                f"{100 * mean(labels, 'wrong'):.3f}",
                f"{ratio:.3f}" if labels == "none" else "",
                f"{100 * mean(labels, 'expected'):.3f}",
                f"{mean(labels, 'expected') / mean(labels, 'wrong'):.2f}",
                f"{mean(labels, 'log_loss'):.5f}",
                f"{100 * mean(labels, 'calibration'):.3f}",
                f"{max(outcome.weight for outcome in outcomes):.2f}",
                f"{sum(outcome.warned for outcome in outcomes)} of {seeds}",
                f"{mean(labels, 'seconds'):.1f}",
            ]
        )
    return rows, good


def times(data: Path | None, jobs: int) -> tuple[Table, list[str]]:
    """Return seconds of fits without labels on large images, and which exceed their limits."""
    large: dict[str, Images] = {
        "one smooth mask, 4000x4000": list(blobs(1, 0, (4000, 4000), scale=20.0)),
        "1000 silhouettes, 512x512": list(ls.make_silhouettes(50, (512, 512), seed=0)) * 20,
    }
    if data is not None:
        whole, small, _ = (folder.load(0)[0] for folder in horses(data))
        large = {
            "30 horses, original sizes": whole[:30],
            **large,
            "100 horses, 50x50": small,
        }
    rows, missed = [], []
    for name, clean in large.items():
        rng = np.random.default_rng(0)
        noisy = [ls.Flips(0.1).sample(x, rng).astype(np.uint8) for x in clean]
        wall, processor = time.perf_counter(), time.process_time()
        model = ls.MaskDenoiser(n_jobs=jobs).fit(noisy)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        weights = ", ".join(f"{weight:.2f}" for weight in model.alpha_)
        limit = MOST_SECONDS[name]
        rows.append(
            [
                name,
                f"{wall:.1f}",
                f"{processor:.1f}",
                f"{limit:.0f}",
                weights,
                f"{model.noise_:.4f}",
            ]
        )
        if wall > limit:
            missed.append(f"{name}: {wall:.1f} s, limit {limit:.0f} s")
    title = f"Seconds to fit without labels, 10 % flips, {jobs} threads"
    head = ["images", "seconds", "CPU seconds", "limit, seconds", "weights", "rate"]
    return Table(title, head, rows), missed


HEAD = [
    "images",
    "flips",
    "labels",
    "wrong, %",
    "/ with labels",
    "expected, %",
    "/ wrong",
    "log loss",
    "calibration error, %",
    "largest weight",
    "warned",
    "seconds to fit",
]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if a row exceeds a limit."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.folders", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--seeds", type=int, default=5)
    parse.add_argument("--jobs", type=int, default=2, help="threads of a fit")
    parse.add_argument("--only", default="", help="images with this in their name")
    parse.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.2])
    parse.add_argument("--times", action="store_true", help="time large fits instead")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the table")
    options = parse.parse_args(command)
    if options.times:
        table, missed = times(options.data, options.jobs)
        show([table])
        for row in missed:
            print("misses a limit:", row)
        if options.markdown is not None:
            text = (
                "The default `MaskDenoiser`, fitted to noisy images alone on a machine without "
                "other work. The command fails if the clock shows more than a limit."
            )
            write_page(
                options.markdown, "Seconds to fit", "benchmarks.folders", command, text, [table]
            )
        return int(bool(missed))
    rows, missed = [], []
    for folder in folders(options.data):
        if options.only not in folder.name:
            continue
        for rate in options.rates:
            found, good = measure(folder, rate, options.seeds, options.jobs)
            for row in found:
                print("  ".join(row), "" if good else "(misses a limit)", flush=True)
            rows += found
            if not good:
                missed.append(f"{folder.name}, {rate:.0%}")
    table = Table(f"Learning with labels and without, {options.seeds} seeds", HEAD, rows)
    show([table])
    for row in missed:
        print("misses a limit:", row)
    if options.markdown is not None:
        text = (
            "The default `MaskDenoiser`, fitted to noisy images alone (labels: none) and to pairs "
            "of noisy and clean ones (all), on other images of the same kind. Expected is the "
            "share of wrong pixels that its own probabilities promise."
        )
        write_page(
            options.markdown, "Folders without labels", "benchmarks.folders", command, text, [table]
        )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
