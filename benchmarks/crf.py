"""A field behind a classifier, for colour photographs: `python -m benchmarks.crf --data DIR`.

`MaskCRF` with its default unary, boosted trees, learns from the first 100 photographs of horses and
is tested on the last 100, at a common size and at the sizes of the masks, where it chooses a
working size. The unary alone is the same classifier; at the masks' own sizes there is also one that
was trained on features of these sizes. The dense CRF of pydensecrf2, if that is installed, has
their log-odds; its six constants are chosen by the error on training photographs, with log-odds of
classifiers that have not seen them, and so is a temperature for its probabilities, by log loss. A
last table has the weights that are learned from masks drawn from a known field. The exit code is 1
if the field is not better than its unary and than each dense CRF in error, intersection over union
and log loss, or worse than one of them in calibration. The unary that was trained on features of
the own sizes is not the field's; what it is better in is printed, too.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from PIL import Image
from scipy.special import expit, logit

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.estimators._working_size import enlarge, reduce, reduce_mask, reduced_shape
from logsuper.learning import contrast_weights, make_examples, samples, soften
from logsuper.report import Table

PARTS = ("working", "own", "weights")
WORKING = (64, 80)
TRAIN = 100
# Settings of the dense CRF that are tried, and training photographs on which they are.
TRIES, TUNED_ON = {"working": 60, "own": 30}, {"working": 50, "own": 16}
# Dense CRF: iterations of mean field, as its documentation has them.
ITERATIONS = 5
HEAD = ["method", "error (%)", "IoU", "log loss", "calibration error (%)", "CPU s per image"]
# The text before the tables of the page.
HOW_TO = Path(__file__).with_name("crf_howto.md")


def load(folder: Path, shape: tuple[int, int] | None) -> tuple[list[Any], list[Any]]:
    """Return photographs in [0, 1] and masks, of one shape or of the masks' own."""
    photographs, masks = [], []
    for file in sorted((folder / "rgb").iterdir()):
        with Image.open(folder / "figure_ground" / file.name) as picture:
            size = picture.size if shape is None else shape[::-1]
            mask = picture.convert("L").resize(size, Image.Resampling.BOX)
        with Image.open(file) as picture:
            colours = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        photographs.append(np.asarray(colours) / np.float32(255.0))
        masks.append((np.asarray(mask) > 127).astype(np.uint8))
    return photographs, masks


# ------------------------------------------------------------------------------------------ scores


def judge(probabilities: list[Any], decisions: list[Any], masks: list[Any]) -> np.ndarray:
    """Return error (%), IoU and log loss of each image, (N, 3)."""
    rows = []
    for p, x, y in zip(probabilities, decisions, masks, strict=True):
        p = np.clip(p, 1e-6, 1.0 - 1e-6)
        both, either = np.sum((x == 1) & (y == 1)), np.sum((x == 1) | (y == 1))
        loss = -np.where(y == 1, np.log(p), np.log1p(-p)).mean()
        rows.append([100.0 * np.mean(x != y), both / max(1, either), loss])
    return np.array(rows)


def bin_gaps(probabilities: list[Any], masks: list[Any]) -> np.ndarray:
    """Return what probabilities in each of 15 bins exceed the truth by, in parts of each image."""
    rows = []
    for p, y in zip(probabilities, masks, strict=True):
        bins = np.minimum((15 * p.ravel()).astype(int), 14)
        own = np.bincount(bins, p.ravel(), 15) - np.bincount(bins, y.ravel(), 15)
        rows.append(own / p.size)
    return np.array(rows)


def calibration_error(probabilities: list[Any], masks: list[Any]) -> float:
    """Return the expected calibration error (%) of all pixels, each image counting alike."""
    return float(100.0 * np.abs(bin_gaps(probabilities, masks).mean(axis=0)).sum())


def calibration_difference(ours: Any, theirs: Any, masks: list[Any]) -> tuple[float, float]:
    """Return the difference of two calibration errors (%), and its error by the bootstrap."""
    a, b = bin_gaps(ours, masks), bin_gaps(theirs, masks)

    def difference(rows: Any) -> float:
        sides = (np.abs(gaps[rows].mean(axis=0)).sum() for gaps in (a, b))
        return float(100.0 * np.subtract(*sides))

    rng = np.random.default_rng(0)
    draws = [difference(rng.integers(len(a), size=len(a))) for _ in range(500)]
    return difference(np.arange(len(a))), float(np.std(draws))


# --------------------------------------------------------------------------------------- dense CRF


def dense(odds: Any, photograph: Any, setting: dict[str, float]) -> np.ndarray:
    """Return the probabilities that the dense CRF gives, from log-odds and a photograph."""
    from pydensecrf import densecrf

    h, w = odds.shape
    field = densecrf.DenseCRF2D(w, h, 2)
    logs = np.stack([np.logaddexp(0.0, odds), np.logaddexp(0.0, -odds)]) * setting["unary"]
    field.setUnaryEnergy(np.ascontiguousarray(logs.reshape(2, -1).astype(np.float32)))
    field.addPairwiseGaussian(sxy=setting["near"], compat=setting["smooth"])
    colours = np.ascontiguousarray((255.0 * photograph).round().astype(np.uint8))
    field.addPairwiseBilateral(
        sxy=setting["far"], srgb=setting["colour"], rgbim=colours, compat=setting["similar"]
    )
    found = np.asarray(field.inference(ITERATIONS), dtype=np.float64)[1].reshape(h, w)
    return np.clip(found, 1e-6, 1.0 - 1e-6)


def settings(count: int, longer: float) -> Iterator[dict[str, float]]:
    """Yield constants of the dense CRF, spatial ones in proportion to the longer side."""
    rng = np.random.default_rng(0)
    choices = {
        "unary": [0.3, 0.5, 1.0],
        "near": [longer * part for part in (0.01, 0.02, 0.04)],
        "smooth": [0.5, 1.0, 3.0],
        "far": [longer * part for part in (0.1, 0.25, 0.5)],
        "colour": [5.0, 10.0, 20.0],
        "similar": [1.0, 3.0, 6.0, 10.0],
    }
    every = list(itertools.product(*choices.values()))
    for k in rng.permutation(len(every))[:count]:
        yield dict(zip(choices, every[k], strict=True))


def tune_dense(
    odds: list[Any], photographs: list[Any], masks: list[Any], size: str
) -> tuple[dict[str, float], float]:
    """Return the constants with the least error, and then the temperature of the least log loss."""
    chosen = np.linspace(0, len(masks) - 1, TUNED_ON[size]).round().astype(int)
    longer = float(np.mean([max(mask.shape) for mask in masks]))
    some = [[rows[i] for i in chosen] for rows in (odds, photographs, masks)]
    best, least, kept = {}, np.inf, []
    for setting in settings(TRIES[size], longer):
        found = [dense(o, photograph, setting) for o, photograph in zip(*some[:2], strict=True)]
        error = judge(found, [p > 0.5 for p in found], some[2])[:, 0].mean()
        if error < least:
            best, least, kept = setting, error, found
    temperatures = np.geomspace(0.5, 20.0, 40)
    losses = [
        judge([soften(p, t) for p in kept], [p > 0.5 for p in kept], some[2])[:, 2].mean()
        for t in temperatures
    ]
    return best, float(temperatures[int(np.argmin(losses))])


# ------------------------------------------------------------------------------------- comparisons

UNARY = "unary alone (boosted trees)"
OTHER = f"{UNARY} at the own sizes"
Found = dict[str, tuple[list[Any], list[Any], float]]


def timed(find: Callable[[], Any], count: int) -> tuple[Any, float]:
    """Return what a call returns, and its seconds of CPU per image."""
    start = time.process_time()
    found = find()
    return found, (time.process_time() - start) / count


def shrink(images: list[Any], size: int) -> list[Any]:
    """Return photographs or log-odds at the working size."""
    return [reduce(image, reduced_shape(image.shape[:2], size)) for image in images]


def add_dense(
    found: Found,
    name: str,
    size: str,
    train: tuple[list[Any], list[Any], list[Any]],
    test: tuple[list[Any], list[Any]],
    shapes: list[tuple[int, ...]],
) -> str:
    """Tune the dense CRF on (log-odds, photographs, masks) and add what it says of others."""
    best, t = tune_dense(*train, size)
    pairs = list(zip(*test, shapes, strict=True))

    def find() -> list[Any]:
        made = [logit(dense(own, picture, best)) for own, picture, _ in pairs]
        return [
            own if own.shape == shape else enlarge(own, shape)
            for own, shape in zip(made, shapes, strict=True)
        ]

    odds, seconds = timed(find, len(pairs))
    decisions = [own > 0 for own in odds]
    found[f"{name}, tuned"] = ([expit(own) for own in odds], decisions, seconds)
    softened = [expit(own / t) for own in odds]
    found[f"{name}, tuned, with temperature"] = (softened, decisions, seconds)
    return f"; {name}: " + ", ".join(f"{k} {v:.3g}" for k, v in {**best, "T": t}.items())


def compare(folder: Path, size: str) -> tuple[list[Table], list[str], list[str]]:
    """Return tables of all methods at one size, promises not kept, and what else is noted."""
    shape = WORKING if size == "working" else None
    photographs, masks = load(folder, shape)
    train, test = slice(0, TRAIN), slice(TRAIN, None)
    begun = time.process_time()
    crf = ls.MaskCRF(n_jobs=1).fit(photographs[train], masks[train])
    fitted = time.process_time() - begun
    truth, pictures = masks[test], photographs[test]
    count, shapes = len(truth), [mask.shape for mask in truth]
    odds, seconds = timed(lambda: crf.predict_unary(pictures), count)
    alone = [expit(own) for own in odds]
    found: Found = {UNARY: (alone, [p > 0.5 for p in alone], seconds)}
    held = crf.held_log_odds_
    assert held is not None
    peers = importlib.util.find_spec("pydensecrf") is not None
    notes = f"; working size {crf.working_size_}"
    if crf.working_size_ is not None:
        # the peers get log-odds at the own sizes too, from a classifier that works there
        if peers:
            small = shrink(photographs, crf.working_size_)
            targets = [
                reduce_mask(mask, own.shape[:2])
                for mask, own in zip(masks[train], small[train], strict=True)
            ]
            own = (shrink(held, crf.working_size_), small[train], targets)
            there = (crf.predict_unary(small[test]), small[test])
            name = "dense CRF (pydensecrf2) at the working size"
            notes += add_dense(found, name, "working", own, there, shapes)
        full = ls.MaskCRF(
            edges=None, learner="pseudo", calibration=None, working_size=None, n_jobs=1
        ).fit(photographs[train], masks[train])
        odds, seconds = timed(lambda: full.predict_unary(pictures), count)
        alone, held = [expit(own) for own in odds], full.held_log_odds_
        found[OTHER] = (alone, [p > 0.5 for p in alone], seconds)
    p, seconds = timed(lambda: crf.predict_proba(pictures), count)
    found["MaskCRF"] = (p, [own > 0.5 for own in p], seconds)
    if peers:
        learned = (held, photographs[train], masks[train])
        name = "dense CRF (pydensecrf2)"
        notes += add_dense(found, name, size, learned, (odds, pictures), shapes)
    scores = {name: judge(q, x, truth) for name, (q, x, _) in found.items()}
    gaps = {name: calibration_error(q, truth) for name, (q, _, _) in found.items()}
    shares = [100.0 * np.mean([mask.mean() for mask in part]) for part in (masks[train], truth)]
    rows = [
        [
            name,
            f"{own[:, 0].mean():.2f}",
            f"{own[:, 1].mean():.4f}",
            f"{own[:, 2].mean():.4f}",
            f"{gaps[name]:.2f}",
            f"{found[name][2]:.3f}",
        ]
        for name, own in scores.items()
    ]
    sizes = "their own sizes" if shape is None else f"{shape[0]}x{shape[1]} pixels"
    field = scores["MaskCRF"]
    differences = []
    for name, own in scores.items():
        if name != "MaskCRF":
            d = field - own
            e = d.std(axis=0, ddof=1) / np.sqrt(len(d))
            m = d.mean(axis=0)
            differences.append(
                [
                    name,
                    f"{m[0]:+.2f} ± {e[0]:.2f}",
                    f"{m[1]:+.4f} ± {e[1]:.4f}",
                    f"{m[2]:+.4f} ± {e[2]:.4f}",
                    "{:+.2f} ± {:.2f}".format(*calibration_difference(p, found[name][0], truth)),
                ]
            )
    weights = np.array2string(crf.alpha_.round(2), separator=", ").replace("\n", "")
    mixed = ", ".join(f"{v:.3f}" for v in crf.calibration_)
    print(f"{sizes}: fitted in {fitted:.0f} s of CPU; alpha {weights}, beta {crf.beta_.round(3)}")
    print(f"  t {crf.modular_:.2f}, calibration {mixed}{notes}", flush=True)
    mean, broken, noted = field.mean(axis=0), list[str](), list[str]()
    for name, own in scores.items():
        if name != "MaskCRF":
            other = own.mean(axis=0)
            better = [mean[0] < other[0], mean[1] > other[1], mean[2] < other[2]]
            better.append(gaps["MaskCRF"] <= gaps[name])
            for what, holds in zip(HEAD[1:], better, strict=False):
                if not holds:
                    words = f"at {sizes} not better than {name} in {what}"
                    (noted if name == OTHER else broken).append(words)
                    print(f"  {words}", flush=True)
    title = (
        f"100 test photographs at {sizes} (fit: {fitted:.0f} s of CPU; horse: {shares[0]:.1f} % of "
        f"the pixels to learn from, {shares[1]:.1f} % of those to test on)"
    )
    return (
        [
            Table(title, HEAD, rows),
            Table(
                f"MaskCRF less the others, at {sizes}",
                ["against", "error (%)", "IoU", "log loss", "calibration error (%)"],
                differences,
            ),
        ],
        broken,
        noted,
    )


# --------------------------------------------------------------------------------------- recovery

TRUE_ALPHA = np.array([[0.5, 0.8], [0.4, 0.2]])
TRUE_BETA, TRUE_MODULAR, SCALES = 0.7, 0.2, (0.5, 2.0)


def draw(count: int, shape: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images, log-odds before a picture, and masks drawn exactly from a known field."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(scale=1.5, size=(count, *shape))
    picture = np.repeat(
        np.repeat(rng.normal(size=(count, shape[0] // 3, shape[1] // 3)), 3, 1), 3, 2
    )
    picture = picture + 0.3 * rng.normal(size=picture.shape)
    cuts = ls.grid_cuts(shape)
    edges = ls.prepare(cuts).edges
    factors = np.stack(
        [np.repeat(contrast_weights(own.ravel(), edges, SCALES), len(cuts), 0) for own in picture]
    )
    examples = make_examples(
        cuts * len(SCALES), features=odds[..., None], modular="shared", edge_weights=factors
    )
    theta = np.concatenate([TRUE_ALPHA.ravel(), [TRUE_MODULAR, TRUE_BETA]])
    masks = samples(examples, theta, 1, seed=rng)[:, 0]
    return np.stack([odds, picture], axis=-1), masks


def recover() -> Table:
    """Return the weights that are learned from masks of a known field."""
    rows = [
        ["true", "", *(f"{a:.2f}" for a in TRUE_ALPHA.ravel()), f"{TRUE_MODULAR}", f"{TRUE_BETA}"]
    ]
    shape = (9, 18)
    for learner in ("exact", "pseudo", "logistic"):
        for count in (50, 500):
            found = []
            for seed in range(5):
                images, masks = draw(count, shape, seed)
                crf = ls.MaskCRF(
                    "log_odds", learner=learner, scales=SCALES, calibration=None, n_jobs=1
                ).fit(images, masks)
                found.append([*crf.alpha_.ravel(), crf.modular_, *crf.beta_])
            mean, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
            cells = (f"{m:.2f} ± {s:.2f}" for m, s in zip(mean, spread, strict=True))
            rows.append([learner, str(count), *cells])
    names = [f"alpha, scale {s:g}, {d}" for s in SCALES for d in ("across", "down")]
    return Table(
        f"Weights learned from masks of {shape[0]}x{shape[1]} pixels drawn from a known field: "
        "mean and standard deviation over five sets",
        ["learner", "masks", *names, "t", "beta"],
        rows,
    )


def run(part: str, folder: Path) -> tuple[list[Table], list[str], list[str]]:
    """Return the tables of one part, promises that are not kept, and what is noted beside."""
    return ([recover()], [], []) if part == "weights" else compare(folder, part)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if the field does not keep its promises."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crf", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with weizmann_horse_db")
    parser.add_argument("--jobs", type=int, default=2, help="processes, one per part")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="some parts alone")
    parser.add_argument("--markdown", type=Path)
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    # a process for each part, with one thread: classifiers do not wait for each other's threads;
    # processes find the module by its name, which is not __main__
    each = importlib.import_module("benchmarks.crf").run
    done = Parallel(n_jobs=min(args.jobs, len(args.only)))(
        delayed(each)(part, args.data / "weizmann_horse_db") for part in args.only
    )
    tables = [table for found, _, _ in done for table in found]
    broken = [words for _, own, _ in done for words in own]
    noted = [words for _, _, own in done for words in own]
    outcome = "What the command asks for holds."
    if broken:
        outcome = f"The command exits with 1, since `MaskCRF` is: {'; '.join(broken)}."
    if noted:
        outcome += f" Not asked for, but noted, `MaskCRF` is: {'; '.join(noted)}."
    show(tables)
    print(outcome)
    if args.markdown is not None:
        write_page(
            args.markdown,
            "A random field behind a classifier, or behind a network",
            "benchmarks.crf",
            given,
            "How to use it, then what it is worth.\n\n"
            + HOW_TO.read_text("utf-8").strip()
            + f"\n\n{outcome}",
            tables,
        )
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
