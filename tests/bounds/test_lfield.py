"""The L-field bound and its marginals."""

import numpy as np
import pytest
from cases import each
from oracles import (
    FAMILIES,
    brute_base_polytope_gap,
    brute_log_partition,
    enumerate_x,
    random_cut,
    random_grid,
)

from logsuper import Cut, Modular, maximize
from logsuper.bounds._lfield import log_partition, marginals
from logsuper.functions._base import SubmodularFunction


def entropy(mu):
    return float(np.logaddexp(0, np.log(mu / (1 - mu))).sum() - mu @ np.log(mu / (1 - mu)))


@each("name", FAMILIES)
def test_is_a_certified_upper_bound_with_an_interval(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 8)
    bound = log_partition(f)
    truth = brute_log_partition(f)
    assert bound.target == "upper"
    assert bound.certified
    assert bound.value >= truth  # with no tolerance at all
    low, high = bound.interval
    assert low <= high == bound.value
    assert high - low <= 1e-5 * (1 + abs(truth))
    assert bound.solves >= 1


@each("name", FAMILIES)
def test_is_the_least_over_the_base_polytope(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 6)
    bound = log_partition(f)
    vertices = f.greedy(rng.normal(size=(50, 6)))
    others = rng.dirichlet(np.ones(50) / 3, 200) @ vertices
    value = bound.interval[0]
    assert (np.logaddexp(0, -others).sum(axis=1) >= value - 1e-7).all()
    # duality: H(mu) - f(mu) with the Lovász extension
    mu = np.clip(marginals(f).values, 1e-12, 1 - 1e-12)
    tol = 1e-6 * (1 + np.abs(f(enumerate_x(6))).max())
    assert entropy(mu) - f.lovasz(mu) == pytest.approx(bound.value, abs=tol)


@pytest.mark.parametrize("name", ["cut", "coverage", "cardinality + modular", "sum with a graph"])
def test_marginals_come_from_a_point_of_the_polytope_and_threshold_to_a_mode(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 7)
    mu = marginals(f).values
    s = np.log(1 - mu) - np.log(mu)
    excess, total = brute_base_polytope_gap(f, s)
    assert max(excess, total) <= 1e-8
    assert -f(mu > 0.5) == pytest.approx(maximize(f, np.zeros(7))[1], abs=1e-9)


@pytest.mark.parametrize("name", ["cut", "facility location", "log-det", "cardinality"])
def test_marginals_are_the_gradient_in_a_field(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 5) - Modular(rng.normal(size=5))
    h = 1e-3
    up, down = (
        np.array([log_partition(f - Modular(step * e)).value for e in np.eye(5)])
        for step in (h, -h)
    )
    np.testing.assert_allclose((up - down) / (2 * h), marginals(f).values, atol=1e-3)


def test_modular_functions_are_exact_and_an_edge_is_not():
    f = Modular([1.0, -2.0, 0.0])
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-12)
    g = f + 0.1 * Cut(3, [(0, 1)])
    assert log_partition(g).value > brute_log_partition(g) + 1e-3


def test_cuts_without_a_field_know_nothing(seed):
    f = random_cut(np.random.default_rng(seed), 9)
    assert log_partition(f).value == pytest.approx(9 * np.log(2), abs=1e-9)
    np.testing.assert_allclose(marginals(f), 0.5)


class Complement(SubmodularFunction):
    """f(1 - x) - f(1)."""

    def __init__(self, f):
        self.f, self.n = f, f.n

    def _evaluate(self, X):
        return self.f._evaluate(1.0 - X) - self.f(np.ones(self.n))


def test_complement_permutation_and_components(seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, 6)
    value = log_partition(f).value
    assert log_partition(Complement(f)).value == pytest.approx(value + f(np.ones(6)), abs=1e-6)
    order = rng.permutation(6)
    edges = rng.integers(0, 6, (9, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    w, t = rng.exponential(size=len(edges)), rng.normal(size=6)
    g = Cut(6, edges, w) - Modular(t)
    h = Cut(6, order[edges], w) - Modular(t[np.argsort(order)])
    assert log_partition(g).value == pytest.approx(log_partition(h).value, abs=1e-9)
    np.testing.assert_allclose(marginals(g), marginals(h)[order], atol=1e-9)
    both = Cut(12, np.concatenate([edges, edges + 6]), np.tile(w, 2)) - Modular(np.tile(t, 2))
    assert log_partition(both).value == pytest.approx(2 * log_partition(g).value, abs=1e-9)


def test_threads_change_nothing(seed):
    f = random_grid(np.random.default_rng(seed), 30)
    assert log_partition(f, n_jobs=2).value == log_partition(f).value


def test_single_element_and_huge_numbers():
    assert log_partition(Modular([0.0])).value == pytest.approx(np.log(2))
    f = Cut(3, [(0, 1), (1, 2)], 1e6) - Modular([1e6, -1e6, 0.0])
    bound = log_partition(f)
    assert np.isfinite(bound.value)
    assert bound.value >= brute_log_partition(f)
