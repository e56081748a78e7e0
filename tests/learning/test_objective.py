"""Losses and their gradients: finite differences, closed forms and enumeration."""

import dataclasses

import numpy as np
import oracles
import pytest
from objective_oracles import (
    CUTS,
    SHAPE,
    Exact,
    conditional,
    holes,
    images,
    kinds,
    latent,
    log_determinant,
    long,
    partial,
    random_theta,
)
from scipy.special import expit

import logsuper as ls
from logsuper.learning import (
    FixedNoise,
    FreshNoise,
    Objective,
    Penalty,
    exact,
    lfield,
    logistic,
    make_examples,
    max_margin,
    saa,
)
from logsuper.learning._lfield import LField


def differences(loss, theta, step):
    steps = step * np.eye(len(theta))
    return np.array([loss(theta + e).value - loss(theta - e).value for e in steps]) / (2 * step)


@kinds
def test_gradient_by_finite_differences_on_fixed_noise(kind, seed):
    rng = np.random.default_rng(seed)
    make, examples = kind(rng)
    objective = make(examples, FixedNoise(5, seed=2**63 + seed))
    theta = random_theta(rng, examples.layout)
    # piecewise linear: exact as long as no maximiser changes within the step
    np.testing.assert_allclose(
        objective.loss(theta).gradient, differences(objective.loss, theta, 1e-7), atol=2e-6
    )


@kinds
def test_gradient_by_finite_differences_of_the_exact_loss(kind, seed):
    rng = np.random.default_rng(seed)
    make, examples = kind(rng)
    if any(group.edge_weights is not None for group in examples.groups):
        pytest.skip("enumeration knows no factors on edges")
    objective = make(examples, Exact())
    theta = random_theta(rng, examples.layout)
    np.testing.assert_allclose(
        objective.loss(theta).gradient, differences(objective.loss, theta, 1e-5), atol=1e-7
    )


@kinds
def test_fresh_noise_agrees_with_many_fixed_draws(kind):
    rng = np.random.default_rng(0)
    make, examples = kind(rng)
    theta = random_theta(rng, examples.layout)
    count = 50 if kind is log_determinant else 1000
    fresh = make(examples, FreshNoise(count, seed=1)).loss(theta)
    fixed = make(examples, FixedNoise(count, seed=2)).loss(theta)
    assert abs(fresh.value - fixed.value) <= 5 * np.hypot(fresh.stderr, fixed.stderr)
    assert fresh.cuts == fixed.cuts > 0


@kinds
def test_whole_is_the_mean_of_its_parts(kind, seed):
    rng = np.random.default_rng(seed)
    make, examples = kind(rng)
    if any(group.edge_weights is not None for group in examples.groups):
        pytest.skip("enumeration knows no factors on edges")
    objective = make(examples, Exact())
    theta = random_theta(rng, examples.layout)
    whole = objective.loss(theta)
    parts = [objective.loss(theta, np.array([i])) for i in range(examples.count)]
    assert whole.value == pytest.approx(np.mean([p.value for p in parts]), rel=1e-12)
    np.testing.assert_allclose(
        whole.gradient, np.mean([p.gradient for p in parts], axis=0), atol=1e-12
    )
    # an example may be drawn twice
    twice = objective.loss(theta, np.array([1, 0, 1]))
    expected = (parts[0].value + 2 * parts[1].value) / 3
    assert twice.value == pytest.approx(expected, rel=1e-12)


def test_exact_supervised_loss_is_minus_the_log_likelihood(seed):
    rng = np.random.default_rng(seed)
    x, z = images(rng, 3, SHAPE), images(rng, 3, SHAPE)
    channel = ls.Flips(0.2)
    examples = make_examples(CUTS, labels=x, observed=z, channel=channel, scale=True)
    theta = random_theta(rng, examples.layout)
    found = Objective.supervised(examples, Exact()).loss(theta).value
    expected = 0.0
    for clean, noisy in zip(x.reshape(3, -1), z.reshape(3, -1), strict=True):
        field = theta[2:-1] + theta[-1] * channel.log_odds(noisy)
        f = theta[0] * CUTS[0] + theta[1] * CUTS[1] - ls.Modular(field)
        expected += (f(clean) + oracles.brute_log_partition(f)) / 3
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("observed", [False, True])
def test_unknown_label_is_marginalised(seed, observed):
    rng = np.random.default_rng(seed)
    x = holes(rng, images(rng, 1, SHAPE), 0.4)
    x.flat[2] = np.nan
    seen = {"observed": images(rng, 1, SHAPE), "channel": ls.Flips(0.3)} if observed else {}

    def loss(labels, theta):
        examples = make_examples(CUTS, labels=labels, **seen)
        return Objective.supervised(examples, Exact()).loss(theta).value

    theta = random_theta(rng, make_examples(CUTS, labels=x).layout)
    completed = [x.copy(), x.copy()]
    for value in (0, 1):
        completed[value].flat[2] = value
    total = np.logaddexp(*(-loss(labels, theta) for labels in completed))
    assert loss(x, theta) == pytest.approx(-total, rel=1e-12)
    nothing = np.full_like(x, np.nan)
    assert loss(nothing, theta) == pytest.approx(0.0, abs=1e-12)


def test_latent_loss_is_that_of_the_observations(seed):
    rng = np.random.default_rng(seed)
    z = images(rng, 2, SHAPE)
    channel = ls.Flips(0.2)
    examples = make_examples(CUTS, observed=z, channel=channel)
    theta = random_theta(rng, examples.layout)
    f = theta[0] * CUTS[0] + theta[1] * CUTS[1] - ls.Modular(theta[2:])
    states = oracles.enumerate_x(f.n)
    expected = 0.0
    for noisy in z.reshape(2, -1):
        zero, one = channel.log_likelihoods(noisy)
        joint = -f(states) + np.where(states == 1, one, zero).sum(axis=1)
        log_p = np.logaddexp.reduce(joint) - oracles.brute_log_partition(f)
        expected += (zero.sum() - log_p) / 2
    found = Objective(examples, Exact(), latent=True).loss(theta).value
    assert found == pytest.approx(expected, rel=1e-12)


def test_closed_forms_without_coupling(seed):
    rng = np.random.default_rng(seed)
    x, z = images(rng, 3, SHAPE), images(rng, 3, SHAPE)
    examples = make_examples(CUTS, labels=x, observed=z, channel=ls.Flips(0.2), scale=True)
    theta = random_theta(rng, examples.layout)
    theta[:2] = 0.0
    odds = ls.Flips(0.2).log_odds(z).reshape(3, -1)
    field, flat = theta[2:-1] + theta[-1] * odds, x.reshape(3, -1)
    value = (np.logaddexp(0.0, field) - field * flat).sum(axis=1).mean()
    residual = expit(field) - flat
    exact = Objective.supervised(examples, Exact()).loss(theta)
    assert exact.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(exact.gradient[2:-1], residual.mean(axis=0), atol=1e-12)
    assert exact.gradient[-1] == pytest.approx((odds * residual).sum(axis=1).mean(), rel=1e-12)
    # the logistic bound is tight for modular functions
    drawn = Objective.supervised(examples, FreshNoise(4000, seed=seed)).loss(theta)
    assert abs(drawn.value - value) <= 5 * drawn.stderr
    np.testing.assert_allclose(drawn.gradient[2:-1], residual.mean(axis=0), atol=0.03)


@long
def test_standard_error_is_that_of_repetitions():
    rng = np.random.default_rng(0)
    for kind in (conditional, partial, latent):
        make, examples = kind(rng)
        theta = random_theta(rng, examples.layout)
        objective = make(examples, FreshNoise(4, seed=3))
        losses = [objective.loss(theta, step=step) for step in range(400)]
        spread = np.std([loss.value for loss in losses])
        claimed = np.sqrt(np.mean([loss.stderr**2 for loss in losses]))
        assert spread == pytest.approx(claimed, rel=0.15)


@kinds
def test_threads_and_steps(kind, seed):
    rng = np.random.default_rng(seed)
    make, examples = kind(rng)
    theta = random_theta(rng, examples.layout)
    for engine in (FreshNoise(3, seed=seed), FixedNoise(3, seed=seed)):
        one = make(examples, engine).loss(theta, step=5)
        two = make(examples, dataclasses.replace(engine, n_jobs=2)).loss(theta, step=5)
        assert one.value == two.value and (one.gradient == two.gradient).all()
        other = make(examples, engine).loss(theta, step=6)
        assert (other.value == one.value) == isinstance(engine, FixedNoise)


def test_labels_are_needed():
    z = np.zeros((2, *SHAPE))
    examples = make_examples(CUTS, observed=z, channel=ls.Flips(0.1))
    with pytest.raises(ValueError, match="labels are missing"):
        Objective.supervised(examples, Exact())


@pytest.mark.parametrize("learn", [logistic, exact, lfield, saa, max_margin])
@pytest.mark.parametrize("scale", [False, True])
def test_observations_without_doubt_are_refused(learn, scale):
    rates = np.where(np.arange(6) == 4, 0.0, 0.1).reshape(SHAPE)
    x = np.array([np.zeros(SHAPE), np.ones(SHAPE)])
    for channel, place in ((ls.Flips(0.0), r"\[0\]\[0, 0\]"), (ls.Flips(rates), r"\[0\]\[1, 1\]")):
        data = make_examples(
            CUTS, labels=x, observed=x, channel=channel, modular="shared", scale=scale
        )
        penalty = Penalty.of(data.layout, alpha=1.0, modular=1.0, scale=1.0)
        with pytest.raises(ValueError, match=f"no doubt about observed{place}: .* rate above 0"):
            learn(data, penalty)


def test_observations_without_doubt_are_refused_in_the_order_of_the_user():
    x = [np.ones((1, 2)), np.ones(SHAPE), np.ones((1, 2))]
    z = [np.full((1, 2), np.nan), np.full(SHAPE, np.nan), np.array([[np.nan, 1.0]])]
    data = make_examples(
        ls.grid_cuts, labels=x, observed=z, channel=ls.Missing(0.5), modular="shared"
    )
    with pytest.raises(ValueError, match=r"no doubt about observed\[2\]\[0, 1\]"):
        Objective.supervised(data, Exact())


@pytest.mark.parametrize("engine", [Exact(), FixedNoise(5, seed=1), LField()])
def test_pixels_without_doubt_and_label_are_held_fixed(engine, seed):
    # as the limit of rates above 0
    rng = np.random.default_rng(seed)
    rates = np.where(np.arange(6) < 3, 0.0, 0.2).reshape(SHAPE)
    x, z = images(rng, 4, SHAPE).astype(float), images(rng, 4, SHAPE)
    x[:, 0] = np.nan
    sure, nearly = (
        make_examples(CUTS, labels=x, observed=z, channel=ls.Flips(rate))
        for rate in (rates, np.maximum(rates, 1e-14))
    )
    theta = random_theta(rng, sure.layout)
    found, expected = (Objective.supervised(data, engine).loss(theta) for data in (sure, nearly))
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-9)
    scaled = make_examples(CUTS, labels=x, observed=z, channel=ls.Flips(rates), scale=True)
    with pytest.raises(ValueError, match=r"no doubt about observed\[0\]\[0, 0\]"):
        Objective.supervised(scaled, engine)  # what is its derivative in w?


def test_keys_of_fixed_noise_are_not_rounded():
    examples = make_examples(CUTS, labels=np.zeros((1, *SHAPE)))
    group, rows = examples.groups[0], np.array([0])
    draws = [FixedNoise(2, key).draw(group, rows) for key in (2**64 - 1, 2**64 - 2)]
    assert not np.array_equal(*draws)


@pytest.mark.parametrize("features", [False, True])
def test_pieces_of_examples_add_up(monkeypatch, seed, features):
    rng = np.random.default_rng(seed)
    phi = {"features": rng.normal(size=(7, *SHAPE, 2))} if features else {}
    z, channel = images(rng, 7, SHAPE), ls.AsymmetricFlips(0.1, 0.2)
    data = make_examples(CUTS, observed=z, channel=channel, **phi)
    theta = random_theta(rng, data.layout)

    def sides():
        objective = Objective(data, FixedNoise(3, seed), latent=True, posterior=FixedNoise(2, seed))
        return objective.free(theta), objective.held(theta, ls.AsymmetricFlips(0.2, 0.3))

    whole = sides()
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 30)
    for one, other in zip(whole, sides(), strict=True):
        for a, b in zip(one[:-1], other[:-1], strict=True):  # without the draws
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert whole[1].counts.sum() > 1.0
    assert whole[0].cuts == (21 if features else 3) and whole[1].cuts == 14


def test_both_sides_have_the_same_noise(seed):
    # their difference then varies much less than with noise of its own on each side
    x = ls.make_silhouettes(4, shape=(16, 16), seed=seed)
    z = ls.Flips(0.1).sample(x, seed=seed)
    known = np.where(np.random.default_rng(seed).random(x.shape) < 0.1, x, np.nan)
    data = make_examples(
        ls.grid_cuts((16, 16)), labels=known, observed=z, channel=ls.Flips(0.1), modular="shared"
    )
    common = Objective.supervised(data, FreshNoise(2, seed=1))
    apart = dataclasses.replace(common, posterior=FreshNoise(2, seed=2))
    theta = data.layout.fill(alpha=1.0)
    values = [[each.loss(theta, step=step).value for step in range(40)] for each in (common, apart)]
    assert np.var(values[0]) < 0.5 * np.var(values[1])
    error = np.sqrt(np.var(values[1]) / 40)
    assert abs(np.mean(values[0]) - np.mean(values[1])) < 5 * error
