"""The picture of figure 1: for each decay the bounds, and how far they are from the best lower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from logsuper._base import FloatArray
from logsuper.experiments import _plot

if TYPE_CHECKING:
    from logsuper.experiments.figure1 import Result

# Colour (Okabe and Ito's, safe for colour-blind readers), dashes and marker; each alone tells the
# curves apart, so that a print in grey does too.
_STYLES: dict[str, tuple[str, Any, str]] = {
    "lfield": ("#000000", "-", "s"),
    "logistic_plain": ("#56b4e9", (0, (1, 1.2)), "x"),
    "logistic": ("#0072b2", "-", "o"),
    "power": ("#cc79a7", (0, (5, 1.5, 1, 1.5)), "D"),
    "trw": ("#e69f00", (0, (5, 1.5)), "^"),
    "bethe": ("#009e73", "-", "v"),
    "superdifferential": ("#d55e00", (0, (3, 1.5)), "P"),
}
# Their noise hides their distance from the best lower bound: points there, not lines and bands.
_NOISY = ("logistic_plain", "power")
_LINEAR = 1e-2  # nats around zero that the lower panels show on a linear scale


def draw(result: Result) -> bytes:
    """Return the figure as a PNG."""
    columns = len(result.decays)
    with _plot.style():
        figure = _plot.new_figure(1.0 + 4.1 * columns, 7.2)
        axes = figure.subplots(
            2, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(1.15, 1)
        )
        drawn = [i for i, curve in enumerate(result.curves) if curve.key in _STYLES]
        distances = result.value - result.best_lower[..., None]
        for c, decay in enumerate(result.decays):
            above, below = axes[:, c]
            for place, i in enumerate(drawn):
                curve = result.curves[i]
                _line(above, result, result.value[:, c, :, i], curve.key, curve.label, place)
                if curve.key in _NOISY:
                    _points(below, result, distances[:, c, :, i], curve.key)
                else:
                    _line(below, result, distances[:, c, :, i], curve.key, None, place)
            above.set_title(f"c = {decay:g}")
            below.set_yscale("symlog", linthresh=_LINEAR, linscale=0.6)
            below.set_xlabel("points given in each cluster, k")
            for axis in (above, below):
                axis.axhline(0.0, color="0.6", linewidth=0.6, zorder=0)
                axis.grid(color="0.92", linewidth=0.6)
        axes[0, 0].set_ylabel("log Z (nats)")
        axes[1, 0].set_ylabel("distance above the best lower bound (nats)")
        figure.align_ylabels(axes[:, 0])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        return _plot.as_png(figure)


def _line(
    axis: Any, result: Result, values: FloatArray, key: str, label: str | None, place: int
) -> None:
    """Draw the mean of one curve, values (seeds, counts), and its band."""
    colour, dashes, marker = _STYLES[key]
    order = np.argsort(result.counts)
    counts = np.array(result.counts)[order]
    # markers far apart, and not at the same k for all curves, where they would hide each other
    every = max(1, len(counts) // 8)
    axis.plot(
        counts,
        values.mean(axis=0)[order],
        color=colour,
        linestyle=dashes,
        linewidth=1.4,
        marker=marker,
        markersize=4.5,
        markerfacecolor="white",
        markevery=(place % every, every),
        label=label,
    )
    low, high = (end[order] for end in result.band(values))
    axis.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)


def _points(axis: Any, result: Result, values: FloatArray, key: str) -> None:
    """Draw the means of one curve as points."""
    colour, _, marker = _STYLES[key]
    axis.plot(
        result.counts,
        values.mean(axis=0),
        color=colour,
        linestyle="",
        marker=marker,
        markersize=2.8,
        markerfacecolor="white",
        zorder=1.5,
    )
