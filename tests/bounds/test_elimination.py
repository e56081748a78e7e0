"""Elimination against enumeration, closed forms and itself along other orders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FAMILIES, brute_log_partition, check_bracket, enumerate_x, random_cut

from logsuper.bounds import NotApplicable, TooLarge, _elimination, _junction, _methods
from logsuper.functions import Coverage, Cut, LogDet, Modular, PnPotts, grid_cuts
from logsuper.structures import Pairwise, pairwise_of

PAIRWISE = ["modular", "cut", "cut, wide weights", "directed cut", "grid"]


def brute(f):
    """Return log Z, the marginals, and P(x_i != x_j) for the edges of the normal form."""
    X = enumerate_x(f.n).astype(float)
    log_z = brute_log_partition(f)
    p = np.exp(-f(X) - log_z)
    i, j = pairwise_of(f).edges.T
    return log_z, p @ X, p @ np.abs(X[:, i] - X[:, j])


def check(f, tolerance=1e-11):
    log_z, mean, apart = brute(f)
    found = _elimination.log_partition(f)
    assert found.value == pytest.approx(log_z, rel=1e-12, abs=tolerance)
    assert (found.target, found.method, found.certified) == ("exact", "elimination", True)
    marginals = _elimination.marginals(f)
    np.testing.assert_allclose(marginals, mean, atol=tolerance)
    check_bracket(marginals, mean, 1e-6)
    again, edges, differ = _elimination.pair_marginals(f)
    np.testing.assert_array_equal(again, marginals)
    np.testing.assert_array_equal(edges, pairwise_of(f).edges)
    np.testing.assert_allclose(differ, apart, atol=tolerance)


@pytest.fixture
def without_closed_forms(monkeypatch):
    """Send every element through the tables."""
    monkeypatch.setattr(_elimination, "_LEAST", 2.0)
    _elimination._plan.cache_clear()
    yield
    _elimination._plan.cache_clear()


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_equals_enumeration(name, n, seed):
    # numbers as large as 1e5 leave only so many digits
    check(FAMILIES[name](np.random.default_rng(seed), n), 1e-9 if "wide" in name else 1e-11)


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.usefixtures("without_closed_forms")
def test_tables_alone_equal_enumeration(name, n, seed):
    check(FAMILIES[name](np.random.default_rng(seed), n), 1e-9 if "wide" in name else 1e-11)


@given(st.integers(2, 10), st.integers(0, 10**6), st.floats(0.1, 0.9))
def test_sparse_graphs_mix_closed_forms_and_tables(n, seed, density):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < density]
    check(Cut(n, pairs, rng.exponential(size=len(pairs))) - Modular(rng.normal(size=n)))


@given(st.integers(2, 9), st.integers(0, 10**6))
def test_closed_forms_take_edges_in_any_order(n, seed):
    rng = np.random.default_rng(seed)
    pairs = np.array([(rng.integers(i), i) for i in range(1, n)])
    edges = rng.permutation(np.sort(rng.permutation(n)[pairs]))
    weights, t = rng.exponential(size=n - 1), rng.normal(size=n)
    rounds, left, _ = _elimination.plan_rounds(n, edges)
    assert left == 0
    core, constant, steps = _elimination.collapse(Pairwise(n, edges, weights, t), rounds)
    mean, joint = _elimination.expand(steps, core.t, np.empty((0, 2, 2)))
    X = enumerate_x(n)
    f = Cut(n, edges, weights) - Modular(t)
    assert constant == pytest.approx(brute_log_partition(f), rel=1e-12)
    p = np.exp(-f(X) - constant)
    np.testing.assert_allclose(mean, p @ X, atol=1e-12)
    for table, (i, j) in zip(joint, edges, strict=True):
        expected = np.zeros((2, 2))
        np.add.at(expected, (X[:, i], X[:, j]), p)
        np.testing.assert_allclose(table, expected, atol=1e-12)


def test_functions_that_are_pairwise_in_disguise(seed):
    rng = np.random.default_rng(seed)
    f = PnPotts(5, [[0, 1], [3, 4]], [1.0, 2.0]) + Coverage([[0], [0, 1], [], [1], []], [0.7, 0.2])
    check(f - Modular(rng.normal(size=5)))


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (3, 4), (2, 2, 3)])
def test_grids(shape, seed):
    rng = np.random.default_rng(seed)
    f = sum(w * cut for w, cut in zip(rng.exponential(size=3), grid_cuts(shape), strict=False))
    check(f - Modular(rng.normal(size=f.n)))


def test_extreme_weights_and_fields(seed):
    rng = np.random.default_rng(seed)
    for scale in (1e-3, 1e2, 1e3):
        cut = random_cut(rng, 9)
        f = cut.with_weights(scale * cut.weights) - Modular(scale * rng.choice([-1.0, 1.0], 9))
        check(f, 1e-10)
    with pytest.raises(ValueError, match="overflow"):
        _elimination.log_partition(Cut(2, [(0, 1)], 1e305))
    found = _methods.log_partition(Cut(2, [(0, 1)], 1e305), "elimination")
    assert found.value == pytest.approx(np.log(2), rel=1e-15)


def ladder(rng, length, wide):
    """Return a grid of random weights and fields, with elements in random order."""
    cuts = [
        cut.with_weights(rng.exponential(size=len(cut.weights)))
        for cut in grid_cuts((wide, length))
    ]
    place = rng.permutation(wide * length)
    t = rng.normal(size=wide * length)
    return place, [(cut.edges, cut.weights) for cut in cuts], t


def test_is_equivariant(seed):
    rng = np.random.default_rng(seed)
    place, cuts, t = ladder(rng, 12, 5)
    plain = sum(Cut(60, edges, weights) for edges, weights in cuts) - Modular(t)
    moved = np.empty(60)
    moved[place] = t
    other = sum(Cut(60, place[edges], weights) for edges, weights in cuts) - Modular(moved)
    assert _elimination.log_partition(other).value == pytest.approx(
        _elimination.log_partition(plain).value, rel=1e-13
    )
    np.testing.assert_allclose(
        _elimination.marginals(other)[place], _elimination.marginals(plain), atol=1e-13
    )


def test_marginals_are_derivatives(seed):
    rng = np.random.default_rng(seed)
    _, cuts, t = ladder(rng, 20, 6)
    both = [Cut(120, edges, weights) for edges, weights in cuts]

    def log_z(scale, t):
        return _elimination.log_partition(sum(scale * cut for cut in both) - Modular(t)).value

    mean, _, apart = _elimination.pair_marginals(sum(both) - Modular(t))
    h = 1e-5
    for d in (0, 50, 119):
        step = h * np.eye(120)[d]
        slope = (log_z(1.0, t + step) - log_z(1.0, t - step)) / (2 * h)
        assert slope == pytest.approx(mean[d], abs=1e-8)
    # dA/dalpha = -E f: the expected cut from the pairs
    weights = pairwise_of(sum(both)).weights
    slope = (log_z(1.0 + h, t) - log_z(1.0 - h, t)) / (2 * h)
    assert slope == pytest.approx(-weights @ apart, rel=1e-7)


def test_additive_over_components_and_conditioning(seed):
    rng = np.random.default_rng(seed)
    f = random_cut(rng, 8) - Modular(rng.normal(size=8))
    p = pairwise_of(f)
    twice = Cut(
        16, np.concatenate([p.edges, p.edges + 8]), np.concatenate([p.weights, p.weights])
    ) - Modular(np.tile(p.t, 2))
    one = _elimination.log_partition(f).value
    assert _elimination.log_partition(twice).value == pytest.approx(2 * one, rel=1e-12)
    parts = []
    for value in (0, 1):
        g, constant = f.condition({3: value})
        parts.append(_elimination.log_partition(g).value - constant)
    assert np.logaddexp(*parts) == pytest.approx(one, rel=1e-12)


def chain_log_partition(weights, t):
    """Return log Z of a chain by its transfer matrices."""
    local = np.array([0.0, t[0]])
    for field, weight in zip(t[1:], weights, strict=True):
        local = np.logaddexp(local, local[::-1] - weight)
        local[1] += field
    return np.logaddexp(*local)


def test_long_chains():
    n = 100_000
    rng = np.random.default_rng(0)
    weights, t = rng.exponential(size=n - 1), rng.normal(size=n)
    f = Cut(n, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), weights) - Modular(t)
    assert _elimination.log_partition(f).value == pytest.approx(
        chain_log_partition(weights, t), rel=1e-12
    )
    mean = _elimination.marginals(f).values
    # the left part of the chain, far from its end, does not know how long it is
    short, _ = f.condition({d: int(mean[d] > 0.5) for d in range(3000, n)})
    np.testing.assert_allclose(_elimination.marginals(short)[:2000], mean[:2000], atol=1e-10)


@pytest.mark.usefixtures("without_closed_forms")
def test_tables_on_a_long_chain():
    rng = np.random.default_rng(1)
    weights, t = rng.exponential(size=2999), rng.normal(size=3000)
    edges = np.stack([np.arange(2999), np.arange(1, 3000)], axis=1)
    assert _elimination.log_partition(Cut(3000, edges, weights) - Modular(t)).value == (
        pytest.approx(chain_log_partition(weights, t), rel=1e-12)
    )


def test_trees_and_stars(seed):
    rng = np.random.default_rng(seed)
    n = 20_000
    parent = (rng.random(n - 1) * np.arange(1, n)).astype(int)
    t = np.zeros(n)
    t[0] = 0.3
    tree = Cut(n, np.stack([np.arange(1, n), parent], axis=1), 1.5) - Modular(t)
    star = Cut(n, np.stack([np.arange(1, n), np.zeros(n - 1, int)], axis=1), 1.5) - Modular(t)
    # without fields below the root, each edge brings log(1 + e^-w)
    expected = np.logaddexp(0, 0.3) + (n - 1) * np.logaddexp(0, -1.5)
    for f in (tree, star):
        assert _elimination.log_partition(f).value == pytest.approx(expected, rel=1e-13)
        assert _elimination.marginals(f)[0] == pytest.approx(1 / (1 + np.exp(-0.3)), abs=1e-12)


@pytest.mark.parametrize("shape", [(15, 200), (200, 15)])
def test_the_order_of_a_long_grid_is_as_narrow_as_the_grid(shape):
    edges = np.concatenate([cut.edges for cut in grid_cuts(shape)])
    found = _junction.best_order(3000, edges)
    assert found is not None
    assert max(map(len, found[1])) == 15


@given(st.integers(1, 30), st.integers(0, 10**6))
def test_orders_are_perfect(n, seed):
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(n) for j in range(i) if rng.random() < 0.15])
    edges = pairs.reshape(-1, 2).astype(np.int64)
    for order in (_junction._sweep(n, edges), _junction._min_fill(n, edges)):
        assert sorted(order) == list(range(n))
    order, scopes = _junction.best_order(n, edges)
    assert sorted(order) == list(range(n))
    place = np.argsort(order)
    for i, j in np.sort(place[edges], axis=1).tolist():
        assert j in scopes[i]
    for k, scope in enumerate(scopes):
        assert scope == sorted(scope, reverse=True)
        assert all(s > k for s in scope)
        if scope:  # what is joined to k is joined to each other once k is gone
            assert set(scope[:-1]) <= set(scopes[scope[-1]])


@given(st.integers(1, 14), st.integers(0, 10**6), st.floats(0.1, 0.6))
def test_min_fill_is_greedy(n, seed, density):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < density]
    near = {v: {j if i == v else i for i, j in pairs if v in (i, j)} for v in range(n)}
    expected = []
    while near:
        missing = {
            v: [{a, b} for a in near[v] for b in near[v] if a < b and b not in near[a]]
            for v in near
        }
        v = min(near, key=lambda v: (len(missing[v]), len(near[v]), v))
        expected.append(v)
        for a, b in missing[v]:
            near[a].add(b)
            near[b].add(a)
        for u in near.pop(v):
            near[u].discard(v)
    found = _junction._min_fill(n, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == expected


def test_min_fill_eliminates_chordal_graphs_without_fill(seed):
    # a random tree of triangles has width 2, however it is numbered
    rng = np.random.default_rng(seed)
    edges = [(0, 1)]
    for v in range(2, 60):
        i, j = edges[rng.integers(len(edges))]
        edges += [(i, v), (j, v)]
    shuffled = rng.permutation(60)[np.array(edges)]
    scopes = _junction._scopes(_junction._min_fill(60, shuffled), shuffled)
    assert max(map(len, scopes)) == 2
    assert sum(map(len, scopes)) == len(edges)


def test_refuses_what_is_not_pairwise():
    f = LogDet(np.eye(3))
    for method in (_elimination.log_partition, _elimination.marginals, _elimination.pair_marginals):
        with pytest.raises(
            NotApplicable, match=r"elimination needs a pairwise function, got LogDet"
        ):
            method(f)
    assert _elimination.operations(f) == np.inf


def test_refuses_what_is_too_large_before_it_starts(monkeypatch):
    for shape, width in [((60, 60), 60), ((35, 2, 40), 35)]:
        wide = sum(grid_cuts(shape))
        with pytest.raises(TooLarge, match=rf"no order of a width less than {width};"):
            _elimination.log_partition(wide)
        assert _elimination.operations(wide) == np.inf
    assert _elimination.operations(sum(grid_cuts((3000, 2000)))) == np.inf  # at once
    with monkeypatch.context() as patch:
        patch.setattr(_elimination, "_least_width", lambda f: 5000)
        with pytest.raises(TooLarge, match=r"more than 5e\+301 operations"):
            _elimination.log_partition(Cut(2, [(0, 1)]))
    wide, _ = sum(grid_cuts((60, 60))).condition({0: 1})  # at most one narrower
    with pytest.raises(TooLarge, match=r"no order of a width less than 59;"):
        _elimination.marginals(wide)
    dense = Cut(300, [(i, j) for i in range(300) for j in range(i)])
    with pytest.raises(TooLarge):
        _elimination.log_partition(dense)
    middling = sum(grid_cuts((28, 28)))
    with pytest.raises(TooLarge, match=r"operations and .* bytes for log Z .* width 28") as caught:
        _elimination.log_partition(middling)
    assert caught.value.operations > 2**28
    small = sum(grid_cuts((10, 10)))
    with pytest.raises(TooLarge, match=r"memory_limit="):
        _elimination.marginals(small, memory_limit=1e5)
    with pytest.raises(TooLarge, match=r"budget="):
        _elimination.log_partition(small, budget=1e4)
    with pytest.raises(TypeError, match="budget must be a real number"):
        _elimination.log_partition(small, budget="all")
