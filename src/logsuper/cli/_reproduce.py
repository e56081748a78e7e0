"""`logsuper reproduce NAME`: the experiments of the paper."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import console
from logsuper.cli._inputs import TextPath, check_folder, refusal
from logsuper.cli._progress import bars

if TYPE_CHECKING:
    from logsuper.experiments import Grid, Section, Setting

__all__ = ["reproduce"]

_SECTIONS = {
    "figure1": "_figure1_section",
    "figure2": "figure2",
    "table1": "table1",
    "table2": "table2",
    "calibration": "calibration",
}
"""The sections of a report, in their order, and the modules that have their `run`."""

_SEEDS, _QUICK_SEEDS = 5, 1
_MORE_SEEDS = {"figure1": (10, 2)}


@click.group(invoke_without_command=True)
@click.pass_context
def reproduce(context: click.Context) -> None:
    """Compute the figures and tables of the paper again.

    T. Shpakova and F. Bach, "Parameter learning for log-supermodular distributions", NIPS 2016.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _options(seeds: int, quick_seeds: int) -> Callable[[Any], Any]:
    """Return what adds the options of a command with so many seeds."""
    options = (
        click.option(
            "--out",
            type=TextPath(file_okay=False, path_type=Path),
            required=True,
            help="Folder for report.html, report.md and CSVs; made if it is not there.",
        ),
        click.option(
            "--data",
            type=TextPath(path_type=Path),
            help="Folder with the Weizmann horse database; figure 1 needs none.  "
            "[default: silhouettes that ship with the package]",
        ),
        click.option("--quick", is_flag=True, help="A look first: smaller settings, fewer seeds."),
        click.option(
            "--seeds",
            type=click.IntRange(1, 1000),
            help="How many: data sets of figure 1, noises of the same images elsewhere.  "
            f"[default: {seeds}, with --quick {quick_seeds}]",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(-1024, 1024),
            default=-1,
            show_default=True,
            callback=_check_jobs,
            help="Processes; -1 is one for each processor. The numbers do not depend on it.",
        ),
    )

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _check_jobs(context: click.Context, parameter: click.Parameter, jobs: int) -> int:
    from logsuper._base import count_threads

    if jobs == 0:
        raise click.BadParameter("0 is no number of processes; try -1", param_hint="--jobs")
    return count_threads(jobs)


def _add_command(name: str, help: str) -> None:
    """Add a command that writes a report of one section, or of all."""
    usual = _MORE_SEEDS.get(name, (_SEEDS, _QUICK_SEEDS))

    @reproduce.command(name, help=f"{help}\n\n{_RESUME}")
    @_options(*usual)
    def command(out: Path, data: Path | None, quick: bool, seeds: int | None, jobs: int) -> None:
        count = seeds or usual[quick]
        given = [
            *([] if data is None else ["--data", str(data)]),
            *["--out", str(out)],
            *(["--quick"] if quick else []),
            *([] if seeds is None else ["--seeds", str(seeds)]),
        ]
        line = shlex.join(["logsuper", "reproduce", name, *given])
        names = list(_SECTIONS) if name == "all" else [name]
        _report(names, line, out, data, quick, range(count), jobs)


_RESUME = (
    "Writes a report: a page of HTML that needs no other file, a copy in Markdown, and a CSV for "
    "each table. What is finished is kept in OUT/partial: the same command goes on where it was "
    "stopped."
)
_add_command(
    "figure1",
    "Compare bounds on log Z of a graph cut (figure 1).\n\nTwo clusters of 50 points in the plane, "
    "a complete graph on them, and its cut function, given the labels of k points of each cluster: "
    "upper and lower bounds on the log-partition function against k.",
)
_add_command("figure2", "Show images: noisy, denoised, uncertain, incomplete (figure 2).")
_add_command("table1", "Denoise with a model learned from clean images (table 1).")
_add_command("table2", "Denoise with a model learned from noisy images alone (table 2).")
_add_command("calibration", "Are pixels of probability p white in a share p of all cases?")
_add_command("all", "Everything, in one report.")


def _report(
    names: Sequence[str],
    line: str,
    out: Path,
    data: Path | None,
    quick: bool,
    seeds: Sequence[int],
    jobs: int,
) -> None:
    """Run some experiments, write the report and print a summary."""
    from logsuper.experiments import report

    setting = _load(data)
    sections = []
    with _writing(out):
        with bars(names) as shows:
            for name in names:
                module = importlib.import_module(f"logsuper.experiments.{_SECTIONS[name]}")
                section = module.run(
                    setting,
                    seeds=seeds,
                    quick=quick,
                    partial=out / "partial",
                    progress=shows[name],
                    n_jobs=jobs,
                )
                sections.append(section)
        files = report.write(report.make(sections, setting, line), out)
    _print_summary(sections)
    for file in files:
        click.echo(file)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Refuse before any work what cannot be drawn or written, and say so in one line."""
    from logsuper.experiments import plot

    try:
        plot.require()
        check_folder(out, ("report.html", "report.md"))
        if (out / "partial").exists():
            check_folder(out / "partial")
        yield
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise refusal(out, error) from error


def _load(data: Path | None) -> Setting:
    """Return the images, or say in one line what is wrong with the folder."""
    from logsuper.experiments import load_setting

    try:
        return load_setting(data)
    except (OSError, ValueError) as error:
        message = str(error).removeprefix("path: ")
        raise click.BadParameter(message, param_hint="--data") from error


# -------------------------------------------------------------------------------- on the terminal


def _print_summary(sections: Sequence[Section]) -> None:
    """Print the tables, of several sections the first of each, and where time went."""
    from logsuper.experiments import Grid
    from logsuper.experiments.report import duration

    for section in sections:
        for grid in section.grids if len(sections) == 1 else section.grids[:1]:
            _print_grid(grid)
    rows = tuple((s.title, duration(s.seconds)) for s in sections)
    _print_grid(Grid("summary", "Sections of the report", ("section", "time of this run"), rows))


def _print_grid(grid: Grid) -> None:
    """Print a table, or where to find it if the terminal is too narrow."""
    from rich.table import Table
    from rich.text import Text

    from logsuper.experiments import numeric

    screen, table = console(), Table(title=grid.title)
    needed = 1
    for j, (name, right) in enumerate(zip(grid.head, numeric(grid), strict=True)):
        # words stay whole, and so do numbers with their units and errors
        whole = [*name.split(), *(word for row in grid.rows for word in _words(row[j], right))]
        width = max(map(len, whole), default=0)
        table.add_column(Text(name), justify="right" if right else "left", min_width=width)
        needed += width + 3
    for i, row in enumerate(grid.rows):
        cells = (Text(x, "bold" if (i, j) in grid.best else "") for j, x in enumerate(row))
        table.add_row(*cells)
    if needed > screen.width:
        screen.print(f"{grid.title}: too wide for this terminal, see {grid.name}.csv")
    else:
        screen.print(table)


def _words(cell: str, whole: bool) -> list[str]:
    return [cell] if whole else cell.split()
