"""Sheets of images that are shown smaller than they are."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from logsuper.cli._observed import Observed
from logsuper.cli._sheets import _mean, _most_doubtful, _shrink, draw_sheet


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
