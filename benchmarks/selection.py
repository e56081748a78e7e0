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
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

import logsuper as ls
from benchmarks.choices import COUNT, RATES, kinds
from benchmarks.probabilities import score
from benchmarks.tables import show, write_page
from logsuper.report import Table

CHOICES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "select": {"context": "select", "scale": "select", "penalty": "select"},
    "temperature": {"temperature": "select"},
}


class Outcome(NamedTuple):
    """What a fit is like on test images, what was chosen, and CPU seconds."""

    error: float
    log_loss: float
    ratio: float
    chosen: str
    seconds: float


def measure(name: str, clean: np.ndarray, rate: float, labelled: bool, choice: str) -> Outcome:
    """Fit to the first images, and test on others."""
    noisy = ls.Flips(rate).sample(clean, seed=round(1000 * rate))
    train, test = slice(0, COUNT), slice(COUNT, 2 * COUNT)
    model = ls.MaskDenoiser(**CHOICES[choice])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(noisy[train], clean[train] if labelled else None)
    seconds = time.process_time() - start
    p = model.predict_proba(noisy[test])
    found = score(p.ravel(), clean[test].ravel())
    expected = float(np.minimum(p, 1 - p).mean())
    best = next((row for row in model.selection_ if row["behind"] == 0.0), {})
    chosen = ""
    if choice == "select":
        chosen = f"{best['context']}, {'yes' if best['scale'] else 'no'}, {best['penalty']:g}"
    elif choice == "temperature":
        chosen = f"{model.temperature_:.2f}"
    return Outcome(found.error, found.log_loss, expected / found.error, chosen, seconds)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(command)
    tables = []
    for labelled in (False, True):
        cells = list(itertools.product(kinds(options.data).items(), RATES))
        found = joblib.Parallel(n_jobs=options.jobs, verbose=5)(
            joblib.delayed(measure)(name, clean, rate, labelled, choice)
            for (name, clean), rate in cells
            for choice in CHOICES
        )
        tables.append(
            make_table(
                labelled,
                cells,
                np.reshape(np.array(found, dtype=object), (len(cells), len(CHOICES), 5)),
            )
        )
        show(tables[-1:])
    if options.markdown is not None:
        text = (
            "`MaskDenoiser` as it comes, with context, scale and penalty chosen on what is held "
            "out (radius, whether w is learned, factor on the default penalty), and with the "
            "temperature alone chosen so. Errors and log losses are those on test images."
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


def make_table(labelled: bool, cells: list[Any], found: np.ndarray) -> Table:
    """Return a row per set of images, and the means of ratios."""
    rows = []
    for ((name, _), rate), (plain, chosen, soft) in zip(cells, found, strict=True):
        rows.append(
            [
                f"{name}, {rate:.0%}",
                f"{100 * plain[0]:.3f}",
                f"{100 * chosen[0]:.3f}",
                chosen[3],
                f"{plain[1]:.5f}",
                f"{chosen[1]:.5f}",
                f"{soft[1]:.5f}",
                soft[3],
                f"{plain[2]:.2f}",
                f"{chosen[2]:.2f}",
                f"{soft[2]:.2f}",
                f"{chosen[4] / plain[4]:.1f}",
            ]
        )
    numbers = found[:, :, [0, 1, 4]].astype(float)
    ratio = numbers / numbers[:, :1]
    rows.append(
        [
            "geometric mean, / as it comes",
            "",
            f"{np.exp(np.log(ratio[:, 1, 0]).mean()):.3f}",
            *("", ""),
            f"{np.exp(np.log(ratio[:, 1, 1]).mean()):.3f}",
            f"{np.exp(np.log(ratio[:, 2, 1]).mean()):.3f}",
            *("", "", "", ""),
            f"{np.exp(np.log(ratio[:, 1, 2]).mean()):.1f}",
        ]
    )
    title = f"{'With' if labelled else 'Without'} clean images"
    return Table(title, HEAD, rows)


HEAD = [
    "images, flips",
    "error, %",
    "selected",
    "context, scale, penalty",
    "log loss",
    "selected",
    "temperature alone",
    "temperature",
    "expected / wrong",
    "selected",
    "temperature alone",
    "CPU time of selection",
]


if __name__ == "__main__":
    sys.exit(main())
