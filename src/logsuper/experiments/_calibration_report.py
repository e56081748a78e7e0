"""The report section on calibration: text, a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from logsuper.experiments._setting import Setting, percent, spread_note
from logsuper.experiments.calibration import BINS, METHODS, RECOMMENDED, SAMPLES, Result
from logsuper.report import Picture, Section, Words, chart, least

# Name, colour (Okabe and Ito's, safe for colour-blind readers) and marker.
_STYLES = {
    "exact": ("exact", "#000000", "s"),
    "logistic": ("logistic", "#0072b2", "o"),
    "bethe": ("Bethe", "#009e73", "v"),
    "lfield": ("L-field", "#d55e00", "P"),
}
_LABELS = [_STYLES[method][0] for method in METHODS]
_DRAWN = (0.1, 0.2)
# Minimum number of pixels of a bin that is drawn; the frequencies of smaller ones are too noisy.
_FEWEST = 30


def make_section(result: Result, setting: Setting) -> Section:
    """Return the section of the report."""
    error, noises = result.error, [percent(noise) for noise in result.noises]
    mean = error.mean(axis=1)  # (noises, methods)
    chosen = METHODS.index(RECOMMENDED)
    said = Words(
        "logsuper.experiments",
        "calibration",
        setting=setting,
        samples=SAMPLES,
        bins=BINS,
        fewest=_FEWEST,
        levels=100.0 * np.array(result.noises),
        drawn=[percent(noise) for noise in result.noises if noise in _DRAWN],
        recommended=mean[:, chosen],
        best=sorted({_LABELS[i] for i in mean.argmin(axis=1)}),
        worst=_LABELS[int(mean.mean(axis=0).argmax())],
        spread=spread_note(result.seeds),
    )
    labels = [label + " (recommended)" * (m == chosen) for m, label in enumerate(_LABELS)]
    rows = [
        (label, *of_method)
        for label, of_method in zip(labels, np.moveaxis(error, -1, 0), strict=True)
    ]
    head, data = ["marginals", *noises], list(_bins(result))
    table = said.table("calibration", head, rows, data=data, best=least(mean.T))
    # the curves show sums over pixels, no image, so that they may always be published
    picture = Picture("calibration", draw(result), said["caption"])
    return said.section("calibration", tables=(table,), pictures=(picture,), seeds=result.seeds)


def _bins(result: Result) -> Iterator[tuple[Any, ...]]:
    """Yield every bin of every method, noise level and seed, the head first."""
    yield "marginals", "noise", "seed", "bin", "pixels", "mean probability", "share of ones"
    for (n, s, m, b), count in np.ndenumerate(result.count):
        sums = (result.predicted[n, s, m, b], result.observed[n, s, m, b])
        shares = (part / count if count else None for part in sums)
        yield _LABELS[m], percent(result.noises[n]), result.seeds[s], b, int(count), *shares


def draw(result: Result) -> bytes:
    """Return the reliability curves at two noise levels, over the pixels of all seeds."""
    shown = [n for n, noise in enumerate(result.noises) if noise in _DRAWN]

    def paint(axes: Any) -> None:
        for axis, n in zip(axes[0], shown, strict=True):
            axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=0, label="calibrated")
            for m, (label, colour, marker) in enumerate(_STYLES.values()):
                sums = (result.count, result.predicted, result.observed)
                count, predicted, observed = (part[n, :, m].sum(axis=0) for part in sums)
                use = count >= _FEWEST
                axis.plot(
                    predicted[use] / count[use], observed[use] / count[use], color=colour,
                    marker=marker, markersize=4.0, markerfacecolor="white", linewidth=1.2,
                    label=label,
                )  # fmt: skip
            title = f"{percent(result.noises[n])} noise"
            axis.set(title=title, xlabel="probability", aspect="equal")
        axes[0, 0].set_ylabel("share of pixels that are 1")

    size, shape = (0.6 + 3.4 * len(shown), 3.9), (1, len(shown))
    return chart.draw(paint, size, shape, legend=5, sharey=True)
