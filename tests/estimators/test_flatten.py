"""Flattening uneven light."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import logsuper as ls


def test_it_is_the_image_less_a_wide_blur(seed):
    image = np.random.default_rng(seed).random((40, 64))
    expected = image - gaussian_filter(image, 40 / 8)
    np.testing.assert_allclose(ls.flatten_light([image])[0], expected, atol=1e-12)
    wide = image - gaussian_filter(image, 9.0)
    np.testing.assert_allclose(ls.flatten_light([image], 9.0)[0], wide, atol=1e-12)


def test_a_very_wide_blur_is_the_mean(seed):
    image = np.random.default_rng(seed).random((30, 30))
    for width in (30.0, 1e12):
        found = ls.flatten_light([image], width)[0]
        np.testing.assert_allclose(found, image - image.mean(), atol=0.01)


def test_bytes_do_not_wrap_around():
    grey = np.random.default_rng(0).integers(0, 256, (2, 30, 30)).astype(np.uint8)
    found = ls.flatten_light(grey)
    assert found.dtype == np.float64 and found.min() < 0 < found.max()
    np.testing.assert_array_equal(found, ls.flatten_light(grey.astype(np.float64)))


def test_stacks_give_stacks_and_lists_lists():
    assert ls.flatten_light(np.ones((2, 9, 9))).shape == (2, 9, 9)
    assert ls.flatten_light(np.ones((2, 5, 9, 9))).shape == (2, 5, 9, 9)
    several = ls.flatten_light([np.ones((9, 9)), np.ones((5, 7))])
    assert [image.shape for image in several] == [(9, 9), (5, 7)]


def test_missing_pixels_do_not_count(seed):
    image = np.random.default_rng(seed).random((50, 50)) + 1e6
    holes = image.copy()
    holes[10:20, 30:] = np.nan
    found = ls.flatten_light([holes])[0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(holes))
    masked = ls.flatten_light([np.ma.masked_invalid(holes)])[0]
    np.testing.assert_array_equal(found, masked)
    # a hole looks like its surroundings, not like black
    whole = ls.flatten_light([image])[0]
    assert np.nanmax(np.abs(found - whole)) < 0.2
    assert np.isnan(ls.flatten_light([np.full((4, 4), np.nan)])[0]).all()


def test_light_goes_and_objects_stay():
    rng = np.random.default_rng(0)
    x = np.zeros((160, 160))
    for row in range(10, 160, 40):
        x[row : row + 12, row % 30 :: 40] = 1.0
    light = 3.0 * np.linspace(-1.0, 1.0, 160)
    flat = ls.flatten_light([x + light + 0.1 * rng.normal(size=x.shape)])[0]
    inner = np.s_[25:-25, 25:-25]  # at its edges a blur sees one side only
    low, high = (flat[inner][x[inner] == value] for value in (0, 1))
    assert (
        high.min() > low.max() - 0.2
        and abs(np.corrcoef(low, light[None].repeat(160, 0)[inner][x[inner] == 0])[0, 1]) < 0.2
    )


@pytest.mark.parametrize(
    ("noisy", "width", "error", "text"),
    [
        (np.zeros((9, 9)), None, ValueError, r"single image.*noisy\[None\]"),
        (np.zeros((1, 9, 9)), 0.5, ValueError, "width must be at least 1 pixel, got 0.5"),
        (np.zeros((1, 9, 9)), "wide", TypeError, "width must be a real number"),
        (np.full((1, 9, 9), np.inf), None, ValueError, r"noisy\[0\]\[0, 0\] = inf is infinite"),
    ],
)
def test_bad_input_is_refused(noisy, width, error, text):
    with pytest.raises(error, match=text):
        ls.flatten_light(noisy, width)
