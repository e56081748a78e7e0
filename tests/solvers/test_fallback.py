"""The scipy max-flow in rational arithmetic: enumeration, networkx, ties and wild scales."""

import itertools
from fractions import Fraction

import hypothesis
import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest

from logsuper.solvers._fallback import solve_pairwise


def energy(edges, weights, theta, y):
    """``theta'y - sum w |y_i - y_j|`` without rounding; infinite fields count as 0."""
    total = sum((Fraction(float(t)) for t, v in zip(theta, y, strict=True) if v and np.isfinite(t)))
    cut = sum(
        (Fraction(float(w)) for w, (i, j) in zip(weights, edges, strict=True) if y[i] != y[j])
    )
    return total - cut


def enumerate_maximisers(n, edges, weights, theta):
    """Smallest and largest maximiser, and the maximum, in rational arithmetic."""
    legal = [
        y
        for y in itertools.product((0, 1), repeat=n)
        if all(np.isfinite(t) or v == (t > 0) for t, v in zip(theta, y, strict=True))
    ]
    values = [energy(edges, weights, theta, y) for y in legal]
    best = max(values)
    winners = np.array([y for y, v in zip(legal, values, strict=True) if v == best])
    return winners.min(axis=0), winners.max(axis=0), best


def simple_edges(rng, n, count):
    pairs = np.array(list(itertools.combinations(range(n), 2)), dtype=np.int64).reshape(-1, 2)
    chosen = rng.permutation(len(pairs))[: min(count, len(pairs))]
    flip = rng.integers(0, 2, size=chosen.size).astype(bool)
    edges = pairs[chosen]
    edges[flip] = edges[flip, ::-1]
    return edges


def grid(height, width):
    index = np.arange(height * width).reshape(height, width)
    tails = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    heads = np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    return np.stack([tails, heads], axis=1)


SCALES = {
    "small integers, many ties": lambda rng, k: rng.integers(0, 4, k).astype(float),
    "multiples of 0.1": lambda rng, k: rng.integers(0, 5, k) * 0.1,
    "one scale": lambda rng, k: rng.uniform(0, 2, k),
    "ten orders of magnitude": lambda rng, k: 10.0 ** rng.uniform(-10, 0, k),
    "six hundred orders of magnitude": lambda rng, k: 10.0 ** rng.uniform(-300, 300, k),
    "the end of the range": lambda rng, k: rng.uniform(0.5, 1, k) * np.finfo(float).max,
    "subnormal": lambda rng, k: rng.integers(0, 4, k) * 5e-324,
}


@pytest.mark.parametrize("scale", SCALES)
def test_enumeration_in_rational_arithmetic(scale):
    rng = np.random.default_rng(list(SCALES).index(scale))
    for _ in range(30):
        n = int(rng.integers(1, 8))
        edges = simple_edges(rng, n, int(rng.integers(0, 3 * n)))
        weights = SCALES[scale](rng, len(edges))
        theta = SCALES[scale](rng, n) * rng.choice([-1.0, 1.0], n)
        smallest, largest, best = enumerate_maximisers(n, edges, weights, theta)
        np.testing.assert_array_equal(
            solve_pairwise(n, edges, weights, theta[None], "min")[0], smallest
        )
        np.testing.assert_array_equal(
            solve_pairwise(n, edges, weights, theta[None], "max")[0], largest
        )
        any_one = solve_pairwise(n, edges, weights, theta[None])[0]
        assert energy(edges, weights, theta, any_one) == best


# Numbers whose sums collide often, next to numbers that differ by ten orders of magnitude.
NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.integers(-3, 3).map(lambda k: k * 1e-10),
    st.floats(-2, 2, allow_subnormal=True),
)


@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(st.data())
def test_any_numbers(data):
    n = data.draw(st.integers(1, 5))
    pairs = list(itertools.combinations(range(n), 2))
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    weights = [abs(data.draw(NUMBERS)) for _ in edges]
    theta = [data.draw(st.one_of(NUMBERS, st.sampled_from([np.inf, -np.inf]))) for _ in range(n)]
    smallest, largest, _ = enumerate_maximisers(n, edges, weights, theta)
    np.testing.assert_array_equal(solve_pairwise(n, edges, weights, [theta], "min")[0], smallest)
    np.testing.assert_array_equal(solve_pairwise(n, edges, weights, [theta], "max")[0], largest)


@pytest.mark.parametrize("seed", range(4))
def test_networkx_on_integers_up_to_ten_billion(seed):
    rng = np.random.default_rng(seed)
    n = 60
    edges = simple_edges(rng, n, 180)
    weights = np.floor(10.0 ** rng.uniform(0, 10, len(edges)))
    theta = np.floor(10.0 ** rng.uniform(0, 10, n)) * rng.choice([-1, 1], n)
    graph = nx.DiGraph()
    graph.add_nodes_from(["s", "t"])
    for (i, j), w in zip(edges.tolist(), weights, strict=True):
        graph.add_edge(i, j, capacity=int(w))
        graph.add_edge(j, i, capacity=int(w))
    for i, t in enumerate(theta):
        graph.add_edge(*(("s", i) if t > 0 else (i, "t")), capacity=abs(int(t)))
    cut, _ = nx.minimum_cut(graph, "s", "t")
    best = sum(int(t) for t in theta if t > 0) - cut
    for tie in (None, "min", "max"):
        y = solve_pairwise(n, edges, weights, theta[None], tie)[0]
        assert energy(edges, weights, theta, y) == best


def test_the_last_bit_decides_between_large_fields():
    # Two nodes bound together by 1e10: only the last bit of the fields tells the sign of their sum.
    edges, weights = [[0, 1], [1, 2]], [1e10, 1e-3]
    for second, bound in ((np.nextafter(1e9, 0), 1), (np.nextafter(1e9, 2e9), 0)):
        for third in (1e-8, -1e-8):
            y = solve_pairwise(3, edges, weights, [[1e9, -second, third]])[0]
            np.testing.assert_array_equal(y, [bound] * 3)


@pytest.mark.parametrize("strength", [0.3, 1.0, 3.0])
def test_grid_optimality_by_uncrossing(strength):
    # No enumeration at this size: the maximiser is monotone in the field, and beats both flips of
    # every single node and the constant images.
    rng = np.random.default_rng(int(10 * strength))
    edges = grid(30, 31)
    weights = strength * rng.uniform(0.5, 1.5, len(edges))
    low = rng.logistic(size=930)
    theta = np.stack([low, low + rng.exponential(size=930), np.full(930, 1e-12)])
    y = solve_pairwise(930, edges, weights, theta)
    assert np.all(y[0] <= y[1])
    assert np.all(y[2] == 1)
    best = energy(edges, weights, low, y[0])
    assert best >= max(0, energy(edges, weights, low, np.ones(930, int)))
    signed = (1 - 2.0 * y[0]) * low
    agree = y[0][edges[:, 0]] == y[0][edges[:, 1]]
    change = np.where(agree, -weights, weights)
    np.add.at(signed, edges[:, 0], change)
    np.add.at(signed, edges[:, 1], change)
    assert signed.max() < 1e-12


def test_ties_on_a_large_grid_are_followed_to_the_last_bit():
    # Checkerboard fields of exactly half of what holds the nodes: all constant images are optimal.
    edges = grid(20, 20)
    board = np.where(np.indices((20, 20)).sum(axis=0) % 2, 0.1, -0.1).ravel()
    weights = np.full(len(edges), 0.3)
    assert np.all(solve_pairwise(400, edges, weights, board[None], "min") == 0)
    assert np.all(solve_pairwise(400, edges, weights, board[None], "max") == 1)
    board[0] = np.nextafter(board[0], 1)
    assert np.all(solve_pairwise(400, edges, weights, board[None], "min") == 1)
    board[0] = np.nextafter(np.nextafter(board[0], -1), -1)
    assert np.all(solve_pairwise(400, edges, weights, board[None], "max") == 0)


def test_stacking_does_not_show(monkeypatch):
    rng = np.random.default_rng(5)
    edges = grid(6, 7)
    theta = rng.normal(size=(9, 42)) * 10.0 ** rng.uniform(-8, 8, size=(9, 1))
    theta[3] = rng.integers(-2, 3, 42)
    weights = rng.integers(0, 3, size=(9, len(edges))).astype(float)
    for tie in ("min", "max"):
        whole = solve_pairwise(42, edges, weights, theta, tie)
        monkeypatch.setattr("logsuper.solvers._fallback._STACK", 1)
        np.testing.assert_array_equal(solve_pairwise(42, edges, weights, theta, tie), whole)
        monkeypatch.undo()
    shared = solve_pairwise(42, edges, weights[:1], theta, "min")
    np.testing.assert_array_equal(
        shared, solve_pairwise(42, edges, np.repeat(weights[:1], 9, axis=0), theta, "min")
    )
    np.testing.assert_array_equal(shared, solve_pairwise(42, edges, weights[0], theta, "min"))


def test_infinite_fields_fix_their_nodes():
    theta = np.array([[np.inf, -0.5, -0.5], [-np.inf, 0.5, 0.5], [np.inf, 0.0, -np.inf]])
    y = solve_pairwise(3, [[0, 1], [1, 2]], [2.0, 1.0], theta)
    np.testing.assert_array_equal(y, [[1, 1, 1], [0, 0, 0], [1, 1, 0]])


def test_repeated_edges_add_up_and_loops_do_nothing():
    edges = [[0, 1], [1, 0], [2, 2], [1, 2]]
    theta = np.array([[1.0, -0.9, 0.0]])
    np.testing.assert_array_equal(
        solve_pairwise(3, edges, [0.25, 0.7, 9.0, 0.0], theta, "min"), [[1, 1, 0]]
    )
    np.testing.assert_array_equal(
        solve_pairwise(3, edges, [0.25, 0.6, 9.0, 0.0], theta, "max"), [[1, 0, 1]]
    )


def test_degenerate_sizes():
    assert solve_pairwise(0, [], [], np.empty((2, 0))).shape == (2, 0)
    assert solve_pairwise(3, np.empty((0, 2), int), np.empty((1, 0)), np.empty((0, 3))).shape == (
        0,
        3,
    )
    np.testing.assert_array_equal(solve_pairwise(2, [], [], [[0.0, -1.0]], "max"), [[1, 0]])
    np.testing.assert_array_equal(solve_pairwise(2, [], [], [[0.0, 1e-320]], "min"), [[0, 1]])


def test_arguments_are_not_changed():
    edges, weights = grid(3, 3), np.ones((1, 12))
    theta = np.linspace(-1, 1, 9)[None]
    copies = edges.copy(), weights.copy(), theta.copy()
    solve_pairwise(9, edges, weights, theta)
    for given, copy in zip((edges, weights, theta), copies, strict=True):
        np.testing.assert_array_equal(given, copy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, [[0, 1]], [1.0], [[0.0, 0.0]], "least"), "tie must be"),
        ((2, [[0, 1]], [1.0], [0.0]), "theta must have shape"),
        ((2, [[0, 1]], [1.0], [[0.0, np.nan]]), r"theta\[0, 1\] = nan"),
        ((2, [[0, 2]], [1.0], [[0.0, 0.0]]), r"edges\[0\]"),
        ((2, [[0.0, 1.0]], [1.0], [[0.0, 0.0]]), "edges must be integers"),
        ((2, [[0, 1]], [1.0, 2.0], [[0.0, 0.0]]), "weights must have shape"),
        ((2, [[0, 1]], [-1.0], [[0.0, 0.0]]), r"weights\[0, 0\]"),
        ((2, [[0, 1]], [np.inf], [[0.0, 0.0]]), r"weights\[0, 0\]"),
        ((2, [[0, 1]], [np.nan], [[0.0, 0.0]]), r"weights\[0, 0\]"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve_pairwise(*arguments)
