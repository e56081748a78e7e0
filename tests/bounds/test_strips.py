"""The strip sandwich: against enumeration, exact transfer, and Kac and Ward at full size."""

from __future__ import annotations

import dataclasses
import importlib
import math

import numpy as np
import oracles
import pytest
from bounds.grids import ENGINES, SHAPES, brute, random_grid, transposed, use_engine
from bounds.kac_ward import kac_ward
from hypothesis import given
from hypothesis import strategies as st
from objective_oracles import long

import logsuper as ls
from logsuper.bounds import NotApplicable, TooLarge, _strips, _transfer, _windows, _windows_numpy
from logsuper.structures import image_of

REGIMES = [(1.0, 1.0), (0.3, 1.0), (1.0, 0.0), (3.0, 0.5), (0.0, 1.0), (40.0, 30.0), (1e3, 1e3)]


def alone(function, grid, *arguments, **options):
    """Call a function of a stack of images with one image."""

    def stacked(argument):
        if isinstance(argument, list | tuple):
            return tuple(map(stacked, argument))
        return argument[None] if isinstance(argument, np.ndarray) else argument

    found = function(_windows.Stack.of(grid), *map(stacked, arguments), **options)
    return [part[0] for part in found]


def interval(f, **options):
    low, high = _strips.log_partition(f, **options).interval
    return low, high


# ------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_brackets_hold_the_exact_values(monkeypatch, engine, shape, seed):
    use_engine(monkeypatch, engine)
    rng = np.random.default_rng(seed)
    for weight, field in REGIMES:
        f = random_grid(rng, shape, weight, field)
        exact, mu = brute(f)
        slack = 1e-13 * (1 + abs(exact))  # of the enumeration
        for window in (1, 2, 3, None):
            low, high = interval(f, window=window)
            assert low - slack <= exact <= high + slack
            found = _strips.marginals(f, window=window)
            assert np.all(found.lower <= mu + 1e-12) and np.all(mu <= found.upper + 1e-12)
            assert np.all((found.lower <= found.values) & (found.values <= found.upper))
            assert np.all((found.lower >= 0) & (found.upper <= 1))


@pytest.mark.parametrize("weight, field", [(0.7, 1.0), (1.4, 0.7), (2.0, 2.0), (0.9, 0.0)])
def test_brackets_hold_the_exact_values_of_larger_grids(weight, field, seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (13, 11), weight, field)
    exact, mu = _transfer.log_partition(f).value, _transfer.marginals(f).values
    for window in (1, 3, 5, 8):
        low, high = interval(f, window=window)
        assert low <= exact <= high
        found = _strips.marginals(f, window=window)
        assert np.all((found.lower <= mu) & (mu <= found.upper))


@pytest.mark.parametrize("weight, constant", [(0.5, 669.236), (0.88, 148.372), (1.5, 10.279)])
def test_brackets_hold_the_determinant_of_kac_and_ward(weight, constant):
    across, down = ls.grid_cuts((50, 50))
    exact = kac_ward(np.full((50, 49), weight), np.full((49, 50), weight))
    assert exact == pytest.approx(constant, abs=5e-4)
    low, high = interval(weight * (across + down), window=8)
    assert low <= exact <= high
    assert exact - low < 5
    if weight == 0.5:
        assert high - low < 0.2


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_any_small_grid_is_bracketed(number, rows, columns, window):
    rng = np.random.default_rng(number)
    f = random_grid(rng, (rows, columns), 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(-2, 3))
    exact, mu = brute(f)
    low, high = interval(f, window=window)
    assert low - 1e-13 * abs(exact) <= exact <= high + 1e-13 * abs(exact)
    found = _strips.marginals(f, window=window)
    assert np.all((found.lower <= mu + 1e-12) & (mu <= found.upper + 1e-12))


def test_fields_from_outside_bound_what_the_outside_does(seed):
    # a field is the log of a ratio of sums over the outside, for any rest of the column
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (3, 4), 1.0, 1.0)
    grid = image_of(f)
    inner = oracles.enumerate_x(6).reshape(-1, 3, 2)  # the two outer columns
    x = np.zeros((64, 3, 4), dtype=np.uint8)
    x[:, :, 2:] = inner
    for window in (1, 2):
        low, high = alone(_windows.outside_fields, grid, window, 1)
        for column in oracles.enumerate_x(3):
            for r in range(3):
                sums = []
                for value in (0, 1):
                    x[:, :, 1] = column
                    x[:, r, 1] = value
                    outside = (grid.across[:, 1:] * (x[:, :, 1:3] != x[:, :, 2:4])).sum((1, 2))
                    outside += (grid.down[:, 2:] * (x[:, 1:, 2:] != x[:, :-1, 2:])).sum((1, 2))
                    outside -= (grid.t[:, 2:] * x[:, :, 2:]).sum((1, 2))
                    sums.append(np.logaddexp.reduce(-outside))
                assert low[r, 2] <= sums[1] - sums[0] + 1e-12
                assert sums[1] - sums[0] <= high[r, 2] + 1e-12


# --------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(10, 10), (4, 30), (30, 4), (1, 40), (40, 1)])
def test_a_window_as_wide_as_the_image_is_exact(monkeypatch, engine, shape, seed):
    use_engine(monkeypatch, engine)
    f = random_grid(np.random.default_rng(seed), shape, 1.5)
    bound = _strips.log_partition(f, window=10)
    assert (bound.target, bound.certified) == ("exact", True)
    exact = _transfer.log_partition(f).value
    low, high = bound.interval
    assert low <= exact <= high
    assert high - low < 1e-9
    found = _strips.marginals(f, window=10)
    np.testing.assert_allclose(found, _transfer.marginals(f), rtol=1e-10)
    assert np.max(found.upper - found.lower) < 1e-10


def test_a_chain_given_as_one_axis(seed):
    rng = np.random.default_rng(seed)
    [cut] = ls.grid_cuts((9,))
    f = cut.with_weights(rng.exponential(size=8)) - ls.Modular(rng.normal(size=9))
    assert _strips.log_partition(f).value == pytest.approx(
        oracles.brute_log_partition(f), rel=1e-12
    )


def test_without_edges_it_is_exact_at_any_window(seed):
    t = np.random.default_rng(seed).normal(size=144) * 3
    f = 0.0 * ls.grid_cuts((12, 12))[0] + sum(c.with_weights(0.0) for c in ls.grid_cuts((12, 12)))
    low, high = interval(f - ls.Modular(t), window=2)
    assert low <= np.logaddexp(0, t).sum() <= high
    assert high - low < 1e-9
    np.testing.assert_allclose(_strips.marginals(f - ls.Modular(t), window=2), 1 / (1 + np.exp(-t)))


# ---------------------------------------------------------------------------------------- theorems


def bracket_with_edge_fields(grid, x, window):
    odds = alone(_windows.chain_odds, grid, window, x, alone(_windows.edge_fields, grid), 1)
    low, high = odds
    assert np.all(low <= high)
    return low, high


def test_odds_are_nested_in_the_window_when_the_outside_is_clamped(seed):
    rng = np.random.default_rng(seed)
    grid = image_of(random_grid(rng, (9, 14), 1.2))
    x = rng.integers(0, 2, (9, 14)).astype(np.uint8)
    low, high = bracket_with_edge_fields(grid, x, 1)
    for window in range(2, 15):
        tighter_low, tighter_high = bracket_with_edge_fields(grid, x, window)
        assert np.all(tighter_low >= low - 1e-11) and np.all(tighter_high <= high + 1e-11)
        low, high = tighter_low, tighter_high
    np.testing.assert_allclose(low, high, atol=1e-9)


def test_bounding_the_outside_beats_clamping_it(seed):
    rng = np.random.default_rng(seed)
    grid = image_of(random_grid(rng, (9, 14), 1.2))
    x = rng.integers(0, 2, (9, 14)).astype(np.uint8)
    for window in (1, 3, 6):
        fields = alone(_windows.outside_fields, grid, window, 1)
        for mine, clamped in zip(fields, alone(_windows.edge_fields, grid), strict=True):
            assert np.all(np.abs(mine) <= np.abs(clamped))
        low, high = alone(_windows.chain_odds, grid, window, x, fields, 1)
        worst_low, worst_high = bracket_with_edge_fields(grid, x, window)
        # up to rounding: most of a field is clamped where it acts on a pixel that is nearly certain
        assert np.all(low >= worst_low - 1e-12) and np.all(high <= worst_high + 1e-12)
        assert (high - low).sum() < 0.9 * (worst_high - worst_low).sum()


def test_any_reference_brackets(seed):
    rng = np.random.default_rng(seed)
    f = random_grid(rng, (8, 12), 1.0)
    grid, plan, _ = _strips._lay(f, 4, None)
    exact = _transfer.log_partition(f).value
    for _ in range(5):
        low, high = _strips._sandwich(plan, grid, rng.integers(0, 2, grid.shape).astype(np.uint8))
        assert low <= exact <= high


def test_wider_windows_are_tighter_on_posteriors(seed):
    f = posterior(silhouette(), 0.2, seed)
    widths = [np.diff(interval(f, window=window))[0] for window in (2, 4, 6, 8)]
    assert np.all(np.diff(widths) < 0)
    assert widths[-1] < widths[0] / 10


def test_independent_parts_add_up(seed):
    # two pictures beside each other, joined by edges of weight 0
    rng = np.random.default_rng(seed)
    parts = [image_of(random_grid(rng, (7, 9), 1.3)) for _ in range(2)]
    across, down = ls.grid_cuts((7, 18))
    gap = np.zeros((7, 1))
    whole = (
        across.with_weights(np.hstack([parts[0].across, gap, parts[1].across]).ravel())
        + down.with_weights(np.hstack([part.down for part in parts]).ravel())
        - ls.Modular(np.hstack([part.t for part in parts]).ravel())
    )
    grid = image_of(whole)
    x = ls.maximize(whole, np.zeros(126))[0].reshape(7, 18)
    total = _strips._sandwich(_strips._Plan(grid.shape, 4, 3, 1), grid, x)
    alone = [
        _strips._sandwich(_strips._Plan(part.shape, 4, 3, 1), part, np.ascontiguousarray(x[:, cut]))
        for part, cut in zip(parts, (slice(9), slice(9, 18)), strict=True)
    ]
    np.testing.assert_allclose(total, np.sum(alone, axis=0), rtol=1e-12)


def test_transposed_images_have_the_same_bracket(seed):
    rng = np.random.default_rng(seed)
    for weights in ((0.4, 1.5), (1.5, 0.4)):
        across, down = ls.grid_cuts((14, 12))
        f = weights[0] * across + weights[1] * down - ls.Modular(rng.normal(size=168))
        g = transposed(f, (14, 12))
        np.testing.assert_allclose(interval(g, window=4), interval(f, window=4), rtol=1e-12)
        assert _strips.log_partition(f, window=4).details["transposed"] == (weights[0] > weights[1])
        turned = np.reshape(_strips.marginals(g, window=4).lower, (12, 14)).T.ravel()
        np.testing.assert_allclose(turned, _strips.marginals(f, window=4).lower, rtol=1e-10)


def test_flipping_black_and_white_mirrors_the_bracket(seed):
    f = random_grid(np.random.default_rng(seed), (12, 12), 0.8)
    grid = image_of(f)
    g = f + ls.Modular(2 * grid.t.ravel())  # f(1 - x) = g(x) - sum(t), up to rounding
    shift = float(f(np.ones(144)))
    np.testing.assert_allclose(
        np.array(interval(g, window=4)), np.add(interval(f, window=4), shift)
    )
    np.testing.assert_allclose(
        _strips.marginals(g, window=4).lower, 1 - _strips.marginals(f, window=4).upper, rtol=1e-9
    )


# ----------------------------------------------------------------------------------------- gradient


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight, window", [(1.0, 1), (1.0, 3), (1.0, 7), (40.0, 3)])
def test_the_gradient_is_that_of_the_value(monkeypatch, engine, weight, window, seed):
    use_engine(monkeypatch, engine)
    rng = np.random.default_rng(seed)
    grid = image_of(random_grid(rng, (5, 7), weight))
    x = rng.integers(0, 2, (5, 7)).astype(np.uint8)
    _, *gradient = alone(_strips.strips_gradient, grid, x, window)
    for name, found in zip(("t", "across", "down"), gradient, strict=True):
        part = getattr(grid, name)
        direction = rng.normal(size=part.shape) * (part != 0)
        ends = [
            alone(
                _strips.strips_gradient, dataclasses.replace(grid, **{name: part + step}), x, window
            )[0]
            for step in (1e-5 * direction, -1e-5 * direction)
        ]
        slope = (found * direction).sum()
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-6, abs=1e-5)


def test_the_gradient_is_exact_with_a_wide_window(seed):
    f = random_grid(np.random.default_rng(seed), (6, 8), 1.2)
    x = ls.maximize(f, np.zeros(48))[0].reshape(6, 8)
    value, dt, dacross, _ = alone(_strips.strips_gradient, image_of(f), x, 8)
    assert value == pytest.approx(_transfer.log_partition(f).value, rel=1e-11)
    np.testing.assert_allclose(dt.ravel(), _transfer.marginals(f), atol=1e-10)
    assert np.all((-1 - 1e-12 <= dacross) & (dacross <= 1e-12))  # minus the chance to differ


def test_the_value_is_a_lower_bound(seed):
    f = posterior(silhouette()[:12, 8:30], 0.2, seed)
    grid = image_of(f)
    x = ls.maximize(f, np.zeros(f.n))[0].reshape(grid.shape)
    one, two = (alone(_strips.strips_gradient, grid, x, 5, n_jobs=jobs) for jobs in (1, 2))
    assert one[0] <= _transfer.log_partition(f).value
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


# -------------------------------------------------------------------------------- kernels and NumPy


@pytest.mark.parametrize("weight, field", [(1.0, 1.0), (50.0, 40.0)])
def test_the_builds_and_numpy_agree(weight, field, seed):
    if _windows.kernels() is None:
        pytest.skip("the compiled kernels are not available")
    modules = [importlib.import_module("logsuper._kernels")]
    if modules[0].has_avx2():
        modules.append(importlib.import_module("logsuper._kernels_avx2"))
    rng = np.random.default_rng(seed)
    grid = image_of(random_grid(rng, (7, 11), weight, field))
    x = rng.integers(0, 2, (7, 11)).astype(np.uint8)
    for window in (1, 2, 5):
        results = []
        for module in modules:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_windows, "kernels", lambda module=module: module)
                fields = alone(_windows.outside_fields, grid, window, 1)
                chain = alone(_windows.chain_odds, grid, window, x, fields, 1)
                inside = alone(_windows.marginal_odds, grid, window, 3, min(window, 2), 1)
                gradient = alone(_windows.chain_gradient, grid, window, x, 1)
                results.append([*fields, *chain, *inside, *gradient])
        for one, other in zip(results[0], results[-1], strict=True):
            np.testing.assert_array_equal(one, other)
        fields = _windows_numpy.outside_fields(grid, window)
        chain = _windows_numpy.chain_odds(grid, window, x, fields)
        inside = _windows_numpy.marginal_odds(grid, window, 3, min(window, 2))
        gradient = _windows_numpy.chain_gradient(grid, window, x)
        for one, other in zip(results[0], [*fields, *chain, *inside, *gradient], strict=True):
            # NumPy adds logarithms, and allows for more rounding
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11 * (weight + field))


def test_numpy_goes_in_pieces_where_memory_is_short(monkeypatch, seed):
    grid = image_of(random_grid(np.random.default_rng(seed), (6, 9)))
    x = np.zeros((6, 9), dtype=np.uint8)
    fields = alone(_windows.edge_fields, grid)
    starts = np.arange(6, dtype=np.int64)
    whole = _windows_numpy.chain_odds(grid, 4, x, fields)
    inside = _windows_numpy.window_odds(grid, 4, starts, fields, fields)
    monkeypatch.setattr(_windows_numpy, "_ROOM", 2 * 6 * 16)
    np.testing.assert_array_equal(_windows_numpy.chain_odds(grid, 4, x, fields), whole)
    np.testing.assert_array_equal(
        _windows_numpy.window_odds(grid, 4, starts, fields, fields), inside
    )


def test_windows_of_one_column_leave_no_pixel_out(seed):
    f = random_grid(np.random.default_rng(seed), (4, 5), 0.5)
    found = _strips.marginals(f, window=1)
    _, mu = brute(f)
    assert np.all((found.lower <= mu) & (mu <= found.upper))
    assert found.lower.min() > 0 and found.upper.max() < 1


def test_threads_change_nothing(seed):
    f = random_grid(np.random.default_rng(seed), (20, 25))
    one, two = (_strips.log_partition(f, window=6, n_jobs=jobs) for jobs in (1, 3))
    assert one == two
    a, b = (_strips.marginals(f, window=6, n_jobs=jobs) for jobs in (None, -1))
    np.testing.assert_array_equal(a.lower, b.lower)
    np.testing.assert_array_equal(a.upper, b.upper)


def test_the_kernels_check_their_arrays():
    native = _windows.kernels()
    if native is None:
        pytest.skip("the compiled kernels are not available")
    t, across, down = np.zeros((2, 3, 4)), np.zeros((1, 3, 3)), np.zeros((2, 2, 4))
    out, x = np.zeros((2, 3, 4)), np.zeros((2, 3, 4), np.uint8)

    def chain(t=t, across=across, down=down, window=2, x=x, low=out, odds=out, **memory):
        native.strip_chain(t, across, down, window, x, low, out, 1, odds, out.copy(), **memory)

    def marginals(window=2, reach=2, step=2, threads=1, odds=out, **memory):
        numbers = (window, reach, step, threads)
        native.strip_marginals(t, across, down, *numbers, odds, out.copy(), **memory)

    bad = [
        {"t": np.zeros(24)},
        {"t": np.zeros((6, 4))},
        {"t": np.full((2, 3, 4), np.nan)},
        {"across": np.zeros((2, 3, 4))},
        {"across": np.zeros((3, 3, 3))},
        {"across": np.full((1, 3, 3), -1.0)},
        {"down": np.full((2, 2, 4), np.inf)},
        {"down": np.zeros((2, 3, 4))},
        {"window": 0},
        {"window": 25},
        {"x": np.full((2, 3, 4), 2, np.uint8)},
        {"x": np.zeros((2, 4, 3), np.uint8)},
        {"low": np.full((2, 3, 4), np.nan)},
        {"odds": np.zeros((2, 3, 3))},
    ]
    for wrong in bad:
        with pytest.raises(ValueError):
            chain(**wrong)
    for wrong in [
        {"window": 0},
        {"window": 25},
        {"reach": 0},
        {"reach": 25},
        {"step": 0},
        {"step": 3},
        {"threads": 0},
        {"odds": np.zeros((1, 3, 4))},
        {"odds": np.zeros((2, 3, 3))},
    ]:
        with pytest.raises(ValueError):
            marginals(**wrong)
    for call in (chain, marginals):
        with pytest.raises(MemoryError, match="limit"):
            call(memory=100)
        call(memory=100_000)
    with pytest.raises(ValueError):
        native.strip_fields(t, across, down, 2, 1, out, np.zeros((2, 4, 3)))
    with pytest.raises(ValueError, match="one grid"):
        native.strip_transfer(t, across, down, np.zeros((2, 3, 4)))
    one = t[:1], across, down[:1]
    with pytest.raises(ValueError):
        native.strip_transfer(*one, np.zeros((1, 4, 4)))
    with pytest.raises(TypeError):
        native.strip_transfer(*one, np.zeros((1, 3, 4), np.float32))
    both = np.zeros((2, 3, 3))
    for wrong in [(out, both, out), (out, out, down), (both, both, down), (out, across, down)]:
        with pytest.raises(ValueError):
            native.strip_gradient(t, across, down, 2, x, 1, *wrong)
    native.strip_gradient(t, across, down, 2, x, 1, out, both, down.copy())


# ----------------------------------------------------------------------------------- what users see


def test_sides_and_brackets_agree(seed):
    f = random_grid(np.random.default_rng(seed), (12, 15))
    both = _strips.log_partition(f, window=5)
    lower, upper = _strips.brackets(f, window=5)
    assert (both.target, both.certified) == ("estimate", True)
    assert both.interval == (lower.value, upper.value)
    assert both.value == pytest.approx((lower.value + upper.value) / 2, rel=1e-15)
    for side, bound in (("lower", lower), ("upper", upper)):
        assert _strips.log_partition(f, window=5, side=side) == bound
        assert (bound.target, bound.certified, bound.method) == (side, True, "strips")


def test_bad_options_are_refused():
    f = random_grid(np.random.default_rng(0), (4, 5))
    for options, error in [
        ({"window": 0}, ValueError),
        ({"window": -3}, ValueError),
        ({"window": 2.5}, TypeError),
        ({"window": True}, TypeError),
        ({"side": "above"}, ValueError),
        ({"n_jobs": 0}, ValueError),
    ]:
        [name] = options
        with pytest.raises(error, match=name):
            _strips.log_partition(f, **options)
        if name != "side":
            with pytest.raises(error, match=name):
                _strips.marginals(f, **options)


def test_what_is_no_grid_is_refused():
    volume = sum(ls.grid_cuts((2, 2, 2)))
    for f in (
        ls.LogDet(np.eye(4)),
        ls.Modular([1.0]),
        sum(ls.grid_cuts((3, 3), neighbors=8)),
        volume,
    ):
        for call in (
            _strips.log_partition,
            _strips.marginals,
            _strips.operations,
            _strips.brackets,
        ):
            with pytest.raises(NotApplicable, match="strips needs a sum of the 4-neighbour cuts"):
                call(f)


def test_what_is_too_large_is_refused_at_once():
    f = sum(ls.grid_cuts((60, 60)))
    for call in (_strips.log_partition, _strips.marginals):
        with pytest.raises(TooLarge, match=r"40 columns would take .* operations") as caught:
            call(f, window=40)
        assert caught.value.operations == _strips.operations(f, window=40)


def test_operations_grow_with_the_window():
    f = sum(ls.grid_cuts((40, 50)))
    counts = [_strips.operations(f, window=window) for window in (4, 6, 8)]
    assert counts[0] > 2000 * 2**4
    assert 4 < counts[1] / counts[0] < 8 and 4 < counts[2] / counts[1] < 8


# ----------------------------------------------------------------------------------------- pictures


def silhouette():
    """Return a 40 x 40 picture of a disc on a bar."""
    r, c = np.mgrid[:40, :40]
    return (((r - 15) ** 2 + (c - 20) ** 2 < 90) | ((r > 24) & (r < 32) & (c > 5))).astype(np.uint8)


def posterior(picture, flips, seed):
    """Return the posterior of a picture whose pixels were flipped with some probability."""
    rng = np.random.default_rng(seed)
    seen = picture ^ (rng.random(picture.shape) < flips)
    across, down = ls.grid_cuts(picture.shape)
    t = math.log((1 - flips) / flips) * (2.0 * seen - 1)
    return 1.05 * across + 2.2 * down - ls.Modular(t.ravel())


def test_posteriors_of_silhouettes_are_almost_exact(seed):
    easy, hard = (posterior(silhouette(), flips, seed) for flips in (0.1, 0.2))
    assert np.diff(interval(easy)) < 1e-4
    assert np.diff(interval(hard)) < 0.1
    found = _strips.marginals(easy)
    assert np.mean(found.upper - found.lower < 1e-2) > 0.99


@long
def test_posteriors_of_horses_are_almost_exact(horses):
    for number, horse in enumerate(horses[:5]):
        assert np.diff(interval(posterior(horse, 0.1, number))) < 0.005
        assert np.diff(interval(posterior(horse, 0.2, number))) < 0.3
        found = _strips.marginals(posterior(horse, 0.1, number))
        assert np.mean(found.upper - found.lower < 1e-2) > 0.99


def test_threads_do_not_decide_what_is_too_large():
    f = 0.5 * ls.grid_cuts((40, 40))[0] + 0.5 * ls.grid_cuts((40, 40))[1]
    plan = _strips._lay(f, 14, None)[1]
    many = dataclasses.replace(plan, threads=10**6)
    assert plan.fitting().threads == 1
    assert 1 < many.fitting().threads < 1000


def test_bracket_takes_a_window_that_fits_into_memory(monkeypatch):
    f = 0.5 * ls.grid_cuts((30, 30))[0] + 0.5 * ls.grid_cuts((30, 30))[1]
    monkeypatch.setattr(_strips, "MEMORY", 50 * 8.0 * 2**6)
    assert _strips.affordable(f, 6, 1e12)
    assert not _strips.affordable(f, 7, 1e12)


def test_gradient_of_the_upper_bound(seed):
    rng = np.random.default_rng(seed)
    across, down = ls.grid_cuts((5, 6))
    grid = image_of(0.9 * across + 0.6 * down)
    grid = dataclasses.replace(grid, t=rng.normal(size=(5, 6)))
    x = rng.integers(0, 2, (5, 6)).astype(np.uint8)
    exactly = alone(_strips.strips_gradient, grid, x, 6)[0]
    assert alone(_strips.strips_gradient, grid, x, 2)[0] < exactly
    value, *gradient = alone(_strips.strips_gradient, grid, x, 2, side="upper")
    assert value > exactly
    for name, found in zip(("t", "across", "down"), gradient, strict=True):
        part = getattr(grid, name)
        for at in ((0, 0), (2, 3), (3, 4)):
            step = np.zeros_like(part)
            step[at] = 1e-5
            ahead, behind = (
                alone(
                    _strips.strips_gradient,
                    dataclasses.replace(grid, **{name: part + sign * step}),
                    x,
                    2,
                    side="upper",
                )[0]
                for sign in (1, -1)
            )
            assert found[at] == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)
    slow = _windows_numpy.chain_gradient(grid, 2, x, upper=True)
    fast = alone(_windows.chain_gradient, grid, 2, x, 1, upper=True)
    for one, other in zip(slow, fast, strict=True):
        assert one == pytest.approx(other, abs=1e-11)
