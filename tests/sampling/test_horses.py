"""Exact posterior samples of real silhouettes, where the Weizmann horses are at hand."""

from __future__ import annotations

import numpy as np
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper.sampling import NotCoalesced, sample


def posterior(x: np.ndarray, noise: float, seed: int, unseen: slice) -> ls.SubmodularFunction:
    flipped = x ^ (np.random.default_rng(seed).random(x.shape) < noise)
    t = np.log((1 - noise) / noise) * (2.0 * flipped - 1.0)
    t[:, unseen] = 0.0
    fh, fv = ls.grid_cuts(x.shape)
    return 1.05 * fh + 2.2 * fv - ls.Modular(t.ravel())


@pytest.mark.parametrize("noise", [0.1, pytest.param(0.2, marks=long)])
def test_posterior_samples_look_like_the_truth(horses: np.ndarray, noise: float) -> None:
    errors = []
    for k, x in enumerate(horses):
        X = sample(posterior(x, noise, k, slice(0, 0)), 4, "cftp", seed=k)
        errors.append((X != x.ravel()).mean())
    assert np.mean(errors) < noise / 3


@long
def test_a_third_unobserved_is_refused(horses: np.ndarray) -> None:
    with pytest.raises(NotCoalesced, match="max_iter = 8192"):
        sample(posterior(horses[0], 0.1, 0, slice(17, 34)), 20, "cftp", seed=0)
