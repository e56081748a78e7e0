"""Accuracy of predicted probabilities: `python -m benchmarks.probabilities --data DIR`.

The first part compares methods for the probabilities of one learned model, by log loss and Brier
score in cross-validation on training images. The second part tests the chosen method on other
images, against observed frequencies and (nearly) exact marginals. The images are silhouettes that
ship with the package and, with ``--data``, the Weizmann horses.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.tables import show, write_page
from logsuper.estimators._decoding import DOUBT
from logsuper.estimators._images import read_images
from logsuper.estimators._mask_examples import gather
from logsuper.learning import _decoding as decoding
from logsuper.learning._decoding import SAMPLES
from logsuper.report import Table
from logsuper.sampling import NotCoalesced
from logsuper.solvers._conditional import ROUNDS

RATES = (0.01, 0.05, 0.10, 0.20)
LEARNERS = {"logistic": True, "resample": False}
"""The default learners with and without clean images; whether clean images are given."""
SIZES = {50: (60, 40), 128: (20, 10), 256: (8, 4)}
"""Training and test silhouettes of each size."""
SMALL, LARGEST = 50, 128
"""Largest image sizes for slow methods, and for all others, in the comparison."""
BINS = 20
SLACK = 1.005
"""The default may exceed the least log loss of perturbations by this factor, to be faster."""
TEXT = (
    "Pixels are flipped at four rates; a model is learned from pairs by the logistic bound, or "
    "from noisy images alone by resampling. The first table is cross-validation in two folds on "
    "training images, and chooses; the others are on test images, and do not. Frequencies of S "
    "maximisers under logistic noise have k ones of S. Conditional: the probability of each pixel "
    "given the noise of the others, averaged, with some rounds of messages; doubt is the least "
    "distance from 0 and 1. Exact: certified strips under the same model. Calibration error is "
    f"expected, in {BINS} bins. Seconds are processor time."
)

Floats = NDArray[np.float64]


class Posterior:
    """Noisy images and a fitted model, the input of decoders."""

    def __init__(self, model: ls.MaskDenoiser, noisy: np.ndarray) -> None:
        self.examples = gather(model._design, read_images(noisy, "noisy"), model.channel_)
        self.theta = self.examples.layout.pack(model.parameters_)
        self.alpha = self.theta[self.examples.layout.blocks["alpha"]]
        (self.group,) = self.examples.groups
        self.rows = np.arange(self.group.count)
        self.fields = self.examples.fields(self.theta, self.group, self.rows)

    def ones(self, samples: int) -> Floats:
        """Return the number of maximisers under noise that are 1, per pixel."""
        found = self.group.prepared.perturb(self.fields, self.alpha, samples, 0).mean
        return np.round(found * samples)

    def conditional(self, rounds: int, samples: int) -> Floats:
        """Return the conditional means that `MaskDenoiser` uses, with other settings."""
        return self.group.prepared.conditional_means(
            self.fields, self.alpha, samples, 0, rounds=rounds
        )

    def inferred(self, method: str) -> Floats:
        """Return marginals by a method of `LogSupermodular`."""
        return np.stack(
            [
                decoding.make_model(self.group, int(row), self.alpha, field).marginals(method)
                for row, field in zip(self.rows, self.fields, strict=True)
            ]
        )

    def sampled(self, samples: int) -> Floats:
        """Return conditional probabilities averaged over exact samples; NaN without samples."""
        try:
            drawn = decoding.samples(self.examples, self.theta, samples, seed=0, max_iter=1024)
        except NotCoalesced:
            return np.full(self.fields.shape, np.nan)
        f = decoding.make_function(self.group, 0, self.alpha)
        gains = f.gains(np.reshape(drawn, (len(self.rows), samples, -1)))
        return expit(self.fields[:, None] - gains).mean(axis=1)


Way = Callable[[Posterior], Floats]


def counted(posterior: Posterior, samples: int = 100, more: float = 0.0) -> Floats:
    """Return frequencies after adding `more` zeros and as many ones to the counts."""
    return (posterior.ones(samples) + more) / (samples + 2.0 * more)


def conditional(
    posterior: Posterior, rounds: int = ROUNDS, samples: int = SAMPLES, doubt: float = DOUBT
) -> Floats:
    """Return the probabilities of the default, or with other settings."""
    return np.clip(posterior.conditional(rounds, samples), doubt, 1.0 - doubt)


REFERENCE = "(k + .5) / (S + 1), S = 100"
DEFAULT = f"conditional, {ROUNDS} rounds, S = {SAMPLES}, doubt {DOUBT:g}"
WAYS: dict[str, Way] = {
    "frequencies k / S, S = 100": counted,
    REFERENCE: partial(counted, more=0.5),
    "(k + .1) / (S + .2), S = 100": partial(counted, more=0.1),
    **{
        f"conditional, {rounds} rounds, S = 100, no doubt": partial(
            conditional, rounds=rounds, n_samples=100, doubt=0.0
        )
        for rounds in range(4)
    },
    **{
        f"conditional, {ROUNDS} rounds, S = 100, doubt {doubt:g}": partial(
            conditional, n_samples=100, doubt=doubt
        )
        for doubt in (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
    },
    **{
        f"conditional, {ROUNDS} rounds, S = {samples}, doubt {DOUBT:g}": partial(
            conditional, n_samples=samples
        )
        for samples in (32, SAMPLES)
    },
    "exact samples, conditional, S = 64": lambda posterior: posterior.sampled(64),
    "belief propagation": lambda posterior: posterior.inferred("bethe"),
    "exact (certified strips)": lambda posterior: posterior.inferred("auto"),
}
TESTED: dict[str, Way] = {
    "frequencies k / S, S = 100": counted,
    REFERENCE: partial(counted, more=0.5),
    "predict_proba": conditional,
    "exact (certified strips)": lambda posterior: posterior.inferred("auto"),
}


@dataclass(frozen=True)
class Score:
    """Scores of probabilities; `sure` is the fraction at exactly 0 or 1, `lost` that also wrong."""

    log_loss: float
    brier: float
    calibration: float
    error: float
    sure: float
    lost: float


def score(p: Floats, truth: np.ndarray) -> Score:
    """Compare probabilities with the true pixels."""
    p, x = p.ravel(), truth.ravel().astype(bool)
    with np.errstate(divide="ignore"):
        loss = -np.log(np.where(x, p, 1.0 - p)).mean()
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1) if np.isfinite(p).all() else x * 0
    off = np.bincount(place, p) - np.bincount(place, x)
    sure = (p == 0) | (p == 1)
    return Score(
        float(loss),
        float(np.mean((p - x) ** 2)),
        float(np.abs(off).sum() / p.size),
        float(np.mean((p > 0.5) != x)),
        float(sure.mean()),
        float((sure & ((p > 0.5) != x)).mean()),
    )


def fit(learner: str, noisy: np.ndarray, clean: np.ndarray) -> ls.MaskDenoiser:
    """Learn with the defaults of the estimator."""
    return ls.MaskDenoiser(learner=learner).fit(noisy, clean if LEARNERS[learner] else None)


# --------------------------------------------------------------------------------------- choosing


def choose(train: dict[str, np.ndarray], rates: tuple[float, ...]) -> tuple[list[Table], bool]:
    """Return the tables of cross-validation, and whether the default is as good as the best."""
    parts = ("log_loss", "brier", "error", "calibration")
    found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    small = []
    for data, learner, rate in itertools.product(train, LEARNERS, rates):
        images = train[data]
        small.append(images.shape[1] <= SMALL)
        noisy = ls.datasets.corrupt(images, ls.Flips(rate), 1)
        scores: dict[str, list[Score]] = {way: [] for way in WAYS if small[-1] or _is_cheap(way)}
        for fold in range(2):
            held = np.arange(len(images)) % 2 == fold
            posterior = Posterior(fit(learner, noisy[~held], images[~held]), noisy[held])
            for way, two in scores.items():
                two.append(score(WAYS[way](posterior), images[held]))
        for way, two in scores.items():
            found[way].append([float(np.mean([getattr(s, part) for s in two])) for part in parts])
    first = {way: np.array(rows)[: sum(small)] for way, rows in found.items()}
    every = {way: np.array(rows) for way, rows in found.items() if _is_cheap(way)}
    tables = [_compare(first, "images of 50x50")[0]] if len(every[REFERENCE]) > sum(small) else []
    table, good = _compare(every, "all")
    return [*tables, table], good


def _is_cheap(way: str) -> bool:
    """Return whether a method is based on perturbations, which are faster than exact inference."""
    return way.startswith(("freq", "(k", "conditional"))


def _compare(found: dict[str, Floats], title: str) -> tuple[Table, bool]:
    """Return the table of scores (settings, parts), and whether the default is good enough."""
    base = found[REFERENCE]
    rows, means = [], {}
    for way, values in found.items():
        ratio = np.exp(np.log(values[:, :3] / base[:, :3]).mean(axis=0))
        means[way] = float(ratio[0])
        cells = [*ratio, (values / base)[:, 0].max(), 100.0 * values[:, 3].mean()]
        rows.append([way, *("-" if np.isnan(cell) else f"{cell:.3f}" for cell in cells)])
    best = min(filter(_is_cheap, means), key=means.__getitem__)
    for row in rows:
        way = row[0]
        row[0] += " (default)" if way == DEFAULT else ""
        row[0] += " (least log loss)" if way == best else ""
    head = ["probabilities", "log loss", "Brier", "error", "worst log loss", "calibration error, %"]
    name = f"Choice, {title}: as factors of {REFERENCE} (geometric means of {len(base)} settings)"
    return Table(name, head, rows), means[DEFAULT] <= SLACK * means[best]


# ---------------------------------------------------------------------------------------- testing


def test(
    train: np.ndarray, images: np.ndarray, learner: str, rates: tuple[float, ...]
) -> Iterator[tuple[list[str], dict[str, Floats]]]:
    """Yield one line per noise level and method, and the probabilities of each noise level."""
    for rate in rates:
        model = fit(learner, ls.datasets.corrupt(train, ls.Flips(rate), 1), train)
        posterior = Posterior(model, ls.datasets.corrupt(images, ls.Flips(rate), 2))
        kept: dict[str, Floats] = {}
        seconds = {}
        for way, find in TESTED.items():
            start = time.process_time()
            kept[way] = find(posterior)
            seconds[way] = time.process_time() - start
        exact = kept["exact (certified strips)"]
        for way, p in kept.items():
            s = score(p, images)
            yield (
                [
                    learner,
                    f"{100 * rate:g} %",
                    way,
                    f"{s.log_loss:.4f}",
                    f"{s.brier:.5f}",
                    f"{100 * s.calibration:.2f}",
                    f"{100 * s.error:.2f}",
                    f"{100 * s.sure:.1f} ({round(s.lost * p.size)} wrong)",
                    f"{100 * np.abs(p - exact).mean():.2f}",
                    f"{1e3 * seconds[way] / len(images):.1f}",
                ],
                kept,
            )


HEAD = [
    "learner",
    "flips",
    "probabilities",
    "log loss",
    "Brier",
    "calibration error, %",
    "error, %",
    "exactly 0 or 1, %",
    "off exact, %",
    "ms per image",
]


def draw(path: Path, panels: dict[str, tuple[dict[str, Floats], np.ndarray]]) -> None:
    """Draw the fraction of ones against the probability, on the scale of log-odds."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    from scipy.special import logit

    edges = np.linspace(-9.5, 9.5, 20)
    ticks = np.array([1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999])
    figure = Figure(figsize=(4.5 * len(panels), 4.5), layout="constrained")
    for axes, (title, (kept, truth)) in zip(
        np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True
    ):
        for marker, (way, p) in zip("xsod", kept.items(), strict=True):
            place = np.digitize(logit(np.clip(p.ravel(), 1e-5, 1.0 - 1e-5)), edges)
            count = np.bincount(place)
            with np.errstate(invalid="ignore"):
                mean = np.bincount(place, np.clip(p.ravel(), 1e-5, 1.0 - 1e-5)) / count
                share = np.bincount(place, truth.ravel()) / count
            seen = (count >= 30) & (share > 0) & (share < 1)
            axes.plot(logit(mean[seen]), logit(share[seen]), marker, label=way, alpha=0.8)
        axes.plot(logit(ticks[[0, -1]]), logit(ticks[[0, -1]]), "k-", linewidth=0.8)
        axes.set_xticks(logit(ticks), [f"{t:g}" for t in ticks], rotation=60)
        axes.set_yticks(logit(ticks), [f"{t:g}" for t in ticks])
        axes.set(title=title, xlabel="probability", ylabel="share of ones")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; return 1 if the default is not among the best methods."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probabilities", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parser.add_argument("--only", choices=["choice", "test"], help="one of the two parts")
    parser.add_argument("--quick", action="store_true", help="a few small images, at 10 %% flips")
    parser.add_argument("--figure", type=Path, help="write a reliability diagram here (PNG)")
    parser.add_argument("--markdown", type=Path, help="write the tables here, too")
    options = parser.parse_args(arguments)
    rates = (0.10,) if options.quick else RATES
    sizes = {24: (12, 6)} if options.quick else SIZES
    sets = {}
    for size, (train, held) in sizes.items():
        images = ls.make_silhouettes(train + held, shape=(size, size), seed=0)
        sets[f"silhouettes, {size}x{size}"] = images[:train], images[train:]
    if options.data is not None:
        horses = load_silhouettes(options.data, 200)
        sets["horses, 50x50"] = horses[:100], horses[100:]
    tables: list[Table] = []
    good = True
    if options.only != "test":
        order = sorted(sets, key=lambda name: sets[name][0].shape[1])
        chosen = {name: sets[name][0] for name in order if sets[name][0].shape[1] <= LARGEST}
        tables, good = choose(chosen, rates)
    if options.only != "choice":
        panels: dict[str, tuple[dict[str, Floats], np.ndarray]] = {}
        for name, (train, images) in sets.items():
            lines = []
            for learner in LEARNERS if images.shape[1] <= SMALL else ["logistic"]:
                for line, kept in test(train, images, learner, rates):
                    lines.append(line)
                    if learner == "logistic" and line[1] in ("10 %", "20 %"):
                        panels[f"{name}, {line[1]} flips"] = kept, images
            tables.append(Table(f"Test: {name}", HEAD, lines))
        if options.figure is not None:
            last = list(panels)[-2:]
            draw(options.figure, {title: panels[title] for title in last})
    show(tables)
    if options.markdown is not None:
        given = sys.argv[1:] if arguments is None else arguments
        text = TEXT
        if options.figure is not None:
            where = os.path.relpath(options.figure, options.markdown.parent)
            text += f"\n\n![Reliability: the share of ones against the probability]({where})"
        write_page(
            options.markdown, "Probabilities", "benchmarks.probabilities", given, text, tables
        )
    if not good:
        print(f"the default is more than a factor of {SLACK} above the least log loss")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
