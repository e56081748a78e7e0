"""Seconds per exact sample beyond pairwise functions: `python -m benchmarks.sampling_speed`.

Coupling from the past with incremental gains, against the same sweeps with one evaluation of f per
gain. If the latter would take too long, a few sweeps are timed and multiplied by their number
(marked ~). Both give the same samples, which is checked if both are run. "Sweeps back" is a median;
"refused" counts samples that do not coalesce within the sampler's limit. Processor time on one
thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import logsuper as ls
from benchmarks.measure import timed
from logsuper.functions import Evaluated, split_modular
from logsuper.sampling._cftp import coupled_states
from logsuper.sampling._scan import GenericScan, Scan, Sweeps, make_scan

MAX_SWEEPS = 2**13
# Seconds of slow sweeps that are timed if all of them would take too long.
TASTE = 1.0


class Case(NamedTuple):
    """A function to sample."""

    name: str
    f: ls.SubmodularFunction


class Coupled(NamedTuple):
    """The sample (None if the chains did not coalesce), sweeps back, and the total of sweeps."""

    state: Any
    reached: int
    sweeps: int


def kernel(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a random covariance."""
    A = rng.normal(size=(n, n + 1))
    return A @ A.T / n + 0.1 * np.eye(n)


def cases(seed: int, scale: float = 1.0) -> Iterator[Case]:
    """Yield functions; `scale` is a factor of their sizes."""
    rng = np.random.default_rng(seed)
    for n, weights in ((50, (0.3, 0.45, 1.0)), (200, (0.1, 0.2))):
        size = max(4, round(scale * n))
        benefits = rng.random((size, size))
        for weight in weights:
            name = f"facility location, {size} facilities and users, weight {weight:g}"
            yield Case(name, weight * ls.FacilityLocation(benefits))
    size = max(4, round(scale * 200))
    yield Case(f"log-det, {size} elements", ls.LogDet(kernel(rng, size)))
    half = size // 2
    yield Case(f"Gaussian information, {half} elements", ls.GaussianInformation(kernel(rng, half)))
    covers = rng.random((size, 2 * size)) < 6.0 / (2 * size)
    field = ls.Modular(np.full(size, 3.0))
    yield Case(f"coverage, {size} elements, {2 * size} items", ls.Coverage(covers) - field)
    mixed = ls.Coverage(covers) + ls.ConcaveCardinality(np.sqrt, size) - field
    yield Case(f"the same + root of the count, {size} elements", mixed)


def slow_scan(f: ls.SubmodularFunction) -> Scan:
    """Return a scan that evaluates f for each gain."""
    g, t = split_modular(f)
    return GenericScan(g, t, [(1.0, Evaluated(g))])


def couple(scan: Scan, problem: int) -> Coupled:
    """Double the number of sweeps until the chains coalesce, as the sampler does."""
    sweeps, done = 1, 0
    number = np.array([problem], dtype=np.uint64)
    while True:
        states = coupled_states(
            scan, scan.modular[None], Sweeps(1, number, range(sweeps - 1, -1, -1))
        )[0]
        done += sweeps
        if np.array_equal(*states):
            return Coupled(states[0], sweeps, done)
        if sweeps >= MAX_SWEEPS:
            return Coupled(None, sweeps, done)
        sweeps *= 2


def sweep_seconds(scan: Scan, taste: float) -> float:
    """Return the processor time of one sweep of two chains, from as many as fit in some seconds."""
    number, count, start = np.zeros(1, dtype=np.uint64), 0, time.process_time()
    while time.process_time() - start < taste or count == 0:
        coupled_states(scan, scan.modular[None], Sweeps(1, number, range(1)))
        count += 1
    return (time.process_time() - start) / count


def measure(case: Case, samples: int, patience: float, taste: float = TASTE) -> list[str]:
    """Return a row of the table."""
    quick, slow = make_scan(case.f), slow_scan(case.f)
    found, seconds = timed(lambda: [couple(quick, k) for k in range(samples)], "cpu")
    per_sample = seconds / samples
    before = sweep_seconds(slow, taste) * sum(one.sweeps for one in found) / samples
    mark = "~"
    if before <= patience:
        again, before = timed(lambda: couple(slow, 0), "cpu")
        if not np.array_equal(again.state, found[0].state):
            raise AssertionError(f"{case.name}: the samples differ")
        before *= sum(one.sweeps for one in found) / samples / found[0].sweeps
        mark = ""
    reached = f"{np.median([one.reached for one in found]):.0f}"
    refused = f"{sum(one.state is None for one in found)} of {samples}"
    ratio = f"{before / per_sample:.0f}"
    return [case.name, reached, refused, f"{per_sample:.2g}", f"{mark}{before:.2g}", ratio]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.sampling_speed", description=__doc__)
    parse.add_argument("--samples", type=int, default=5, help="exact samples of each function")
    parse.add_argument("--seed", type=int, default=0)
    parse.add_argument(
        "--patience", type=float, default=20.0, help="seconds that a slow sample may take"
    )
    parse.add_argument("--quick", action="store_true", help="small functions: a smoke test")
    options = parse.parse_args(arguments)
    scale, taste = (0.05, 0.01) if options.quick else (1.0, TASTE)
    table = Table("function", "sweeps back", "refused", "seconds", "by evaluations", "ratio")
    with threadpool_limits(1):
        for case in cases(options.seed, scale):
            table.add_row(*measure(case, options.samples, options.patience, taste))
    Console(width=None if sys.stdout.isatty() else 130).print("seconds per exact sample", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
