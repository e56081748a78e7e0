"""The multilinear extension of every family that has one, against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FAMILIES, enumerate_x, random_concave, random_subset

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    FacilityLocation,
    LogDet,
    Modular,
    PnPotts,
    RobustPn,
    SubmodularFunction,
)
from logsuper.functions._conditioned import Conditioned

seeds = st.integers(0, 2**32 - 1)


def random_equal_robust(rng, n, side):
    members = [random_subset(rng, n) for _ in range(4)] + [np.arange(n), random_subset(rng, n)]
    prices = [np.full(len(group), rng.exponential()) for group in members]
    return RobustPn(n, members, rng.exponential(size=6) * 2, prices, side=side)


def random_conditioned(rng, n):
    base = FAMILIES["facility location"](rng, n + 2) + FAMILIES["cardinality"](rng, n + 2)
    point = np.zeros(n + 2)
    point[0] = 1.0
    return Conditioned(base, np.arange(2, n + 2), point)


CLOSED = {
    name: FAMILIES[name]
    for name in (
        "modular",
        "cut",
        "directed cut",
        "grid",
        "cardinality",
        "cardinality of a subset",
        "cardinality + modular",
        "coverage",
        "facility location",
        "P^n Potts",
    )
} | {
    "robust P^n of equal prices, side 1": lambda rng, n: random_equal_robust(rng, n, 1),
    "robust P^n of equal prices, side 0": lambda rng, n: random_equal_robust(rng, n, 0),
    "concave of equal weights": lambda rng, n: ConcaveOfModular(np.sqrt, 2.5 * np.ones(n)),
    "concave of weights 0 and 1": lambda rng, n: ConcaveOfModular(
        np.log1p, rng.integers(0, 2, n).astype(float)
    ),
    "conditioned": random_conditioned,
    "sum": lambda rng, n: (
        0.5 * FAMILIES["cut"](rng, n)
        + 2.0 * FAMILIES["coverage"](rng, n)
        + FAMILIES["P^n Potts"](rng, n)
        - Modular(rng.normal(size=n))
    ),
}
OPEN = ["concave of modular", "robust P^n, side 0", "log-det", "callable", "sum without a graph"]


def by_enumeration(f: SubmodularFunction, q: np.ndarray) -> tuple[float, np.ndarray]:
    X = enumerate_x(f.n)
    p = np.where(X == 1, q, 1.0 - q).prod(axis=1)
    return float(p @ f(X)), p @ f.gains(X)


@pytest.mark.parametrize("name", CLOSED)
@settings(max_examples=15)
@given(seed=seeds, n=st.integers(1, 8))
def test_is_the_expectation_of_the_function_and_of_its_gains(name, seed, n):
    rng = np.random.default_rng(seed)
    f = CLOSED[name](rng, n)
    Q = rng.random((4, n))
    Q[1] = rng.choice([0.0, 0.3, 1.0], n)  # certain elements must not divide 0 by 0
    Q[2] = rng.integers(0, 2, n)
    Q[3] = 10.0 ** rng.uniform(-300, 0, n)
    values, gradients = f.multilinear(Q)
    tol = 1e-12 * (1.0 + np.abs(f(enumerate_x(n))).max())
    for q, value, gradient in zip(Q, values, gradients, strict=True):
        expected, slope = by_enumeration(f, q)
        assert value == pytest.approx(expected, abs=tol)
        np.testing.assert_allclose(gradient, slope, atol=tol)
    assert values[2] == pytest.approx(f(Q[2]), abs=tol)


@pytest.mark.parametrize("name", CLOSED)
def test_gradient_is_a_finite_difference(name, seed):
    # F is linear in each coordinate, so that a difference of any width is exact
    rng = np.random.default_rng(seed)
    f = CLOSED[name](rng, 6)
    q = rng.uniform(0.2, 0.8, 6)
    _, gradient = f.multilinear(q)
    up, _ = f.multilinear(q + 0.2 * np.eye(6))
    down, _ = f.multilinear(q - 0.2 * np.eye(6))
    np.testing.assert_allclose((up - down) / 0.4, gradient, atol=1e-11)


def test_shapes(seed):
    rng = np.random.default_rng(seed)
    for make in CLOSED.values():
        f = make(rng, 5)
        q = rng.random((2, 3, 5))
        values, gradients = f.multilinear(q)
        assert values.shape == (2, 3)
        assert gradients.shape == (2, 3, 5)
        one, slope = f.multilinear(q[1, 2])
        assert isinstance(one, float)
        assert one == pytest.approx(values[1, 2], abs=1e-12)
        np.testing.assert_allclose(slope, gradients[1, 2], atol=1e-12)
        none, slopes = f.multilinear(np.empty((0, 5)))
        assert none.shape == (0,)
        assert slopes.shape == (0, 5)
        slope[:] = 0.0  # a result of one's own, not a view of the function


def test_empty_ground_set_and_empty_parts():
    assert Modular([]).multilinear([])[0] == 0.0
    assert PnPotts(2, [[], [0, 1]], [5.0, 1.0]).multilinear([0.5, 0.5])[0] == 0.5
    assert RobustPn(2, [[], [1]], 3.0).multilinear([0.5, 0.5])[0] == 0.5
    assert Coverage([[], [0]], [2.0, 7.0]).multilinear([0.5, 0.5])[0] == 1.0
    assert FacilityLocation(np.empty((0, 3))).multilinear(np.full(3, 0.5))[0] == 0.0
    assert ConcaveCardinality([1.0], n=2, subset=[]).multilinear([0.5, 0.5])[0] == 0.0
    assert Cut(2, []).multilinear([0.5, 0.5])[0] == 0.0


@pytest.mark.parametrize("n", [50, 400])
def test_large_counts_stay_accurate(n, seed):
    # a count of many certain elements: the truth is one binomial entry away
    rng = np.random.default_rng(seed)
    g = random_concave(rng, n)
    f = ConcaveCardinality(g)
    q = rng.integers(0, 2, n).astype(float)
    q[:2] = 0.25, 0.5
    k = int(q[2:].sum())
    p = np.array([0.375, 0.5, 0.125])
    value, gradient = f.multilinear(q)
    assert value == pytest.approx(p @ f.g[k : k + 3], rel=1e-12)
    slopes = np.diff(f.g[k : k + 3])
    assert gradient[0] == pytest.approx(0.5 * slopes.sum(), rel=1e-11)
    assert gradient[1] == pytest.approx(0.75 * slopes[0] + 0.25 * slopes[1], rel=1e-11)


@pytest.mark.parametrize("name", OPEN)
def test_refuses_what_has_no_closed_form(name):
    f = FAMILIES[name](np.random.default_rng(0), 5)
    with pytest.raises(TypeError, match="has no closed form"):
        f.multilinear(np.full(5, 0.5))


def test_refuses_bad_probabilities():
    f = Cut(2, [(0, 1)])
    with pytest.raises(ValueError, match=r"q\[1\] = 1.5 is not a probability"):
        f.multilinear([0.5, 1.5])
    with pytest.raises(ValueError, match=r"q\[0, 1\] = nan is not finite"):
        f.multilinear([[0.5, np.nan]])
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 2\)"):
        f.multilinear([0.5])
    with pytest.raises(TypeError, match="no closed form"):
        LogDet(np.eye(2)).multilinear([0.5, 0.5])
