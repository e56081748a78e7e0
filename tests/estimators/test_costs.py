"""Costs of errors and weights of pixels in `MaskDenoiser`."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls

SHAPE = (16, 16)
CLEAN = ls.make_silhouettes(6, shape=SHAPE, seed=0)
NOISY = ls.Flips(0.1).sample(CLEAN, seed=1)
PLACE = np.linspace(0.2, 5.0, 256).reshape(SHAPE)


def quick(**settings: object) -> ls.MaskDenoiser:
    return ls.MaskDenoiser(
        noise=0.1, **{"context": 0, "modular": "shared", "tol": 0.05, **settings}
    )


@pytest.fixture(scope="module")
def plain() -> ls.MaskDenoiser:
    return quick().fit(NOISY, CLEAN)


def test_a_cost_per_pixel_is_a_threshold_per_pixel(plain: ls.MaskDenoiser) -> None:
    careful = quick(cost=(PLACE, 1.0)).fit(NOISY, CLEAN)
    p = plain.predict_proba(NOISY)
    np.testing.assert_array_equal(careful.predict(NOISY), p > PLACE / (PLACE + 1.0))
    assert (careful.predict(NOISY) != plain.predict(NOISY)).any()


def test_costs_per_pixel_survive_a_file(tmp_path, plain: ls.MaskDenoiser) -> None:
    careful = quick(cost=(PLACE, 1.0)).fit(NOISY, CLEAN)
    careful.save(tmp_path / "model.npz")
    loaded = ls.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(NOISY), careful.predict(NOISY))


def test_costs_per_pixel_need_images_of_their_shape(plain: ls.MaskDenoiser) -> None:
    careful = quick(cost=(PLACE, 1.0)).fit(NOISY, CLEAN)
    with pytest.raises(ValueError, match=r"cost has shape \(16, 16\), but an image has \(8, 16\)"):
        careful.predict(NOISY[:, :8])
    with pytest.raises(ValueError, match=r"cost\[0\] has shape \(2,\), but an image has"):
        quick(cost=([1.0, 2.0], 1.0), learner="max_margin").fit(NOISY, CLEAN)


@pytest.mark.parametrize("learner", ["max_margin", "marginal"])
def test_weights_of_images_are_weights_of_their_pixels(learner: str) -> None:
    per_image = np.array([1.0, 0.0, 2.0, 1.0, 3.0, 0.5])
    per_pixel = np.broadcast_to(per_image[:, None, None], CLEAN.shape)
    one, other = (
        quick(learner=learner).fit(NOISY, CLEAN, sample_weight=weights)
        for weights in (per_image, per_pixel)
    )
    np.testing.assert_array_equal(one.alpha_, other.alpha_)
    assert (one.alpha_ != quick(learner=learner).fit(NOISY, CLEAN).alpha_).any()


def test_marginals_weighted_by_costs_are_probabilities() -> None:
    """They lower the cost of decisions, and do not count more pixels as ones."""
    found = quick(learner="marginal", cost=(1.0, 5.0)).fit(NOISY, CLEAN)
    assert found.learner_ == "marginal"
    assert found.predict_proba(NOISY).mean() == pytest.approx(CLEAN.mean(), abs=0.02)
    assert found.predict(NOISY).mean() > CLEAN.mean()


def test_scores_take_weights(plain: ls.MaskDenoiser) -> None:
    right = plain.predict(NOISY) == CLEAN
    weights = np.random.default_rng(0).exponential(size=CLEAN.shape)
    found = plain.score(NOISY, CLEAN, sample_weight=weights)
    assert found == pytest.approx((right * weights).sum() / weights.sum(), rel=1e-12)
    with pytest.raises(ValueError, match="sample_weight must be None without clean images"):
        plain.score(NOISY, sample_weight=weights)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (np.ones(5), "sample_weight has 5 entries for 6 images"),
        (np.ones((6, 4)), r"sample_weight\[0\] has shape \(4,\)"),
        (-np.ones(6), r"sample_weight\[0\] = -1 is negative"),
        (np.full(6, np.nan), r"sample_weight\[0\]"),
        (3.0, "sample_weight must have a weight, or an array, per image"),
    ],
)
def test_bad_weights_are_refused(weights: object, told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        quick(learner="max_margin").fit(NOISY, CLEAN, sample_weight=weights)


def test_weights_are_not_held_out() -> None:
    with pytest.raises(ValueError, match="'select' compares images without sample_weight"):
        quick(learner="marginal", penalty="select").fit(NOISY, CLEAN, sample_weight=np.ones(6))
