"""Channels, models and their likelihoods by enumeration, for what is learned from observations."""

from __future__ import annotations

import numpy as np
from oracles import enumerate_x

import logsuper as ls
from logsuper.channels import Channel
from logsuper.learning import Examples, make_examples

SHAPE = (2, 3)

CHANNELS: dict[str, Channel] = {
    "flips": ls.Flips(0.15),
    "flips, one rate a pixel": ls.Flips(np.linspace(0.05, 0.4, 6).reshape(SHAPE)),
    "flips, one rate a row": ls.Flips([[0.1], [0.3]]),
    "flips, grouped": ls.Flips([0.1, 0.3], groups=np.arange(6).reshape(SHAPE) % 2),
    "asymmetric": ls.AsymmetricFlips(on=0.05, off=0.3),
    "asymmetric, one rate a pixel": ls.AsymmetricFlips(
        0.1, np.linspace(0.1, 0.4, 6).reshape(SHAPE)
    ),
    "Gaussian": ls.Gaussian(scale=0.7),
    "Gaussian, two scales": ls.Gaussian(mean=(-1.0, 2.0), scale=(0.5, 1.5)),
    "missing": ls.Missing(0.3, ls.Flips(0.2)),
}


def random_theta(rng: np.random.Generator, data: Examples) -> np.ndarray:
    """Return couplings in [0, 1.5) and normal fields."""
    theta = rng.normal(size=data.layout.size)
    theta[data.layout.blocks["alpha"]] = rng.uniform(0, 1.5, data.layout.functions)
    return theta


def random_data(
    rng: np.random.Generator, channel: Channel, count: int = 5, modular: str = "pixel"
) -> Examples:
    """Return observations of random images, some pixels missing."""
    z = channel.sample(rng.integers(0, 2, (count, *SHAPE)), rng)
    z[rng.random(z.shape) < 0.1] = np.nan
    return make_examples(ls.grid_cuts(SHAPE), observed=z, channel=channel, modular=modular)


def brute_log_evidence(
    data: Examples, theta: np.ndarray, channel: Channel | None = None
) -> np.ndarray:
    """Return log p(z) of images on the grid, by summing p(x) p(z | x) over all x."""
    (group,) = data.groups
    X = enumerate_x(group.prepared.n)
    fields = data.fields(theta, group, np.arange(1), observed=False)[0]
    alpha = theta[data.layout.blocks["alpha"]]
    energy = sum(a * f(X) for a, f in zip(alpha, group.prepared.functions, strict=True))
    prior = X @ fields - energy
    prior = prior - np.logaddexp.reduce(prior)
    used = data.channel if channel is None else channel
    z = group.read_observed(np.arange(group.count)).reshape(-1, *group.shape)
    zero, one = (part.reshape(len(z), -1) for part in used.log_likelihoods(z))
    likelihood = np.where(X == 1, one[:, None], zero[:, None]).sum(axis=2)
    return np.logaddexp.reduce(prior + likelihood, axis=1)
