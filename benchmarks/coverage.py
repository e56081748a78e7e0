"""Coverage of the confidence intervals: `python -m benchmarks.coverage`.

Rows are methods, columns are models. A cell gives the fraction of intervals with a nominal coverage
of 95 % that contain the truth, and their width: the mean half-width divided by the root mean square
error, about 2 for a normal estimate. The truth is exact inference for estimates of log Z and
marginals, a quadrature for the logistic bound of disjoint paths, and otherwise a reference of many
independent draws, whose own error is a small part of an interval.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.console import Console
from rich.table import Table

import logsuper as ls
from logsuper import sampling
from logsuper.bounds import Bound, Marginals, _exact, _logistic, _power
from logsuper.bounds._draws import logit
from logsuper.sampling import NotCoalesced
from logsuper.solvers import prepare

NOMINAL, LEAST = 0.95, 0.90
PATHS = 20
# The power bound is a different quantity for every a, so a is fixed here.
POWER = 0.5


@dataclass(frozen=True)
class Case:
    """A function, and its true quantities."""

    name: str
    f: ls.SubmodularFunction
    reference: int
    known_bound: float | None = None

    @cached_property
    def log_z(self) -> float:
        """The log-partition function, by exact inference."""
        return _exact.log_partition(self.f).value

    @cached_property
    def marginals(self) -> np.ndarray:
        """The marginals, by exact inference."""
        return _exact.marginals(self.f).values

    @cached_property
    def logistic(self) -> float:
        """The logistic bound: a quadrature, or the unbiased estimate of many draws."""
        if self.known_bound is not None:
            return self.known_bound
        return _logistic.log_partition(self.f, n_samples=self.reference // 2, seed=2**40).value

    @cached_property
    def perturbed_marginals(self) -> np.ndarray:
        """The means of the maximisers under logistic noise."""
        prepared, step = prepare([self.f]), min(self.reference, 10**5)
        means = [
            prepared.perturb(
                np.zeros(self.f.n), [1.0], step, 2**40, first_sample=start, n_jobs=-1
            ).mean[0]
            for start in range(0, self.reference, step)
        ]
        return np.asarray(np.mean(means, axis=0))

    @cached_property
    def ratio_marginals(self) -> np.ndarray:
        """The limit of the ratio form of the marginals."""
        count = max(2000, self.reference // 100 // self.f.n)
        return _logistic.marginals(self.f, n_samples=count, form="ratio", seed=2**40).values

    @cached_property
    def power(self) -> tuple[float, np.ndarray]:
        """The power bound and its marginals."""
        options = {"a": POWER, "n_samples": max(20_000, self.reference // 10), "seed": 2**40}
        return (
            _power.log_partition(self.f, **options).value,
            _power.marginals(self.f, **options).values,
        )


def cases(reference: int) -> list[Case]:
    """Return the models: weak and strong coupling, strong fields, small models, images."""
    rng = np.random.default_rng(0)

    def grid(shape: tuple[int, int], weights: float, fields: np.ndarray) -> ls.SubmodularFunction:
        across, down = ls.grid_cuts(shape)
        return weights * across + weights * down - ls.Modular(fields)

    cover = ls.Coverage(rng.random((8, 6)) < 0.4, rng.exponential(size=6))
    return [
        Case("pair, decided", ls.Cut(2, [(0, 1)], 3.0) - ls.Modular([10.0, 10.0]), reference),
        Case("pair", ls.Cut(2, [(0, 1)], 1.0) - ls.Modular([0.3, -0.2]), reference),
        Case("3x3", grid((3, 3), 0.7, rng.normal(size=9)), reference),
        Case("3x3, decided", grid((3, 3), 1.0, rng.choice([-6.0, 6.0], 9)), reference),
        Case("coverage of 8", cover - ls.Modular(rng.normal(size=8)), reference),
        Case("4x4, w = 2.5", grid((4, 4), 2.5, 0.1 * rng.normal(size=16)), reference),
        Case("4x4, w = 2.5, no field", grid((4, 4), 2.5, np.zeros(16)), reference),
        paths(rng, reference),
        Case("8x8 posterior", posterior(rng), reference),
    ]


def paths(rng: np.random.Generator, reference: int) -> Case:
    """Return disjoint paths of three with random weights and fields, and the logistic bound.

    The middle element has two neighbours, since control variates are exact for single edges.
    """
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
    return Case(f"{PATHS} paths of 3", f, reference, float(total))


def posterior(rng: np.random.Generator) -> ls.SubmodularFunction:
    """Return the posterior of an 8 x 8 image with a tenth of the pixels flipped."""
    clean = np.add.outer((np.arange(8) - 3.2) ** 2, (np.arange(8) - 4.1) ** 2) < 9.0
    observed = clean ^ (rng.random((8, 8)) < 0.1)
    across, down = ls.grid_cuts((8, 8))
    t = np.log(9.0) * (2.0 * observed.ravel() - 1.0)
    return 1.05 * across + 2.2 * down - ls.Modular(t)


@dataclass(frozen=True)
class Question:
    """A method with its options, the quantity that it estimates, and its fraction of the runs."""

    name: str
    ask: Callable[[Case, int], Bound | Marginals]
    truth: Callable[[Case], float | np.ndarray]
    share: float = 1.0


def _logistic_bound(samples: int, how: str = "auto") -> Question:
    def ask(case: Case, seed: int) -> Bound:
        return _logistic.log_partition(case.f, n_samples=samples, variance_reduction=how, seed=seed)

    return Question(f"logistic, {samples} draws" + (f", {how}" if how != "auto" else ""), ask,
                    lambda case: case.logistic)  # fmt: skip


def _ti(case: Case, seed: int) -> Bound:
    # coupling from the past refuses the strongest couplings
    sampler = "swendsen_wang" if case.name.startswith("4x4") else "cftp"
    return sampling.log_partition(case.f, "ti", seed=seed, n_samples=100, steps=16, sampler=sampler)


QUESTIONS = [
    Question("ti", _ti, lambda case: case.log_z, 0.5),
    Question(
        "ais",
        lambda case, seed: sampling.log_partition(case.f, "ais", seed=seed, steps=100),
        lambda case: case.log_z,
        0.5,
    ),
    *(_logistic_bound(samples) for samples in (20, 50, 100, 400)),
    *(_logistic_bound(50, how) for how in ("none", "latin_hypercube", "regression")),
    Question(
        "power, 100 draws",
        lambda case, seed: _power.log_partition(case.f, a=POWER, n_samples=100, seed=seed),
        lambda case: case.power[0],
    ),
    Question(
        "marginals: sampling",
        lambda case, seed: sampling.marginals(case.f, n_samples=100, seed=seed),
        lambda case: case.marginals,
    ),
    Question(
        "marginals: logistic",
        lambda case, seed: _logistic.marginals(case.f, n_samples=100, seed=seed),
        lambda case: case.perturbed_marginals,
    ),
    Question(
        "marginals: smoothed",
        lambda case, seed: _logistic.marginals(case.f, n_samples=40, form="smoothed", seed=seed),
        lambda case: case.perturbed_marginals,
        0.2,
    ),
    Question(
        "marginals: ratio",
        lambda case, seed: _logistic.marginals(case.f, n_samples=40, form="ratio", seed=seed),
        lambda case: case.ratio_marginals,
        0.2,
    ),
    Question(
        "marginals: power",
        lambda case, seed: _power.marginals(case.f, a=POWER, n_samples=100, seed=seed),
        lambda case: case.power[1],
    ),
]


@dataclass(frozen=True)
class Cell:
    """Fraction of a method's intervals that contain the truth of a model, and their width."""

    coverage: float
    half_width: float
    error: float

    @property
    def width(self) -> float:
        """Mean half-width over the root mean square error."""
        return self.half_width / self.error if self.error else np.inf

    def __str__(self) -> str:
        return f"{100 * self.coverage:.1f} %, {self.width:.3g}"


def measure(question: Question, case: Case, runs: int) -> Cell:
    """Run a method repeatedly with different seeds; of marginals, every element is counted."""
    truth = np.atleast_1d(question.truth(case))
    values, halves, held = [], [], []
    for seed in range(runs):
        found = question.ask(case, seed)
        if isinstance(found, Marginals):
            assert found.stderr is not None
            low, high = found.values - 1.96 * found.stderr, found.values + 1.96 * found.stderr
            values.append(found.values)
        else:
            assert found.interval is not None
            low, high = (np.atleast_1d(end) for end in found.interval)
            values.append(np.atleast_1d(found.value))
        # tolerance for the errors of exact inference and of references
        slack = 1e-12 * (1.0 + np.abs(truth))
        held.append((low <= truth + slack) & (truth - slack <= high))
        halves.append((high - low) / 2.0)
    errors = np.array(values) - truth
    return Cell(float(np.mean(held)), float(np.mean(halves)), float(np.sqrt(np.mean(errors**2))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is the number of cells below 90 %."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parse.add_argument("--runs", type=int, default=400)
    parse.add_argument("--reference", type=int, default=10**6, help="draws behind a truth")
    parse.add_argument("--only", default="", help="questions whose name begins so")
    parse.add_argument("--model", default="", help="models whose name begins so")
    options = parse.parse_args(arguments)
    begun = time.perf_counter()
    models = [case for case in cases(options.reference) if case.name.startswith(options.model)]
    table = Table("coverage, half-width / rms error", *(case.name for case in models))
    low = 0
    for question in QUESTIONS:
        if not question.name.startswith(options.only):
            continue
        runs = max(2, round(options.runs * question.share))
        shown = []
        for case in models:
            try:
                cell = measure(question, case, runs)
            except NotCoalesced:
                shown.append("refused")
                continue
            below = cell.coverage < LEAST
            low += below
            shown.append(f"[bold]{cell}[/]" if below else str(cell))
        table.add_row(question.name, *shown)
    title = f"{options.runs} runs (half for ti and ais, a fifth for smoothed and ratio) at 95 %"
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(title, table)
    console.print(f"{low} cells below {LEAST:.0%}; {time.perf_counter() - begun:.0f} s")
    return low


if __name__ == "__main__":
    sys.exit(main())
