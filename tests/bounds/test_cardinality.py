"""The recursion over counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import brute_log_partition, check_bracket, random_concave, random_subset

from logsuper.bounds import NotApplicable, TooLarge, _cardinality, _enumeration
from logsuper.functions import ConcaveCardinality, ConcaveOfModular, Cut, Modular


def check(f, tolerance=1e-11):
    exact = brute_log_partition(f)
    found = _cardinality.log_partition(f)
    assert found.value == pytest.approx(exact, rel=tolerance, abs=tolerance)
    assert (found.target, found.method, found.certified) == ("exact", "cardinality", True)
    marginals = _cardinality.marginals(f)
    np.testing.assert_allclose(marginals, _enumeration.marginals(f), atol=tolerance)
    check_bracket(marginals, _enumeration.marginals(f).values, 1e-6)


@given(st.integers(1, 10), st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 30.0]))
def test_equals_enumeration(n, seed, scale):
    rng = np.random.default_rng(seed)
    subset = random_subset(rng, n)
    g = scale * random_concave(rng, len(subset))
    f = ConcaveCardinality(g, n=n, subset=subset) - Modular(scale * rng.normal(size=n))
    check(f)


def test_several_terms_on_one_subset(seed):
    rng = np.random.default_rng(seed)
    first, second = (ConcaveCardinality(random_concave(rng, 4), 7, [6, 1, 4, 2]) for _ in "ab")
    check(0.5 * first + 2.0 * second + Modular(rng.normal(size=7)))


def test_disjoint_subsets(seed):
    rng = np.random.default_rng(seed)
    f = ConcaveCardinality(random_concave(rng, 3), 8, [0, 5, 2])
    g = ConcaveCardinality(random_concave(rng, 4), 8, [1, 3, 7, 6])
    check(f + g + Modular(rng.normal(size=8)))


def test_equal_weights_count(seed):
    rng = np.random.default_rng(seed)
    f = 3.0 * ConcaveOfModular(np.sqrt, [0.7, 0.0, 0.7, 0.7, 0.0]) + Modular(rng.normal(size=5))
    check(f)
    conditioned, _ = f.condition({2: 1})
    check(conditioned)
    check(ConcaveOfModular(np.sqrt, [0.0, 0.0]) + Modular(rng.normal(size=2)))


def test_modular_functions_count_nothing():
    t = np.array([1.0, -2.0, 300.0, -300.0])
    assert _cardinality.log_partition(Modular(t)).value == np.logaddexp(0, -t).sum()


def test_extreme_numbers():
    n = 9
    k = np.arange(n + 1.0)
    f = ConcaveCardinality(1e3 * k * (n - k)) - Modular(1e3 * np.linspace(-1, 1, n))
    check(f)
    with pytest.raises(ValueError, match="overflow"):
        _cardinality.log_partition(-Modular([1e308, 1e308]))
    assert _cardinality.log_partition(Modular([1e308, 1e308])).value == pytest.approx(0.0)


def test_large_sets_obey_the_symmetry_and_the_average():
    # g(k) = g(n - k), no field: marginals 1/2; and A = log sum_k C(n, k) e^-g(k)
    from scipy.special import gammaln, logsumexp

    n = 2000
    k = np.arange(n + 1.0)
    f = ConcaveCardinality(k * (n - k) / n)
    binomials = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    assert _cardinality.log_partition(f).value == pytest.approx(
        logsumexp(binomials - f.g), rel=1e-12
    )
    np.testing.assert_allclose(_cardinality.marginals(f), 0.5, atol=1e-10)


def test_marginals_are_derivatives(seed):
    rng = np.random.default_rng(seed)
    n = 60
    f = ConcaveCardinality(np.sqrt, n=n) - Modular(rng.normal(size=n))
    mean = _cardinality.marginals(f).values
    for d in (0, 7, 59):
        bump = np.zeros(n)
        bump[d] = 1e-5
        up, down = (_cardinality.log_partition(f - Modular(s * bump)).value for s in (1, -1))
        assert (up - down) / 2e-5 == pytest.approx(mean[d], abs=1e-8)


def test_additive_over_conditioning(seed):
    rng = np.random.default_rng(seed)
    f = ConcaveCardinality(random_concave(rng, 300)) - Modular(rng.normal(size=300))
    parts = []
    for value in (0, 1):
        g, constant = f.condition({17: value})
        parts.append(_cardinality.log_partition(g).value - constant)
    assert np.logaddexp(*parts) == pytest.approx(_cardinality.log_partition(f).value, rel=1e-12)


def test_refusals():
    overlapping = ConcaveCardinality(np.sqrt, 4, [0, 1]) + ConcaveCardinality(np.sqrt, 4, [1, 2])
    for f in (Cut(2, [(0, 1)]), overlapping, ConcaveOfModular(np.sqrt, [1.0, 2.0])):
        with pytest.raises(NotApplicable, match=r"cardinality needs .* got"):
            _cardinality.marginals(f)
        assert _cardinality.operations(f) == np.inf
    with pytest.raises(TooLarge, match="budget=") as caught:
        _cardinality.log_partition(ConcaveCardinality(np.sqrt, n=100), budget=1e3)
    assert caught.value.operations > 1e4
