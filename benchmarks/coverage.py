"""How often 95 % intervals hold the logistic bound: `python -m benchmarks.coverage`.

The truth is a quadrature for disjoint paths of three elements, whose middle one sees two neighbours
(single edges would be no test: the control variates are exact for them), and the mean of ten
million independent draws for the posterior of a small image.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import logsuper as ls
from logsuper.bounds import _logistic
from logsuper.bounds._draws import logit
from logsuper.solvers import prepare

LOW, HIGH = 0.94, 0.96
PATHS = 20


@dataclass(frozen=True)
class Case:
    """A function, its logistic bound and the standard error of that."""

    name: str
    f: ls.SubmodularFunction
    truth: float
    stderr: float = 0.0


def paths(rng: np.random.Generator) -> Case:
    """Return disjoint paths of three with random weights and fields, and the exact bound."""
    first = 3 * np.arange(PATHS)
    edges = np.concatenate([np.stack([first, first + 1], 1), np.stack([first + 1, first + 2], 1)])
    weights = rng.exponential(size=2 * PATHS)
    t = rng.normal(size=3 * PATHS)
    f = ls.Cut(3 * PATHS, edges, weights) - ls.Modular(t)
    nodes, mass = np.polynomial.legendre.leggauss(400)
    z, mass = logit((nodes + 1.0) / 2.0), mass / 2.0
    total = 0.0
    for p in range(PATHS):
        (left, w), (right, v) = (t[3 * p], weights[p]), (t[3 * p + 2], weights[PATHS + p])
        # eliminate the ends: each adds (h - w)_+ and sends clip(h, -w, w) to the middle
        sent = np.clip(z + left, -w, w)[:, None] + np.clip(z + right, -v, v)
        ends = np.logaddexp(0.0, left - w) + np.logaddexp(0.0, right - v)
        total += ends + mass @ np.logaddexp(0.0, t[3 * p + 1] + sent) @ mass
    return Case(f"{PATHS} paths of three", f, float(total))


def posterior(rng: np.random.Generator, draws: int) -> Case:
    """Return the posterior of an 8 x 8 image with a tenth of the pixels flipped."""
    shape = (8, 8)
    clean = np.add.outer((np.arange(8) - 3.2) ** 2, (np.arange(8) - 4.1) ** 2) < 9.0
    observed = clean ^ (rng.random(shape) < 0.1)
    horizontal, vertical = ls.grid_cuts(shape)
    t = np.log(9.0) * (2.0 * observed.ravel() - 1.0)
    f = 1.05 * horizontal + 2.2 * vertical - ls.Modular(t)
    prepared, key = prepare([f]), int(rng.integers(2**63))
    step = min(draws, 10**6)
    total = square = 0.0
    for start in range(0, draws, step):
        values = prepared.perturb(
            np.zeros(f.n), [1.0], step, key, first_sample=start, n_jobs=-1
        ).values
        total += float(values.sum())
        square += float((values**2).sum())
    mean = total / draws
    return Case("8 x 8 posterior", f, mean, float(np.sqrt((square / draws - mean**2) / draws)))


def run(case: Case, how: str, runs: int, samples: int) -> tuple[float, float, float]:
    """Return the share of intervals that hold the truth, the error's size and the mean width."""
    bounds = [
        _logistic.log_partition(case.f, samples=samples, variance_reduction=how, seed=seed)
        for seed in range(runs)
    ]
    intervals = np.array([bound.interval for bound in bounds])
    held = (intervals[:, 0] <= case.truth) & (case.truth <= intervals[:, 1])
    errors = np.array([bound.value for bound in bounds]) - case.truth
    return (
        float(held.mean()),
        float(np.sqrt((errors**2).mean())),
        float(np.ptp(intervals, 1).mean()),
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if the default estimator's coverage is off."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parse.add_argument("--runs", type=int, default=2000)
    parse.add_argument("--samples", type=int, default=100)
    parse.add_argument("--reference", type=int, default=10**7, help="draws behind the posterior")
    parse.add_argument("--seed", type=int, default=0)
    options = parse.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    cases = [paths(rng), posterior(rng, options.reference)]
    table = Table("model", "variance reduction", "truth", "coverage", "rms error", "mean width")
    off = 0
    for case in cases:
        for how in ("auto", "none", "latin_hypercube", "regression"):
            held, error, width = run(case, how, options.runs, options.samples)
            off += how == "auto" and not LOW <= held <= HIGH
            truth = f"{case.truth:.4f}" + (f" ± {case.stderr:.4f}" if case.stderr else "")
            table.add_row(case.name, how, truth, f"{held:.2%}", f"{error:.4f}", f"{width:.4f}")
    title = f"{options.runs} runs of {options.samples} minimisations, 95 % intervals"
    Console(width=None if sys.stdout.isatty() else 110).print(title, table)
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())
