"""The likelihood of observations under every channel, and channels fitted to beliefs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from latent_oracles import CHANNELS, SHAPE, brute_log_evidence, random_data, random_theta
from oracles import enumerate_x
from scipy.optimize import minimize

import logsuper as ls
from logsuper.learning import Objective, bracket_log_evidence, log_evidence, make_examples
from logsuper.learning._engines import Sums

NAN = float("nan")


@pytest.mark.parametrize("modular", ["pixel", "shared", "none"])
@pytest.mark.parametrize("name", CHANNELS)
def test_log_evidence_equals_enumeration(name, modular, seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng, CHANNELS[name], modular=modular)
    theta = random_theta(rng, data)
    found = log_evidence(data, theta, Sums("enumeration"))
    np.testing.assert_allclose(found, brute_log_evidence(data, theta), atol=1e-12)


@pytest.mark.parametrize("name", ["flips, one rate a pixel", "asymmetric"])
def test_probabilities_of_all_observations_sum_to_one(name, seed):
    rng = np.random.default_rng(seed)
    z = enumerate_x(6).reshape(-1, *SHAPE)
    data = make_examples(ls.grid_cuts(SHAPE), observed=z, channel=CHANNELS[name])
    found = log_evidence(data, random_theta(rng, data), Sums("enumeration"))
    assert np.logaddexp.reduce(found) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in CHANNELS if "Gaussian" not in name])
def test_a_missing_pixel_is_a_pixel_marginalised(name, seed):
    rng = np.random.default_rng(seed)
    z = np.tile(rng.integers(0, 2, SHAPE).astype(float), (3, 1, 1))
    z[:, 1, 1] = [NAN, 0.0, 1.0]
    data = make_examples(ls.grid_cuts(SHAPE), observed=z, channel=CHANNELS[name])
    missing, zero, one = log_evidence(data, random_theta(rng, data), Sums("enumeration"))
    assert missing == pytest.approx(np.logaddexp(zero, one), abs=1e-12)


def test_shapes_that_differ_keep_the_order(seed):
    rng = np.random.default_rng(seed)
    shapes = [(2, 3), (1, 4), (2, 3), (3, 2)]
    z = [rng.integers(0, 2, shape) for shape in shapes]
    theta = np.array([0.8, 0.4, 0.3])
    data = make_examples(ls.grid_cuts, observed=z, channel=ls.Flips(0.2), modular="shared")
    found = log_evidence(data, theta, Sums("enumeration"))
    for image, value in zip(z, found, strict=True):
        alone = make_examples(
            ls.grid_cuts(image.shape), observed=[image], channel=ls.Flips(0.2), modular="shared"
        )
        assert value == pytest.approx(brute_log_evidence(alone, theta)[0], abs=1e-12)


def test_priors_that_differ(seed):
    rng = np.random.default_rng(seed)
    z, phi = rng.integers(0, 2, (4, *SHAPE)), rng.normal(size=(4, *SHAPE, 2))
    channel = ls.Flips(0.1)
    data = make_examples(ls.grid_cuts(SHAPE), observed=z, channel=channel, features=phi)
    theta = random_theta(rng, data)
    found = log_evidence(data, theta, Sums("enumeration"))
    for i in range(4):
        fields = theta[2:8] + phi[i].reshape(6, 2) @ theta[8:]
        same = make_examples(ls.grid_cuts(SHAPE), observed=z[i : i + 1], channel=channel)
        expected = brute_log_evidence(same, np.concatenate([theta[:2], fields]))
        assert found[i] == pytest.approx(expected[0], abs=1e-12)


def test_pixels_without_doubt(seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (4, *SHAPE)).astype(float)
    z[rng.random(z.shape) < 0.4] = NAN
    for channel in (ls.Missing(0.5), ls.AsymmetricFlips(0.0, 0.3), ls.AsymmetricFlips(0.2, 0.0)):
        data = make_examples(ls.grid_cuts(SHAPE), observed=z, channel=channel)
        theta = random_theta(rng, data)
        found = log_evidence(data, theta, Sums("enumeration"))
        np.testing.assert_allclose(found, brute_log_evidence(data, theta), atol=1e-12)


@pytest.mark.parametrize("name", CHANNELS)
def test_bracket_contains_the_truth(name, seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng, CHANNELS[name], count=3)
    theta = random_theta(rng, data)
    exact = brute_log_evidence(data, theta)
    # operations for the cheapest bounds only, and for exact ones
    for budget, width in ((1.0, math.inf), (1e9, 1e-9)):
        lower, upper = bracket_log_evidence(data, theta, budget=budget)
        assert (lower <= exact + 1e-9).all() and (exact <= upper + 1e-9).all()
        assert (upper - lower <= width).all()


# -------------------------------------------------------------------------------------- symmetries


def test_without_coupling_the_likelihood_is_flat_along_a_curve(seed):
    """At alpha = 0 only pi + (1 - 2 pi) sigma(t_d) matters."""
    rng = np.random.default_rng(seed)
    data = random_data(rng, ls.Flips(0.1))
    ones = rng.uniform(0.35, 0.65, 6)
    values = []
    for rate in (0.05, 0.2, 0.3):
        mean = (ones - rate) / (1 - 2 * rate)
        theta = np.concatenate([[0.0, 0.0], np.log(mean / (1 - mean))])
        values.append(log_evidence(data.with_channel(ls.Flips(rate)), theta, Sums("enumeration")))
    np.testing.assert_allclose(values[1:], values[:1] * 2, atol=1e-12)
    # with coupling it is not
    theta[:2] = 1.0
    other = log_evidence(data.with_channel(ls.Flips(0.2)), theta, Sums("enumeration"))
    assert np.abs(other - values[0]).max() > 0.01


def test_switched_labels_have_the_same_likelihood(seed):
    """(f, pi) and (f(1 - x), 1 - pi) say the same; a cut is its own complement."""
    rng = np.random.default_rng(seed)
    data = random_data(rng, ls.Flips(0.2))
    theta = random_theta(rng, data)
    switched = np.concatenate([theta[:2], -theta[2:]])
    np.testing.assert_allclose(
        log_evidence(data, theta, Sums("enumeration")),
        log_evidence(data.with_channel(ls.Flips(0.8)), switched, Sums("enumeration")),
        atol=1e-12,
    )


def test_without_information_nothing_is_learned(seed):
    """At u = 0 the posterior is the prior, so the gradient vanishes whatever theta is."""
    rng = np.random.default_rng(seed)
    data = random_data(rng, ls.Flips(0.5))
    evidence = Objective(data, Sums("enumeration"), latent=True)
    theta = random_theta(rng, data)
    free, held = evidence.free(theta), evidence.held(theta, ls.Flips(0.5))
    np.testing.assert_allclose(free.phi, held.phi, atol=1e-12)
    told = evidence.held(theta, ls.Flips(0.2))
    assert np.abs(free.phi - told.phi).max() > 1e-3


# --------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("name", CHANNELS)
def test_gradient_in_the_weights(name, seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng, CHANNELS[name])
    theta = random_theta(rng, data)
    evidence = Objective(data, Sums("enumeration"), latent=True)
    gradient = evidence.held(theta, data.channel).phi - evidence.free(theta).phi
    h = 1e-5
    for j, step in enumerate(h * np.eye(data.layout.size)):
        up, down = (brute_log_evidence(data, theta + s * step).mean() for s in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / (2 * h), abs=1e-8)


def test_gradient_in_the_noise(seed):
    """d log p(z) / du_d = (1 - 2 z_d) m_d + z_d - sigma(u_d), with m the posterior's mean."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-2, -0.5, SHAPE)
    rate = 1 / (1 + np.exp(-u))
    z = rng.integers(0, 2, (1, *SHAPE))
    data = make_examples(ls.grid_cuts(SHAPE), observed=z, channel=ls.Flips(rate))
    theta = random_theta(rng, data)
    objective, (group,) = Objective(data, Sums("enumeration"), latent=True), data.groups
    posterior, _ = objective.pose(theta, group, np.arange(1), "held", data.channel)
    mean = Sums("enumeration").evaluate(posterior).mean.reshape(SHAPE)
    gradient = (1 - 2 * z[0]) * mean + z[0] - rate
    h = 1e-5
    for d in np.ndindex(SHAPE):
        step = np.zeros(SHAPE)
        step[d] = h
        up, down = (
            brute_log_evidence(data, theta, ls.Flips(1 / (1 + np.exp(-u - s * step))))[0]
            for s in (1, -1)
        )
        assert gradient[d] == pytest.approx((up - down) / (2 * h), abs=1e-8)


# ------------------------------------------------------------------------------------------ refits


def expected_log_likelihood(channel, z, mean):
    zero, one = channel.log_likelihoods(z)
    return float(((1 - mean) * zero + mean * one).sum())


def vary(channel):
    """Return a vector of a channel's parameters and what makes a channel of such a vector."""
    if isinstance(channel, ls.Missing):
        inner, make = vary(channel.channel)
        return inner, lambda v: ls.Missing(channel.rate, make(v))
    if isinstance(channel, ls.Flips):
        shape = channel.rate.shape
        return channel.rate.ravel(), lambda v: ls.Flips(np.reshape(v, shape), channel.groups)
    if isinstance(channel, ls.AsymmetricFlips):
        k, on, off = channel.on.size, channel.on.shape, channel.off.shape
        start = np.concatenate([channel.on.ravel(), channel.off.ravel()])
        return start, lambda v: ls.AsymmetricFlips(v[:k].reshape(on), v[k:].reshape(off))
    scale = channel.scale[:1] if channel.tied else channel.scale
    start = np.concatenate([channel.mean, scale])
    return start, lambda v: ls.Gaussian(v[:2], v[2] if channel.tied else v[2:])


@pytest.mark.parametrize("name", CHANNELS)
def test_refit_maximises_the_expected_likelihood(name, seed):
    rng = np.random.default_rng(seed)
    channel = CHANNELS[name]
    x = rng.integers(0, 2, (200, *SHAPE))
    z = channel.sample(x, rng)
    z[rng.random(z.shape) < 0.1] = np.nan
    mean = np.clip(x + rng.normal(scale=0.2, size=x.shape), 0, 1)
    # in two pieces, as learners do
    counts = channel.count(z[:50], mean[:50]) + channel.count(z[50:], mean[50:])
    fitted = channel.refit(counts)
    assert type(fitted) is type(channel)
    start, make = vary(fitted)
    bounds = [(1e-4, 0.4999 if isinstance(channel, ls.Flips) else 5.0)] * len(start)
    if isinstance(channel, ls.Gaussian):
        bounds[:2] = [(-5, 5)] * 2
    elif not isinstance(channel, ls.Flips):
        bounds = [(1e-4, 0.9)] * len(start)
    best = expected_log_likelihood(fitted, z, mean)
    found = minimize(
        lambda v: -expected_log_likelihood(make(v), z, mean), vary(channel)[0], bounds=bounds
    )
    assert best >= -found.fun - 1e-9 * abs(found.fun)
    assert best == pytest.approx(-found.fun, rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(CHANNELS)))
def test_refit_never_lowers_the_expected_likelihood(seed, name):
    """Whatever is believed, even against the evidence: floors and ceilings do no harm."""
    rng = np.random.default_rng(seed)
    channel = CHANNELS[name]
    z = channel.sample(rng.integers(0, 2, (3, *SHAPE)), rng)
    mean = rng.integers(0, 2, z.shape) * rng.uniform(size=z.shape).round()
    z[rng.random(z.shape) < 0.3] = np.nan
    mean = np.where(rng.random(z.shape) < 0.5, np.abs(1 - np.nan_to_num(z).round()) % 2, mean)
    fitted = channel.refit(channel.count(z, np.clip(mean, 0, 1)))
    before, after = (expected_log_likelihood(c, z, np.clip(mean, 0, 1)) for c in (channel, fitted))
    assert after >= before - 1e-9 * max(1, abs(before))
    assert np.isfinite(fitted.log_odds(np.nan_to_num(z))).all()


def test_rates_stay_below_one_half():
    z, mean = np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.1])
    flips = ls.Flips(0.2)
    assert 0.49 < flips.refit(flips.count(z, mean)).rate < 0.5
    sided = ls.AsymmetricFlips(0.2, 0.3)
    found = sided.refit(sided.count(z, mean))
    assert 0.99 < found.on + found.off < 1.0


def test_elements_that_were_never_seen_keep_their_rate():
    flips = ls.Flips([0.1, 0.2, 0.3])
    found = flips.refit(flips.count([[1, NAN, 0]], [[0.7, 0.5, 0.05]]))
    np.testing.assert_allclose(found.rate, [0.3, 0.2, 0.05])
    grey = ls.Gaussian()
    assert grey.refit(grey.count([NAN], [0.3])) is grey


def test_grey_levels_of_one_value_keep_a_spread():
    grey = ls.Gaussian(scale=(0.5, 0.7))
    same = grey.refit(grey.count([0.4, 0.4], [0.2, 0.9]))
    np.testing.assert_allclose(same.mean, 0.4)
    np.testing.assert_allclose(same.scale, grey.scale)
    two = grey.refit(grey.count([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]))
    np.testing.assert_allclose(two.scale, 0.5e-3)


def test_large_grey_levels_lose_no_digits():
    rng = np.random.default_rng(0)
    z = 1e6 + np.concatenate([rng.normal(size=500), 50 + rng.normal(size=500)])
    grey = ls.Gaussian((1e6 - 1, 1e6 + 51), 1.0)
    found = grey.refit(grey.count(z, np.repeat([0.0, 1.0], 500)))
    np.testing.assert_allclose(found.mean, [z[:500].mean(), z[500:].mean()], rtol=1e-13)
    spread = np.sqrt((z[:500].var() + z[500:].var()) / 2)
    np.testing.assert_allclose(found.scale, spread, rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ls.Flips(0.1).count([0, 1], [0.5]), r"mean has shape \(1,\)"),
        (lambda: ls.Flips(0.1).count([0], [1.5]), r"mean\[0\] = 1.5 is not a probability"),
        (lambda: ls.Flips(0.1).count([0], [NAN]), r"mean\[0\] = nan"),
        (lambda: ls.Flips(0.1).refit([1, 2, 3]), "counts must be 2 finite numbers"),
        (lambda: ls.Gaussian().refit([NAN] * 6), "counts must be 6 finite numbers"),
        (lambda: ls.Flips([0.1, 0.2]).count([[0, 1, 1]], [[0, 1, 1]]), "does not fit"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
