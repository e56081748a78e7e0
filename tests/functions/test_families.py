"""Every operation of every family, against enumeration."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FAMILIES, GRAPH_FAMILIES, brute_base_polytope_gap, enumerate_x

from logsuper.functions import SubmodularFunction, check_submodular

pytestmark = pytest.mark.parametrize("name", FAMILIES)

seeds = st.integers(0, 2**32 - 1)


def build(name: str, seed: int, n: int) -> tuple[SubmodularFunction, np.random.Generator, float]:
    """Return a random function, the generator it came from, and the error it may make."""
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, n)
    return f, rng, 1e-11 * (1.0 + float(np.abs(f(enumerate_x(n))).max()))


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 10))
def test_is_normalised_and_submodular(name, seed, n):
    f, _, tol = build(name, seed, n)
    assert f.n == n
    assert abs(f(np.zeros(n))) <= tol
    report = check_submodular(f)
    assert report.exhaustive
    assert report, report


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 10))
def test_batches_shapes_and_dtypes_agree(name, seed, n):
    f, rng, tol = build(name, seed, n)
    X = rng.integers(0, 2, (2, 3, n))
    values = f(X)
    assert values.shape == (2, 3)
    for dtype in (bool, np.uint8, np.float32, float):
        np.testing.assert_array_equal(f(X.astype(dtype)), values)
    one = f(X[1, 2])
    assert isinstance(one, float)
    assert one == pytest.approx(values[1, 2], abs=tol)
    assert f(np.empty((0, n))).shape == (0,)
    assert f.gains(X).shape == f.greedy(X).shape == (2, 3, n)
    assert f.lovasz(X).shape == (2, 3)
    assert isinstance(f.lovasz(X[0, 0]), float)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 10))
def test_gains_are_differences_of_values(name, seed, n):
    f, _, tol = build(name, seed, n)
    X = enumerate_x(n)
    gains = f.gains(X)
    for d in range(n):
        on, off = X.copy(), X.copy()
        on[:, d], off[:, d] = 1, 0
        np.testing.assert_allclose(gains[:, d], f(on) - f(off), rtol=0, atol=10 * tol)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 10), ties=st.booleans())
def test_greedy_is_the_best_vertex_of_the_base_polytope(name, seed, n, ties):
    f, rng, tol = build(name, seed, n)
    W = rng.normal(size=(4, n))
    W = np.rint(W) if ties else W
    vertices = f.greedy(W)
    for w, s in zip(W, vertices, strict=True):
        excess, total = brute_base_polytope_gap(f, s)
        assert excess <= 10 * tol
        assert total <= 10 * tol
        # the vertex of the stable order, which is the best by Edmonds' theorem
        x, expected = np.zeros(n), np.zeros(n)
        for d in np.argsort(-w, kind="stable"):
            before = f(x)
            x[d] = 1
            expected[d] = f(x) - before
        np.testing.assert_allclose(s, expected, rtol=0, atol=10 * tol)
    assert np.all(vertices[:, None] @ W[0] <= vertices[0] @ W[0] + 100 * tol)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 10))
def test_lovasz_is_the_integral_over_level_sets(name, seed, n):
    f, rng, tol = build(name, seed, n)
    X = enumerate_x(n)
    np.testing.assert_allclose(f.lovasz(X), f(X), rtol=0, atol=10 * tol)
    w = rng.random(n)
    levels = np.concatenate([[0.0], np.sort(w)])
    integral = sum((high - low) * f(w >= high) for low, high in itertools.pairwise(levels))
    assert f.lovasz(w) == pytest.approx(integral, abs=10 * tol)
    # adding a constant adds that much of f(1)
    assert f.lovasz(w - 3.0) == pytest.approx(integral - 3.0 * f(np.ones(n)), abs=100 * tol)


@settings(max_examples=25)
@given(seed=seeds, n=st.integers(1, 7), data=st.data())
def test_conditioning_keeps_values_and_constant(name, seed, n, data):
    f, _, tol = build(name, seed, n)
    fixed = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(0, 1)))
    g, constant = f.condition(fixed)
    free = [d for d in range(n) if d not in fixed]
    X = enumerate_x(len(free))
    full = np.zeros((len(X), n))
    full[:, list(fixed)] = list(fixed.values())
    full[:, free] = X
    assert g.n == len(free)
    assert abs(g(np.zeros(g.n))) <= 10 * tol
    np.testing.assert_allclose(g(X) + constant, f(full), rtol=0, atol=10 * tol)
    np.testing.assert_allclose(g.gains(X), f.gains(full)[:, free], rtol=0, atol=10 * tol)
    w = np.linspace(1.0, -1.0, g.n)
    assert g.lovasz(w) == pytest.approx(float(g.greedy(w) @ w), abs=100 * tol)
    if name in GRAPH_FAMILIES:
        np.testing.assert_allclose(g.graph().value(X), g(X), rtol=0, atol=10 * tol)
    # in two steps the same
    first = dict(list(fixed.items())[:1])
    h, start = f.condition(first)
    left = [d for d in range(n) if d not in first]
    h, more = h.condition({left.index(d): v for d, v in fixed.items() if d not in first})
    assert start + more == pytest.approx(constant, abs=10 * tol)
    np.testing.assert_allclose(h(X), g(X), rtol=0, atol=10 * tol)


@settings(max_examples=15)
@given(seed=seeds, n=st.integers(1, 9))
def test_graph_equals_the_function_everywhere(name, seed, n):
    f, _, tol = build(name, seed, n)
    graph = f.graph()
    assert (graph is not None) == (name in GRAPH_FAMILIES)
    if graph is None:
        return
    X = enumerate_x(n)
    np.testing.assert_allclose(graph.value(X), f(X), rtol=0, atol=10 * tol)
    assert graph.n == n
    assert graph.edges.shape == (len(graph.weights), 2)
    assert graph.edges.dtype == np.int64
    assert graph.unary.shape == (n + graph.n_aux,)
    assert (graph.weights > 0).all()
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert (graph.edges < n + graph.n_aux).all()
    assert len(np.unique(graph.edges, axis=0)) == len(graph.edges)


def test_pickles_and_prints(name, seed):
    f, _, _ = build(name, seed, 5)
    again = pickle.loads(pickle.dumps(f))
    X = enumerate_x(5)
    f.gains(X)  # a cache that was filled must not change what is pickled
    warm = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(X), f(X))
    np.testing.assert_array_equal(warm(X), f(X))
    np.testing.assert_array_equal(warm.gains(X), f.gains(X))
    assert repr(again) == repr(f)
    assert "n=5" in repr(f)
    assert len(repr(f)) < 400


def test_terms_add_up_to_the_function(name, seed):
    f, _, tol = build(name, seed, 6)
    X = enumerate_x(6)
    assert all(weight > 0 and len(atom.terms()) == 1 for weight, atom in f.terms())
    total = sum(weight * atom(X) for weight, atom in f.terms())
    np.testing.assert_allclose(total, f(X), rtol=0, atol=tol)


def test_everything_conditioned_is_a_function_of_nothing(name, seed):
    f, rng, tol = build(name, seed, 4)
    a = rng.integers(0, 2, 4)
    g, constant = f.condition(dict(enumerate(a.tolist())))
    assert g.n == 0
    assert constant == pytest.approx(f(a), abs=tol)
    assert g([]) == 0.0
    assert g(np.empty((3, 0))).tolist() == [0.0, 0.0, 0.0]
    assert g.gains(np.empty((3, 0))).shape == (3, 0)
    assert g.greedy([]).shape == (0,)
    assert g.lovasz([]) == 0.0
    assert g.condition({}) == (g, 0.0)
    assert check_submodular(g)
    if name in GRAPH_FAMILIES:
        assert g.graph().value(np.empty((1, 0))) == pytest.approx(0.0, abs=tol)


def test_large_batches_are_split_without_a_trace(name, seed):
    f, rng, tol = build(name, seed, 6)
    X = rng.integers(0, 2, (40_000, 6), dtype=np.uint8)
    table = f(enumerate_x(6))
    np.testing.assert_allclose(f(X), table[X @ (2 ** np.arange(6))], rtol=0, atol=tol)
