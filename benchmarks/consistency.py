"""Do weights learned without labels approach those with them? `python -m benchmarks.consistency`.

Images are exact samples of a known model on a grid, seen through a channel. Trees are trained on
the noisy images and stand beside the observations as a feature. From the same images and features,
weights are learned with labels by exact maximum likelihood, and without them by moments. If the
second are consistent for the first, their distance falls as the square root of the number of
images: a slope of -1/2 in logarithms. Every other row has a feature for which this must fail: the
same log-odds plus those of the pixel itself, which contain its own noise.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.estimators._blind_spot import train_blind_spot
from logsuper.learning import Penalty, exact, make_examples, moments
from logsuper.report import Table

SIDE = 8
ALPHA, FIELD = (0.5, 0.8), 0.1
COUNTS = (40, 120, 360)
CHANNELS = (ls.Flips(0.15), ls.AsymmetricFlips(0.05, 0.25))
KINDS = ("trees", "trees that contain the pixel itself")
# Quadratic regulariser of all weights, nats per image, with labels and without: weights of a
# feature with its own noise stay finite, and the others approach each other all the same.
WEAK = 0.05
# Standard errors that a slope may be away from what is wanted.
WIDE = 3.0
TEXT = (
    f"Exact samples of an Ising-like model on grids of {SIDE} x {SIDE} pixels (weights "
    f"{ALPHA[0]} and {ALPHA[1]}, field {FIELD}). Weights: two of the cuts, one of the field, one "
    "of the trees' log-odds, one of the observation. Distance: root of the sum of squared "
    "differences between weights learned without and with labels, mean and standard deviation over "
    "seeds. The slope is that of its logarithm against the logarithm of the number of images, by "
    "least squares over all seeds."
)


def distances(channel: Any, count: int, seed: int, classifier: Any = None) -> list[float]:
    """Return the distance between weights learned without and with labels, for each of `KINDS`."""
    shape = (SIDE, SIDE)
    cuts = ls.grid_cuts(shape)
    prior = ALPHA[0] * cuts[0] + ALPHA[1] * cuts[1] - ls.Modular(np.full(SIDE**2, FIELD))
    rng = np.random.default_rng([seed, count])
    x = ls.LogSupermodular(prior).sample(count, seed=rng).reshape(-1, *shape)
    z = channel.sample(x, seed=rng)
    _, judge = train_blind_spot(
        list(z), None, channel, classifier, images=list(z), windows=None, key=seed, threads=1
    )

    def whole(numbers: Any, odds: Any) -> Any:
        return judge(numbers, odds) + odds.reshape(len(odds), -1)

    found = []
    for feature in (judge, whole):
        data = make_examples(
            cuts, labels=x, observed=z, channel=channel, judge=feature, modular="shared", scale=True
        )
        penalty = Penalty.of(data.layout, WEAK, WEAK, WEAK, WEAK)
        with warnings.catch_warnings(action="ignore", category=ls.ConvergenceWarning):
            free = moments(data, penalty, relax=0.0, method="exact", n_jobs=1).theta
            told = exact(data, penalty, n_jobs=1).theta
        found.append(float(np.linalg.norm(free - told)))
    return found


def slope(counts: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the slope of log distance against log count, (counts, seeds), and its error."""
    x = np.repeat(np.log(counts), found.shape[1])
    y = np.log(found).ravel()
    x, y = x - x.mean(), y - y.mean()
    steep = float(x @ y / (x @ x))
    return steep, float(np.sqrt(np.sum((y - steep * x) ** 2) / (len(x) - 2) / (x @ x)))


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if a slope is not what theory says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consistency", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the table here, too")
    options = parser.parse_args(arguments)
    cells = [
        (channel, count, seed)
        for channel in CHANNELS
        for count in sorted(options.counts, reverse=True)
        for seed in range(options.seeds)
    ]
    each = joblib.Parallel(options.jobs)(joblib.delayed(distances)(*cell) for cell in cells)
    shape = (len(CHANNELS), len(options.counts), options.seeds, len(KINDS))
    found = np.array(each).reshape(shape)[:, ::-1]
    rows, bad = [], False
    for c, k in np.ndindex(len(CHANNELS), len(KINDS)):
        steep, error = slope(np.array(sorted(options.counts)), found[c, ..., k])
        legal = k == 0
        fits = abs(steep + 0.5) < WIDE * error if legal else steep > -0.5 + WIDE * error
        bad |= not fits
        said = "-1/2" if legal else "above -1/2"
        shown = [f"{row.mean():.3f} ± {row.std():.3f}" for row in found[c, ..., k]]
        verdict = f"{steep:+.2f} ± {error:.2f} ({said}: {'yes' if fits else 'NO'})"
        rows.append([repr(CHANNELS[c]), KINDS[k], *shown, verdict])
    head = ["channel", "feature", *(f"{n} images" for n in sorted(options.counts)), "slope"]
    tables = [Table("Distance of weights learned without labels from those with", head, rows)]
    show(tables)
    if options.markdown:
        given = sys.argv[1:] if arguments is None else arguments
        title, name = "Consistency without labels", "benchmarks.consistency"
        write_page(options.markdown, title, name, given, TEXT, tables)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
