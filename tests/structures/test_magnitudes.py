"""Conditioned grids with weights and fields of any magnitude, against rational arithmetic.

An edge to a fixed pixel is a field on its neighbour: the sum with other fields must not hide them.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import enumerate_x
from structures.models import (
    GRID,
    check_solver,
    condition,
    cuts_in,
    exact_energies,
    make_functions,
    number_of,
    on_list,
    to_few,
)

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.solvers._problems import Problems


def block(weight: float, values: int) -> SubmodularFunction:
    """Return a block of 2 x 2 free pixels of 4 x 4, each with two fixed neighbours.

    With `values` = 0 or 1 these are all that; with 2 those above and below are 1, the others 0.
    """
    rows, columns = np.divmod(np.arange(16), 4)
    edge = (rows % 3 == 0) | (columns % 3 == 0)
    value = (rows % 3 == 0).astype(int) if values == 2 else np.full(16, values)
    fixed = {int(d): int(value[d]) for d in np.flatnonzero(edge)}
    return (weight * sum(ls.grid_cuts((4, 4)))).condition(fixed)[0]


MAGNITUDES = [1e-300, 1e-12, 1.0, 1e3, 1e6, 1e9, 1e12, 1e15, 1e17, 1e100, 1e300]


@pytest.mark.parametrize("weight", MAGNITUDES)
def test_weights_that_cancel_beside_small_fields(weight: float, seed: int) -> None:
    """Fixed pixels that pull both ways leave the sum of the fields to decide."""
    f = block(weight, 2)
    s = ls.prepare([f])
    assert s.solver == GRID
    rng = np.random.default_rng(seed)
    for theta in (*rng.normal(size=(6, 4)), np.array([0.1, -0.1, 0.3, -0.3])):
        for tie in (None, "min", "max"):
            y, value, stats = s.maximize(theta, 1.0, tie=tie)
            energies = exact_energies(f, theta)
            best = max(energies)
            assert float(best - energies[number_of(y)]) <= 1e-6 * min(1.0, weight)
            assert value == pytest.approx(float(best), rel=1e-12, abs=1e-6 * min(1.0, weight))
            assert stats[0] == pytest.approx(f(y), rel=1e-15)
            if tie is not None:
                tied = enumerate_x(4)[[e == best for e in energies]]
                extreme = tied.min(axis=0) if tie == "min" else tied.max(axis=0)
                assert np.array_equal(y, extreme)


@pytest.mark.parametrize("weight", MAGNITUDES)
@pytest.mark.parametrize("values", [0, 1])
def test_weights_that_pull_one_way(weight: float, values: int, seed: int) -> None:
    f = block(weight, values)
    theta = np.random.default_rng(seed).normal(size=(5, 4))
    y, value, _ = ls.prepare([f]).maximize(theta, 1.0)
    for m in range(5):
        energies = exact_energies(f, theta[m])
        # the sum of a field and a weight is rounded, by half a bit of the weight
        loss = 8 * 2.0**-52 * weight + 1e-6 * min(1.0, weight)
        assert float(max(energies) - energies[number_of(y[m])]) <= loss
        assert value[m] == pytest.approx(float(max(energies)), rel=1e-12, abs=loss)


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e6, 1e12, 1e300])
@pytest.mark.parametrize("style", ["uniform", "contrast"])
def test_any_magnitude_on_larger_grids(style: str, weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = [weight * f for f in make_functions(rng, (7, 9), 4, style)]
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(63)[:20]}
    functions, _ = condition(whole, fixed)
    s = check_solver(functions, fixed, 63)
    theta = rng.normal(size=(3, s.n))
    lists = on_list(s)
    for tie in ("min", "max"):
        y, values, stats = s.maximize(theta, [1.0, 1.0], tie=tie)
        z, others, its_stats = lists.maximize(Problems(theta, np.ones((1, 2)), None, 3), tie, 1)
        assert np.array_equal(y, z)
        assert np.allclose(values, others, rtol=1e-13, atol=1e-12 * (1 + weight))
        assert np.allclose(stats, its_stats, rtol=1e-13, atol=1e-12 * weight)


@pytest.mark.parametrize("scales", [(1e-6, 1e6), (1e9, 1.0), (1e-12, 1e3), (1e150, 1e-150)])
def test_directions_of_different_magnitudes(scales: tuple[float, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape in ((3, 5), (5, 4)):
        n = shape[0] * shape[1]
        whole = [w * cut for w, cut in zip(scales, ls.grid_cuts(shape), strict=True)]
        fixed = to_few(rng, n, {n // 2: 0, n // 2 + 1: 1}, 7)
        functions, _ = condition(whole, fixed)
        f = functions[0] + functions[1]
        s = ls.prepare([f])
        assert s.solver == (GRID if cuts_in([f]) else "sorting")
        # fields of either magnitude, and between
        theta = rng.normal(size=(3, s.n)) * rng.choice([*scales, 1.0], (3, s.n))
        y, values, _ = s.maximize(theta, 1.0, tie="min")
        for m in range(3):
            energies = exact_energies(f, theta[m])
            best, size = max(energies), 2.0**-52 * (np.abs(theta[m]).max() + 8 * max(scales))
            assert float(best - energies[number_of(y[m])]) <= 8 * size
            assert values[m] == pytest.approx(float(best), abs=64 * size)
