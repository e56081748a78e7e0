"""What `logsuper crf` says: what was learned, and what came of each image."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from logsuper.cli._cleaning import Cleaned
from logsuper.cli._console import print_table, say
from logsuper.cli._fields import Painter
from logsuper.cli._folder import Failure
from logsuper.cli._found import UNFINISHED, percent
from logsuper.cli._masks import Run
from logsuper.cli._progress import stages

_UNARY = {
    "trees": "boosted trees",
    "linear": "features that the field weighs",
    "probabilities": "the probabilities of a network",
}


def print_learned(run: Run, path: Path, as_json: bool) -> None:
    """Say what was learned."""
    found = run.found
    if as_json:
        content = {"model": found, "file": str(path), **_left_out(run)}
        click.echo(json.dumps(content, allow_nan=False))
        return
    rest = "" if found["converged"] else UNFINISHED
    share = percent(found["labelled"] / found["pixels"])
    say(f"Learned from {found['images']} images ({share} of the pixels labelled){rest}.")
    say(f"The field is behind {_UNARY[found['unary']]}.")
    if found["alone_wrong"] is not None:
        wrong = percent(found["alone_wrong"])
        say(f"Alone they are wrong in {wrong} of the pixels of images that they have not seen.")
    if found["working_size"] is not None:
        say(f"Larger images are reduced to {found['working_size']} pixels of the longer side.")
    say(f"Model: {path}")


def paint_and_report(run: Run, painter: Painter, out: Path, force: bool, as_json: bool) -> int:
    """Segment all files of a command into a folder; return 0 if all were, 1 for some."""
    done = _paint(run, painter, force)
    painter.ledger.tidy()
    if as_json:
        files = [
            {
                "input": str(one.source),
                "output": str(one.output),
                "finished_before": one.before,
                **{k: v for k, v in one.figures.items() if k not in ("file", "key", "sha256")},
            }
            for one in done
        ]
        content = {"model": run.found, "out": str(out), "files": files, **_left_out(run)}
        click.echo(json.dumps(content, allow_nan=False))
    elif done:
        _print_summary(run, done, out)
    if not done:
        raise click.ClickException("none of the images could be segmented")
    return 1 if run.failures else 0


def _paint(run: Run, painter: Painter, force: bool) -> list[Cleaned]:
    done: list[Cleaned] = []
    jobs = run.plan.jobs
    try:
        with stages() as stage:
            show = stage("Segmenting", sum(job.info.size for job in jobs))
            for result in painter.paint(jobs, show, force):
                if isinstance(result, Failure):
                    run.fail([result])
                else:
                    done.append(result)
    except KeyboardInterrupt:
        click.echo(
            f"{len(done)} of {len(jobs)} images are done; the same command continues.",
            err=True,
        )
        raise
    run.warn(painter.warnings)
    order = {job.source: place for place, job in enumerate(jobs)}
    return sorted(done, key=lambda one: order[one.source])


def _print_summary(run: Run, done: Sequence[Cleaned], out: Path) -> None:
    from logsuper.report import Table, duration

    sums = {name: sum(_number(one.figures, name) for one in done) for name in _SUMS}
    pixels = max(sums["pixels"], 1.0)
    before = sum(one.before for one in done)
    rows = [("images segmented", str(len(done) - before))]
    if before:
        rows.append(("finished by an earlier run", str(before)))
    if run.failures:
        rows.append(("left out", str(len(run.failures))))
    rows.append(("object", percent(sums["object"] / pixels)))
    rows.append(("wrong, as the model expects", percent(sums["wrong"] / pixels)))
    rows.append(("time", duration(time.perf_counter() - run.began)))
    print_table(Table("Summary", ["what", "result"], rows))
    say(f"Written to: {out}")


_SUMS = ("pixels", "object", "wrong")


def _number(figures: dict[str, Any], name: str) -> float:
    """Return a figure; those of an earlier run come from a file, which may have been edited."""
    value = figures.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _left_out(run: Run) -> dict[str, Any]:
    failures = [
        {"input": str(failure.source), "reason": failure.reason} for failure in run.failures
    ]
    return {"left_out": failures, "warnings": run.warned}
