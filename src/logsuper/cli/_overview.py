"""One picture of many sheets."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from logsuper.cli._folder import Job

__all__ = ["draw_overview"]

_ROWS = 12
_NAME = "compare.png"


def draw_overview(jobs: Sequence[Job], out: Path) -> None:
    """Put the sheets of the first images below each other: OUT/compare.png."""
    from PIL import Image

    from logsuper._base import atomic_write

    paths = [out / job.outputs["compare"] for job in jobs]
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
    with atomic_write(out / _NAME) as file:
        file.write(buffer.getvalue())
