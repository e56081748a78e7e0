"""Arguments chosen inside of a fit: `python -m benchmarks.selection [--data DIR]`.

`MaskDenoiser` as it comes, and with context, scale, penalty and temperature "select", fitted to 24
noisy images of each kind, or to pairs of noisy and clean ones, on 24 other images of the same kind:
what is gained in error and log loss, and what it costs in CPU time.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np

import logsuper as ls
from benchmarks.choices import COUNT, RATES, kinds
from benchmarks.probabilities import score
from benchmarks.tables import show, write_page
from logsuper.report import Table

ARGUMENTS = ("context", "scale", "penalty", "temperature")


class Outcome(NamedTuple):
    """What a fit is like on test images, what was chosen, and CPU seconds.

    The last two log losses, and ratios of expected and true errors, are without the temperature and
    with it.
    """

    error: float
    log_loss: tuple[float, float]
    ratio: tuple[float, float]
    chosen: str
    temperature: float
    seconds: float


def measure(clean: np.ndarray, rate: float, labelled: bool, choose: bool) -> Outcome:
    """Fit to the first images, and test on others."""
    noisy = ls.Flips(rate).sample(clean, seed=round(1000 * rate))
    train, test = slice(0, COUNT), slice(COUNT, 2 * COUNT)
    model = ls.MaskDenoiser(**dict.fromkeys(ARGUMENTS, "select") if choose else {})
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(noisy[train], clean[train] if labelled else None)
    seconds = time.process_time() - start
    temperature, results = model.temperature_, []
    for model.temperature_ in (1.0, temperature):
        p = model.predict_proba(noisy[test])
        results.append((score(p, clean[test]), float(np.minimum(p, 1 - p).mean())))
    best = next((row for row in model.selection_ if row["behind"] == 0.0), None)
    chosen = best and f"{best['context']}, {'yes' if best['scale'] else 'no'}, {best['penalty']:g}"
    error = results[0][0].error
    losses, ratios = zip(*((found.log_loss, e / error) for found, e in results), strict=True)
    return Outcome(error, losses, ratios, chosen or "", temperature, seconds)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--rates", type=float, nargs="+", default=RATES)
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(command)
    tables = []
    for labelled in (False, True):
        cells = list(itertools.product(kinds(options.data).items(), options.rates))
        found = joblib.Parallel(n_jobs=options.jobs, verbose=5)(
            joblib.delayed(measure)(clean, rate, labelled, choose)
            for (_, clean), rate in cells
            for choose in (False, True)
        )
        names = [f"{name}, {rate:.0%}" for (name, _), rate in cells]
        title = f"{'With' if labelled else 'Without'} clean images"
        tables.append(make_table(title, names, found[::2], found[1::2]))
        show(tables[-1:])
    if options.markdown is not None:
        text = (
            "`MaskDenoiser` as it comes, and with context, scale and penalty chosen on what is "
            "held out (radius, whether w is learned, factor on the default penalty), without and "
            "with the temperature that was chosen there. Errors and log losses are those on test "
            "images, which nothing else has seen."
        )
        write_page(
            options.markdown,
            "Selection inside of a fit",
            "benchmarks.selection",
            command,
            text,
            tables,
        )
    return 0


def make_table(title: str, names: list[str], plain: list[Outcome], chosen: list[Outcome]) -> Table:
    """Return a row per set of images, and the means of ratios."""
    rows = [
        [
            name,
            f"{100 * a.error:.3f}",
            f"{100 * b.error:.3f}",
            b.chosen,
            f"{a.log_loss[0]:.5f}",
            *(f"{loss:.5f}" for loss in b.log_loss),
            f"{b.temperature:.2f}",
            f"{a.ratio[0]:.2f}",
            *(f"{ratio:.2f}" for ratio in b.ratio),
            f"{b.seconds / a.seconds:.1f}",
        ]
        for name, a, b in zip(names, plain, chosen, strict=True)
    ]

    def mean(number: Callable[[Outcome], float], base: Callable[[Outcome], float]) -> str:
        pairs = zip(plain, chosen, strict=True)
        return f"{np.exp(np.mean([np.log(number(b) / base(a)) for a, b in pairs])):.3f}"

    def loss(i: int) -> Callable[[Outcome], float]:
        return lambda outcome: outcome.log_loss[i]

    error, seconds = (lambda outcome: outcome.error), (lambda outcome: outcome.seconds)
    losses = [mean(loss(i), loss(0)) for i in (0, 1)]
    last = ["geometric mean of ratios", "", mean(error, error), "", "", *losses]
    rows.append([*last, "", "", "", "", mean(seconds, seconds)])
    return Table(title, HEAD, rows)


HEAD = [
    "images, flips",
    "error, %",
    "selected",
    "context, scale, penalty",
    "log loss",
    "selected",
    "with temperature",
    "temperature",
    "expected / wrong",
    "selected",
    "with temperature",
    "CPU time, ratio",
]


if __name__ == "__main__":
    sys.exit(main())
