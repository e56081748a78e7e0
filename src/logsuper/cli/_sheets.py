"""Sheets to look at: before, after, how sure; and one picture of many sheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    before, after = (_shrink(image, step, _mean) for image in shown[:2])
    sure = _shrink(shown[2], step, _most_doubtful)
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


def _shrink(
    image: NDArray[Any], step: int, summary: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Return one pixel per block of `step` by `step`, the last blocks cut off at the border."""
    import numpy as np

    if step == 1:
        return image
    short = [-n % step for n in image.shape]
    padded = np.pad(image.astype(np.float64), [(0, n) for n in short], mode="edge")
    rows, columns = (n // step for n in padded.shape)
    blocks = padded.reshape(rows, step, columns, step).transpose(0, 2, 1, 3)
    return summary(blocks.reshape(rows, columns, step * step))


def _mean(blocks: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of what was observed in each block, NaN where nothing was."""
    import numpy as np

    there = ~np.isnan(blocks)
    count = there.sum(axis=-1)
    total = np.where(there, blocks, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _most_doubtful(blocks: NDArray[Any]) -> NDArray[Any]:
    """Return the probability nearest to one half in each block, so that one pixel stays visible."""
    import numpy as np

    place = np.abs(blocks - 0.5).argmin(axis=-1)
    return np.asarray(np.take_along_axis(blocks, place[..., None], axis=-1)[..., 0])


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
