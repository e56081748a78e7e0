"""Brackets of marginals by tiles contain the exact marginals, and shrink as asked for."""

import numpy as np
import pytest
from scipy.special import softmax

import logsuper as ls
from logsuper.bounds import _tiles


def exact(f, theta):
    """Return exact marginals of a narrow image."""
    return (
        ls.LogSupermodular(f - ls.Modular(theta.ravel()))
        .marginals("transfer")
        .values.reshape(theta.shape)
    )


@pytest.mark.parametrize("strength", [0.2, 0.6, 1.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_brackets_contain_the_exact_marginals(strength, seed):
    rng = np.random.default_rng(seed)
    shape = (9, 45)
    a = strength * rng.uniform(0.5, 1, 2)
    f = ls.Sum([(w, cut) for w, cut in zip(a.tolist(), ls.grid_cuts(shape), strict=True)])
    theta = rng.normal(size=shape)
    right = exact(f, theta)
    for options in ({"halo": 0, "width": 1.0}, {"halo": 2, "width": 1e-2}, {"window": 4}):
        found = ls.marginals_tiles(f, theta, block=6, **options)
        assert (found.lower <= right + 1e-12).all() and (right <= found.upper + 1e-12).all()
        assert found.details["width"] == (found.upper - found.lower).max()


def test_the_width_asked_for_is_reached():
    rng = np.random.default_rng(0)
    shape = (40, 37)
    f, theta = ls.Sum([(0.5, cut) for cut in ls.grid_cuts(shape)]), 2.0 * rng.normal(size=shape)
    for width in (0.1, 1e-3, 1e-5):
        found = ls.marginals_tiles(f, theta, width=width, block=16, halo=1)
        assert (found.upper - found.lower).max() <= width
        assert found.details["wider"] == 0


def test_weights_and_fixed_pixels():
    rng = np.random.default_rng(1)
    shape = (8, 30)
    cuts = ls.grid_cuts(shape)
    theta = rng.normal(size=shape)
    theta[rng.random(shape) < 0.1] = np.inf
    theta[rng.random(shape) < 0.1] = -np.inf
    weights = [rng.exponential(size=(8, 29)), rng.exponential(size=(7, 30))]
    tilt = ls.Modular(rng.normal(size=240))
    f = 0.5 * cuts[0] + 0.4 * cuts[1] + tilt
    found = ls.marginals_tiles(f, theta, edge_weights=weights, block=7, width=1e-2)
    own = [c.with_weights(w.ravel()) for c, w in zip(cuts, weights, strict=True)]
    fixed = {int(i): int(theta.ravel()[i] > 0) for i in np.flatnonzero(np.isinf(theta))}
    free = ls.Modular(np.where(np.isinf(theta), 0.0, theta).ravel())
    model = ls.LogSupermodular(0.5 * own[0] + 0.4 * own[1] + tilt - free).condition(fixed)
    right = model.marginals("transfer").values.reshape(shape)
    assert (found.lower <= right + 1e-12).all() and (right <= found.upper + 1e-12).all()
    assert (found.lower[np.isinf(theta)] == (theta[np.isinf(theta)] > 0)).all()


def test_threads_do_not_change_the_result():
    rng = np.random.default_rng(2)
    f, theta = ls.Sum([(0.5, cut) for cut in ls.grid_cuts((30, 30))]), rng.normal(size=(30, 30))
    one, two = (ls.marginals_tiles(f, theta, block=12, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.lower, two.lower)
    np.testing.assert_array_equal(one.upper, two.upper)


STENCILS = [
    ((4, 4), 8),
    ((7, 2), 8),
    ((2, 2, 4), 6),
    ((2, 3, 2), 18),
    ((3, 2, 2), 26),
    ((12, 1), 4),
]


def all_states(f, theta):
    """Return exact marginals by enumeration; infinite fields fix pixels."""
    n = theta.size
    x = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(float)
    field, fixed = theta.ravel(), np.isinf(theta.ravel())
    x = x[(x[:, fixed] == (field[fixed] > 0)).all(axis=1)]
    p = softmax(x @ np.where(fixed, 0.0, field) - f(x))
    return (p @ x).reshape(theta.shape)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shape", "neighbors"), STENCILS)
def test_other_stencils_contain_the_exact_marginals(shape, neighbors, seed):
    """Any coupling from weak to strong, contrast weights, huge and infinite fields."""
    rng = np.random.default_rng([seed, len(shape), neighbors])
    cuts = ls.grid_cuts(shape, neighbors)
    weights = [rng.exponential(size=cut.weights.shape) for cut in cuts]
    a = 10 ** rng.uniform(-1, 1.2) * rng.uniform(0.2, 1.5, len(cuts))
    own = [cut.with_weights(w) for cut, w in zip(cuts, weights, strict=True)]
    f = ls.Sum(list(zip(a.tolist(), own, strict=True)))
    theta = 10 ** rng.uniform(-1, 1 + 2 * (seed == 3)) * rng.normal(size=shape)
    theta[rng.random(shape) < 0.1] = rng.choice([-np.inf, np.inf])
    right = all_states(f, theta)
    options = {"block": int(rng.integers(1, 6)), "halo": int(rng.integers(0, 3))}
    for window, width in ((1, 1.0), (5, 0.1), (9, 1e-4)):
        found = ls.marginals_tiles(f, theta, window=window, width=width, **options)
        assert (found.lower <= right + 1e-12).all() and (right <= found.upper + 1e-12).all()
        assert (found.lower <= found.upper).all()
        assert found.details["width"] == (found.upper - found.lower).max()
    # with a front that holds the whole section of this image, bounds are exact
    if neighbors == 8 and np.prod(a) < 1:
        assert found.details["width"] < 1e-3


def test_eight_neighbours_of_a_noisy_image_have_narrow_brackets():
    image = ls.make_silhouettes(1, shape=(36, 40), seed=1)[0][14:22]
    theta = 2.2 * (2.0 * ls.datasets.corrupt(image, ls.Flips(0.1), seed=0) - 1.0)
    f = ls.Sum([(0.3, cut) for cut in ls.grid_cuts(theta.shape, 8)])
    right = ls.LogSupermodular(f - ls.Modular(theta.ravel())).marginals("elimination")
    found = ls.marginals_tiles(f, theta, block=20, halo=4, window=8, width=2e-3)
    assert found.details["width"] <= 2e-3 and found.details["wider"] == 0
    assert (found.lower <= right.upper).all() and (right.lower <= found.upper).all()


@pytest.mark.parametrize("neighbors", [4, 8])
def test_models_with_fixed_pixels(neighbors):
    rng = np.random.default_rng(neighbors)
    shape = (4, 4)
    f = ls.Sum([(0.6, cut) for cut in ls.grid_cuts(shape, neighbors)])
    theta = rng.normal(size=shape)
    fixed = {1: 1, 6: 0, 11: 1}
    model = ls.LogSupermodular(f).condition(fixed)
    inside = theta.copy()
    inside.ravel()[list(fixed)] = [np.inf if value else -np.inf for value in fixed.values()]
    right = all_states(f, inside)
    found = ls.marginals_tiles(model, theta, block=2, halo=3, width=1e-6)
    np.testing.assert_allclose(found, right, atol=1e-6)
    alone = ls.marginals_tiles(model.f, theta, block=2, halo=3, width=1e-6)
    np.testing.assert_array_equal(alone.lower.ravel()[model.free], found.lower.ravel()[model.free])


@pytest.mark.parametrize(("shape", "neighbors"), [((30, 33), 4), ((13, 17), 8), ((5, 4, 9), 6)])
def test_dask_arrays_are_lazy_and_have_the_same_bits(shape, neighbors):
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(2)
    cuts = ls.grid_cuts(shape, neighbors)
    f = ls.Sum([(0.3, cut) for cut in cuts]) + ls.Modular(rng.normal(size=np.prod(shape)))
    theta = rng.normal(size=shape)
    sides = [[n - abs(o) for n, o in zip(shape, cut.offset, strict=True)] for cut in cuts]
    weights = [rng.exponential(size=side) for side in sides]
    options = {"edge_weights": weights, "block": 6, "halo": 1, "window": 5, "width": 0.3}
    right = ls.marginals_tiles(f, theta, **options)
    found = ls.marginals_tiles(f, da.from_array(theta, chunks=9), **options)
    for name in ("lower", "upper", "values"):
        lazy = getattr(found, name)
        assert isinstance(lazy, da.Array) and lazy.chunks == da.from_array(theta, chunks=9).chunks
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), getattr(right, name))


@pytest.mark.parametrize("neighbors", [4, 8])
def test_finished_tiles_are_not_bracketed_again(neighbors, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    f = ls.Sum([(0.4, cut) for cut in ls.grid_cuts((12, 15), neighbors)])
    theta = rng.normal(size=(12, 15))
    options = {"block": 6, "width": 0.1 if neighbors == 4 else 1.0, "window": 5}
    right = ls.marginals_tiles(f, theta, **options)

    def stop(state):
        if state.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ls.marginals_tiles(f, theta, checkpoint=tmp_path, callback=stop, **options)
    assert len(list(tmp_path.iterdir())) == 3
    calls, bracket = [], _tiles.bracket_tile
    monkeypatch.setattr(_tiles, "bracket_tile", lambda one: calls.append(one) or bracket(one))
    found = ls.marginals_tiles(f, theta, checkpoint=tmp_path, **options)
    assert len(calls) == right.details["tiles"] - 3 and found.details == right.details
    np.testing.assert_array_equal(found.lower, right.lower)
    np.testing.assert_array_equal(found.upper, right.upper)
    # other fields, and a damaged file, are bracketed
    next(tmp_path.iterdir()).write_bytes(b"")
    ls.marginals_tiles(f, theta, checkpoint=tmp_path, **options)
    ls.marginals_tiles(f, theta + 1.0, checkpoint=tmp_path, **options)
    assert len(calls) == 2 * right.details["tiles"] - 2


def test_bad_input_is_named():
    da = pytest.importorskip("dask.array")
    f = ls.Sum([(1.0, cut) for cut in ls.grid_cuts((4, 4))])
    with pytest.raises(ValueError, match="width must be positive"):
        ls.marginals_tiles(f, np.zeros((4, 4)), width=0)
    with pytest.raises(ValueError, match=r"theta\[1, 2\] is NaN"):
        ls.marginals_tiles(f, np.where(np.arange(16).reshape(4, 4) == 6, np.nan, 0.0))
    with pytest.raises(ValueError, match="not for lazy bounds"):
        ls.marginals_tiles(f, da.zeros((4, 4)), callback=print)
    one = np.empty((4, 4))
    for out in ((one, one.astype(np.float32)), (one, np.empty((5, 5))), one):
        with pytest.raises((TypeError, ValueError), match="out"):
            ls.marginals_tiles(f, np.zeros((4, 4)), out=out)
    found = ls.marginals_tiles(f, np.zeros((4, 4)), out=(one, one.copy()))
    assert found.lower is one
