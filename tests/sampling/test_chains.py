"""Markov chains: they keep the law of the model, and reach it from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import FAMILIES
from sampling_oracles import load, p_value, use

import logsuper as ls
from logsuper.sampling import sample
from logsuper.sampling._swendsen_wang import Clusters

PAIRWISE = ["modular", "cut", "directed cut", "grid"]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "cut, wide weights"])
def test_a_sweep_keeps_the_law(family: str, seed: int) -> None:
    f = 0.6 * FAMILIES[family](np.random.default_rng(seed), 4)
    X = sample(f, 3000, "cftp", seed=seed)
    Y = sample(f, 3000, "gibbs", seed=seed + 10, burn_in=1, start=X)
    assert not np.array_equal(X, Y)
    assert p_value(Y, f) > 1e-4


@pytest.mark.parametrize("family", PAIRWISE)
def test_a_move_of_clusters_keeps_the_law(family: str, seed: int, engine: str) -> None:
    f = 0.6 * FAMILIES[family](np.random.default_rng(seed), 4)
    X = sample(f, 3000, "cftp", seed=seed)
    for sweeps in (0, 2):
        options = {"burn_in": 1, "sweeps": sweeps, "start": X}
        Y = sample(f, 3000, "swendsen_wang", seed=seed + 10, **options)
        assert not np.array_equal(X, Y)
        assert p_value(Y, f) > 1e-4


def test_weights_of_all_magnitudes(seed: int) -> None:
    # clusters do what sweeps cannot: elements that are as good as one flip together
    cut = ls.Cut(4, [(0, 1), (1, 2), (2, 3)], [1e5, 1e-5, 40.0])
    f = cut - ls.Modular([3.0, -2.5, 1e-5, 0.3])
    assert p_value(sample(f, 3000, "swendsen_wang", seed=seed), f) > 1e-4


@pytest.mark.parametrize("method", ["gibbs", "swendsen_wang"])
def test_chains_forget_their_start(method: str, seed: int) -> None:
    f = 0.5 * FAMILIES["grid"](np.random.default_rng(seed), 6)
    for start in (np.zeros(6), np.ones(6), None):
        X = sample(f, 3000, method, seed=seed, burn_in=100, start=start)
        assert p_value(X, f) > 1e-4


@pytest.mark.parametrize("method", ["gibbs", "swendsen_wang"])
def test_chains_take_turns(method: str) -> None:
    f = FAMILIES["grid"](np.random.default_rng(0), 9)
    options = {"seed": 4, "burn_in": 5, "thin": 2}
    X = sample(f, 10, method, chains=3, **options)
    assert np.array_equal(X[:6], sample(f, 6, method, chains=3, **options))
    # two more steps are a longer burn-in: the start depends on the number of chains alone
    later = sample(f, 3, method, chains=3, seed=4, burn_in=7)
    assert np.array_equal(X[3:6], later)
    start = np.random.default_rng(1).integers(0, 2, (3, 9))
    still = sample(f, 3, method, seed=4, burn_in=0, start=start)
    assert np.array_equal(still, start)


@pytest.mark.parametrize("method", ["gibbs", "swendsen_wang"])
def test_threads_and_seeds(method: str) -> None:
    f = FAMILIES["grid"](np.random.default_rng(0), 12)
    X = sample(f, 30, method, seed=3, burn_in=6)
    assert np.array_equal(X, sample(f, 30, method, seed=3, burn_in=6, n_jobs=2))
    rng = np.random.default_rng(3)
    assert np.array_equal(X, sample(f, 30, method, seed=rng, burn_in=6))
    assert not np.array_equal(X, sample(f, 30, method, seed=rng, burn_in=6))


@pytest.mark.parametrize("build", ["baseline", "avx2"])
@pytest.mark.parametrize("family", [*PAIRWISE, "cut, wide weights"])
def test_kernels_and_numpy_move_the_same_clusters(
    build: str, family: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, 20)
    start = rng.integers(0, 2, (6, 20), dtype=np.uint8)
    load(build)
    found = []
    monkeypatch.setattr("logsuper.sampling._swendsen_wang._BLOCK", 50)
    for engine in (build, "numpy"):
        use(monkeypatch, engine)
        found.append(sample(f, 6, "swendsen_wang", seed=seed, burn_in=9, start=start))
    assert np.array_equal(*found)


def test_bonds_are_open_with_the_right_probability() -> None:
    from logsuper.structures import Pairwise

    # fields so strong that a cluster is 1 as soon as it holds element 0
    pairwise = Pairwise(2, np.array([[0, 1]]), np.array([0.8]), np.array([1000.0, -500.0]))
    states = np.ones((20_000, 2), dtype=np.uint8)
    Clusters(pairwise).move(states, 5, np.arange(20_000, dtype=np.uint64), 0)
    share = states[:, 1].mean()
    assert abs(share - (1 - np.exp(-0.8))) < 5 * np.sqrt(0.25 / 20_000)


def test_clusters_need_a_graph() -> None:
    with pytest.raises(ls.NotApplicable, match=r"swendsen_wang needs a pairwise.* LogDet\(n=2\)"):
        sample(ls.LogDet([[1.0, 0.2], [0.2, 1.0]]), 1, "swendsen_wang")


@pytest.mark.parametrize("method", ["gibbs", "swendsen_wang"])
def test_bad_options_are_refused(method: str) -> None:
    f = ls.Cut(3, [(0, 1)])
    for options, error in [
        ({"burn_in": -1}, "burn_in must be at least 0"),
        ({"thin": 0}, "thin must be at least 1"),
        ({"chains": 0}, "chains must be at least 1"),
        ({"start": [0, 1]}, r"X must have shape \(\.\.\., 3\)"),
        ({"start": np.zeros((4, 3))}, r"start must have shape \(3,\) or \(2, 3\), got \(4, 3\)"),
        ({"start": [0, 2, 0]}, "neither 0 nor 1"),
        ({"burn_in": 2**31 - 1, "chains": 1}, "number of steps of a chain"),
    ]:
        with pytest.raises(ValueError, match=error):
            sample(f, 2, method, seed=0, **options)
