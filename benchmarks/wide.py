"""What to say where certified brackets are wide: `python -m benchmarks.wide`.

Marginals by strips are certified within brackets, which strong couplings and weak fields make wide.
On grids that are narrow enough for exact marginals, with strips of a small window, the pixels whose
bracket is wider than a half get other estimates, clipped into it: mixtures of phases, as "auto"
has it, frequencies under perturbations, the best point of the Bethe free energy, and samples. The
exit code is 1 if one of the first three is nearer to the truth than the phases.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

import logsuper as ls
from benchmarks.tables import show
from logsuper.bounds._phases import phases
from logsuper.report import Table

WINDOW, WIDE = 6, 0.5
Floats = NDArray[np.float64]

# couplings across and down, rate of flips, weight of observations, side of a hole in these
POSTERIORS = (
    ((1.2, 1.8), 0.4, 2.3, 0),
    ((2.0, 2.0), 0.3, 1.5, 12),
    ((1.0, 1.0), 0.4, 1.0, 0),
    ((1.5, 1.5), 0.2, 1.0, 14),
)


def perturbed(m: ls.LogSupermodular) -> Floats:
    """Return conditional means under perturbations."""
    return ls.prepare([m.f]).conditional_means(np.zeros(m.n), [1.0], 64, 0).ravel()


WAYS: dict[str, Callable[[ls.LogSupermodular], Floats]] = {
    "phases": lambda m: phases(m.f),
    "perturbations": perturbed,
    "Bethe": lambda m: m.marginals("bethe").values,
    "Swendsen-Wang": lambda m: (
        m.marginals("sampling", sampler="swendsen_wang", n_samples=64, seed=0).values
    ),
}


def grids() -> Iterator[tuple[str, ls.LogSupermodular]]:
    """Yield grids of 14x40 with weak fields."""
    rng = np.random.default_rng(0)
    fields = {
        "fields of .03": np.full(560, 0.03),
        "fields of .002": np.full(560, 0.002),
        "fields of both signs, .3": 0.3 * rng.normal(size=560),
        "fields of both signs, .6": 0.6 * rng.normal(size=560),
    }
    across, down = ls.grid_cuts((14, 40))
    for coupling in (2.0, 4.0):
        for name, t in fields.items():
            f = coupling * across + coupling * down - ls.Modular(t)
            yield f"14x40, couplings {coupling:g}, {name}", ls.LogSupermodular(f, shape=(f.n,))


def posteriors(count: int) -> Iterator[tuple[str, ls.LogSupermodular]]:
    """Yield posteriors of noisy silhouettes, 16 rows of each; in some a hole was not observed."""
    across, down = ls.grid_cuts((16, 50))
    for k, x in enumerate(ls.make_silhouettes(count, seed=1)):
        for (a, b), rate, weight, hole in POSTERIORS:
            z = ls.Flips(rate).sample(x, seed=k)
            t = weight * np.log((1 - rate) / rate) * (2.0 * z[17:33] - 1.0)
            t[1 : 1 + hole, 18 : 24 + hole] *= hole == 0
            f = a * across + b * down - ls.Modular(t.ravel())
            name = f"silhouette {k}, couplings {a:g}, {b:g}, flips {rate:g}, hole {hole}"
            yield name, ls.LogSupermodular(f, shape=(f.n,))


def measure(models: Iterator[tuple[str, ls.LogSupermodular]], title: str) -> tuple[Table, Floats]:
    """Return the mean errors of wide pixels, and their means over the models."""
    rows, errors, seconds = [], [], np.zeros(len(WAYS))
    for name, m in models:
        strips, truth = m.marginals("strips", window=WINDOW), m.marginals("exact").values
        wide = strips.upper - strips.lower > WIDE
        if not wide.any():
            continue
        found = [strips.values]
        for k, way in enumerate(WAYS.values()):
            start = time.process_time()
            found.append(np.clip(way(m), strips.lower, strips.upper))
            seconds[k] += time.process_time() - start
        errors.append([np.abs(values - truth)[wide].mean() for values in found])
        rows.append([name, f"{wide.mean():.0%}", *(f"{error:.3f}" for error in errors[-1])])
    mean = np.mean(errors, axis=0)
    rows.append(["mean", "", *(f"{error:.3f}" for error in mean)])
    rows.append(["seconds", "", "", *(f"{t / len(errors):.3f}" for t in seconds)])
    return Table(title, ["model", "wide", "middle", *WAYS], rows), mean


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if the phases are not the nearest to the truth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide", description=__doc__)
    parser.add_argument("--images", type=int, default=4, help="silhouettes")
    options = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = [
            measure(grids(), "Mean errors where brackets are wide: grids"),
            measure(posteriors(options.images), "The same: posteriors of noisy silhouettes"),
        ]
    show([table for table, _ in measured])
    # the middle, the phases, perturbations and Bethe
    return int(any(mean[1] > min(mean[0], *mean[2:4]) for _, mean in measured))


if __name__ == "__main__":
    sys.exit(main())
