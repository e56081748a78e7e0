"""Warnings of answers that cannot be right, and that what they tell to do works."""

import functools
import warnings

import numpy as np
import pytest
from objective_oracles import long
from scipy.ndimage import gaussian_filter, label

import logsuper as ls
from logsuper.estimators import _doubts, _noise
from logsuper.estimators._doubts import doubt_answer
from logsuper.learning import Learned, make_examples

LIGHT = "the light is uneven: inside of regions"
LEVELS = "two Gaussian levels do not describe noisy"
NOISE = "the noise is not independent: inside of regions"


def hear(noisy, clean=None, **options):
    """Return a denoiser, fitted in few steps, and what was said of the images."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ls.MaskDenoiser(**{"max_iter": 300, "n_samples": 20, **options}).fit(noisy, clean)
    about = [w for w in said if not issubclass(w.category, ls.ConvergenceWarning)]
    return model, [str(w.message) for w in about]


def draw(seed, side=64, count=1):
    clean = ls.make_silhouettes(count, (side, side), seed=seed)
    return clean, np.random.default_rng([seed, 3])


@functools.cache
def uneven(seed):
    """Return an image under uneven light, its mask, a denoiser fitted to it, and what was said."""
    clean, rng = draw(seed)
    noisy = 80.0 + 80.0 * clean + np.linspace(-50, 50, 64) + 30.0 * rng.normal(size=clean.shape)
    return noisy, clean, *hear(noisy)


# ------------------------------------------------------------------------------- grey, by a fit


@long
def test_two_levels_and_independent_noise_are_not_doubted(seed):
    clean, rng = draw(seed)
    for deviation in (20.0, 45.0):
        assert hear(80.0 + 80.0 * clean + deviation * rng.normal(size=clean.shape))[1] == []


@long
def test_uneven_light_is_said_and_flattening_helps(seed):
    noisy, clean, model, said = uneven(seed)
    assert len(said) == 1 and said[0].startswith(LIGHT)
    assert "flatten_light(noisy)" in said[0] and "NaN for the others" in said[0]
    flat = ls.flatten_light(noisy)
    again, said = hear(flat)
    assert said == []
    assert 1.0 - again.score(flat, clean) < 0.2 * (1.0 - model.score(noisy, clean))


@long
def test_large_images_say_where_the_light_is():
    clean, rng = draw(0, 130)
    noisy = 80.0 + 80.0 * clean + np.linspace(-50, 50, 130) + 30.0 * rng.normal(size=clean.shape)
    _, said = hear(noisy)
    assert said[0].startswith(LIGHT)
    # places are those of the image, not of the windows that learning looked at
    columns = [int(part.split("]")[0].split(",")[1]) for part in said[0].split("noisy[0][")[1:]]
    assert len(columns) == 2 and max(columns) > 64


@long
def test_correlated_noise_is_said_and_every_fourth_pixel_helps(seed):
    clean, rng = draw(seed, 256)
    noise = gaussian_filter(rng.normal(size=clean.shape), (0, 1, 1))
    noisy = 80.0 + 80.0 * clean + 30.0 * noise / noise.std()
    _, said = hear(noisy[:, :64, :64])
    assert len(said) == 1 and said[0].startswith(NOISE)
    assert "noisy[:, ::4, ::4]" in said[0]
    assert hear(noisy[:, ::4, ::4])[1] == []


@long
def test_more_than_two_levels_are_said(seed):
    clean, rng = draw(seed)
    other = ls.make_silhouettes(1, (64, 64), seed=seed + 1000)
    _, said = hear(80.0 + 80.0 * (clean + other) + 10.0 * rng.normal(size=clean.shape))
    assert len(said) == 1 and said[0].startswith(LEVELS)
    assert "classifier" in said[0]


def test_noise_alone_is_said(seed):
    noise = np.random.default_rng(seed).normal(size=(1, 48, 48))
    _, said = hear(noise, max_iter=20)
    assert len(said) == 1 and said[0].startswith("noisy looks like noise alone")
    # whoever gives the channel knows that there may be nothing to see
    assert hear(noise, noise=ls.Gaussian((0.0, 3.0)), max_iter=20)[1] == []


def test_two_levels_that_are_one_are_refused(monkeypatch):
    same = ls.Gaussian((0.0, 1e-4), 1.0)
    monkeypatch.setattr(_noise, "estimate_noise", lambda *_, **__: same)
    noise = np.random.default_rng(0).normal(size=(1, 48, 48))
    with pytest.raises(ValueError, match="the one grey level 5e-05, with a deviation of 1, and"):
        ls.MaskDenoiser().fit(noise)


def test_warnings_point_to_the_caller():
    rng = np.random.default_rng(0)
    stripes = np.repeat(rng.random((1, 96, 6)) < 0.2, 16, axis=2).astype(int)
    for noisy, text in ((rng.normal(size=(1, 48, 48)), "noise alone"), (stripes, "clumps")):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ls.MaskDenoiser(max_iter=5).fit(noisy)
        assert [w.filename for w in said if text in str(w.message)] == [__file__]


@long
def test_labels_of_some_pixels_are_an_answer(seed):
    noisy, clean, blind, _ = uneven(seed)
    some = np.where(np.random.default_rng(seed).random(clean.shape) < 0.05, clean, np.nan)
    taught, said = hear(noisy, some)
    assert said == []
    assert 1.0 - taught.score(noisy, clean) < 0.6 * (1.0 - blind.score(noisy, clean))


@long
def test_flattened_coins():
    data = pytest.importorskip("skimage.data")
    coins = data.coins()[::2, ::2]
    _, said = hear([coins])
    assert any(text.startswith(LIGHT) for text in said) and len(said) <= 2
    flat = ls.flatten_light([coins])
    model, said = hear(flat)
    assert said and not any(text.startswith(LIGHT) for text in said)
    parts, _ = label(model.predict(flat)[0])
    sizes = np.bincount(parts.ravel())[1:]
    assert np.count_nonzero(sizes > 100) == 24  # coins
    assert sizes[sizes > 100].sum() > 0.97 * sizes.sum()


# ---------------------------------------------------------------------------------- flips, by a fit


@pytest.mark.parametrize("noise", ["auto", 0.15])
def test_stripes_of_flips_are_said(noise, seed):
    clean, rng = draw(seed, 96)
    rows = np.repeat(rng.random((1, 96, 6)) < 0.12, 16, axis=2)
    _, said = hear(clean ^ (rows | (rng.random(clean.shape) < 0.05)), noise=noise, max_iter=20)
    assert 1 <= len(said) <= 2 and "independent flips" in said[0]


@pytest.mark.parametrize("noise", ["auto", 0.1])
def test_independent_flips_are_not_doubted(noise, seed):
    clean, _ = draw(seed, 64, count=2)
    assert hear(ls.Flips(0.1).sample(clean, seed=seed), noise=noise)[1] == []


# ------------------------------------------------------------------------------- all or nothing


def judge(noisy, channel, labelled=False, modular="shared", said_before=0, **values):
    """Return what is said of parameters that were not learned but given."""
    examples = make_examples(
        ls.grid_cuts(noisy.shape[1:]), observed=noisy, channel=channel, modular=modular, scale=True
    )
    theta = examples.layout.fill(**values)
    learned = Learned(examples.layout.unpack(theta), theta, True, ())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        doubt_answer(
            examples,
            learned,
            list(noisy),
            None,
            labelled=labelled,
            estimated=False,
            residuals=False,
            said=said_before,
            key=0,
            n_jobs=None,
        )
    return [str(w.message) for w in said]


CHANNEL = ls.Gaussian((80.0, 160.0), 30.0)


@pytest.fixture(scope="module")
def grey():
    return CHANNEL.sample(ls.make_silhouettes(2, (40, 40), seed=0), seed=1)


def test_weights_that_make_sense_are_not_doubted(grey):
    assert judge(grey, CHANNEL, alpha=2.0, scale=1.0) == []


def test_observations_without_a_weight(grey):
    (said,) = judge(grey, CHANNEL, alpha=2.0, scale=0.0)
    assert said.startswith("the learned weight of the observations is 0")


def test_one_label_everywhere(grey):
    (said,) = judge(grey, CHANNEL, alpha=900.0, scale=0.05)
    share = np.mean(ls.make_silhouettes(2, (40, 40), seed=0))
    assert said.startswith("one label covers everything, although")
    assert float(said.split()[5]) == pytest.approx(100 * share, abs=4)
    # of all ones as of all zeros
    other = ls.Gaussian((-160.0, -80.0), 30.0)
    (said,) = judge(-grey, other, alpha=900.0, scale=0.05)
    assert said.startswith("one label covers everything, although")


def test_one_label_is_right_where_there_is_nothing():
    empty = CHANNEL.sample(np.zeros((2, 40, 40), dtype=int), seed=0)
    assert judge(empty, CHANNEL, alpha=2.0, scale=1.0) == []
    assert (
        judge(
            ls.Flips(0.1).sample(np.zeros((2, 40, 40)), seed=0), ls.Flips(0.1), alpha=2.0, scale=1.0
        )
        == []
    )


def test_probabilities_that_are_all_or_nothing(grey):
    given = {"alpha": 900.0, "scale": 900.0}
    (said,) = judge(grey, CHANNEL, **given)
    assert said.startswith("probabilities are all or nothing: 100 % of the pixels at borders")
    # labels, or a term of each pixel, may know where borders are
    assert judge(grey, CHANNEL, labelled=True, **given) == []
    heavy = "the learned weight of the observations is 900, above 10"
    (said,) = judge(grey, CHANNEL, modular="pixel", **given)
    assert said.startswith(heavy)
    # and so does an image that leaves no doubt
    sharp = ls.Gaussian((80.0, 160.0), 2.0)
    clear = sharp.sample(ls.make_silhouettes(2, (40, 40), seed=0), seed=1)
    (said,) = judge(clear, sharp, **given)
    assert said.startswith(heavy)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"alpha": 10.5, "scale": 8.0}, "function 0"),
        ({"alpha": 1.0, "scale": 12.0}, "the observations"),
    ],
)
def test_weights_beyond_what_a_pixel_feels(values, name):
    flips = ls.Flips(0.1)
    noisy = flips.sample(ls.make_silhouettes(2, (40, 40), seed=0), seed=1)
    (said,) = judge(noisy, flips, modular="pixel", **values)
    assert said.startswith(f"the learned weight of {name} is 1") and "learner='resample'" in said
    assert judge(noisy, flips, modular="pixel", labelled=True, **values) == []


def test_the_most_certain_of_shapes_are_not_doubted(seed):
    squares = np.zeros((4, 40, 40), dtype=int)
    squares[:2, 8:30, 10:35] = 1
    squares[2:, :, 17:] = 1
    noisy = CHANNEL.sample(squares, seed=seed)
    assert judge(noisy, CHANNEL, alpha=5.0, scale=1.3) == []


def test_no_more_than_two_warnings(monkeypatch, grey):
    monkeypatch.setattr(_doubts, "_degenerate", lambda *_: iter(["first", "second", "third"]))
    assert judge(grey, CHANNEL, alpha=2.0, scale=1.0) == ["first", "second"]
    assert judge(grey, CHANNEL, said_before=1, alpha=2.0, scale=1.0) == ["first"]
    assert judge(grey, CHANNEL, said_before=3, alpha=2.0, scale=1.0) == []


def test_channels_with_places_of_their_own(seed):
    rates = np.full((40, 40), 0.1)
    rates[:, 20:] = 0.3
    clean = ls.make_silhouettes(2, (40, 40), seed=seed)
    for channel in (ls.Flips(rates), ls.Flips([0.1, 0.3], (rates > 0.2).astype(int))):
        noisy = channel.sample(clean, seed=seed)
        assert judge(noisy, channel, alpha=2.0, scale=1.0) == []
        assert judge(noisy, channel, alpha=900.0, scale=0.05)[0].startswith("one label")
