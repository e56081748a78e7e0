"""Marginals of a batch: against enumeration, single models and exact transfer."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from bounds.grids import ENGINES, use_engine
from cases import each

import logsuper as ls
from logsuper.bounds import _choose, _transfer, infer_marginals, weighted_sum

SHAPES = [(1, 1), (1, 9), (9, 1), (2, 5), (5, 2), (3, 4), (4, 3)]
ALPHA = np.array([0.5, 0.8])


def make_fields(rng, count, n, fixed=0.0, scale=2.0):
    theta = scale * rng.normal(size=(count, n))
    sign = np.where(rng.random(theta.shape) < 0.5, -np.inf, np.inf)
    return np.where(rng.random(theta.shape) < fixed, sign, theta)


def enumerate_means(f, field):
    """Return E x of one model, fixed elements included."""
    X = oracles.enumerate_x(f.n)
    infinite = np.isinf(field)
    agree = (X[:, infinite] == (field[infinite] > 0)).all(axis=1)
    score = np.where(agree, X @ np.where(infinite, 0.0, field) - f(X), -np.inf)
    p = np.exp(score - score.max())
    return p @ X / p.sum()


def alone(prepared, alpha, field, factors=None):
    """Return the marginals of one model by itself."""
    infinite = np.isinf(field)
    f = weighted_sum(prepared, alpha, factors) - ls.Modular(np.where(infinite, 0.0, field))
    m = ls.LogSupermodular(f, shape=(f.n,))
    return m.condition({int(d): int(field[d] > 0) for d in np.flatnonzero(infinite)}).marginals()


def functions_of(shape):
    if min(shape) > 1:
        return ls.grid_cuts(shape)
    n = max(shape)
    chain = [(i, i + 1) for i in range(n - 1)]
    return ls.Cut(n, chain, 1.0), ls.Cut(n, chain, np.arange(1.0, n))


@pytest.mark.parametrize("fixed", [0.0, 0.3, 1.0])
@each("shape", SHAPES)
def test_small_images_agree_with_enumeration(shape, fixed, seed):
    rng = np.random.default_rng(seed)
    s = ls.prepare(functions_of(shape))
    theta = make_fields(rng, 4, s.n, fixed)
    for factors in (None, 2.0 * rng.random((4, len(s.edges))), rng.random((4, 2, len(s.edges)))):
        found = infer_marginals(s, ALPHA, theta, factors)
        assert (found.methods == "exact").all()
        for m, field in enumerate(theta):
            f = weighted_sum(s, ALPHA, None if factors is None else factors[m])
            exact = enumerate_means(f, field)
            np.testing.assert_allclose(found.values[m], exact, rtol=1e-10, atol=1e-14)
            assert np.all(found.lower[m] <= exact + 1e-12)
            assert np.all(exact <= found.upper[m] + 1e-12)


@pytest.mark.filterwarnings("ignore:.*certified only within an interval")
@pytest.mark.parametrize("style", ["common", "factors", "fixed", "both"])
def test_a_batch_is_its_models_one_by_one(style, seed):
    rng = np.random.default_rng(seed)
    shape = [(20, 24), (26, 20), (21, 21)][seed % 3]
    s = ls.prepare(ls.grid_cuts(shape))
    theta = make_fields(rng, 3, s.n, 0.02 if style in ("fixed", "both") else 0.0)
    factors = None
    if style in ("factors", "both"):
        factors = 0.2 + 1.5 * rng.random((3, 2, len(s.edges)))
        factors[::2, 0] *= 0.2  # so that windows are rows in some images, and columns in others
    found = infer_marginals(s, ALPHA, theta, factors)
    again = infer_marginals(s, ALPHA, theta, factors, n_jobs=3)
    reversed_ = infer_marginals(s, ALPHA, theta[::-1], None if factors is None else factors[::-1])
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(found, name), getattr(again, name))
        np.testing.assert_array_equal(getattr(found, name), getattr(reversed_, name)[::-1])
    assert (found.methods == "strips").all()
    for m, field in enumerate(theta):
        one = alone(s, ALPHA, field, None if factors is None else factors[m])
        assert one.method == "strips"
        for name in ("values", "lower", "upper"):
            a, b = getattr(found, name)[m], getattr(one, name)
            if style in ("common", "factors"):
                np.testing.assert_array_equal(a, b)
            else:  # fields of fixed neighbours are added up in another order
                np.testing.assert_allclose(a, b, rtol=1e-11)
        inside = np.isinf(field)
        np.testing.assert_array_equal(found.values[m, inside], field[inside] > 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", [0.5, 2.0, 60.0])
def test_brackets_hold_exact_values(monkeypatch, engine, scale, seed):
    monkeypatch.setattr(_choose, "_CHEAP", 0.0)  # nothing is cheap enough to be exact
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((11, 13)))
    theta = scale * make_fields(rng, 3, s.n, 0.05)
    exact = np.array([oracles_of_strip(s, scale * ALPHA, field) for field in theta])
    use_engine(monkeypatch, engine)
    found = infer_marginals(s, scale * ALPHA, theta)
    assert (found.methods == "strips").all()
    assert np.all((found.lower <= exact + 1e-15) & (exact <= found.upper + 1e-15))
    assert np.all((found.lower <= found.values) & (found.values <= found.upper))


def oracles_of_strip(prepared, alpha, field):
    """Return exact marginals by transfer over the whole image; fixed pixels by huge fields."""
    infinite = np.isinf(field)
    f = weighted_sum(prepared, alpha) - ls.Modular(np.where(infinite, 0.0, field))
    mean = np.where(field == np.inf, 1.0, 0.0)
    g, _ = f.condition({int(d): int(field[d] > 0) for d in np.flatnonzero(infinite)})
    mean[~infinite] = _transfer.marginals(g).values
    return mean


@pytest.mark.filterwarnings("ignore:.*certified only within an interval")
def test_huge_weights_go_one_by_one(seed):
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((20, 21)))
    theta = make_fields(rng, 3, s.n)
    theta[1, 7] = 1e9
    factors = np.ones((3, len(s.edges)))
    factors[2, 5] = 1e12
    found = infer_marginals(s, ALPHA, theta, factors)
    for m, field in enumerate(theta):
        one = alone(s, ALPHA, field, factors[m])
        np.testing.assert_array_equal(found.values[m], one.values)
        np.testing.assert_array_equal(found.upper[m], one.upper)
    assert found.values[1, 7] > 1 - 1e-12


def test_a_batch_of_huge_weights_only():
    prepared = ls.prepare(ls.grid_cuts((3, 4)))
    field = np.linspace(-1.0, 2.0, 12)
    found = infer_marginals(prepared, np.array([1e9, 1e9]), field[None])
    together = 1.0 / (1.0 + np.exp(-field.sum()))  # all pixels are one
    np.testing.assert_allclose(found.values[0], together, atol=1e-9)


def test_images_of_cuts_that_are_not_grid_cuts(seed):
    rng = np.random.default_rng(seed)
    grid = ls.prepare(ls.grid_cuts((20, 22)))
    listed = ls.prepare([ls.Cut(440, f.edges, f.weights) for f in grid.functions])
    theta = make_fields(rng, 2, 440, 0.01)
    one, other = (infer_marginals(s, ALPHA, theta) for s in (grid, listed))
    np.testing.assert_array_equal(one.lower, other.lower)
    np.testing.assert_array_equal(one.upper, other.upper)


def test_models_without_a_cheap_method_are_left_out(seed):
    rng = np.random.default_rng(seed)
    s = ls.prepare([sum(ls.grid_cuts((20, 20), neighbors=8)[1:], ls.grid_cuts((20, 20))[0])])
    theta = make_fields(rng, 3, 400)
    theta[1] = np.inf
    found = infer_marginals(s, np.ones(1), theta)
    assert found.methods.tolist() == ["", "exact", ""]
    assert np.isnan(found.values[[0, 2]]).all()
    assert (found.values[1] == 1.0).all()
    assert found.by_strips().values.shape == (0, 400)


def test_wide_brackets_get_phases(seed):
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((24, 24)))
    theta = 0.01 * rng.normal(size=(2, 576))
    found = infer_marginals(s, np.full(2, 2.5), theta)
    for m, field in enumerate(theta):
        with pytest.warns(UserWarning, match="wider than"):
            one = alone(s, np.full(2, 2.5), field)
        np.testing.assert_array_equal(found.values[m], one.values)
    assert np.abs(found.values - (found.lower + found.upper) / 2).max() > 0.01


def test_an_empty_batch():
    s = ls.prepare(ls.grid_cuts((3, 3)))
    found = infer_marginals(s, ALPHA, np.empty((0, 9)))
    assert found.values.shape == (0, 9) and len(found.methods) == 0
