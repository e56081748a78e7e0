"""Losses and layers of perturbed cuts, against finite differences and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import enumerate_x
from scipy.special import expit

import logsuper as ls
from logsuper.learning import perturbed_loss, perturbed_means, total_variation

SHAPE = (3, 3)
EDGES = np.concatenate([cut.edges for cut in ls.grid_cuts(SHAPE)])


def grid():
    """Return the solver; as a global it would outlive the kernels."""
    return ls.prepare(ls.grid_cuts(SHAPE))


def draw(seed, count=4):
    rng = np.random.default_rng(seed)
    theta = rng.normal(scale=2.0, size=(count, 9))
    return rng, theta, rng.exponential(size=(count, len(EDGES))), rng.integers(0, 2, (count, 9))


def energies(theta, weights, states):
    """Return theta'y - f_w(y) of all states."""
    cut = states[:, EDGES[:, 0]] != states[:, EDGES[:, 1]]
    return states @ theta - cut @ weights


def differences(function, point, eps=1e-6):
    """Return the central differences of a number by the entries of a point."""
    found = np.empty(point.shape)
    for at in np.ndindex(point.shape):
        step = np.zeros(point.shape)
        step[at] = eps
        found[at] = (function(point + step) - function(point - step)) / (2 * eps)
    return found


def hide(rng, y, share=0.4):
    return np.where(rng.random(y.shape) < share, np.nan, y)


@pytest.mark.parametrize("missing", [False, True])
def test_gradients_are_finite_differences_for_fixed_noise(seed, missing):
    rng, theta, weights, y = draw(seed)
    y = hide(rng, y) if missing else y
    options = {"shape": SHAPE, "n_samples": 5, "sigma": 0.7, "seed": seed}
    _, d_theta, d_weights = perturbed_loss(theta, weights, y, **options)

    def total(t, w):
        return perturbed_loss(t, w, y, **options).loss.sum()

    np.testing.assert_allclose(d_theta, differences(lambda t: total(t, weights), theta), atol=1e-6)
    np.testing.assert_allclose(
        d_weights, differences(lambda w: total(theta, w), weights), atol=1e-6
    )


def test_the_loss_is_the_mean_of_enumerated_gaps(seed):
    rng, theta, weights, y = draw(seed)
    y = hide(rng, y, 0.3)
    y[0] = 1.0
    sigma, count = 0.5, 6
    found = perturbed_loss(theta, weights, y, grid(), n_samples=count, sigma=sigma, seed=seed)
    noise = ls.solvers.logistic_noise(seed, range(len(y)), range(count), 9)
    states = enumerate_x(9)
    for m in range(len(y)):
        agree = ((states == y[m]) | np.isnan(y[m])).all(axis=1)
        gaps = []
        for z in noise[m]:
            values = energies(theta[m] + sigma * z, weights[m], states)
            gaps.append(values.max() - values[agree].max())
        assert found.loss[m] == pytest.approx(np.mean(gaps), abs=1e-5)
        assert found.loss[m] >= -1e-5


def test_without_noise_it_is_the_gap_of_the_most_probable_labels(seed):
    _, theta, weights, y = draw(seed)
    states = enumerate_x(9)
    found = perturbed_loss(theta, weights, y, shape=SHAPE, sigma=1e-9, seed=seed)
    for m in range(len(y)):
        values = energies(theta[m], weights[m], states)
        best = states[values.argmax()]
        gap = values.max() - energies(theta[m], weights[m], y[m : m + 1])[0]
        assert found.loss[m] == pytest.approx(gap, abs=1e-6)
        np.testing.assert_array_equal(found.d_theta[m], best - y[m])


def test_the_loss_is_zero_with_gradient_zero_where_labels_are_always_best():
    y = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    theta = 60.0 * (2 * y - 1.0)
    loss, d_theta, d_weights = perturbed_loss(theta, np.ones(len(EDGES)), y, shape=SHAPE)
    assert loss == pytest.approx(0.0, abs=1e-4)
    assert not d_theta.any() and not d_weights.any()
    assert d_theta.shape == SHAPE and d_weights.shape == (len(EDGES),)


def test_the_gradient_vanishes_in_the_mean_where_labels_come_from_the_model(seed):
    _, theta, weights, _ = draw(seed, count=1)
    drawn = grid().perturb(theta, [1.0, 1.0], 4000, 1, True, edge_weights=weights).samples[0]
    many = np.repeat(theta, len(drawn), axis=0)
    _, d_theta, d_weights = perturbed_loss(many, weights[0], drawn, grid(), n_samples=1, seed=2)
    for gradient in (d_theta, d_weights):
        error = gradient.std(axis=0) / np.sqrt(len(drawn))
        assert (np.abs(gradient.mean(axis=0)) < 4.5 * error + 1e-3).all()


def test_it_is_convex(seed):
    rng, theta, weights, y = draw(seed, count=2)
    other, others = rng.normal(size=theta.shape), rng.exponential(size=weights.shape)

    def loss(t):
        mixed = ((1 - t) * theta + t * other, (1 - t) * weights + t * others)
        return perturbed_loss(*mixed, y, shape=SHAPE, n_samples=4, seed=seed).loss

    for t in (0.2, 0.5, 0.9):
        assert (loss(t) <= (1 - t) * loss(0.0) + t * loss(1.0) + 1e-5).all()


def test_without_edges_it_is_the_logistic_loss():
    theta = np.array([[-1.5], [0.3], [2.0]])
    y = np.array([[1], [0], [1]])
    found = perturbed_loss(theta, np.zeros((3, 0)), y, shape=(1,), n_samples=100_000)
    np.testing.assert_allclose(found.loss, np.logaddexp(0.0, (1 - 2 * y) * theta)[:, 0], atol=0.01)
    np.testing.assert_allclose(found.d_theta, expit(theta) - y, atol=0.01)


def test_threads_and_batches_change_nothing(seed):
    _, theta, weights, y = draw(seed)
    one = perturbed_loss(theta, weights, y, shape=SHAPE, seed=seed)
    two = perturbed_loss(theta, weights, y, shape=SHAPE, seed=seed, n_jobs=2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    images = perturbed_loss(
        theta.reshape(-1, *SHAPE), weights, y.reshape(-1, *SHAPE), shape=SHAPE, seed=seed
    )
    np.testing.assert_array_equal(images.d_theta.reshape(-1, 9), one.d_theta)
    first = perturbed_loss(theta[0], weights[0], y[0], shape=SHAPE, seed=seed)
    assert first.loss == pytest.approx(one.loss[0])


def test_weights_of_the_cuts_themselves_count():
    edges = [(0, 1), (1, 2), (0, 1)]
    graph = ls.prepare([ls.Cut(3, edges, [1.0, 2.0, 0.5]), ls.Cut(3, [(1, 2)], 3.0)])
    theta, y = np.array([1.0, -2.0, 0.7]), np.array([1, 0, 1])
    weights = np.array([0.6, 0.2])
    whole = ls.prepare([ls.Cut(3, graph.edges)])
    a = perturbed_loss(theta, weights, y, graph, seed=3)
    b = perturbed_loss(theta, weights * [1.5, 5.0], y, whole, seed=3)
    assert a.loss == pytest.approx(b.loss)
    np.testing.assert_allclose(a.d_edge_weights, b.d_edge_weights * [1.5, 5.0])


def test_means_and_their_pull_back_are_those_of_many_draws(seed):
    rng, theta, weights, _ = draw(seed, count=1)
    weights += 0.3
    g = rng.normal(size=(1, 9))
    options = {"shape": SHAPE, "n_samples": 20_000}
    found = perturbed_means(theta, weights, seed=seed, **options)
    many = grid().perturb(theta, [1.0, 1.0], 20_000, seed, edge_weights=weights).mean
    np.testing.assert_allclose(found.mean, many)

    def value(t, w):  # the same noise on both sides of a difference
        return float((g * perturbed_means(t, w, seed=99, **options).mean).sum())

    d_theta, d_weights = found.pull_back(g)
    # the standard error of a covariance with u is at most sqrt(|g|^2 / 3 / 4 / 20 000), about .006
    wide = differences(lambda t: value(t, weights), theta, 0.2)
    np.testing.assert_allclose(d_theta, wide, atol=0.05)
    wide = differences(lambda w: value(theta, w), weights, 0.2)
    np.testing.assert_allclose(d_weights, wide, atol=0.05)


def test_total_variation_is_a_minimum_with_gradients_of_finite_differences(seed):
    rng, theta, weights, _ = draw(seed, count=3)
    weights *= 0.4
    g = rng.normal(size=theta.shape)
    found = total_variation(theta, weights, shape=SHAPE)

    def objective(x):
        jumps = np.abs(x[:, EDGES[:, 0]] - x[:, EDGES[:, 1]])
        return 0.5 * ((x - theta) ** 2).sum(axis=1) + (weights * jumps).sum(axis=1)

    for _ in range(20):
        other = found.values + rng.normal(scale=0.1, size=theta.shape)
        assert (objective(found.values) <= objective(other)).all()

    def value(t, w):
        return float((g * total_variation(t, w, shape=SHAPE).values).sum())

    d_theta, d_weights = found.pull_back(g)
    np.testing.assert_allclose(d_theta, differences(lambda t: value(t, weights), theta), atol=1e-5)
    np.testing.assert_allclose(
        d_weights, differences(lambda w: value(theta, w), weights), atol=1e-5
    )


def test_total_variation_takes_graphs_and_shared_weights(seed):
    rng = np.random.default_rng(seed)
    edges = [(i, j) for i in range(6) for j in range(i) if rng.random() < 0.5] or [(0, 1)]
    graph = ls.prepare([ls.Cut(6, edges, rng.exponential(size=len(edges)))])
    theta, weights = rng.normal(size=(3, 6)), rng.exponential(size=len(graph.edges))
    found = total_variation(theta, weights, graph, n_jobs=2)
    cut = graph.functions[0]
    expected = ls.min_norm_point(cut.with_weights(cut.weights * weights), theta).s
    np.testing.assert_allclose(found.values, -expected, atol=1e-9)
    assert found.pull_back(np.ones((3, 6)))[1].shape == (3, len(graph.edges))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": np.zeros((2, 8))}, "theta must have shape"),
        ({"theta": np.full(9, np.nan)}, r"theta\[0\] = nan"),
        ({"edge_weights": np.ones(5)}, "edge_weights must have shape"),
        ({"edge_weights": -np.ones(len(EDGES))}, r"edge_weights\[0\] = -1 is negative"),
        ({"y": np.full(9, 2)}, r"y\[0\] = 2: a label is 0 or 1"),
        ({"y": np.zeros(8)}, "y has shape"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"shape": None}, "give either structure"),
        ({"structure": grid}, "give either structure"),
        ({"structure": grid, "shape": None, "neighbors": 4}, "neighbors belongs to shape"),
        ({"structure": lambda: ls.prepare([ls.Modular(np.ones(9))]), "shape": None}, "cuts alone"),
        ({"structure": lambda: 3, "shape": None}, "structure must be what"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"theta": np.zeros(9), "edge_weights": np.ones(len(EDGES)), "y": np.zeros(9)}
    if "structure" in change:
        change = {**change, "structure": change["structure"]()}
    with pytest.raises((ValueError, TypeError), match=message):
        perturbed_loss(**{**given, "shape": SHAPE, **change})


def test_the_gradient_that_is_pulled_back_has_the_shape_of_theta():
    found = total_variation(np.zeros(9), np.ones(len(EDGES)), shape=SHAPE)
    with pytest.raises(ValueError, match="gradient has shape"):
        found.pull_back(np.zeros(8))
