"""Held-out log-likelihood of density estimators: `python -m benchmarks.density`.

Cross-validated log-likelihood, in nats per row, of `LogSupermodularDensity` with different
functions and numbers of components, compared with independent features and mixtures of Bernoullis.
The exit code is 1 if the default has a lower likelihood than a simpler model: independent features,
a single field, or a mixture of Bernoullis.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import KFold

import logsuper as ls
from benchmarks.tables import show, write_page
from logsuper.report import Table

FOLDS = 5
DEFAULT = "LogSupermodularDensity()"
SIMPLER = ("independent features", "one field", "mixture of ten", "mixture of twenty")


class Data(NamedTuple):
    """Binary rows, and the shape of their images, if any."""

    rows: np.ndarray
    shape: tuple[int, int] | None = None


def digits() -> Data:
    """Return the digits of scikit-learn, 8x8 pixels, ones above 7 of 16 grey levels."""
    return Data((load_digits().data > 7).astype(int), (8, 8))


def silhouettes() -> Data:
    """Return silhouettes of 24x24 pixels, each block of 2x2 a one if more than half of it is."""
    images = ls.make_silhouettes(600, (24, 24), seed=0)
    blocks = images.reshape(-1, 12, 2, 12, 2).mean(axis=(2, 4)) > 0.5
    return Data(blocks.reshape(len(images), -1).astype(int), (12, 12))


def breast_cancer() -> Data:
    """Return the thirty measurements of the breast-cancer data, ones above the median."""
    values = load_breast_cancer().data
    return Data((values > np.median(values, axis=0)).astype(int))


SETS: dict[str, Callable[[], Data]] = {
    "digits, 8x8 pixels": digits,
    "silhouettes, 12x12 pixels": silhouettes,
    "breast cancer, 30 features": breast_cancer,
}


class Bernoullis:
    """A mixture of independent features, by expectation maximisation from k-means.

    The prior of each component is half a one and half a zero per feature.
    """

    def __init__(self, components: int = 1) -> None:
        self.components = components

    def fit(self, rows: np.ndarray) -> Bernoullis:
        """Iterate until the gain of an iteration is below 1e-4 nats per row."""
        start = KMeans(self.components, n_init=1, random_state=0).fit(rows).labels_
        shares, last = np.eye(self.components)[start], -np.inf
        while True:
            totals = shares.sum(axis=0)
            self.weights = totals / totals.sum()
            self.p = (shares.T @ rows + 0.5) / (totals[:, None] + 1.0)
            joint = self._joint(rows)
            each = logsumexp(joint, axis=1)
            if each.mean() - last < 1e-4:
                return self
            shares, last = np.exp(joint - each[:, None]), each.mean()

    def score(self, rows: np.ndarray) -> float:
        """Return the mean log-likelihood."""
        return float(logsumexp(self._joint(rows), axis=1).mean())

    def _joint(self, rows: np.ndarray) -> np.ndarray:
        odds, absent = np.log(self.p / (1 - self.p)), np.log1p(-self.p)
        return rows @ odds.T + absent.sum(axis=1) + np.log(self.weights)


def models(shape: tuple[int, int] | None) -> dict[str, Callable[[], Any]]:
    """Return the unfitted models by name."""
    found: dict[str, Callable[[], Any]] = {
        "independent features": Bernoullis,
        "mixture of ten Bernoullis": lambda: Bernoullis(10),
        "mixture of twenty Bernoullis": lambda: Bernoullis(20),
        "one field, counts": lambda: ls.LogSupermodularDensity("counts"),
    }
    if shape is not None:
        cuts = ls.grid_cuts(shape)
        edges = [ls.Cut(cut.n, [edge]) for cut in cuts for edge in cut.edges]
        found["one field, a weight per direction of the grid"] = lambda: ls.LogSupermodularDensity(
            list(cuts)
        )
        found["one field, a weight per edge of the grid"] = lambda: ls.LogSupermodularDensity(edges)
    found["one field, forest"] = lambda: ls.LogSupermodularDensity("forest", n_components=1)
    found["one field, n_components=1"] = lambda: ls.LogSupermodularDensity(n_components=1)
    for count in (2, 5, 10, 20):
        found[f"mixture of fields, n_components={count}"] = lambda count=count: (
            ls.LogSupermodularDensity(n_components=count)
        )
    found[DEFAULT] = ls.LogSupermodularDensity
    return found


class Result(NamedTuple):
    """The results of one model in each fold."""

    scores: np.ndarray
    seconds: np.ndarray
    fields: list[int]

    def cells(self) -> list[str]:
        """Return the mean score with its standard error, the number of fields, the seconds."""
        error = self.scores.std(ddof=1) / np.sqrt(len(self.scores))
        fields = [str(count) for count in self.fields if count]
        shown = ", ".join(fields if len(set(fields)) > 1 else fields[:1])
        return [f"{self.scores.mean():.2f} ± {error:.2f}", shown, f"{self.seconds.mean():.2g}"]


def measure(make: Callable[[], Any], rows: np.ndarray, folds: int) -> Result:
    """Return the held-out scores of a model, fold by fold."""
    scores, seconds, fields = [], [], []
    for train, test in KFold(folds, shuffle=True, random_state=0).split(rows):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.ConvergenceWarning)
            model = make().fit(rows[train])
        seconds.append(time.process_time() - start)
        scores.append(model.score(rows[test]))
        fields.append(len(getattr(model, "weights_", ())))
    return Result(np.array(scores), np.array(seconds), fields)


def compare(name: str, data: Data, folds: int) -> tuple[Table, bool]:
    """Return the table of one data set, and whether no simpler model is better than the default."""
    found = {}
    for model, make in models(data.shape).items():
        found[model] = measure(make, data.rows, folds)
        print(name, model, *found[model].cells(), sep="  ", file=sys.stderr)
    best = found[DEFAULT].scores.mean()
    good = all(
        result.scores.mean() <= best for model, result in found.items() if model.startswith(SIMPLER)
    )
    head = ["model", "held-out nats per row", "fields", "CPU seconds per fit"]
    title = f"{name[0].upper()}{name[1:]}, {len(data.rows)} rows"
    return Table(title, head, [[model, *result.cells()] for model, result in found.items()]), good


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if a simpler model is better than the default."""
    command = sys.argv[1:] if arguments is None else arguments
    parse = argparse.ArgumentParser(prog="python -m benchmarks.density", description=__doc__)
    parse.add_argument("--only", default="", metavar="NAME", help="data with this in their name")
    parse.add_argument("--folds", type=int, default=FOLDS)
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(command)
    chosen = {name: load for name, load in SETS.items() if options.only in name}
    if not chosen:
        parse.error(f"--only must be part of one of: {'; '.join(SETS)}")
    found = [compare(name, load(), options.folds) for name, load in chosen.items()]
    tables = [table for table, _ in found]
    show(tables)
    if options.markdown is not None:
        text = (
            f"Log-likelihood of rows that were not seen, mean over {options.folds} folds with its "
            "standard error; larger is better. Digits are those of scikit-learn with ones above 7 "
            "of 16 grey levels, silhouettes those of `make_silhouettes`, breast cancer the "
            "measurements of scikit-learn above their medians. A forest has a weight for each "
            "pair of its own choice; a mixture has a forest for each of its fields. The default "
            "chooses among counts, one forest and mixtures of 2, 5, 10 and 20 by rows that it "
            "holds out of those it is given."
        )
        write_page(
            options.markdown,
            "Densities of binary rows",
            "benchmarks.density",
            command,
            text,
            tables,
        )
    return int(not all(good for _, good in found))


if __name__ == "__main__":
    sys.exit(main())
