"""The min-norm point and the generic maximiser: enumeration, certificates, max-flow, theorems."""

import warnings

import numpy as np
import pytest
from cases import each
from oracles import (
    FAMILIES,
    brute_base_polytope_gap,
    brute_maximize,
    enumerate_x,
    random_kernel,
    random_mixed_sum,
)

from logsuper._base._warnings import ConvergenceWarning
from logsuper.functions import (
    ConcaveCardinality,
    Coverage,
    Cut,
    GaussianInformation,
    LogDet,
    Modular,
    SetFunction,
    SubmodularFunction,
    grid_cuts,
)
from logsuper.solvers._direct import maximize_closed_form
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._min_norm import MinNormPoint, maximize_generic, min_norm_point_wolfe


def magnitude(f, theta):
    """Size of the numbers that a value is made of, a row."""
    finite = np.where(np.isfinite(theta), theta, 0.0)
    return 1 + np.abs(f(enumerate_x(f.n))).max() + np.abs(finite).sum(axis=-1)


def varied_fields(rng, f):
    theta = 2 * rng.logistic(size=(6, f.n))
    theta[1][rng.random(f.n) < 0.3] = np.inf
    theta[1][rng.random(f.n) < 0.3] = -np.inf
    theta[2] = np.rint(theta[2])
    theta[3] = 0.0
    theta[4] = f.gains(rng.integers(0, 2, f.n))  # ties in plenty
    theta[5] *= 0.1
    return theta


def smooth_kernel(rng, n, length, noise):
    points = rng.uniform(size=(n, 2))
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    return np.exp(-distance / (2 * length**2)) + noise * np.eye(n)


# --------------------------------------------------------------------------- against enumeration


@each("name", FAMILIES)
def test_maximum_of_every_family(name, seed):
    rng = np.random.default_rng([seed, 10])
    for n in (1, 2, 6, 10):
        f = FAMILIES[name](rng, n)
        theta = varied_fields(rng, f)
        finite = np.where(np.isfinite(theta), theta, 0.0)
        size = magnitude(f, theta)
        _, best = brute_maximize(f, theta)
        for tie in (None, "min", "max"):
            y, values, gaps = maximize_generic(f, theta, tie)
            assert y.dtype == np.uint8
            np.testing.assert_array_less(np.abs(values - best), 1e-12 * size)
            np.testing.assert_allclose(values, (finite * y).sum(axis=1) - f(y), atol=1e-12)
            assert np.all(y[theta == np.inf] == 1)
            assert np.all(y[theta == -np.inf] == 0)
            # The certificate: never below the truth, and worth something.
            assert np.all(best - values <= gaps + 1e-13 * size)
            assert np.all(gaps <= 1e-11 * size)


@each("name", FAMILIES)
def test_smallest_and_largest_maximiser(name, seed):
    rng = np.random.default_rng([seed, 11])
    # Not one element: some families are then 0 up to rounding, and everything is a near tie.
    for n in (2, 3, 8):
        f = FAMILIES[name](rng, n)
        theta = varied_fields(rng, f)
        size = magnitude(f, theta)
        X = enumerate_x(n)
        smallest, _, _ = maximize_generic(f, theta, "min")
        largest, _, _ = maximize_generic(f, theta, "max")
        for m, row in enumerate(theta):
            fixed = np.isinf(row)
            score = X @ np.where(fixed, 0.0, row) - f(X)
            score[~np.all(X[:, fixed] == (row[fixed] > 0), axis=1)] = -np.inf
            best = X[score >= score.max() - 1e-11 * size[m]]
            np.testing.assert_array_equal(smallest[m], best.min(axis=0))
            np.testing.assert_array_equal(largest[m], best.max(axis=0))


@each("name", FAMILIES)
def test_min_norm_point_of_every_family(name, seed):
    rng = np.random.default_rng([seed, 12])
    for n in (1, 2, 5, 10):
        f = FAMILIES[name](rng, n)
        theta = rng.normal(size=n)
        point = min_norm_point_wolfe(f, theta)
        tilted = f - Modular(theta)
        size = magnitude(f, theta)
        assert point.converged
        assert max(brute_base_polytope_gap(tilted, point.s)) <= 1e-11 * size
        assert 0 <= point.gap <= 1e-12 * size**2
        # Least norm: no vertex of the polytope lies on the near side of the plane through s.
        assert point.s @ (point.s - tilted.greedy(-point.s)) <= 1e-11 * size**2
        # Each threshold set is a minimiser of the shifted function.
        X = enumerate_x(n)
        values = tilted(X)
        for shift in (*np.quantile(point.s, [0.0, 0.3, 0.8]), 0.0, point.s.max() + 1):
            shifted = values - shift * X.sum(axis=1)
            for tie in ("min", "max"):
                y = point.maximizer(shift, tie)
                assert tilted(y) - shift * y.sum() <= shifted.min() + 1e-11 * size


# ------------------------------------------------------------------------------------- theorems


def test_symmetric_functions_have_the_origin(seed):
    rng = np.random.default_rng([seed, 13])
    for f in (sum(grid_cuts((7, 8))), GaussianInformation(random_kernel(rng, 20))):
        point = min_norm_point_wolfe(f)
        np.testing.assert_allclose(point.s, 0.0, atol=1e-10)
        assert np.all(point.maximizer(tie="max") == (point.s <= 0))


def test_complement_changes_the_sign(seed):
    # f~(x) = f(1 - x) - f(1) has the min-norm point -s.
    rng = np.random.default_rng([seed, 14])
    f = random_mixed_sum(rng, 12)
    flipped = SetFunction(lambda X: f(1 - X) - f(np.ones(12)), 12, vectorized=True)
    s = min_norm_point_wolfe(f).s
    np.testing.assert_allclose(min_norm_point_wolfe(flipped).s, -s, atol=1e-9)


def test_relabelling_and_scaling(seed):
    rng = np.random.default_rng([seed, 15])
    K = random_kernel(rng, 30)
    order = rng.permutation(30)
    s = min_norm_point_wolfe(LogDet(K)).s
    np.testing.assert_allclose(
        min_norm_point_wolfe(LogDet(K[order][:, order])).s, s[order], atol=1e-9
    )
    np.testing.assert_allclose(min_norm_point_wolfe(1e-7 * LogDet(K)).s, 1e-7 * s, atol=1e-15)
    np.testing.assert_allclose(min_norm_point_wolfe(1e9 * LogDet(K)).s, 1e9 * s, rtol=1e-8)


def test_uniform_field_shifts_the_point(seed):
    rng = np.random.default_rng([seed, 16])
    f = random_mixed_sum(rng, 25)
    s = min_norm_point_wolfe(f).s
    np.testing.assert_allclose(min_norm_point_wolfe(f, np.full(25, 0.7)).s, s - 0.7, atol=1e-9)
    # and solves the maximisation for all of them
    shifts = np.array([-0.5, 0.0, 0.4])
    _, values, _ = maximize_generic(f, np.repeat(shifts[:, None], 25, axis=1))
    np.testing.assert_allclose(values, np.maximum(shifts[:, None] - s, 0).sum(axis=1), atol=1e-10)


def test_total_variation_of_a_chain():
    # On the cut of a path the point is -prox of the total variation: by hand, a plateau.
    f = Cut(4, [[0, 1], [1, 2], [2, 3]])
    point = min_norm_point_wolfe(f, [3.0, 5.0, -2.0, -4.0])
    np.testing.assert_allclose(point.s, [-3.5, -3.5, 2.0, 3.0], atol=1e-14)


def test_levels_are_equal_to_the_last_bit():
    rng = np.random.default_rng(17)
    f = 2.0 * sum(grid_cuts((9, 9)))
    s = min_norm_point_wolfe(f, rng.normal(size=81) * 3).s
    levels = np.unique(s)
    assert 1 < levels.size < 81
    assert np.diff(levels).min() > 1e-9


# ---------------------------------------------------------------------------------- larger sizes


@pytest.mark.parametrize("n", [60, 150])
def test_cuts_against_max_flow(n, seed):
    rng = np.random.default_rng([seed, n])
    pairs = np.unique(np.sort(rng.integers(0, n, size=(3 * n, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    integer = rng.integers(1, 5, len(pairs)).astype(float)
    real = rng.exponential(size=len(pairs))
    for weights, theta in (
        (integer, rng.integers(-6, 7, size=(2, n)).astype(float)),
        (real, 2 * rng.logistic(size=(2, n))),
    ):
        f = Cut(n, pairs, weights)
        for tie in (None, "min", "max"):
            y, values, gaps = maximize_generic(f, theta, tie)
            exact = solve_pairwise(n, f.edges, f.weights, theta, tie)
            np.testing.assert_allclose(
                values, (theta * exact).sum(axis=1) - f(exact), rtol=0, atol=1e-10
            )
            assert gaps.max() <= 1e-10
            if tie is not None:
                np.testing.assert_array_equal(y, exact)
        s = min_norm_point_wolfe(f, theta[0]).s
        levels = np.linspace(-2, 2, 7) + 1e-4
        exact = solve_pairwise(n, f.edges, f.weights, theta[0] + levels[:, None])
        np.testing.assert_array_equal(s < levels[:, None], exact)


def test_graph_functions_against_max_flow(seed):
    rng = np.random.default_rng([seed, 18])
    for name in ("sum with a graph", "coverage", "facility location", "P^n Potts"):
        f = FAMILIES[name](rng, 40)
        theta = rng.logistic(size=(2, 40)) + f.gains(rng.integers(0, 2, (2, 40)))
        graph = f.graph()
        field = np.concatenate([theta, np.zeros((2, graph.n_aux))], axis=1) - graph.unary
        exact = solve_pairwise(40 + graph.n_aux, graph.edges, graph.weights, field)[:, :40]
        _, values, _ = maximize_generic(f, theta)
        np.testing.assert_allclose(values, (theta * exact).sum(axis=1) - f(exact), atol=1e-9)


def test_cardinality_against_sorting(seed):
    rng = np.random.default_rng([seed, 19])
    n = 500
    f = ConcaveCardinality(lambda k: 20 * np.sqrt(k), n=n)
    theta = rng.normal(size=(3, n)) + 0.9
    _, best = maximize_closed_form(f, theta)
    _, values, _ = maximize_generic(f, theta)
    np.testing.assert_allclose(values, best, atol=1e-9)
    # The function whose levels are all different, used to slow solvers down (Iwata).
    hard = ConcaveCardinality(lambda k: float(k * (n - k)), n=n)
    theta = (5.0 * np.arange(1, n + 1) - 2 * n)[None]
    np.testing.assert_allclose(
        maximize_generic(hard, theta)[1], maximize_closed_form(hard, theta)[1], rtol=1e-12
    )


@pytest.mark.parametrize(("length", "noise"), [(0.05, 0.1), (0.2, 0.01), (0.5, 0.001)])
def test_five_hundred_log_determinants(length, noise):
    rng = np.random.default_rng(20)
    f = LogDet(smooth_kernel(rng, 500, length, noise))
    # Fields near the gains, so that not everything is decided at once.
    theta = f.gains(rng.integers(0, 2, 500)) + 0.3 * rng.normal(size=500)
    y, values, gaps = maximize_generic(f, theta[None])
    assert gaps[0] <= 1e-11 * (np.abs(theta).sum() + abs(f(y[0])))
    # No flip of one element and no random set is better.
    assert np.all((theta - f.gains(y[0])) * (2.0 * y[0] - 1) >= -1e-9)
    others = (rng.random((20, 500)) < y[0] * 0.8 + 0.1).astype(np.uint8)
    assert np.all(others @ theta - f(others) <= values[0] + gaps[0])


@pytest.mark.parametrize(("n", "length", "noise"), [(200, 0.05, 0.1), (100, 0.2, 0.01)])
def test_two_roads_to_the_maximum(n, length, noise):
    # V = sum (-s)_+ : a minimum by pieces and the whole min-norm point must agree.
    rng = np.random.default_rng(26)
    f = LogDet(smooth_kernel(rng, n, length, noise))
    theta = f.gains(rng.integers(0, 2, n)) + 0.3 * rng.normal(size=n)
    _, values, _ = maximize_generic(f, theta[None])
    point = min_norm_point_wolfe(f, theta)
    assert point.converged
    assert np.maximum(-point.s, 0).sum() == pytest.approx(values[0], abs=1e-8)


def test_middle_sized_problems_to_full_accuracy():
    rng = np.random.default_rng(21)
    for f in (
        LogDet(smooth_kernel(rng, 120, 0.1, 0.05)),
        GaussianInformation(smooth_kernel(rng, 80, 0.1, 0.05)),
        Coverage(rng.random((100, 150)) < 0.03, rng.exponential(size=150)),
    ):
        theta = f.gains(np.zeros(f.n)) * rng.uniform(0.2, 1, f.n)
        point = min_norm_point_wolfe(f, theta)
        scale = np.linalg.norm(f.greedy(np.zeros(f.n)))
        assert point.converged
        assert point.gap <= 1e-12 * scale**2
        # s is in the base polytope: s'w <= f(w) for the directions that matter most, and random.
        tilted = f - Modular(theta)
        W = np.concatenate([-point.s[None], rng.normal(size=(50, f.n)), np.eye(f.n)])
        assert np.all(W @ point.s <= tilted.lovasz(W) + 1e-9 * scale)
        assert point.s.sum() == pytest.approx(tilted(np.ones(f.n)), abs=1e-9 * scale)


# -------------------------------------------------------------------------------------- the door


def test_fixed_elements_equal_conditioning(seed):
    rng = np.random.default_rng([seed, 22])
    f = random_mixed_sum(rng, 14)
    theta = rng.normal(size=14)
    theta[[2, 5]] = np.inf
    theta[[0, 9]] = -np.inf
    y, values, _ = maximize_generic(f, theta[None])
    g, constant = f.condition({2: 1, 5: 1, 0: 0, 9: 0})
    free = np.isfinite(theta)
    inner, inner_values, _ = maximize_generic(g, theta[None, free])
    np.testing.assert_array_equal(y[0, free], inner[0])
    assert values[0] == pytest.approx(inner_values[0] - constant, abs=1e-12)


def test_everything_fixed_and_nothing_there():
    f = Cut(2, [[0, 1]], 3.0)
    y, values, gaps = maximize_generic(f, [[np.inf, -np.inf]])
    np.testing.assert_array_equal(y, [[1, 0]])
    np.testing.assert_array_equal(values, [-3.0])
    np.testing.assert_array_equal(gaps, [0.0])
    y, values, gaps = maximize_generic(f, np.empty((0, 2)))
    assert y.shape == (0, 2)
    assert values.shape == gaps.shape == (0,)
    y, values, _ = maximize_generic(Modular([]), np.empty((2, 0)))
    assert y.shape == (2, 0)
    np.testing.assert_array_equal(values, [0.0, 0.0])
    empty = min_norm_point_wolfe(Modular([]))
    assert empty.s.shape == (0,)
    assert empty.converged


def test_zero_function():
    point = min_norm_point_wolfe(Cut(5, np.empty((0, 2), int)))
    np.testing.assert_array_equal(point.s, np.zeros(5))
    y, values, gaps = maximize_generic(Modular(np.zeros(5)), np.zeros((1, 5)), "max")
    assert y.all()
    assert values == gaps == 0


def test_running_out_of_steps_warns_and_keeps_the_bound():
    rng = np.random.default_rng(23)
    f = LogDet(smooth_kernel(rng, 80, 0.2, 0.01))
    theta = (f.gains(rng.integers(0, 2, 80)) + 0.1 * rng.normal(size=80))[None]
    _, best, _ = maximize_generic(f, theta)
    with pytest.warns(ConvergenceWarning, match=r"theta\[0\].*max_iter"):
        _, values, gaps = maximize_generic(f, theta, max_iter=3)
    assert gaps[0] > 0
    assert values[0] <= best[0] + 1e-10 <= values[0] + gaps[0] + 2e-10
    with pytest.warns(ConvergenceWarning, match="min-norm point"):
        point = min_norm_point_wolfe(f, theta[0], max_iter=5)
    assert not point.converged
    exact = min_norm_point_wolfe(f, theta[0])
    assert np.sum((point.s - exact.s) ** 2) <= 2 * point.gap * (1 + 1e-6)


def test_a_loose_tolerance_saves_steps():
    rng = np.random.default_rng(24)
    f = LogDet(smooth_kernel(rng, 60, 0.2, 0.01))
    loose, tight = min_norm_point_wolfe(f, tol=1e-3), min_norm_point_wolfe(f)
    assert loose.iterations < tight.iterations
    assert np.sum((loose.s - tight.s) ** 2) <= 2 * loose.gap * (1 + 1e-6)


class Supermodular(SubmodularFunction):
    """Convex in the count: what a user may pass by mistake."""

    def __init__(self, n):
        self.n = n

    def _evaluate(self, X):
        count = X.sum(axis=1)
        return count**2 - self.n * count


def test_a_function_that_is_not_submodular_ends(seed):
    rng = np.random.default_rng([seed, 25])
    f = Supermodular(30) + random_mixed_sum(rng, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        y, values, _ = maximize_generic(f, rng.normal(size=(3, 30)))
        min_norm_point_wolfe(f)
    assert y.shape == (3, 30)
    assert np.all(np.isfinite(values))


def test_thresholds_of_a_point():
    point = MinNormPoint(np.array([-1.0, 0.5, 0.5, 2.0]), 0.0, 1, True)
    y = point.maximizer([[-2.0, 0.5], [1.0, 3.0]])
    assert y.shape == (2, 2, 4)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y.sum(axis=-1), [[0, 1], [3, 4]])
    np.testing.assert_array_equal(point.maximizer(0.5, "max"), [1, 1, 1, 0])
    several = MinNormPoint(
        np.stack([point.s, -point.s]), np.zeros(2), np.ones(2, int), np.ones(2) > 0
    )
    np.testing.assert_array_equal(several.maximizer(), [[1, 0, 0, 0], [0, 1, 1, 1]])
    assert several.maximizer([0.0, 1.0, 2.0]).shape == (3, 2, 4)
    with pytest.raises(ValueError, match="NaN"):
        point.maximizer(np.nan)
    with pytest.raises(ValueError, match="tie must be"):
        point.maximizer(0.0, "both")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: maximize_generic(f, [[0.0, np.nan]]), r"theta\[0, 1\]"),
        (lambda f: maximize_generic(f, [[0.0]]), "theta must have shape"),
        (lambda f: maximize_generic(f, [[0.0, 0.0]], "no"), "tie must be"),
        (lambda f: min_norm_point_wolfe(f, [0.0, np.inf]), "theta must be finite"),
        (lambda f: min_norm_point_wolfe(f, [0.0]), r"shape \(2,\)"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(Cut(2, [[0, 1]]))
