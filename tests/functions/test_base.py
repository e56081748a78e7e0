"""A family of one's own needs n and one method; all else follows."""

import copy
import pickle

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, enumerate_x

from logsuper import functions
from logsuper.functions import Coverage, Modular, PnPotts, RobustPn, SubmodularFunction, grid_cuts


class Wrapped(SubmodularFunction):
    """Knows nothing but how to evaluate, so that every general method is used."""

    def __init__(self, function):
        self.n = function.n
        self.function = function

    def _evaluate(self, X):
        return self.function(X)


@each("name", FAMILIES)
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


def writeable(value):
    """Where an object holds arrays, and whether each can be written to."""
    if isinstance(value, np.ndarray):
        return value.flags.writeable
    if isinstance(value, tuple):
        return [writeable(part) for part in value]
    if isinstance(value, SubmodularFunction | functions.PairwiseGraph):
        return {key: writeable(part) for key, part in vars(value).items()}
    return None


@pytest.mark.parametrize("copied", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy])
@each("name", FAMILIES)
def test_a_copy_is_as_immutable_as_the_original(name, copied):
    f = FAMILIES[name](np.random.default_rng(0), 6)
    before = writeable(f)
    assert writeable(copied(f)) == before
    f(np.ones(6))  # what is computed once is not copied, and may not be in the way
    f.gains(np.ones(6))
    again = copied(f)
    assert writeable(again) == before
    np.testing.assert_array_equal(again(enumerate_x(6)), f(enumerate_x(6)))
    if (graph := f.graph()) is not None:
        assert writeable(graph) == writeable(copied(graph))
        assert not any(filter(None, writeable(graph).values()))


def test_read_only_arrays_stay_read_only_in_a_pickle():
    f = pickle.loads(pickle.dumps(PnPotts(4, [[0, 1], [1, 2, 3]])))
    for array in (f.weights, f.group, *f.members):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_scratch_of_a_family_of_ones_own_stays_writeable():
    f = Wrapped(Modular([1.0]))
    f.scratch = np.zeros(3)
    pickle.loads(pickle.dumps(f)).scratch[0] = 1.0


@pytest.mark.parametrize("shape", [(300, 200), (1, 1), (1, 2)])
def test_a_grid_keeps_one_weight_in_a_pickle(shape):
    for cut in grid_cuts(shape, spacing=(2.0, 1.0)):
        assert len(cut.edges) == len(cut.weights)
        data = pickle.dumps(cut)
        again = pickle.loads(data)
        assert len(data) < 2000
        assert again.weights.strides == (0,)
        assert not again.weights.flags.writeable
        np.testing.assert_array_equal(again.weights, cut.weights)
        np.testing.assert_array_equal(again.edges, cut.edges)
        other = pickle.loads(pickle.dumps(cut.with_weights(np.arange(len(cut.weights)))))
        assert other.weights.tolist() == list(range(len(cut.weights)))


def test_python_sets_are_sorted_lists():
    X = enumerate_x(4)
    np.testing.assert_array_equal(
        Coverage([{2, 0}, {1}, set(), {0}])(X), Coverage([[0, 2], [1], [], [0]])(X)
    )
    assert [m.tolist() for m in PnPotts(40, [{33, 1}, [2, 0]]).members] == [[1, 33], [2, 0]]
    assert [m.tolist() for m in PnPotts(40, {33, 8, 1}).members] == [[1, 8, 33]]
    f = RobustPn(40, [{33, 8}], 2.0, [[1.0, 5.0]])
    assert (f.members[0].tolist(), f.weights[0].tolist()) == ([8, 33], [1.0, 5.0])
