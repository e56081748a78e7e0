"""MaskCRF at a working size: the way there and back, and what it is good for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import logsuper as ls
from logsuper.estimators import _crops
from logsuper.estimators._field_samples import Sample
from logsuper.estimators._refinement import Picture, Refinement
from logsuper.estimators._unary import describe
from logsuper.estimators._working_size import (
    choose_size,
    enlarge,
    reduce,
    reduce_mask,
    reduced_shape,
)
from logsuper.learning import contrast_weights

QUICK = {"unary": "linear", "tol": 0.05}


def blocks(mask, times):
    return np.repeat(np.repeat(mask, times, axis=0), times, axis=1)


def scenes(shapes, seed=0, scale=1.0):
    """Return noisy colour images of different sizes, and their masks."""
    rng = np.random.default_rng(seed)
    masks = [
        ls.make_silhouettes(1, shape=shape, seed=seed + k)[0] for k, shape in enumerate(shapes)
    ]
    return [
        mask[..., None] * [1.0, -0.5] + rng.normal(scale=scale, size=(*mask.shape, 2))
        for mask in masks
    ], masks


def test_means_of_cells_by_hand():
    # three pixels in two cells: the middle one belongs to each in half
    row = np.array([[3.0, 6.0, 12.0]])
    np.testing.assert_allclose(reduce(row, (1, 2)), [[4.0, 10.0]])
    row[0, 1] = np.nan
    np.testing.assert_allclose(reduce(row, (1, 2)), [[3.0, 12.0]])
    square = np.array([[1.0, np.nan, 0.0, 0.0], [1.0, 0.0, np.nan, np.nan]])
    np.testing.assert_allclose(reduce(square, (1, 2)), [[2 / 3, 0.0]])
    hole = np.array([[np.nan, np.nan, 1.0, 5.0]])
    np.testing.assert_array_equal(reduce(hole, (1, 2)), [[np.nan, 3.0]])
    colours = np.stack([row, 2.0 * row], axis=-1)
    assert reduce(colours, (1, 2)).shape == (1, 2, 2)


def test_labels_of_cells_by_hand():
    mask = np.array([[1, 1, 0, 0], [1, 0, 0, 1]], dtype=np.uint8)
    np.testing.assert_array_equal(reduce_mask(mask, (1, 2)), [[1, 0]])
    partial = np.array([[np.nan, 1.0, np.nan, np.nan], [np.nan, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(reduce_mask(partial, (1, 2)), [[1.0, np.nan]])
    assert reduce_mask(mask, mask.shape) is mask


def test_reducing_keeps_the_mean_and_enlarging_keeps_planes(seed):
    rng = np.random.default_rng(seed)
    image = rng.normal(size=(23, 31))
    assert reduce(image, (7, 10)).mean() == pytest.approx(image.mean())
    np.testing.assert_allclose(reduce(image, (23, 31)), image)
    y, x = np.mgrid[:6, :8] + 0.5
    large = enlarge(2.0 * y - x, (24, 40))
    Y, X = np.mgrid[:24, :40] + 0.5
    inside = (slice(2, -2), slice(3, -3))  # beyond the outer centres it is constant
    np.testing.assert_allclose(large[inside], (2.0 * Y / 4 - X / 5)[inside])
    assert enlarge(np.ones((1, 3, 2)), (4, 7, 5)).shape == (4, 7, 5)


def test_shapes_keep_their_proportions():
    assert reduced_shape((300, 200), 60) == (60, 40)
    assert reduced_shape((300, 2), 60) == (60, 1)
    assert reduced_shape((30, 20), 60) == reduced_shape((30, 20), None) == (30, 20)


def test_what_comes_out_has_the_shape_of_what_goes_in():
    images, masks = scenes([(40, 60), (20, 16), (33, 47), (64, 31)])
    crf = ls.MaskCRF(**QUICK, working_size=24).fit(images, masks)
    assert crf.working_size_ == 24
    shapes = [mask.shape for mask in masks]
    for found in (crf.predict(images), crf.predict_proba(images), crf.predict_unary(images)):
        assert [own.shape for own in found] == shapes
    assert set(np.unique(crf.predict(images)[0])) <= {0, 1}
    drawn = crf.sample_posterior(images, 2, random_state=0)
    assert [own.shape for own in drawn] == [(2, *shape) for shape in shapes]
    assert crf.score(images, masks) > 0.85
    p = crf.predict_proba(images)
    np.testing.assert_array_equal(p[2], crf.predict_proba(images[2:3])[0])
    most = crf.set_params(decode="map").predict(images)
    assert np.mean(most[0] == masks[0]) > 0.85 and most[0].dtype == np.uint8
    stacked = crf.predict(np.stack(images[:1]))
    assert isinstance(stacked, np.ndarray) and stacked.shape == (1, 40, 60)


def test_features_of_the_context_by_hand():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(20, 30, 2))
    plain, found = describe(image), describe(image, context=True)
    assert found.shape[-1] == plain.shape[-1] + 2 * (1 + 5 * 2)
    np.testing.assert_array_equal(found[..., : plain.shape[-1]], plain)
    near, around = plain[..., 2:4], plain[..., 5:7]  # means in the first two windows
    rest = found[..., plain.shape[-1] :]
    np.testing.assert_allclose(rest[..., :2], image.mean(axis=(0, 1)) - near)
    np.testing.assert_allclose(rest[3, :, 2:4], image.mean(axis=0) - near[3])
    np.testing.assert_allclose(rest[:, 5, 4:6], image.mean(axis=1) - near[:, 5])
    np.testing.assert_allclose(rest[2, 9, 6:8], around[6, 9] - near[2, 9])  # four rows below
    np.testing.assert_allclose(rest[2, 9, 8:10], around[0, 9] - near[2, 9])  # beyond: the border
    assert describe(np.ones((4, 5, 6)), 3, context=True).shape == (4, 5, 6, 26)


def test_images_below_the_working_size_are_left_alone():
    images, masks = scenes([(20, 24), (16, 16), (24, 18)])
    found = [
        ls.MaskCRF(**QUICK, working_size=size).fit(images, masks).predict_proba(images)
        for size in (None, "auto", 24)
    ]
    for other in found[1:]:
        for p, q in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(p, q)


def test_a_field_helps_where_objects_are_larger_than_a_window(monkeypatch):
    monkeypatch.setitem(_crops.SIDE, 2, 16)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :64]
    centres = rng.uniform(26, 38, (12, 2))
    masks = [((y - a) ** 2 + (x - b) ** 2 < 24**2).astype(np.uint8) for a, b in centres]
    # errors of a classifier in spots of 8x8 pixels: a window has four of them
    odds = [
        np.where(mask == 1, 2.0, -2.0) + blocks(rng.normal(scale=3.0, size=(8, 8)), 8)
        for mask in masks
    ]
    scores = {}
    for size in (None, "auto"):
        crf = ls.MaskCRF("log_odds", "uniform", tol=0.05, working_size=size)
        crf.fit(odds[:8], masks[:8])
        scores[size] = crf.score(odds[8:], masks[8:])
    pairs = zip(odds[8:], masks[8:], strict=True)
    alone = np.mean([np.mean((own > 0) == mask) for own, mask in pairs])
    assert crf.working_size_ < 32
    assert scores["auto"] > max(alone, scores[None]) + 0.01


def test_the_automatic_size():
    horse = ls.make_silhouettes(1, shape=(40, 40), seed=0)[0]
    large = [blocks(horse, 10)] * 3
    found = choose_size("auto", large)
    assert 64 <= found <= 130  # the animal then spans about 64 pixels
    assert choose_size("auto", [blocks(horse, 2)] * 3) is None  # small enough as it is
    spots = np.zeros((400, 400), dtype=np.uint8)
    spots.reshape(20, 20, 20, 20)[:, 4:14, :, 4:14] = 1  # objects of 10 pixels: windows hold them
    assert choose_size("auto", [spots]) is None
    thin = np.zeros((400, 400), dtype=np.uint8)
    thin[::16] = thin[:, ::16] = 1  # one object that would get lost
    assert choose_size("auto", [thin]) is None
    assert choose_size("auto", [np.full((400, 400), np.nan), np.zeros((400, 400))]) is None
    assert choose_size("auto", [np.ones((40, 40, 40))]) is None  # volumes only by a number
    assert choose_size(32, [np.ones((40, 40, 40))]) == 32
    assert choose_size(32, [np.ones(4000)]) is None  # graphs have no size


@pytest.mark.parametrize(
    ("size", "message"),
    [("large", "working_size must be 'auto'"), (2, "working_size must be at least 16"),
     (2.5, "working_size must be an integer"), (True, "working_size must be an integer")],
)  # fmt: skip
def test_a_wrong_size_is_refused(size, message):
    images, masks = scenes([(16, 16)] * 2)
    with pytest.raises((TypeError, ValueError), match=message):
        ls.MaskCRF(**QUICK, working_size=size).fit(images, masks)


@pytest.mark.parametrize("unary", ["log_odds", "probabilities"])
def test_what_is_brought_keeps_its_detail_and_files_their_size(tmp_path, unary):
    images, masks = scenes([(36, 48)] * 3)
    odds = np.where(np.stack(masks) == 1, 2.0, -2.0)
    odds += np.random.default_rng(0).normal(size=odds.shape)
    odds[:, :5, :5] = np.nan  # not known
    first = odds if unary == "log_odds" else expit(odds)
    stack = np.concatenate([first[..., None], np.stack(images)], axis=-1)
    crf = ls.MaskCRF(unary, learner="pseudo", working_size=24).fit(stack, masks)
    np.testing.assert_allclose(crf.predict_unary(stack), np.nan_to_num(odds), atol=1e-9)
    p = crf.predict_proba(stack)
    smooth = enlarge(reduce(p[0], (18, 24)), (36, 48))
    assert np.abs(np.diff(p[0])).max() > 1.2 * np.abs(np.diff(smooth)).max()
    crf.save(tmp_path / "crf.npz")
    same = ls.load_model(tmp_path / "crf.npz")
    assert same.working_size_ == 24
    np.testing.assert_array_equal(p, same.predict_proba(stack))


def test_outlines_follow_the_picture_at_the_own_size():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:60, :60]
    masks = [
        ((y - a) ** 2 + (x - b) ** 2 < 18**2).astype(np.uint8)
        for a, b in rng.uniform(22, 38, (8, 2))
    ]
    pictures = [mask + rng.normal(scale=0.05, size=mask.shape) for mask in masks]
    odds = [
        np.where(mask == 1, 1.0, -1.0) + rng.normal(scale=1.0, size=mask.shape) for mask in masks
    ]
    images = np.stack([np.stack(odds), np.stack(pictures)], axis=-1)
    crf = ls.MaskCRF("log_odds", learner="pseudo", working_size=16).fit(images[:5], masks[:5])
    plan = dict(crf._plan)
    assert plan["refinement"]["strength"] > 0
    sharp = crf.score(images[5:], masks[5:])
    crf._plan = {**plan, "refinement": Refinement()._asdict()}
    assert sharp > max(0.99, crf.score(images[5:], masks[5:]) + 0.01)


def test_the_sign_of_refined_log_odds_is_an_exact_cut(seed):
    rng = np.random.default_rng(seed)
    odds, values = rng.normal(size=(2, 9, 11))
    picture = Picture(0, np.ones(1), 4)
    refined = picture.refine(odds, Sample(values, values.shape), 0.5)
    grid = ls.prepare(ls.grid_cuts(odds.shape))
    weights = 0.5 * 11 / 4 * contrast_weights(values.ravel(), grid.edges, (0.5,))
    best = grid.maximize(odds.reshape(1, -1), [1.0, 1.0], edge_weights=weights)[0]
    np.testing.assert_array_equal(refined > 0, best.reshape(odds.shape) == 1)


def test_partial_masks_volumes_and_held_log_odds():
    images, masks = scenes([(40, 40), (48, 36), (40, 40)])
    partial = [mask.astype(float) for mask in masks]
    for mask in partial:
        mask[:, ::3] = np.nan
        mask[:6] = np.nan
    crf = ls.MaskCRF(LogisticRegression(), folds=3, tol=0.1, working_size=20).fit(images, partial)
    assert [own.shape for own in crf.held_log_odds_] == [mask.shape for mask in masks]
    assert crf.score(images, partial) > 0.8
    volume = np.zeros((2, 8, 24, 24))
    volume[:, 2:6, 6:18, 4:16] = 1
    noisy = volume + np.random.default_rng(0).normal(scale=0.5, size=volume.shape)
    crf = ls.MaskCRF(**QUICK, learner="pseudo", working_size=16).fit(noisy, volume)
    assert crf.predict(noisy).shape == volume.shape and crf.score(noisy, volume) > 0.9


def test_trees_look_at_the_whole_image_unless_told_otherwise():
    images, masks = scenes([(20, 24), (16, 16), (24, 18)])
    width = images[0].shape[-1] if images[0].ndim == 3 else 1
    local = width + 3 * (width + 1) + 2
    wide = local + width * (1 + 5 * 2)
    for settings, wanted in (
        ({}, wide),
        ({"features": "local"}, local),
        ({"unary": LogisticRegression(max_iter=1000)}, local),
        ({"unary": LogisticRegression(max_iter=1000), "features": "context"}, wide),
    ):
        crf = ls.MaskCRF(**{"folds": 2, "tol": 0.1, **settings}).fit(images, masks)
        assert crf.unary_.n_features_in_ == wanted
