"""Classes of pixels by their neighbours: against a count pixel by pixel, and in pieces."""

import itertools

import numpy as np
import pytest
from cases import each

from logsuper.learning import _neighbourhoods
from logsuper.learning._examples import UNKNOWN
from logsuper.learning._neighbourhoods import Neighbourhood, choose, count, variance

SHAPES = [(2, 8, 7), (4, 30), (2, 1, 9), (1, 4, 5, 6), (3, 2, 8), (5, 4)]


def brute_classes(images, around):
    """Yield image, place and class of each pixel all of whose neighbours are there and seen."""
    for k, image in enumerate(images):
        for place in itertools.product(*map(range, image.shape)):
            values = [[image[place]]]
            for pair in around.pairs:
                ends = [tuple(np.add(place, sign * np.array(pair))) for sign in (1, -1)]
                if any(min(end) < 0 or any(np.greater_equal(end, image.shape)) for end in ends):
                    break
                values.append([image[end] for end in ends])
            else:
                if not any(UNKNOWN in each for each in values):
                    code = values[0][0]
                    for each in values[1:]:
                        code = 3 * code + sum(each)
                    yield k, place, int(code)


@pytest.mark.parametrize("missing", [False, True])
@each("shape", SHAPES)
def test_classes_are_counted(shape, missing, seed):
    images = np.random.default_rng(seed).integers(0, 3 if missing else 2, shape, dtype=np.uint8)
    around = choose(images)
    expected = np.bincount([c for *_, c in brute_classes(images, around)], minlength=around.classes)
    np.testing.assert_array_equal(count(images, around), expected)


@each("shape", SHAPES)
def test_the_variance_sums_the_products_of_all_pixels_with_a_neighbour_in_common(shape, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 2, shape, dtype=np.uint8)
    around = choose(images)
    scores = rng.normal(size=(2, around.classes)).astype(np.float32).astype(float)
    window = [np.zeros(len(shape) - 1, dtype=int)]
    window += [sign * np.array(pair) for pair in around.pairs for sign in (1, -1)]
    pixels = list(brute_classes(images, around))
    expected = np.zeros((2, 2))
    for k, here, first in pixels:
        for j, there, second in pixels:
            mine = {tuple(np.add(here, step)) for step in window}
            if j == k and mine & {tuple(np.add(there, step)) for step in window}:
                expected += np.outer(scores[:, first], scores[:, second])
    np.testing.assert_allclose(variance(images, around, scores), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(40, 6, 5), (1, 60, 7), (3, 50, 4, 4), (1, 500)])
def test_pieces_change_nothing(shape, monkeypatch):
    images = np.random.default_rng(0).integers(0, 2, shape, dtype=np.uint8)
    around = choose(images)
    whole = count(images, around)
    scores = np.random.default_rng(1).normal(size=(1, around.classes))
    scores -= scores @ whole / whole.sum()
    full = variance(images, around, scores)
    monkeypatch.setattr(_neighbourhoods, "_PIECE", 60)
    np.testing.assert_array_equal(count(images, around), whole)
    # a few pieces of many tell the variance roughly
    monkeypatch.setattr(_neighbourhoods, "_PIECES", 1000)
    assert variance(images, around, scores)[0, 0] == pytest.approx(full[0, 0], rel=0.5)


def test_the_fewer_pixels_are_seen_the_fewer_neighbours_are_asked():
    rng = np.random.default_rng(0)
    images = np.zeros((20, 30, 30), dtype=np.uint8)
    assert choose(images).kind == "box"
    for missing, expected in ((0.05, ("box", 4)), (0.3, ("cross", 2)), (0.75, ("chain", 1))):
        seen = np.where(rng.random(images.shape) < missing, UNKNOWN, images).astype(np.uint8)
        found = choose(seen)
        assert (found.kind, len(found.pairs)) == expected
    assert choose(np.zeros((5, 2, 2), dtype=np.uint8)) is None
    assert choose(np.zeros((5, 1), dtype=np.uint8)) is None


def test_axes_that_are_too_short_have_no_neighbours():
    assert choose(np.zeros((1, 2, 9), dtype=np.uint8)) == Neighbourhood("chain", ((0, 1), (0, 2)))
    many = choose(np.zeros((1, 3, 4, 3, 5, 6), dtype=np.uint8))
    assert many.classes == 162 and len(many.pairs) == 4  # as many as fit into a byte
