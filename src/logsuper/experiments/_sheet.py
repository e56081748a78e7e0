"""Sheets of small images, drawn pixel by pixel with Pillow: no plotting library is needed."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import FloatArray

__all__ = ["Panel", "Row", "doubt", "draw", "grey", "judged", "signed"]

_INK, _PAPER, _GROUND = (34, 40, 49), (255, 255, 255), "#e4e8ec"
_UNSEEN = (230, 172, 60)  # pixels without an observation
_ADDED, _LOST = (213, 62, 40), (40, 120, 200)
_HOT = (196, 78, 0)
_BOX, _GAP, _LINE = 220, 12, 26  # side of a panel, space between them, height of a line of text


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One image of a sheet.

    Attributes
    ----------
    pixels : ndarray of shape (height, width, 3), uint8
    title : str
    scale : tuple of str
        What the ends of the colours mean; empty where that is plain.
    bar : ndarray of shape (1, steps, 3), uint8, optional
        The colours from one end to the other.
    """

    pixels: NDArray[np.uint8]
    title: str = ""
    scale: tuple[str, ...] = ()
    bar: NDArray[np.uint8] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """Panels side by side, under a line of text if there is one."""

    panels: Sequence[Panel]
    text: str = ""


def grey(values: ArrayLike, title: str = "") -> Panel:
    """Return numbers from 0 to 1 between paper and ink; NaN, not observed, has its own colour."""
    return Panel(_blend(values, _PAPER, _INK), title)


def doubt(probabilities: ArrayLike, title: str = "") -> Panel:
    """Return the entropy of each pixel, from 0 (white) to one bit."""
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-15, 1.0 - 1e-15)
    bits = -(p * np.log2(p) + (1.0 - p) * np.log2(1.0 - p))
    return Panel(_blend(bits, _PAPER, _HOT), title)


def judged(mask: ArrayLike, truth: ArrayLike, title: str = "") -> Panel:
    """Return a mask with its wrong pixels in colour: red where it adds, blue where it loses."""
    found, right = np.asarray(mask) > 0, np.asarray(truth) > 0
    pixels = _blend(found, _PAPER, _INK)
    pixels[found & ~right] = _ADDED
    pixels[~found & right] = _LOST
    return Panel(pixels, title)


def signed(values: ArrayLike, title: str = "") -> Panel:
    """Return numbers of both signs: blue below 0, white at 0, red above."""
    numbers = np.asarray(values, dtype=np.float64)
    limit = float(np.abs(numbers).max()) or 1.0

    def colour(relative: FloatArray) -> NDArray[np.uint8]:
        ends = (_blend(np.abs(relative), _PAPER, end) for end in (_LOST, _ADDED))
        return np.where((relative < 0)[..., None], *ends)

    bar = colour(np.linspace(-1.0, 1.0, 101)[None])
    return Panel(colour(numbers / limit), title, (f"{-limit:.2g}", "0", f"{limit:.2g}"), bar)


def _blend(
    values: ArrayLike, low: tuple[int, int, int], high: tuple[int, int, int]
) -> NDArray[np.uint8]:
    """Return the colours between two for numbers from 0 to 1."""
    share = np.asarray(values, dtype=np.float64)[..., None]
    pixels = np.array(low) + np.clip(share, 0.0, 1.0) * (np.array(high) - np.array(low))
    return np.where(np.isnan(share), np.array(_UNSEEN), np.rint(np.nan_to_num(pixels))).astype(
        np.uint8
    )


def draw(rows: Sequence[Row]) -> bytes:
    """Return the rows, one below the other, as a PNG; the same rows give the same bytes.

    Titles are shown where they differ from those of the row above. Images of less than 220 pixels
    are enlarged by a whole number, so that pixels stay pixels.
    """
    from PIL import Image

    box = max(_enlarged(panel)[0] for row in rows for panel in row.panels)
    width = _GAP + max(len(row.panels) for row in rows) * (box + _GAP)
    sheet = Image.new("RGB", (width, sum(_heights(rows, box))), _GROUND)
    top, above = 0, [""]
    for row, height in zip(rows, _heights(rows, box), strict=True):
        titles = [panel.title for panel in row.panels]
        _draw_row(sheet, top, box, row, titles != above)
        top, above = top + height, titles
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _enlarged(panel: Panel) -> tuple[int, int]:
    """Return the longer side on the sheet, and how much larger that is than in the image."""
    longest = max(panel.pixels.shape[:2])
    zoom = max(1, round(_BOX / longest))
    return longest * zoom, zoom


def _heights(rows: Sequence[Row], box: int) -> list[int]:
    """Return the heights of the rows."""
    heights, above = [], [""]
    for row in rows:
        titles = [panel.title for panel in row.panels]
        lines = bool(row.text) + (titles != above and any(titles))
        lines += any(panel.bar is not None for panel in row.panels)
        heights.append(_GAP + lines * _LINE + box)
        above = titles
    heights[-1] += _GAP
    return heights


def _draw_row(sheet: Any, top: int, box: int, row: Row, titled: bool) -> None:
    """Draw one row on the sheet."""
    from PIL import Image, ImageDraw, ImageFont

    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(17)
    top += _GAP
    if row.text:
        pen.text((_GAP, top + _LINE / 2), row.text, _INK, font, anchor="lm")
        top += _LINE
    shown = titled and any(panel.title for panel in row.panels)
    for place, panel in enumerate(row.panels):
        left, y = _GAP + place * (box + _GAP), top
        if shown:
            pen.text((left + box / 2, y + _LINE / 2), panel.title, _INK, font, anchor="mm")
            y += _LINE
        zoom = _enlarged(panel)[1]
        height, width = (zoom * side for side in panel.pixels.shape[:2])
        picture = Image.fromarray(panel.pixels).resize((width, height), Image.Resampling.NEAREST)
        sheet.paste(picture, (left + (box - width) // 2, y + (box - height) // 2))
        if panel.bar is not None:
            y += box + 8
            sheet.paste(Image.fromarray(panel.bar).resize((box // 2, 12)), (left + box // 4, y))
            for text, x, anchor in zip(
                (panel.scale[0], panel.scale[-1]),
                (left + box // 4 - 6, left + box // 4 + box // 2 + 6),
                ("rm", "lm"),
                strict=True,
            ):
                pen.text((x, y + 6), text, _INK, font, anchor=anchor)
