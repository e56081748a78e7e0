"""Losses of single labels: against enumeration, single maximisations and differences."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest
from scipy.special import expit

import logsuper as ls
from logsuper.solvers import _flips
from logsuper.solvers._native import kernels
from logsuper.solvers._noise import logistic_noise


def brute(
    f: ls.SubmodularFunction, theta: np.ndarray, x: np.ndarray, costs: np.ndarray, samples: int
) -> float:
    """Return the loss with key 7, each maximum by enumeration."""
    states = oracles.enumerate_x(f.n)
    right = np.zeros((samples, f.n))
    for s, z in enumerate(logistic_noise(7, 0, np.arange(samples), f.n)[0]):
        value = states @ (theta + z) - f(states)
        for d in range(f.n):
            up, down = (value[states[:, d] == v].max() for v in (1, 0))
            margin = (up - down - z[d]) * (1.0 if x[d] == 1 else -1.0)
            right[s, d] = expit(np.clip(margin, -500.0, 500.0))
    r, own = right.mean(axis=0), np.minimum(x, 1)
    a, b = costs[np.arange(f.n), own], costs[np.arange(f.n), 1 - own]
    # the costs tilt the odds, and weigh the log loss of what comes out
    return -float((a * np.log(a * r / (a * r + b * (1.0 - r))))[x < 2].sum())


@pytest.mark.parametrize("family", list(oracles.FAMILIES))
def test_every_family_against_enumeration(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, 6)
    theta, x = 2.0 * rng.normal(size=(2, 6)), rng.integers(0, 3, (2, 6))
    costs = rng.exponential(size=(2, 6, 2))
    found = ls.prepare([f]).label_losses(
        theta, [1.0], x, costs, n_samples=6, seed=7, numbers=[0, 0]
    )
    for m in range(2):
        assert found.values[m] == pytest.approx(brute(f, theta[m], x[m], costs[m], 6), rel=1e-4)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3)])
def test_slopes_are_differences(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts(shape)
    functions = [cuts[0] - ls.Modular(rng.normal(size=12)), *cuts[1:]]
    s, alpha = ls.prepare(functions), rng.uniform(0.2, 1.0, len(cuts))
    theta, x = rng.normal(size=12), rng.integers(0, 2, 12)
    factors, costs = rng.exponential(size=len(s.edges)), rng.exponential(size=(12, 2))

    def loss(theta: np.ndarray, alpha: np.ndarray) -> ls.LabelLosses:
        return s.label_losses(theta, alpha, x, costs, n_samples=20, seed=seed, edge_weights=factors)

    found, step = loss(theta, alpha), 1e-6
    assert found.values[0] > 0.0
    for slope, unit in [
        *zip(found.mean[0], np.eye(12), strict=True),
        *zip(-found.stats[0], np.eye(len(alpha)), strict=True),
    ]:
        change = [
            loss(theta + e * unit, alpha) if len(unit) == 12 else loss(theta, alpha + e * unit)
            for e in (-step, step)
        ]
        difference = (change[1].values[0] - change[0].values[0]) / (2 * step)
        assert abs(difference - slope) < 1e-5 * max(1.0, abs(slope))


@pytest.mark.parametrize(("shape", "neighbors"), [((8, 17), 4), ((6, 7), 8), ((3, 4, 5), 26)])
def test_one_flow_gives_what_single_maximisations_give(
    shape: tuple[int, ...], neighbors: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, shape).ravel()
    cuts = ls.grid_cuts(shape, neighbors)
    s, alpha = ls.prepare(cuts), rng.uniform(0.0, 6.0 / len(cuts), len(cuts))
    theta = 2.0 * (2.0 * ls.Flips(0.1).sample(x, seed=seed) - 1.0) + rng.normal(size=(2, s.n))
    theta[1, :3] = np.inf, -np.inf, 1e9
    labels = np.where(np.abs(theta) > 1e6, np.nan, x)
    costs = rng.exponential(size=(2, s.n, 2))
    found = s.label_losses(theta, alpha, labels, costs, n_samples=3, seed=seed)
    monkeypatch.setattr(_flips, "kernels", lambda: None)
    slow = s.label_losses(theta, alpha, labels, costs, n_samples=3, seed=seed)
    for ours, theirs in zip(found, slow, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * abs(theirs).max())


def test_probabilities_are_those_of_many_rounds(seed: int) -> None:
    """On a tree, where the messages of `conditional_means` are exact."""
    rng = np.random.default_rng(seed)
    f = ls.Cut(8, [(int(rng.integers(i)), i) for i in range(1, 8)], rng.exponential(size=7))
    theta, s = rng.normal(size=8), ls.prepare([f])
    p = s.conditional_means(theta, [1.0], 30, seed, rounds=8)[0]
    for d, label in [(0, 1), (3, 0)]:
        x = np.where(np.arange(8) == d, label, 2)
        found = s.label_losses(theta, [1.0], x, n_samples=30, seed=seed).values[0]
        assert np.exp(-found) == pytest.approx(p[d] if label else 1.0 - p[d], abs=1e-5)


def test_it_depends_on_no_other_problem_or_thread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((8, 9)))
    theta, x = rng.normal(size=(3, 72)), rng.integers(0, 2, 72)
    given = {"n_samples": 4, "seed": seed, "costs": rng.exponential(size=(72, 2))}
    found = s.label_losses(theta, [0.5, 0.7], x, numbers=[3, 4, 5], **given)
    again = s.label_losses(theta, [0.5, 0.7], x, numbers=[3, 4, 5], n_jobs=2, **given)
    alone = s.label_losses(theta[1], [0.5, 0.7], x, numbers=[4], **given)
    np.testing.assert_array_equal(found.values, again.values)
    np.testing.assert_array_equal(found.mean, again.mean)
    assert found.values[1] == alone.values[0]
    np.testing.assert_array_equal(found.stats[1], alone.stats[0])


def test_bad_calls_are_refused() -> None:
    s = ls.prepare(ls.grid_cuts((3, 3)))
    zero, one, costs = np.zeros(9), np.ones(9), np.ones(2)
    for theta, labels, price, told in [
        (zero, one * 3, costs, r"labels\[0\] = 3: must be 0 or 1"),
        (zero, one, -costs, r"costs\[0\] = -1 is negative"),
        (zero, one, costs * np.inf, r"costs\[0\] = inf: must be finite"),
        (zero, one[:4], costs, "labels must have shape"),
        (zero, one, np.ones((2, 9)), "costs must have shape"),
        (zero + np.inf, one, costs, r"theta\[0, 0\] = inf: leaves no doubt"),
        (zero * np.nan, one, costs, r"theta\[0\] = nan"),
    ]:
        with pytest.raises(ValueError, match=told):
            s.label_losses(theta, [1.0, 1.0], labels, price, n_samples=2, seed=0)
    empty = s.label_losses(np.zeros((0, 9)), [1.0, 1.0], one, n_samples=2, seed=0)
    assert empty.values.shape == (0,) and empty.mean.shape == (0, 9)


@pytest.mark.skipif(kernels() is None, reason="needs the compiled kernels")
def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    good = {
        "edges": np.array([[0, 1], [2, 5]]),
        "weights": np.ones((1, 2)),
        "theta": np.zeros((2, 6)),
        "labels": np.zeros((2, 6), np.uint8),
        "costs": np.ones((2, 6, 2)),
        "numbers": np.zeros(2, np.uint64),
        "key": 0,
        "first_sample": 0,
        "threads": 1,
        "samples": 3,
        "values": np.zeros(2),
        "fields": np.zeros((2, 6)),
        "cuts": np.zeros((2, 2)),
    }
    bad = {
        "edges": [np.array([[0, 6]] * 2), np.array([[1, 0]] * 2), np.array([0, 1])],
        "weights": [-np.ones((1, 2)), np.ones((3, 2)), np.ones((1, 3)), np.ones(2)],
        "theta": [np.zeros((2, 5)), np.zeros(6), np.full((2, 6), np.nan)],
        "labels": [np.zeros((1, 6), np.uint8), np.zeros((2, 5), np.uint8)],
        "costs": [-np.ones((2, 6, 2)), np.full((2, 6, 2), np.nan), np.ones((2, 6))],
        "samples": [0],
        "numbers": [np.zeros(3, np.uint64)],
        "threads": [0],
        "values": [np.zeros((2, 3)), np.zeros(3)],
        "fields": [np.zeros((2, 5)), np.zeros(12)],
        "cuts": [np.zeros((2, 3)), np.zeros((1, 2))],
    }
    kernels().flip_labels(**good)
    for name, value in itertools.chain.from_iterable(
        ((name, value) for value in values) for name, values in bad.items()
    ):
        with pytest.raises((ValueError, TypeError)):
            kernels().flip_labels(**{**good, name: value})
