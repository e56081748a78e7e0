"""Channels: likelihoods that sum to one, log-odds, drawing, missing entries, refusals."""

import json
import re

import numpy as np
import pytest
from oracles import enumerate_x
from scipy import integrate

import logsuper as ls
from logsuper.channels import Channel

NAN = float("nan")
IMAGE = (3, 4)

BINARY: dict[str, Channel] = {
    "flips": ls.Flips(0.1),
    "flips, no information": ls.Flips(0.5),
    "flips, inverted": ls.Flips(0.8),
    "flips, one rate a pixel": ls.Flips(np.linspace(0.05, 0.4, 12).reshape(IMAGE)),
    "flips, grouped": ls.Flips([0.1, 0.3], groups=np.arange(12).reshape(IMAGE) % 2),
    "asymmetric": ls.AsymmetricFlips(on=0.05, off=0.3),
    "missing": ls.Missing(0.3, ls.Flips(0.2)),
}
GREY: dict[str, Channel] = {
    "Gaussian": ls.Gaussian(),
    "Gaussian, two scales": ls.Gaussian(mean=(-1.0, 2.0), scale=(0.5, 1.5)),
}


@pytest.mark.parametrize("name", BINARY)
def test_probabilities_of_bits_sum_to_one(name):
    likelihoods = [BINARY[name].log_likelihoods(np.full(IMAGE, z)) for z in (0, 1)]
    for x in (0, 1):
        total = sum(np.exp(pair[x]) for pair in likelihoods)
        np.testing.assert_allclose(total, 1.0, rtol=1e-14)


@pytest.mark.parametrize("name", GREY)
@pytest.mark.parametrize("x", [0, 1])
def test_density_of_grey_levels_integrates_to_one(name, x):
    channel = GREY[name]

    def density(z):
        return float(np.exp(channel.log_likelihoods(z)[x]))

    total, _ = integrate.quad(density, -30, 30)
    assert total == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("name", [*BINARY, *GREY])
def test_draws_have_the_law_of_the_likelihood(name, seed):
    channel = {**BINARY, **GREY}[name]
    rng = np.random.default_rng(seed)
    draws = 4000
    x = rng.integers(0, 2, IMAGE)
    z = np.stack([channel.sample(x, rng) for _ in range(draws)])
    seen = ~np.isnan(z)
    if name == "missing":
        assert abs(seen.mean() - 0.7) < 5 * np.sqrt(0.21 / seen.size)
    else:
        assert seen.all()
    if name in BINARY:
        ones = np.exp(np.where(x, *channel.log_likelihoods(np.ones(IMAGE))[::-1]))
        count = seen.sum(axis=0)
        spread = np.sqrt(ones * (1 - ones) / count)
        assert (np.abs(np.nansum(z, axis=0) / count - ones) < 5 * spread).all()
    else:
        mean, scale = channel.mean[x], channel.scale[x]
        assert (np.abs(z.mean(axis=0) - mean) < 5 * scale / np.sqrt(draws)).all()
        assert (np.abs(z.std(axis=0) / scale - 1) < 5 / np.sqrt(2 * draws)).all()


def test_log_odds_of_flips_is_the_paper_s_field():
    u = np.log(0.9 / 0.1)
    np.testing.assert_allclose(ls.Flips(0.1).log_odds([0, 1]), [-u, u])


def test_rate_and_its_complement_are_opposite():
    z = np.array([0, 1, 1])
    np.testing.assert_allclose(ls.Flips(0.2).log_odds(z), -ls.Flips(0.8).log_odds(z))


@pytest.mark.parametrize("name", [*BINARY, *GREY])
def test_missing_entries_say_nothing(name):
    channel = {**BINARY, **GREY}[name]
    z = np.ones(IMAGE)
    z[0, 1] = NAN
    masked = np.ma.array(np.ones(IMAGE), mask=np.isnan(z))
    odds = channel.log_odds(z)
    assert odds[0, 1] == 0 and np.isfinite(odds).all()
    np.testing.assert_array_equal(odds, channel.log_odds(masked))
    np.testing.assert_array_equal(
        np.delete(odds, 1), np.delete(channel.log_odds(np.ones(IMAGE)), 1)
    )


def test_an_image_s_rates_fit_its_flat_form():
    rate = np.linspace(0.1, 0.4, 12).reshape(IMAGE)
    z = np.arange(12) % 2
    flat = ls.Flips(rate).log_odds(z)
    np.testing.assert_array_equal(flat, ls.Flips(rate).log_odds(z.reshape(IMAGE)).ravel())


def test_same_seed_same_noise():
    x = np.zeros((20, 20))
    a, b = ls.Flips(0.3).sample(x, seed=4), ls.Flips(0.3).sample(x, seed=4)
    np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(4)
    c, d = ls.Flips(0.3).sample(x, rng), ls.Flips(0.3).sample(x, rng)
    np.testing.assert_array_equal(a, c)
    assert (c != d).any()


# ---------------------------------------------------------------------------------- the posterior


@pytest.mark.parametrize("name", [*BINARY, *GREY])
@pytest.mark.parametrize("missing", [False, True])
def test_posterior_equals_enumeration(name, missing, seed):
    channel = {**BINARY, **GREY}[name]
    rng = np.random.default_rng(seed)
    f = sum(ls.grid_cuts(IMAGE)) - ls.Modular(rng.normal(size=12))
    z = channel.sample(rng.integers(0, 2, IMAGE), rng)
    if missing:
        z.flat[rng.permutation(12)[:5]] = NAN
    X = enumerate_x(12)
    zero, one = channel.log_likelihoods(z)
    joint = -f(X) + np.where(X == 1, one.ravel(), zero.ravel()).sum(axis=1)
    prior = np.logaddexp.reduce(-f(X))
    m = ls.LogSupermodular(f, constant=2.5)
    posterior = m.observe(channel, z)
    log_z = np.logaddexp.reduce(joint)
    assert posterior.log_partition("enumeration").value == pytest.approx(2.5 + log_z, abs=1e-10)
    log_p = posterior.log_partition("enumeration").value - m.log_partition("enumeration").value
    assert log_p == pytest.approx(log_z - prior, abs=1e-10)
    np.testing.assert_allclose(
        posterior.marginals("enumeration").values.ravel(), np.exp(joint - log_z) @ X, atol=1e-12
    )


def test_probabilities_of_all_observations_sum_to_one(seed):
    rng = np.random.default_rng(seed)
    f = ls.Cut(4, [(0, 1), (1, 2), (2, 3)], rng.exponential(size=3)) - ls.Modular(
        rng.normal(size=4)
    )
    m = ls.LogSupermodular(f)
    channel = ls.AsymmetricFlips(on=0.1, off=0.25)
    log_z = m.log_partition("enumeration").value
    parts = [
        m.observe(channel, z).log_partition("enumeration").value - log_z for z in enumerate_x(4)
    ]
    assert np.logaddexp.reduce(parts) == pytest.approx(0.0, abs=1e-12)


def test_a_missing_pixel_is_a_pixel_marginalised():
    m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], [1.0, 2.0]) - ls.Modular([0.3, -0.2, 0.1]))
    channel = ls.Flips(0.15)

    def log_p(z):
        return m.observe(channel, z).log_partition("enumeration").value

    assert log_p([1, NAN, 0]) == pytest.approx(np.logaddexp(log_p([1, 0, 0]), log_p([1, 1, 0])))


def test_an_observation_without_doubt_fixes_the_element():
    m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], [1.0, 2.0]))
    posterior = m.observe(ls.Missing(0.5), [1, NAN, 0])
    assert posterior.fixed == {0: 1, 2: 0}
    assert posterior.log_partition("enumeration").value == pytest.approx(np.logaddexp(-1.0, -2.0))
    # rate 0 for one pixel only, and an element that was fixed before
    rates = ls.Flips([0.0, 0.1, 0.1])
    again = m.condition({0: 1}).observe(rates, [1, 1, 0])
    assert again.fixed == {0: 1}
    X = enumerate_x(3)
    zero, one = rates.log_likelihoods([1, 1, 0])
    with np.errstate(invalid="ignore"):
        joint = -m.f(X) + np.where(X == 1, one, zero).sum(axis=1)
    exact = np.logaddexp.reduce(joint)
    assert again.log_partition("enumeration").value == pytest.approx(exact)
    with pytest.raises(ValueError, match=r"observed\[0\] rules out the value 0"):
        m.condition({0: 0}).observe(rates, [1, 1, 0])


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ls.Flips(1.2), ValueError, "rate = 1.2 is not a probability"),
        (lambda: ls.Flips([0.1, NAN]), ValueError, r"rate\[1\] = nan"),
        (lambda: ls.Flips("a"), TypeError, "rate must be a probability"),
        (lambda: ls.Flips(True), TypeError, "rate must be a probability"),
        (lambda: ls.Flips([0.1], groups=[0, 1]), ValueError, r"groups\[1\] = 1"),
        (lambda: ls.Flips([0.1], groups=[0.5]), TypeError, "groups must hold integers"),
        (lambda: ls.Flips(0.1, groups=[0]), ValueError, "one entry per group"),
        (lambda: ls.AsymmetricFlips(0.1, -1), ValueError, "off = -1"),
        (lambda: ls.Gaussian(scale=0.0), ValueError, r"scale\[0\] = 0 must be positive"),
        (lambda: ls.Gaussian(mean=(1, 2, 3)), ValueError, "mean must be a number or a pair"),
        (lambda: ls.Gaussian(mean=(0, np.inf)), ValueError, "mean must be finite"),
        (lambda: ls.Missing(0.1, 3), TypeError, "channel must be a Channel"),
        (lambda: ls.Flips(0.1).log_odds([0, 0.5]), ValueError, r"observed\[1\] = 0.5 is neither"),
        (lambda: ls.Flips(0.1).log_odds([0, np.inf]), ValueError, r"observed\[1\] is infinite"),
        (lambda: ls.Flips(0.1).log_odds(["a"]), TypeError, "observed must hold real numbers"),
        (lambda: ls.Flips([0.1, 0.2]).log_odds([0, 1, 1]), ValueError, "does not fit"),
        (lambda: ls.Flips(0.1).sample([0, 2]), ValueError, r"x\[1\] = 2 is neither"),
        (lambda: ls.AsymmetricFlips(0, 1).log_odds([1]), ValueError, r"observed\[0\] = 1 has prob"),
        (lambda: ls.Gaussian().log_odds([1e200]), ValueError, r"observed\[0\] = 1e\+200"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_what_is_no_channel_is_refused():
    m = ls.LogSupermodular(ls.Cut(3, [(0, 1)], 1.0))
    with pytest.raises(TypeError, match=r"channel must be a channel such as Flips\(0.1\), got a"):
        m.observe(0.1, [0, 1, 0])


def test_observed_of_another_size_is_refused():
    with pytest.raises(ValueError, match="observed has 2 entries, but the model has 3"):
        ls.LogSupermodular(ls.Modular([0, 0, 0])).observe(ls.Flips(0.1), [0, 1])


# ---------------------------------------------------------------------- estimates without a bias

INFORMATIVE = [name for name in BINARY if name != "flips, no information"]


@pytest.mark.parametrize("name", INFORMATIVE)
def test_estimates_of_bits_are_unbiased(name):
    channel = BINARY[name]
    estimates = [channel.unbiased(np.full(IMAGE, z)) for z in (0, 1)]
    likelihoods = [channel.log_likelihoods(np.full(IMAGE, z)) for z in (0, 1)]
    odds = [channel.log_odds(np.full(IMAGE, z)) for z in (0, 1)]
    for x in (0, 1):
        mean = sum(np.exp(p[x]) * h for p, h in zip(likelihoods, estimates, strict=True))
        np.testing.assert_allclose(mean, x, atol=1e-12)
    mean = sum(np.exp(p[1]) * h for p, h in zip(likelihoods, odds, strict=True))
    np.testing.assert_allclose(channel.divergence(IMAGE), mean, rtol=1e-12)


@pytest.mark.parametrize(
    "channel",
    [
        *GREY.values(),
        ls.Gaussian(mean=(2.0, -1.0), scale=(1.0, 0.02)),
        ls.Gaussian(mean=(0.0, 40.0), scale=(1.0, 2.0)),
        ls.Gaussian(mean=(0.0, 0.0), scale=(1.0, 3.0)),
        ls.Gaussian(mean=(0.0, 0.05), scale=1.0),
    ],
    ids=repr,
)
def test_estimates_of_grey_levels_are_unbiased(channel):
    noise = np.linspace(-13.0, 13.0, 200_001)
    weights = np.exp(-0.5 * noise**2)
    weights /= weights.sum()
    spread = 0.0
    for x in (0, 1):
        z = channel.mean[x] + channel.scale[x] * noise
        estimate = channel.unbiased(z)
        assert weights @ estimate == pytest.approx(x, abs=1e-10)
        spread += weights @ (estimate - x) ** 2
        if x:
            assert channel.divergence() == pytest.approx(weights @ channel.log_odds(z), rel=1e-10)
    # no worse than the linear estimate, (z - m_0) / (m_1 - m_0)
    with np.errstate(divide="ignore"):
        linear = np.sum(np.divide(channel.scale, channel.mean[1] - channel.mean[0]) ** 2)
    assert spread <= linear * (1 + 1e-9)


@pytest.mark.parametrize("name", [*INFORMATIVE, *GREY])
def test_nothing_is_estimated_where_nothing_was_observed(name):
    channel = {**BINARY, **GREY}[name]
    z = np.ones(IMAGE)
    z[1, 2] = NAN
    estimate = channel.unbiased(z)
    assert np.isnan(estimate[1, 2]) and np.isnan(estimate).sum() == 1
    np.testing.assert_array_equal(estimate, channel.unbiased(np.ma.array(z, mask=np.isnan(z))))


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        (ls.Flips(0.5), "0.5 and 0.5, which add up to 1, say nothing about x"),
        (ls.Flips([0.1, 0.5]), r"no unbiased estimate of x\[1\]"),
        (ls.AsymmetricFlips(0.3, 0.7), "0.3 and 0.7"),
        (ls.Gaussian(mean=(1.0, 1.0)), "zeros and ones look alike"),
        (ls.Missing(0.1, ls.Flips(0.5)), "say nothing"),
    ],
    ids=repr,
)
def test_channels_that_say_nothing_are_refused(channel, message):
    with pytest.raises(ValueError, match=message):
        channel.unbiased([0, 1])


def test_an_estimate_from_grey_levels_by_a_binary_channel_is_refused():
    with pytest.raises(ValueError, match=r"observed\[1\] = 0.5 is neither"):
        ls.Flips(0.1).unbiased([0, 0.5])


def test_divergence_is_infinite_where_an_observation_rules_out_zero():
    assert np.isinf(ls.AsymmetricFlips(on=0.0, off=0.2).divergence())
    assert ls.Flips(0.5).divergence() == 0


def test_a_channel_without_estimates_says_so():
    class Exact(Channel):
        def _log_likelihoods(self, observed):
            return np.log(observed == 0), np.log(observed == 1)

        def _draw(self, x, rng):
            return x

    with pytest.raises(ls.NotApplicable, match="no unbiased estimate"):
        Exact().unbiased([0, 1])
    with pytest.raises(ls.NotApplicable, match="no closed form"):
        Exact().divergence()


@pytest.mark.parametrize(
    "channel", [ls.Gaussian((50.0, 200.0), 40.0), ls.Gaussian((0.0, 1.0), (0.3, 0.8))]
)
def test_agreement_of_grey_levels_has_no_bias_and_follows_it(channel):
    noise = np.linspace(-12.0, 12.0, 20001)
    weights = np.exp(-0.5 * noise**2)
    weights /= weights.sum()
    for x, mean, scale in zip((0, 1), channel.mean, channel.scale, strict=True):
        z = mean + scale * noise
        expected = x * float(channel.divergence())
        assert weights @ channel.agreement(z) == pytest.approx(expected, abs=1e-9)
        # unlike the divergence times an estimate of x, it moves with what it estimates
        crude = channel.divergence() * channel.unbiased(z)
        target = x * channel.log_odds(z)
        spread = [weights @ (h - target) ** 2 for h in (channel.agreement(z), crude)]
        assert spread[0] < spread[1]
    assert ls.Missing(0.5, channel).agreement([np.nan, 1.0])[0] == 0.0


@pytest.mark.parametrize("scale", [(1.0, 1e-3), (1e-3, 1.0), (1.0, 1e-5), (0.5, 0.4)])
@pytest.mark.parametrize("mean", [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.123)])
def test_agreement_of_very_different_scales_has_no_bias(mean, scale):
    channel = ls.Gaussian(mean, scale)
    nodes, share = np.polynomial.legendre.leggauss(20)
    for x in (0, 1):
        # Gauss's rule between the points that are whole numbers of deviations of either law
        ends = np.add.outer(np.arange(-15.0, 16.0), np.zeros(2)) * scale + mean
        ends = np.unique(ends[np.abs(ends - mean[x]) <= 15.0 * scale[x]])
        half = 0.5 * np.diff(ends)[:, None]
        z = (ends[:-1, None] + half + half * nodes).ravel()
        weights = (half * share).ravel() * np.exp(channel.log_likelihoods(z)[x])
        assert weights.sum() == pytest.approx(1.0, abs=1e-10)
        error = channel.agreement(z) - x * channel.log_odds(z)
        assert weights @ error == pytest.approx(0.0, abs=1e-8)


# --------------------------------------------------------------- what channels say of themselves


@pytest.mark.parametrize("name", [*BINARY, *GREY])
def test_dicts_hold_channels(name, seed):
    channel = {**BINARY, **GREY}[name]
    found = channel.to_dict()
    same = Channel.from_dict(found)
    assert type(same) is type(channel) and found["kind"] == channel.kind
    np.testing.assert_equal(same.to_dict(), found)
    z = channel.sample(np.random.default_rng(seed).integers(0, 2, IMAGE), seed)
    np.testing.assert_array_equal(same.log_odds(z), channel.log_odds(z))
    lists = json.loads(json.dumps(found, default=np.ndarray.tolist))
    np.testing.assert_array_equal(Channel.from_dict(lists).log_odds(z), channel.log_odds(z))
    if isinstance(channel, ls.Gaussian):
        assert same.tied == channel.tied


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="kind must be one of flips, asymmetric, gaussian, missi"):
        Channel.from_dict({"kind": "magic"})
    with pytest.raises(TypeError, match="rat"):
        Channel.from_dict({"kind": "flips", "rat": 0.1})


@pytest.mark.parametrize(
    ("channel", "informative", "objection"),
    [
        (ls.Flips(0.1), True, None),
        (ls.Flips([0.1, 0.0]), True, r"n\[1\] = 0 leaves no doubt"),
        (ls.Flips([[0.1, 0.7]]), False, r"n\[0, 1\] = 0.7: .*invert the images"),
        (ls.Flips([0.1, 0.6], [0, 0, 1]), False, r"n\[2\] = 0.6"),
        (ls.AsymmetricFlips(0.0, 0.2), True, "n, on = 0 leaves no doubt"),
        (ls.AsymmetricFlips(0.6, 0.2), True, None),
        (ls.AsymmetricFlips(0.6, [0.2, 0.4]), False, r"on \+ off >= 1"),
        (ls.Gaussian(), True, None),
        (ls.Gaussian((1.0, 1.0), (1.0, 2.0)), True, None),
        (ls.Gaussian((1.0, 1.0)), False, "says nothing"),
        (ls.Gaussian((0.0, 1e200), 1e-100), True, None),
        (ls.Missing(0.1, ls.Flips(0.5)), False, "says nothing"),
        (ls.Missing(0.1), True, "n = 0 leaves no doubt"),
    ],
    ids=repr,
)
def test_channels_say_whether_they_are_of_use(channel, informative, objection):
    assert channel.informative is informative
    found = channel.objection("n")
    assert found is objection is None or re.search(objection, found)


def test_channels_say_what_they_are():
    places, groups = np.full(IMAGE, 0.1), np.arange(12).reshape(IMAGE) % 2
    grouped = ls.Flips([0.1, 0.3], groups)
    np.testing.assert_array_equal(grouped.noise, np.where(groups, 0.3, 0.1))
    assert ls.Flips(0.1).noise == 0.1 and ls.AsymmetricFlips(0.1, 0.2).noise == (0.1, 0.2)
    grey = ls.Gaussian((2.0, 5.0), (0.5, 1.0))
    assert grey.noise == (0.5, 1.0) and grey.levels.tolist() == [2, 5]
    for channel, binary, local in (
        (ls.Flips(0.1), True, False),
        (ls.Flips(places), True, True),
        (grouped, True, True),
        (ls.AsymmetricFlips(0.1, places), True, True),
        (grey, False, False),
    ):
        for other in (channel, ls.Missing(0.1, channel), ls.Missing(places, channel)):
            assert other.binary is binary
            assert other.local is (local or getattr(other, "rate", places[0, 0]).ndim > 0)
            np.testing.assert_equal(other.noise, channel.noise)
            np.testing.assert_equal(other.levels, channel.levels)


@pytest.mark.parametrize("name", ["flips", "asymmetric", "Gaussian", "Gaussian, two scales"])
def test_channels_are_estimated_from_pairs(name, seed):
    channel = {**BINARY, **GREY}[name]
    x = np.random.default_rng(seed).integers(0, 2, (4, 100, 100)).astype(float)
    z = channel.sample(x, seed)
    z[0, 0], x[1, 0] = NAN, NAN
    found = type(channel).from_pairs(list(z), list(x))
    np.testing.assert_allclose(np.ravel(found.noise), np.ravel(channel.noise), atol=0.02)
    np.testing.assert_allclose(found.levels, channel.levels, atol=0.03)
    with pytest.raises(ValueError, match=r"noisy\[0\] has shape \(100, 100\), but clean\[0\]"):
        type(channel).from_pairs([z[0]], [x[0, 0]])


def test_not_every_channel_can_be_estimated():
    for estimate in (lambda: ls.Missing.from_pairs([], []), lambda: ls.Flips.from_images([])):
        with pytest.raises(ls.NotApplicable, match="cannot be estimated"):
            estimate()
