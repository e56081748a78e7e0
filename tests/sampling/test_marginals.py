"""Marginals by sampling, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import FAMILIES, enumerate_x
from sampling_oracles import law

import logsuper as ls
from logsuper.sampling import coupled_marginals, marginals
from logsuper.sampling._marginals import clopper_pearson


def exact(f: ls.SubmodularFunction) -> np.ndarray:
    return law(f) @ enumerate_x(f.n)


@pytest.mark.parametrize("family", ["grid", "coverage", "log-det", "modular"])
def test_means_are_the_marginals(family: str, seed: int) -> None:
    f = 0.5 * FAMILIES[family](np.random.default_rng(seed), 6)
    found = marginals(f, n_samples=2000, seed=seed, confidence=0.999, n_jobs=2)
    mu = exact(f)
    assert found.method == "sampling" and found.confidence == 0.999
    assert (abs(found.values - mu) < 5 * found.stderr).all()
    assert (found.lower <= mu).all() and (mu <= found.upper).all()
    assert (found.lower <= found.values).all() and (found.values <= found.upper).all()


def test_without_confidence_there_are_no_bounds() -> None:
    f = ls.Modular([-50.0, 0.0])
    found = marginals(f, n_samples=50, sampler="gibbs", seed=0, burn_in=3)
    assert found.lower is None and found.upper is None and found.confidence is None
    assert 1.0 - 1e-15 < found.values[0] < 1.0 and (found.stderr > 0).all()


def test_approximate_samplers_promise_nothing() -> None:
    f = ls.Cut(2, [(0, 1)])
    with pytest.raises(ValueError, match=r"'perturb' is approximate.*cftp, ancestral, rejection"):
        marginals(f, sampler="perturb", confidence=0.9)
    with pytest.raises(ValueError, match="method must be one of"):
        marginals(f, sampler="metropolis", confidence=0.9)
    with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1, got 95"):
        marginals(f, confidence=95)
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        marginals(f, n_samples=0)


@pytest.mark.parametrize("family", ["grid", "directed cut", "facility location", "callable"])
def test_coupled_chains_enclose_the_marginals(family: str, seed: int) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 6)
    mu = exact(f)
    width = np.inf
    for sweeps in (1, 4, 30):
        found = coupled_marginals(f, sweeps=sweeps, n_samples=400, seed=seed, confidence=0.999)
        assert (found.lower <= mu).all() and (mu <= found.upper).all()
        assert (found.upper - found.lower).max() <= width + 0.02
        width = (found.upper - found.lower).max()


def test_coupled_chains_need_not_meet() -> None:
    f = ls.Cut(2, [(0, 1)], 40.0)
    found = coupled_marginals(f, sweeps=10, n_samples=30, seed=0, n_jobs=2)
    assert found.details["coalesced"] == 0.0
    assert found.lower.tolist() == [0.0, 0.0] and found.upper.tolist() == [1.0, 1.0]
    met = coupled_marginals(ls.Modular([0.3]), sweeps=1, n_samples=30, seed=0)
    assert met.details["coalesced"] == 1.0
    assert len(coupled_marginals(ls.Modular([]), seed=0)) == 0


def test_clopper_pearson_covers() -> None:
    rng = np.random.default_rng(0)
    p = np.array([0.0, 0.02, 0.5, 0.9, 1.0])
    missed = 0
    for _ in range(1000):
        counts = rng.binomial(25, p)
        lower, upper = clopper_pearson(counts, counts, 25, 0.9)
        missed += bool(((p < lower) | (p > upper)).any())
    assert missed <= 130
    # the rule of three, for one element and one side at 97.5 %
    lower, upper = clopper_pearson(np.array([0]), np.array([0]), 100, 0.95)
    assert lower[0] == 0.0 and upper[0] == pytest.approx(1 - 0.025**0.01)
