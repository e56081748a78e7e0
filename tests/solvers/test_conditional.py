"""Conditional means: against the law of the maximisers, brute force, and themselves."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest
from objective_oracles import long
from scipy.special import expit

import logsuper as ls
from logsuper.solvers import _conditional
from logsuper.solvers._native import kernels
from logsuper.solvers._noise import logistic_noise
from logsuper.solvers._problems import Noise


def brute(f: ls.SubmodularFunction, theta: np.ndarray, samples: int, key: int) -> np.ndarray:
    """Return the mean of sigma(m_d), each m_d as the difference of two maxima."""
    x = oracles.enumerate_x(f.n)
    noise = logistic_noise(key, 0, np.arange(samples), f.n)[0]
    total = np.zeros(f.n)
    for z in noise:
        for d in range(f.n):
            field = theta + z
            field[d] = theta[d]
            value = x @ field - f(x)
            total[d] += expit(value[x[:, d] == 1].max() - value[x[:, d] == 0].max())
    return total / samples


def test_enough_rounds_are_exact_on_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(i)), i) for i in range(1, 8)]
    f = ls.Cut(8, edges, rng.exponential(size=7)) - ls.Modular(rng.normal(size=8))
    theta = rng.normal(size=8)
    found = ls.prepare([f]).conditional_means(theta, [1.0], 20, seed, rounds=8)
    np.testing.assert_allclose(found[0], brute(f, theta, 20, seed), atol=1e-6)


def test_more_rounds_are_nearer_on_grids(seed: int) -> None:
    rng = np.random.default_rng(seed)
    across, down = ls.grid_cuts((3, 4))
    theta, s = rng.normal(size=12), ls.prepare([across, down])
    truth = brute(0.8 * across + 1.1 * down, theta, 40, seed)
    off = [
        np.abs(s.conditional_means(theta, [0.8, 1.1], 40, seed, rounds=r)[0] - truth).mean()
        for r in (0, 2, 5)
    ]
    assert off[2] < off[1] < off[0] and off[1] < 0.03


@long
def test_it_estimates_the_law_of_maximisers_with_less_variance(seed: int) -> None:
    x = ls.make_silhouettes(1, shape=(30, 30), seed=seed)[0]
    theta = 2.0 * (2.0 * ls.Flips(0.1).sample(x, seed=seed).ravel() - 1.0)
    s = ls.prepare(ls.grid_cuts((30, 30)))
    alpha = [1.2, 1.5]
    truth = s.perturb(theta, alpha, 20_000, 1000 + seed).mean[0]
    counted = s.perturb(theta, alpha, 50, seed).mean[0]
    found = s.conditional_means(theta, alpha, 50, seed)[0]
    assert abs(found - truth).mean() < 0.6 * abs(counted - truth).mean()
    assert abs((found - truth).mean()) < 5e-3


@pytest.mark.parametrize(
    ("shape", "neighbors"),
    [((1, 1), 4), ((1, 7), 4), ((9, 1), 4), ((37, 130), 4), ((70, 65), 8), ((6, 7, 8), 26)],
)
def test_kernels_and_numpy_agree(shape: tuple[int, ...], neighbors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts(shape, neighbors)
    s, alpha = ls.prepare(cuts), rng.uniform(0.0, 1.0, len(cuts))
    theta = rng.normal(size=(2, s.n))
    edges = np.concatenate([cut.edges for cut in cuts])
    weights = np.concatenate([a * cut.weights for a, cut in zip(alpha, cuts, strict=True)])
    y = s.perturb(theta, alpha, 3, seed, return_samples=True).samples
    numbers = np.arange(2, dtype=np.uint64)
    noise = Noise(seed, numbers, 0, 3)
    graph = ls.prepare([ls.Cut(s.n, edges[::-1].copy(), weights[::-1].copy())])
    for rounds in (0, 1, 3):
        sums = np.zeros((2, s.n))
        _conditional._add_on_graph((edges, weights[None]), theta, y, noise, rounds, sums)
        found = s.conditional_means(theta, alpha, 3, seed, rounds=rounds)
        np.testing.assert_allclose(found, sums / 3, atol=1e-6)
        if graph._flow is not None and kernels() is not None:
            ends, w = edges.astype(np.int64), weights[None]
            sums[:] = 0.0
            kernels().conditional_graph(ends, w, theta, y, numbers, seed, 0, rounds, 1, sums)
            np.testing.assert_allclose(found, sums / 3, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e12])
def test_large_weights_keep_small_fields(scale: float) -> None:
    # two elements held at 0 and 1 pull the third with equal force: its own field decides
    f = ls.Cut(3, [(0, 1), (1, 2)], [scale, scale])
    theta = np.array([-10.0 * scale, 0.5, 10.0 * scale])
    found = ls.prepare([f]).conditional_means(theta, [1.0], 10, 0)[0]
    np.testing.assert_allclose(found[1], expit(0.5), atol=1e-3)
    across, _ = ls.grid_cuts((1, 3))
    np.testing.assert_allclose(
        ls.prepare([across]).conditional_means(theta, [scale], 10, 0)[0], found, atol=1e-6
    )


@pytest.mark.parametrize("family", list(oracles.FAMILIES))
def test_every_family_stays_inside(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, 6)
    theta = rng.normal(size=(2, 6)) * 3
    s = ls.prepare([f])
    found = s.conditional_means(theta, [1.0], 60, seed)
    assert found.shape == (2, 6) and (found > 0).all() and (found < 1).all()
    counted = s.perturb(theta, [1.0], 200, seed + 1).mean
    # without rounds the others do not answer: near, but not the same law
    assert abs(found - counted).max() < 0.3


def test_factors_tilts_and_shared_rows_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    across, down = ls.grid_cuts((4, 5))
    functions = [across + 0.5 * down - ls.Modular(rng.normal(size=20)), down]
    s, theta = ls.prepare(functions), rng.normal(size=(3, 20))
    for per_function in (False, True):
        count = len(s.edges)
        factors = rng.exponential(size=(3, 2, count) if per_function else (3, count))
        found = s.conditional_means(theta, [0.7, 0.3], 5, 2, edge_weights=factors)
        for m in range(3):
            mine = factors[m] if per_function else np.stack([factors[m]] * 2)
            unit = np.array(
                [[(j - i == 1) + 0.5 * (j - i == 5), float(j - i == 5)] for i, j in s.edges]
            ).T
            weights = (np.array([[0.7], [0.3]]) * unit * mine).sum(axis=0)
            own = theta[m] - 0.7 * functions[0].terms()[-1][1].t
            one = ls.prepare([ls.Cut(20, s.edges, weights)])
            expected = one.conditional_means(own, [1.0], 5, 2, numbers=[m])
            np.testing.assert_allclose(found[m], expected[0], atol=1e-6)


def test_it_depends_on_no_other_problem_thread_or_block(monkeypatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((9, 130)))
    theta = rng.normal(size=(3, s.n))
    found = s.conditional_means(theta, [0.5, 0.5], 70, seed, numbers=[5, 6, 7])
    again = s.conditional_means(theta, [0.5, 0.5], 70, seed, numbers=[5, 6, 7], n_jobs=2)
    alone = s.conditional_means(theta[1], [0.5, 0.5], 70, seed, numbers=[6])
    monkeypatch.setattr(_conditional, "_SAMPLE_BYTES", 10 * theta.size)
    blocks = s.conditional_means(theta, [0.5, 0.5], 70, seed, numbers=[5, 6, 7])
    for other, mine in ((again, found), (alone[0], found[1]), (blocks, found)):
        np.testing.assert_array_equal(other, mine)


def test_fixed_elements_are_0_or_1_and_hold_their_neighbours() -> None:
    theta = np.array([np.inf, 0.0, -np.inf, 0.0])
    s = ls.prepare([ls.Cut(4, [(0, 1), (2, 3)], [2.0, 3.0])])
    found = s.conditional_means(theta, [1.0], 10, 0)[0]
    np.testing.assert_allclose(found, [1.0, expit(2.0), 0.0, expit(-3.0)], atol=1e-6)


def test_without_kernels_the_same(monkeypatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts, theta = ls.grid_cuts((4, 5)), rng.normal(size=(2, 20))
    found = ls.prepare(cuts).conditional_means(theta, [0.5, 0.9], 6, seed)
    for module in ("_flow", "_conditional"):
        monkeypatch.setattr(f"logsuper.solvers.{module}.kernels", lambda: None)
    slow = ls.prepare(cuts).conditional_means(theta, [0.5, 0.9], 6, seed)
    np.testing.assert_allclose(slow, found, atol=1e-6)


def test_bad_calls_are_refused() -> None:
    s = ls.prepare(ls.grid_cuts((3, 3)))
    with pytest.raises(ValueError, match="rounds must be at least 0"):
        s.conditional_means(np.zeros(9), [1.0, 1.0], 5, 0, rounds=-1)
    with pytest.raises(ValueError, match="theta"):
        s.conditional_means(np.zeros(8), [1.0, 1.0], 5, 0)
    with pytest.raises(ValueError, match="nan"):
        s.conditional_means(np.full(9, np.nan), [1.0, 1.0], 5, 0)
    assert s.conditional_means(np.zeros((0, 9)), [1.0, 1.0], 5, 0).shape == (0, 9)


@pytest.mark.skipif(kernels() is None, reason="needs the compiled kernels")
def test_the_kernels_refuse_arrays_that_do_not_fit() -> None:
    native = kernels()
    good = {
        "theta": np.zeros((2, 6)),
        "labels": np.zeros((2, 3, 6), np.uint8),
        "numbers": np.zeros(2, np.uint64),
        "key": 0,
        "first_sample": 0,
        "rounds": 1,
        "threads": 1,
        "sums": np.zeros((2, 6)),
    }
    grid = {"offsets": np.array([1, 3]), "weights": np.ones((1, 2, 6)), **good}
    graph = {"edges": np.array([[0, 1], [2, 5]]), "weights": np.ones((2, 2)), **good}
    bad = {
        "theta": [np.zeros((2, 5)), np.zeros((3, 6)), np.zeros(6), np.zeros((2, 6, 1))],
        "labels": [np.zeros((2, 3, 5), np.uint8), np.zeros((1, 3, 6), np.uint8)],
        "numbers": [np.zeros(3, np.uint64), np.zeros((2, 1), np.uint64), np.array(1, np.uint64)],
        "rounds": [-1, 2**30],
        "threads": [0],
        "sums": [np.zeros((2, 5)), np.zeros(6), np.zeros(())],
    }
    own = {
        "offsets": [np.array([0, 3]), np.array([1, 6]), np.array([-1, 3]), np.array([[1, 3]])],
        "edges": [np.array([[0, 6]] * 2), np.array([[-1, 2]] * 2), np.array([0, 1])],
        "weights": [-np.ones((1, 2, 6)), np.ones((1, 3, 6)), np.ones(6), np.full((2, 2), np.nan)],
    }
    for call, arguments in ((native.conditional_grid, grid), (native.conditional_graph, graph)):
        call(**arguments)
        for name, values in itertools.chain(bad.items(), own.items()):
            for value in values if name in arguments else ():
                with pytest.raises((ValueError, TypeError)):
                    call(**{**arguments, name: value})
