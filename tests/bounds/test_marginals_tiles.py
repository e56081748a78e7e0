"""Brackets of marginals by tiles contain the exact marginals, and shrink as asked for."""

import numpy as np
import pytest

import logsuper as ls


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


def test_threads_and_lazy_arrays_do_not_change_the_result():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(2)
    f, theta = ls.Sum([(0.5, cut) for cut in ls.grid_cuts((30, 30))]), rng.normal(size=(30, 30))
    one = ls.marginals_tiles(f, theta, block=12)
    for source, jobs in ((theta, 2), (da.from_array(theta, chunks=9), 1)):
        other = ls.marginals_tiles(f, source, block=12, n_jobs=jobs)
        np.testing.assert_array_equal(one.lower, other.lower)
        np.testing.assert_array_equal(one.upper, other.upper)


def test_what_it_is_not_for():
    with pytest.raises(ls.NotApplicable, match="four neighbours"):
        f = ls.Sum([(1.0, cut) for cut in ls.grid_cuts((4, 4), 8)])
        ls.marginals_tiles(f, np.zeros((4, 4)))
    f = ls.Sum([(1.0, cut) for cut in ls.grid_cuts((4, 4))])
    with pytest.raises(ValueError, match="width must be positive"):
        ls.marginals_tiles(f, np.zeros((4, 4)), width=0)
    one = np.empty((4, 4))
    for out in ((one, one.astype(np.float32)), (one, np.empty((5, 5))), one):
        with pytest.raises((TypeError, ValueError), match="out"):
            ls.marginals_tiles(f, np.zeros((4, 4)), out=out)
    found = ls.marginals_tiles(f, np.zeros((4, 4)), out=(one, one.copy()))
    assert found.lower is one
