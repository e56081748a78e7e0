"""`logsuper reproduce NAME`: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from logsuper.experiments.figure1 import Result

__all__ = ["reproduce"]

_QUICK_SEEDS, _SEEDS = 2, 10
_QUICK_COUNTS = (1, 2, 5, 10, 25, 45, 50)


@click.group()
def reproduce() -> None:
    """Compute the figures and tables of the paper again.

    T. Shpakova and F. Bach, "Parameter learning for log-supermodular distributions", NIPS 2016.
    """


@reproduce.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for figure1.png, figure1.csv and figure1.md; made if it is not there.",
)
@click.option("--quick", is_flag=True, help="A look in seconds: fewer data sets and fewer k.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    help=f"How many data sets.  [default: {_SEEDS}, with --quick {_QUICK_SEEDS}]",
)
@click.option(
    "--jobs",
    type=int,
    default=-1,
    show_default=True,
    help="Processes; -1 is one for each processor. The numbers do not depend on it.",
)
def figure1(out: Path, quick: bool, seeds: int | None, jobs: int) -> None:
    """Compare bounds on log Z of a graph cut (figure 1).

    Two clusters of 50 points in the plane, a complete graph on them, and its cut function, given
    the labels of k points of each cluster: upper and lower bounds on the log-partition function
    against k, with the mean and its 95 % band over data sets.

    What is finished is kept in OUT/partial: the same command goes on where it was stopped.
    """
    from logsuper.experiments import _plot, figure1

    if jobs == 0:
        raise click.BadParameter("0 is no number of processes; try -1", param_hint="--jobs")
    try:
        _plot.require()
        out.mkdir(parents=True, exist_ok=True)
        result = _with_progress(out, quick, seeds or (_QUICK_SEEDS if quick else _SEEDS), jobs)
        files = figure1.save(result, out)
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"--out: cannot write to {out}: {error.strerror}") from error
    _print(result)
    for file in files.values():
        click.echo(file)


def _with_progress(out: Path, quick: bool, seeds: int, jobs: int) -> Result:
    """Run the experiment with a bar on the terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from logsuper.experiments import figure1

    columns = (TextColumn("models"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("models", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return figure1.run(
            range(seeds),
            counts=_QUICK_COUNTS if quick else None,
            partial=out / "partial",
            progress=show,
            n_jobs=jobs,
        )


def _print(result: Result) -> None:
    """Print the mean bounds."""
    from rich.console import Console
    from rich.table import Table

    from logsuper.experiments._figure1_report import values

    console = Console()
    for c, decay in enumerate(result.decays):
        head, *rows = values(result, c, band=False)
        table = Table(title=f"Bounds on log Z, c = {decay:g}, {len(result.seeds)} data sets")
        for i, name in enumerate(head):
            table.add_column(name, justify="left" if i < 2 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
