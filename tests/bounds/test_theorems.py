"""What is true of every log-supermodular model, across the methods."""

import itertools

import numpy as np
import pytest
from oracles import FAMILIES, enumerate_x, random_concave

import logsuper as ls
from logsuper.solvers import min_norm_point

N = 7


@pytest.fixture(params=FAMILIES)
def f(request, seed):
    return FAMILIES[request.param](np.random.default_rng(seed), N)


def test_elements_are_positively_associated(f):
    # Fortuin, Kasteleyn and Ginibre 1971: no covariance is negative
    X = enumerate_x(N).astype(float)
    p = np.exp(ls.LogSupermodular(f).log_prob(X))
    centred = X - p @ X
    assert (centred.T @ (p[:, None] * centred)).min() >= -1e-9


def test_the_lfield_is_the_largest_ratio_to_its_product_law(f):
    # Djolonga and Krause 2014: max_x log p(x) / q(x) = A_L - A, q the law of the L-field marginals
    m = ls.LogSupermodular(f)
    X = enumerate_x(N).astype(float)
    bound = m.log_partition("lfield")
    point = min_norm_point(f).s
    q = -np.logaddexp(0.0, point), -np.logaddexp(0.0, -point)
    np.testing.assert_allclose(m.marginals("lfield").values.ravel(), np.exp(q[0]), atol=1e-12)
    ratio = (m.log_prob(X) - X @ q[0] - (1.0 - X) @ q[1]).max()
    scale = 1.0 + float(np.abs(f(X)).max())
    # less what it adds for a point that is known to rounding only
    tight = bound.value - bound.details["excess"]
    assert ratio == pytest.approx(tight - m.log_partition().value, abs=1e-8 * scale)


def test_at_low_temperature_only_the_minimum_is_left(f):
    least = -float(f(enumerate_x(N)).min())
    scaled = [
        T * ls.LogSupermodular(f / T).log_partition().value for T in (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
    ]
    slack = 1e-9 * (1.0 + abs(least))
    assert all(b <= a + slack for a, b in itertools.pairwise(scaled))
    assert least - slack <= scaled[-1] <= least + 1e-4 * N * np.log(2.0) + slack


def test_the_logistic_bound_holds_for_large_counts(seed):
    rng = np.random.default_rng(seed)
    g = random_concave(rng, 500)
    m = ls.LogSupermodular(ls.ConcaveCardinality(g / 50) - ls.Modular(rng.normal(size=500)))
    exact = m.log_partition("cardinality").value
    sampled = m.log_partition("logistic", n_samples=200, seed=seed)
    assert exact <= sampled.value + 5 * sampled.stderr
    assert exact <= m.log_partition("lfield").value
    assert exact >= m.log_partition("mean_field").value


@pytest.mark.parametrize(("decay", "given"), [(1.0, 2), (3.0, 5), (3.0, 20)])
def test_the_order_of_the_bounds_of_the_papers_figure(decay, given, seed):
    graph = ls.gaussian_mixture_graph(decay=decay, seed=seed)
    fixed = {d + 50 * c: 1 - c for d in range(given) for c in (0, 1)}
    m = ls.LogSupermodular(graph.cut).condition(fixed)
    value = {name: m.log_partition(name).value for name in ("lfield", "bethe", "mean_field")}
    logistic = m.log_partition("logistic", n_samples=1000, seed=seed)
    below = m.log_partition("superdifferential").value
    assert value["lfield"] > logistic.value + 1.0
    assert logistic.value >= value["bethe"] - 5 * logistic.stderr
    assert value["bethe"] >= value["mean_field"] - 1e-9
    assert value["mean_field"] >= below - 1e-6
