"""Gain of variance reduction at equal numbers of cuts: `python -m benchmarks.variance`.

The factor is the variance of the plain mean of M perturbed maxima divided by that of the default
estimate from M minimisations, including its pilot, over repeated runs. The models are those of
figure 1 of Shpakova and Bach (2016), cuts between two Gaussian clusters, and posteriors of noisy
silhouettes (the Weizmann horses of `--data`, else those that ship with the package).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import logsuper as ls
from benchmarks.images import load_silhouettes
from logsuper.bounds import _logistic
from logsuper.solvers import prepare

ALPHA = (1.05, 2.2)
POINTS = 50
GIVEN = (1, 5, 10, 25, 45)
PLAIN = 20_000


@dataclass(frozen=True)
class Case:
    """A function, and the factor required on it."""

    name: str
    f: ls.SubmodularFunction
    floor: float


def clusters(seed: int, decay: float, given: int) -> ls.SubmodularFunction:
    """Return the cut between two clusters, with points given as 1 in one and as 0 in the other."""
    graph = ls.gaussian_mixture_graph(POINTS, decay=decay, seed=seed)
    fixed = {d + c * POINTS: 1 - c for d in range(given) for c in (0, 1)}
    return graph.cut.condition(fixed)[0]


def posterior(image: np.ndarray, flips: float, rng: np.random.Generator) -> ls.SubmodularFunction:
    """Return the posterior of an image whose pixels are flipped with a given probability."""
    observed = image ^ (rng.random(image.shape) < flips)
    t = np.log((1.0 - flips) / flips) * (2.0 * observed.ravel() - 1.0)
    horizontal, vertical = ls.grid_cuts(image.shape)
    return ALPHA[0] * horizontal + ALPHA[1] * vertical - ls.Modular(t)


def cases(data: Path | None, seed: int) -> Iterator[Case]:
    """Yield the models."""
    for decay in (1, 3):
        for given in GIVEN:
            name = f"clusters, c = {decay}, k = {given}"
            yield Case(name, clusters(seed, decay, given), 6.0)
    rng = np.random.default_rng(seed)
    images = load_silhouettes(data, 3)
    for flips, floor in ((0.2, 10.0), (0.1, 40.0)):
        for k, image in enumerate(images):
            yield Case(f"silhouette {k}, {flips:.0%} flipped", posterior(image, flips, rng), floor)


def measure(case: Case, runs: int, samples: int) -> dict[str, float]:
    """Return the variance of a plain draw, and the factor of each method of variance reduction."""
    zero = np.zeros(case.f.n)
    plain = prepare([case.f]).perturb(zero, [1.0], PLAIN, seed=1, n_jobs=-1).values[0]
    found = {"deviation": float(plain.std(ddof=1))}
    for how in ("latin_hypercube", "regression", "auto"):
        values = [
            _logistic.log_partition(
                case.f, n_samples=samples, variance_reduction=how, seed=seed
            ).value
            for seed in range(runs)
        ]
        found[how] = float(plain.var(ddof=1) / samples / np.var(values, ddof=1))
        found["bound"] = float(np.mean(values))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if the default misses a floor."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.variance", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parse.add_argument("--runs", type=int, default=200)
    parse.add_argument("--samples", type=int, default=100)
    parse.add_argument("--seed", type=int, default=0)
    options = parse.parse_args(arguments)
    table = Table("model", "n", "bound", "sd of a draw", "Latin", "regression", "auto", "floor")
    missed = 0
    for case in cases(options.data, options.seed):
        found = measure(case, options.runs, options.samples)
        missed += found["auto"] < case.floor
        factors = (f"{found[how]:.3g}" for how in ("latin_hypercube", "regression", "auto"))
        size, bound, deviation = str(case.f.n), found["bound"], found["deviation"]
        row = (case.name, size, f"{bound:.2f}", f"{deviation:.2f}", *factors, f"{case.floor:g}")
        table.add_row(*row)
    title = (
        f"variance of the plain mean over that of others, {options.samples} minimisations each, "
        f"{options.runs} runs"
    )
    Console(width=None if sys.stdout.isatty() else 110).print(title, table)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
