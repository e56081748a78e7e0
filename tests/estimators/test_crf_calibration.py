"""Calibration: it rises with its inputs, is never worse on its own data, and finds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from benchmarks.crf import calibration_error
from benchmarks.crf_halves import noise_floor
from logsuper.estimators._calibration import Calibration, mix


def log_loss(p, y):
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))


def draw(seed, count=4000):
    rng = np.random.default_rng(seed)
    field, unary = rng.normal(scale=3.0, size=(2, count))
    return rng, expit(field), unary


def test_true_numbers_are_found(seed):
    rng, p, unary = draw(seed, 40_000)
    true = Calibration(0.6, 0.7, -0.3, 0.03, 0.08)
    y = (rng.random(len(p)) < true.apply(p, unary)).astype(float)
    found = mix([p], [0.01 * unary], [y])  # the unit of the unary term does not matter
    assert found.image == 0  # without means of images
    np.testing.assert_allclose(found[:5], [0.6, 70.0, -0.3, 0.03, 0.08], atol=0.12, rtol=0.12)
    gap = found.apply(p, 0.01 * unary) - true.apply(p, unary)
    assert np.abs(gap).mean() < 0.01


def test_what_is_too_sure_is_kept_off_0_and_1(seed):
    rng, p, unary = draw(seed, 20_000)
    share = 0.05 + 0.9 * p  # one in twenty is wrong however sure the field is
    y = (rng.random(len(p)) < share).astype(float)
    found = mix([p], [unary], [y])
    np.testing.assert_allclose(found.apply(p, 0.0 * unary), share, atol=0.03)
    np.testing.assert_allclose(found[3:5], 0.05, atol=0.02)


def test_an_effect_of_images_is_found_and_bounded(seed):
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=(200, 1))
    # the field believes a shift of the whole image; half of it is true
    p, unary = expit(rng.normal(scale=2.0, size=(200, 200)) + shift), np.zeros((200, 200))
    true = expit(logit(p) - 0.5 * shift)
    y = (rng.random(p.shape) < true).astype(float)
    y[:, ::5] = np.nan
    means = p.mean(axis=1)
    found, flat = mix(list(p), list(unary), list(y), means), mix(list(p), list(unary), list(y))
    assert found.image < -0.3 and found.valid
    gaps = [
        np.abs(np.stack([own.apply(q, 0.0, m) for q, m in zip(p, means, strict=True)]) - true)
        for own in (found, flat)
    ]
    assert gaps[0].mean() < 0.4 * gaps[1].mean()
    # beyond the training images the effect is that of the outermost
    assert found.apply([0.3], 0.0, 1e-9)[0] == found.apply([0.3], 0.0, means.min())[0]
    assert found.apply([0.3], 0.0, 1.0)[0] == found.apply([0.3], 0.0, means.max())[0]
    # few images decide little, and one image nothing
    few = mix(list(p[:2]), list(unary[:2]), list(y[:2]), means[:2])
    assert abs(few.image) < 0.5
    assert mix([p[0]], [unary[0]], [y[0]], means[:1]).image == 0


def test_the_floor_of_the_calibration_error(seed):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(20):
        p = rng.beta(0.5, 1.5, size=(50, 400))  # right on average, image by image
        y = (rng.random(p.shape) < p).astype(int)
        found.append((calibration_error(list(p), list(y)), noise_floor(list(p), list(y))))
    error, floor = np.mean(found, axis=0)
    assert 0.8 * floor < error < 1.2 * floor


def test_a_formula_by_hand():
    found = Calibration(0.5, 2.0, -1.0, 0.1, 0.2).apply([0.9], [0.3])
    inside = 0.1 + 0.7 * 3.0 / 4.0  # the square root of the odds 9 is 3
    assert found[0] == pytest.approx(expit(logit(inside) + 0.6 - 1.0))
    assert Calibration(0.5).apply([0.9], [7.0])[0] == pytest.approx(0.75)  # a temperature of 2
    whole = Calibration(image=-0.5, least=-3.0, most=2.0).apply([0.9], [0.0], 0.2)
    assert whole[0] == pytest.approx(expit(logit(0.9) - 0.5 * logit(0.2)))


def test_it_is_no_worse_than_either_and_rises(seed):
    rng, p, unary = draw(seed, 500)
    y = (rng.random(len(p)) < 0.5 * p + 0.5 * expit(unary)).astype(float)
    y[::3] = np.nan
    known = ~np.isnan(y)
    found = mix([p[:200], p[200:]], [unary[:200], unary[200:]], [y[:200], y[200:]])
    loss = log_loss(found.apply(p, unary)[known], y[known])
    assert loss <= log_loss(p[known], y[known]) + 1e-6
    assert loss <= log_loss(expit(unary)[known], y[known]) + 1e-6
    line = np.linspace(0.001, 0.999, 200)
    assert (np.diff(found.apply(line, np.zeros(200))) >= -1e-12).all()
    assert (np.diff(found.apply(np.full(200, 0.5), np.linspace(-8, 8, 200))) >= -1e-12).all()
    assert found.valid


def test_certain_probabilities_stay_finite():
    found = mix([np.array([0.0, 1.0, 0.3])], [np.zeros(3)], [np.array([0.0, 1.0, 1.0])])
    assert np.isfinite(found.apply(np.array([0.0, 1.0]), np.zeros(2))).all()
    np.testing.assert_array_equal(Calibration().apply([0.0, 0.2], [5.0, 5.0]), [0.0, 0.2])


@pytest.mark.parametrize(
    "bad",
    [
        Calibration(np.nan),
        Calibration(-1.0),
        Calibration(1.0, -0.1),
        Calibration(missed=-0.1),
        Calibration(false=0.5),
        Calibration(constant=np.inf),
    ],
)
def test_what_a_file_must_not_hold(bad):
    assert not bad.valid
