"""What is left of the noise inside of regions: where it is not independent, and why."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import logsuper as ls
from logsuper.learning import Place, examine_residuals, neighbour_correlation

SEEDS = range(20)
SIDE = 96
LIGHT = np.linspace(-1.0, 1.0, SIDE)


def draw(seed, side=SIDE):
    """Return a silhouette, and a generator."""
    return ls.make_silhouettes(1, (side, side), seed=seed), np.random.default_rng([seed, 5])


def blurred(rng, shape, width=1.0):
    noise = gaussian_filter(rng.normal(size=shape), (0, width, width))
    return noise / noise.std()


# ------------------------------------------------------------------------------------ correlation


@pytest.mark.parametrize("channel", [ls.Flips(0.2), ls.AsymmetricFlips(0.05, 0.3), ls.Gaussian()])
def test_independent_noise_has_none(channel, seed):
    x = ls.make_silhouettes(40, seed=seed)
    found, stderr = neighbour_correlation(channel.sample(x, seed=seed), x)
    assert abs(found) < 4 * stderr < 0.05


def test_what_is_correlated_is_found(seed):
    x = ls.make_silhouettes(20, seed=seed)
    noise = blurred(np.random.default_rng(seed), x.shape)
    found, _ = neighbour_correlation(x + noise, x)
    assert found == pytest.approx(np.exp(-1 / 4), abs=0.05)  # of a Gaussian blur of width 1


@pytest.mark.parametrize("axis", [1, 2])
def test_the_axis_with_the_largest_correlation_counts(axis, seed):
    x, rng = draw(seed)
    offsets = rng.normal(size=tuple(1 if k == axis else n for k, n in enumerate(x.shape)))
    found, _ = neighbour_correlation(x + rng.normal(size=x.shape) + offsets, x)
    assert 0.35 < found < 0.65  # half of the variance is that of the lines


def test_missing_pixels_and_nothing_at_all():
    x = np.zeros((1, 20, 20))
    z = np.random.default_rng(0).random((1, 20, 20))
    z[0, ::2] = np.nan
    assert np.isfinite(neighbour_correlation(z, x)[0])
    for empty in (np.full((1, 4, 4), np.nan), np.zeros((1, 4, 4)), np.full((1, 4, 4), 7.0)):
        assert neighbour_correlation(empty, x[:, :4, :4])[1] == np.inf
        assert examine_residuals(empty, x[:, :4, :4]).causes == ()


# ----------------------------------------------------------------------------------------- causes


def count(make):
    """Return the causes that are found, seed by seed."""
    return [examine_residuals(*make(*draw(seed))).causes for seed in SEEDS]


@pytest.mark.parametrize(
    "noise",
    [
        lambda x, rng: rng.normal(size=x.shape),
        lambda x, rng: np.where(x, 0.3, 1.0) * rng.normal(size=x.shape),
        lambda x, rng: rng.uniform(-2.0, 2.0, size=x.shape),
        lambda x, rng: rng.standard_t(3, size=x.shape),
        # cut off at black and white, and few levels
        lambda x, rng: np.clip(np.rint(2.0 * rng.normal(size=x.shape)), -2, 2),
    ],
    ids=["Gaussian", "two deviations", "uniform", "heavy tails", "cut off"],
)
def test_independent_noise_raises_no_alarm(noise):
    assert count(lambda x, rng: (3.0 * x + noise(x, rng), x)) == [()] * len(SEEDS)


def test_uneven_light_is_told_from_correlated_noise():
    assert count(lambda x, rng: (3.0 * x + LIGHT + rng.normal(size=x.shape), x)) == [
        ("light",)
    ] * len(SEEDS)
    assert count(lambda x, rng: (3.0 * x + blurred(rng, x.shape), x)) == [("noise",)] * len(SEEDS)
    for width in (2.0, 3.0):  # blobs as large as patches, and still not light
        found = count(lambda x, rng, w=width: (3.0 * x + blurred(rng, x.shape, w), x))
        assert all(causes and "light" not in causes for causes in found)
    both = count(lambda x, rng: (3.0 * x + LIGHT + blurred(rng, x.shape), x))
    assert both == [("light", "noise")] * len(SEEDS)


def test_light_is_found_where_it_is():
    x, rng = draw(0)
    found = examine_residuals(3.0 * x + LIGHT + rng.normal(size=x.shape), x)
    assert found.light == pytest.approx(LIGHT.var() / (1.0 + LIGHT.var()), abs=0.03)
    assert found.highest.at[1] > 0.85 * SIDE and found.lowest.at[1] < 0.15 * SIDE
    # in deviations of residuals, which the light makes larger
    height = 1.0 / np.sqrt(1.0 + LIGHT.var())
    assert found.highest.value == pytest.approx(height, abs=0.25)
    assert found.lowest.value == pytest.approx(-height, abs=0.25)
    assert found.correlation == pytest.approx(found.light + found.far + found.near, abs=0.01)


@pytest.mark.parametrize("shape", [lambda u, v: -(u**2) - v**2, lambda u, v: u * v])
def test_light_may_be_curved(shape):
    surface = 1.5 * shape(LIGHT[:, None], LIGHT)
    assert count(lambda x, rng: (3.0 * x + surface + rng.normal(size=x.shape), x)) == [
        ("light",)
    ] * len(SEEDS)


def test_light_is_seen_through_windows(seed):
    x, rng = draw(seed, 256)
    z = 3.0 * x + np.linspace(-1.0, 1.0, 256) + rng.normal(size=x.shape)
    corners = [(i, j) for i in range(0, 256, 64) for j in range(0, 256, 64)]
    windows = [np.s_[0, i : i + 64, j : j + 64] for i, j in corners]
    places = [Place(0, corner, (256, 256)) for corner in corners]
    parts = [z[w] for w in windows], [x[w] for w in windows]
    found = examine_residuals(*parts, places)
    assert found.causes == ("light",)
    assert found.highest.at[1] > 200 and found.lowest.at[1] < 56
    # it is the trend across the image that tells: with the windows shuffled there is none
    mixed = [places[k] for k in np.random.default_rng(seed).permutation(len(places))]
    assert examine_residuals(*parts, mixed).light < found.light / 2


def test_images_that_differ_in_brightness():
    x = ls.make_silhouettes(6, (32, 32), seed=0)
    rng = np.random.default_rng(0)
    z = 3.0 * x + rng.normal(size=x.shape)
    assert examine_residuals(z, x).causes == ()
    found = examine_residuals(z + np.linspace(-1.0, 1.0, 6)[:, None, None], x)
    assert found.causes == ("light",)
    assert (found.lowest.image, found.highest.image) == (0, 5)


def test_light_in_volumes(seed):
    x = np.zeros((1, 32, 32, 32), dtype=int)
    x[0, 8:24, 8:20, 10:30] = 1
    z = 3.0 * x + np.random.default_rng(seed).normal(size=x.shape)
    assert examine_residuals(z, x).causes == ()
    assert examine_residuals(z + np.linspace(-1.0, 1.0, 32)[:, None, None], x).causes == ("light",)


def test_a_halo_is_not_light():
    """What a wide blur takes off with the light follows the mask: the image itself is flat."""

    def flatten(x, rng):
        z = 3.0 * x + LIGHT + 0.5 * rng.normal(size=x.shape)
        return ls.flatten_light(z), x

    assert all("light" not in causes for causes in count(flatten))


def test_a_third_level_is_told(seed):
    x, rng = draw(seed, 128)
    other = ls.make_silhouettes(1, (128, 128), seed=seed + 100)
    z = 3.0 * x + 3.0 * other + 0.5 * rng.normal(size=x.shape)
    assert examine_residuals(z, x | other).causes[0] == "levels"


def test_independent_noise_of_two_values_is_not_gaussian(seed):
    x, rng = draw(seed)
    z = 5.0 * x + rng.choice([-1.0, 1.0], size=x.shape) + 0.2 * rng.normal(size=x.shape)
    found = examine_residuals(z, x)
    assert found.causes == ("levels",) and found.correlation < 0.05


def test_bits_have_no_light():
    rng = np.random.default_rng(0)
    x = np.zeros((1, 200, 200), dtype=int)
    rate = np.linspace(0.01, 0.4, 200)
    found = examine_residuals((rng.random(x.shape) < rate).astype(int), x)
    assert found.light == found.far == found.distance == 0.0
    clumps = gaussian_filter(rng.normal(size=x.shape), (0, 1, 1)) > 0.3
    assert examine_residuals(clumps, x).causes == ("noise",)


def test_grey_levels_have_no_unit_and_no_origin(seed):
    x, rng = draw(seed)
    z = 3.0 * x + LIGHT + rng.normal(size=x.shape)
    plain = examine_residuals(z, x)
    for factor, offset in ((1e-140, 0.0), (1e130, 0.0), (-2.0, 1e9)):
        found = examine_residuals(factor * z + offset, x)
        assert found.causes == plain.causes
        assert found.light == pytest.approx(plain.light, rel=1e-4)
        assert found.correlation == pytest.approx(plain.correlation, rel=1e-4)


# ------------------------------------------------------------------------------------------ input


@pytest.mark.parametrize("call", [examine_residuals, neighbour_correlation])
@pytest.mark.parametrize(
    ("observed", "cleaned", "text"),
    [
        (np.zeros((2, 4, 4)), np.zeros((1, 4, 4)), "observed has 2 images, cleaned 1"),
        (np.zeros((1, 4, 4)), np.zeros((1, 4, 5)), r"observed\[0\] has shape \(4, 4\), cleaned"),
        ([np.zeros((4, 4)), np.zeros(4)], [np.zeros((4, 4)), np.zeros(4)], "has 1 axes"),
        (
            np.full((1, 4, 4), np.inf),
            np.zeros((1, 4, 4)),
            r"observed\[0\]\[0, 0\] = inf: infinite",
        ),
        (np.full((1, 4, 4), 1e200), np.zeros((1, 4, 4)), "so large that its square"),
        (np.zeros((1, 4, 4)), np.full((1, 4, 4), 2), r"cleaned\[0\] has an entry that is neither"),
    ],
)
def test_what_does_not_belong_together_is_refused(call, observed, cleaned, text):
    with pytest.raises(ValueError, match=text):
        call(observed, cleaned)


def test_places_must_be_as_many_as_images():
    with pytest.raises(ValueError, match="places has 1 entries, observed 2"):
        examine_residuals(np.ones((2, 4, 4)), np.zeros((2, 4, 4)), [Place(0, (0, 0), (4, 4))])
