"""Error bars of estimated moments: against repeated noise, closed forms and enumeration."""

import dataclasses

import numpy as np
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper.learning import Objective, Penalty, make_examples, moment_targets
from logsuper.learning._engines import Sums
from logsuper.learning._error_bars import Relaxed, find_error_bars, move_rates, rate_direction
from logsuper.learning._moments import HEAVY, heaviest, moments

RATE = 0.1


def examples(seed, channel=None, count=30, shape=(20, 20), **settings):
    """Return silhouettes with noise, and their clean versions as labels."""
    channel = ls.Flips(RATE) if channel is None else channel
    x = ls.make_silhouettes(count, shape=shape, seed=seed)
    settings = {"modular": "shared", "scale": True, **settings}
    z = channel.sample(x, seed + 100)
    return make_examples(ls.grid_cuts(shape), labels=x, observed=z, channel=channel, **settings)


def mean_errors(data):
    """Return by how much the mean estimated statistics differ from those of the labels."""
    targets, total = moment_targets(data), 0.0
    for group, rows in data.parts():
        labels = data.statistics(group, rows, data.label_moments(group, rows))
        total = total + (targets.statistics(group, rows) - labels).sum(axis=0)
    return total / data.count


# -------------------------------------------------------------------------------- standard errors


@pytest.mark.parametrize(
    ("channel", "settings"),
    [
        (ls.Flips(RATE), {"context": 1}),
        (ls.Flips(0.2), {}),
        (ls.AsymmetricFlips(0.05, 0.2), {"context": 1}),
        (ls.Gaussian(mean=(0.0, 1.0), scale=0.5), {}),
        (ls.Missing(0.2, ls.Flips(RATE)), {}),
        (ls.Flips(RATE), {"count": 2, "shape": (48, 48)}),  # few large images
    ],
    ids=str,
)
def test_standard_errors_are_the_scatter_over_repeated_noise(channel, settings):
    data = examples(0, channel, **settings)
    found = find_error_bars(data, 0.0, key=3).stderr
    clean = [group.labels.astype(float) for group in data.groups]
    rng = np.random.default_rng(7)
    scatter = []
    for _ in range(200):  # which tells a deviation to 5 %
        noisy = [
            channel.sample(x.reshape(-1, *group.shape), rng).reshape(x.shape)
            for x, group in zip(clean, data.groups, strict=True)
        ]
        labels = [group.labels for group in data.groups]
        scatter.append(mean_errors(data.with_observed(noisy, labels)))
    np.testing.assert_allclose(found, np.std(scatter, axis=0), rtol=0.25)


def test_standard_errors_of_single_pixels(seed):
    data = examples(seed, count=200, shape=(16, 16), modular="pixel")
    bars = find_error_bars(data, 0.0, key=3)
    pixels = bars.stderr[data.layout.blocks["modular"]]
    # flips: the variance of an estimate does not depend on what is behind
    exact = np.sqrt(RATE * (1 - RATE)) / (1 - 2 * RATE) / np.sqrt(200)
    np.testing.assert_allclose(pixels.mean(), exact, rtol=0.02)
    np.testing.assert_allclose(pixels, exact, rtol=0.25)


def test_standard_errors_fall_with_the_number_of_images(seed):
    few, many = (
        find_error_bars(examples(seed, count=count), 0.0, key=1).stderr for count in (20, 320)
    )
    np.testing.assert_allclose(few / many, 4.0, rtol=0.3)


# ---------------------------------------------------------------------------------------- the rate


@pytest.mark.parametrize("channel", [ls.Flips(RATE), ls.Missing(0.2, ls.Flips(RATE))], ids=str)
def test_direction_of_the_rate_is_the_derivative_in_closed_form(channel, seed):
    data = examples(seed, channel, count=4, modular="pixel", context=1)
    (group,), targets = data.groups, moment_targets(data)
    found, at = rate_direction(data), data.layout.blocks
    weights = np.array([f.weights.sum() for f in group.prepared.functions])
    cuts, kept = targets.stats[0].mean(axis=0), 1 - 2 * RATE
    # of minus f, the statistic of alpha
    np.testing.assert_allclose(found[at["alpha"]], 2 * (weights - 2 * cuts) / kept, rtol=1e-6)
    x = targets.pixels[0]
    np.testing.assert_allclose(found[at["modular"]], (2 * x - 1) / kept, atol=1e-6)
    seen = np.count_nonzero(~np.isnan(group.read_observed(np.arange(4)))) / 4
    odds = np.log((1 - RATE) / RATE)
    np.testing.assert_allclose(found[at["scale"]], -odds * seen, rtol=1e-6)


def test_direction_of_the_rate_is_where_a_wrong_rate_takes_the_moments(seed):
    # many images of a law, seen through .1 and taken for .11
    data = examples(seed, count=400, shape=(16, 16), context=1)
    wrong = dataclasses.replace(data, channel=move_rates(data.channel, 0.01))
    right, moved = (
        moment_targets(some).statistics(some.groups[0], np.arange(400)).mean(axis=0)
        for some in (data, wrong)
    )
    direction = rate_direction(data)
    at = slice(0, data.layout.size - 1)  # of the observations, the log-odds would move, too
    np.testing.assert_allclose((moved - right)[at], 0.01 * direction[at], rtol=0.05, atol=0.02)


def test_asymmetric_rates_move_together():
    channel = move_rates(ls.Missing(0.3, ls.AsymmetricFlips(0.05, 0.2)), 0.01)
    assert channel.rate == 0.3
    np.testing.assert_allclose([channel.channel.on, channel.channel.off], [0.06, 0.21])


# --------------------------------------------------------------------------------- the regulariser


def test_gradient_of_the_regulariser(seed):
    rng = np.random.default_rng(seed)
    data = examples(seed, count=3, context=1)
    bars = find_error_bars(data, 0.002, key=0)
    penalty = Relaxed.make(Penalty.of(data.layout, 0.1, 0.1, 0.1, 0.1), bars, 1.0, data)
    theta = data.layout.fill(0.3, 0.1, 0.02, 0.9) + 0.1 * rng.normal(size=data.layout.size)
    for scale in (1.0, 0.01):  # outside of the parabolas, and inside
        at = penalty.center + scale * (theta - penalty.center)
        step = 1e-6 * rng.normal(size=len(theta))
        change = penalty.value(at + step) - penalty.value(at - step)
        assert change == pytest.approx(2 * penalty.gradient(at) @ step, rel=1e-4, abs=1e-10)


def chain(seed, count, rate=RATE, assumed=None, n=6):
    """Return noisy samples of a chain, whose every state can be listed."""
    f = ls.Cut(n, [(i, i + 1) for i in range(n - 1)])
    x = ls.LogSupermodular(1.5 * f - ls.Modular(np.full(n, 0.4))).sample(count, seed=seed)
    channel = ls.Flips(rate if assumed is None else assumed)
    z = ls.Flips(rate).sample(x, seed + 1)
    return make_examples([f], observed=z, channel=channel, modular="shared", scale=True)


TINY = {"alpha": 1e-9, "modular": 1e-9, "scale": 1e-9}


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_moments_of_the_result_are_within_the_error_bars(error, seed):
    data = chain(seed, 200)
    found = moments(
        data, Penalty.of(data.layout, **TINY), method="exact", tol=1e-6, rate_stderr=error
    )
    assert found.converged
    bars = found.details["bars"]
    gradient = Objective(data, Sums("enumeration"), moment_targets(data)).loss(found.theta).gradient
    # E phi - mu = delta v with |delta| <= the error of the rate, up to the error of each
    along = gradient @ bars.direction / max(bars.direction @ bars.direction, 1.0)
    shifts = np.linspace(-error, error, 2001) if error else [0.0]
    left = [np.max(np.abs(gradient - d * bars.direction) - bars.stderr) for d in shifts]
    assert min(left) <= 1e-4 * (1 + abs(along))
    assert np.max(np.abs(gradient)) > 1e-3  # and not an exact match


def test_many_data_are_hardly_changed_and_few_are():
    changes = []
    for count in (100, 20_000):
        data = chain(0, count)
        plain, relaxed = (
            moments(data, Penalty.of(data.layout, **TINY), method="exact", tol=1e-6, relax=c)
            for c in (0.0, 1.0)
        )
        changes.append(np.abs(plain.theta - relaxed.theta).max())
    assert changes[1] < 0.04 < 0.2 < changes[0]


# ------------------------------------------------------------------------------ impossible results


def test_error_bars_keep_weights_where_the_rate_is_too_large(seed):
    # .1 is taken for .105, which smooth images cannot have
    x = ls.make_silhouettes(12, (64, 64), seed=seed)
    z = ls.Flips(RATE).sample(x, seed + 1)
    data = make_examples(
        ls.grid_cuts((64, 64)), observed=z, channel=ls.Flips(0.105), modular="shared", scale=True
    )
    penalty = Penalty.of(data.layout, alpha=1e-6, modular=1e-6, scale=1e-6)
    found = moments(data, penalty, tol=1e-2, max_iter=1500, rate_stderr=0.003)
    assert found.converged and heaviest(data, found.theta)[1] < 4
    assert len(found.details["tried"]) == 1


@long
@pytest.mark.filterwarnings("ignore:descent")
def test_an_impossible_result_leads_to_a_stronger_penalty_then_a_lower_rate():
    z = ls.Flips(RATE).sample(ls.make_silhouettes(10, shape=(48, 48), seed=0), seed=1)
    penalty = {"alpha": 1e-6, "modular": 1e-6, "scale": 1e-6}

    def learn(rate):
        data = make_examples(
            ls.grid_cuts((48, 48)), observed=z, channel=ls.Flips(rate), modular="shared", scale=True
        )
        return moments(data, Penalty.of(data.layout, **penalty), tol=1e-2, max_iter=500)

    # no regulariser makes up for this rate, and two per cent less do not either
    with pytest.warns(ls.ConvergenceWarning, match="even with 16 times .* lower by") as said:
        worst = learn(0.3)
    assert not worst.converged and "those of no distribution" in str(said[-1].message)
    tried = worst.details["tried"]
    assert [line.split(":")[0] for line in tried] == [
        "1 times the penalty",
        "4 times the penalty",
        "16 times the penalty",
        "16 times the penalty and a rate lower by 0.006",
        "16 times the penalty and a rate lower by 0.012",
    ]
    steps = [line.step for line in worst.history]
    assert steps == sorted(steps)
    milder = learn(0.12)
    assert milder.converged and len(milder.details["tried"]) > 1
    assert milder.details["tried"][-1].endswith("possible")


def test_heavy_weights_are_impossible():
    data = chain(0, 10)
    assert heaviest(data, data.layout.fill(alpha=3.0, scale=2.0))[0] == "function 0"
    name, weight = heaviest(data, data.layout.fill(alpha=0.1, scale=11.0))
    assert (name, weight > HEAVY) == ("the observations", True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"relax": -1.0}, "relax = -1 must be at least 0"),
        ({"rate_stderr": -0.1}, "rate_stderr = -0.1 must be at least 0"),
        ({"rate_stderr": 0.2}, "is not below the rate itself, 0.1"),
        ({"relax": "much"}, "relax must be a real number"),
    ],
)
def test_arguments_are_checked(settings, message):
    data = chain(0, 5)
    with pytest.raises((TypeError, ValueError), match=message):
        moments(data, Penalty.of(data.layout, **TINY), **settings)


def test_grey_levels_have_no_rate():
    channel = ls.Gaussian(mean=(0.0, 1.0), scale=0.5)
    data = examples(0, channel, count=2)
    with pytest.raises(ValueError, match=r"rate_stderr = 0.01, but Gaussian\(.* has no rate"):
        moments(data, Penalty.of(data.layout, **TINY), rate_stderr=0.01)
