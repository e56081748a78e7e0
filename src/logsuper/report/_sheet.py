"""Sheets of small images, drawn pixel by pixel with Pillow, without a plotting library."""

from __future__ import annotations

import dataclasses
import functools
import io
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import FloatArray

_INK, _PAPER, _GROUND = (34, 40, 49), (255, 255, 255), "#e4e8ec"
_UNSEEN = (230, 172, 60)  # pixels without an observation
_ADDED, _LOST = (213, 62, 40), (40, 120, 200)
_HOT = (196, 78, 0)
_BOX, _GAP, _LINE = 220, 12, 26  # pixels: side of a panel, space between panels, height of text
_BAR = 160  # pixels: least width of a panel with a colour bar
_LETTERS = 17  # pixels: size of the font
# Fonts of systems with letters beyond ASCII, which the font of Pillow does not have.
_FONTS = ("DejaVuSans.ttf", "Arial.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf")


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One image of a sheet.

    Attributes
    ----------
    pixels : ndarray of shape (height, width, 3), uint8
    title : str
    scale : tuple of str
        Labels of the ends of the colour bar; may be empty.
    bar : ndarray of shape (1, steps, 3), uint8, optional
        The colour bar.
    """

    pixels: NDArray[np.uint8]
    title: str = ""
    scale: tuple[str, ...] = ()
    bar: NDArray[np.uint8] | None = None

    @property
    def zoom(self) -> int:
        """Integer magnification on the sheet, so that pixels stay sharp."""
        longest: int = max(self.pixels.shape[:2])
        return max(1, round(_BOX / longest))


def grey(values: ArrayLike, title: str = "") -> Panel:
    """Return numbers from 0 (white) to 1 (dark); NaN, not observed, has its own colour."""
    return Panel(_blend(values, _PAPER, _INK), title)


def doubt(probabilities: ArrayLike, title: str = "") -> Panel:
    """Return the entropy of each pixel, from 0 (white) to one bit."""
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-15, 1.0 - 1e-15)
    bits = -(p * np.log2(p) + (1.0 - p) * np.log2(1.0 - p))
    return Panel(_blend(bits, _PAPER, _HOT), title)


def judged(mask: ArrayLike, truth: ArrayLike, title: str = "") -> Panel:
    """Return a mask with false positives in red and false negatives in blue."""
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
    """Return colours interpolated between two, for numbers from 0 to 1."""
    share = np.asarray(values, dtype=np.float64)[..., None]
    pixels = np.array(low) + np.clip(share, 0.0, 1.0) * (np.array(high) - np.array(low))
    return np.where(np.isnan(share), np.array(_UNSEEN), np.rint(np.nan_to_num(pixels))).astype(
        np.uint8
    )


def draw(rows: Sequence[Sequence[Panel]], texts: Sequence[str] = ()) -> bytes:
    """Return rows of panels as a PNG; the same rows give the same bytes.

    Titles are shown if they differ from those of the row above. Images of less than 220 pixels are
    enlarged by an integer factor, so that pixels stay sharp.

    Parameters
    ----------
    rows : sequence of sequence of Panel
    texts : sequence of str
        A line of text above each row, omitted if empty; none by default.

    Returns
    -------
    bytes
    """
    titles = [one.title for row in rows for one in row]
    widest = max(one.zoom * one.pixels.shape[1] for row in rows for one in row)
    least = _BAR if any(one.bar is not None for row in rows for one in row) else 0
    box = max(widest, least, *(round(_font(title).getlength(title)) for title in titles))
    texts = texts or [""] * len(rows)
    width = _GAP + max(map(len, rows)) * (box + _GAP)
    width = max(width, *(2 * _GAP + round(_font(text).getlength(text)) for text in texts))
    strips, above = [], [""]
    for row, text in zip(rows, texts, strict=True):
        titles = [panel.title for panel in row]
        strips.append(_draw_row(row, text, width, box, titles != above and any(titles)))
        above = titles
    return stack(strips, _GAP)


def stack(pictures: Sequence[Any], below: int = 0) -> bytes:
    """Return pictures (of pillow) one above the other, as a PNG."""
    from PIL import Image

    size = max(one.width for one in pictures), sum(one.height for one in pictures) + below
    sheet, top = Image.new("RGB", size, _GROUND), 0
    for one in pictures:
        sheet.paste(one, (0, top))
        top += one.height
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _draw_row(row: Sequence[Panel], text: str, width: int, box: int, titled: bool) -> Any:
    """Return a row as an image: a gap, its text, titles, panels, and bars."""
    from PIL import Image, ImageDraw

    lines = bool(text) + titled + any(panel.bar is not None for panel in row)
    high = max(panel.zoom * panel.pixels.shape[0] for panel in row)
    strip = Image.new("RGB", (width, _GAP + lines * _LINE + high), _GROUND)
    pen, font = ImageDraw.Draw(strip), _font("")
    top = _GAP + bool(text) * _LINE
    _write(pen, (_GAP, _GAP + _LINE / 2), text, "lm")
    for place, panel in enumerate(row):
        left, y = _GAP + place * (box + _GAP), top + titled * _LINE
        if titled:
            _write(pen, (left + box / 2, top + _LINE / 2), panel.title, "mm")
        height, wide = (panel.zoom * side for side in panel.pixels.shape[:2])
        picture = Image.fromarray(panel.pixels).resize((wide, height), Image.Resampling.NEAREST)
        strip.paste(picture, (left + (box - wide) // 2, y + (high - height) // 2))
        if panel.bar is not None:
            start, y = left + box // 4, y + high + 8
            strip.paste(Image.fromarray(panel.bar).resize((box // 2, 12)), (start, y))
            pen.text((start - 6, y + 6), panel.scale[0], _INK, font, anchor="rm")
            pen.text((start + box // 2 + 6, y + 6), panel.scale[-1], _INK, font, anchor="lm")
    return strip


def _write(pen: Any, place: tuple[float, float], text: str, anchor: str) -> None:
    """Write a line of text; letters that no font here has lose their accents, or are a "?"."""
    font = _font(text)
    if not text.isascii() and font is _font(""):
        plain = unicodedata.normalize("NFKD", text)
        kept = (letter for letter in plain if not unicodedata.combining(letter))
        text = "".join(letter if letter.isascii() else "?" for letter in kept)
    pen.text(place, text, _INK, font, anchor=anchor)


def _font(text: str) -> Any:
    """Return the font of Pillow, or one of the system for letters that the former does not have."""
    found = None if text.isascii() else _system_font()
    return found or _own_font()


@functools.cache
def _own_font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(_LETTERS)


@functools.cache
def _system_font() -> Any:
    from PIL import ImageFont

    for name in _FONTS:
        try:
            return ImageFont.truetype(name, _LETTERS)
        except OSError:
            continue
    return None
