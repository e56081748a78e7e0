"""`logsuper reproduce NAME`: the experiments of the paper."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logsuper.cli._console import print_table
from logsuper.cli._inputs import FOLDER, TextPath, check_folder, writing
from logsuper.cli._options import check_jobs
from logsuper.cli._progress import bars

if TYPE_CHECKING:
    from logsuper.experiments import Setting

_SEEDS = {"figure1": (10, 2)}
_USUAL = (5, 1)  # seeds, and those with --quick
_HELP = {
    "figure1": "Compare bounds on log Z of a graph cut (figure 1).\n\nTwo clusters of 50 points in "
    "the plane, a complete graph on them, and its cut function, given the labels of k points of "
    "each cluster: upper and lower bounds on the log-partition function against k.",
    "figure2": "Show images: noisy, denoised, uncertain, incomplete (figure 2).",
    "table1": "Denoise with a model learned from clean images (table 1).",
    "table2": "Denoise with a model learned from noisy images alone (table 2).",
    "calibration": "Are pixels of probability p white in a share p of all cases?",
    "all": "Everything, in one report.",
}
_OUT = "Folder for report.html, report.md and CSVs; made if it is not there."
_DATA = (
    "Folder with the Weizmann horse database; figure 1 needs none.  "
    "[default: silhouettes that ship with the package]"
)
_QUICK = "A first look: smaller settings, fewer seeds."
_COUNT = "How many: data sets of figure 1, noises of the same images elsewhere."
_RESUME = (
    "Writes a report: a page of HTML that needs no other file, a copy in Markdown, and a CSV for "
    "each table. What is finished is kept in OUT/partial: the same command goes on where it was "
    "stopped."
)


@click.group(invoke_without_command=True)
@click.pass_context
def reproduce(context: click.Context) -> None:
    """Compute the figures and tables of the paper again.

    T. Shpakova and F. Bach, "Parameter learning for log-supermodular distributions", NIPS 2016.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _options(seeds: int, quick_seeds: int) -> list[click.Parameter]:
    """Return the options of a command with these default numbers of seeds."""
    return [
        click.Option(["--out"], type=FOLDER, required=True, help=_OUT),
        click.Option(["--data"], type=TextPath(path_type=Path), help=_DATA),
        click.Option(["--quick"], is_flag=True, help=_QUICK),
        click.Option(
            ["--seeds"],
            type=click.IntRange(1, 1000),
            help=f"{_COUNT}  [default: {seeds}, with --quick {quick_seeds}]",
        ),
        click.Option(
            ["--jobs"],
            type=click.IntRange(-1024, 1024),
            default=-1,
            show_default=True,
            callback=check_jobs("processes"),
            help="Processes; -1 is one per processor. The results do not depend on it.",
        ),
    ]


def _report(
    name: str, out: Path, data: Path | None, quick: bool, seeds: int | None, jobs: int
) -> None:
    """Run one experiment or all, write the report and print a summary."""
    from logsuper.experiments import EXPERIMENTS, Job, make_page, run_experiment
    from logsuper.report import Table, duration, write_files

    options = {"--data": data, "--out": out, "--seeds": seeds}
    given = [str(x) for pair in options.items() if pair[1] is not None for x in pair]
    line = shlex.join(["logsuper", "reproduce", name, *given, *["--quick"] * quick])
    count = seeds or _SEEDS.get(name, _USUAL)[quick]
    names = EXPERIMENTS if name == "all" else (name,)
    setting = _load(data)
    _check_out(out)
    with writing(out):
        with bars(names) as shows:
            sections = [
                run_experiment(
                    key, setting, Job(tuple(range(count)), quick, out / "partial", shows[key], jobs)
                )
                for key in names
            ]
        files = write_files(make_page(sections, setting, line, quick).files(), out)
    for section in sections:  # of several, the first table of each
        for table in section.tables[: 1 if len(sections) > 1 else None]:
            print_table(table)
    rows = [(section.title, duration(section.seconds)) for section in sections]
    print_table(Table("Sections of the report", ["section", "time of this run"], rows))
    for file in files:
        click.echo(file)


def _check_out(out: Path) -> None:
    """Refuse before any work what cannot be drawn or written."""
    from logsuper.report import chart

    try:
        chart.require()
    except ModuleNotFoundError as error:
        raise click.ClickException(str(error)) from error
    check_folder(out, ("report.html", "report.md"))
    if (out / "partial").exists():
        check_folder(out / "partial")


def _load(data: Path | None) -> Setting:
    """Return the images, or say in one line what is wrong with the folder."""
    from logsuper.experiments import load_setting

    try:
        return load_setting(data)
    except (OSError, ValueError) as error:
        message = str(error).removeprefix("path: ")
        raise click.BadParameter(message, param_hint="--data") from error


for _name, _help in _HELP.items():
    reproduce.add_command(
        click.Command(
            _name,
            params=_options(*_SEEDS.get(_name, _USUAL)),
            callback=functools.partial(_report, _name),
            help=f"{_help}\n\n{_RESUME}",
        )
    )
