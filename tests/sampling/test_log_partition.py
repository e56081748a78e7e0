"""log Z by sampling, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition, enumerate_x
from sampling_oracles import law

import logsuper as ls
from logsuper.bounds import Bound
from logsuper.functions._sum import split_modular
from logsuper.sampling import log_partition

FEW = ["modular", "cut", "grid", "cardinality + modular", "log-det", "callable"]


@pytest.mark.parametrize("family", FEW)
@pytest.mark.parametrize("method", ["ti", "ais"])
def test_intervals_hold_log_z(family: str, method: str, seed: int) -> None:
    f = 0.7 * FAMILIES[family](np.random.default_rng(seed), 5)
    truth = brute_log_partition(f)
    found = log_partition(f, method, n_samples=60, steps=12, seed=seed, confidence=0.9999)
    low, high = found.interval
    assert (found.target, found.method, found.confidence) == ("estimate", method, 0.9999)
    assert not found.certified
    assert low - 1e-9 <= truth <= high + 1e-9
    assert low <= found.value <= high


def test_modular_functions_are_exact() -> None:
    f = ls.Modular([0.5, -2.0, 300.0])
    for method in ("ti", "ais"):
        found = log_partition(f, method, seed=0, n_samples=5, steps=3)
        assert found.value == pytest.approx(brute_log_partition(f), rel=1e-12)
        assert found.stderr == 0.0


def test_the_mean_falls_along_the_path(seed: int) -> None:
    f = FAMILIES["sum without a graph"](np.random.default_rng(seed), 5)
    g, t = split_modular(f)
    means = [law(b * g - ls.Modular(t)) @ g(enumerate_x(5)) for b in np.linspace(0, 1, 9)]
    assert (np.diff(means) <= 1e-12).all()
    # hence the two sums, with exact means
    start = np.logaddexp(0.0, t).sum()
    truth = brute_log_partition(f)
    assert start - np.mean(means[:-1]) <= truth <= start - np.mean(means[1:])


@pytest.mark.parametrize("family", ["grid", "coverage"])
def test_more_steps_bring_the_two_sides_together(family: str, seed: int) -> None:
    f = 0.7 * FAMILIES[family](np.random.default_rng(seed), 6)
    truth = brute_log_partition(f)
    for method in ("ti", "ais"):
        gaps = []
        for steps in (2, 40):
            found = log_partition(f, method, n_samples=60, steps=steps, seed=seed)
            lower, upper = found.details["lower"], found.details["upper"]
            slack = 5 * found.stderr + 1e-12
            assert lower - slack <= truth <= upper + slack
            gaps.append(upper - lower)
        assert gaps[1] < gaps[0] / 3


def test_annealing_is_right_on_average(seed: int) -> None:
    f = FAMILIES["grid"](np.random.default_rng(seed), 6)
    found = log_partition(f, "ais", n_samples=4000, steps=6, seed=seed)
    start = np.logaddexp(0.0, split_modular(f)[1]).sum()
    rise = brute_log_partition(f) - start
    for work in (found.details["log_weights"] - rise, rise - found.details["log_weights_back"]):
        weights = np.exp(work)
        assert abs(weights.mean() - 1) < 5 * weights.std() / np.sqrt(len(weights))


@pytest.mark.parametrize("method", ["ti", "ais"])
def test_threads_and_seeds(method: str) -> None:
    f = FAMILIES["grid"](np.random.default_rng(0), 9)

    def run(**options: object) -> Bound:
        return log_partition(f, method, n_samples=10, steps=5, **options)

    assert run(seed=1).value == run(seed=1, n_jobs=2).value
    rng = np.random.default_rng(1)
    assert run(seed=rng).value == run(seed=1).value
    assert run(seed=rng).value != run(seed=1).value


def test_options() -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)], 30.0)
    with pytest.raises(ls.NotCoalesced, match="max_iter = 16"):
        log_partition(f, "ti", seed=0, max_iter=16)
    with pytest.raises(ls.NotCoalesced, match="max_iter = 16"):
        log_partition(f, "ais", seed=0, max_iter=16)
    # what sweeps cannot reach, clusters can: two elements in three that are as good as one
    found = log_partition(f, "ti", seed=0, sampler="swendsen_wang", steps=40)
    assert found.interval[0] <= np.log(2) <= found.interval[1]
    with pytest.raises(TypeError, match="cftp has no option 'sweep'"):
        log_partition(f, "ti", sweep=3)
    with pytest.raises(TypeError, match=r"ais has no option 'sampler'.*max_iter"):
        log_partition(f, "ais", sampler="gibbs")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        log_partition(f, "ti", steps=0)
    with pytest.raises(ValueError, match="n_samples must be at least 2"):
        log_partition(f, "ais", n_samples=1)
    assert log_partition(ls.Modular([]), "ti").value == 0.0


@pytest.mark.parametrize("method", ["ti", "ais"])
def test_samples_that_all_agree_do_not_make_a_point_of_the_interval(method: str, seed: int) -> None:
    """Was 20.0000908 +- 0: the states that make up the difference did not come up."""
    f = ls.Cut(2, [(0, 1)], 3.0) - ls.Modular([10.0, 10.0])
    found = log_partition(f, method, seed=seed)
    low, high = found.interval
    assert low <= brute_log_partition(f) <= high
    assert 0.0 < found.stderr < 0.05


def test_nothing_is_missing_where_the_samples_vary() -> None:
    """The allowance is for models that are decided: others keep their error bars."""
    across, down = ls.grid_cuts((3, 3))
    f = 0.7 * across + 0.7 * down - ls.Modular(np.linspace(-1.0, 1.0, 9))
    for method, options in (("ti", {}), ("ais", {"steps": 20})):
        found = log_partition(f, method, n_samples=200, seed=0, **options)
        assert found.stderr < 3.0 / 200
