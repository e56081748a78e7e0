"""The list of samplers, what they refuse, and the two that need no chain."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition
from sampling_oracles import p_value

import logsuper as ls
from logsuper.sampling import SAMPLERS, log_partition, sample


@pytest.mark.parametrize("method", SAMPLERS)
def test_shapes_and_the_empty_cases(method: str) -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)])
    assert sample(f, 5, method, seed=0).shape == (5, 3)
    assert sample(f, 0, method, seed=0).shape == (0, 3)
    assert sample(ls.Modular([]), 4, method, seed=0).shape == (4, 0)
    assert sample(ls.Modular([-50.0]), 2, method, seed=0).tolist() == [[1], [1]]


@pytest.mark.parametrize("method", SAMPLERS)
def test_bad_input_is_refused(method: str) -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)])
    for call, error, message in [
        (lambda: sample(f, -1, method), ValueError, "n_samples must be at least 0"),
        (lambda: sample(f, 1.5, method), TypeError, "n_samples must be an integer"),
        (lambda: sample("f", 1, method), TypeError, "f must be a submodular function"),
        (lambda: sample(f, 1, method, seed=-1), ValueError, "seed must be at least 0"),
        (
            lambda: sample(f, 1, method, sweep=1),
            TypeError,
            f"{method} has no option 'sweep'.*n_jobs",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_unknown_names_are_refused() -> None:
    f = ls.Cut(2, [(0, 1)])
    listed = "one of cftp, ancestral, rejection, gibbs, swendsen_wang, perturb"
    with pytest.raises(ValueError, match=listed):
        sample(f, 1, "metropolis")
    with pytest.raises(ValueError, match="one of ti, ais"):
        log_partition(f, "bethe")
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        sample(f, 1, "cftp", max_iter=0)
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        sample(f, 1, "cftp", n_jobs=0)


@each("family", FAMILIES)
def test_rejection_has_the_law_of_the_model(family: str, seed: int) -> None:
    f = 0.5 * FAMILIES[family](np.random.default_rng(seed), 4)
    assert p_value(sample(f, 3000, "rejection", seed=seed), f) > 1e-4


def test_rejection_accepts_as_often_as_the_bounds_are_close(seed: int) -> None:
    f = FAMILIES["grid"](np.random.default_rng(seed), 6)
    s = ls.min_norm_point(f).s
    share = np.exp(brute_log_partition(f) - np.logaddexp(0.0, -s).sum())
    tries = 40_000
    # a cap that is too small to get them all says how many it got
    with pytest.raises(ls.TooLarge, match=f"of {tries} tries") as caught:
        sample(f, tries, "rejection", seed=seed, max_iter=tries)
    accepted = tries**2 / caught.value.operations
    assert abs(accepted / tries - share) < 5 * np.sqrt(share * (1 - share) / tries)


def test_rejection_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    f = FAMILIES["cut"](np.random.default_rng(0), 6)
    X = sample(f, 40, "rejection", seed=3)
    monkeypatch.setattr("logsuper.sampling._rejection._BLOCK", 70)
    assert np.array_equal(X, sample(f, 40, "rejection", seed=3, n_jobs=2))


def test_perturb_draws_maximisers(seed: int) -> None:
    weight = 0.8
    X = sample(ls.Cut(2, [(0, 1)], weight), 20_000, "perturb", seed=seed, n_jobs=2)
    share = 2 / (1 + np.exp(weight)) ** 2  # the closed form for two elements
    assert abs((X[:, 0] != X[:, 1]).mean() - share) < 5 * np.sqrt(share / 20_000)
    f = ls.Modular(np.random.default_rng(seed).normal(size=4))
    assert p_value(sample(f, 4000, "perturb", seed=seed), f) > 1e-4
    assert np.array_equal(
        sample(f, 9, "perturb", seed=seed), sample(f, 9, "perturb", seed=seed, n_jobs=2)
    )
