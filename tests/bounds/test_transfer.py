"""Exact transfer matrices: against enumeration, and against Kac and Ward without a field."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from bounds.grids import ENGINES, SHAPES, brute, random_grid, transposed, use_engine
from bounds.kac_ward import kac_ward

import logsuper as ls
from logsuper.bounds import NotApplicable, TooLarge, _transfer, _windows
from logsuper.structures import image_of


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_enumeration(monkeypatch, engine, shape, seed):
    use_engine(monkeypatch, engine)
    rng = np.random.default_rng(seed)
    for weight, field in [
        (1.0, 1.0),
        (0.0, 1.0),
        (3.0, 0.0),
        (60.0, 40.0),
        (1e3, 1e3),
        (1e-3, 1e3),
    ]:
        f = random_grid(rng, shape, weight, field)
        bound = _transfer.log_partition(f)
        exact, mu = brute(f)
        assert (bound.target, bound.certified, bound.method) == ("exact", True, "transfer")
        assert bound.value == pytest.approx(exact, rel=1e-12, abs=1e-11)
        found = _transfer.marginals(f)
        np.testing.assert_allclose(found, mu, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 40), (9, 9), (14, 6)])
def test_equals_kac_ward_without_a_field(shape, seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, shape, 0.9, 0.0)
    grid = image_of(f)
    assert _transfer.log_partition(f).value == pytest.approx(
        kac_ward(grid.across, grid.down), rel=1e-11
    )
    np.testing.assert_allclose(_transfer.marginals(f), 0.5, rtol=1e-10)


def test_marginals_are_the_derivative_in_the_field(seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (8, 10))
    found = _transfer.marginals(f)
    for d in rng.choice(80, 5, replace=False):
        step = np.zeros(80)
        step[d] = 1e-4
        up, down = (_transfer.log_partition(f - ls.Modular(s * step)).value for s in (1, -1))
        assert (up - down) / 2e-4 == pytest.approx(found[d], abs=1e-7)


def test_transposed_images_have_the_same_answer(seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (5, 12))
    g = transposed(f, (5, 12))
    assert _transfer.log_partition(g).value == pytest.approx(
        _transfer.log_partition(f).value, rel=1e-13
    )
    turned = np.reshape(_transfer.marginals(g), (12, 5)).T.ravel()
    np.testing.assert_allclose(turned, _transfer.marginals(f), rtol=1e-12)


def test_conditioning_on_a_pixel_splits_the_sum(seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (6, 9), 1.5)
    far = np.zeros(54)
    far[20] = 1e4  # a field that decides the pixel
    on, off = (_transfer.log_partition(f - ls.Modular(s * far)).value for s in (1, -1))
    whole = _transfer.log_partition(f).value
    assert np.logaddexp(on - 1e4, off) == pytest.approx(whole, rel=1e-11)


def test_rows_that_are_not_kept_are_found_again(monkeypatch):
    # 2^15 profiles of 1100 rows are more than are kept
    rng = np.random.default_rng(0)
    f = random_grid(rng, (1100, 15), 0.5)
    if _windows.kernels() is None:
        pytest.skip("the compiled kernels are not available")
    found = np.reshape(_transfer.marginals(f), (1100, 15))
    # far from where it is cut, a part of the picture has the same marginals
    grid = image_of(f)
    for first in (0, 500, 1040):
        rows = slice(first, first + 60)
        across, down = ls.grid_cuts((60, 15))
        part = (
            across.with_weights(grid.across[rows].ravel())
            + down.with_weights(grid.down[first : first + 59].ravel())
            - ls.Modular(grid.t[rows].ravel())
        )
        inner = np.reshape(_transfer.marginals(part), (60, 15))
        np.testing.assert_allclose(inner[25:35], found[rows][25:35], atol=1e-6)


def test_the_two_builds_agree_to_the_last_bit(seed):
    if _windows.kernels() is None:
        pytest.skip("the compiled kernels are not available")
    modules = [
        importlib.import_module(name) for name in ("logsuper._kernels", "logsuper._kernels_avx2")
    ]
    if not modules[0].has_avx2():
        pytest.skip("this processor has no AVX2")
    for weight in (1.0, 200.0):
        grid = image_of(random_grid(np.random.default_rng(seed), (9, 8), weight))
        odds = np.empty((2, 1, 9, 8))
        values = [
            module.strip_transfer(*_windows.Stack.of(grid), out)
            for module, out in zip(modules, odds, strict=True)
        ]
        assert values[0] == values[1]
        np.testing.assert_array_equal(odds[0], odds[1])


def test_what_is_no_grid_is_refused():
    for f in (ls.LogDet(np.eye(4)), ls.Cut(3, [(0, 1)]), sum(ls.grid_cuts((3, 3), neighbors=8))):
        for call in (_transfer.log_partition, _transfer.marginals):
            with pytest.raises(NotApplicable, match="transfer needs a sum of the 4-neighbour cuts"):
                call(f)
        assert _transfer.operations(f) == np.inf


def test_what_is_too_large_is_refused_at_once():
    across, down = ls.grid_cuts((40, 40))
    for call in (_transfer.log_partition, _transfer.marginals):
        with pytest.raises(TooLarge, match=r"40 columns would take .* operations") as caught:
            call(across + down)
        assert caught.value.operations >= 2.0**40
    across, down = ls.grid_cuts((1000, 23))
    with pytest.raises(TooLarge):
        _transfer.marginals(across + down)


def test_weights_that_cannot_be_added_are_refused():
    across, down = ls.grid_cuts((2, 3))
    with pytest.raises(NotApplicable, match="below 1e"):
        _transfer.log_partition(1e308 * across + down)


def test_operations_count_the_states_of_all_sites():
    across, down = ls.grid_cuts((100, 7))
    assert _transfer.operations(across + down) == 700 * 2.0**7
