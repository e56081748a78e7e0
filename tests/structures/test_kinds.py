"""What functions are found to be, that it is found once, and the weights of their sums."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from oracles import FAMILIES, enumerate_x, random_cut
from structures.models import add, edges_of, make_functions, reweighted

import logsuper as ls
from logsuper.solvers import kernels
from logsuper.structures import KINDS, find_structure, image_of, pairwise_of, structure_of

# The kinds of the families of 7 elements; a row of 7 pixels has no diagonals.
KIND = {
    "modular": "modular",
    "cut": "pairwise",
    "cut, wide weights": "pairwise",
    "directed cut": "pairwise",
    "grid": "grid",
    "cardinality": "counts",
    "cardinality of a subset": "counts",
    "cardinality + modular": "counts",
    "concave of modular": "opaque",
    "piecewise of modular": "graph",
    "concave of modular + modular": "opaque",
    "coverage": "graph",
    "facility location": "graph",
    "P^n Potts": "graph",
    "robust P^n, side 1": "graph",
    "robust P^n, side 0": "graph",
    "log-det": "opaque",
    "Gaussian information": "opaque",
    "callable": "opaque",
    "sum with a graph": "graph",
    "sum without a graph": "opaque",
}


@each("family", FAMILIES)
def test_every_family_has_its_kind(family: str, seed: int) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 7)
    structure = find_structure([f])
    assert structure.kind == KIND[family] and structure.kind in KINDS
    assert (structure.n, structure.count, structure.functions) == (7, 1, (f,))
    if structure.kind != "counts":  # of two elements is an edge
        assert (pairwise_of(f) is None) == (structure.kind in ("graph", "opaque"))
    assert (structure.graphs is None) == (structure.kind == "opaque")
    assert (structure.counts is None) == (structure.kind not in ("modular", "counts"))


@each("one", FAMILIES)
def test_functions_together_are_what_the_least_special_is(one: str) -> None:
    order = {kind: k for k, kind in enumerate(KINDS)}
    rng = np.random.default_rng(5)
    f = FAMILIES[one](rng, 7)
    for other in FAMILIES:
        g = FAMILIES[other](rng, 7)
        expected = max(KIND[one], KIND[other], key=order.__getitem__)
        found = find_structure([f, g]).kind
        if {KIND[one], KIND[other]} == {"counts"}:  # over sets that need not be disjoint
            assert found in ("counts", "graph")
        elif "counts" in (KIND[one], KIND[other]) and expected in ("grid", "pairwise"):
            edges = all(pairwise_of(h) is not None for h in (f, g))  # a count of two elements
            assert found == ("pairwise" if edges else "graph")
        else:
            assert found == expected
        # what holds of the functions holds of their sum
        assert find_structure([total := f + g]).kind == found and total.n == 7


def test_kinds_that_are_not_those_of_the_family() -> None:
    rng = np.random.default_rng(0)
    two = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    cases = [
        ("pairwise", ls.Coverage(two)),  # items that cover two elements are edges
        ("counts", ls.ConcaveOfModular(np.log1p, [0.0, 2.0, 2.0, 0.0])),  # equal weights count
        ("opaque", ls.ConcaveOfModular(np.log1p, [0.0, 2.0, 1.0, 0.0])),
        ("modular", ls.Cut(4, [(0, 1)]).condition({0: 1})[0]),
        ("grid", ls.Cut(6, [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)])),
        ("grid", sum(ls.grid_cuts((3, 3, 3), neighbors=26)) - ls.Modular(rng.normal(size=27))),
        ("grid", ls.grid_cuts((1, 9))[0]),
        ("grid", ls.grid_cuts((9,))[0]),
        ("graph", sum(ls.grid_cuts((2, 3))) + ls.ConcaveCardinality(np.sqrt, n=6)),
        ("opaque", sum(ls.grid_cuts((2, 3))) + ls.LogDet(np.eye(6))),
    ]
    for kind, f in cases:
        assert find_structure([f]).kind == kind, f
    counts = [ls.ConcaveCardinality(np.sqrt, n=6, subset=s) for s in ([0, 1, 2], [3, 5], [2, 4])]
    assert find_structure(counts[:2]).kind == "counts"
    assert find_structure([counts[0] + counts[1], ls.Modular(np.ones(6))]).kind == "counts"
    assert find_structure([counts[0], counts[0]]).kind == "counts"
    assert find_structure(counts).kind == "graph"
    assert find_structure([counts[0] + counts[2]]).kind == "graph"


# ------------------------------------------------------------------------------------------- kept


@each("family", FAMILIES)
def test_found_once_and_left_behind_by_copies(family: str) -> None:
    f = FAMILIES[family](np.random.default_rng(1), 7)
    found = find_structure([f])
    assert found is find_structure((f,)) is structure_of(f) is find_structure(iter([f]))
    assert found is ls.prepare([f]).structure
    # all that is found is there before copies are made
    assert (found.kind, found.grid, found.graphs, found.edges) is not None
    for other in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f), 0.5 * f, f + f):
        assert "_structure" not in vars(other)
        assert structure_of(other) is not found
        assert structure_of(other).kind == found.kind
    assert find_structure([f, f]) is not find_structure([f, f])


@pytest.mark.parametrize("make", [lambda: ls.grid_cuts((3, 4))[0], lambda: ls.Cut(4, [(0, 3)])])
def test_other_weights_have_a_structure_of_their_own(make) -> None:
    cut = make()
    before = structure_of(cut)
    assert (before.image, before.pairwise, before.kind) is not None
    size = len(cut.weights)
    for weights in (3.0, np.arange(1.0, size + 1)):
        other = cut.with_weights(weights)
        assert "_structure" not in vars(other)
        after = structure_of(other)
        assert after is not before and after.kind == before.kind
        assert np.array_equal(after.pairwise[0].weights, np.broadcast_to(weights, size))
        assert np.array_equal(after.table[0], np.broadcast_to(weights, size))
    assert np.array_equal(structure_of(cut).table[0], np.ones(size))


def test_a_conditioned_grid_is_one_after_a_pickle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = sum(ls.grid_cuts((5, 6), neighbors=8)).condition({7: 1, 12: 0})[0]
    g = pickle.loads(pickle.dumps(f))
    X = rng.integers(0, 2, (20, 28))
    assert np.array_equal(f(X), g(X))
    assert structure_of(g).kind == "grid"
    assert np.array_equal(structure_of(g).grid.pixels, structure_of(f).grid.pixels)


def test_what_was_found_does_not_hold_the_function() -> None:
    f = 2.0 * ls.Cut(5, [(0, 2), (1, 4)]) - ls.Modular(np.ones(5))
    assert structure_of(f).kind == "pairwise"
    alive = weakref.ref(f)
    del f
    gc.collect()
    assert alive() is None


# ---------------------------------------------------------------------------------------- weights


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 3), st.booleans())
def test_weights_of_sums(number: int, n: int, count: int, per_function: bool) -> None:
    rng = np.random.default_rng(number)
    functions = [
        random_cut(rng, n) + float(rng.exponential()) * random_cut(rng, n)
        - ls.Modular(rng.normal(size=n))
        for _ in range(count)
    ]  # fmt: skip
    structure = find_structure(functions)
    X = enumerate_x(n).astype(float)
    apart = lambda edges: X[:, edges[:, 0]] != X[:, edges[:, 1]]  # noqa: E731
    linear = np.array([structure.tilts[k] for k in range(count)])
    alpha = rng.exponential(size=(2, count)) * (rng.random((2, count)) < 0.8)
    values = np.array([f(X) for f in functions])

    edges, weights = structure.combine(alpha)
    assert np.array_equal(edges, structure.edges) and np.all(edges[:, 0] < edges[:, 1])
    assert len(np.unique(edges, axis=0)) == len(edges)
    found = weights @ apart(edges).T + alpha @ linear @ X.T
    assert np.allclose(found, alpha @ values, rtol=1e-12, atol=1e-12)
    assert np.allclose(structure.table @ apart(edges).T + linear @ X.T, values, atol=1e-12)

    factors = rng.exponential(size=(2, count if per_function else 1, len(edges)))
    _, weights = structure.combine(alpha, factors)
    for m in range(2):
        own = [
            reweighted(f, edges, factors[m, k if per_function else 0])
            for k, f in enumerate(functions)
        ]
        found = weights[m] @ apart(edges).T + alpha[m] @ linear @ X.T
        assert np.allclose(found, add(own, alpha[m])(X), rtol=1e-12, atol=1e-12)
    # one row of either serves all of the other
    assert structure.combine(alpha[:1], factors)[1].shape == weights.shape
    assert structure.combine(alpha, factors[:1])[1].shape == weights.shape


@given(st.integers(0, 2**32 - 1), st.integers(2, 7))
def test_normal_forms_and_lists_have_the_values(number: int, n: int) -> None:
    rng = np.random.default_rng(number)
    functions = [random_cut(rng, n) - ls.Modular(rng.normal(size=n)), random_cut(rng, n)]
    structure = find_structure(functions)
    X = enumerate_x(n).astype(float)
    pairs, lists = structure.pairs, structure.lists
    assert pairs is not None and lists is not None and lists.n_aux == 0
    assert np.array_equal(lists.edges, structure.edges)
    for k, f in enumerate(functions):
        form = pairwise_of(f)
        assert form is structure.pairwise[k]
        assert np.all(form.weights > 0)
        for edges, weights, t in (
            (form.edges, form.weights, form.t),
            (pairs.edges, pairs.weights[k], pairs.tilt[k]),
        ):
            apart = X[:, edges[:, 0]] != X[:, edges[:, 1]]
            assert np.allclose(apart @ weights - X @ t, f(X), atol=1e-12)
        assert np.allclose(form.as_function()(X), f(X), atol=1e-12)
        mine = slice(lists.starts[k], lists.starts[k + 1])
        apart = X[:, lists.edges[:, 0]] != X[:, lists.edges[:, 1]]
        cut = apart[:, lists.places[mine]] @ lists.weights[mine]
        assert np.allclose(cut - X @ form.t, f(X), atol=1e-12)
    assert pairs.place is not None
    assert np.array_equal(structure.edges[pairs.place], pairs.edges)


def test_other_terms_that_are_edges_make_an_image(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = edges_of((3, 4))
    covers = np.zeros((12, len(edges)), dtype=bool)
    covers[edges.T, np.arange(len(edges))] = True
    f = ls.Coverage(covers, rng.exponential(size=len(edges))) - ls.Modular(rng.normal(size=12))
    assert structure_of(f).kind == "pairwise" and structure_of(f).grid is None
    image = image_of(f)
    assert image is not None and image.shape == (3, 4)
    X = enumerate_x(12).reshape(-1, 3, 4).astype(float)
    found = np.abs(np.diff(X, axis=2)) * image.across, np.abs(np.diff(X, axis=1)) * image.down
    total = found[0].sum((1, 2)) + found[1].sum((1, 2)) - (X * image.t).sum((1, 2))
    assert np.allclose(total, f(X.reshape(-1, 12)), atol=1e-12)


def test_the_solver_follows_from_the_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    solvers = {"modular": "sorting", "grid": "grid", "pairwise": "graph", "graph": "graph"}
    for family, make in FAMILIES.items():
        f = make(rng, 7)
        kind = structure_of(f).kind
        if kind in solvers:
            expected = "graph" if kind == "grid" and kernels() is None else solvers[kind]
            if family != "piecewise of modular":  # one concave term, which sorting solves
                assert ls.prepare([f]).solver == expected, family
    functions = make_functions(rng, (3, 4), 4, "sum")
    assert ls.prepare(functions).solver == ("graph" if kernels() is None else "grid")


def test_several_functions_that_nobody_else_holds() -> None:
    def made() -> list[ls.SubmodularFunction]:
        return [ls.Cut(3, [(0, 1)]) - ls.Modular([1.0, 0.0, 0.0]), ls.Cut(3, [(1, 2)])]

    structure = find_structure(made())
    assert len(structure.functions) == 2 and len(structure.pairwise) == 2
