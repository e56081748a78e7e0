"""Layers against numerical gradients; all skip where PyTorch is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls
from logsuper import learning

# `torch` alone would find this folder where PyTorch is not installed
pytest.importorskip("torch.autograd", reason="PyTorch is not installed: make test-torch")
import torch

from logsuper.torch import perturbed_loss, perturbed_means, total_variation

SHAPE = (3, 3)
EDGES = len(ls.prepare(ls.grid_cuts(SHAPE)).edges)


def draw(seed, shared=False):
    rng = np.random.default_rng(seed)
    theta = torch.tensor(rng.normal(scale=2.0, size=(3, *SHAPE)), requires_grad=True)
    size = (EDGES,) if shared else (3, EDGES)
    weights = torch.tensor(rng.uniform(0.2, 1.0, size=size), requires_grad=True)
    return theta, weights, torch.tensor(rng.integers(0, 2, (3, *SHAPE)).astype(float))


def check(function, *inputs):
    # piecewise linear: steps small enough that none crosses a kink, for these seeds
    return torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-4)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_gradcheck_of_the_loss(seed, shared, missing):
    theta, weights, y = draw(seed, shared)
    if missing:
        y[:, 0, :2] = float("nan")
    options = {"shape": SHAPE, "n_samples": 4, "sigma": 0.8, "seed": seed}
    assert check(lambda t, w: perturbed_loss(t, w, y, **options), theta, weights)


@pytest.mark.parametrize("shared", [False, True])
def test_gradcheck_of_total_variation(seed, shared):
    theta, weights, _ = draw(seed, shared)
    assert check(lambda t, w: total_variation(t, w, shape=SHAPE), theta, weights)


def test_means_have_the_gradients_that_are_pulled_back(seed):
    theta, weights, _ = draw(seed)
    options = {"shape": SHAPE, "n_samples": 50, "seed": seed}
    p = perturbed_means(theta, weights, **options)
    g = torch.linspace(-1.0, 1.0, p.numel(), dtype=torch.float64).reshape(p.shape)
    (p * g).sum().backward()
    found = learning.perturbed_means(theta.detach().numpy(), weights.detach().numpy(), **options)
    d_theta, d_weights = found.pull_back(g.numpy())
    np.testing.assert_array_equal(p.detach().numpy(), found.mean)
    np.testing.assert_array_equal(theta.grad.numpy(), d_theta)
    np.testing.assert_array_equal(weights.grad.numpy(), d_weights)


def test_graphs_single_problems_and_single_precision():
    graph = ls.prepare([ls.Cut(4, [(0, 1), (1, 2), (0, 3)])])
    theta = torch.tensor([1.0, -0.5, 0.3, 2.0], requires_grad=True)
    weights = torch.full((3,), 0.5, requires_grad=True)
    y = torch.tensor([1, 0, 0, 1])
    for found in (
        perturbed_loss(theta, weights, y, graph),
        perturbed_means(theta, weights, graph).sum(),
        total_variation(theta, weights, graph)[0],
    ):
        assert found.shape == () and found.dtype == torch.float32
        theta.grad = weights.grad = None
        found.backward()
        assert theta.grad.dtype == torch.float32 and weights.grad.shape == (3,)


def test_a_network_learns_through_the_loss():
    torch.manual_seed(0)
    masks = ls.make_silhouettes(6, shape=(16, 16), seed=0).astype(np.float32)
    noisy = masks + np.random.default_rng(0).normal(scale=0.5, size=masks.shape).astype(np.float32)
    network = torch.nn.Conv2d(1, 1, 3, padding=1)
    raw = torch.zeros(2, requires_grad=True)
    across = len(ls.grid_cuts((16, 16))[0].edges)
    optimiser = torch.optim.Adam([*network.parameters(), raw], lr=0.1)
    losses = []
    for step in range(30):
        theta = network(torch.tensor(noisy)[:, None])[:, 0]
        weights = torch.nn.functional.softplus(raw).repeat_interleave(across)
        loss = perturbed_loss(theta, weights, torch.tensor(masks), shape=(16, 16), seed=step).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    cut = ls.prepare(ls.grid_cuts((16, 16)))
    y, _, _ = cut.maximize(
        theta.detach().numpy().reshape(6, -1).astype(float),
        [1.0, 1.0],
        edge_weights=weights.detach().numpy().astype(float),
    )
    assert np.mean(y.reshape(masks.shape) != masks) < 0.1


@pytest.mark.parametrize("name", ["theta", "edge_weights", "y"])
def test_what_is_not_a_tensor_is_named(name):
    given = {"theta": torch.zeros(9), "edge_weights": torch.ones(EDGES), "y": torch.zeros(9)}
    with pytest.raises(TypeError, match=f"{name} must be a tensor"):
        perturbed_loss(**{**given, name: np.zeros(9)}, shape=SHAPE)


def test_the_benchmark_checks_its_gradients():
    from benchmarks.torch_horses import check_gradients

    assert "gradcheck has passed" in check_gradients()
