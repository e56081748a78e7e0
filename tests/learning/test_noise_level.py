"""The level of the noise from noisy images alone: how close, where it cannot be known, refusals."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import binom

import logsuper as ls
from benchmarks.images import load_silhouettes
from benchmarks.shapes import blobs, discs, half_planes, ising
from logsuper.learning import _grey_levels, _noise_level
from logsuper.learning._noise_level import estimate_noise, find_rate

NAN = float("nan")


@pytest.fixture(scope="module")
def silhouettes():
    return [ls.make_silhouettes(60, seed=seed) for seed in range(3)]


# ------------------------------------------------------------------------------------------ flips


@pytest.mark.parametrize("rate", [0.003, 0.01, 0.05, 0.1, 0.2, 0.3])
def test_rate_of_flips(rate, seed, silhouettes):
    z = ls.Flips(rate).sample(silhouettes[seed], seed)
    assert abs(estimate_noise(z).rate - rate) < max(0.001, 0.03 * rate)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.2])
def test_rate_of_flips_on_ten_horses(rate, seed, horses):
    z = ls.Flips(rate).sample(horses, seed)
    assert abs(estimate_noise(z).rate - rate) < max(0.003, 0.06 * rate)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_one_image_is_enough_for_a_rough_rate(rate, seed, silhouettes):
    z = ls.Flips(rate).sample(silhouettes[seed][:1], seed)
    assert abs(estimate_noise(z).rate - rate) < 0.2 * rate


def test_exact_on_the_law_of_the_noise():
    # all observations of a constant 3x3 image, in the numbers in which they occur
    from oracles import enumerate_x

    z = enumerate_x(9)
    count = np.rint(5e4 * 0.2 ** z.sum(axis=1) * 0.8 ** (9 - z.sum(axis=1))).astype(int)
    images = np.repeat(z, count, axis=0).reshape(-1, 3, 3)
    assert abs(estimate_noise(images).rate - 0.2) < 0.003


def test_clean_images_have_a_small_positive_rate(silhouettes):
    rate = estimate_noise(silhouettes[0]).rate
    assert 0 < rate < 1e-3
    assert 0 < estimate_noise(np.zeros((3, 20, 20))).rate < 0.01


def test_complement_and_turns_change_nothing(seed, silhouettes):
    z = ls.Flips(0.15).sample(silhouettes[seed][:20], seed)
    rate = estimate_noise(z).rate
    assert estimate_noise(1 - z).rate == pytest.approx(rate, rel=1e-9)
    assert estimate_noise(z.transpose(0, 2, 1)).rate == pytest.approx(rate, rel=1e-9)
    assert estimate_noise(list(z)).rate == rate


def test_missing_entries_and_shapes_that_differ(seed, silhouettes):
    channel = ls.Missing(0.2, ls.Flips(0.1))
    z = channel.sample(silhouettes[seed], seed)
    assert abs(estimate_noise(z).rate - 0.1) < 0.006
    assert abs(estimate_noise(np.ma.masked_invalid(z)).rate - 0.1) < 0.006
    mixed = [image[: 30 + i % 5] for i, image in enumerate(z)]
    assert abs(estimate_noise(mixed).rate - 0.1) < 0.008


def test_volumes_and_chains(seed):
    rng = np.random.default_rng(seed)
    ball = np.linalg.norm(np.indices((24, 24, 24)) - 12, axis=0) < 8
    volume = ls.Flips(0.1).sample(np.stack([ball, ~ball]), rng)
    assert abs(estimate_noise(volume).rate - 0.1) < 0.005
    steps = (np.arange(400) // 40) % 2
    chain = ls.Flips(0.1).sample(np.tile(steps, (50, 1)), rng)
    assert abs(estimate_noise(chain).rate - 0.1) < 0.01


# --------------------------------------------------------------------------------- standard error


@pytest.mark.parametrize(("count", "size"), [(12, 50), (1, 100)])
def test_the_standard_error_is_the_deviation_over_draws_of_the_noise(count, size):
    clean = ls.make_silhouettes(count, shape=(size, size), seed=0)
    rng = np.random.default_rng(0)
    ratios = []
    for rate in (0.1, 0.2):
        found = np.array([find_rate(ls.Flips(rate).sample(clean, rng)) for _ in range(150)])
        ratios.append(found[:, 1].mean() / found[:, 0].std(ddof=1))
    # deviations of 150 draws are themselves known up to 6 %; a little too large is right, for the
    # images differ too
    assert 0.9 < np.mean(ratios) < 1.15 and np.ptp(ratios) < 0.25


# Draws of the noise, and the least that cover if nine in ten do, at a level of one in a thousand.
DRAWS = 60
LEAST = int(binom.ppf(1e-3, DRAWS, 0.9))


def draw_rates(clean, rate, seed):
    """Return the estimated rates, their standard errors and the statistics of texture."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(DRAWS):
        noisy = clean ^ (rng.random(clean.shape) < rate)
        rates = _noise_level._measure([noisy.astype(np.uint8)], "flips")
        found.append((rates.on, rates.error, rates.texture))
    return np.array(found).T


def check_intervals(clean, rate, seed=0):
    """Assert that intervals cover the rate, are not wide, have no large bias, raise no alarm."""
    found, error, texture = draw_rates(clean, rate, seed)
    assert np.count_nonzero(np.abs(found - rate) <= 1.96 * error) >= LEAST
    assert 1.96 * error.mean() <= 3.0 * np.sqrt(np.mean((found - rate) ** 2))
    assert abs(found.mean() - rate) < error.mean()
    assert np.count_nonzero(texture > _noise_level.CLUMPED) <= 1


@pytest.mark.parametrize(("count", "rate"), [(200, 0.05), (40, 0.02), (40, 0.1), (40, 0.2)])
def test_intervals_cover_on_silhouettes(count, rate):
    check_intervals(ls.make_silhouettes(count, seed=0), rate)


@pytest.mark.parametrize(("shapes", "rate"), [(discs, 0.05), (half_planes, 0.1)])
def test_intervals_cover_on_smooth_shapes(shapes, rate):
    check_intervals(shapes(40, seed=0), rate)


def test_intervals_cover_on_horses(horses):
    folder = Path(os.environ["LOGSUPER_DATA"])
    check_intervals(load_silhouettes(folder, 200), 0.02)


def test_a_large_smooth_mask_tells_the_rate_nearly_as_well_as_its_clean_version(seed):
    clean = blobs(1, seed, (600, 600), scale=20.0)
    least = np.sqrt(0.1 * 0.9 / clean.size)
    rate, error, _ = find_rate(ls.Flips(0.1).sample(clean, seed))
    assert error < 1.25 * least
    assert abs(rate - 0.1) < 3.5 * error


def test_intervals_of_two_rates_cover():
    clean, rates = ls.make_silhouettes(40, seed=0), np.array([0.1, 0.02])
    held = np.zeros(2)
    for k in range(DRAWS):
        noisy = ls.AsymmetricFlips(*rates).sample(clean, seed=k)
        found = _noise_level._measure([noisy.astype(np.uint8)], "asymmetric")
        errors = np.sqrt(np.diag(found.covariance))
        held += np.abs(np.array([found.on, found.off]) - rates) <= 1.96 * errors
    assert (held >= LEAST).all()


def test_pixels_without_neighbours_tell_nothing():
    assert find_rate([0, 1, 1]) is None
    assert find_rate(np.zeros((5, 1))) is None


# ----------------------------------------------------------------------- where it cannot be known


@pytest.mark.parametrize(("coupling", "rate"), [(0.35, 0.1), (0.4, 0.05), (0.5, 0.02)])
def test_fields_with_single_pixels_of_their_own_are_said_to_be_no_shapes(coupling, rate, seed):
    noisy = ls.Flips(rate).sample(ising(40, seed, 50, coupling), seed)
    with pytest.warns(
        UserWarning, match="not smooth shapes with independent flips.*noise="
    ) as all_:
        found = estimate_noise(noisy)
    assert len(all_) == 1
    assert found.rate > 1.2 * rate  # the error that the warning is about


def test_flips_in_clumps_are_said_to_be_no_independent_flips(seed):
    clean = ls.make_silhouettes(20, seed=seed)
    flips = np.random.default_rng(seed).random(clean.shape) < 0.025
    flips[:, :, 1:] |= flips[:, :, :-1]  # two beside each other
    with pytest.warns(UserWarning, match="not smooth shapes with independent flips"):
        estimate_noise(clean ^ flips)


def test_pure_noise_is_said_to_be(seed):
    coins = np.random.default_rng(seed).integers(0, 2, (20, 50, 50))
    with pytest.warns(UserWarning, match="hardly anything but noise"):
        assert 0.4 <= estimate_noise(coins).rate <= 0.45


def test_stripes_have_no_smooth_parts(seed):
    stripes = np.tile(np.indices((50, 50))[0] % 2, (5, 1, 1))
    with pytest.warns(UserWarning, match="hardly anything but noise"):
        estimate_noise(ls.Flips(0.1).sample(stripes, seed))


def test_small_images_of_large_noise_leave_a_doubt(seed):
    noisy = ls.Flips(0.3).sample(np.zeros((1, 6, 6)), seed)
    with pytest.warns(UserWarning, match="standard error|anything but noise"):
        estimate_noise(noisy)


@pytest.mark.parametrize("shape", [(4, 4), (4, 8, 8), (2, 3, 3, 3)])
@pytest.mark.parametrize("kind", ["flips", "asymmetric"])
def test_textures_get_some_rate(shape, kind, seed):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            channel = estimate_noise(rng.integers(0, 2, shape), kind=kind)
        except ValueError as error:
            assert "does not tell the noise" in str(error)  # too small for either way
        else:
            rates = [channel.rate] if kind == "flips" else [channel.on, channel.off]
            assert all(0 < rate < 0.9 for rate in rates)


# ----------------------------------------------------------------------------------- other kinds


@pytest.mark.parametrize(("on", "off"), [(0.05, 0.2), (0.2, 0.05), (0.01, 0.1), (0.1, 0.1)])
def test_asymmetric_flips(on, off, seed, silhouettes):
    z = ls.AsymmetricFlips(on, off).sample(silhouettes[seed], seed)
    found = estimate_noise(z, kind="asymmetric")
    assert abs(found.on - on) < max(0.002, 0.05 * on)
    assert abs(found.off - off) < max(0.004, 0.1 * off)


@pytest.mark.parametrize(
    ("mean", "scale"),
    [((0.0, 1.0), (0.2, 0.2)), ((50.0, 200.0), (30.0, 60.0)), ((-1.0, 1.0), (1.0, 1.0))],
)
def test_grey_levels(mean, scale, seed, silhouettes):
    z = ls.Gaussian(mean, scale).sample(silhouettes[seed], seed)
    z[:, 3, 4] = NAN
    found = estimate_noise(z, kind="gaussian")
    size = max(scale)
    np.testing.assert_allclose(found.mean, mean, atol=0.04 * size)
    np.testing.assert_allclose(found.scale, scale, atol=0.03 * size)


@pytest.mark.parametrize("scale", [40.0, 60.0, 80.0])
def test_grey_levels_that_are_cut_off_at_black_and_white(scale, seed):
    clean = ls.make_silhouettes(30, shape=(32, 32), seed=seed)
    z = np.clip(np.round(ls.Gaussian((50.0, 200.0), scale).sample(clean, seed=seed)), 0, 255)
    found = estimate_noise(z, kind="gaussian")
    # as they are seen: that is what makes an estimate of x unbiased
    np.testing.assert_allclose(found.mean, [z[clean == 0].mean(), z[clean == 1].mean()], atol=4.0)
    np.testing.assert_allclose(found.scale, [z[clean == 0].std(), z[clean == 1].std()], atol=4.0)


def test_likelihood_of_pairs_has_the_gradient_of_its_values(seed):
    rng = np.random.default_rng(seed)
    pairs, _ = _grey_levels._histogram_of_pairs([np.clip(rng.normal(size=(12, 12)), -0.8, 1.1)])
    for theta in rng.normal(size=(5, 7)):
        error = check_grad(
            lambda t: _grey_levels._loss(t, pairs)[0],
            lambda t: _grey_levels._loss(t, pairs)[1],
            theta,
        )
        assert error < 1e-4 * max(1.0, np.linalg.norm(_grey_levels._loss(theta, pairs)[1]))


def test_grey_levels_that_overlap(seed, silhouettes):
    # the histogram of single pixels has one mode, but neighbours tell the levels apart
    z = ls.Gaussian((0.0, 1.0), 1.0).sample(silhouettes[seed], seed)
    found = estimate_noise(z, kind="gaussian")
    np.testing.assert_allclose(found.mean, [0.0, 1.0], atol=0.12)
    np.testing.assert_allclose(found.scale, 1.0, atol=0.06)


@pytest.mark.parametrize("scale", [0.0, 0.05, 0.1])
def test_grey_levels_of_neighbours_that_are_all_unlike(scale, seed):
    # all pairs of neighbours have about the same mean
    board = np.indices((20, 20)).sum(axis=0) % 2
    noise = scale * np.random.default_rng(seed).normal(size=board.shape)
    found = estimate_noise([100.0 + 50.0 * (board + noise)], kind="gaussian")
    np.testing.assert_allclose(found.mean, [100.0, 150.0], atol=0.5 + 10 * scale)
    np.testing.assert_allclose(found.scale, 50.0 * scale, atol=0.5 + 10 * scale)


def test_two_pixels_are_two_grey_levels():
    found = estimate_noise([[[0.0, 0.3]]], kind="gaussian")
    np.testing.assert_allclose(found.mean, [0.0, 0.3], atol=1e-9)


# ------------------------------------------------------------------------------ groups and pixels


def test_a_rate_for_each_group(seed, silhouettes):
    # neighbours along the rows belong to the other group
    groups = np.indices((50, 50))[1] % 2
    z = ls.Flips([0.05, 0.2], groups).sample(silhouettes[seed], seed)
    found = estimate_noise(z, groups=groups)
    np.testing.assert_allclose(found.rate, [0.05, 0.2], atol=0.008)
    np.testing.assert_array_equal(found.groups, groups)


def test_a_rate_for_each_pixel(seed, silhouettes):
    rates = np.linspace(0.02, 0.25, 2500).reshape(50, 50)
    z = ls.Flips(rates).sample(silhouettes[seed], seed)
    found = estimate_noise(z, groups="pixel").rate
    assert found.shape == (50, 50)
    with pytest.warns(UserWarning, match="not smooth shapes"):  # where rates are large, in clumps
        one = estimate_noise(z).rate
    assert np.mean((found - rates) ** 2) < 0.8 * np.mean((one - rates) ** 2)


def test_pixels_with_one_rate_are_drawn_to_it(seed, silhouettes):
    z = ls.Flips(0.1).sample(silhouettes[seed], seed)
    found = estimate_noise(z, groups="pixel").rate
    assert np.std(found) < 0.01


@pytest.mark.parametrize("groups", ["pixel", np.arange(40) // 20])
def test_images_one_pixel_wide_are_chains(groups, seed):
    rates = np.repeat([0.05, 0.15], 20)
    chain = ls.Flips(rates).sample(np.zeros((400, 40)), seed)
    expected = estimate_noise(chain, groups=groups).rate
    for axis in (1, 2):
        thin = np.expand_dims(chain, axis)
        given = groups if isinstance(groups, str) else np.expand_dims(groups, axis - 1)
        found = estimate_noise(thin, groups=given).rate
        np.testing.assert_array_equal(np.ravel(found), expected)
    by_pixel = expected if isinstance(groups, str) else expected[groups]
    assert np.mean(np.abs(by_pixel - rates)) < 0.02


def test_pixels_without_enough_neighbours_have_the_rate_of_all():
    # five of six are asked for, none has more than four; those along the last axis tell the rate
    z = ls.Flips(0.1).sample(np.zeros((400, 2, 2, 9)), seed=0)
    rate = estimate_noise(z).rate
    assert rate == pytest.approx(0.1, abs=0.02)
    found = estimate_noise(z, groups="pixel").rate
    np.testing.assert_array_equal(found, np.full((2, 2, 9), rate))


def test_a_group_that_is_never_observed_has_the_rate_of_all(seed, silhouettes):
    z = ls.Flips(0.1).sample(silhouettes[seed], seed)
    z[:, 20:30] = NAN
    groups = np.zeros((50, 50), dtype=int)
    groups[20:30] = 1
    found = estimate_noise(z, groups=groups).rate
    np.testing.assert_allclose(found, 0.1, atol=0.005)


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "salt"}, "kind must be one of flips, asymmetric, gaussian, got 'salt'"),
        (
            {"observed": [[[0.5, 1]]]},
            r"observed\[0\]\[0, 0\] = 0.5 is neither 0 nor 1; grey levels",
        ),
        ({"observed": []}, "observed is empty"),
        ({"observed": np.zeros((1, 1, 2))}, "does not tell the noise"),
        ({"observed": np.full((2, 9, 9), NAN)}, "does not tell the noise"),
        ({"kind": "asymmetric", "groups": "pixel"}, "groups is for kind='flips'"),
        ({"groups": "image"}, "groups must be 'pixel' or an array"),
        ({"groups": np.zeros((3, 3), dtype=int)}, r"in the shape \(9, 9\) of the images"),
        ({"groups": np.zeros((9, 9))}, "dtype float64"),
        ({"groups": np.full((9, 9), -1)}, "numbered from 0"),
        (
            {"observed": [np.zeros((9, 9)), np.zeros((9, 8))], "groups": "pixel"},
            r"some are \(9, 9\), some \(9, 8\)",
        ),
        ({"kind": "gaussian"}, "fewer than two grey levels"),
        ({"kind": "gaussian", "observed": [[0.0, np.inf, 1.0]]}, "infinite"),
        ({"kind": "gaussian", "observed": [[0.0, NAN, 1.0]]}, "no two neighbours"),
        ({"kind": "gaussian", "observed": [[0.0, 0.0, NAN, 1.0]]}, "does not tell two grey levels"),
        (
            {"kind": "gaussian", "observed": [[0.0, 1.0, NAN, *[0.5] * 9]]},
            "does not tell two grey levels: nearly all neighbours are alike; give the channel",
        ),
    ],
)
def test_refusals(arguments, message):
    given = {"observed": np.zeros((2, 9, 9)), **arguments}
    with pytest.raises(ValueError, match=message):
        estimate_noise(given.pop("observed"), **given)


@pytest.mark.parametrize("color", [0, 1])
def test_one_colour_does_not_tell_both_rates(color):
    images = np.full((4, 20, 20), color)
    images[:, 3::7, 5::8] ^= 1  # single pixels that differ, each on its own
    with pytest.warns(UserWarning, match=f"no {'zeros' if color else 'ones'} among like"):
        found = estimate_noise(images, kind="asymmetric")
    share = np.mean(images[:, 1:-1, 1:-1] != color)
    assert found.on == found.off == pytest.approx(share, rel=0.2)


@pytest.mark.parametrize("shape", [(10, 20, 20), (3, 100, 100)])
@pytest.mark.parametrize("color", [0, 1])
def test_noise_on_one_colour_does_not_tell_both_rates(color, shape):
    clean = np.full(shape, color)
    for seed in range(8):
        z = ls.AsymmetricFlips(0.05, 0.2).sample(clean, seed)
        with pytest.warns(UserWarning, match="tell the rates of false ones|tell the rate of their"):
            found = estimate_noise(z, kind="asymmetric")
        assert found.on == found.off == pytest.approx(0.2 if color else 0.05, rel=0.2)
