"""Moments with their error bars: `python -m benchmarks.moments [--data DIR]`.

Learning without labels by `MaskDenoiser` on large smooth images, where a small error in the rate of
the noise outweighs the boundary, and on many small ones, where it does not. Compared are the match
of moments as it is (``relax=0``), within one standard error of each (the default of
``learner="moments"``), and the default learner, "resample". Errors are those on the training
images, of which the learners saw the noisy versions only. The exit code is 1 if a fit with error
bars neither converged nor warned, or has a weight above 10.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

import logsuper as ls
from benchmarks.folders import Images, horses
from benchmarks.shapes import blobs
from benchmarks.tables import show, write_page
from logsuper.report import Table

MOST_WEIGHT = 10.0

LEARNERS: dict[str, dict[str, Any]] = {
    "moments, relax=0": {"learner": "moments", "options": {"relax": 0.0}},
    "moments": {"learner": "moments"},
    "resample": {"learner": "resample"},
}


class Case(NamedTuple):
    """Clean images and the rate of flips."""

    name: str
    clean: Images
    rate: float


def cases(data: Path | None) -> Iterator[Case]:
    """Yield the sets of images."""
    for seed in range(3):
        yield Case(f"one smooth mask, 600x600, {seed}", list(blobs(1, seed, (600, 600), 20.0)), 0.1)
    yield Case("30 silhouettes, 128x128", list(ls.make_silhouettes(30, (128, 128), seed=1)), 0.1)
    if data is None:
        return
    large, small, _ = (folder.load(0)[0] for folder in horses(data))
    yield Case("12 horses, original sizes", large[:12], 0.1)
    for rate in (0.1, 0.2):
        yield Case(f"100 horses, 50x50, {rate:.0%}", small, rate)


def measure(case: Case, name: str, jobs: int) -> tuple[list[str], bool]:
    """Return a row, and whether the fit is possible."""
    rng = np.random.default_rng([7, round(1000 * case.rate)])
    noisy = [ls.Flips(case.rate).sample(x, rng) for x in case.clean]
    model = ls.MaskDenoiser(**LEARNERS[name], n_jobs=jobs)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(noisy)
    seconds = time.process_time() - start
    found = model.predict_proba(noisy)
    p, x = (np.concatenate([part.ravel() for part in parts]) for parts in (found, case.clean))
    wrong, expected = np.mean((p > 0.5) != x), np.mean(np.minimum(p, 1.0 - p))
    row = [
        case.name,
        name,
        f"{model.noise_:.4f}",
        ", ".join(f"{weight:.2f}" for weight in model.alpha_),
        f"{model.scale_:.2f}",
        f"{model.history_[-1].objective:.3g}",
        "yes" if model.converged_ else "no",
        str(len(said)),
        f"{100 * wrong:.3f}",
        f"{100 * expected:.3f}",
        f"{expected / wrong:.2f}",
        f"{seconds:.1f}",
    ]
    weight = max(model.alpha_.max(), model.scale_)
    return row, bool(said) or (model.converged_ and weight <= MOST_WEIGHT)


HEAD = [
    "images",
    "learner",
    "rate",
    "weights",
    "of observations",
    "objective",
    "converged",
    "warnings",
    "wrong, %",
    "expected, %",
    "/ wrong",
    "CPU seconds",
]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.moments", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parse.add_argument("--only", default="", help="images with this in their name")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the table")
    options = parse.parse_args(command)
    cells = [
        (case, name)
        for case in cases(options.data)
        if options.only in case.name
        for name in LEARNERS
    ]
    found = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(measure)(case, name, 1) for case, name in cells
    )
    table = Table(
        "Moments as they are, within their error bars, and resampling",
        HEAD,
        [row for row, _ in found],
    )
    show([table])
    bad = [row[:2] for (row, good), (_, name) in zip(found, cells, strict=True) if not good]
    for images, name in bad:
        print("neither converged nor warned, or a weight above 10:", images, name)
    if options.markdown is not None:
        text = (
            "`MaskDenoiser` without labels, the noise estimated. `moments` matches estimated "
            "moments within one standard error of each, `relax=0` exactly. Wrong and expected are "
            "shares of the pixels of the training images; expected is what the model's own "
            "probabilities promise."
        )
        write_page(
            options.markdown,
            "Moments with error bars",
            "benchmarks.moments",
            command,
            text,
            [table],
        )
    return int(any(name == "moments" for _, name in bad))


if __name__ == "__main__":
    sys.exit(main())
