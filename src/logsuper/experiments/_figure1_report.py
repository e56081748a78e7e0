"""The report section on figure 1: text, tables and a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.experiments.figure1 import CURVES, Result
from logsuper.report import Picture, Section, Table, Words, chart

# The numbers k of given points that the shown tables include; the CSV files have all.
_SHOWN = (1, 5, 10, 25, 50)
# Colour (Okabe and Ito's, safe for colour-blind readers), dashes and marker; the markers alone
# distinguish the curves, also in a print in grey.
_STYLES: dict[str, tuple[str, Any, str]] = {
    "lfield": ("#000000", "-", "s"),
    "logistic_plain": ("#56b4e9", (0, (1, 1.2)), "x"),
    "logistic": ("#0072b2", "-", "o"),
    "power": ("#cc79a7", (0, (5, 1.5, 1, 1.5)), "D"),
    "trw": ("#e69f00", (0, (5, 1.5)), "^"),
    "bethe": ("#009e73", "-", "v"),
    "superdifferential": ("#d55e00", (0, (3, 1.5)), "P"),
}
# Curves drawn as points in the lower panels, where their noise exceeds the distances shown.
_NOISY = ("logistic_plain", "power")
_LINEAR = 1e-2  # nats around zero that the lower panels show on a linear scale
_LABELS = [curve.label.replace("$", "") for curve in CURVES]
_INDEX = {curve.key: i for i, curve in enumerate(CURVES)}
_EXACT = _INDEX["exact"]
_SAMPLED = {curve.key: i for i, curve in enumerate(CURVES) if curve.sampled}


def make_section(result: Result) -> Section:
    """Return the section of the report."""
    said = Words("logsuper.experiments", "figure1", result=result, **_numbers(result))
    values = [_values(result, c, said) for c in range(len(result.decays))]
    picture = Picture("figure1", draw(result), said["caption"])
    parts = {"tables": (*values, *_tables(result, said)), "pictures": (picture,)}
    return said.section("figure1", **parts, seeds=result.seeds, images=False)


def _numbers(result: Result) -> dict[str, Any]:
    """Return the numbers that are compared with the statements in section 3.3 of the paper."""
    value = {key: result.value[..., i] for key, i in _INDEX.items()}
    error = {key: np.sqrt(np.nanmean(result.stderr[..., i] ** 2)) for key, i in _SAMPLED.items()}
    return {
        "distance": {key: np.mean(value[key] - result.best_lower) for key in value},
        "excess": np.max(value["logistic"] - value["lfield"]),
        "below": np.mean(result.crossing(_INDEX["logistic_plain"])[0] > 0),
        "error": error,
        "levels": result.solves[..., _INDEX["lfield"]],
        "known": int(_known(result).sum()),
        "largest": CURVES[_EXACT].largest,
    }


def _known(result: Result) -> NDArray[np.bool_]:
    """Return which models have an exact value and at least one free element."""
    free = np.array(result.counts) < result.points
    return np.isfinite(result.value[..., _EXACT]) & free


def _values(result: Result, c: int, said: Words) -> Table:
    """Return the mean bounds for the decay with index c; the CSV of c = 0 has all numbers."""
    shown = [k for k in _SHOWN if k in result.counts] or list(result.counts)
    places = [result.counts.index(k) for k in shown]
    low, high = result.band()
    radius = (high - low) / 2
    several = len(result.seeds) > 1
    rows = []
    for i, curve in enumerate(CURVES):
        mean = result.mean[c, places, i]
        if np.isfinite(mean).any():
            cells = zip(mean, radius[c, places, i], strict=True) if several else mean
            rows.append([_LABELS[i], curve.side, *cells])
    return Table(
        f"Bounds on log Z in nats, c = {result.decays[c]:g}",
        ["bound", "side", *(f"k = {k}" for k in shown)],
        rows,
        said["values"],
        f"figure1_c{result.decays[c]:g}" if c else "figure1",
        data=() if c else list(_full(result)),
    )


def _full(result: Result) -> Iterator[tuple[Any, ...]]:
    """Yield one row per decay, k and curve, the head first; unknown numbers are NaN.

    `mean`, `low` and `high` are the mean over the data sets and its 95 % interval, `stderr` the
    root mean square of the standard errors of single estimates, `seconds` and `solves` means.
    """
    numbers = ("mean", "low", "high", "stderr", "seconds", "solves")
    yield "decay", "k", "method", "side", *numbers
    error = np.sqrt((result.stderr**2).mean(axis=0))
    means = result.seconds.mean(axis=0), result.solves.mean(axis=0)
    found = np.stack([result.mean, *result.band(), error, *means], axis=-1)
    for c, k, i in np.argwhere(np.isfinite(result.mean)):
        key, side = CURVES[i].key, CURVES[i].side
        yield result.decays[c], result.counts[k], key, side, *found[c, k, i]


def _tables(result: Result, said: Words) -> Iterator[Table]:
    """Yield tables of the crossings of bounds, of their errors and of their cost."""
    rows: list[list[Any]] = []
    for i, curve in enumerate(CURVES):
        if curve.side != "lower":
            nats, errors = result.crossing(i)
            models, crossed = int(np.isfinite(result.value[..., i]).sum()), int((nats > 0).sum())
            most = f"{errors.max():.1f}" if curve.sampled else ""
            rows.append([_LABELS[i], models, crossed, nats.max(), most])
    head = ["bound", "models", "crossings", "largest (nats)", "largest (standard errors)"]
    yield said.table("figure1_order", head, rows, format=".3g")
    known = _known(result)
    if known.any():
        error = (result.value - result.value[..., [_EXACT]])[known]
        three = np.stack([error.min(axis=0), error.mean(axis=0), error.max(axis=0)], axis=-1)
        rows = [[_LABELS[i], *three[i]] for i in range(len(CURVES)) if i != _EXACT]
        head = ["bound", "least (nats)", "mean (nats)", "largest (nats)"]
        yield said.table("figure1_exact", head, rows, format=".3g")
    free = np.array(result.counts) < result.points
    cost = np.stack([1e3 * result.seconds[:, :, free], result.solves[:, :, free]], axis=-1)
    rows = []
    for i, label in enumerate(_LABELS):
        done = np.isfinite(cost[..., i, 0])
        if done.any():
            rows.append([label, *cost[..., i, :][done].mean(axis=0)])
    yield said.table("figure1_cost", ["bound", "milliseconds", "solves"], rows, format=".1f")


def draw(result: Result) -> bytes:
    """Return the picture: per decay, the bounds and their distances above the best lower bound."""
    distances = result.value - result.best_lower[..., None]
    order = np.argsort(result.counts)
    counts = np.array(result.counts)[order]
    # markers are spaced out, and at different k per curve so that they do not hide each other
    every = max(1, len(counts) // 8)

    def curve(axis: Any, values: FloatArray, key: str, place: int, dots: bool = False) -> None:
        """Draw the mean of one curve, values (seeds, counts), with its band; or only dots."""
        colour, dashes, marker = _STYLES[key]
        line = {
            "linestyle": dashes, "linewidth": 1.4, "markersize": 4.5,
            "markevery": (place % every, every), "label": CURVES[_INDEX[key]].label,
        }  # fmt: skip
        style = {"linestyle": "", "markersize": 2.8, "zorder": 1.5} if dots else line
        shared = {"color": colour, "marker": marker, "markerfacecolor": "white"}
        axis.plot(counts, values.mean(axis=0)[order], **shared, **style)
        if not dots:
            low, high = (end[order] for end in result.band(values))
            axis.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)

    def paint(axes: Any) -> None:
        for c, decay in enumerate(result.decays):
            above, below = axes[:, c]
            for place, key in enumerate(_STYLES):
                at = (slice(None), c, slice(None), _INDEX[key])
                curve(above, result.value[at], key, place)
                curve(below, distances[at], key, place, dots=key in _NOISY)
            above.set_title(f"c = {decay:g}")
            below.set_yscale("symlog", linthresh=_LINEAR, linscale=0.6)
            below.set_xlabel("points given in each cluster, k")
            for axis in (above, below):
                axis.axhline(0.0, color="0.6", linewidth=0.6, zorder=0)
        axes[0, 0].set_ylabel("log Z (nats)")
        axes[1, 0].set_ylabel("distance above the best lower bound (nats)")
        axes[0, 0].figure.align_ylabels(axes[:, 0])

    columns = len(result.decays)
    size = (1.0 + 4.1 * columns, 7.2)
    options: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (1.15, 1)}
    return chart.draw(paint, size, (2, columns), **options)
