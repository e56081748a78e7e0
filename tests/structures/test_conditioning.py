"""What conditioning leaves of a grid is solved as one, and right to the last bit.

Against brute force on a few free pixels, against the solver for lists of edges on many, and against
the whole grid with infinite fields.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from oracles import brute_base_polytope_gap, brute_maximize, enumerate_x
from structures.models import (
    GRID,
    STYLES,
    Shape,
    add,
    check_solver,
    condition,
    make_functions,
    number_of,
    on_list,
    rebuilt,
    reweighted,
    to_few,
    values_on_grid,
)

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.solvers import logistic_noise
from logsuper.solvers._problems import Problems
from logsuper.structures import find_structure

SMALL: list[tuple[Shape, int]] = [
    *[((4, 5), 4), ((4, 5), 8), ((5, 3), 4), ((2, 7), 4)],
    *[((2, 3, 3), 6), ((2, 3, 3), 18), ((2, 3, 3), 26)],
]
LARGE: list[tuple[Shape, int]] = [((12, 19), 4), ((9, 70), 8), ((5, 6, 7), 6), ((4, 5, 6), 26)]


def pattern(rng: np.random.Generator, shape: Shape, name: str) -> dict[int, int]:
    """Return pixels to fix, and their values, so that few enough are left for brute force."""
    n = int(np.prod(shape))
    index = np.arange(n).reshape(shape)
    fixed = {
        "one": [n // 2],
        "the first": [0],
        "several": rng.permutation(n)[: n // 3],
        "a row": index[1].ravel(),
        "a column": index[..., 1].ravel(),
        "the last": index[-1].ravel(),
        "all but a pair": np.setdiff1d(index, index[..., :2].reshape(-1, 2)[1]),
    }[name]
    return {int(d): int(v) for d, v in zip(fixed, rng.integers(0, 2, len(fixed)), strict=True)}


PATTERNS = [
    "one",
    "the first",
    "several",
    "a row",
    "a column",
    "the last",
    "all but a pair",
]


# ------------------------------------------------------------------------------------- brute force


@each("style", STYLES)
@pytest.mark.parametrize("shape, neighbors", SMALL)
def test_few_free_pixels(shape: Shape, neighbors: int, style: str, seed: int) -> None:
    rng = np.random.default_rng([seed, neighbors, *shape])
    for name in PATTERNS[seed::3]:  # each with 42 models
        whole = make_functions(rng, shape, neighbors, style)
        n = whole[0].n
        fixed = to_few(rng, n, pattern(rng, shape, name), 8)
        functions, constants = condition(whole, fixed)
        s = check_solver(functions, fixed, n)
        alpha = rng.exponential(size=(4, len(functions)))
        theta = 1.5 * rng.normal(size=(4, s.n))
        theta[2:][rng.random((2, s.n)) < 0.2] = np.inf
        theta[2:][rng.random((2, s.n)) < 0.2] = -np.inf
        X = enumerate_x(s.n)
        F = np.stack([g(X) for g in functions], axis=1)
        score = np.where(np.isinf(theta), 0.0, theta) @ X.T - alpha @ F.T
        score[(np.isposinf(theta) @ (1.0 - X.T) + np.isneginf(theta) @ (1.0 * X.T)) > 0] = -np.inf
        for tie, loss in ((None, 1e-6), ("min", 1e-12), ("max", 1e-12)):
            y, values, stats = s.maximize(theta, alpha, tie=tie)
            chosen = [number_of(row) for row in y]
            assert np.allclose(values, score.max(axis=1), rtol=0, atol=loss)
            assert np.allclose(values, score[np.arange(4), chosen], rtol=0, atol=1e-12)
            assert np.allclose(stats, F[chosen], rtol=0, atol=1e-12)
        # the same as the whole grid, where infinite fields hold the pixels
        held = np.full((4, n), np.nan)
        held[:, list(fixed)] = np.where(np.array(list(fixed.values())) == 1, np.inf, -np.inf)
        held[np.isnan(held)] = theta.ravel()
        y, values, _ = s.maximize(theta, alpha, tie="min")
        z, whole_values, _ = ls.prepare(whole).maximize(held, alpha, tie="min")
        assert np.array_equal(z[:, [d for d in range(n) if d not in fixed]], y)
        assert np.allclose(whole_values, values - alpha @ constants, rtol=0, atol=1e-11)


@pytest.mark.parametrize("per_function", [False, True])
@each("style", STYLES)
@pytest.mark.parametrize("shape, neighbors", SMALL)
def test_factors_on_edges(shape: Shape, neighbors: int, style: str, per_function: bool) -> None:
    rng = np.random.default_rng([neighbors, *shape])
    whole = make_functions(rng, shape, neighbors, style)
    n = whole[0].n
    fixed = to_few(rng, n, pattern(rng, shape, "one"), 8)
    functions, _ = condition(whole, fixed)
    s = check_solver(functions, fixed, n)
    assert s.solver == GRID
    count = len(functions)
    size = (3, count, len(s.edges)) if per_function else (3, len(s.edges))
    factors = rng.exponential(size=size) * (rng.random(size) < 0.8)
    alpha = rng.exponential(size=(3, count))
    theta = rng.normal(size=(3, s.n))
    theta[1, :2] = np.inf, -np.inf
    y, values, stats = s.maximize(theta, alpha, edge_weights=factors, tie="max")
    for m in range(3):
        own = [
            reweighted(f, s.edges, factors[m, k] if per_function else factors[m])
            for k, f in enumerate(functions)
        ]
        f = add(own, alpha[m])
        assert values[m] == pytest.approx(brute_maximize(f, theta[m])[1], abs=1e-12)
        assert np.allclose(stats[m], [g(y[m]) for g in own], rtol=0, atol=1e-12)
    # one row for many problems
    one = s.maximize(theta[:1], alpha[:1], edge_weights=factors, tie="max")
    for m in range(3):
        alone = s.maximize(theta[:1], alpha[:1], edge_weights=factors[m : m + 1], tie="max")
        assert np.array_equal(one[0][m], alone[0][0])
        assert one[1][m] == alone[1][0]
        assert np.allclose(one[2][m], alone[2][0], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("shape, neighbors", SMALL)
def test_ties_are_the_least_and_the_largest_of_all_maximisers(
    shape: Shape, neighbors: int, seed: int
) -> None:
    rng = np.random.default_rng([seed, neighbors])
    several = 0
    for name in ("one", "several", "a row", "the last"):
        cuts = [cut.with_weights(rng.integers(0, 4, len(cut.weights)).astype(float)) for cut in
                ls.grid_cuts(shape, neighbors)]  # fmt: skip
        fixed = to_few(rng, cuts[0].n, pattern(rng, shape, name), 7)
        for whole in (cuts, ls.grid_cuts(shape, neighbors)):
            functions, _ = condition(whole, fixed)
            s = check_solver(functions, fixed, cuts[0].n)
            f = add(functions, np.ones(len(functions)))
            theta = rng.integers(-2, 3, (12, s.n)).astype(float)
            theta[6:] = f.gains(rng.integers(0, 2, (6, s.n)))
            X = enumerate_x(s.n)
            score = theta @ X.T - f(X)
            low, below, _ = s.maximize(theta, np.ones(len(functions)), tie="min")
            high, above, _ = s.maximize(theta, np.ones(len(functions)), tie="max")
            for m in range(12):
                best = X[score[m] == score[m].max()]
                several += len(best) > 1
                assert np.array_equal(low[m], best.min(axis=0))
                assert np.array_equal(high[m], best.max(axis=0))
            assert np.array_equal(below, score.max(axis=1))
            assert np.array_equal(above, score.max(axis=1))
    assert several > 20


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(2, 5), st.sampled_from([4, 8]),
       st.data())  # fmt: skip
def test_conditioning_again_and_again(
    number: int, rows: int, columns: int, neighbors: int, data: st.DataObject
) -> None:
    """Pixels fixed in turn, or at once, leave the same function, the same grid, the same answer."""
    rng = np.random.default_rng(number)
    style = data.draw(st.sampled_from(STYLES))
    n = rows * columns
    if (columns == 2 and neighbors == 8 and "cut" in style) or n > 16:
        neighbors = 4
    whole = make_functions(rng, (rows, columns), neighbors, style)
    order = rng.permutation(n)
    count = data.draw(st.integers(1, n - 2))
    stops = sorted([*data.draw(st.lists(st.integers(1, count), max_size=3)), count])
    values = rng.integers(0, 2, n)
    nested, left, begin = whole, np.arange(n), 0
    for stop in stops:
        gone = order[begin:stop]
        place = {int(p): d for d, p in enumerate(left)}
        nested, _ = condition(nested, {place[int(p)]: int(values[p]) for p in gone})
        left, begin = np.setdiff1d(left, gone), stop
    fixed = {int(p): int(values[p]) for p in order[:count]}
    at_once, _ = condition(whole, fixed)
    X = enumerate_x(n - count)[:256]
    for f, g in zip(nested, at_once, strict=True):
        assert np.allclose(f(X), g(X), atol=1e-12)
    s = check_solver(nested, fixed, n)
    once = check_solver(at_once, fixed, n)
    theta = rng.normal(size=(2, s.n))
    alpha = np.ones(len(whole))
    f = add(nested, alpha)
    assert np.allclose(s.maximize(theta, alpha, tie="max")[1], brute_maximize(f, theta)[1], rtol=0,
                       atol=1e-12)  # fmt: skip
    assert np.allclose(s.maximize(theta, alpha)[1], once.maximize(theta, alpha)[1], atol=1e-6)
    if s.structure.grid is not None:
        found = values_on_grid(s.structure.grid, len(nested), X)
        for k, tilt in s.structure.tilts.items():
            found[:, k] += X @ tilt
        assert np.allclose(found, np.stack([f(X) for f in nested], axis=1), atol=1e-12)


def test_functions_that_were_not_conditioned_alike(seed: int) -> None:
    """One that has lost other pixels, or none, is no reason for a wrong answer."""
    rng = np.random.default_rng(seed)
    across, down = ls.grid_cuts((3, 4))
    one, other = across.condition({0: 1})[0], down.condition({5: 1})[0]
    cut = ls.Cut(11, rng.permutation(11)[:10].reshape(5, 2), rng.exponential(size=5))
    for functions in (
        [one, other],
        [one, cut],
        [cut, one],
        [one + other - ls.Modular(np.ones(11))],
    ):
        s = ls.prepare(functions)
        alpha = rng.exponential(size=len(functions))
        theta = rng.normal(size=(4, 11))
        best = brute_maximize(add(functions, alpha), theta)[1]
        assert np.allclose(s.maximize(theta, alpha, tie="min")[1], best, rtol=0, atol=1e-12)
    assert find_structure([one, down.condition({0: 0})[0]]).kind == "grid"


def test_pulls_that_cancel() -> None:
    """No linear term is left where every pixel is pulled both ways."""
    rows = {d: int(d > 7) for d in (*range(4), *range(8, 12))}
    f, _ = sum(ls.grid_cuts((3, 4))).condition(rows)
    assert find_structure([f]).tilts == {}
    s = check_solver([f], rows, 12)
    y, value, stats = s.maximize([0.3, -0.1, 0.2, -0.7], [1.0])
    assert (y.tolist(), value, stats.tolist()) == ([0, 0, 0, 0], 0.0, [0.0])
    y, value, stats = s.maximize([0.3, np.inf, 0.2, -0.7], [0.1])
    assert (y.tolist(), stats.tolist()) == ([1, 1, 1, 0], [1.0])
    assert value == pytest.approx(0.4, abs=1e-15)


# ------------------------------------------------------------------------- against lists of edges


def large_case(
    rng: np.random.Generator, shape: Shape, neighbors: int, style: str, share: float
) -> tuple[list[SubmodularFunction], dict[int, int], list[SubmodularFunction]]:
    whole = make_functions(rng, shape, neighbors, style)
    n = whole[0].n
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(n)[: int(share * n)]}
    return condition(whole, fixed)[0], fixed, whole


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.8])
@pytest.mark.parametrize("style", ["uniform", "contrast", "one cut"])
@pytest.mark.parametrize("shape, neighbors", LARGE)
def test_many_free_pixels(shape: Shape, neighbors: int, style: str, share: float) -> None:
    rng = np.random.default_rng([neighbors, *shape])
    functions, fixed, whole = large_case(rng, shape, neighbors, style, share)
    s = check_solver(functions, fixed, whole[0].n)
    lists = on_list(s)
    alpha = rng.uniform(0.2, 1.0, (3, len(functions)))
    theta = 2.0 * rng.logistic(size=(3, s.n))
    theta[1][rng.random(s.n) < 0.1] = np.inf
    theta[2][rng.random(s.n) < 0.1] = -np.inf
    factors = rng.exponential(size=(3, 1, len(s.edges)))
    for given_factors in (None, factors):
        edge_weights = None if given_factors is None else given_factors[:, 0]
        for tie in ("min", "max"):
            y, values, stats = s.maximize(theta, alpha, edge_weights=edge_weights, tie=tie)
            z, others, its_stats = lists.maximize(Problems(theta, alpha, given_factors, 3), tie, 1)
            assert np.array_equal(y, z)
            assert np.allclose(values, others, rtol=1e-13, atol=1e-11)
            assert np.allclose(stats, its_stats, rtol=1e-13, atol=1e-11)
        y, values, _ = s.maximize(theta, alpha, edge_weights=edge_weights, n_jobs=2)
        assert np.allclose(values, others, rtol=0, atol=1e-3) and np.all(values <= others + 1e-11)


@pytest.mark.parametrize("style", ["uniform", "contrast", "plain cut"])
@pytest.mark.parametrize("shape, neighbors", [((6, 7), 4), ((5, 6), 8), ((3, 4, 3), 26)])
def test_perturbed_and_smoothed(shape: Shape, neighbors: int, style: str, seed: int) -> None:
    """Noise belongs to elements: that of any function with these values, with holes or without."""
    rng = np.random.default_rng([seed, neighbors])
    functions, fixed, whole = large_case(rng, shape, neighbors, style, 0.2)
    s = check_solver(functions, fixed, whole[0].n)
    plain = ls.prepare([rebuilt(f) for f in functions])
    theta, alpha = rng.normal(size=(2, s.n)), rng.uniform(0.2, 1.0, (2, len(functions)))
    theta[0, :2] = np.inf, -np.inf
    found = s.perturb(theta, alpha, 5, seed=7, return_samples=True, first_sample=3)
    other = plain.perturb(theta, alpha, 5, seed=7, return_samples=True, first_sample=3)
    assert np.array_equal(found.samples, other.samples)
    assert np.allclose(found.values, other.values, atol=1e-10)
    assert np.allclose(found.stats, other.stats, atol=1e-10)
    assert np.array_equal(found.mean, found.samples.mean(axis=1))
    for m in range(2):
        noise = logistic_noise(7, np.uint64(m), np.arange(3, 8), s.n)[0]
        values = s.maximize(theta[m] + noise, alpha[m])[1]
        assert np.allclose(found.values[m], values, atol=1e-5)
    factors = rng.exponential(size=(2, len(s.edges)))
    assert np.array_equal(s.edges, plain.edges)
    for edge_weights in (None, factors):
        one = s.conditional_means(theta, alpha, 4, seed=1, edge_weights=edge_weights)
        two = plain.conditional_means(theta, alpha, 4, seed=1, edge_weights=edge_weights)
        assert np.allclose(one, two, rtol=0, atol=1e-6)
        assert one[0, 0] == 1.0 and one[0, 1] == 0.0


@pytest.mark.parametrize("shape, neighbors", [((6, 7), 4), ((5, 6), 8), ((3, 4, 3), 6)])
def test_the_noise_of_the_whole_grid(shape: Shape, neighbors: int, seed: int) -> None:
    """With the last pixels fixed the others keep their numbers, hence their noise."""
    rng = np.random.default_rng([seed, neighbors])
    whole = make_functions(rng, shape, neighbors, "uniform")
    n = whole[0].n
    free = n - 2 * shape[-1] - 1
    fixed = {d: int(rng.integers(2)) for d in range(free, n)}
    functions, constants = condition(whole, fixed)
    s = check_solver(functions, fixed, n)
    alpha = np.full(len(whole), 0.7)
    theta = rng.normal(size=(2, free))
    ends = np.where(np.array([fixed[d] for d in range(free, n)]) == 1, np.inf, -np.inf)
    held = np.concatenate([theta, np.tile(ends, (2, 1))], axis=1)
    here = s.perturb(theta, alpha, 6, seed=3, return_samples=True)
    there = ls.prepare(whole).perturb(held, alpha, 6, seed=3, return_samples=True)
    assert np.array_equal(here.samples, there.samples[..., :free])
    assert np.allclose(here.values, there.values + alpha @ constants, rtol=0, atol=1e-10)
    assert np.allclose(here.stats + constants, there.stats, rtol=0, atol=1e-10)
    one = s.conditional_means(theta, alpha, 6, seed=3)
    two = ls.prepare(whole).conditional_means(held, alpha, 6, seed=3)
    assert np.allclose(one, two[:, :free], rtol=0, atol=1e-5)


@pytest.mark.parametrize("style", ["uniform", "contrast", "plain cut"])
@pytest.mark.parametrize("shape, neighbors", [((4, 4), 4), ((4, 4), 8), ((2, 3, 3), 6)])
def test_min_norm_points(shape: Shape, neighbors: int, style: str, seed: int) -> None:
    rng = np.random.default_rng([seed, neighbors])
    whole = make_functions(rng, shape, neighbors, style)
    fixed = to_few(rng, whole[0].n, pattern(rng, shape, "one"), 9)
    functions, _ = condition(whole, fixed)
    f = add(functions, rng.uniform(0.5, 1.0, len(functions)))
    theta = rng.normal(size=f.n)
    point, other = ls.min_norm_point(f, theta), ls.min_norm_point(rebuilt(f), theta)
    assert point.converged and np.allclose(point.s, other.s, rtol=0, atol=1e-7)
    excess, total = brute_base_polytope_gap(f - ls.Modular(theta), point.s)
    assert excess < 1e-7 and total < 1e-7
    for shift in (-0.7, 0.0, 0.4):
        best = brute_maximize(f, theta + shift)[1]
        y = point.maximizer(shift)
        assert (theta + shift) @ y - f(y) == pytest.approx(best, abs=1e-6)


# ---------------------------------------------------------------------------- fields and their grid


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(2, 40), st.floats(0.02, 0.95))
def test_elements_are_the_pixels_between_the_holes(
    number: int, rows: int, columns: int, share: float
) -> None:
    """However many pixels are fixed, the others keep their places."""
    rng = np.random.default_rng(number)
    n = rows * columns
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(n)[: max(1, int(share * n))]}
    f, _ = sum(ls.grid_cuts((rows, columns))).condition(fixed)
    grid = find_structure([f]).grid
    if grid is None:  # no edge is left
        assert find_structure([f]).kind == "modular"
        return
    holes = np.array(sorted(fixed))
    edges = np.concatenate([atom.edges for _, atom in f.terms() if isinstance(atom, ls.Cut)])
    kept = np.delete(np.arange(n), holes)
    assert np.array_equal(grid.to_pixels(edges), kept[edges])


def test_little_that_is_left_of_a_large_image_is_not_laid_on_it() -> None:
    cuts = ls.grid_cuts((100, 120))
    rng = np.random.default_rng(0)
    keep = np.sort(rng.permutation(12000)[:1000])
    fixed = {int(d): int(rng.integers(2)) for d in np.setdiff1d(np.arange(12000), keep)}
    s = ls.prepare(condition(cuts, fixed)[0])
    assert (s.solver, s.structure.kind) == ("graph", "pairwise")
    # a block is an image by itself
    block = (np.arange(30)[:, None] * 120 + np.arange(20)).ravel()
    fixed = {int(d): 0 for d in np.setdiff1d(np.arange(12000), block)}
    s = ls.prepare(condition(cuts, fixed)[0])
    assert s.solver == GRID and s.structure.grid.shape == (1, 30, 20) and s.structure.is_whole
