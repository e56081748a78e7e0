"""Correlation of what is left of the noise."""

import warnings

import numpy as np
import pytest
from objective_oracles import long
from scipy.ndimage import gaussian_filter

import logsuper as ls
from logsuper.learning._residuals import neighbour_correlation


@pytest.mark.parametrize("channel", [ls.Flips(0.2), ls.AsymmetricFlips(0.05, 0.3), ls.Gaussian()])
def test_independent_noise_has_none(channel, seed):
    x = ls.make_silhouettes(40, seed=seed)
    found, stderr = neighbour_correlation(channel.sample(x, seed=seed), x)
    assert abs(found) < 4 * stderr < 0.05


def test_what_is_correlated_is_found(seed):
    rng = np.random.default_rng(seed)
    x = ls.make_silhouettes(20, seed=seed)
    noise = gaussian_filter(rng.normal(size=x.shape), (0, 1, 1))
    found, _ = neighbour_correlation(x + noise / noise.std(), x)
    assert found == pytest.approx(np.exp(-1 / 4), abs=0.05)  # of a Gaussian blur of width 1


def test_missing_pixels_and_nothing_at_all():
    x = np.zeros((1, 20, 20))
    z = np.random.default_rng(0).random((1, 20, 20))
    z[0, ::2] = np.nan
    assert np.isfinite(neighbour_correlation(z, x)[0])
    assert neighbour_correlation(np.full((1, 4, 4), np.nan), x[:, :4, :4])[1] == np.inf
    assert neighbour_correlation(np.zeros((1, 4, 4)), x[:, :4, :4])[1] == np.inf


@long
def test_uneven_light_is_said():
    x = ls.make_silhouettes(4, shape=(60, 60), seed=0)
    rng = np.random.default_rng(1)
    light = np.linspace(0.0, 2.0, 60)
    z = x + light + 0.3 * rng.normal(size=x.shape)
    with pytest.warns(UserWarning, match="uneven light"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ls.ConvergenceWarning)
        ls.MaskDenoiser(tol=1e-2).fit(z)
    even = x + 0.3 * rng.normal(size=x.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", category=ls.ConvergenceWarning)
        ls.MaskDenoiser(tol=1e-2).fit(even)
