import io

import numpy as np
import pytest
from PIL import Image

from logsuper.report import sheet

INK, PAPER = [34, 40, 49], [255, 255, 255]


def test_grey_is_paper_at_0_ink_at_1_and_neither_where_nothing_was_observed():
    pixels = sheet.grey([[0.0, 1.0, np.nan, 0.5]]).pixels[0].tolist()
    assert pixels[:2] == [PAPER, INK]
    assert pixels[2][0] > pixels[2][2] + 100  # yellow
    assert pixels[3] == [144, 148, 152]


def test_wrong_pixels_are_red_where_added_and_blue_where_lost():
    mask, truth = [[1, 1, 0, 0]], [[1, 0, 1, 0]]
    ink, added, lost, paper = sheet.judged(mask, truth).pixels[0].astype(int)
    assert ink.tolist() == INK and paper.tolist() == PAPER
    assert added[0] > added[2] + 100 and lost[2] > lost[0] + 100


def test_doubt_is_white_when_certain_and_strongest_at_one_half():
    pixels = sheet.doubt([[0.0, 0.1, 0.5, 0.9, 1.0]]).pixels[0]
    assert pixels[0].tolist() == pixels[4].tolist() == PAPER
    assert pixels[1].tolist() == pixels[3].tolist()
    assert pixels[2, 2] < pixels[1, 2] < 255


def test_signed_is_white_at_0_and_has_a_scale():
    panel = sheet.signed([[-2.0, 0.0, 1.0]])
    assert panel.pixels[0, 1].tolist() == PAPER
    assert panel.scale == ("-2", "0", "2")
    assert panel.bar is not None and panel.bar[0, 50].tolist() == PAPER
    assert sheet.signed(np.zeros((2, 2))).pixels.tolist() == [[PAPER] * 2] * 2


@pytest.mark.parametrize("shape", [(50, 50), (20, 35), (5, 5), (400, 300)])
def test_pixels_of_images_are_found_in_the_sheet(shape):
    image = np.random.default_rng(0).random(shape) < 0.5
    rows, texts = [[sheet.grey(image, "a"), sheet.grey(image, "b")]] * 2, ["text"] * 2
    png = sheet.draw(rows, texts)
    assert png == sheet.draw(rows, texts)
    with Image.open(io.BytesIO(png)) as picture:
        found = np.asarray(picture)
    zoom = max(1, round(220 / max(shape)))
    high, wide = (side * zoom for side in shape)
    assert found.shape[1] == 3 * 12 + 2 * wide
    # titles are not repeated
    assert found.shape[0] == 3 * 12 + 2 * high + 3 * 26
    top, left = 12 + 2 * 26, 12
    tile = found[top : top + shape[0] * zoom : zoom, left : left + shape[1] * zoom : zoom]
    assert np.array_equal(tile[..., 0] == INK[0], image)


def test_bars_have_room_below():
    plain = Image.open(io.BytesIO(sheet.draw([[sheet.grey(np.eye(4))]])))
    scaled = Image.open(io.BytesIO(sheet.draw([[sheet.signed(np.eye(4))]])))
    assert scaled.size[1] == plain.size[1] + 26
