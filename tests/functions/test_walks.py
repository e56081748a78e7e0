"""Walks: the gain of one element at a time is that of the function, however long they are."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, random_facility, random_kernel

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.functions._walks import Evaluated, Pieces


def deviations(
    f: SubmodularFunction, rng: np.random.Generator, visits: int, rows: int = 4, renew: bool = True
) -> np.ndarray:
    """Return how far gains are from those of f, relative to them, along random walks."""
    walks = f._walks()
    X = rng.integers(0, 2, (rows, f.n)).astype(float)
    for _, walk in walks:
        walk.start(X)
    found = []
    for visit in range(visits):
        if renew and visit % f.n == 0:
            for _, walk in walks:
                walk.renew()
        d = int(rng.integers(f.n))
        gain = sum(weight * walk.gain(d) for weight, walk in walks)
        expected = f.gains(X)[:, d]
        found.append(np.abs(gain - expected) / (1.0 + np.abs(expected)))
        flipped = np.flatnonzero(rng.integers(0, 2, rows))
        X[flipped, d] = 1.0 - X[flipped, d]
        for _, walk in walks:
            walk.flipped(d, flipped)
    return np.array(found)


@pytest.mark.parametrize("n", [1, 2, 9])
@each("family", FAMILIES)
def test_gains_are_those_of_the_function(family: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, n)
    assert deviations(f, rng, 40).max() < 1e-9


@pytest.mark.parametrize(
    "family",
    ["facility location", "coverage", "log-det", "Gaussian information", "robust P^n, side 0"],
)
def test_rounding_does_not_build_up(family: str) -> None:
    rng = np.random.default_rng(0)
    f = FAMILIES[family](rng, 12)
    assert deviations(f, rng, 1500, rows=2)[-500:].max() < 1e-9


@pytest.mark.parametrize("family", ["facility location", "log-det", "coverage", "P^n Potts"])
def test_conditioned_functions_walk_too(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, _ = FAMILIES[family](rng, 9).condition({0: 1, 4: 0, 7: 1})
    assert deviations(f, rng, 40).max() < 1e-9


def test_only_what_is_unknown_is_evaluated() -> None:
    rng = np.random.default_rng(0)
    for family, make in FAMILIES.items():
        evaluated = [isinstance(walk, Evaluated) for _, walk in make(rng, 6)._walks()]
        # a modular function is a field to all samplers, and never walks
        modular = [isinstance(atom, ls.Modular) for _, atom in make(rng, 6).terms()]
        assert all(evaluated) if family == "callable" else sum(evaluated) <= sum(modular)


def test_ties_and_worthless_facilities() -> None:
    rng = np.random.default_rng(0)
    benefits = rng.integers(0, 3, (6, 8)).astype(float)
    benefits[:, 2] = 0.0
    benefits[1] = 0.0
    assert (deviations(ls.FacilityLocation(benefits), rng, 400) == 0.0).all()
    assert deviations(ls.FacilityLocation(np.empty((0, 3))), rng, 9).max() == 0.0


def conditional_variance(K: np.ndarray, x: np.ndarray, d: int) -> float:
    """Return the variance of d given the others that are on, in higher precision."""
    given = [i for i in range(len(K)) if x[i] and i != d] + [d]
    A = K[np.ix_(given, given)].astype(np.longdouble)
    for k in range(len(A) - 1):
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :]) / A[k, k]
    return float(A[-1, -1])


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no wider floating point")
@pytest.mark.parametrize("jitter", [1e-2, 1e-6, 1e-10])
def test_gains_of_a_kernel_that_is_nearly_singular(jitter: float, seed: int) -> None:
    """They are off by no more than rounding of K itself makes them: by its condition, not more."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(12, 3))
    K = base @ base.T + jitter * np.eye(12)
    f = ls.LogDet(K)
    allowed = 100 * np.finfo(float).eps * np.linalg.cond(K)
    [(_, walk)] = f._walks()
    X = rng.integers(0, 2, (3, 12)).astype(float)
    walk.start(X)
    for visit in range(120):
        d = visit % 12
        truth = np.log([conditional_variance(K, x, d) for x in X])
        assert walk.gain(d) == pytest.approx(truth, abs=allowed)
        assert f.gains(X)[:, d] == pytest.approx(truth, abs=allowed)
        flipped = np.flatnonzero(rng.integers(0, 2, 3))
        X[flipped, d] = 1.0 - X[flipped, d]
        walk.flipped(d, flipped)


def test_a_kernel_that_is_singular_but_for_rounding() -> None:
    # conditioning may leave one: what is explained is explained by others twice
    rng = np.random.default_rng(0)
    base = rng.normal(size=(8, 2))
    f = object.__new__(ls.LogDet)
    f._build(base @ base.T)
    X = rng.integers(0, 2, (5, 8)).astype(float)
    [(_, walk)] = f._walks()
    walk.start(X)
    gains = np.stack([walk.gain(d) for d in range(8)], axis=1)
    for found in (gains, f.gains(X)):
        assert (found <= np.log(np.diagonal(f.K))).all() and (found > -50.0).all()


def test_pieces_are_the_profile(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for family in ("coverage", "P^n Potts", "robust P^n, side 1", "robust P^n, side 0"):
        f = FAMILIES[family](rng, 6)
        start, point, value = f._pieces()
        totals = np.bincount(f.group, f.weight, minlength=f.n_groups)
        for g in range(f.n_groups):
            own = slice(start[g], start[g + 1])
            assert point[own][0] == value[own][0] == 0.0 and (np.diff(point[own]) > 0).all()
            # at sums that occur: counts, or anything up to the total
            counts = (f.weight == 1.0).all()
            v = np.arange(totals[g] + 1) if counts else np.linspace(0.0, totals[g], 9)
            exact = f._profile(v[:, None], np.array([g]))[:, 0]
            assert np.interp(v, point[own], value[own]) == pytest.approx(exact, abs=1e-12)


def test_equal_points_become_one() -> None:
    pieces = Pieces.stack([[0.0, 0.0, 2.0], [0.0, 1.0, 1.0]], [[0.0, 5.0, 1.0], [0.0, 3.0, 7.0]])
    assert [part.tolist() for part in pieces] == [[0, 2, 4], [0, 2, 0, 1], [0, 1, 0, 3]]


def test_larger_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = random_facility(rng, 40)
    assert deviations(f, rng, 300, rows=3).max() < 1e-12
    assert deviations(ls.LogDet(random_kernel(rng, 40)), rng, 300, rows=2).max() < 1e-9
