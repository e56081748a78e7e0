"""Losses of elements held at their labels: against enumeration, maximisations, differences."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest

import logsuper as ls
from logsuper.solvers import _flips
from logsuper.solvers._native import kernels
from logsuper.solvers._noise import logistic_noise


def brute(
    f: ls.SubmodularFunction, theta: np.ndarray, x: np.ndarray, costs: np.ndarray, samples: int
) -> np.ndarray:
    """Return L of each sample with key 7, each maximum by enumeration."""
    states = oracles.enumerate_x(f.n)
    found = np.zeros(samples)
    for s, z in enumerate(logistic_noise(7, 0, np.arange(samples), f.n)[0]):
        value = states @ (theta + z) - f(states)
        for d in np.flatnonzero(x < 2):
            found[s] += costs[d] * (value.max() - value[states[:, d] == x[d]].max())
    return found


@pytest.mark.parametrize("family", list(oracles.FAMILIES))
def test_every_family_against_enumeration(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, 6)
    theta, x = 2.0 * rng.normal(size=(2, 6)), rng.integers(0, 3, (2, 6))
    costs = rng.exponential(size=(2, 6)) * rng.integers(0, 2, (2, 6))
    found = ls.prepare([f]).label_losses(theta, [1.0], x, costs, 8, 7, numbers=[0, 0])
    for m in range(2):
        np.testing.assert_allclose(
            found.values[m], brute(f, theta[m], x[m], costs[m], 8), atol=1e-5
        )


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3)])
def test_derivatives_are_differences(shape: tuple[int, ...], seed: int) -> None:
    """L is piecewise linear: small steps stay on one piece, but for a few elements."""
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts(shape)
    functions = [cuts[0] - ls.Modular(rng.normal(size=12)), *cuts[1:]]
    s, alpha = ls.prepare(functions), rng.uniform(0.2, 1.0, len(cuts))
    theta, x = rng.normal(size=12), rng.integers(0, 2, 12)
    factors, costs = rng.exponential(size=len(s.edges)), rng.exponential(size=12)

    def loss(theta: np.ndarray, alpha: np.ndarray) -> ls.solvers.Perturbed:
        return s.label_losses(theta, alpha, x, costs, 50, seed, edge_weights=factors)

    found, step = loss(theta, alpha), 1e-7
    assert found.values.min() >= 0.0 < found.values.max()
    for slope, unit in [
        *zip(found.mean[0], np.eye(12), strict=True),
        *zip(-found.stats[0], np.eye(len(alpha)), strict=True),
    ]:
        change = [
            loss(theta + e * unit, alpha) if len(unit) == 12 else loss(theta, alpha + e * unit)
            for e in (-step, step)
        ]
        difference = (change[1].values.mean() - change[0].values.mean()) / (2 * step)
        assert abs(difference - slope) < 1e-5 * max(1.0, abs(slope))


@pytest.mark.parametrize(("shape", "neighbors"), [((13, 30), 4), ((9, 9), 8), ((5, 6, 7), 26)])
def test_one_flow_gives_what_single_maximisations_give(
    shape: tuple[int, ...], neighbors: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, shape).ravel()
    cuts = ls.grid_cuts(shape, neighbors)
    s, alpha = ls.prepare(cuts), rng.uniform(0.0, 6.0 / len(cuts), len(cuts))
    theta = 2.0 * (2.0 * ls.Flips(0.1).sample(x, seed=seed) - 1.0) + rng.normal(size=(2, s.n))
    theta[1, :3] = np.inf, -np.inf, 1e9
    costs = np.where(np.isinf(theta), 0.0, rng.exponential(size=(2, s.n)))
    found = s.label_losses(theta, alpha, x, costs, 3, seed)
    monkeypatch.setattr(_flips, "kernels", lambda: None)
    slow = s.label_losses(theta, alpha, x, costs, 3, seed)
    for name in ("values", "mean", "stats"):
        ours, theirs = getattr(found, name), getattr(slow, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * abs(theirs).max())


def test_it_depends_on_no_other_problem_or_thread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((8, 9)))
    theta, x, costs = rng.normal(size=(3, 72)), rng.integers(0, 2, 72), rng.exponential(size=72)
    given = ([0.5, 0.7], x, costs, 4, seed)
    found = s.label_losses(theta, *given, numbers=[3, 4, 5])
    again = s.label_losses(theta, *given, numbers=[3, 4, 5], n_jobs=2)
    alone = s.label_losses(theta[1], *given, numbers=[4])
    np.testing.assert_array_equal(found.values, again.values)
    np.testing.assert_array_equal(found.mean, again.mean)
    np.testing.assert_array_equal(found.values[1], alone.values[0])
    np.testing.assert_array_equal(found.stats[1], alone.stats[0])


def test_bad_calls_are_refused() -> None:
    s = ls.prepare(ls.grid_cuts((3, 3)))
    zero, one = np.zeros(9), np.ones(9)
    for labels, costs, told in [
        (one * 3, one, r"labels\[0\] = 3: must be 0 or 1"),
        (one, -one, r"costs\[0\] = -1 is negative"),
        (one, one * np.inf, r"costs\[0\] = inf: must be finite"),
        (one[:4], one, "labels must have shape"),
        (one, np.ones((2, 9)), "costs must have shape"),
    ]:
        with pytest.raises(ValueError, match=told):
            s.label_losses(zero, [1.0, 1.0], labels, costs, 2, 0)
    with pytest.raises(ValueError, match=r"theta\[0\] = nan"):
        s.label_losses(np.full(9, np.nan), [1.0, 1.0], one, one, 2, 0)
    assert s.label_losses(np.zeros((0, 9)), [1.0, 1.0], one, one, 2, 0).values.shape == (0, 2)


@pytest.mark.skipif(kernels() is None, reason="needs the compiled kernels")
def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    good = {
        "edges": np.array([[0, 1], [2, 5]]),
        "weights": np.ones((1, 2)),
        "theta": np.zeros((2, 6)),
        "labels": np.zeros((2, 6), np.uint8),
        "costs": np.ones((2, 6)),
        "numbers": np.zeros(2, np.uint64),
        "key": 0,
        "first_sample": 0,
        "threads": 1,
        "values": np.zeros((2, 3)),
        "fields": np.zeros((2, 6)),
        "cuts": np.zeros((2, 2)),
    }
    bad = {
        "edges": [np.array([[0, 6]] * 2), np.array([[1, 0]] * 2), np.array([0, 1])],
        "weights": [-np.ones((1, 2)), np.ones((3, 2)), np.ones((1, 3)), np.ones(2)],
        "theta": [np.zeros((2, 5)), np.zeros(6), np.full((2, 6), np.nan)],
        "labels": [np.zeros((1, 6), np.uint8), np.zeros((2, 5), np.uint8)],
        "costs": [-np.ones((2, 6)), np.full((2, 6), np.nan), np.ones((2, 5))],
        "numbers": [np.zeros(3, np.uint64)],
        "threads": [0],
        "values": [np.zeros((1, 3)), np.zeros(3)],
        "fields": [np.zeros((2, 5)), np.zeros(12)],
        "cuts": [np.zeros((2, 3)), np.zeros((1, 2))],
    }
    kernels().flip_labels(**good)
    for name, value in itertools.chain.from_iterable(
        ((name, value) for value in values) for name, values in bad.items()
    ):
        with pytest.raises((ValueError, TypeError)):
            kernels().flip_labels(**{**good, name: value})
