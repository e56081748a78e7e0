"""`min_norm_point`: enumeration, Fujishige-Wolfe, certificates of any size, all shifts at once."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from cases import each
from flow_oracles import grid_edges, random_edges, wide
from oracles import FAMILIES, GRAPH_FAMILIES, brute_base_polytope_gap, enumerate_x

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    Modular,
    PnPotts,
    SetFunction,
    grid_cuts,
)
from logsuper.solvers import MinNormPoint, maximize, min_norm_point
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._min_norm import min_norm_point_wolfe
from logsuper.solvers._parametric import _divide


def scale_of(f, theta):
    """Size of the numbers that the values of f - theta are sums of."""
    return 1 + np.abs(theta).sum() + np.abs(f(enumerate_x(f.n))).max()


def smallest_maximizer(f):
    return lambda fields: maximize(f, fields, tie="min")[0]


def complement(f):
    """Return x -> f(1 - x) - f(1)."""
    return SetFunction(lambda X: f(1 - X) - f(np.ones(f.n)), f.n, vectorized=True)


def check_small(f, theta, point):
    """Everything that makes s the min-norm point of B(f - theta), by enumeration."""
    size = scale_of(f, theta)
    tilted = f - Modular(theta)
    s = point.s
    assert s.shape == (f.n,)
    assert point.converged
    assert isinstance(point.gap, float)
    # The gap is small next to half the squared norm, of the point or of a vertex of the polytope.
    vertex = tilted.greedy(np.zeros(f.n))
    assert 0 <= point.gap <= 1e-10 * max(s @ s, vertex @ vertex) / 2
    # In the base polytope,
    assert max(brute_base_polytope_gap(tilted, s)) <= 1e-11 * size
    assert s.sum() == pytest.approx(f(np.ones(f.n)) - theta.sum(), abs=1e-11 * size)
    # nothing of the polytope on the near side of the plane through s,
    assert s @ (s - tilted.greedy(-s)) <= 1e-10 * size**2
    # and each level set minimises f - theta - tau.
    X = enumerate_x(f.n)
    values = tilted(X)
    levels = np.unique(s)
    taus = [*levels, *(levels[:-1] + levels[1:]) / 2, levels[0] - 1, levels[-1] + 1, 0.0]
    for tau in taus:
        shifted = values - tau * X.sum(axis=1)
        for y in (s < tau, s <= tau):
            assert tilted(y) - tau * y.sum() <= shifted.min() + 1e-11 * size


def check_large(f, theta, point, tol=1e-10):
    """The same without enumeration, with the max-flow of scipy as the judge of feasibility.

    With u = s + theta in B(f), half of |s|^2 is the least if and only if f(-s) + u's = 0, f the
    Lovasz extension: then -s is the proximal point, the denoised field.
    """
    s = point.s
    u = s + theta
    graph = f.graph()
    assert graph.n_aux == 0
    labels = solve_pairwise(f.n, graph.edges, graph.weights, (u - graph.unary)[None])[0]
    size = np.abs(s).sum() + np.abs(theta).sum()
    assert u @ labels - f(labels) <= 1e-12 * size
    assert abs(u.sum() - f(np.ones(f.n))) <= 1e-12 * size
    half_norm = max(s @ s, theta @ theta) / 2
    assert f.lovasz(-s) + u @ s <= tol * half_norm
    assert 0 <= point.gap <= 1e-10 * half_norm
    assert point.converged


# --------------------------------------------------------------------------------- every family


@each("name", GRAPH_FAMILIES)
def test_families_with_a_graph(engine, name, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 50])
        for n in (1, 2, 5, 9):
            f = FAMILIES[name](rng, n)
            for theta in (
                np.zeros(n),
                2 * rng.normal(size=n),
                rng.integers(-2, 3, n).astype(float),
            ):
                check_small(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in GRAPH_FAMILIES])
def test_families_without_a_graph(name, seed):
    rng = np.random.default_rng([seed, 51])
    for n in (1, 2, 5, 8):
        f = FAMILIES[name](rng, n)
        theta = rng.normal(size=n)
        check_small(f, theta, min_norm_point(f, theta))


@each("name", GRAPH_FAMILIES)
def test_three_algorithms_agree(engine, name, seeds):
    """Divide and conquer in the kernel, the same in general, and Fujishige-Wolfe."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 52])
        f, theta = FAMILIES[name](rng, 8), rng.normal(size=8)
        size = scale_of(f, theta)
        first = min_norm_point(f, theta)
        second, gap, levels = _divide(f, theta, smallest_maximizer(f))
        third = min_norm_point_wolfe(f, theta)
        np.testing.assert_allclose(first.s, second, atol=1e-11 * size)
        np.testing.assert_allclose(first.s, third.s, atol=1e-8 * size)
        assert 0 <= gap <= 1e-10 * size**2
        assert 1 <= levels <= 8


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.data())
def test_any_cut(data):
    n = data.draw(st.integers(1, 6))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    sizes = st.sampled_from([0.0, 0.125, 1.0, 3.0, 1e-4, 1e4])
    f = Cut(n, edges, [data.draw(sizes) for _ in edges])
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, allow_subnormal=False))
    theta = np.array([data.draw(numbers) for _ in range(n)])
    check_small(f, theta, min_norm_point(f, theta))


@hypothesis.settings(max_examples=50)
@hypothesis.given(st.data())
def test_any_sum_with_auxiliary_nodes(data):
    n = data.draw(st.integers(2, 6))
    group = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
    quarters = st.integers(-12, 12).map(lambda k: k / 4)
    theta = np.array([data.draw(quarters) for _ in range(n)])
    members = data.draw(group)
    slopes = sorted((data.draw(quarters) for _ in members), reverse=True)
    curve = np.concatenate([[0.0], np.cumsum(slopes)])
    f = PnPotts(n, [data.draw(group)], abs(data.draw(quarters)))
    f = f + ConcaveCardinality(curve, n=n, subset=members)
    f = f + Cut(n, [(0, n - 1)], abs(data.draw(quarters)))
    check_small(f, theta, min_norm_point(f, theta))


# ------------------------------------------------------------------------------ large problems

SHAPES = [((40,), None), ((1, 90), 4), ((80, 1), 4), ((13, 65), 4), ((20, 21), 8)]
SHAPES += [((5, 6, 7), 6), ((4, 5, 6), 26)]


def total(cuts):
    return sum(cuts[1:], cuts[0])


@pytest.mark.parametrize(("shape", "neighbors"), SHAPES, ids=str)
@pytest.mark.parametrize("strength", [0.3, 1.0, 3.0])
def test_denoising_on_grids(engine, shape, neighbors, strength):
    rng = np.random.default_rng(int(10 * strength))
    f = strength * total(grid_cuts(shape, neighbors))
    theta = 2 * rng.normal(size=f.n)
    check_large(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("share", [0.03, 0.3], ids=["sparse", "dense"])
def test_denoising_on_graphs(engine, share, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 53])
        n = 70
        edges = random_edges(rng, n, int(share * n * n))
        f = Cut(n, edges, rng.exponential(size=len(edges))) + Modular(rng.normal(size=n))
        for theta in (2 * rng.normal(size=n), 20 * rng.normal(size=n)):
            check_large(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("kind", ["grid", "graph"])
def test_weights_over_ten_orders_of_magnitude(engine, kind, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 54])
        if kind == "grid":
            f = total([cut.with_weights(wide(rng, len(cut.weights))) for cut in grid_cuts((9, 11))])
        else:
            edges = random_edges(rng, 60, 150)
            f = Cut(60, edges, wide(rng, len(edges)))
        theta = rng.normal(size=f.n)
        check_large(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("seed", [37, 38, 74, 77])
def test_weights_far_above_the_fields(engine, seed):
    """Ten orders of magnitude from the fields upwards: strong edges only bind their ends."""
    rng = np.random.default_rng([seed, 67])
    cuts = grid_cuts((20, 20) if engine != "scipy" else (9, 9))
    f = total([cut.with_weights(10.0 ** rng.uniform(0, 10, len(cut.weights))) for cut in cuts])
    theta = rng.normal(size=f.n)
    check_large(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("size", [1e-13, 1e-10, 1e-8, 1e-5, 1e5, 1e9])
def test_fields_of_any_size(engine, size):
    """Fields that drown in the weights, or the weights in the fields: the gap is relative."""
    f = total(grid_cuts((9, 8)))
    for seed in range(3 if engine == "scipy" else 20):
        theta = size * np.random.default_rng(seed).normal(size=f.n)
        check_large(f, theta, min_norm_point(f, theta))


@pytest.mark.parametrize("offset", [1e3, -1e6])
def test_a_uniform_shift_moves_the_point(engine, offset, seed):
    rng = np.random.default_rng([seed, 56])
    f = total(grid_cuts((7, 9), 8))
    theta = 2 * rng.normal(size=f.n)
    plain = min_norm_point(f, theta).s
    np.testing.assert_allclose(min_norm_point(f, theta + offset).s, plain - offset, atol=1e-9)


def test_an_image_of_two_thousand_pixels_in_few_levels(native):
    f = total(grid_cuts((50, 50)))
    theta = 2 * np.random.default_rng(57).normal(size=f.n)
    point = min_norm_point(f, theta)
    check_large(f, theta, point)
    assert point.iterations <= 40


# ------------------------------------------------------------------------------ known solutions


def test_two_elements_are_pulled_together(engine):
    f = Cut(2, [(0, 1)], [1.0])
    np.testing.assert_allclose(min_norm_point(f, [3.0, -1.0]).s, [-2.0, 0.0])
    np.testing.assert_allclose(min_norm_point(f, [0.5, -0.25]).s, [-0.125, -0.125])


def test_symmetric_functions_have_the_origin(engine):
    for f in (total(grid_cuts((4, 7))), Cut(5, [(0, 1), (1, 4)]), PnPotts(4, [[0, 1, 3]])):
        point = min_norm_point(f)
        np.testing.assert_array_equal(point.s, np.zeros(f.n))
        assert point.gap == 0


def test_strong_weights_leave_the_mean(engine, seed):
    rng = np.random.default_rng([seed, 58])
    f = 1e4 * total(grid_cuts((6, 8)))
    theta = rng.normal(size=48)
    point = min_norm_point(f, theta)
    np.testing.assert_allclose(point.s, -theta.mean(), rtol=1e-10)
    assert len(np.unique(point.s)) == 1  # one level: equal to the last bit


def test_without_edges_the_field_itself(engine):
    theta = np.array([1.5, -2.0, 0.0])
    for f in (
        Cut(3, []),
        Cut(3, [(0, 1)], [0.0]),
        0.0 * total(grid_cuts((1, 3))),
        Modular(np.zeros(3)),
    ):
        point = min_norm_point(f, theta)
        np.testing.assert_array_equal(point.s, -theta)
        assert point.gap == 0
        assert point.converged


def test_a_chain_by_blocks_of_equal_level(engine):
    """The proximal point of a chain solves its optimality conditions block by block."""
    rng = np.random.default_rng(59)
    n, strength = 60, 1.2
    f = strength * total(grid_cuts((n,)))
    theta = 2 * rng.normal(size=n)
    w = -min_norm_point(f, theta).s
    ends = np.flatnonzero(np.diff(w) != 0) + 1
    jumps = np.sign(np.diff(w))[ends - 1]
    for first, last in zip([0, *ends], [*ends, n], strict=True):
        left = jumps[list(ends).index(first)] if first else 0.0
        right = jumps[list(ends).index(last)] if last < n else 0.0
        expected = theta[first:last].mean() + strength * (right - left) / (last - first)
        np.testing.assert_allclose(w[first:last], expected, atol=1e-12)


@pytest.mark.parametrize("name", ["grid", "cut", "sum with a graph", "cardinality"])
def test_scaling_and_complement(engine, name, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 60])
        f, theta = FAMILIES[name](rng, 7), rng.normal(size=7)
        s = min_norm_point(f, theta).s
        np.testing.assert_allclose(min_norm_point(8.0 * f, 8.0 * theta).s, 8.0 * s, atol=1e-9)
        np.testing.assert_allclose(min_norm_point(complement(f), -theta).s, -s, atol=1e-7)


# ---------------------------------------------------------------------------------- all shifts


SHIFTED = {
    "grid": lambda rng: total(grid_cuts((9, 11))),
    "graph": lambda rng: Cut(40, random_edges(rng, 40, 90), 0.7),
    "auxiliary nodes": lambda rng: (
        total(grid_cuts((4, 5)))
        + PnPotts(20, [range(6), range(8, 15)], 0.5)
        + Coverage(rng.random((20, 6)) < 0.2)
    ),
    "cardinality": lambda rng: ConcaveCardinality(4 * np.sqrt(np.arange(31.0))),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_one_point_answers_every_shift(engine, name, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 61])
        f = SHIFTED[name](rng)
        theta = 2 * rng.normal(size=f.n)
        point = min_norm_point(f, theta)
        shifts = np.concatenate([np.linspace(-5, 5, 21), -theta[:3]])
        answers = point.maximizer(shifts)
        assert answers.shape == (24, f.n)
        assert answers.dtype == np.uint8
        _, best = maximize(f, theta + shifts[:, None])
        reached = (answers * (theta + shifts[:, None])).sum(axis=1) - f(answers)
        np.testing.assert_allclose(reached, best, atol=1e-8)
        # Larger shifts switch more elements on, never one off.
        ordered = point.maximizer(np.sort(shifts))
        assert np.all(ordered[:-1] <= ordered[1:])
        # Between levels there is one maximiser: the smallest, the largest and any are the same.
        levels = np.unique(point.s)
        middle = (levels[:-1] + levels[1:])[np.diff(levels) > 1e-6] / 2
        for tie in ("min", "max"):
            labels, _ = maximize(f, theta + middle[:, None], tie=tie)
            np.testing.assert_array_equal(labels, point.maximizer(middle, tie))


def test_ties_at_a_level(engine):
    """At a shift equal to a level, "min" leaves the level out and "max" takes it in."""
    f = total(grid_cuts((3, 4)))
    theta = np.where(np.arange(12) % 4 < 2, 1.0, -1.0) * 4
    point = min_norm_point(f, theta)
    levels = np.unique(point.s)
    assert len(levels) == 2  # exact numbers: the two halves of the image
    for tau in levels:
        for tie in ("min", "max"):
            labels, _ = maximize(f, theta + tau, tie=tie)
            np.testing.assert_array_equal(point.maximizer(tau, tie), labels)
    np.testing.assert_array_equal(point.maximizer(), point.s < 0)


# ------------------------------------------------------------------------- batches and threads


@pytest.mark.parametrize("name", ["grid", "graph", "auxiliary nodes", "cardinality", "log-det"])
def test_batches(engine, name):
    rng = np.random.default_rng(62)
    family = {"graph": "cut", "auxiliary nodes": "sum with a graph"}.get(name, name)
    f = FAMILIES[family](rng, 6)
    theta = rng.normal(size=(5, 6))
    points = min_norm_point(f, theta)
    assert isinstance(points, MinNormPoint)
    assert points.s.shape == (5, 6)
    assert points.gap.shape == points.iterations.shape == points.converged.shape == (5,)
    assert points.converged.all()
    for m in range(5):
        alone = min_norm_point(f, theta[m])
        np.testing.assert_array_equal(points.s[m], alone.s)
        assert points.gap[m] == alone.gap
        assert points.iterations[m] == alone.iterations
        check_small(f, theta[m], alone)
    for n_jobs in (2, -1):
        again = min_norm_point(f, theta, n_jobs=n_jobs)
        np.testing.assert_array_equal(again.s, points.s)
        np.testing.assert_array_equal(again.gap, points.gap)
    one = min_norm_point(f, theta[:1])
    assert one.s.shape == (1, 6)
    none = min_norm_point(f, theta[:0])
    assert none.s.shape == (0, 6)
    assert none.gap.shape == (0,)


def test_maximizers_of_a_batch(engine):
    rng = np.random.default_rng(63)
    f = total(grid_cuts((4, 5)))
    theta = rng.normal(size=(3, 20))
    points = min_norm_point(f, theta)
    labels = points.maximizer()
    np.testing.assert_array_equal(labels, points.s < 0)
    reached = (labels * theta).sum(axis=1) - f(labels)
    np.testing.assert_allclose(reached, maximize(f, theta)[1], atol=1e-9)


def test_the_kernel_and_the_general_algorithm_agree(native, seed):
    """On images, without enumeration: the two share no code but the max-flow."""
    rng = np.random.default_rng([seed, 64])
    f = 0.8 * total(grid_cuts((14, 15)))
    for theta in (2 * rng.normal(size=f.n), rng.integers(-2, 3, f.n).astype(float)):
        point = min_norm_point(f, theta)
        s, gap, _ = _divide(f, theta, smallest_maximizer(f))
        np.testing.assert_allclose(point.s, s, atol=1e-10)
        assert gap <= 1e-10 * (theta @ theta) / 2


def test_what_was_solved_before_does_not_matter(native):
    """A kernel erases edges while it divides: the next problem must find them again."""
    rng = np.random.default_rng(65)
    edges = grid_edges((6, 7))
    for f in (
        total(grid_cuts((6, 7))),
        Cut(42, rng.permutation(edges)[:40]),
        Cut(12, random_edges(rng, 12, 60)),
    ):
        theta = 2 * rng.normal(size=(6, f.n))
        together = min_norm_point(f, theta).s
        backwards = min_norm_point(f, theta[::-1]).s[::-1]
        np.testing.assert_array_equal(together, backwards)


# ------------------------------------------------------------------------------------ small cases


def test_no_elements(engine):
    for f in (Modular(np.zeros(0)), Cut(0, [])):
        point = min_norm_point(f)
        assert point.s.shape == (0,)
        assert point.gap == 0
        assert point.converged
        points = min_norm_point(f, np.zeros((3, 0)))
        assert points.s.shape == (3, 0)
        np.testing.assert_array_equal(points.gap, np.zeros(3))


def test_one_element(engine):
    for f in (Cut(1, []), Modular([2.0]), total(grid_cuts((1, 1))), ConcaveCardinality([0.0, 2.0])):
        point = min_norm_point(f, [0.5])
        assert point.s == pytest.approx([f([1]) - 0.5])
        assert point.maximizer().tolist() == [int(f([1]) < 0.5)]


def test_the_closed_forms(seed):
    """Functions that go by sorting are divided with the sorting solver."""
    rng = np.random.default_rng([seed, 66])
    for f in (
        ConcaveCardinality(5 * np.sqrt(np.arange(41.0))) + Modular(rng.normal(size=40)),
        ConcaveOfModular(np.log1p, rng.exponential(size=40)) * 3.0,
        Modular(rng.normal(size=40)),
    ):
        theta = 2 * rng.normal(size=40)
        point = min_norm_point(f, theta)
        other = min_norm_point_wolfe(f, theta)
        np.testing.assert_allclose(point.s, other.s, atol=1e-7)
        assert point.converged
        assert 0 <= point.gap <= 1e-10 * (theta @ theta) / 2


@pytest.mark.parametrize(
    ("theta", "error", "message"),
    [
        ([0.0, np.nan, 0.0], ValueError, r"theta\[1\] = nan"),
        ([0.0, 0.0, np.inf], ValueError, r"theta\[2\] = inf.*condition"),
        ([[0.0] * 3, [0.0, -np.inf, 0.0]], ValueError, r"theta\[1, 1\] = -inf"),
        ([0.0, 0.0], ValueError, r"theta must have shape \(3,\) or \(M, 3\), got \(2,\)"),
        (np.zeros((1, 1, 3)), ValueError, "theta must have shape"),
        (["a", "b", "c"], TypeError, "theta must hold real numbers"),
    ],
)
def test_bad_fields_are_named(engine, theta, error, message):
    for f in (Cut(3, [(0, 1)]), Modular(np.zeros(3)), PnPotts(3, [[0, 1, 2]])):
        with pytest.raises(error, match=message):
            min_norm_point(f, theta)


def test_bad_arguments_are_named(engine):
    f = Cut(3, [(0, 1)])
    with pytest.raises(TypeError, match="f must be a submodular function, got a list"):
        min_norm_point([1.0])
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        min_norm_point(f, n_jobs=0)
    with pytest.raises(TypeError, match="n_jobs must be an integer"):
        min_norm_point(f, n_jobs=1.5)
    with pytest.raises(ValueError, match="tie must be None, 'min' or 'max'"):
        min_norm_point(f).maximizer(tie="any")
    with pytest.raises(ValueError, match="shift must not be NaN"):
        min_norm_point(f).maximizer(np.nan)
