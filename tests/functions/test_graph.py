"""Pairwise graphs: how they are built and how many auxiliary nodes they take."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumerate_x

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    FacilityLocation,
    Modular,
    PairwiseGraph,
    PnPotts,
    RobustPn,
)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 4), n_aux=st.integers(0, 4))
def test_arcs_cost_when_the_tail_is_on_and_the_head_off(seed, n, n_aux):
    rng = np.random.default_rng(seed)
    size = n + n_aux
    tails, heads = rng.integers(0, size, (2, 12))
    tails, heads = tails[tails != heads], heads[tails != heads]
    costs = rng.exponential(size=len(tails)) * (rng.random(len(tails)) < 0.8)
    unary = rng.normal(size=size)
    graph = PairwiseGraph.from_arcs(n, n_aux, tails, heads, costs, unary, 0.5)
    V = enumerate_x(size).astype(float)
    cost = 0.5 + V @ unary + (V[:, tails] * (1 - V[:, heads])) @ costs
    expected = cost.reshape(2**n_aux, 2**n).min(axis=0)  # the first n bits are the real ones
    np.testing.assert_allclose(graph.value(enumerate_x(n)), expected, atol=1e-12)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert len(np.unique(graph.edges, axis=0)) == len(graph.edges)


@pytest.mark.parametrize(
    ("f", "n_aux"),
    [
        (Modular(np.ones(4)), 0),
        (Cut(4, [(0, 1)]), 0),
        (PnPotts(6, [[0, 1], [1, 2, 3]]), 0),
        (PnPotts(6, [[0, 1, 2, 3], [5]]), 2),
        (RobustPn(6, [0, 1, 2, 3], 2.0), 1),
        (RobustPn(6, [0, 1, 2, 3], 4.0), 0),  # never truncated
        (RobustPn(6, [0, 1], 1.5), 0),
        (RobustPn(6, [0, 1, 2, 3], 0.0), 0),
        (ConcaveCardinality([0.0, 1.0, 2.0, 3.0, 4.0]), 0),
        (ConcaveCardinality([0.0, 1.0, 2.0, 2.0, 2.0]), 1),
        (ConcaveCardinality(np.sqrt(np.arange(9))), 7),
        (ConcaveOfModular(([0.0, 2.0, 9.0], [0.0, 2.0, 2.0]), [1.0, 2.0, 3.0]), 1),
        (Coverage([[0, 1], [1], [1], []]), 1),
        (FacilityLocation([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 5.0]]), 3),
    ],
    ids=repr,
)
def test_auxiliary_nodes_are_few(f, n_aux):
    graph = f.graph()
    assert graph.n_aux == n_aux
    X = enumerate_x(f.n)
    np.testing.assert_allclose(graph.value(X), f(X), atol=1e-12)


def test_facility_location_is_linear_in_size():
    benefits = np.random.default_rng(0).random((10, 50))
    graph = FacilityLocation(benefits).graph()
    assert graph.n_aux <= benefits.size
    assert len(graph.edges) <= 2 * benefits.size


def test_graphs_add_up_with_weights():
    f, g = PnPotts(5, [0, 1, 2, 3]), Coverage([[0], [0], [0], [1], [1]])
    total = PairwiseGraph.combine(5, [(2.0, f.graph()), (0.5, g.graph()), (0.0, f.graph())])
    X = enumerate_x(5)
    np.testing.assert_allclose(total.value(X), 2.0 * f(X) + 0.5 * g(X), atol=1e-12)
    assert PairwiseGraph.combine(3, []).value(enumerate_x(3)).tolist() == [0.0] * 8


def test_enumeration_knows_its_limit():
    n = 18
    graph = PairwiseGraph.from_arcs(1, n, np.arange(1, n), np.arange(2, n + 1), np.ones(n - 1))
    with pytest.raises(ValueError, match="cannot enumerate 18"):
        graph.value([[1]])


def test_rounding_in_a_table_makes_no_auxiliary_nodes():
    n = 400
    k = np.arange(n + 1)
    tables = {  # bends at 200; at 200 and 250
        1: np.minimum(k / n, 0.5),
        2: np.minimum(np.minimum(k / 3, 100 / 3 + k / 6), 75.0),
    }
    rng = np.random.default_rng(0)
    X = rng.random((20, n)) < rng.random((20, 1))
    for bends, table in tables.items():
        f = ConcaveCardinality(table)
        graph = f.graph()
        assert graph.n_aux == bends
        np.testing.assert_allclose(graph.value(X), f(X), rtol=1e-13, atol=1e-13)
