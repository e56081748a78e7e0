"""A report on experiments: one page of HTML that needs nothing else, a Markdown copy, and CSVs."""

from __future__ import annotations

import csv
import datetime
import io
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy

from logsuper import __version__
from logsuper._base import atomic_write
from logsuper.experiments import _html, _markdown, _origin
from logsuper.experiments._pages import Report
from logsuper.experiments._section import Grid, Section
from logsuper.experiments._setting import Setting
from logsuper.solvers import kernels

__all__ = ["Report", "duration", "make", "versions", "write"]

_TITLE = "Parameter learning for log-supermodular distributions, reproduced"
_LEAD = (
    "The experiments of T. Shpakova and F. Bach, “Parameter learning for log-supermodular "
    "distributions”, NIPS 2016, computed again."
)
_LEAD_IMAGES = (
    " Errors are shares of wrong pixels in test images; no experiment chooses anything by them. "
    "The defaults of the estimators, and what to put behind trees, were set beforehand, with a "
    "look at one seed of the noise of the horses; for the defaults cross-validation on training "
    "images agrees."
)


def make(sections: Sequence[Section], setting: Setting, command: str) -> Report:
    """Put the sections of a run together, with all that is needed to repeat it.

    Parameters
    ----------
    sections : sequence of Section
    setting : Setting
        The images that they are about.
    command : str
        What makes this report.

    Returns
    -------
    Report

    Examples
    --------
    >>> from logsuper.experiments import report
    >>> from logsuper.experiments._section import Section
    >>> from logsuper.experiments._setting import load_setting
    >>> setting = load_setting(train=2, test=2, shape=(16, 16))
    >>> section = Section("table1", "Table 1", ("Fine.",), seconds=61.0)
    >>> found = report.make([section], setting, "logsuper reproduce table1")
    >>> dict(found.facts)["time of this run"]
    'table1 1 min 1 s'
    """
    height, width = setting.masks.images.shape[1:]
    spent = ", ".join(f"{section.name} {duration(section.seconds)}" for section in sections)
    total = sum(section.seconds for section in sections)
    data = (
        "data",
        f"{setting.source}; {setting.train} images for training and {setting.test} for "
        f"testing, {height} × {width} pixels, fingerprint {setting.masks.fingerprint}",
    )
    images = any(section.images for section in sections)
    facts = (
        ("command", command),
        ("made with", versions()),
        *([data] if images else []),
        ("seeds", _seeds(sections)),
        ("date", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
        (
            "time of this run",
            spent + (f"; {duration(total)} in all" if len(sections) > 1 else ""),
        ),
    )
    return Report(_TITLE, _LEAD + _LEAD_IMAGES * images, facts, tuple(sections))


def _seeds(sections: Sequence[Section]) -> str:
    """Return the seeds of all sections, each on its own where they differ."""
    words = {section.name: ", ".join(map(str, section.seeds)) for section in sections}
    if len(set(words.values())) == 1:
        return words[sections[0].name]
    return "; ".join(f"{name} {seeds}" for name, seeds in words.items())


def versions() -> str:
    """Return what a result may depend on, in one line."""
    commit = _origin.commit()
    return (
        f"logsuper {__version__}{f' (commit {commit[:12]})' if commit else ''}, "
        f"{'with' if kernels() else 'without'} compiled kernels; Python "
        f"{platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}; "
        f"{os.cpu_count()} processors"
    )


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 0.1:
        return f"{1e3 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write(report: Report, out: str | os.PathLike[str]) -> list[Path]:
    """Write ``report.html``, ``report.md``, a CSV for each table, and pictures for Markdown.

    Pictures that show more than what ships with the package are in the HTML page alone.

    Parameters
    ----------
    report : Report
    out : path
        A folder; made if it is not there.

    Returns
    -------
    list of path
        The page, its copy, then the other files.
    """
    grids = [grid for section in report.sections for grid in section.grids]
    pictures = [picture for section in report.sections for picture in section.pictures]
    contents = {
        "report.html": _html.page(report).encode(),
        "report.md": _markdown.page(report).encode(),
        **{f"{grid.name}.csv": _csv(grid).encode() for grid in grids},
        **{f"{picture.name}.png": picture.png for picture in pictures if picture.shipped},
    }
    named = [f"{grid.name}.csv" for grid in grids] + [f"{p.name}.png" for p in pictures]
    for name in named:
        if named.count(name) > 1:
            raise ValueError(f"two parts of the report would be written to {name}")
    files = []
    for name, content in contents.items():
        files.append(Path(out) / name)
        with atomic_write(files[-1]) as file:
            file.write(content)
    return files


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(grid.csv or (grid.head, *grid.rows))
    return text.getvalue()
