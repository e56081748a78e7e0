"""Figure 1 as a section of a report."""

from __future__ import annotations

import csv
import dataclasses
import os
import time
from collections.abc import Sequence

from logsuper.experiments import _figure1_chart, _figure1_report, figure1
from logsuper.experiments._parts import Progress
from logsuper.experiments._section import Grid, Picture, Section
from logsuper.experiments._setting import Setting

__all__ = ["QUICK_COUNTS", "run"]

QUICK_COUNTS = (1, 2, 5, 10, 25, 45, 50)
"""Numbers of given points in a quick run."""


def run(
    setting: Setting,
    *,
    seeds: Sequence[int],
    quick: bool = False,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Section:
    """Compare bounds on log Z of a graph cut.

    Parameters
    ----------
    setting : Setting
        Not used: the figure is about points in the plane.
    seeds : sequence of int
        One a data set.
    quick : bool
        Fewer numbers of given points.
    partial : path, optional
    progress : callable, optional
    n_jobs : int

    Returns
    -------
    Section
    """
    start = time.perf_counter()
    result = figure1.run(
        seeds,
        counts=QUICK_COUNTS if quick else None,
        partial=partial,
        progress=progress,
        n_jobs=n_jobs,
    )
    grids = [_values(result, c) for c in range(len(result.decays))]
    grids.append(
        _grid(
            "figure1_order",
            "Upper bounds below the best lower bound",
            *_figure1_report.crossings(result),
            "In how many models; a sampled bound may lie there: it is the estimate of an upper "
            "bound, not one itself.",
        )
    )
    if (exact := _figure1_report.against_exact(result)) is not None:
        note, head, rows = exact
        grids.append(_grid("figure1_exact", "Bound less exact value", head, rows, note))
    grids.append(
        _grid(
            "figure1_cost",
            "Cost of a bound",
            *_figure1_report.cost(result),
            "Means over all models but those in which everything is fixed. A solve is one "
            "submodular minimisation, here a cut of the graph.",
        )
    )
    # all numbers go with the first table
    full = tuple(map(tuple, csv.reader(_figure1_report.table(result).splitlines())))
    grids[0] = dataclasses.replace(grids[0], name="figure1", csv=full)
    text = (
        f"Two clusters of {result.points} points in the plane, a complete graph with weights "
        "exp(-c |x - y|) and its cut function, given the labels of k points of each cluster: "
        "bounds on the log-partition function, in nats; sampled ones with "
        f"{result.samples} samples. Below, what the paper says in section 3.3, and what was found.",
        *_figure1_report.remarks(result),
    )
    picture = Picture(
        "figure1",
        _figure1_chart.draw(result),
        "Bounds on log Z against the number k of given points in each cluster, and their distance "
        "above the best lower bound"
        + (f"; means over {len(seeds)} data sets, with 95 % bands." if len(seeds) > 1 else "."),
    )
    title = "Figure 1: bounds on the log-partition function"
    seconds = time.perf_counter() - start
    return Section(
        "figure1", title, text, tuple(grids), (picture,), seconds, tuple(seeds), images=False
    )


def _grid(name: str, title: str, head: list[str], rows: list[list[str]], note: str) -> Grid:
    return Grid(name, title, tuple(head), tuple(map(tuple, rows)), note)


def _values(result: figure1.Result, c: int) -> Grid:
    """Return the mean bounds for one decay."""
    several = len(result.seeds) > 1
    head, *rows = _figure1_report.values(result, c, band=several)
    return Grid(
        f"figure1_c{result.decays[c]:g}",
        f"Bounds on log Z in nats, c = {result.decays[c]:g}",
        tuple(head),
        tuple(map(tuple, rows)),
        "Mean over the data sets ± half of the 95 % interval." if several else "",
    )
