"""From how many pixels on trees are worth their time: `python -m benchmarks.trees_by_size`.

Denoisers with the filter alone, with trees beside it, and as they come are fitted to 5 to 60 small
images of five kinds, without and with clean images, and clean 40 others. Without clean images those
with trees are also learned by each of the two learners that may stand beside them. With ``--data``,
the Weizmann horses are among them: only those of the half that trains elsewhere, 60 to learn from
and 40 to look at.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.probabilities import score
from benchmarks.shapes import blobs, ellipses, polygons
from benchmarks.tables import show, write_page
from logsuper.report import Table

COUNTS = (5, 10, 20, 40, 60)
TEST = 40
RATES = (0.02, 0.1, 0.2)
WAYS: dict[str, dict[str, Any]] = {
    "without": {"context": "filter"},
    "with": {"context": "trees"},
    "default": {},
}
# The learners that stand beside trees without clean images.
BESIDE: dict[str, dict[str, Any]] = {
    learner: {"context": "trees", "learner": learner} for learner in ("resample", "moments")
}
TEXT = (
    "Denoisers with the filter alone (without), with trees beside it (with) and as they come "
    "(default), of the same noisy images; the share of flipped pixels is not told. Images of "
    "50x50, ellipses and polygons of 60x60; 40 others are cleaned. Differences are in percent of "
    "what is found without trees: means over rates of flips, then over sets of images, and the "
    "standard errors of the latter. Better: the share of all cases in which trees make fewer "
    "errors. Seconds are processor time per fit."
)

WHAT = ("error", "loss")

Result = dict[str, float]
# By kind, rate, seed, number of images, and whether there are clean ones: by way.
Found = dict[tuple[Any, ...], dict[str, Result]]


def kinds(data: Path | None, seed: int) -> dict[str, np.ndarray]:
    """Return sets of clean images, the first ones to learn from."""
    n, first = max(COUNTS) + TEST, 100 * seed
    found = {
        "silhouettes": ls.make_silhouettes(n, (50, 50), seed=first + 1),
        "blobs": blobs(n, first + 2, (50, 50), 4.0),
        "ellipses": ellipses(n, first + 3, 60, 6),
        "polygons": polygons(n, first + 4, 60, 7),
    }
    if data is not None:
        horses = load_silhouettes(data, 200)[:100]
        found["horses"] = horses[np.random.default_rng(first).permutation(len(horses))]
    return found


def run(clean: np.ndarray, rate: float, seed: int, count: int, labelled: bool, way: str) -> Result:
    """Fit to some of the images, and return how well the last ones are cleaned."""
    noisy = ls.datasets.corrupt(clean, ls.Flips(rate), seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        settings = {**WAYS, **BESIDE}[way]
        model = ls.MaskDenoiser(**settings).fit(noisy[:count], clean[:count] if labelled else None)
    seconds = time.process_time() - start
    found = score(model.predict_proba(noisy[-TEST:]), clean[-TEST:])
    return {"error": found.error, "loss": found.log_loss, "seconds": seconds}


def case(
    clean: np.ndarray, rate: float, seed: int, count: int, labelled: bool
) -> dict[str, Result]:
    """Return the results of all ways."""
    ways = (*WAYS, *(() if labelled else BESIDE))
    return {way: run(clean, rate, seed, count, labelled, way) for way in ways}


def gaps(found: Found, what: str, way: str = "with") -> np.ndarray:
    """Return differences in percent of the value without trees, one per set of images."""
    each: dict[Any, list[float]] = {}
    for (name, _, seed, *_), r in found.items():
        gap = 100.0 * (r[way][what] / r["without"][what] - 1.0)
        each.setdefault((name, seed), []).append(gap)
    return np.array([np.mean(part) for part in each.values()])


def cell(values: np.ndarray) -> str:
    """Return a mean and its standard error."""
    if len(values) < 2:
        return f"{values.mean():+.1f}"
    return f"{values.mean():+.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def tabulate(found: Found, labelled: bool) -> list[Table]:
    """Return the tables by number of images: means, and each kind of images."""
    names = list(dict.fromkeys(name for name, *_ in found))
    lines, each = [], []
    for count in COUNTS:
        part = {k: r for k, r in found.items() if k[3:] == (count, labelled)}
        results = list(part.values())
        fewer = np.mean([r["with"]["error"] < r["without"]["error"] for r in results])
        seconds = [np.mean([r[way]["seconds"] for r in results]) for way in WAYS]
        means = [cell(gaps(part, what, w)) for w in ("with", "default") for what in WHAT]
        lines.append([str(count), *means, f"{fewer:.0%}", *(f"{s:.1f}" for s in seconds)])
        own = [{k: r for k, r in part.items() if k[0] == name} for name in names]
        each.append([str(count), *(cell(gaps(some, "error")) for some in own)])
    words = "with clean images" if labelled else "noisy images alone"
    head = ["images", "wrong: more with trees, %", "log loss: the same"]
    head += ["wrong: more by default, %", "log loss: the same", "better with trees"]
    head += [f"seconds {way}" for way in WAYS]
    tables = [
        Table(f"Trees beside the filter, {words}", head, lines),
        Table(f"Wrong: more with trees, %, {words}", ["images", *names], each),
    ]
    return tables if labelled else [*tables, compare_learners(found, names)]


def compare_learners(found: Found, names: list[str]) -> Table:
    """Return what trees bring by each learner beside them, without clean images."""
    lines = []
    for count in COUNTS:
        for name in names:
            part = {k: r for k, r in found.items() if k[0] == name and k[3:] == (count, False)}
            cells = [cell(gaps(part, what, way)) for way in BESIDE for what in WHAT]
            lines.append([str(count), name, *cells])
    head = ["images", "kind"]
    head += [f"{way}: {what}, %" for way in BESIDE for what in ("wrong", "log loss")]
    return Table("More with trees than without, by the learner beside them", head, lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    command = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees_by_size", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 .. N-1 (default 1)")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables here, too")
    options = parser.parse_args(command)
    sets = [kinds(options.data, seed) for seed in range(options.seeds)]
    keys = list(
        itertools.product(sets[0], options.rates, range(options.seeds), COUNTS, (False, True))
    )
    results = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(case)(sets[seed][name], rate, seed, count, labelled)
        for name, rate, seed, count, labelled in keys
    )
    found = dict(zip(keys, results, strict=True))
    tables = [table for labelled in (False, True) for table in tabulate(found, labelled)]
    show(tables)
    if options.markdown is not None:
        title = "From how many images on"
        write_page(options.markdown, title, "benchmarks.trees_by_size", command, TEXT, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
