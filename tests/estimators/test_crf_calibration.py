"""Calibration: it rises with its inputs, is never worse on its own data, and finds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from logsuper.estimators._calibration import _KNOTS, Calibration, _segments, mix


def log_loss(p, y):
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))


def draw(seed, count=4000):
    rng = np.random.default_rng(seed)
    field, unary = rng.normal(scale=3.0, size=(2, count))
    return rng, expit(field), unary


def test_segments_add_up_to_the_number_itself():
    odds = np.linspace(-9.0, 9.0, 37)
    parts = _segments(odds)
    np.testing.assert_allclose(parts[:, :-1].sum(axis=1), odds)
    np.testing.assert_array_equal(parts[:, -1], 1.0)
    assert parts.shape[1] == len(_KNOTS) + 2


def test_true_weights_are_found(seed):
    rng, p, unary = draw(seed, 40_000)
    odds = 0.4 * logit(p) + 0.7 * unary - 0.3
    y = (rng.random(len(p)) < expit(odds)).astype(float)
    found = mix([p], [unary], [y])
    np.testing.assert_allclose(found[:3], [0.4, 0.7, -0.3], atol=0.1)
    assert np.abs(found.apply(p, unary) - expit(odds)).mean() < 0.01


def test_what_is_too_sure_is_bent(seed):
    rng, p, unary = draw(seed, 20_000)
    share = 0.05 + 0.9 * p  # one in twenty is wrong however sure the field is
    y = (rng.random(len(p)) < share).astype(float)
    found = mix([p], [unary], [y])
    np.testing.assert_allclose(found.apply(p, unary), share, atol=0.08)
    line = Calibration(*found[:3]).apply(p, unary)
    assert log_loss(found.apply(p, unary), y) < log_loss(line, y)


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
        Calibration(bend=(1.0, 2.0)),
        Calibration(bend=(-1.0,) * (len(_KNOTS) + 2)),
    ],
)
def test_what_a_file_must_not_hold(bad):
    assert not bad.valid
