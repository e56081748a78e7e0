"""The power bounds: their definition, their order, and the law that is drawn from."""

import functools

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition, brute_maximize, enumerate_x
from scipy import stats
from scipy.special import expit, gammaln

from logsuper.bounds import _logistic
from logsuper.bounds._draws import Draws
from logsuper.bounds._power import _draw, log_partition, marginals, tilted, typical_field
from logsuper.functions import Cut, LogDet, Modular, grid_cuts


def sp(v):
    return np.logaddexp(0.0, v)


@functools.cache
def by_quadrature(f, a):
    """Return U_a of a function of two elements, from its definition.

    u = r^(1 / (1 - a)) with uniform r has the law Beta(1 - a, 1); r = sigma(x) reaches both ends.
    """
    x = np.linspace(-45, 90, 2001)
    mass = expit(x) * expit(-x) * (x[1] - x[0])
    log_u = -sp(-x) / (1 - a)
    z = log_u - np.log(-np.expm1(log_u))
    one, two = np.meshgrid(z, z)
    values = np.maximum.reduce([one * p + two * q - f([p, q]) for p in (0, 1) for q in (0, 1)])
    return np.log(mass @ np.exp(a * values) @ mass) / a


TWO = [
    Cut(2, [(0, 1)], 1.0) - Modular([0.0, 0.0]),
    Cut(2, [(0, 1)], 2.0) - Modular([0.5, -1.5]),
    LogDet([[1.0, 0.7], [0.7, 2.0]]),
]


@pytest.mark.parametrize("a", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("k", range(len(TWO)))
def test_definition(k, a, seed):
    truth = by_quadrature(TWO[k], a)
    bound = log_partition(TWO[k], a=a, n_samples=2000, seed=seed)
    assert abs(bound.value - truth) <= 5 * bound.stderr + 1e-3
    assert brute_log_partition(TWO[k]) <= truth + 1e-4


def test_decreases_from_the_logistic_bound_to_log_partition():
    for f in TWO:
        values = [by_quadrature(f, a) for a in (0.02, 0.2, 0.4, 0.6)]
        logistic = _logistic.log_partition(f, n_samples=4000, seed=0)
        assert (np.diff([logistic.value + 5 * logistic.stderr, *values]) <= 1e-3).all()
        assert values[-1] >= brute_log_partition(f) - 1e-4
        near = log_partition(f, a=0.999, n_samples=4000, seed=0)
        assert abs(near.value - brute_log_partition(f)) <= 5 * near.stderr + 1e-3


@each("family", FAMILIES)
def test_above_log_partition(family, seed):
    f = FAMILIES[family](np.random.default_rng(seed), 6)
    exact = brute_log_partition(f)
    bound = log_partition(f, seed=seed)
    assert bound.value + 5 * bound.stderr >= exact - 1e-9 * (1 + abs(exact))
    assert bound.target == "upper"
    assert not bound.certified
    assert bound.solves == 200
    assert 0 < bound.details["a"] <= 0.95


def test_tighter_than_the_logistic_bound(seed):
    f = 0.8 * sum(grid_cuts((4, 4))[:]) - Modular(np.random.default_rng(seed).normal(size=16))
    exact = brute_log_partition(f)
    power = log_partition(f, n_samples=2000, seed=seed)
    logistic = _logistic.log_partition(f, n_samples=2000, seed=seed)
    # its standard error allows for large weights that have not come up
    assert power.value + power.stderr < logistic.value - 3 * logistic.stderr
    assert power.value - exact < 0.7 * (logistic.value - exact)


def test_a_is_chosen_for_enough_effective_draws():
    f = sum(grid_cuts((12, 12))[:]) - Modular(np.random.default_rng(0).normal(size=144))
    shares = [log_partition(f, seed=seed).details["effective"] / 140 for seed in range(20)]
    assert np.median(shares) > 0.25


def test_gumbel_form(seed):
    """E exp(a max_y sum_d g_d(y_d) - f(y)) over iid Gumbel g is e^(a U_a) Gamma(1 - a)^n."""
    rng = np.random.default_rng(seed)
    f, a, draws = FAMILIES["cut"](rng, 3), 0.25, 40_000
    X = enumerate_x(3)
    g = rng.gumbel(size=(2, draws, 3))
    weights = np.exp(a * (g[1] @ X.T + g[0] @ (1 - X).T - f(X)).max(axis=1))
    other = (np.log(weights.mean()) - 3 * gammaln(1 - a)) / a
    error = weights.std() / weights.mean() / np.sqrt(draws) / a
    bound = log_partition(f, a=a, n_samples=2000, seed=seed)
    assert abs(bound.value - other) <= 5 * np.hypot(error, bound.stderr)


@pytest.mark.parametrize("a", [0.05, 0.5, 0.95])
def test_modular_is_exact(a, seed):
    t = np.random.default_rng(seed).normal(size=9) * 4
    bound = log_partition(Modular(t), a=a, seed=seed)
    assert bound.value == pytest.approx(sp(-t).sum(), abs=1e-9)
    assert bound.stderr < 1e-9
    found = marginals(Modular(t), a=a, n_samples=4000, seed=seed)
    assert (abs(found.values - expit(-t)) <= 6 * found.stderr + 1e-3).all()


def test_does_not_depend_on_the_field(seed):
    f, a = FAMILIES["grid"](np.random.default_rng(seed), 4), 0.3
    estimates = []
    for field in (np.zeros(4), np.array([0.5, -1.0, 2.0, 0.0])):
        gaps, _ = _draw(Draws(f, seed, None), field, a, [4000] * 10)
        weights = np.exp(a * gaps)
        error = weights.std() / weights.mean() / np.sqrt(40_000) / a
        estimates.append((sp(field).sum() + np.log(weights.mean()) / a, error))
    (one, e), (two, d) = estimates
    assert abs(one - two) <= 5 * np.hypot(e, d)


@pytest.mark.parametrize("h", [-3.0, 0.0, 0.7, 30.0, -30.0])
@pytest.mark.parametrize("a", [0.0, 0.3, 0.9])
def test_law_of_the_tilted_noise(a, h):
    u = (np.arange(20_000) + 0.5)[:, None] / 20_000
    z = tilted(u, np.array([h]), a)[:, 0]
    assert np.isfinite(z).all()
    assert (np.diff(z) >= 0).all()
    # density u'^-a max(1, e^h u' / (1 - u'))^a du', integrated by hand from either end
    below = expit(-h) * np.exp((1 - a) * (-sp(-np.minimum(z, -h)) + sp(h)))
    above = expit(h) * np.exp((1 - a) * (-sp(np.maximum(z, -h)) + sp(-h)))
    law = np.where(z < -h, below, 1 - above)
    assert abs(law - u[:, 0]).max() < 1e-3
    if a == 0.0:
        assert stats.kstest(z, "logistic").pvalue > 0.5


def test_extreme_draws_stay_finite():
    field = np.array([0.0, 800.0, -800.0, 1e8, -1e8])
    for a in (0.0, 0.5, 0.999):
        for u in (0.0, 2.0**-60, 0.5, 1.0 - 2.0**-53):
            assert np.isfinite(tilted(np.full((1, 5), u), field, a)).all()


def test_typical_field():
    gains = np.array([[1.0, 900.0, -900.0, 900.0], [1.0, 900.0, -900.0, -900.0]])
    np.testing.assert_allclose(typical_field(gains), [-1.0, -900.0, 900.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("family", ["grid", "coverage", "log-det"])
def test_marginals(family, seed):
    f = FAMILIES[family](np.random.default_rng(seed), 6)
    X = enumerate_x(6)
    p = np.exp(-f(X))
    exact = p @ X / p.sum()
    found = marginals(f, n_samples=3000, seed=seed)
    logistic = _logistic.marginals(f, n_samples=3000, seed=seed)
    assert abs(found.values - exact).mean() <= abs(logistic.values - exact).mean() + 0.01
    assert ((found.values >= 0) & (found.values <= 1)).all()
    # the weighted mean of the maximisers at a small a is the mean of the logistic ones
    small = marginals(f, a=0.01, n_samples=2000, seed=seed)
    z = np.random.default_rng(seed).logistic(size=(4000, 6))
    plain = brute_maximize(f, z)[0].mean(axis=0)
    assert (abs(small.values - plain) <= 6 * small.stderr + 0.05).all()


def test_rounding_takes_no_marginal_past_one():
    for seed in range(40):  # some of these would be 1 + 2.2e-16
        f = Cut(5, [(0, 1), (1, 2), (2, 3)]) - Modular([50.0, 0.0, 0.0, 1.0, -1.0])
        assert marginals(f, seed=seed).values.max() <= 1.0


def test_seeds_and_threads():
    f = sum(grid_cuts((5, 5))[:]) - Modular(np.linspace(-1, 1, 25))
    values = {log_partition(f, seed=1, n_jobs=jobs).value for jobs in (None, 1, 2)}
    assert len(values) == 1
    assert log_partition(f, seed=2).value not in values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": 0.0}, "a must lie strictly between 0 and 1"),
        ({"a": 1.0}, "a must lie strictly between 0 and 1"),
        ({"a": float("nan")}, "a must be finite"),
        ({"a": "big"}, "a must be a real number"),
        ({"n_samples": 19}, "n_samples must be at least 20"),
        ({"confidence": 0}, "confidence must lie strictly between 0 and 1"),
    ],
)
def test_refusals(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        log_partition(Cut(2, [(0, 1)]), **options)
