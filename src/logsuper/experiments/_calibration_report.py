"""Calibration in words, a table and a picture."""

from __future__ import annotations

import numpy as np

from logsuper.experiments import _plot
from logsuper.experiments._section import Grid, Picture, spread, spread_note
from logsuper.experiments._setting import Setting
from logsuper.experiments.calibration import BINS, METHODS, RECOMMENDED, SAMPLES, Result

__all__ = ["draw", "grids", "text"]

_LABELS = {"exact": "exact", "logistic": "logistic", "bethe": "Bethe", "lfield": "L-field"}
# Colour (Okabe and Ito's, safe for colour-blind readers) and marker.
_STYLES = {
    "exact": ("#000000", "s"),
    "logistic": ("#0072b2", "o"),
    "bethe": ("#009e73", "v"),
    "lfield": ("#d55e00", "P"),
}
_DRAWN = (0.1, 0.2)
# A bin with fewer pixels says more of chance than of calibration.
_FEWEST = 30


def grids(result: Result) -> tuple[Grid, ...]:
    """Return the expected calibration errors; the CSV has every bin."""
    error = result.error
    rows = []
    for m, method in enumerate(METHODS):
        label = _LABELS[method] + (" (recommended)" if method == RECOMMENDED else "")
        rows.append((label, *(spread(of_seeds) for of_seeds in error[..., m])))
    best = {(int(np.argmin(column)), 1 + n) for n, column in enumerate(error.mean(axis=1))}
    return (
        Grid(
            "calibration",
            "Expected calibration error, in percent",
            ("marginals", *(f"{100.0 * noise:g} %" for noise in result.noises)),
            tuple(rows),
            f"Of all test pixels in {BINS} bins of equal width, weighted by pixels, at each share "
            f"of flipped pixels; {spread_note(result.seeds)}.",
            _csv(result),
            frozenset(best),
        ),
    )


def text(result: Result, setting: Setting) -> tuple[str, ...]:
    """Return what was done, and what came out."""
    m = METHODS.index(RECOMMENDED)
    found = result.error.mean(axis=1)
    listed = "/".join(f"{100.0 * noise:g}" for noise in result.noises)
    recommended = "/".join(f"{x:.2f}" for x in found[:, m])
    best = {_LABELS[METHODS[int(i)]] for i in found.argmin(axis=1)}
    worst = METHODS[int(found.mean(axis=0).argmax())]
    return (
        f"Of the pixels that get the probability p, a share of p should be 1. One model is learned "
        f"from {setting.train} pairs by the logistic bound, with a modular term for each pixel, a "
        "filter of the observations around a pixel and the weight of the observations; its "
        f"marginals on {setting.test} test images are then found in four ways.",
        f"Recommended are logistic marginals, here with {SAMPLES} perturbations an image: what "
        "MaskDenoiser gives for a model that was learned by the logistic bound. Such a learner "
        "matches the moments of perturbations, not the exact moments of the same parameters. Their "
        f"error is {recommended} % at {listed} % noise. The least error in some column is that of "
        f"{', '.join(sorted(best))} marginals, the largest on average that of {_LABELS[worst]}.",
    )


def draw(result: Result) -> tuple[Picture, ...]:
    """Return the reliability curves at two noise levels, the pixels of all seeds together."""
    shown = [n for n, noise in enumerate(result.noises) if noise in _DRAWN]
    names = " and ".join(f"{100.0 * result.noises[n]:g} %" for n in shown)
    with _plot.style():
        figure = _plot.new_figure(0.6 + 3.4 * len(shown), 3.9)
        axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axis, n in zip(axes, shown, strict=True):
            axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=0, label="calibrated")
            for m, method in enumerate(METHODS):
                count, predicted, observed = (
                    part[n, :, m].sum(axis=0)
                    for part in (result.count, result.predicted, result.observed)
                )
                use = count >= _FEWEST
                colour, marker = _STYLES[method]
                axis.plot(
                    predicted[use] / count[use],
                    observed[use] / count[use],
                    color=colour,
                    marker=marker,
                    markersize=4.0,
                    markerfacecolor="white",
                    linewidth=1.2,
                    label=_LABELS[method],
                )
            axis.set(
                title=f"{100.0 * result.noises[n]:g} % noise", xlabel="probability", aspect="equal"
            )
            axis.grid(color="0.92", linewidth=0.6)
        axes[0].set_ylabel("share of pixels that are 1")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
        png = _plot.as_png(figure)
    caption = (
        f"Reliability of marginals on test pixels at {names} noise: the share of ones among pixels "
        f"of about the same probability, in {BINS} bins; those with fewer than {_FEWEST} pixels "
        "are left out. Above the diagonal on the right and below it on the left, probabilities are "
        "too near to one half."
    )
    # curves of sums over pixels show no image, whatever the data
    return (Picture("calibration", png, caption),)


def _csv(result: Result) -> tuple[tuple[str, ...], ...]:
    """Return every bin of every method, noise level and seed."""
    lines: list[tuple[str, ...]] = [
        ("marginals", "noise", "seed", "bin", "pixels", "mean probability", "share of ones")
    ]
    for n, s, m, b in np.ndindex(*result.count.shape):
        count = result.count[n, s, m, b]
        sums = (result.predicted[n, s, m, b], result.observed[n, s, m, b])
        shares = (f"{part / count:.9g}" if count else "" for part in sums)
        noise, seed = f"{100.0 * result.noises[n]:g} %", str(result.seeds[s])
        lines.append((_LABELS[METHODS[m]], noise, seed, str(b), f"{count:.0f}", *shares))
    return tuple(lines)
