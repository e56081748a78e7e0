import copy
import dataclasses

import numpy as np
import pytest

import logsuper as ls
from logsuper.cli._cleaning import is_doubtful


@pytest.fixture(scope="module", params=["shared", "pixel"])
def denoiser(request):
    clean = ls.make_silhouettes(20, (18, 16), seed=0)
    noisy = ls.Flips(0.15).sample(clean, seed=1)
    return ls.MaskDenoiser(marginals="exact", modular=request.param).fit(noisy), noisy


def test_the_posterior_is_that_of_the_denoiser(denoiser):
    model, noisy = denoiser
    for image in noisy[:3]:
        image = image.astype(float)
        image[3:5, 2:9] = np.nan
        expected = model.predict_proba([image])[0]
        found = model.posterior(image).marginals("exact").values.reshape(image.shape)
        assert np.allclose(np.clip(found, 1e-4, 1 - 1e-4), expected, atol=1e-4)


def test_doubtful_pixels_are_those_whose_interval_holds_one_half(denoiser):
    model, noisy = denoiser
    for image in noisy[:3]:
        truth = model.posterior(image).marginals("exact").values.reshape(image.shape)
        found = is_doubtful(model, image)
        [lower], [upper] = model.predict_interval([image])
        assert np.array_equal(found, (lower <= 0.5) & (upper >= 0.5))
        # what is certified to be on one side is there
        assert not found[np.abs(truth - 0.5) > 0.1].any()
    # nothing seen and nothing preferred: every pixel is at one half
    blank = ls.MaskDenoiser(modular="none", context=0).fit(noisy)
    assert is_doubtful(blank, np.full((6, 6), np.nan)).all()


@pytest.mark.parametrize("neighbors", [8, "volume"])
def test_diagonal_neighbours_and_volumes_have_certified_intervals(neighbors):
    clean = ls.make_silhouettes(6, (16, 16), seed=0)
    shapes = clean if neighbors == 8 else np.stack([clean[:3]] * 4, axis=1)
    noisy = ls.Flips(0.3).sample(shapes, seed=1)
    options = {} if neighbors == "volume" else {"neighbors": 8}
    model = ls.MaskDenoiser(noise=0.3, **options).fit(noisy)
    lower, upper = model.predict_interval(noisy)
    found = np.array([is_doubtful(model, image) for image in noisy])
    assert np.array_equal(found, (lower <= 0.5) & (upper >= 0.5))
    # what is certified to be on one side is there
    sample = model.sample_posterior(noisy[:1], 400, random_state=0)[0].mean(axis=0)
    assert (sample[upper[0] < 0.5] < 0.65).all() and (sample[lower[0] > 0.5] > 0.35).all()
    assert not found[0].all()


@pytest.mark.parametrize("alpha", [(0.0, 0.0), (0.0, 1.3), (0.7, 0.0)])
def test_weights_may_be_zero(denoiser, alpha):
    model, noisy = denoiser
    other = copy.copy(model)
    other.parameters_ = dataclasses.replace(model.parameters_, alpha=np.array(alpha))
    other.alpha_ = other.parameters_.alpha
    truth = other.posterior(noisy[0]).marginals("exact").values.reshape(noisy[0].shape)
    found = is_doubtful(other, noisy[0])
    assert not found[np.abs(truth - 0.5) > 0.1].any()
