"""Supergradients: they lie above f, and their bounds below log Z."""

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition, enumerate_x
from variational_oracles import PAIRWISE

from logsuper import Cut, Modular
from logsuper.bounds import _mean_field
from logsuper.bounds._superdifferential import (
    KINDS,
    Supergradients,
    log_partition,
    marginals,
    search,
)


@each("name", FAMILIES)
def test_supergradients_lie_above_f_and_touch_it(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 6)
    Y = enumerate_x(6).astype(float)
    X = rng.integers(0, 2, (8, 6)).astype(float)
    tol = 1e-11 * (1 + np.abs(f(Y)).max())
    for kind in KINDS:
        G = Supergradients(f).gradients(kind, X)
        above = f(X)[:, None] + G @ Y.T - (G * X).sum(axis=1)[:, None]
        assert (above >= f(Y) - tol).all()
        # hence log sum exp of minus the modular function is the value that is reported
        expected = np.logaddexp.reduce(-above, axis=1)
        np.testing.assert_allclose(Supergradients(f).values(kind, X), expected, atol=10 * tol)


@each("name", FAMILIES)
def test_bounds_log_z_and_finds_the_best_bar(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 7)
    bound = log_partition(f)
    assert bound.target == "lower"
    assert bound.certified
    assert bound.value <= brute_log_partition(f)  # with no tolerance at all
    X = enumerate_x(7).astype(float)
    exhaustive = {kind: Supergradients(f).values(kind, X).max() for kind in KINDS}
    tol = 1e-9 * (1 + np.abs(f(X)).max())
    found = {kind: bound.details[kind] for kind in KINDS}
    assert found["bar"] == pytest.approx(exhaustive["bar"], abs=tol)
    for kind in ("grow", "shrink"):
        assert found["bar"] - tol <= found[kind] <= exhaustive[kind] + tol
    assert bound.value == pytest.approx(max(found.values()), abs=tol)
    assert bound.solves == 3


def test_flips_find_most_of_what_there_is(seed):
    # grids with fields: single flips end in the best vertex of nearly all
    rng = np.random.default_rng(seed)
    short = []
    for _ in range(10):
        f = FAMILIES["grid"](rng, 8)
        values = {kind: found.value for kind, found in search(f)[0].items()}
        X = enumerate_x(8).astype(float)
        for kind in ("grow", "shrink"):
            short.append(Supergradients(f).values(kind, X).max() - values[kind])
    assert np.mean(np.array(short) > 1e-9) <= 0.2


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("kind", ["grow", "shrink"])
def test_local_flips_are_differences_of_values(name, kind, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 7)
    for x in rng.integers(0, 2, (5, 7)).astype(float):
        found = Supergradients(f).flips(kind, x)
        flipped = np.abs(x - np.eye(7))
        values = Supergradients(f).values(kind, np.vstack([x, flipped]))
        np.testing.assert_allclose(found, values[1:] - values[0], atol=1e-9 * np.abs(values).max())


def test_flips_where_a_flip_is_not_local(seed):
    f = FAMILIES["log-det"](np.random.default_rng(seed), 6)
    change = Supergradients(f).flips("grow", np.zeros(6))
    values = Supergradients(f).values("grow", np.vstack([np.zeros(6), np.eye(6)]))
    np.testing.assert_allclose(change, values[1:] - values[0])


@pytest.mark.parametrize("name", ["cut", "grid", "coverage", "cardinality + modular"])
def test_mean_field_at_the_supergradient_is_better(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 7)
    found, _ = search(f)
    values = {kind: best.value for kind, best in found.items()}
    gradients = {kind: best.gradient for kind, best in found.items()}
    for kind in KINDS:
        polished, _ = _mean_field._objective(f, -gradients[kind][None])
        assert values[kind] - 1e-9 <= polished[0] <= brute_log_partition(f) + 1e-9


def test_modular_functions_are_exact():
    f = Modular([1.0, -2.0, 0.0])
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-12)
    np.testing.assert_allclose(marginals(f), 1 / (1 + np.exp(f.t)))


def test_components_add_up(seed):
    rng = np.random.default_rng(seed)
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3)])
    w, t = rng.exponential(size=4), rng.normal(size=4)
    one = Cut(4, edges, w) - Modular(t)
    two = Cut(8, np.vstack([edges, edges + 4]), np.tile(w, 2)) - Modular(np.tile(t, 2))
    assert log_partition(two).value == pytest.approx(2 * log_partition(one).value, abs=1e-9)


def test_large_functions_without_locality_skip_the_flips():
    from logsuper import ConcaveOfModular

    n = 6000
    rng = np.random.default_rng(0)
    f = ConcaveOfModular(np.sqrt, rng.random(n)) - Modular(rng.normal(size=n))
    assert Supergradients(f).flips("grow", np.zeros(f.n)) is None
    assert np.isfinite(log_partition(f).value)
