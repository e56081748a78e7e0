"""One grid model given in different ways: `python -m benchmarks.grids [--markdown FILE]`.

The posterior of an image is given as `grid_cuts`, as one `Cut` with a list of edges, and by a UAI
file: width of the bracket, largest difference of marginals, processor time. Then one pixel of the
model is fixed: the ratio of the processor times of prepared solves and of exact samples to those of
the whole model, interleaved, must stay below 1.3.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.report import Table

LIMIT = 1.3
ALPHA = (1.0, 1.5)


def posterior(side: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the field of a noisy silhouette, and 32 noisy versions of it."""
    rng = np.random.default_rng(seed)
    clean = ls.make_silhouettes(1, (side, side), seed=seed)[0].ravel()
    noisy = clean ^ (rng.random(side * side) < 0.1)
    field = np.log(9.0) * (2.0 * noisy - 1.0)
    return field, field + rng.normal(size=(32, side * side))


def seconds(runs: list[Callable[[], object]], repeat: int) -> np.ndarray:
    """Return the median processor seconds of each run, interleaved."""
    taken = np.empty((repeat, len(runs)))
    for row in taken:
        for place, run in enumerate(runs):
            start = time.process_time()
            run()
            row[place] = time.process_time() - start
    return np.asarray(np.median(taken, axis=0))


def same_grid(side: int, seed: int) -> Table:
    """Compare the ways to give one model."""
    field, _ = posterior(side, seed)
    fh, fv = ls.grid_cuts((side, side))
    edges = np.concatenate([fh.edges, fv.edges])
    weights = np.repeat(ALPHA, [len(fh.edges), len(fv.edges)])
    cut = ls.Cut(side * side, edges, weights)
    models = {
        "grid_cuts": ls.LogSupermodular(ALPHA[0] * fh + ALPHA[1] * fv - ls.Modular(field)),
        "Cut": ls.LogSupermodular(cut - ls.Modular(field)),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.uai"
        ls.write_uai(models["grid_cuts"], path)
        models["UAI file"] = ls.read_uai(path)
    first = np.ravel(models["grid_cuts"].marginals())
    rows = []
    for name, model in models.items():
        start = time.process_time()
        bracket = model.bracket()
        between = time.process_time()
        apart = np.abs(np.ravel(model.marginals()) - first).max()
        end = time.process_time()
        cells = [
            f"{bracket.width:.2e}",
            f"{apart:.1e}",
            f"{between - start:.3f}",
            f"{end - between:.3f}",
        ]
        rows.append([name, *cells])
    head = ["given as", "bracket, nats", "marginals differ by", "bracket, s", "marginals, s"]
    return Table(f"One model, {side}x{side}", head, rows)


def one_fixed(sides: list[int], seed: int, repeat: int) -> tuple[Table, float]:
    """Compare models with one fixed pixel with whole ones; return also the largest ratio."""
    rows, largest = [], 0.0
    for side in sides:
        field, fields = posterior(side, seed)
        cuts = ls.grid_cuts((side, side))
        pixel = side * (side // 3) + side // 3
        whole = ls.prepare(cuts)
        part = ls.prepare([cut.condition({pixel: 1})[0] for cut in cuts])
        rest = np.ascontiguousarray(np.delete(fields, pixel, axis=1))
        model = ls.LogSupermodular(ALPHA[0] * cuts[0] + ALPHA[1] * cuts[1] - ls.Modular(field))
        fixed = model.condition({pixel: 1})
        solves = seconds(
            [partial(whole.maximize, fields, ALPHA), partial(part.maximize, rest, ALPHA)], repeat
        )
        draws = seconds([partial(m.sample, 8, seed=0) for m in (model, fixed)], repeat)
        for what, (before, after), count in (("solve", solves, 32), ("exact sample", draws, 8)):
            largest = max(largest, after / before)
            cells = [f"{1e6 * t / count:.1f}" for t in (before, after)]
            rows.append([f"{side}x{side}", what, *cells, f"{after / before:.2f}"])
    head = ["image", "what", "whole, us", "one pixel fixed, us", "ratio"]
    return Table(f"One pixel fixed (limit {LIMIT})", head, rows), largest


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if a ratio is above the limit."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grids", description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--repeat", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args(given)
    with threadpool_limits(1):
        tables = [same_grid(side, args.seed) for side in args.sides[:1]]
        fixed, largest = one_fixed(args.sides, args.seed, args.repeat)
    tables.append(fixed)
    show(tables)
    if args.markdown:
        text = "Processor time on one thread; medians of interleaved runs."
        write_page(
            args.markdown, "Grids, however they are given", "benchmarks.grids", given, text, tables
        )
    return int(largest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
