"""Trees of the surroundings on folders of all kinds: `python -m benchmarks.trees --data DIR`.

Without clean images, four denoisers are fitted to the same noisy images: with the filter alone
(without), with trees beside it (with), as the score of hidden pixels chooses between the two
(chosen, ``context="select"``, which also chooses the radius of the filter), and as it comes
(default). They clean other images of the same kind, and the training images themselves. The exit
code is 1 if the chosen one, or the default, has more than 1.02 times the errors, or the log loss,
of the one without, in the mean over the seeds. With ``--train``, horses are those of the training
half, for choices. Seconds are processor time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks.folders import Folder, Images, folders
from benchmarks.probabilities import score
from benchmarks.shapes import blobs, ellipses, polygons
from benchmarks.tables import show, write_page
from logsuper.report import Table

MOST = 1.02
SHAPES = ((64, 64), (120, 90), (200, 300), (333, 150))
WAYS: dict[str, dict[str, Any]] = {
    "without": {"context": "filter"},
    "with": {"context": "trees"},
    "chosen": {"context": "select"},
    "default": {},
}
# For sets of few pixels, in the second table only: fully grown trees know their training images.
FOREST = "a random forest"
FEW = 400_000
# Rows of the second table: images, and whether training images are recognised.
OTHERS, OWN, AVERAGED = "other images", "training images", "training images, not recognised"
TEXT = (
    "Denoisers fitted to the same noisy images, without clean ones and without the noise level: "
    "without trees, with trees, as chosen by the score of hidden pixels, and as they come. Means "
    "over the seeds; differences are paired. Expected is the share of wrong pixels that "
    "probabilities promise. The last table also has a random forest in place of boosted trees."
)

Result = dict[str, float]


def kinds(data: Path | None, count: int, train: bool) -> Iterator[Folder]:
    """Yield the folders, with at most `count` of large images."""

    def fewer(folder: Folder) -> Folder:
        def load(seed: int) -> tuple[Images, Images]:
            parts = folder.load(seed)
            if train and "horses" in folder.name:
                order = np.random.default_rng(seed).permutation(len(parts[0]))
                half = len(order) * 2 // 3
                parts = (
                    [parts[0][i] for i in order[:half]],
                    [parts[0][i] for i in order[half:]],
                )
            found = []
            for images in parts:
                large = sum(image.size for image in images) > 2**19
                step = max(1, len(images) // count) if large else 1
                found.append(images[::step])
            return found[0], found[1]

        return Folder(folder.name.split(" ", 1)[1], load)

    for folder in folders(data):
        yield fewer(folder)
    yield Folder(
        "silhouettes of 64x64 to 200x300",
        lambda seed: (_mixed(2 * seed + 1), _mixed(2 * seed + 2)),
    )
    # just enough pixels for trees by default
    yield _halves("silhouettes of 50x50", 40, lambda n, s: ls.make_silhouettes(n, (50, 50), seed=s))
    yield _halves("ellipses of 72x72", 20, lambda n, s: ellipses(n, s, 72, 6))
    yield _halves("polygons of 72x72", 20, lambda n, s: polygons(n, s, 72, 7))
    yield _halves("blobs of 72x72", 20, lambda n, s: blobs(n, s, (72, 72), 4.0))


def _halves(name: str, count: int, make: Callable[[int, int], Any]) -> Folder:
    def load(seed: int) -> tuple[Images, Images]:
        images = list(make(2 * count, 500 + seed))
        return images[:count], images[count:]

    return Folder(name, load)


def _mixed(seed: int) -> Images:
    return [ls.make_silhouettes(1, s, seed=10_000 + 10 * seed + i)[0] for i, s in enumerate(SHAPES)]


def _settings(way: str) -> dict[str, Any]:
    if way == FOREST:
        from sklearn.ensemble import RandomForestClassifier

        return {"context": RandomForestClassifier(40, random_state=0)}
    return WAYS[way]


def run(noisy: Images, clean: Images, test: tuple[Images, Images], way: str) -> dict[str, Result]:
    """Fit a denoiser; return how good its probabilities are, by what they are of."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ls.ConvergenceWarning)
        model = ls.MaskDenoiser(**_settings(way), n_jobs=1).fit(noisy)
    seconds = time.process_time() - start
    found = {}
    sets = [(OTHERS, *test), (OWN, noisy, clean), (AVERAGED, noisy, clean)]
    for name, images, truth in sets if way in ("with", FOREST) else sets[:1]:
        if name == AVERAGED and (around := model.surroundings_) is not None:
            model.surroundings_ = dataclasses.replace(
                around, seen=around.seen[:0], folds=around.folds[:0]
            )
        p = np.concatenate([part.ravel() for part in model.predict_proba(images)])
        result = score(p, np.concatenate([part.ravel() for part in truth]))
        found[name] = {
            "error": 100.0 * result.error,
            "loss": result.log_loss,
            "calibration": 100.0 * result.calibration,
            "expected": 100.0 * float(np.minimum(p, 1.0 - p).mean()),
            "seconds": seconds,
            "trees": float(model.surroundings_ is not None),
            "stopped": float(bool(said)),
        }
    return found


def ratio(found: list[Result], base: list[Result], what: str) -> float:
    """Return the ratio of means."""
    return float(np.sum([r[what] for r in found]) / np.sum([r[what] for r in base]))


def spread(found: list[Result], base: list[Result], what: str) -> str:
    """Return the mean difference in percent of the base, and its standard error over seeds."""
    gaps = np.array([a[what] - b[what] for a, b in zip(found, base, strict=True)])
    unit = 100.0 / np.mean([b[what] for b in base])
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
    return f"{unit * gaps.mean():+.1f} ± {unit * error:.1f}"


def one(folder: Folder, rate: float, seed: int) -> tuple[int, dict[str, dict[str, Result]]]:
    """Return the number of training images, and the results of each way for one seed."""
    train, test = folder.load(seed)
    rng = np.random.default_rng([seed, round(1000 * rate)])
    noisy, unseen = ([ls.Flips(rate).sample(x, rng) for x in part] for part in (train, test))
    ways = [*WAYS, *([FOREST] if sum(x.size for x in train) < FEW else [])]
    return len(train), {way: run(noisy, train, (unseen, test), way) for way in ways}


def tabulate(
    name: str, rate: float, found: list[dict[str, dict[str, Result]]]
) -> tuple[list[list[str]], list[list[str]], bool]:
    """Return rows of both tables, and whether the chosen one is never much worse."""
    first, second, good = [], [], True
    base = [result["without"][OTHERS] for result in found]
    for way in WAYS:
        new = [result[way][OTHERS] for result in found]
        if way in ("chosen", "default"):
            good &= all(ratio(new, base, what) <= MOST for what in ("error", "loss"))
        means = {what: np.mean([r[what] for r in new]) for what in new[0]}
        first.append(
            [
                *(name, f"{rate:.0%}", way, f"{means['error']:.3f}", f"{means['loss']:.5f}"),
                *("" if way == "without" else spread(new, base, w) for w in ("error", "loss")),
                f"{sum(r['trees'] for r in new):.0f} of {len(new)}",
                f"{sum(r['stopped'] for r in new):.0f}",
                f"{means['seconds']:.0f}",
            ]
        )
    for way, label in (("with", "boosted trees"), (FOREST, FOREST)):
        for kind in (OTHERS, OWN, AVERAGED) if way in found[0] else ():
            part = [result[way][kind] for result in found]
            means = {what: np.mean([r[what] for r in part]) for what in part[0]}
            numbers = [f"{means[what]:.3f}" for what in ("error", "expected")]
            numbers += [f"{means['loss']:.5f}", f"{means['calibration']:.3f}"]
            second.append([name, f"{rate:.0%}", label, kind, *numbers])
    return first, second, good


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if the chosen denoiser is worse than the one without trees."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.trees", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--seeds", type=int, default=3)
    parse.add_argument("--count", type=int, default=30, help="about so many large images")
    parse.add_argument("--only", nargs="+", default=[""], help="images with this in their name")
    parse.add_argument("--rates", type=float, nargs="+", default=[0.1])
    parse.add_argument("--jobs", type=int, default=1, help="processes")
    parse.add_argument("--train", action="store_true", help="horses of the training half only")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(command)
    chosen = [
        (folder, rate)
        for folder in kinds(options.data, options.count, options.train)
        if any(word in folder.name for word in options.only)
        for rate in options.rates
    ]
    results = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(one)(*pair, seed) for pair in chosen for seed in range(options.seeds)
    )
    first, second, missed = [], [], []
    for k, (folder, rate) in enumerate(chosen):
        part = results[k * options.seeds : (k + 1) * options.seeds]
        name = f"{part[0][0]} {folder.name}"
        rows, more, good = tabulate(name, rate, [found for _, found in part])
        first += rows
        second += more
        if not good:
            missed.append(f"{name}, {rate:.0%}")
    head = ["images", "flips", "trees", "wrong, %", "log loss", "wrong: more than without, %"]
    head += ["log loss: the same", "used", "not converged", "seconds to fit"]
    tables = [
        Table("Without trees, with them, as chosen, and as it comes: other images", head, first),
        Table(
            "With trees, on other images and on those of the training set",
            [
                "images",
                "flips",
                "beside the filter",
                "of",
                "wrong, %",
                "expected, %",
                "log loss",
                "calibration error, %",
            ],
            second,
        ),
    ]
    show(tables)
    for row in missed:
        print("misses the limit:", row)
    if options.markdown is not None:
        write_page(options.markdown, "Trees or not", "benchmarks.trees", command, TEXT, tables)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
