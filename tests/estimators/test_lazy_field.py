"""MaskCRF on dask arrays: the same masks as of the whole image, and clear refusals."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import logsuper as ls
from logsuper.estimators._calibration import Calibration

da = pytest.importorskip("dask.array")


def colour(image):
    return image


def scenes(count=6, shape=(40, 44)):
    """Return log-odds before two channels of a picture, and masks."""
    rng = np.random.default_rng(0)
    masks = ls.make_silhouettes(count, shape=shape, seed=0)
    odds = np.where(masks == 1, 1.0, -1.0) + rng.normal(scale=1.5, size=masks.shape)
    picture = masks[..., None] * [1.0, -0.5] + rng.normal(scale=0.4, size=(*masks.shape, 2))
    return np.concatenate([odds[..., None], picture], axis=-1), masks


def fit(edges="contrast", near=4, **options):
    """Return images, and a field that leaves something in them."""
    images, masks = scenes()
    crf = ls.MaskCRF("log_odds", edges, "pseudo", neighbors=near, calibration=None, **options)
    crf.set_params(working_size=None).fit(images[:5], masks[:5])
    crf.parameters_ = dataclasses.replace(crf.parameters_, alpha=0.3 * crf.parameters_.alpha)
    return images, crf


@pytest.fixture(scope="module")
def fitted():
    images, crf = fit(marginals="exact")
    crf.calibration_ = Calibration(0.8, 0.5, 0.1, 0.01, 0.02, image=-0.7, least=-3.0, most=3.0)
    return images, crf


def run(lazy):
    assert isinstance(lazy, da.Array)
    return lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize("edges", ["contrast", "uniform", None])
@pytest.mark.parametrize("near", [4, 8])
def test_most_probable_masks_are_those_of_the_whole_image(edges, near):
    images, crf = fit(edges, near, decode="map")
    right = crf.predict(images[4:])
    assert 0 < right.mean() < 1
    for given, wanted in ((images[5], right[1]), (images[4:], right)):
        chunks = (25, 23, -1) if given.ndim == 3 else (1, 25, 44, 2)
        found = crf.predict(da.from_array(given, chunks=chunks))
        assert found.dtype == np.uint8 and found.shape == wanted.shape
        np.testing.assert_array_equal(run(found), wanted)


def test_probabilities_with_the_contrast_and_the_mean_of_the_image(fitted, monkeypatch):
    images, crf = fitted
    right = crf.predict_proba(images[5:])[0]
    lazy = crf.predict_proba(da.from_array(images[5], chunks=-1))
    np.testing.assert_allclose(run(lazy), right, atol=1e-6)
    monkeypatch.setattr("logsuper.estimators._lazy.WHOLE", 400)
    monkeypatch.setattr("logsuper.estimators._lazy.BLOCK", {2: 20})
    errors = []
    for halo in (0, 16):
        monkeypatch.setattr("logsuper.estimators._lazy_field.HALO", {2: halo})
        found = run(crf.predict_proba(da.from_array(images[5], chunks=(20, 22, -1))))
        errors.append(np.abs(found - right).max())
    assert errors[1] < 0.2 * errors[0]
    masks = run(crf.predict(da.from_array(images[5], chunks=(7, 30, -1))))
    assert masks.dtype == np.uint8
    np.testing.assert_array_equal(masks, found > 0.5)


def test_features_that_say_how_far_they_look():
    images, masks = scenes(5)
    images = images[..., 1:]

    def around(image):
        far = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="edge")
        return np.concatenate([image, far[4:, 4:], far[:-4, :-4]], axis=-1)

    around.reach = 2
    crf = ls.MaskCRF(LogisticRegression(), features=around, learner="pseudo", folds=2)
    crf.set_params(decode="map", calibration=None, working_size=None).fit(images[:4], masks[:4])
    found = crf.predict(da.from_array(images[4], chunks=(19, 19, -1)))
    np.testing.assert_array_equal(run(found), crf.predict(images[4:])[0])
    crf.features = colour
    with pytest.raises(ValueError, match="attribute `reach`"):
        crf.predict(da.from_array(images[4], chunks=19))


def test_what_cannot_be_decoded_by_chunks_is_refused(fitted):
    images, crf = fitted
    image = da.from_array(images[5], chunks=20)
    with pytest.raises(ValueError, match="one image of 2 axes"):
        crf.predict(image[..., 0])
    with pytest.raises(ValueError, match="have channels"):
        crf.predict_proba(image[..., :2])
    reduced = copy.copy(crf)
    reduced._plan = {**crf._plan, "working_size": 20}
    with pytest.raises(ValueError, match="working_size=None"):
        reduced.predict(image)
    small = ls.MaskCRF("linear", learner="pseudo", calibration=None, working_size=None)
    small.fit(images[:3, :12, :12], (images[:3, :12, :12, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="unary='log_odds'"):
        small.predict(image)


def test_probabilities_that_are_brought_and_tasks_that_travel(fitted):
    images, crf = fitted
    brought = copy.copy(crf).set_params(unary="probabilities", decode="map")
    stack = np.concatenate([expit(images[5:, ..., :1]), images[5:, ..., 1:]], axis=-1)
    lazy = brought.predict(da.from_array(stack[0], chunks=21))
    np.testing.assert_array_equal(run(lazy), brought.predict(stack)[0])
    again = pickle.loads(pickle.dumps(lazy))
    np.testing.assert_array_equal(run(again), brought.predict(stack)[0])
