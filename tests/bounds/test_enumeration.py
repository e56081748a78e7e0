"""Enumeration against a direct sum, and its refusals."""

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition, check_bracket, enumerate_x

from logsuper.bounds import TooLarge, _enumeration
from logsuper.functions import ConcaveCardinality, Cut, Modular, SubmodularFunction


def brute_marginals(f):
    X = enumerate_x(f.n)
    return np.exp(-f(X) - brute_log_partition(f)) @ X


@each("name", FAMILIES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_equals_the_direct_sum(name, n, seed):
    f = FAMILIES[name](np.random.default_rng(seed), n)
    found = _enumeration.log_partition(f)
    assert found.value == pytest.approx(brute_log_partition(f), rel=1e-12, abs=1e-12)
    assert (found.target, found.method, found.certified) == ("exact", "enumeration", True)
    marginals = _enumeration.marginals(f)
    np.testing.assert_allclose(marginals.values, brute_marginals(f), atol=1e-12)
    check_bracket(marginals, brute_marginals(f), 1e-6)


def test_more_states_than_a_block(seed):
    rng = np.random.default_rng(seed)
    t = rng.normal(size=15) * 3
    assert _enumeration.log_partition(Modular(t)).value == pytest.approx(
        np.logaddexp(0, -t).sum(), rel=1e-12
    )
    np.testing.assert_allclose(_enumeration.marginals(Modular(t)), 1 / (1 + np.exp(t)), atol=1e-12)


def test_huge_numbers():
    # the states with f = -1e6 come in the last block: what was summed before fades
    t = np.full(14, -1e6 / 14)
    assert _enumeration.log_partition(Modular(t)).value == pytest.approx(1e6, rel=1e-14)
    assert _enumeration.log_partition(Modular(-t)).value == pytest.approx(0.0, abs=1e-12)


def test_rounding_takes_no_marginal_past_one():
    for seed in range(200):  # a dozen of these would be 1 + 2.2e-16
        t = np.random.default_rng(seed).normal(size=6)
        t[0] = -50.0
        assert _enumeration.marginals(Modular(t)).values.max() <= 1.0


def test_refuses_what_is_too_large():
    f = ConcaveCardinality(np.sqrt, n=23)
    with pytest.raises(TooLarge, match=r"2\^23 states.*limit=") as caught:
        _enumeration.log_partition(f)
    assert caught.value.operations > 2**23
    assert _enumeration.operations(f) == np.inf
    with pytest.raises(TooLarge, match=r"2\^5000 states, some inf operations"):
        _enumeration.log_partition(Modular(np.zeros(5000)))
    with pytest.raises(TooLarge, match="limit"):
        _enumeration.marginals(Cut(4, [(0, 1)]), limit=3)
    with pytest.raises(TypeError, match="limit must be an integer"):
        _enumeration.log_partition(Cut(4, [(0, 1)]), limit=3.5)


class Broken(SubmodularFunction):
    """A family whose author forgot a case."""

    n = 3

    def _evaluate(self, X):
        return np.where(X.sum(axis=1) == 2, np.nan, 0.0)


def test_refuses_a_function_that_is_not_finite():
    with pytest.raises(ValueError, match=r"Broken\(n=3\) is nan at x = \[1, 1, 0\]"):
        _enumeration.log_partition(Broken())
