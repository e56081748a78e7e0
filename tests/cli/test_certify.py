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
        found = is_doubtful(model, image, 1)
        # what is certified to be on one side is there
        assert not found[np.abs(truth - 0.5) > 0.1].any()
    # nothing seen and nothing preferred: every pixel is at one half
    blank = ls.MaskDenoiser(modular="none", context=0).fit(noisy)
    assert is_doubtful(blank, np.full((6, 6), np.nan), 1).all()


def test_volumes_have_no_certified_intervals(denoiser):
    with pytest.raises(ValueError, match="certified intervals are for images"):
        is_doubtful(denoiser[0], np.zeros((2, 3, 4)), 1)


@pytest.mark.parametrize("alpha", [(0.0, 0.0), (0.0, 1.3), (0.7, 0.0)])
def test_weights_may_be_zero(denoiser, alpha):
    model, noisy = denoiser
    other = copy.copy(model)
    other.parameters_ = dataclasses.replace(model.parameters_, alpha=np.array(alpha))
    other.alpha_ = other.parameters_.alpha
    truth = other.posterior(noisy[0]).marginals("exact").values.reshape(noisy[0].shape)
    found = is_doubtful(other, noisy[0], 1)
    assert not found[np.abs(truth - 0.5) > 0.1].any()
