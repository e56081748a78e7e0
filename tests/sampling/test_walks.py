"""Sweeps by gains that are kept up to date: they are those of f, and give the same samples."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES
from sampling_oracles import load, p_value, slow_scan

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.functions._sum import split_modular
from logsuper.sampling import sample
from logsuper.sampling._budget import Meter
from logsuper.sampling._cftp import couple
from logsuper.sampling._scan import GenericScan, Sweeps
from logsuper.solvers import logistic_noise

NARROW = [name for name in FAMILIES if name != "cut, wide weights"]


def quick_scan(f: SubmodularFunction) -> GenericScan:
    return GenericScan(*split_modular(f))


@each("family", FAMILIES)
def test_a_sweep_goes_where_the_gains_of_f_send_it(family: str, seed: int, engine: str) -> None:
    """Fields that are just above or below what f would need send chains to states of our choice."""
    rng = np.random.default_rng(seed)
    n, problems, key, scale = 9, np.arange(6, dtype=np.uint64), 5, 0.8
    g, t = split_modular(FAMILIES[family](rng, n))
    scan = GenericScan(g, t)
    states = rng.integers(0, 2, (6, 1, n), dtype=np.uint8)
    chosen = rng.integers(0, 2, (6, n), dtype=np.uint8)
    noise = logistic_noise(key, problems, 3, n)[:, 0]
    X, theta = states[:, 0].copy(), np.empty((6, n))
    for d in range(n):
        gain = scale * g.gains(X)[:, d]
        slip = 1e-9 * (1.0 + np.abs(gain))
        theta[:, d] = noise[:, d] + gain + np.where(chosen[:, d], slip, -slip)
        X[:, d] = chosen[:, d]
    scan.run(states, theta, Sweeps(key, problems, range(3, 4), scale))
    assert np.array_equal(states[:, 0], chosen)


@each("family", NARROW)
def test_exact_samples_are_those_of_slow_sweeps(family: str, seed: int, engine: str) -> None:
    f = 0.3 * FAMILIES[family](np.random.default_rng(seed), 7)
    found = [
        couple(scan, scan.modular[None], 11, 40, 2**10, 1, Meter("cftp"))
        for scan in (quick_scan(f), slow_scan(f))
    ]
    assert np.array_equal(*found)


@pytest.mark.parametrize("family", ["facility location", "log-det", "Gaussian information"])
def test_long_runs_are_those_of_slow_sweeps(family: str, engine: str) -> None:
    # more flips than elements between two looks at the states
    f = 0.7 * FAMILIES[family](np.random.default_rng(0), 16)
    found = []
    for scan in (quick_scan(f), slow_scan(f)):
        states = np.zeros((2, 2, 16), dtype=np.uint8)
        states[:, 1] = 1
        scan.run(states, scan.modular[None], Sweeps(7, np.arange(2, dtype=np.uint64), range(100)))
        found.append(states)
    assert np.array_equal(*found)


@pytest.mark.parametrize("family", ["facility location", "log-det", "robust P^n, side 0"])
def test_coupled_chains_stay_ordered(family: str, seed: int, engine: str) -> None:
    f = 3.0 * FAMILIES[family](np.random.default_rng(seed), 14)
    scan = quick_scan(f)
    states = np.zeros((8, 2, 14), dtype=np.uint8)
    states[:, 1] = 1
    problems = np.arange(8, dtype=np.uint64)
    for time in range(25):
        scan.run(states, scan.modular[None], Sweeps(3, problems, range(time, time + 1)))
        assert (states[:, 0] <= states[:, 1]).all()


@pytest.mark.parametrize("family", ["facility location", "sum with a graph", "log-det"])
def test_chains_that_have_met_go_on_as_one(family: str, engine: str) -> None:
    f = 0.3 * FAMILIES[family](np.random.default_rng(0), 10)
    scan = quick_scan(f)
    problems = np.arange(5, dtype=np.uint64)
    both = np.zeros((5, 2, 10), dtype=np.uint8)
    both[:, 1] = 1
    alone = both[:, :1].copy()
    for states in (both, alone):
        scan.run(states, scan.modular[None], Sweeps(3, problems, range(80)))
    assert np.array_equal(both[:, 0], both[:, 1])
    assert np.array_equal(both[:, :1], alone)


@pytest.mark.parametrize("family", ["facility location", "sum with a graph", "log-det", "callable"])
def test_threads_and_blocks_change_nothing(
    family: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = 0.3 * FAMILIES[family](np.random.default_rng(1), 8)
    X = sample(f, 9, seed=4)
    assert np.array_equal(X, sample(f, 9, seed=4, n_jobs=2))
    monkeypatch.setattr("logsuper.sampling._scan._BLOCK", 300)
    monkeypatch.setattr("logsuper.sampling._scan.PIECE", 1e3)
    assert np.array_equal(X, sample(f, 9, seed=4, n_jobs=2))


def test_a_strongly_coupled_facility_location_has_its_law(seed: int, engine: str) -> None:
    """Many sweeps to coalesce: what the slow path made nobody wait for."""
    rng = np.random.default_rng(seed)
    f = ls.FacilityLocation(rng.random((12, 8))) - ls.Modular(np.full(8, 0.5))
    assert p_value(sample(f, 400 if engine == "numpy" else 4000, seed=seed), f) > 1e-4


def test_sums_with_a_callable_keep_what_is_known(seed: int) -> None:
    f = FAMILIES["callable"](np.random.default_rng(seed), 5) + 0.5 * FAMILIES["log-det"](
        np.random.default_rng(seed), 5
    )
    assert quick_scan(f)._kernel is None
    assert p_value(sample(f, 3000, seed=seed), f) > 1e-4


def test_overflow_is_refused_before_any_sweep() -> None:
    huge = ls.FacilityLocation(np.full((3, 4), 1e308))
    with pytest.raises(ValueError, match="must be finite"):
        sample(huge, 1, seed=0)


def test_kernels_check_what_they_are_given() -> None:
    native = load("baseline")
    assert native is not None
    scan = native.term_scan(2)
    start, group, piece = np.array([0, 1, 2]), np.array([0, 0]), np.array([0, 2])
    one, line = np.ones(2), np.array([0.0, 1.0])
    scan.add_facilities(1.0, np.ones((3, 2)))
    scan.add_groups(1.0, start, group, one, piece, line, line)
    scan.add_determinant(1.0, np.eye(2), True)
    for bad in [
        lambda: native.term_scan(0),
        lambda: scan.add_facilities(-1.0, np.ones((3, 2))),
        lambda: scan.add_facilities(1.0, np.ones((2, 3))),
        lambda: scan.add_facilities(1.0, -np.ones((3, 2))),
        lambda: scan.add_groups(1.0, start[:2], group, one, piece, line, line),
        lambda: scan.add_groups(1.0, start[::-1].copy(), group, one, piece, line, line),
        lambda: scan.add_groups(1.0, start, group + 1, one, piece, line, line),
        lambda: scan.add_groups(1.0, start, group, -one, piece, line, line),
        lambda: scan.add_groups(1.0, start, group, one, piece + 1, line, line),
        lambda: scan.add_groups(1.0, start, group, one, np.array([0, 0, 2]), line, line),
        lambda: scan.add_groups(1.0, start, group, one, piece, line[::-1].copy(), line),
        lambda: scan.add_groups(1.0, start, group, one, piece, line, line + 1.0),
        lambda: scan.add_groups(1.0, start, group, one, piece, line, line * np.nan),
        lambda: scan.add_determinant(1.0, np.eye(3), True),
        lambda: scan.add_determinant(1.0, np.zeros((2, 2)), True),
        lambda: scan.add_determinant(np.inf, np.eye(2), True),
    ]:
        with pytest.raises(ValueError):
            bad()
