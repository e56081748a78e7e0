"""The tree-reweighted bound: valid for any messages, tight when they converge."""

import networkx as nx
import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition, random_cut
from variational_oracles import PAIRWISE, exact_marginals, random_tree

from logsuper import Cut, LogDet, Modular, grid_cuts
from logsuper.bounds import NotApplicable, _bethe, _lfield, _messages, _trw
from logsuper.bounds._messages import FreeEnergy, Messages
from logsuper.bounds._trw import (
    best_forest,
    dual,
    edge_probabilities,
    log_partition,
    marginals,
    trees_operations,
)
from logsuper.structures import pairwise_of


@pytest.mark.parametrize("name", PAIRWISE)
def test_lies_between_log_z_and_the_lfield(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 9)
    bound = log_partition(f)
    truth = brute_log_partition(f)
    assert bound.target == "upper"
    assert bound.certified
    assert truth <= bound.value  # with no tolerance at all
    assert bound.value <= _lfield.log_partition(f).value + 1e-8 * (1 + abs(truth))
    assert _bethe.log_partition(f).value <= bound.value
    assert bound.details["slack"] <= 1e-6 * (1 + abs(truth))


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("scale", [1e-3, 0.3, 2.0, 20.0])
def test_any_messages_give_a_bound(name, scale, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 8)
    truth = brute_log_partition(f)
    model = pairwise_of(f)
    messages = Messages(model, edge_probabilities(8, model.edges, model.weights))
    fixed, _ = messages.solve(np.zeros(len(messages.rho)))
    for centre in (np.zeros_like(fixed), fixed):
        for _ in range(10):
            value, slack = dual(messages, centre + scale * rng.normal(size=len(fixed)))
            assert slack >= 0
            assert value + slack >= truth - 1e-9 * (1 + abs(truth))


def test_the_slack_is_needed_and_vanishes(seed):
    # without it the value can fall below log Z: the test above would notice its loss
    rng = np.random.default_rng(seed)
    below = False
    for _ in range(20):
        f = random_cut(rng, 7) - Modular(rng.normal(size=7))
        model = pairwise_of(f)
        messages = Messages(model, edge_probabilities(7, model.edges, model.weights))
        u = 2 * rng.normal(size=len(messages.rho))
        below |= dual(messages, u)[0] < brute_log_partition(f)
        u, _ = messages.solve(u)
        assert dual(messages, u)[1] <= 1e-7
    assert below


def test_the_dual_meets_the_primal(seed):
    rng = np.random.default_rng(seed)
    f = random_cut(rng, 9) - Modular(rng.normal(size=9))
    model = pairwise_of(f)
    rho = edge_probabilities(9, model.edges, model.weights)
    energy = FreeEnergy(model, rho)
    q = marginals(f, max_iter=0).values
    best, gradient = energy(np.log(q) - np.log1p(-q))
    assert np.abs(gradient).max() <= 1e-6
    assert log_partition(f, max_iter=0).value == pytest.approx(best, abs=1e-7)
    others = [energy(rng.normal(size=9) * 2)[0] for _ in range(20)]
    assert max(others) <= best + 1e-9  # concave: the stationary point is the maximum


@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0, 1000.0])
def test_trees_are_exact(strength, seed):
    f = random_tree(np.random.default_rng(seed), 11, strength)
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-8)
    np.testing.assert_allclose(marginals(f), exact_marginals(f), atol=1e-8)


@pytest.mark.parametrize("weight", [1e-9, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("field", [0.0, 1.0, 1e3])
def test_extreme_numbers_stay_finite_and_valid(weight, field, seed):
    rng = np.random.default_rng(seed)
    across, down = grid_cuts((3, 3))
    f = weight * across + weight * down - Modular(field * rng.normal(size=9))
    bound, truth = log_partition(f), brute_log_partition(f)
    assert truth <= bound.value <= _lfield.log_partition(f).value + 1e-6
    if weight == 1e3 and field <= 1.0:  # one block: nothing is lost
        assert bound.value == pytest.approx(truth, abs=1e-6)


def test_the_lfield_takes_over_where_messages_do_not_converge(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    f = 5.0 * random_cut(rng, 9) - Modular(rng.normal(size=9))

    def no_sweeps(self, u, sweeps=0):
        return 3.0 * rng.normal(size=len(u)), np.inf

    monkeypatch.setattr(_messages.Messages, "solve", no_sweeps)
    bound = log_partition(f)
    assert bound.value <= _lfield.log_partition(f).value
    assert bound.value >= brute_log_partition(f)
    assert bound.solves > 0


def test_marginals_are_the_gradient_in_a_field(seed):
    rng = np.random.default_rng(seed)
    f = random_cut(rng, 8) - Modular(rng.normal(size=8))
    h = 1e-4
    up, down = (
        np.array([log_partition(f - Modular(step * e), max_iter=0).value for e in np.eye(8)])
        for step in (h, -h)
    )
    np.testing.assert_allclose((up - down) / (2 * h), marginals(f, max_iter=0), atol=1e-5)


def test_better_forests_tighten_the_bound(seed):
    rng = np.random.default_rng(seed)
    across, down = grid_cuts((6, 6))
    f = 1.5 * across + 1.5 * down - Modular(rng.normal(size=36))
    values = [log_partition(f, max_iter=steps).value for steps in (0, 5, 30)]
    assert values[0] - 0.05 > values[1] > values[2]
    assert values[2] >= _bethe.log_partition(f).value
    with pytest.raises(ValueError, match="max_iter must be at least 0"):
        log_partition(f, max_iter=-1)


def test_the_best_forest_is_the_heaviest(seed):
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, 8)
    gains = rng.normal(size=len(edges))
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        (i, j, g) for (i, j), g in zip(edges.tolist(), gains, strict=True)
    )
    heaviest = nx.maximum_spanning_tree(graph).size(weight="weight")
    assert best_forest(8, edges, gains) @ gains == pytest.approx(heaviest)


def test_complement_permutation_and_components(seed):
    rng = np.random.default_rng(seed)
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 4)])
    w, t = 1.5 * rng.exponential(size=6), rng.normal(size=5)
    f = Cut(5, edges, w) - Modular(t)
    value = log_partition(f).value
    assert log_partition(Cut(5, edges, w) + Modular(t)).value == pytest.approx(value - t.sum())
    order = rng.permutation(5)
    g = Cut(5, order[edges], w) - Modular(t[np.argsort(order)])
    assert log_partition(g).value == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(marginals(f), marginals(g)[order], atol=1e-8)
    both = Cut(10, np.vstack([edges, edges + 5]), np.tile(w, 2)) - Modular(np.tile(t, 2))
    assert log_partition(both).value == pytest.approx(2 * value, abs=1e-8)


# ------------------------------------------------------------------------------------ forests


def random_edges(rng, n, p=0.4):
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    return pairs[rng.random(len(pairs)) < p]


def in_forest_polytope(n, edges, rho):
    """Whether no set S of nodes holds more than |S| - 1 of the probability (Edmonds)."""
    inside = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    held = (inside[:, edges[:, 0]] & inside[:, edges[:, 1]]) @ rho
    return bool((held <= np.maximum(inside.sum(axis=1) - 1, 0) + 1e-12).all())


@pytest.mark.parametrize("spread", [0, 8])
def test_probabilities_belong_to_spanning_forests(spread, seed):
    rng = np.random.default_rng(seed)
    for n in (2, 5, 9):
        edges = random_edges(rng, n)
        rho = edge_probabilities(n, edges, 10.0 ** (spread * rng.normal(size=len(edges))))
        assert len(rho) == len(edges)
        assert (rho > 0).all()
        assert (rho <= 1).all()
        graph = nx.Graph(edges.tolist())
        graph.add_nodes_from(range(n))
        components = nx.number_connected_components(graph)
        assert rho.sum() == pytest.approx(n - components, abs=1e-12)
        assert in_forest_polytope(n, edges, rho)
        bridges = {tuple(sorted(e)) for e in nx.bridges(graph)}
        assert bridges <= {tuple(e) for e in edges[rho == 1].tolist()}


def test_probabilities_follow_the_weights():
    # a triangle has two edges in every tree: shares 2 w / sum w where that is possible
    edges = np.array([(0, 1), (0, 2), (1, 2)])
    np.testing.assert_allclose(edge_probabilities(3, edges, np.ones(3)), 2 / 3, atol=0.02)
    found = edge_probabilities(3, edges, np.array([2.0, 3.0, 3.0]))
    np.testing.assert_allclose(found, [0.5, 0.75, 0.75], atol=0.02)
    assert edge_probabilities(3, edges, np.array([9.0, 1.0, 1.0]))[0] > 0.98


def test_large_grids_are_covered_evenly():
    model = pairwise_of(sum(grid_cuts((40, 40))))
    rho = edge_probabilities(1600, model.edges, model.weights)
    assert rho.sum() == pytest.approx(1599, abs=1e-6)
    assert rho.min() > 0.4
    assert rho.max() < 0.7


def test_grids_of_the_known_partition_function():
    # 50 x 50 without fields, by the Kac-Ward determinant
    across, down = grid_cuts((50, 50))
    for weight, truth, above in [(0.5, 669.236, 798), (0.88, 148.372, 412), (1.5, 10.279, 131)]:
        assert truth <= log_partition(weight * across + weight * down).value <= above


def test_refuses_other_functions_by_name():
    f = LogDet([[1.0, 0.2], [0.2, 1.0]])
    for method in (log_partition, marginals):
        with pytest.raises(NotApplicable, match=r"trw needs a pairwise function, got LogDet"):
            method(f)
    assert _trw.log_partition(Modular([0.0, 1.0])).value == pytest.approx(
        brute_log_partition(Modular([0.0, 1.0]))
    )


def test_edges_in_any_order(seed):
    rng = np.random.default_rng(seed)
    f = random_cut(rng, 8) - Modular(rng.normal(size=8))
    order = rng.permutation(len(f.terms()[0][1].weights))
    cut = f.terms()[0][1]
    shuffled = Cut(8, cut.edges[order], cut.weights[order]) + f.terms()[1][1]
    assert log_partition(shuffled).value == pytest.approx(log_partition(f).value, abs=0.2)
    # a cut alone, whose normal form keeps the order of its edges
    assert log_partition(Cut(8, cut.edges[order], cut.weights[order])).certified


def test_a_graph_without_edges_costs_something_too():
    assert trees_operations(5, 0) > 0
