"""The tables of figure 1: one for programs (CSV) and a page for people (Markdown)."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from logsuper.experiments.figure1 import Result

_COLUMNS = (
    "decay",
    "k",
    "method",
    "side",
    "mean",
    "low",
    "high",
    "stderr",
    "seconds",
    "solves",
)
SHOWN = (1, 5, 10, 25, 50)
"""The numbers of given points in the tables for people."""


def table(result: Result) -> str:
    """Return the CSV: one row for each decay, k and curve; a field that is not known is empty.

    `mean`, `low` and `high` are the mean over the data sets and its 95 % interval, `stderr` the
    root mean square of the standard errors of single estimates, `seconds` and `solves` means.
    """
    low, high = result.band()
    error = np.sqrt((result.stderr**2).mean(axis=0))
    seconds, solves = result.seconds.mean(axis=0), result.solves.mean(axis=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for c, k, i in np.ndindex(result.mean.shape):
        if np.isnan(result.mean[c, k, i]):
            continue
        curve = result.curves[i]
        numbers = (
            float(part[c, k, i]) for part in (result.mean, low, high, error, seconds, solves)
        )
        writer.writerow(
            [
                f"{result.decays[c]:g}",
                result.counts[k],
                curve.key,
                curve.side,
                *map(_digits, numbers),
            ]
        )
    return text.getvalue()


def _digits(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.9g}"


def values(result: Result, c: int, band: bool = True) -> list[list[str]]:
    """Return a table of mean values for the decay with index c, the head first."""
    shown = [k for k in SHOWN if k in result.counts] or list(result.counts)
    places = [result.counts.index(k) for k in shown]
    low, high = result.band()
    rows = [["bound", "side", *(f"k = {k}" for k in shown)]]
    for i, curve in enumerate(result.curves):
        cells = []
        for k in places:
            mean, radius = result.mean[c, k, i], (high - low)[c, k, i] / 2
            spread = f" ± {radius:.2f}" if band else ""
            cells.append("" if np.isnan(mean) else f"{_fixed(mean)}{spread}")
        if any(cells):
            rows.append([_plain(curve.label), curve.side, *cells])
    return rows


def _fixed(number: float, digits: int = 2) -> str:
    """Return a number with some digits after the point, and never a negative zero."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def _plain(label: str) -> str:
    return label.replace("$", "")


def crossings(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return a table of how often upper bounds lie below lower ones: its head and its rows."""
    rows = []
    for i, curve in enumerate(result.curves):
        if curve.side == "lower":
            continue
        nats, errors = result.crossing(i)
        models = int(np.isfinite(result.value[..., i]).sum())
        in_errors = f"{errors.max():.1f}" if curve.sampled else ""
        rows.append(
            [
                _plain(curve.label),
                str(models),
                str(int((nats > 0).sum())),
                f"{nats.max():.3g}",
                in_errors,
            ]
        )
    return ["bound", "models", "crossings", "largest (nats)", "largest (standard errors)"], rows


def against_exact(result: Result) -> tuple[str, list[str], list[list[str]]] | None:
    """Return a table on the models that are small enough for the exact value, if there are any.

    That is what it is about, its head and its rows.
    """
    exact = next(i for i, curve in enumerate(result.curves) if curve.side == "exact")
    truth = result.value[..., exact]
    known = np.isfinite(truth) & (np.array(result.counts) < result.points)
    if not known.any():
        return None
    rows = []
    for i, curve in enumerate(result.curves):
        if i != exact:
            error = (result.value[..., i] - truth)[known]
            rows.append(
                [
                    _plain(curve.label),
                    *(f"{x:.3g}" for x in (error.min(), error.mean(), error.max())),
                ]
            )
    words = (
        f"Bound less exact value in the {int(known.sum())} models with at most "
        f"{result.curves[exact].largest} free elements."
    )
    head = ["bound", "least (nats)", "mean (nats)", "largest (nats)"]
    return words, head, rows


def cost(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return a table of means of time and of solves: its head and its rows."""
    free = np.array(result.counts) < result.points
    rows = []
    for i, curve in enumerate(result.curves):
        seconds, solves = (part[:, :, free, i] for part in (result.seconds, result.solves))
        done = np.isfinite(seconds)
        if done.any():
            rows.append(
                [
                    _plain(curve.label),
                    f"{1e3 * seconds[done].mean():.1f}",
                    f"{solves[done].mean():.1f}",
                ]
            )
    return ["bound", "milliseconds", "solves"], rows


def remarks(result: Result) -> list[str]:
    """Return what the paper says in section 3.3, each with what was found."""
    index = {curve.key: i for i, curve in enumerate(result.curves)}
    value = {key: result.value[..., i] for key, i in index.items()}
    distance = {key: np.mean(value[key] - result.best_lower) for key in ("lfield", "logistic")}
    excess = np.max(value["logistic"] - value["lfield"])
    below, _ = result.crossing(index["logistic_plain"])
    noise, reduced = (
        np.sqrt(np.nanmean(result.stderr[..., index[key]] ** 2))
        for key in ("logistic_plain", "logistic")
    )
    levels = result.solves[..., index["lfield"]]
    return [
        "The logistic bound is significantly lower than the L-field bound (proposition 1). "
        f"Found: on average {distance['lfield']:.2f} nats from L-field to the best lower bound, "
        f"{distance['logistic']:.2f} from the logistic bound; the latter less the former is at "
        f"most {excess:.2g}.",
        "The logistic bound is close to the superdifferential lower bound. Found: an estimate "
        f"from {result.samples} plain samples has a standard error of {noise:.2f} nats, and lies "
        f"below the best lower bound in {np.mean(below > 0):.0%} of the models; with reduced "
        f"variance its standard error is {reduced:.2f}.",
        "L-field takes O(|V|) minimisations, the logistic bound one a sample, about the same. "
        f"Found: from {levels.min():.0f} to {levels.max():.0f}, as all parts of a level are solved "
        f"at once, and {result.samples}.",
    ]
