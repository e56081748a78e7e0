"""Sheets of images that are shown smaller than they are."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from logsuper.cli._observed import Observed
from logsuper.cli._sheets import _mean, _most_doubtful, _shrink, draw_sheet
from logsuper.report import _sheet, sheet


def test_blocks():
    image = np.arange(35.0).reshape(5, 7)
    assert np.array_equal(_shrink(image, 1, _mean), image)
    found = _shrink(image, 2, _mean)
    assert found.shape == (3, 4)
    assert found[0, 0] == image[:2, :2].mean() and found[2, 3] == image[4, 6]
    image[:2, :2] = np.nan
    image[0, 2] = np.nan
    found = _shrink(image, 2, _mean)
    assert np.isnan(found[0, 0]) and found[0, 1] == image[[0, 1, 1], [3, 2, 3]].mean()


@pytest.mark.parametrize("place", [(0, 0), (501, 777), (899, 1199)])
def test_one_doubtful_pixel_of_a_large_image_stays_visible(place):
    chance = np.full((900, 1200), 0.001)
    chance[place] = 0.45
    small = _shrink(chance, 3, _most_doubtful)
    assert small.shape == (300, 400) and np.count_nonzero(small == 0.45) == 1
    zeros = np.zeros(chance.shape, np.uint8)
    seen = Observed([zeros], zeros.shape, zeros.dtype, (0, 255), True)
    pictures = []
    for probabilities in (chance, np.full_like(chance, 0.001)):
        png = draw_sheet("x", seen, zeros, probabilities)
        pictures.append(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int))
    assert np.abs(pictures[0] - pictures[1]).max() > 100


def test_panels_are_as_high_and_wide_as_the_images():
    wide, tall = np.zeros((50, 200)), np.zeros((200, 50))
    sizes = [_size(sheet.draw([[sheet.grey(image, "x")] * 3])) for image in (wide, tall)]
    assert sizes[0] == (3 * 200 + 4 * 12, 50 + 26 + 2 * 12)
    assert sizes[1] == (3 * 50 + 4 * 12, 200 + 26 + 2 * 12)
    assert _size(sheet.draw([[sheet.grey(tall, "a title that is wider than 50 pixels")]]))[0] > 200


@pytest.mark.parametrize("fonts", [(), _sheet._FONTS])
def test_letters_beyond_ascii(monkeypatch, fonts):
    monkeypatch.setattr(_sheet, "_FONTS", fonts)
    _sheet._system_font.cache_clear()
    try:
        image = np.zeros((20, 300))
        accents, plain, other = (
            sheet.draw([[sheet.grey(image)]], [t]) for t in ("Höß", "Ho?", "y")
        )
    finally:
        _sheet._system_font.cache_clear()
    assert accents != other
    if not fonts:
        assert accents == plain  # no boxes


def _size(png):
    return Image.open(io.BytesIO(png)).size
