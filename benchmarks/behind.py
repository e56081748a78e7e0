"""A field on top of a classifier, for colour photographs: `python -m benchmarks.behind --data DIR`.

Boosted trees classify each pixel of a photograph of a horse by its colour, the colours around it
and its position. A field with weaker edges where the colour changes has their log-odds as a
feature; a temperature for its probabilities is chosen on the training images. Learning and the
choice of the temperature use out-of-fold log-odds of the trees. The first row of each pair trains
on the first half of the photographs and tests on the second, other rows use random halves. The exit
code is 1 if the field is not better than the trees in error and in log loss.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.learning import (
    Examples,
    Penalty,
    best_temperature,
    logistic,
    make_examples,
    means,
    soften,
)
from logsuper.report import Table

SHAPE = (64, 80)
# Pixels per training image that trees learn from.
SEEN = 300
FOLDS = 3
# Widths (pixels) of the Gaussian blurs that describe the colours around a pixel.
BLURS = (1.0, 3.0, 8.0)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return photographs (N, H, W, 3) in [0, 1] and their masks."""
    names = sorted(file.name for file in (folder / "rgb").iterdir())
    size = SHAPE[::-1]
    photographs, masks = [], []
    for name in names:
        with Image.open(folder / "rgb" / name) as picture:
            colours = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        with Image.open(folder / "figure_ground" / name) as picture:
            mask = picture.convert("L").resize(size, Image.Resampling.BOX)
        photographs.append(np.asarray(colours) / 255.0)
        masks.append(np.asarray(mask) > 127)
    return np.stack(photographs), np.stack(masks).astype(np.uint8)


def describe(photographs: np.ndarray) -> np.ndarray:
    """Return features of each pixel: its colour, those around it, its position (N, H, W, F)."""
    blurred = [gaussian_filter(photographs, (0, width, width, 0)) for width in BLURS]
    places = np.broadcast_to(
        np.moveaxis(np.indices(SHAPE), 0, -1)[None], (*photographs.shape[:3], 2)
    )
    return np.concatenate([photographs, *blurred, places], axis=-1).astype(np.float32)


def edge_weights(photographs: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return exp(-|difference of colours|^2 / twice its mean) of each edge, (N, E)."""
    flat = photographs.reshape(len(photographs), -1, 3)
    square = ((flat[:, edges[:, 0]] - flat[:, edges[:, 1]]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-square / (2.0 * square.mean(axis=1, keepdims=True) + 1e-12)))


class Trees:
    """Boosted trees that classify pixels."""

    def __init__(self, seed: int) -> None:
        self.model = HistGradientBoostingClassifier(max_iter=150, random_state=seed)
        self.rng = np.random.default_rng(seed)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Trees:
        """Learn from some pixels of each image."""
        flat, labels = X.reshape(len(X), -1, X.shape[-1]), y.reshape(len(y), -1)
        place = self.rng.integers(flat.shape[1], size=(len(X), SEEN))
        rows = np.arange(len(X))[:, None]
        self.model.fit(flat[rows, place].reshape(-1, X.shape[-1]), labels[rows, place].ravel())
        return self

    def odds(self, X: np.ndarray) -> np.ndarray:
        """Return the log-odds of all pixels."""
        return np.asarray(self.model.decision_function(X.reshape(-1, X.shape[-1]))).reshape(
            X.shape[:-1]
        )


def gather(photographs: np.ndarray, odds: np.ndarray, masks: np.ndarray | None) -> Examples:
    """Return photographs with the log-odds of trees as their one feature."""
    cuts = ls.grid_cuts(SHAPE, 8)
    prepared = make_examples(cuts, features=odds[:1, ..., None], modular="shared")
    weights = edge_weights(photographs, prepared.groups[0].prepared.edges)
    return make_examples(
        cuts,
        labels=masks,
        features=odds[..., None],
        modular="shared",
        edge_weights=weights,
    )


def judge(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return error, log loss and calibration error, the first and last in percent."""
    p, y = np.clip(p.ravel(), 1e-6, 1.0 - 1e-6), truth.ravel()
    bins = np.minimum((15 * p).astype(int), 14)
    count = np.bincount(bins, minlength=15)
    gap = np.abs(np.bincount(bins, p, 15) - np.bincount(bins, y, 15))
    loss = -np.where(y == 1, np.log(p), np.log1p(-p)).mean()
    return np.array([100 * np.mean((p > 0.5) != y), loss, 100 * gap.sum() / count.sum()])


def compare(
    photographs: np.ndarray, masks: np.ndarray, order: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Return the scores of each method on the second half of the photographs."""
    train, test = np.array_split(order, 2)
    X = describe(photographs)
    held = np.empty((len(train), *SHAPE))
    for near, far in GroupKFold(FOLDS).split(train, groups=np.arange(len(train))):
        trees = Trees(seed).fit(X[train[near]], masks[train[near]])
        held[far] = trees.odds(X[train[far]])
    odds = Trees(seed).fit(X[train], masks[train]).odds(X[test])
    seen = gather(photographs[train], held, masks[train])
    new = gather(photographs[test], odds, None)
    fit = logistic(seen, Penalty.of(seen.layout, alpha=1e-3, beta=1e-3), seed=seed, n_jobs=2)
    p = np.asarray(means(new, fit.theta, method="logistic", n_jobs=2))
    t = best_temperature(seen, fit.theta, n_jobs=2)
    print(f"  alpha {fit.parameters.alpha.round(2)}, beta {fit.parameters.beta.round(2)}", end=", ")
    print(f"temperature {t:.2f}", flush=True)
    truth = masks[test]
    return {
        "trees": judge(expit(odds), truth),
        "field behind them": judge(p, truth),
        "field, with temperature": judge(soften(p, t), truth),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if the field is not better in error and log loss."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.behind", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with weizmann_horse_db")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    photographs, masks = load(args.data / "weizmann_horse_db")
    runs = []
    for seed in range(args.seeds):
        order = np.arange(len(masks))
        if seed:
            order = np.random.default_rng(seed).permutation(order)
        runs.append(compare(photographs, masks, order, seed))
    rows = []
    for name in runs[0]:
        values = np.stack([run[name] for run in runs])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else [0.0] * 3
        rows.append(
            [
                name,
                f"{values[:, 0].mean():.2f} ± {error[0]:.2f}",
                f"{values[:, 1].mean():.4f} ± {error[1]:.4f}",
                f"{values[:, 2].mean():.2f} ± {error[2]:.2f}",
            ]
        )
    head = ["method", "error (%)", "log loss", "calibration error (%)"]
    table = Table(f"{len(masks)} colour horses, {args.seeds} halves", head, rows)
    show([table])
    if args.markdown is not None:
        write_page(
            args.markdown,
            "A field behind a classifier",
            "benchmarks.behind",
            given,
            "Half of the photographs to learn from, half to test; mean and standard error over "
            "random halves (the first run: first against last). `best_temperature` divides all "
            "log-odds by one number, which changes no decision.",
            [table],
        )
    mean = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
    better = mean["field, with temperature"][:2] < mean["trees"][:2]
    return int(not better.all())


if __name__ == "__main__":
    sys.exit(main())
