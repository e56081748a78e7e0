"""`MaskDenoiser` and the noise: given, counted, learned; rates and grey levels."""

import warnings
from types import MappingProxyType

import numpy as np
import pytest
from denoisers import SHAPE, quick
from objective_oracles import long

import logsuper as ls
from logsuper.estimators import _denoiser
from logsuper.estimators._noise import doubt

pytestmark = pytest.mark.usefixtures("stopped_early")


def test_noise_is_counted_against_labels(pairs):
    noisy, clean = pairs
    kwargs = {"modular": "none"}
    wrong = int((noisy != clean).sum())
    denoiser = quick(**kwargs).fit(noisy, clean)
    assert denoiser.noise_ == pytest.approx((wrong + 0.5) / (noisy.size + 1))
    on, off = quick("asymmetric", **kwargs).fit(noisy, clean).noise_
    zeros = clean == 0
    assert on == pytest.approx((noisy[zeros].sum() + 0.5) / (zeros.sum() + 1))
    assert off == pytest.approx(((1 - noisy[~zeros]).sum() + 0.5) / ((~zeros).sum() + 1))


def test_a_rate_for_each_pixel(pairs):
    _, clean = pairs
    rate = np.full(SHAPE, 0.02)
    rate[:, 8:] = 0.3
    noisy = ls.Flips(rate).sample(clean, seed=0)
    denoiser = quick(noise=rate, modular="shared").fit(noisy, clean)
    np.testing.assert_array_equal(denoiser.noise_, rate)
    plain = quick(modular="shared").fit(noisy, clean)
    assert denoiser.score(noisy, clean) > plain.score(noisy, clean)


@long
@pytest.mark.parametrize(
    ("start", "truth"),
    [
        (ls.Flips(0.3), ls.Flips(0.1)),
        (
            ls.Flips([0.3, 0.3], np.indices(SHAPE)[1] // 8),
            ls.Flips([0.05, 0.2], np.indices(SHAPE)[1] // 8),
        ),
        (ls.AsymmetricFlips(0.2, 0.2), ls.AsymmetricFlips(0.05, 0.2)),
        (ls.Gaussian((40.0, 140.0), 40.0), ls.Gaussian((60.0, 120.0), 20.0)),
    ],
    ids=["scalar", "grouped", "asymmetric", "grey"],
)
def test_noise_is_learned_with_the_model(start, truth, pairs):
    noisy = truth.sample(pairs[1], seed=5)
    options = {"noise": "learned", "engine": "exact", "window": 4}
    denoiser = quick(start, "latent", modular="shared", options=options, max_iter=8).fit(noisy)
    assert type(denoiser.channel_) is type(truth)
    given, found, expected = (
        np.ravel(channel.noise) for channel in (start, denoiser.channel_, truth)
    )
    # silhouettes are smoother than any such model, which then takes some noise for signal
    assert np.linalg.norm(found - expected) < 0.5 * np.linalg.norm(given - expected)


def test_grey_levels(seed):
    clean = ls.make_silhouettes(4, shape=SHAPE, seed=seed)
    grey = ls.Gaussian(mean=(60.0, 120.0), scale=(20.0, 30.0)).sample(clean, seed=seed)
    denoiser = quick().fit(grey, clean)
    assert isinstance(denoiser.channel_, ls.Gaussian)
    np.testing.assert_allclose(denoiser.channel_.mean, [60, 120], atol=5)
    np.testing.assert_allclose(denoiser.noise_, [20, 30], rtol=0.2)
    assert denoiser.score(grey, clean) > 0.9


@pytest.mark.parametrize("factor, offset", [(1.0, 0.0), (1e-150, 0.0), (1e130, 0.0), (1.0, 1e11)])
@pytest.mark.parametrize("supervised", [True, False])
def test_grey_levels_have_no_scale_and_no_origin(factor, offset, supervised):
    clean = ls.make_silhouettes(6, shape=SHAPE, seed=0)
    grey = ls.Gaussian((50.0, 200.0), 40.0).sample(clean, seed=1)
    labels = clean if supervised else None
    plain = quick().fit(grey, labels)
    other = quick().fit(factor * grey + offset, labels)
    np.testing.assert_allclose(np.array(other.noise_) / factor, plain.noise_, rtol=1e-5)
    np.testing.assert_allclose(other.alpha_, plain.alpha_, rtol=0.05)


@pytest.mark.parametrize("scale", [40.0, 80.0])
def test_bytes_that_are_cut_off_need_no_labels(scale):
    clean = ls.make_silhouettes(20, shape=(24, 24), seed=0)
    grey = ls.Gaussian((50.0, 200.0), scale).sample(clean, seed=1)
    grey = np.clip(np.round(grey), 0, 255).astype(np.uint8)
    denoiser = ls.MaskDenoiser(max_iter=1000).fit(grey)
    before = np.mean((grey > 125) != clean)
    assert 1.0 - denoiser.score(grey, clean) < 0.4 * before
    assert max(*denoiser.alpha_, denoiser.scale_) < 50.0


def test_a_rate_far_above_what_the_images_show_is_doubted(pairs):
    noisy, clean = pairs
    with pytest.warns(UserWarning, match=r"noise = 0.3, but the images look like 0\.1"):
        quick(0.3, modular="shared").fit(noisy)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "noise =")
        quick(0.1, modular="shared").fit(noisy)
        quick(0.07, modular="shared").fit(noisy)  # isolated pixels of the clean images look alike
        quick(0.3, modular="shared").fit(noisy, clean)  # labels say what is right
        for start in ({"noise": "learned"}, MappingProxyType({"noise": "learned"})):
            quick(0.3, "latent", modular="shared", options=start, max_iter=1).fit(noisy)


def test_one_rate_is_doubted_in_any_words(pairs):
    noisy, _ = pairs
    halves = np.indices(SHAPE)[1] // 8
    for channel in (
        ls.AsymmetricFlips(0.3, 0.3),
        ls.Missing(0.1, ls.Flips(0.3)),
        ls.Flips(np.full(SHAPE, 0.3)),
        ls.Flips([0.3, 0.3], halves),
    ):
        with pytest.warns(UserWarning, match=r"noise = 0.3, but the images look like 0\.1"):
            doubt(channel, list(noisy))


def test_what_the_images_say_is_not_doubted(pairs, monkeypatch):
    monkeypatch.setattr(_denoiser, "doubt", lambda *_: pytest.fail("measured twice"))
    quick(modular="shared").fit(pairs[0])


def test_rates_that_differ_are_not_doubted(seed):
    # what is between like neighbours lies outside; the mean over all pixels says nothing of it
    clean = ls.make_silhouettes(6, shape=(32, 32), seed=seed)
    groups = 1 - np.rint(clean.mean(axis=0)).astype(int)
    texture = np.where(groups == 0, np.random.default_rng(seed).integers(0, 2, clean.shape), clean)
    for channel in (
        ls.Flips([0.4, 0.01], groups),
        ls.Flips(np.where(groups == 1, 0.01, 0.4)),
        ls.AsymmetricFlips(0.01, 0.4),
        ls.Gaussian(),
    ):
        noisy = channel.sample(texture, seed)
        doubt(channel, list(noisy))  # warnings are errors


def test_the_noise_has_a_standard_error(tmp_path):
    clean = ls.make_silhouettes(20, shape=(30, 30), seed=0)
    off = []
    for seed in range(6):
        noisy = ls.Flips(0.1).sample(clean, seed=seed)
        denoiser = quick().fit(noisy)
        assert 0.0005 < denoiser.noise_stderr_ < 0.01
        off.append((denoiser.noise_ - 0.1) / denoiser.noise_stderr_)
    assert max(map(abs, off)) < 4.0
    denoiser.save(tmp_path / "model")
    assert ls.load_model(tmp_path / "model").noise_stderr_ == denoiser.noise_stderr_
    counted = quick().fit(noisy, clean)
    assert counted.noise_stderr_ == pytest.approx(np.sqrt(0.1 * 0.9 / clean.size), rel=0.1)
    assert quick(noise=0.1).fit(noisy).noise_stderr_ == 0.0
    both = ls.AsymmetricFlips(0.05, 0.15).sample(clean, seed=0)
    for labels in (None, clean):
        denoiser = quick(noise="asymmetric").fit(both, labels)
        for rate, error, truth in zip(
            denoiser.noise_, denoiser.noise_stderr_, (0.05, 0.15), strict=True
        ):
            assert 0.0 < error < 0.05 and abs(rate - truth) < 5 * error
    grey = ls.Gaussian((0.0, 1.0), 0.4).sample(clean, seed=0)
    assert np.isnan(quick(noise="gaussian").fit(grey, clean).noise_stderr_)
