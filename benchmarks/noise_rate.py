"""The estimated noise rate and its standard error: `python -m benchmarks.noise_rate [--data DIR]`.

For shapes of several kinds, numbers of images and rates: how often 95 % intervals (1.96 standard
errors) contain the rate, how wide they are, how often there is a warning about texture. The horses
are included with `--data`. `--train` prints the data behind the constants of the estimate instead:
other shapes, none of which is in the tables. `--refine` prints how much
nearer to the rate the score of a fitted model comes, `--trees` what a classifier of the
surroundings says: how often pixels differ from what it is sure of.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.shapes import blobs, discs, for_training, half_planes, ising
from benchmarks.tables import show, write_page
from logsuper.estimators._blind_spot import train_blind_spot
from logsuper.estimators._mask_examples import gather
from logsuper.learning import score
from logsuper.learning._flip_rates import clean_shares
from logsuper.learning._neighbourhoods import Neighbourhood, choose, count
from logsuper.learning._noise_level import CLUMPED, _measure, _stack, estimate_noise
from logsuper.report import Table

RATES = (0.02, 0.05, 0.1, 0.2)
LEAST, WIDEST = 0.9, 3.0
"""Minimum coverage of 95 % intervals; maximum mean half-width in root mean square errors."""
SIZES = (1000, 4000)
COUPLINGS = (0.3, 0.35, 0.4, 0.44, 0.5, 0.6)
HEAD = ["images", "rate", "bias", "rms error", "least possible", "coverage", "half-width / rms"]

Images = list[NDArray[np.uint8]]


class Cell(NamedTuple):
    """Clean images for the noise."""

    name: str
    images: Images
    must: bool


def cells(data: Path | None) -> Iterator[Cell]:
    """Yield the images of the table; first those whose intervals must have full coverage."""
    kinds = {
        "silhouettes": ls.make_silhouettes(200, seed=0),
        "discs": discs(200, seed=0),
        "half-planes": half_planes(200, seed=0),
    }
    if data is not None:
        kinds["horses"] = load_silhouettes(data, 200)
    for name, images in kinds.items():
        for n in (40, 200):
            yield Cell(f"{n} {name}, 50x50", list(images[:n]), True)
    for size, n in ((128, 30), (256, 10)):
        shape = (size, size)
        yield Cell(
            f"{n} silhouettes, {size}x{size}", list(ls.make_silhouettes(n, shape, seed=1)), False
        )
    for seed in range(3):
        yield Cell(
            f"smooth mask {seed}, 600x600", list(blobs(1, seed, (600, 600), scale=20.0)), False
        )
    mixed = [
        image
        for size in range(24, 104, 8)
        for image in ls.make_silhouettes(6, shape=(size, size + 9), seed=size)
    ]
    yield Cell(f"{len(mixed)} silhouettes, 24x33 to 96x105", mixed, False)


def draw(images: Images, rate: float, seed: list[int]) -> tuple[float, float, float]:
    """Return the estimated rate, its standard error and the statistic of texture for one draw."""
    rng = np.random.default_rng(seed)
    noisy = [image ^ (rng.random(image.shape) < rate) for image in images]
    found = _measure(_stack(noisy), "flips")
    assert found is not None
    return found.on, found.error, found.texture


def coverage(data: Path | None, draws: int, jobs: int) -> tuple[Table, bool]:
    """Return the table of coverage, and whether all required cells reach their limits."""
    rows, good = [], True
    with joblib.Parallel(n_jobs=jobs) as pool:
        for number, cell in enumerate(cells(data)):
            pixels = sum(image.size for image in cell.images)
            for rate in RATES:
                some = draws if cell.must else max(1, draws // 4)
                seeds = ([number, round(1000 * rate), k] for k in range(some))
                found = np.array(
                    pool(joblib.delayed(draw)(cell.images, rate, seed) for seed in seeds)
                )
                off = found[:, 0] - rate
                rms = float(np.sqrt(np.mean(off**2)))
                half = 1.96 * found[:, 1]
                held = float(np.mean(np.abs(off) <= half))
                wide = float(half.mean()) / rms
                good &= not cell.must or (held >= LEAST and wide <= WIDEST)
                alarms = float(np.mean(found[:, 2] > CLUMPED))
                rows.append(
                    [
                        cell.name,
                        f"{rate:.2f}",
                        f"{off.mean():+.5f}",
                        f"{rms:.5f}",
                        f"{np.sqrt(rate * (1 - rate) / pixels):.5f}",
                        f"{held:.1%}",
                        f"{wide:.2f}",
                        f"{alarms:.1%}",
                    ]
                )
                print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    title = f"Coverage of 95 % intervals, {draws} draws of the noise (a quarter on large images)"
    return Table(title, [*HEAD, "warned"], rows), good


def texture(draws: int) -> Table:
    """Return how often there is a warning that Ising fields are not smooth."""
    rows = []
    for coupling in COUPLINGS:
        fields = ising(40, 0, 50, coupling)
        for rate in RATES:
            found = np.array([draw(list(fields), rate, [k]) for k in range(draws)])
            rows.append(
                [
                    f"{coupling:.2f}",
                    f"{rate:.2f}",
                    f"{found[:, 0].mean():.3f}",
                    f"{found[:, 2].mean():.1f}",
                    f"{np.mean(found[:, 2] > CLUMPED):.0%}",
                ]
            )
    head = ["coupling", "rate", "mean estimate", "mean statistic", "warned"]
    return Table(f"Outside of the assumption: 40 Ising fields of 50x50, {draws} draws", head, rows)


def both_rates(draws: int) -> Table:
    """Return the coverage of two rates on silhouettes."""
    rows = []
    for n in (40, 200):
        clean = ls.make_silhouettes(n, seed=0)
        for on, off in ((0.02, 0.1), (0.1, 0.02), (0.1, 0.1), (0.05, 0.2), (0.2, 0.05)):
            found = []
            for k in range(draws):
                noisy = ls.AsymmetricFlips(on, off).sample(clean, seed=k)
                rates = _measure([noisy.astype(np.uint8)], "asymmetric")
                assert rates is not None
                found.append([rates.on, rates.off, *np.sqrt(np.diag(rates.covariance))])
            values = np.array(found)
            row = [str(n), f"{on:.2f}, {off:.2f}"]
            for k, rate in enumerate((on, off)):
                error, half = values[:, k] - rate, 1.96 * values[:, 2 + k]
                rms = float(np.sqrt(np.mean(error**2)))
                row += [
                    f"{error.mean():+.4f}",
                    f"{np.mean(np.abs(error) <= half):.0%}",
                    f"{half.mean() / rms:.2f}",
                ]
            rows.append(row)
    head = ["silhouettes", "on, off", "bias", "coverage", "half-width / rms"]
    return Table(f"Two rates, {draws} draws", [*head, "bias", "coverage", "half-width / rms"], rows)


REFINED = {
    "silhouettes": ls.make_silhouettes,
    "discs": lambda n, shape, seed: discs(n, seed, shape[0]),
    "half-planes": lambda n, shape, seed: half_planes(n, seed, shape[0]),
    "blobs": lambda n, shape, seed: blobs(n, seed, shape, scale=6.0),
}
"""Images of the table of refined rates."""


CASES, FLIPS = ((10, 32), (10, 50), (40, 50)), (0.1, 0.2, 0.3)
"""Their numbers and sides, and the rates."""
UNSURE = (0.004, 1.8)
"""Standard errors of an estimate, absolute and relative to the least possible, to be refined."""


def refine(images: Images, rate: float, seed: list[int]) -> tuple[float, ...]:
    """Return the estimated rate, its standard error, and three rates found with a fitted model.

    The first maximises the score of hidden pixels, the second the sum of their log-probabilities
    with the estimate as a prior, a Gaussian of its standard error. The last is the second where the
    standard error is above `UNSURE`, and above so many times the least possible one.
    """
    rng = np.random.default_rng(seed)
    noisy = [image ^ (rng.random(image.shape) < rate) for image in images]
    first = _measure(_stack(noisy), "flips")
    assert first is not None
    model = ls.MaskDenoiser(ls.Flips(first.on), context="filter", n_jobs=1).fit(noisy)
    examples = gather(model._design, noisy, model.channel_)
    theta = examples.layout.pack(model.parameters_)

    def total(r: float) -> float:
        seen = examples.with_channel(ls.Flips(r))
        found = score(seen, theta, patterns=16, n_samples=16, n_jobs=1)
        return float(sum(np.nansum(part) for part in found.pixels))

    pixels = sum(image.size for image in images)
    step = max(first.error, np.sqrt(first.on * (1 - first.on) / pixels))
    # both are maxima of a parabola, near enough, through five rates
    rates = np.clip(first.on + step * np.arange(-2, 3), 1e-4, 0.49)
    logs = np.array([total(float(r)) for r in rates])
    best = []
    for prior in (0.0, 0.5 / first.error**2):
        curve = np.polyfit(rates - first.on, logs - prior * (rates - first.on) ** 2, 2)
        top = -curve[1] / (2.0 * curve[0]) if curve[0] < 0 else 0.0
        best.append(first.on + float(np.clip(top, -3.0 * step, 3.0 * step)))
    least = np.sqrt(first.on * (1 - first.on) / pixels)
    unsure = first.error > max(UNSURE[0], UNSURE[1] * least)
    return first.on, first.error, *best, best[1] if unsure else first.on


def refinement(draws: int, jobs: int) -> Table:
    """Return how far rates are off: as estimated, by the score, and by both together."""
    rows = []
    with joblib.Parallel(n_jobs=jobs) as pool:
        for (name, make), (n, side), rate in itertools.product(REFINED.items(), CASES, FLIPS):
            images = [image.astype(np.uint8) for image in make(n, (side, side), seed=3)]
            seeds = ([side, n, round(1000 * rate), k] for k in range(draws))
            found = np.array(pool(joblib.delayed(refine)(images, rate, s) for s in seeds))
            off = found[:, [0, 2, 3, 4]] - rate
            rms, bias = np.sqrt(np.mean(off**2, axis=0)), off.mean(axis=0)
            rows.append(
                [
                    f"{n} {name}, {side}x{side}",
                    f"{rate:.1f}",
                    f"{np.sqrt(rate * (1 - rate) / (n * side**2)):.4f}",
                    f"{found[:, 1].mean():.4f}",
                    *(f"{r:.4f} ({b:+.4f})" for r, b in zip(rms, bias, strict=True)),
                ]
            )
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ["images", "rate", "least possible", "standard error", "estimate", "score", "both"]
    head.append("both, if unsure")
    return Table(f"Root mean square error (and bias) of the rate, {draws} draws", head, rows)


SURE = (0.25, 0.5, 0.75)
"""Shares of the pixels, those that a classifier is most sure of, of which flips are counted."""


ESTIMATED = (
    'The estimate is that of `MaskDenoiser(noise="auto")`; its constants come from other shapes '
    '(`--train`). "Least possible" is the deviation of the share of flipped pixels itself, as if '
    'the clean images were known; "warned" how often the images were said not to be smooth: false '
    "alarms in the first table, rightly in the second."
)

ASKED = (
    "Beside the estimate, classifiers of surroundings say how many pixels were flipped: among the "
    "pixels that they are surest of, the share that was observed otherwise. In expectation that "
    "is an upper bound on the rate. In brackets is how often the interval of 1.96 standard errors "
    "holds the rate; the last columns weigh both by their standard errors."
)


def ask_trees(images: Images, rate: float, seed: list[int]) -> list[float]:
    """Return the estimated rate, its standard error, and pairs of the same by classifiers.

    These are trained as for `MaskDenoiser(context="trees")`, and judge images that they have not
    seen. Where they are sure of the clean pixel, what was observed differs from it by a flip, or
    because they are wrong: the share of such pixels is an upper bound on the rate, in expectation.
    """
    rng = np.random.default_rng(seed)
    noisy = [image ^ (rng.random(image.shape) < rate) for image in images]
    first = _measure(_stack(noisy), "flips")
    assert first is not None
    channel = ls.Flips(first.on)
    _, judge = train_blind_spot(
        noisy, None, channel, None, images=noisy, windows=None, key=seed[-1], threads=1
    )
    seen = np.stack(noisy)
    odds = judge(np.arange(len(seen)), channel.log_odds(seen)).ravel()
    wrong = (odds > 0) != (seen.ravel() == 1)
    found = [first.on, first.error]
    order = np.argsort(-np.abs(odds), kind="stable")
    for share in SURE:
        some = wrong[order[: round(share * len(order))]]
        p = float(some.mean())
        found += [p, float(np.sqrt(p * (1.0 - p) / len(some)))]
    return found


def by_trees(data: Path | None, draws: int, jobs: int) -> Table:
    """Return errors and coverage: of the estimate, of classifiers, and of both by their errors."""
    kinds = {
        "silhouettes": ls.make_silhouettes(100, seed=3).astype(np.uint8),
        "discs": discs(100, seed=3),
    }
    if data is not None:
        kinds["horses"] = ls.datasets.load_weizmann(data, (50, 50)).images[:100]
    names = ["estimate", *(f"surest {share:.0%}" for share in SURE)]
    names += [f"estimate and surest {share:.0%}" for share in SURE]
    rows = []
    with joblib.Parallel(n_jobs=jobs) as pool:
        for (name, images), n, rate in itertools.product(kinds.items(), (40, 100), RATES):
            seeds = ([n, round(1000 * rate), k] for k in range(draws))
            some = [image.astype(np.uint8) for image in images[:n]]
            values = np.array(pool(joblib.delayed(ask_trees)(some, rate, s) for s in seeds))
            rates, errors = values[:, ::2], values[:, 1::2]
            precision = errors[:, :1] ** -2 + errors[:, 1:] ** -2
            joint = rates[:, :1] / errors[:, :1] ** 2 + rates[:, 1:] / errors[:, 1:] ** 2
            rates = np.hstack([rates, joint / precision])
            errors = np.hstack([errors, precision**-0.5])
            rms = np.sqrt(np.mean((rates - rate) ** 2, axis=0))
            held = np.mean(np.abs(rates - rate) <= 1.96 * errors, axis=0)
            cells = (f"{r:.5f} ({h:.0%})" for r, h in zip(rms, held, strict=True))
            rows.append([f"{n} {name}, 50x50", f"{rate:.2f}", *cells])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    title = f"Root mean square error of the rate, and coverage of 95 % intervals, {draws} draws"
    return Table(title, ["images", "rate", *names], rows)


def speed() -> Table:
    """Return seconds for large images."""
    rows = []
    for size in SIZES:
        noisy = ls.Flips(0.1).sample(blobs(1, 0, (size, size), scale=20.0), seed=0)
        noisy = noisy.astype(np.uint8)
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            rate = estimate_noise(noisy).rate
            best = min(best, time.perf_counter() - start)
        rows.append([f"{size}x{size}", f"{rate:.5f}", f"{best:.2f}"])
    return Table("Seconds for one image with flips of .1", ["image", "rate", "seconds"], rows)


def training() -> Table:
    """Return the frequencies in clean images of the patterns that the estimate uses."""
    rows = []
    for name, images in for_training():
        around = choose(images)
        assert around is not None
        several = [around]
        if around.kind == "box":
            several.append(Neighbourhood("cross", around.pairs[:2]))
        for each in several:
            shares, unlike = clean_shares(count(images, each), each)
            rows.append(
                [
                    name,
                    f"{each.kind}, {len(each.pairs)}",
                    f"{shares[0] / unlike:.3f}",
                    " ".join(f"{share:.3f}" for share in shares[1:] / shares[0]),
                ]
            )
    for coupling in COUPLINGS:
        fields = ising(60, 1000, 64, coupling)
        around = choose(fields)
        assert around is not None
        shares, unlike = clean_shares(count(fields, around), around)
        cells = " ".join(f"{share:.3f}" for share in shares[1:] / shares[0])
        rows.append([f"Ising, {coupling}", "box, 4", f"{shares[0] / unlike:.3f}", cells])
    head = [
        "images",
        "neighbours",
        "thin places / neighbours that differ",
        "patterns / thin places",
    ]
    return Table("Clean shares of patterns", head, rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if a required cell misses its limits."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.noise_rate", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder of the Weizmann horses")
    parse.add_argument("--draws", type=int, default=400)
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--train", action="store_true", help="print the constants' origin instead")
    parse.add_argument("--refine", action="store_true", help="print rates found by the score")
    parse.add_argument("--trees", action="store_true", help="print rates found by classifiers")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(command)
    good = True
    if options.train:
        tables = [training()]
    elif options.trees:
        tables = [by_trees(options.data, options.draws, options.jobs)]
    elif options.refine:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = [refinement(options.draws, options.jobs)]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            table, good = coverage(options.data, options.draws, options.jobs)
            few = max(1, options.draws // 8)
            tables = [table, texture(few), both_rates(few), speed()]
    show(tables)
    if options.markdown is not None:
        text = ASKED if options.trees else ESTIMATED
        write_page(
            options.markdown, "The estimated noise", "benchmarks.noise_rate", command, text, tables
        )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
