"""Drawn colour scenes with scribbles."""

import numpy as np
import pytest

import logsuper as ls


@pytest.mark.parametrize("seed", range(3))
def test_scribbles_lie_on_what_they_mark(seed):
    scenes = ls.make_scenes(3, shape=(40, 56), seed=seed)
    assert scenes.images.shape == (3, 40, 56, 3) and scenes.images.dtype == np.uint8
    assert (scenes.masks[scenes.scribbles == 1] == 1).all()
    assert (scenes.masks[scenes.scribbles == 2] == 0).all()
    for marks in scenes.scribbles:
        assert (marks == 1).any() and (marks == 2).any() and (marks == 0).mean() > 0.5


def test_a_scene_does_not_depend_on_how_many_there_are():
    few, many = ls.make_scenes(1, (32, 32), seed=5), ls.make_scenes(3, (32, 32), seed=5)
    for a, b in zip(few, many, strict=True):
        assert (a[0] == b[0]).all()


def test_colours_tell_more_than_chance_and_less_than_all():
    """Object and background differ in colour on average, but not in every pixel."""
    images, masks, _ = ls.make_scenes(6, (64, 64), seed=0)
    apart = []
    for grey, mask in zip(images.mean(axis=-1), masks, strict=True):
        apart.append(abs(grey[mask == 1].mean() - grey[mask == 0].mean()) / grey.std())
    assert max(apart) > 0.5 and min(apart) < 2.0


def test_bad_shape():
    with pytest.raises(ValueError, match="height must be at least 16"):
        ls.make_scenes(1, shape=(8, 32))
