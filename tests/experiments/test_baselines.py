import itertools

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from logsuper import Flips, grid_cuts, make_silhouettes, min_norm_point
from logsuper.experiments import _baselines as baselines


@pytest.fixture
def images(seed):
    clean = make_silhouettes(14, (16, 16), seed)
    return clean, Flips(0.1).sample(clean, seed=seed + 1)


def test_median_drops_single_pixels_and_keeps_straight_edges():
    image = np.zeros((1, 7, 7))
    image[0, :, 4:] = 1.0
    noisy = image.copy()
    noisy[0, 3, 1] = 1.0
    found = baselines.median(noisy)
    assert found.dtype == np.uint8
    assert np.array_equal(found, image)


def test_the_best_of_several_values_is_taken_and_the_least_of_equals():
    clean = np.array([[[0, 0, 1, 1]]], dtype=np.uint8)
    noisy = np.array([[[0.1, 0.3, 0.6, 0.9]]])

    def decode(images, value):
        return (images > value).astype(np.uint8)

    assert baselines.tune(decode, (0.0, 0.2, 0.4, 0.5, 0.8), noisy, clean) == 0.4


def test_one_cut_is_the_level_set_of_total_variation_along_the_axes(images):
    clean, noisy = images
    train, test = noisy[:8], noisy[8:10]
    found = baselines.cut(train, clean[:8], test)
    fh, fv = grid_cuts((16, 16))
    same = [
        alpha
        for alpha in baselines.ALPHAS
        if np.array_equal(
            -min_norm_point(alpha * fh + alpha * fv, 2.0 * test.reshape(2, -1) - 1.0).s > 0,
            found.reshape(2, -1) == 1,
        )
    ]
    assert same  # the alpha that was tuned is among those that were tried
    assert np.mean(found != clean[8:10]) < np.mean(test != clean[8:10])


def test_weights_of_the_cut_avoid_ties():
    # with fields of 1 and -1 a region gains an integer, and cuts an integer number of edges
    for alpha, edges in itertools.product(baselines.ALPHAS, range(1, 200)):
        assert abs(alpha * edges - round(alpha * edges)) > 1e-6


@pytest.mark.parametrize("weight", [0.1, 0.4, 1.5])
def test_total_variation_reaches_its_optimum(images, weight):
    z = images[1][:3]
    w = baselines.smooth(z, weight, 1000)
    down = np.diff(w, axis=1, append=w[:, -1:])
    right = np.diff(w, axis=2, append=w[:, :, -1:])
    primal = 0.5 * ((w - z) ** 2).sum() + weight * np.hypot(down, right).sum()
    # w = z - λ∇'p, so that half of |z|² - |w|² is the value of the dual at p
    dual = 0.5 * ((z**2).sum() - (w**2).sum())
    assert -1e-3 <= primal - dual <= 1e-3 * primal
    # what few iterations leave hardly matters at one half
    assert np.mean((baselines.smooth(z, weight) > 0.5) != (w > 0.5)) < 0.005


def test_total_variation_of_two_pixels():
    found = baselines.smooth(np.array([[[0.0, 1.0]]]), 0.2)
    assert np.allclose(found, [[[0.2, 0.8]]], atol=1e-5)
    assert np.allclose(baselines.smooth(np.array([[[0.0, 1.0]]]), 3.0), 0.5, atol=1e-5)


def test_total_variation_denoises(images):
    clean, noisy = images
    found = baselines.total_variation(noisy[:8], clean[:8], noisy[8:])
    assert np.mean(found != clean[8:]) < 0.7 * np.mean(noisy[8:] != clean[8:])


def test_patches_have_the_neighbours_nothing_outside_and_the_place():
    image = np.arange(20.0).reshape(1, 4, 5)
    rows = baselines._patches(image).reshape(4, 5, 83)
    assert np.array_equal(rows[..., 40], image[0])  # the pixel itself in the middle
    assert np.array_equal(rows[1:, :, 31], image[0, :-1])  # the one above
    assert np.isnan(rows[0, :, 31]).all()
    assert np.array_equal(rows[2, 3, 81:], [2, 3])


def test_trees_learn_and_are_the_same_with_the_same_seed(few_trees):
    clean = make_silhouettes(14, (16, 16), 0)
    noisy = Flips(0.1).sample(clean, seed=1)
    train, labels, test = noisy[:10], clean[:10], noisy[10:]
    with threadpool_limits(1):
        found = baselines.boosting(train, labels, test, pixels=2000, seed=3)
        again = baselines.boosting(train, labels, test, pixels=2000, seed=3)
    assert np.array_equal(found, again)
    assert np.mean((found > 0) != clean[10:]) < np.mean(test != clean[10:])
