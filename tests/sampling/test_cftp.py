"""Exact samples: their law, their reproducibility, and the refusal to return anything else."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import FAMILIES
from sampling_oracles import p_value

import logsuper as ls
from logsuper.sampling import NotCoalesced, _cftp, sample, sample_fields
from logsuper.sampling._scan import Sweeps, make_scan

N = 4


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "cut, wide weights"])
def test_samples_have_the_law_of_the_model(family: str, seed: int) -> None:
    f = 0.6 * FAMILIES[family](np.random.default_rng(seed), N)
    X = sample(f, 3000, "cftp", seed=seed)
    assert X.shape == (3000, N)
    assert p_value(X, f) > 1e-4


def test_weights_of_all_magnitudes_give_exact_samples_or_none(seed: int) -> None:
    f = FAMILIES["cut, wide weights"](np.random.default_rng(seed), N)
    try:
        X = sample(f, 3000, "cftp", seed=seed, max_iter=256)
    except NotCoalesced:
        return
    assert p_value(X, f) > 1e-4


@pytest.mark.parametrize("shape", [(2, 3), (1, 5), (5, 1), (1, 1)])
def test_grids_have_the_law_of_the_model(shape: tuple[int, int], seed: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    fh, fv = ls.grid_cuts(shape)
    f = 0.7 * fh + 0.4 * fv - ls.Modular(rng.normal(size=shape[0] * shape[1]))
    assert p_value(sample(f, 4000, "cftp", seed=seed), f) > 1e-4


def test_a_broken_sampler_would_be_noticed() -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)], 1.0) - ls.Modular([0.5, 0.0, 0.0])
    g = ls.Cut(3, [(0, 1), (1, 2)], 1.0) - ls.Modular([0.2, 0.0, 0.0])
    assert p_value(sample(g, 3000, "cftp", seed=0), f) < 1e-4


@pytest.mark.parametrize("family", ["grid", "cut", "log-det"])
def test_going_further_back_changes_nothing(family: str, seed: int) -> None:
    f = 0.5 * FAMILIES[family](np.random.default_rng(seed), 6)
    scan = make_scan(f)
    X = sample(f, 20, "cftp", seed=5, max_iter=256)
    key = int(np.random.default_rng(5).integers(2**64, dtype=np.uint64))
    problems = np.arange(20, dtype=np.uint64)
    for sweeps in (256, 300):
        states = _cftp.coupled_states(
            scan, scan.modular[None], Sweeps(key, problems, range(sweeps - 1, -1, -1))
        )
        assert np.array_equal(states, np.repeat(X[:, None], 2, axis=1))


@pytest.mark.parametrize("family", ["grid", "directed cut", "coverage", "callable"])
def test_chains_stay_ordered(family: str, seed: int) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 8)
    scan = make_scan(f)
    states = np.zeros((10, 2, 8), dtype=np.uint8)
    states[:, 1] = 1
    problems = np.arange(10, dtype=np.uint64)
    strong = 3.0
    for time in range(12):
        scan.run(states, scan.modular[None], Sweeps(3, problems, range(time, time + 1), strong))
        assert (states[:, 0] <= states[:, 1]).all()


@pytest.mark.parametrize("family", ["grid", "cut", "facility location"])
def test_threads_and_seeds(family: str) -> None:
    f = FAMILIES[family](np.random.default_rng(0), 8)
    X = sample(f, 50, "cftp", seed=3)
    assert np.array_equal(X, sample(f, 50, "cftp", seed=3, n_jobs=2))
    assert np.array_equal(X[:7], sample(f, 7, "cftp", seed=3))
    rng = np.random.default_rng(3)
    assert np.array_equal(X, sample(f, 50, "cftp", seed=rng))
    assert not np.array_equal(X, sample(f, 50, "cftp", seed=rng))


def test_one_sample_for_each_field(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for family in ("grid", "log-det"):
        f = FAMILIES[family](rng, N)
        theta = rng.normal(size=(2, N))
        X = sample_fields(f, np.repeat(theta, 2000, axis=0), seed=seed, n_jobs=2)
        for k in range(2):
            assert p_value(X[2000 * k : 2000 * (k + 1)], f - ls.Modular(theta[k])) > 1e-4
    assert sample_fields(ls.Modular([]), np.empty((3, 0)), seed=0).shape == (3, 0)


def test_unobserved_region_is_refused_within_the_cap() -> None:
    truth = np.zeros((24, 24))
    truth[6:18, 6:18] = 1
    t = 2.2 * (2 * truth - 1)
    t[:, 8:16] = 0  # a third of the image, in one piece
    fh, fv = ls.grid_cuts(truth.shape)
    f = 1.05 * fh + 2.2 * fv - ls.Modular(t.ravel())
    with pytest.raises(NotCoalesced, match=r"max_iter = 512: .* of 576 elements") as caught:
        sample(f, 100, "cftp", seed=0, max_iter=512)
    assert caught.value.sweeps == 512
    assert 0 < caught.value.differing < 576


def test_advice_is_for_the_function_at_hand() -> None:
    pairwise, counts = ls.Cut(2, [(0, 1)], 40.0), ls.ConcaveCardinality([0.0, 40.0, 60.0, 0.0])
    for f, named in ((pairwise, True), (counts, False)):
        for options in ({"max_iter": 64}, {"budget": 1e6}):
            with pytest.raises(NotCoalesced, match=r"'gibbs'.* coupled_marginals") as caught:
                sample(f, 1, "cftp", seed=0, **options)
            assert ("'swendsen_wang'" in str(caught.value)) == named
            assert ("'strips'" in str(caught.value)) == named


def test_cap_that_is_no_power_of_two() -> None:
    f = ls.Cut(2, [(0, 1)], 3.0)
    with pytest.raises(NotCoalesced, match="max_iter = 3:"):
        sample(f, 200, "cftp", seed=0, max_iter=3)
    assert np.array_equal(
        sample(f, 200, "cftp", seed=0, max_iter=1000), sample(f, 200, "cftp", seed=0)
    )


class Repulsive(ls.SubmodularFunction):
    """What claims to be submodular, or finite, and is not."""

    def __init__(self, together: float) -> None:
        self.n = 2
        self.together = together

    def _evaluate(self, X: np.ndarray) -> np.ndarray:
        return np.where(X.all(axis=1), self.together, 0.0)


def test_what_is_not_submodular_is_noticed() -> None:
    with pytest.raises(ValueError, match="not submodular: the gain of element 0 rises by 3"):
        sample(Repulsive(3.0), 100, "cftp", seed=0)
    assert p_value(sample(Repulsive(-1.0), 2000, "cftp", seed=0), Repulsive(-1.0)) > 1e-4


def test_what_is_not_finite_is_refused() -> None:
    for value in (np.inf, np.nan):
        with pytest.raises(ValueError, match="must be finite"):
            sample(Repulsive(value), 10, "cftp", seed=0)
    with pytest.raises(ValueError, match="overflow; rescale f"):
        sample(ls.Cut(3, [(0, 1), (0, 2)], 1.7e308), 1, "cftp", seed=0)


def test_samples_do_not_depend_on_how_many_are_drawn_at_once(monkeypatch):
    f = ls.Cut(4, [(0, 1), (1, 2), (2, 3)], 1.5)
    whole = sample(f, 50, "cftp", seed=0)
    monkeypatch.setattr(_cftp, "_HELD", 12)
    assert np.array_equal(sample(f, 50, "cftp", seed=0), whole)
