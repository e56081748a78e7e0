"""A family of one's own needs n and one method; all else follows."""

import numpy as np
import pytest
from oracles import FAMILIES, enumerate_x

from logsuper import functions
from logsuper.functions import Modular, SubmodularFunction


class Wrapped(SubmodularFunction):
    """Knows nothing but how to evaluate, so that every general method is used."""

    def __init__(self, function):
        self.n = function.n
        self.function = function

    def _evaluate(self, X):
        return self.function(X)


@pytest.mark.parametrize("name", FAMILIES)
def test_general_methods_agree_with_closed_forms(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 6)
    plain = Wrapped(f)
    X, W = enumerate_x(6), rng.normal(size=(5, 6))
    tol = 1e-10 * (1 + np.abs(f(X)).max())
    np.testing.assert_allclose(plain.gains(X), f.gains(X), rtol=0, atol=tol)
    np.testing.assert_allclose(plain.greedy(W), f.greedy(W), rtol=0, atol=tol)
    np.testing.assert_allclose(plain.lovasz(W), f.lovasz(W), rtol=0, atol=10 * tol)
    (g, c), (h, d) = plain.condition({1: 1, 4: 0}), f.condition({1: 1, 4: 0})
    assert c == pytest.approx(d, abs=tol)
    np.testing.assert_allclose(g(enumerate_x(4)), h(enumerate_x(4)), rtol=0, atol=tol)


def test_a_family_of_ones_own_has_all_operations():
    f = Wrapped(Modular([1.0, -1.0, 2.0]))
    assert f.graph() is None
    assert f.terms() == ((1.0, f),)
    assert repr(f) == "Wrapped(n=3)"
    total = 2.0 * f - Modular([1.0, 0.0, 0.0])
    assert total([1, 0, 1]) == 5.0
    g, constant = total.condition({2: 1})
    assert (constant, g([1, 1])) == (4.0, -1.0)
    assert "Conditioned(Wrapped(n=3), n=2)" in repr(g)


def test_every_public_name_resolves():
    for name in functions.__all__:
        assert getattr(functions, name).__doc__
