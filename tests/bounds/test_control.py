"""The control variates: each is what it claims to be, and its mean is right."""

import itertools

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES
from scipy import integrate
from scipy.special import expit

from logsuper.bounds._draws import (
    Controls,
    LogisticSum,
    crowd_mean,
    logit,
    pair_mean,
    pair_value,
    softplus,
)
from logsuper.functions import Cut, Modular
from logsuper.solvers import maximize


def logistic(rng, *shape):
    return logit(rng.random(shape))


def within(x, mean, errors=5.0):
    """Check that the mean of independent draws is what it should be."""
    assert abs(x.mean() - mean) <= errors * x.std() / np.sqrt(len(x)) + 1e-9


def test_pair_value_is_the_best_of_four(seed):
    a, b, w = np.random.default_rng(seed).normal(size=(3, 100))
    w = np.abs(w)
    best = np.max([np.zeros(100), a - w, b - w, a + b], axis=0)
    np.testing.assert_allclose(pair_value(a, b, w), best, atol=1e-14)


@pytest.mark.parametrize(
    ("a", "b", "w"),
    [(0, 0, 1), (0.3, -0.3, 2), (0.3, -0.3 + 1e-9, 2), (5, 2, 0.5), (-30, 40, 3), (1, 1, 0)],
)
def test_pair_mean_against_quadrature(a, b, w):
    def given(z):
        high, low = max(-w, z + a), max(0.0, z + a - w)
        return (low + softplus(b + high - low)) * expit(z) * expit(-z)

    kinks = sorted({-60.0, *np.clip([-a - w, -a + w], -60, 60), 60.0})
    pieces = itertools.pairwise(kinks)
    truth = sum(integrate.quad(given, low, high, epsabs=1e-13)[0] for low, high in pieces)
    found = pair_mean(*(np.array([float(v)]) for v in (a, b, w)))[0]
    assert found == pytest.approx(truth, abs=1e-10)


def test_pair_mean_of_two_free_elements():
    w = np.array([0.0, 0.1, 1.0, 10.0, 1000.0])
    zero = np.zeros(5)
    closed = 2 * softplus(-w) + 2 * expit(w) - 1
    closed[0] = 2 * np.log(2)
    np.testing.assert_allclose(pair_mean(zero, zero, w), closed, atol=1e-12)


def test_pair_mean_with_huge_fields():
    a = np.array([1e6, -1e6, 1e6, -1e6, 800.0])
    b = np.array([1e6, -1e6, -1e6, 1e6, -800.0])
    w = np.array([1.0, 1.0, 3e6, 3.0, 2000.0])
    # at +-800 the two compete: max(0, z + z')
    expected = [2e6, 0.0, 1.0, 1e6 - 3.0, 1.0]
    np.testing.assert_allclose(pair_mean(a, b, w), expected, rtol=1e-9, atol=1e-9)


def test_sum_of_one_logistic_number():
    one = LogisticSum(1)
    for c in (-50.0, -3.0, 0.0, 0.7, 20.0, 1e9):
        assert one.positive(c) == pytest.approx(float(softplus(c)), abs=1e-11)
    x = np.linspace(-45, 45, 31)
    np.testing.assert_allclose(one.above(x), expit(-x), atol=1e-11)


@pytest.mark.parametrize("n", [2, 7, 300])
def test_sum_of_logistic_numbers_against_draws(n, seed):
    x = logistic(np.random.default_rng(seed), 20_000, n).sum(axis=1)
    several = LogisticSum(n)
    for c in (-2.0 * np.sqrt(n), 0.0, 1.5):
        within(np.maximum(x + c, 0.0), several.positive(c))
        within((x > c).astype(float), float(several.above(np.array([c]))[0]))


@pytest.mark.parametrize(("a", "b", "w"), [(0, 0, 3), (4, -6, 5), (-40, 55, 30), (2, 3, 0)])
def test_mean_of_two_crowds(a, b, w, seed):
    rng = np.random.default_rng(seed)
    first, second = logistic(rng, 20_000, 9).sum(axis=1), logistic(rng, 20_000, 4).sum(axis=1)
    mean = crowd_mean(LogisticSum(9), LogisticSum(4), float(a), float(b), float(w))
    within(pair_value(first + a, second + b, float(w)), mean)


def test_crowds_of_one_are_a_pair():
    for a, b, w in [(0.0, 0.0, 1.0), (0.5, -2.0, 0.3), (3.0, -3.0, 20.0)]:
        pair = pair_mean(*(np.array([v]) for v in (a, b, w)))[0]
        assert crowd_mean(LogisticSum(1), LogisticSum(1), a, b, w) == pytest.approx(pair, abs=1e-9)


@each("family", FAMILIES)
def test_means_are_zero(family, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, 7)
    y, _ = maximize(f, logistic(rng, 10, 7))
    columns = Controls.learn(f, y)(logistic(rng, 20_000, 7))
    for column in columns.T:
        within(column, 0.0)


def test_exact_without_coupling_and_on_disjoint_edges(seed):
    rng = np.random.default_rng(seed)
    z = logistic(rng, 50, 6)
    fields = Modular(rng.normal(size=6))
    edges = Cut(6, [(0, 1), (2, 3), (4, 5)], rng.exponential(size=3)) - fields
    for f in (fields, edges):
        y, values = maximize(f, z)
        controls = Controls.learn(f, y)
        rest = values - controls(z) @ controls.guess
        assert np.ptp(rest) < 1e-12


def test_crowds_are_exact_for_very_strong_coupling(seed):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(5, 1)
    blocks = np.concatenate([np.stack([i, j], 1), np.stack([i, j], 1) + 5, [[4, 5]]])
    t = np.repeat([3.0, -3.0], 5)
    f = Cut(10, blocks, [100.0] * 20 + [1.0]) - Modular(t)
    z = logistic(rng, 50, 10)
    y, values = maximize(f, z)
    crowds = Controls.learn(f, y)(z)[:, 1]
    assert np.ptp(values - crowds) < 1e-10
