"""One picture of many sheets."""

from __future__ import annotations

import io
from collections.abc import Sequence

import click

from logsuper.cli._folder import OVERVIEW, Job
from logsuper.cli._ledger import Ledger

__all__ = ["check_overview", "draw_overview"]

_ROWS = 12
_KEY = "overview"


def check_overview(ledger: Ledger, force: bool) -> None:
    """Refuse to replace a picture that is not from here."""
    path = ledger.out / OVERVIEW
    if path.exists() and not force and ledger.finished(OVERVIEW, _KEY) is None:
        raise click.ClickException(
            f"--out: {path} is there already, and not from this command; rename it, or --force"
        )


def draw_overview(jobs: Sequence[Job], ledger: Ledger) -> None:
    """Put the sheets of the first images below each other: OUT/compare.png."""
    from PIL import Image

    paths = [ledger.out / job.outputs["compare"] for job in jobs]
    sheets = []
    for path in [path for path in paths if path.is_file()][:_ROWS]:
        with Image.open(path) as picture:
            sheets.append(picture.convert("RGB"))
    if not sheets:
        return
    width = max(sheet.width for sheet in sheets)
    page = Image.new("RGB", (width, sum(sheet.height for sheet in sheets)), "#e4e8ec")
    top = 0
    for sheet in sheets:
        page.paste(sheet, (0, top))
        top += sheet.height
    buffer = io.BytesIO()
    page.save(buffer, format="PNG", optimize=True)
    ledger.write(OVERVIEW, _KEY, lambda file: file.write(buffer.getvalue()), {})
