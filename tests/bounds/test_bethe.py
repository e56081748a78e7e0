"""The Bethe free energy: a lower bound at every point, exact on trees."""

import warnings

import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition, random_cut
from scipy.optimize import minimize_scalar
from variational_oracles import PAIRWISE, exact_marginals, random_tree

from logsuper import Cut, LogDet, Modular, grid_cuts
from logsuper._base._warnings import ConvergenceWarning
from logsuper.bounds import NotApplicable, _bethe, _mean_field, _messages
from logsuper.bounds._bethe import log_partition, marginals
from logsuper.bounds._messages import FreeEnergy, Messages
from logsuper.solvers._native import kernels
from logsuper.structures import Pairwise, pairwise_of


@pytest.mark.parametrize("name", PAIRWISE)
def test_lies_between_mean_field_and_log_z(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 9)
    bound = log_partition(f)
    truth = brute_log_partition(f)
    assert bound.target == "lower"
    assert bound.certified
    assert bound.value <= truth  # with no tolerance at all
    assert _mean_field.log_partition(f).value <= bound.value + 1e-9 * (1 + abs(truth))


@pytest.mark.parametrize("name", PAIRWISE)
def test_every_point_is_a_bound(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 8)
    model = pairwise_of(f)
    energy = FreeEnergy(model, np.ones(len(model.weights)))
    truth = brute_log_partition(f)
    for scale in (0.1, 1.0, 5.0, 50.0, 1e4):
        value, gradient = energy(rng.normal(size=8) * scale)
        assert value <= truth + 1e-9 * (1 + abs(truth))
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("rho", [1.0, 0.4])
def test_tables_are_consistent_optimal_and_accurate(rho, seed):
    rng = np.random.default_rng(seed)
    n = 40
    edges = np.stack([np.arange(0, n, 2), np.arange(1, n, 2)], axis=1)
    weights = 10.0 ** rng.uniform(-8, 3, len(edges))
    logits = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2, n)
    logits[10:14] = 3.0  # ties
    model = Pairwise(n, edges, weights, np.zeros(n))
    energy = FreeEnergy(model, np.full(len(edges), rho))
    on, off = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    tables = energy._log_tables(logits, on, off)
    t11, t00, t10, t01 = np.exp(tables)
    q = np.exp(on)
    np.testing.assert_allclose(t11 + t10, q[::2], rtol=1e-10)
    np.testing.assert_allclose(t11 + t01, q[1::2], rtol=1e-10)
    np.testing.assert_allclose(t00 + t01, np.exp(off)[::2], rtol=1e-10)
    odds = tables[0] + tables[1] - tables[2] - tables[3]
    np.testing.assert_allclose(odds, 2 * weights / rho, rtol=1e-9, atol=1e-9)
    # against a search over the one free number of each table
    for e in np.flatnonzero(weights < 50)[:6]:
        qi, qj = q[2 * e], q[2 * e + 1]

        def minus(xi, qi=qi, qj=qj, e=e):
            cells = np.array([xi, 1 - qi - qj + xi, qi - xi, qj - xi])
            cells = cells[cells > 0]
            return weights[e] * (qi + qj - 2 * xi) + rho * (cells @ np.log(cells))

        found = minimize_scalar(minus, bounds=(max(0, qi + qj - 1), min(qi, qj)), method="bounded")
        assert minus(t11[e]) <= found.fun + 1e-9


def test_gradient_is_a_finite_difference(seed):
    rng = np.random.default_rng(seed)
    model = pairwise_of(random_cut(rng, 7) - Modular(rng.normal(size=7)))
    energy = FreeEnergy(model, rng.uniform(0.3, 1.0, len(model.weights)))
    logits = rng.normal(size=7)
    h = 1e-5
    steps = h * np.eye(7)
    numeric = [(energy(logits + s)[0] - energy(logits - s)[0]) / (2 * h) for s in steps]
    np.testing.assert_allclose(-energy.in_logits(logits)[1], numeric, atol=1e-8)


@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0, 1000.0])
def test_trees_are_exact(strength, seed):
    f = random_tree(np.random.default_rng(seed), 11, strength)
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-8)
    np.testing.assert_allclose(marginals(f), exact_marginals(f), atol=1e-8)


def test_long_chains_are_exact(seed):
    rng = np.random.default_rng(seed)
    n = 2000
    w, t = rng.exponential(size=n - 1) * 3, rng.normal(size=n)
    f = Cut(n, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), w) - Modular(t)
    zero, one = 0.0, t[0]
    for weight, field in zip(w, t[1:], strict=True):
        zero, one = np.logaddexp(zero, one - weight), np.logaddexp(zero - weight, one) + field
    assert log_partition(f).value == pytest.approx(np.logaddexp(zero, one), abs=1e-6)


def test_isolated_elements_and_single_ones():
    f = Cut(4, [(1, 2)], 0.7) - Modular([3.0, 0.0, 1.0, -900.0])
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-9)
    np.testing.assert_allclose(marginals(f), exact_marginals(f), atol=1e-9)
    assert log_partition(Modular([0.0])).value == pytest.approx(np.log(2))


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e3])
@pytest.mark.parametrize("field", [0.0, 1.0, 1e3])
def test_extreme_numbers_stay_finite_and_valid(weight, field, seed):
    rng = np.random.default_rng(seed)
    across, down = grid_cuts((3, 3))
    f = weight * across + weight * down - Modular(field * rng.normal(size=9))
    bound, truth = log_partition(f), brute_log_partition(f)
    assert bound.value <= truth
    assert bound.value >= truth - 9 * np.log(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        q = marginals(f).values
    assert ((q >= 0) & (q <= 1)).all()


def test_marginals_are_the_gradient_in_a_field(seed):
    rng = np.random.default_rng(seed)
    f = 0.3 * random_cut(rng, 8) - Modular(rng.normal(size=8))
    h = 1e-4
    up, down = (
        np.array([log_partition(f - Modular(step * e)).value for e in np.eye(8)])
        for step in (h, -h)
    )
    np.testing.assert_allclose((up - down) / (2 * h), marginals(f), atol=1e-5)


def test_complement_permutation_and_components(seed):
    rng = np.random.default_rng(seed)
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 4)])
    w, t = 1.5 * rng.exponential(size=6), rng.normal(size=5)
    f = Cut(5, edges, w) - Modular(t)
    value = log_partition(f).value
    mirrored = Cut(5, edges, w) + Modular(t)
    assert log_partition(mirrored).value == pytest.approx(value - t.sum(), abs=1e-8)
    order = rng.permutation(5)
    g = Cut(5, order[edges], w) - Modular(t[np.argsort(order)])
    assert log_partition(g).value == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(marginals(f), marginals(g)[order], atol=1e-5)
    both = Cut(10, np.vstack([edges, edges + 5]), np.tile(w, 2)) - Modular(np.tile(t, 2))
    assert log_partition(both).value == pytest.approx(2 * value, abs=1e-8)


def test_messages_of_a_point_give_it_back(seed):
    rng = np.random.default_rng(seed)
    model = pairwise_of(random_cut(rng, 7) - Modular(rng.normal(size=7)))
    rho = np.ones(len(model.weights))
    messages, energy = Messages(model, rho), FreeEnergy(model, rho)
    u, worst = messages.solve(np.zeros(2 * len(rho)))
    assert worst <= 1e-10
    beliefs = messages.beliefs(u)
    assert np.abs(energy(beliefs)[1]).max() <= 1e-8  # a fixed point is stationary
    np.testing.assert_allclose(energy.messages(beliefs), u, atol=1e-8)


def test_newton_steps_find_what_sweeps_find(seed):
    rng = np.random.default_rng(seed)
    model = pairwise_of(random_cut(rng, 8) - Modular(rng.normal(size=8)))
    messages = Messages(model, np.full(len(model.weights), 0.5))
    start = np.zeros(2 * len(model.weights))
    slow, _ = messages.solve(start, sweeps=5000)
    fast, worst = messages.solve(start, sweeps=3)
    assert worst <= 1e-11
    np.testing.assert_allclose(fast, slow, atol=1e-8)


@pytest.mark.parametrize("scale", [0.2, 1.0, 50.0])
def test_all_ways_to_sweep_find_the_same_extremes(scale, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    model = pairwise_of(scale * random_cut(rng, 9) - Modular(scale * rng.normal(size=9)))
    messages = Messages(model, np.ones(len(model.weights)))
    found = [messages.extremes()]
    monkeypatch.setattr(_messages, "_LARGEST_ODDS", 0.0)
    found.append(messages.extremes())
    monkeypatch.setattr(_messages, "kernels", lambda: None)
    found.append(messages.extremes())
    for ends in zip(*found, strict=True):
        for u, off in ends:
            exact, _ = messages.residual(u)
            assert np.abs(exact).max() == pytest.approx(off, abs=1e-11)
            np.testing.assert_allclose(u, ends[0][0], atol=1e-7)
    (low, _), (high, _) = found[0]
    assert (low <= high + 1e-9).all()


@pytest.mark.parametrize("k", [1e-12, 1e-3, 1.0, 30.0, 800.0, 1e5])
def test_messages_of_any_size_are_finite_and_accurate(k):
    # one edge: the messages are those of the fields, after one sweep
    for fields in ([1e-9, 1e-6], [0.5, -2.0], [40.0, -30.0], [900.0, 1e5], [-1e5, 745.0]):
        model = pairwise_of(Cut(2, [(0, 1)], k) - Modular(fields))
        messages = Messages(model, np.ones(1))
        t = np.array(fields)
        truth = np.logaddexp(t, -k) - np.logaddexp(t - k, 0.0)
        for u, _ in messages.extremes():
            np.testing.assert_allclose(u, truth, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(messages.solve(np.zeros(2))[0], truth, rtol=1e-12, atol=1e-11)


def test_two_phases_pick_the_better_one():
    # a strong grid with a weak field: the all-zero fixed point is the worse one
    across, down = grid_cuts((5, 5))
    f = 3.0 * across + 3.0 * down - Modular(np.full(25, 0.01))
    assert marginals(f).values.min() > 0.9
    assert log_partition(f).value >= -f(np.ones(25))


def test_warns_of_marginals_that_are_not_stationary(monkeypatch):
    monkeypatch.setattr(_bethe, "_search", lambda f: (None, None, np.zeros(2), 0.1, 0))
    with pytest.warns(ConvergenceWarning, match="residual is 0.1"):
        marginals(Cut(2, [(0, 1)]))


def test_grids_of_the_known_partition_function():
    # 50 x 50 without fields, by the Kac-Ward determinant
    across, down = grid_cuts((50, 50))
    for weight, truth, gap in [(0.5, 669.236, 10.0), (0.88, 148.372, 20.0), (1.5, 10.279, 1.0)]:
        value = log_partition(weight * across + weight * down).value
        assert truth - gap <= value <= truth


def test_refuses_other_functions_by_name():
    f = LogDet([[1.0, 0.2], [0.2, 1.0]])
    for method in (log_partition, marginals):
        with pytest.raises(NotApplicable, match=r"bethe needs a pairwise function, got LogDet"):
            method(f)


def test_the_kernels_check_what_they_are_given():
    native = kernels()
    if native is None:
        pytest.skip("the compiled kernels are missing")
    t, edges, one = np.zeros(3), np.array([(0, 1), (1, 2)]), np.ones(2)
    for bad in ([(0, 3), (1, 2)], [(1, 0), (1, 2)], [(-1, 0), (1, 2)]):
        with pytest.raises(ValueError, match="0 <= i < j < n"):
            native.propagate_logs(t, np.array(bad), one, one, 1.0, 5, 0.0, np.zeros(4))
    with pytest.raises(ValueError, match="one number an edge"):
        native.propagate_logs(t, edges, np.ones(3), one, 1.0, 5, 0.0, np.zeros(4))
    with pytest.raises(ValueError, match="u has the wrong shape"):
        native.propagate_extremes(t, edges, one, 5, 0.0, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="logits has the wrong shape"):
        native.mean_field(t, edges, one, 5, 0.0, np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(ValueError, match="values has the wrong length"):
        native.mean_field(t, edges, one, 5, 0.0, np.zeros((2, 3)), np.zeros(1))
