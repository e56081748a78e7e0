"""Sheets to look at: before, after, how sure; and one picture of many sheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import one_line
from logsuper.cli._folder import OVERVIEW, Job
from logsuper.cli._ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.cli._observed import Observed

# Sheets in the overview; longest side of an image on a sheet.
_ROWS, _SHOWN = 12, 440
_KEY = "overview"


def draw_sheet(title: str, seen: Observed, mask: NDArray[Any], chance: NDArray[Any]) -> bytes:
    """Return a picture as PNG: before, after, how sure; of a volume its middle slice."""
    from logsuper.report import sheet

    middle = len(mask) // 2 if mask.ndim == 3 else None
    before = seen.assemble(list(seen.parts))
    shown = [image if middle is None else image[middle] for image in (before, mask, chance)]
    step = -(-max(shown[0].shape) // _SHOWN)
    before, after, sure = (image[::step, ::step] for image in shown)
    if not seen.binary:
        low, high = float(_finite(before).min()), float(_finite(before).max())
        before = (before - low) / ((high - low) or 1.0)
    where = "" if middle is None else f", slice {middle + 1} of {len(mask)}"
    panels = [
        sheet.grey(1.0 - before, "before"),  # white is one, as in the files
        sheet.grey(1.0 - after, "after"),
        sheet.doubt(sure, "doubt (white: none)"),
    ]
    return sheet.draw([panels], [f"{one_line(title)}{where}"])


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.asarray(values[values == values])


def check_overview(ledger: Ledger, force: bool) -> None:
    """Refuse to replace a picture that is not from here."""
    path = ledger.out / OVERVIEW
    if path.exists() and not force and ledger.finished(OVERVIEW, _KEY) is None:
        raise click.ClickException(
            f"--out: {path} is there already, and not from this command; rename it, or --force"
        )


def draw_overview(jobs: Sequence[Job], ledger: Ledger) -> None:
    """Put the sheets of the first images below each other: OUT/compare/overview.png."""
    from PIL import Image

    from logsuper.report import sheet

    paths = [ledger.out / job.outputs["compare"] for job in jobs]
    sheets = []
    for path in [path for path in paths if path.is_file()][:_ROWS]:
        with Image.open(path) as picture:
            sheets.append(picture.convert("RGB"))
    if not sheets:
        return
    png = sheet.stack(sheets)
    ledger.write(OVERVIEW, _KEY, lambda file: file.write(png), {})
