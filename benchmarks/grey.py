"""Results and warnings on grey images: `python -m benchmarks.grey`.

The default `MaskDenoiser` is run on four pictures of scikit-image, none of which has two Gaussian
levels and independent noise; on the same after the remedies that the warnings advise; and on
synthetic pictures for which the model holds, or is violated in one way. A second table counts
warnings over seeds. The exit code is 1 if there is a false or a missing warning: a picture of
scikit-image without any warning, or a synthetic one without its own warning.
"""

from __future__ import annotations

import argparse
import collections
import io
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.report import Table, sheet

Array = NDArray[Any]

SIZE, SIDE = 256, 96
"""Sides of the synthetic pictures in the first table and in the table over seeds."""

LEVELS, DEVIATION = (80.0, 160.0), 30.0

CODES = {
    "the light is uneven": "uneven light",
    "two Gaussian levels do not": "levels",
    "noisy looks like noise alone": "noise alone",
    "noisy shows the one grey level": "refused",
    "the noise is not independent": "correlated",
    "observed is not smooth shapes": "clumps",
    "probabilities are all or nothing": "all or nothing",
    "one label covers everything": "one label",
    "the learned weight of": "no weight",
    "resample: the weights": "still moving",
    "resample: max_iter": "still moving",
}
"""The beginning of a warning, and its short form."""

UNSETTLED = "still moving"
"""Short form of the warning about weights that did not converge, which is not about the images."""


# --------------------------------------------------------------------------------- drawn pictures


class Drawn(NamedTuple):
    """A picture, its true mask, and the expected warnings; none is expected if that is empty.

    One of them is enough: stripes of flips are detected as clumps, or as correlated.
    """

    picture: Array
    mask: Array
    due: tuple[str, ...] = ()


def _masks(size: int, seed: int) -> tuple[Array, Array, np.random.Generator]:
    """Return a silhouette, the same with two grey levels, and a generator."""
    mask = ls.make_silhouettes(1, (size, size), seed=seed)[0]
    return mask, np.where(mask, LEVELS[1], LEVELS[0]), np.random.default_rng([seed, 1])


def holds(size: int, seed: int) -> Drawn:
    """Return two levels with independent Gaussian noise."""
    mask, grey, rng = _masks(size, seed)
    return Drawn(grey + DEVIATION * rng.normal(size=mask.shape), mask)


def as_bytes(size: int, seed: int) -> Drawn:
    """Return the same with other standard deviations, rounded and clipped to black and white."""
    mask, grey, rng = _masks(size, seed)
    noise = np.where(mask, 60.0, 40.0) * rng.normal(size=mask.shape)
    return Drawn(np.clip(np.rint(grey + noise), 0, 255).astype(np.uint8), mask)


def flips(size: int, seed: int) -> Drawn:
    """Return a silhouette with one pixel in ten flipped."""
    mask, _, rng = _masks(size, seed)
    return Drawn(mask ^ (rng.random(mask.shape) < 0.1), mask)


def uneven(size: int, seed: int) -> Drawn:
    """Return two levels under light from the right."""
    found = holds(size, seed)
    light = np.linspace(-50.0, 50.0, size)
    return Drawn(found.picture + light, found.mask, ("uneven light",))


def flattened(size: int, seed: int) -> Drawn:
    """Return the same, flattened as the warning advises."""
    found = uneven(size, seed)
    return Drawn(ls.flatten_light([found.picture])[0], found.mask)


def blurred(size: int, seed: int) -> Drawn:
    """Return two levels with blurred noise."""
    mask, grey, rng = _masks(size, seed)
    noise = gaussian_filter(rng.normal(size=mask.shape), 1.0)
    return Drawn(grey + DEVIATION * noise / noise.std(), mask, ("correlated",))


def thinned(size: int, seed: int) -> Drawn:
    """Return every 4th pixel of a larger one, as the warning advises."""
    found = blurred(4 * size, seed)
    return Drawn(found.picture[::4, ::4], found.mask[::4, ::4])


def compressed(size: int, seed: int) -> Drawn:
    """Return two levels with independent noise, compressed by JPEG at quality 30."""
    found = holds(size, seed)
    buffer = io.BytesIO()
    grey = np.clip(np.rint(found.picture), 0, 255).astype(np.uint8)
    Image.fromarray(grey).save(buffer, format="JPEG", quality=30)
    with Image.open(buffer) as picture:
        return Drawn(np.array(picture), found.mask, ("correlated",))


def lines(size: int, seed: int) -> Drawn:
    """Return two levels with brighter and darker rows, by 0.6 standard deviations of a pixel."""
    mask, grey, rng = _masks(size, seed)
    noise = rng.normal(size=mask.shape) + 0.6 * rng.normal(size=(size, 1))
    return Drawn(grey + DEVIATION * noise, mask, ("correlated",))


def stripes(size: int, seed: int) -> Drawn:
    """Return flips in stripes of 16 pixels, and some single flips."""
    mask, _, rng = _masks(size, seed)
    rows = np.repeat(rng.random((size, size // 16)) < 0.12, 16, axis=1)
    return Drawn(mask ^ (rows | (rng.random(mask.shape) < 0.05)), mask, ("clumps", "correlated"))


def third(size: int, seed: int) -> Drawn:
    """Return three levels: a second silhouette adds to the first."""
    mask, grey, rng = _masks(size, seed)
    other = ls.make_silhouettes(1, (size, size), seed=seed + 1000)[0]
    noise = 15.0 * rng.normal(size=mask.shape)
    return Drawn(grey + 80.0 * other + noise, mask | other, ("levels",))


def nothing(size: int, seed: int) -> Drawn:
    """Return noise without a signal."""
    rng = np.random.default_rng([seed, 1])
    grey = LEVELS[0] + DEVIATION * rng.normal(size=(size, size))
    return Drawn(grey, np.zeros((size, size), dtype=np.uint8), ("noise alone", "refused"))


DRAWN: dict[str, Callable[[int, int], Drawn]] = {
    "two levels": holds,
    "two levels, bytes": as_bytes,
    "flips": flips,
    "uneven light": uneven,
    "the same, flattened": flattened,
    "blurred noise": blurred,
    "the same, every 4th pixel": thinned,
    "JPEG, quality 30": compressed,
    "uneven rows": lines,
    "stripes of flips": stripes,
    "three levels": third,
    "noise alone": nothing,
}


# ------------------------------------------------------------------------------------------- fits


class Case(NamedTuple):
    """A named picture, its mask if there is one, and whether a warning is expected."""

    name: str
    picture: Array
    mask: Array | None
    due: tuple[str, ...] | None
    shown: bool = True


class Outcome(NamedTuple):
    """Results of a fit."""

    model: ls.MaskDenoiser
    probability: Array
    seconds: float
    said: list[str]


def cases() -> Iterator[Case]:
    """Yield the pictures of the first table."""
    from skimage import data

    for name in ("coins", "page", "cell", "camera"):
        picture = getattr(data, name)()
        # the owner of "page" is not stated, so it is left out of the published sheet
        shown = name != "page"
        yield Case(name, picture, None, None, shown)
        if name in ("coins", "page"):
            flat = ls.flatten_light([picture])[0]
            yield Case(f"{name}, flattened", flat, None, None, shown)
    for name, draw in DRAWN.items():
        found = draw(SIZE, 0)
        yield Case(name, found.picture, found.mask, found.due)


def shorten(text: str) -> str:
    """Return the short form of a warning."""
    for start, code in CODES.items():
        if text.startswith(start):
            return code
    return " ".join(text.split()[:6])


def fit(picture: Array, jobs: int) -> Outcome:
    """Fit the default denoiser to one picture."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = ls.MaskDenoiser(n_jobs=jobs).fit([picture])
    seconds = time.process_time() - start
    said = [shorten(str(warning.message)) for warning in heard]
    return Outcome(model, model.predict_proba([picture])[0], seconds, said)


def is_right(said: list[str], due: tuple[str, ...] | None) -> bool:
    """Return whether the warnings are the expected ones; None expects any warning."""
    about = set(said) - {UNSETTLED}
    if due is None:
        return bool(about)
    return bool(about & set(due)) if due else not about


def row(case: Case, found: Outcome) -> list[str]:
    """Return a line of the first table."""
    model, p = found.model, found.probability
    if isinstance(model.channel_, ls.Gaussian):
        pairs = zip(model.channel_.mean, model.channel_.scale, strict=True)
        levels = ", ".join(f"{mean:.0f} ± {scale:.0f}" for mean, scale in pairs)
    else:
        levels = f"flips, {model.noise_:.3f}"
    return [
        case.name,
        "x".join(map(str, case.picture.shape)),
        levels,
        f"{model.alpha_.max():.2f}",
        f"{model.scale_:.2f}",
        "yes" if model.converged_ else "no",
        f"{100 * np.mean((p >= 0.01) & (p <= 0.99)):.1f}",
        f"{100 * np.mean(p > 0.5):.1f}",
        "" if case.mask is None else f"{100 * np.mean((p > 0.5) != case.mask):.1f}",
        f"{found.seconds:.1f}",
        ", ".join(found.said) or "-",
    ]


HEAD = [
    "picture",
    "size",
    "levels, deviations",
    "largest weight",
    "weight of observations",
    "converged",
    "p in [.01, .99], %",
    "ones, %",
    "wrong, %",
    "seconds",
    "warned",
]


def _count(name: str, seed: int) -> tuple[list[str], bool]:
    drawn = DRAWN[name](SIDE, seed)
    try:
        said = fit(drawn.picture, 1).said
    except ValueError as error:
        said = [shorten(str(error))]
    return sorted(set(said) - {UNSETTLED}), is_right(said, drawn.due)


def count(seeds: int, jobs: int) -> tuple[Table, list[str]]:
    """Return the counts of warnings for synthetic pictures, and those with wrong warnings."""
    rows, missed = [], []
    with joblib.Parallel(n_jobs=jobs) as pool:
        for name, draw in DRAWN.items():
            found = pool(joblib.delayed(_count)(name, seed) for seed in range(seeds))
            heard = collections.Counter(code for said, _ in found for code in said)
            due = draw(SIDE, 0).due
            right = sum(good for _, good in found)
            rows.append(
                [
                    name,
                    " or ".join(due) or "-",
                    ", ".join(f"{code} {times}" for code, times in heard.most_common()) or "-",
                    f"{right} of {seeds}",
                ]
            )
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
            if right < seeds:
                missed.append(f"{name}: {seeds - right} of {seeds} seeds")
    title = f"Warnings over {seeds} seeds, {SIDE}x{SIDE}"
    return Table(title, ["picture", "due", "warned", "right"], rows), missed


# ------------------------------------------------------------------------------------------ sheet


def _small(values: Array) -> Array:
    """Return means over blocks, so that no side is longer than that of a synthetic picture."""
    step = -(-max(values.shape) // SIZE)
    height, width = (side // step * step for side in values.shape)
    parts = values[:height, :width].astype(float)
    return parts.reshape(height // step, step, width // step, step).mean(axis=(1, 3))


def draw(done: list[tuple[Case, Outcome]]) -> bytes:
    """Return pictures, masks and probabilities as a PNG, two pictures in a row."""
    panels = []
    for case, found in done:
        low, high = np.quantile(case.picture, [0.005, 0.995])
        bright = np.clip((_small(case.picture) - low) / (high - low), 0.0, 1.0)
        about = ", ".join(code for code in found.said if code != UNSETTLED)
        # ones are bright, as in the pictures
        panels.append(
            [
                sheet.grey(1.0 - bright, case.name),
                sheet.grey(1.0 - _small(found.probability > 0.5), about or "no warning"),
                sheet.grey(1.0 - _small(found.probability), "probability"),
            ]
        )
    pairs = (itertools.chain(*panels[k : k + 2]) for k in range(0, len(panels), 2))
    rows = [list(pair) for pair in pairs]
    # few shades are enough, and make the file smaller
    with Image.open(io.BytesIO(sheet.draw(rows))) as large:
        buffer = io.BytesIO()
        large.quantize(16).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


# ---------------------------------------------------------------------------------------- command


TEXT = """\
The default `MaskDenoiser` on single pictures, without labels. Coins, page, cell and camera are
those of scikit-image; the others are drawn, with levels of 80 and 160 and a deviation of 30 unless
the name says otherwise. Warned, in short: *uneven light*; *levels*, not two Gaussian ones; *noise
alone*, or *refused* with an error that says so; *correlated* noise; *clumps* of flips;
probabilities that are *all or nothing*; *one label* everywhere; *no weight* of the observations.
*Still moving* is about the weights, not about the picture. Seconds are processor time of the fit.

![Pictures, masks and probabilities](images/grey.png)

*Each picture with its mask, below what was warned, and its probabilities; ones are bright. The page
is left out, because its licence is not stated.*"""


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if a warning is false or missing."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.grey", description=__doc__)
    parse.add_argument("--seeds", type=int, default=20)
    parse.add_argument("--jobs", type=int, default=2)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    parse.add_argument("--sheet", type=Path, metavar="OUT", help="draw pictures and masks")
    parse.add_argument("--every", action="store_true", help="draw those not to be published too")
    options = parse.parse_args(command)
    done, missed = [], []
    for case in cases():
        found = fit(case.picture, options.jobs)
        done.append((case, found))
        print("  ".join(row(case, found)), file=sys.stderr, flush=True)
        if not is_right(found.said, case.due):
            missed.append(case.name)
    tables = [Table("Pictures", HEAD, [row(*pair) for pair in done])]
    if options.seeds:
        table, wrong = count(options.seeds, options.jobs)
        tables.append(table)
        missed += wrong
    show(tables)
    for name in missed:
        print("a warning is missing, or false:", name)
    if options.sheet is not None:
        options.sheet.write_bytes(draw([pair for pair in done if pair[0].shown or options.every]))
    if options.markdown is not None:
        write_page(options.markdown, "Grey images", "benchmarks.grey", command, TEXT, tables)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
