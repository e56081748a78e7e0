"""Sorting solvers: enumeration over random functions, ties, fixed elements, batches."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from oracles import FAMILIES, brute_maximize, enumerate_x, random_concave, random_subset

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Cut,
    Modular,
    Sum,
)
from logsuper.solvers._direct import closed_form_kind, maximize_closed_form

KINDS = {
    "modular": "modular",
    "cardinality": "cardinality",
    "cardinality of a subset": "cardinality",
    "cardinality + modular": "cardinality",
    "concave of modular": "concave_of_modular",
    "piecewise of modular": "concave_of_modular",
    "concave of modular + modular": "concave_of_modular",
}


def integer_cardinality(rng, n):
    subset = random_subset(rng, n)
    slopes = np.sort(rng.integers(-3, 4, len(subset)))[::-1]
    g = np.concatenate([[0], np.cumsum(slopes)])
    return 2.0 * ConcaveCardinality(g, n=n, subset=subset) - Modular(rng.integers(-2, 3, n))


def integer_truncation(rng, n):
    w = rng.integers(0, 3, n).astype(float)
    top = w.sum() + 1
    bend = float(rng.integers(0, int(top)))
    points = np.unique([0.0, bend, top])
    return ConcaveOfModular((points, np.minimum(points, bend)), w) + Modular(rng.integers(-1, 2, n))


def exact_maximisers(f, theta):
    """Smallest and largest maximiser by enumeration; for integer data only."""
    X = enumerate_x(f.n)
    fixed = np.isinf(theta)
    score = X @ np.where(fixed, 0.0, theta) - f(X)
    score[~np.all(X[:, fixed] == (theta[fixed] > 0), axis=1)] = -np.inf
    best = X[score == score.max()]
    return best.min(axis=0), best.max(axis=0), score.max()


def random_fields(rng, n):
    theta = 2 * rng.normal(size=(12, n))
    theta[3:6][rng.random((3, n)) < 0.3] = np.inf
    theta[3:6][rng.random((3, n)) < 0.3] = -np.inf
    theta[6] = 0.0
    theta[7] = np.inf
    theta[8] = -np.inf
    theta[9] *= 1e-9
    theta[10] *= 1e9
    return theta


@pytest.mark.parametrize("name", KINDS)
def test_values_match_enumeration(name, seed):
    rng = np.random.default_rng([seed, 1])
    for n in (1, 2, 5, 10):
        f = FAMILIES[name](rng, n)
        assert closed_form_kind(f) == KINDS[name]
        theta = random_fields(rng, n)
        _, best = brute_maximize(f, theta)
        finite = np.where(np.isfinite(theta), theta, 0.0)
        scale = 1 + np.abs(finite).sum(axis=1)
        for tie in (None, "min", "max"):
            y, values = maximize_closed_form(f, theta, tie)
            assert y.dtype == np.uint8
            np.testing.assert_array_less(np.abs(values - best), 1e-12 * scale)
            np.testing.assert_array_equal(values, (finite * y).sum(axis=1) - f(y))
            assert np.all(y[theta == np.inf] == 1)
            assert np.all(y[theta == -np.inf] == 0)


@pytest.mark.parametrize("make", [integer_cardinality, integer_truncation])
def test_smallest_and_largest_maximiser_on_integers(make, seed):
    rng = np.random.default_rng([seed, 2])
    several = 0
    for _ in range(60):
        n = int(rng.integers(1, 8))
        f = make(rng, n)
        theta = rng.integers(-3, 4, n).astype(float)
        theta[rng.random(n) < 0.1] = np.inf
        theta[rng.random(n) < 0.1] = -np.inf
        smallest, largest, best = exact_maximisers(f, theta)
        several += not np.array_equal(smallest, largest)
        for tie, expected in (("min", smallest), ("max", largest)):
            y, values = maximize_closed_form(f, theta[None], tie)
            np.testing.assert_array_equal(y[0], expected)
            assert values[0] == best
    assert several >= 5  # the test is about ties: it must have seen some


def test_ties_up_to_rounding_are_ties():
    # Fields equal to the slopes, in an order of summation that rounds: every prefix is optimal.
    rng = np.random.default_rng(0)
    slopes = np.sort(rng.normal(size=50))[::-1]
    f = ConcaveCardinality(np.concatenate([[0.0], np.cumsum(slopes)]))
    theta = np.full((1, 50), slopes.mean())
    assert not maximize_closed_form(f, theta, "min")[0].any()
    assert maximize_closed_form(f, theta, "max")[0].all()
    shifted = theta + 1e-9
    assert maximize_closed_form(f, shifted, "min")[0].all()
    assert not maximize_closed_form(f, shifted - 2e-9, "max")[0].any()


def test_batch_rows_do_not_depend_on_each_other(monkeypatch):
    rng = np.random.default_rng(4)
    f = FAMILIES["concave of modular + modular"](rng, 9)
    theta = rng.normal(size=(23, 9))
    y, values = maximize_closed_form(f, theta)
    monkeypatch.setattr("logsuper.solvers._direct._BLOCK", 20)
    y_small, values_small = maximize_closed_form(f, theta)
    np.testing.assert_array_equal(y, y_small)
    np.testing.assert_allclose(values, values_small, rtol=1e-14)
    single, value = maximize_closed_form(f, theta[7])
    np.testing.assert_array_equal(single, y[7:8])
    np.testing.assert_allclose(value, values[7:8], rtol=1e-14)


@hypothesis.given(
    st.lists(st.tuples(st.floats(0, 4), st.floats(-4, 4)), min_size=1, max_size=7),
    st.floats(0, 5),
)
def test_any_weights_and_fields(pairs, c):
    w, z = np.array(pairs).T
    f = Sum([(c, ConcaveOfModular(lambda v: np.minimum(v, 2.0), w))]) + Modular(0 * w)
    _, best = brute_maximize(f, z[None])
    _, values = maximize_closed_form(f, z[None])
    assert values[0] == pytest.approx(best[0], abs=1e-12 * (1 + np.abs(z).sum()))


def test_monotone_in_the_field(seed):
    rng = np.random.default_rng([seed, 3])
    for name in KINDS:
        f = FAMILIES[name](rng, 200)
        low = rng.normal(size=(20, 200))
        high = low + rng.exponential(size=low.shape) * (rng.random(low.shape) < 0.2)
        below, _ = maximize_closed_form(f, low)
        above, _ = maximize_closed_form(f, high)
        assert np.all(below <= above)


def test_tiny_weights_do_not_displace_fixed_elements():
    # z / w overflows for the second element, which must still come after the one fixed to 1.
    f = ConcaveOfModular(np.sqrt, [4.0, 1e-320, 1.0])
    y, values = maximize_closed_form(f, [[np.inf, 1.0, -np.inf], [-5.0, 1.0, -5.0]])
    np.testing.assert_array_equal(y, [[1, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(values, [-1.0, 1.0])


def test_large_problems_by_the_rule_of_prefixes():
    # 20000 elements: no set obtained by one swap or one flip is better.
    rng = np.random.default_rng(8)
    n = 20000
    f = ConcaveCardinality(lambda k: 40.0 * np.sqrt(k), n=n)
    theta = rng.logistic(size=(1, n))
    y, values = maximize_closed_form(f, theta)
    assert values[0] > 0
    gains = theta - f.gains(y)
    assert np.all(gains[y == 1] >= 0)
    assert np.all(gains[y == 0] <= 0)
    assert theta[y == 1].min() >= theta[y == 0].max()


def test_degenerate_sizes():
    for f in (Modular([]), ConcaveCardinality([1.0])):
        y, values = maximize_closed_form(f, np.empty((2, 0)))
        assert y.shape == (2, 0)
        np.testing.assert_array_equal(values, [0.0, 0.0])
    y, values = maximize_closed_form(Modular([1.0]), np.empty((0, 1)))
    assert y.shape == (0, 1)
    assert values.shape == (0,)
    no_one = ConcaveCardinality([0.0], n=3, subset=[])
    np.testing.assert_array_equal(maximize_closed_form(no_one, [[1.0, -1.0, 0.0]])[0], [[1, 0, 0]])
    no_weight = ConcaveOfModular(np.sqrt, np.zeros(2))
    np.testing.assert_array_equal(maximize_closed_form(no_weight, [[1.0, -1.0]])[0], [[1, 0]])


def test_kinds_without_closed_form():
    rng = np.random.default_rng(0)
    for name, make in FAMILIES.items():
        f = make(rng, 6)
        assert closed_form_kind(f) == KINDS.get(name), name
    two = ConcaveCardinality(random_concave(rng, 6)) + ConcaveOfModular(np.sqrt, np.ones(6))
    assert closed_form_kind(two) is None
    with pytest.raises(ValueError, match="no closed form"):
        maximize_closed_form(two, np.zeros((1, 6)))
    assert closed_form_kind(0.0 * Cut(6, [[0, 1]]) + Modular(np.ones(6))) == "modular"


@pytest.mark.parametrize(
    ("theta", "tie", "message"),
    [
        ([[0.0, np.nan]], None, r"theta\[0, 1\]"),
        ([[0.0]], None, "theta must have shape"),
        ([[0.0, 0.0]], "first", "tie must be"),
    ],
)
def test_bad_arguments_are_named(theta, tie, message):
    with pytest.raises(ValueError, match=message):
        maximize_closed_form(Modular([1.0, 2.0]), theta, tie)
