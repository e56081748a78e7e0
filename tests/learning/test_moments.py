"""Moments of clean images from noisy ones: no bias, by enumeration; and what learns from them."""

import dataclasses

import numpy as np
import pytest
from objective_oracles import long
from oracles import enumerate_x, random_cut, random_directed_cut

import logsuper as ls
from logsuper.learning import FixedNoise, Objective, Penalty, make_examples
from logsuper.learning import _moment_targets as module
from logsuper.learning._decoding import means
from logsuper.learning._descent import descend, logistic
from logsuper.learning._engines import Sums
from logsuper.learning._examples import Moments
from logsuper.learning._moment_targets import check_penalty, moment_targets
from logsuper.learning._moments import moments
from logsuper.learning._smooth import minimize

# Tens of thousands of cuts of images take minutes in the fallback.

NAN = float("nan")
N = 5  # elements: all 2^5 observations are enumerated

CHANNELS = {
    "flips": ls.Flips(0.2),
    "flips, inverted": ls.Flips(0.9),
    "flips, one rate a pixel": ls.Flips(np.linspace(0.05, 0.4, N)),
    "flips, grouped": ls.Flips([0.1, 0.3], groups=np.arange(N) % 2),
    "asymmetric": ls.AsymmetricFlips(on=0.05, off=0.3),
    "missing": ls.Missing(0.3, ls.Flips(0.2)),
}


def functions(seed):
    rng = np.random.default_rng(seed)
    shared = random_cut(rng, N)
    return [shared, random_directed_cut(rng, N), 2.0 * shared + random_cut(rng, N)]


def all_observations(seed, **settings):
    """Return examples with every observation once."""
    return make_examples(functions(seed), observed=enumerate_x(N), scale=True, **settings)


def factors(rng, rank, seed):
    """Return factors on the edges, the same for every example."""
    edges = len(ls.prepare(functions(seed)).edges)
    given = rng.exponential(size=(3, edges)[3 - rank :])
    return np.tile(given, (2**N, *([1] * (rank - 1))))


def true_moments(data, x):
    """Return the moments of every example if x is what lies behind it."""
    group, rows = next(data.parts())
    mean = np.tile(x.astype(float), (len(rows), 1))
    fixed = np.where(mean == 1, np.inf, -np.inf)
    _, _, stats = group.prepared.maximize(fixed, np.ones(3), edge_weights=group.factors(rows))
    return Moments(stats, mean, data.agreement(group, rows, mean))


# -------------------------------------------------------------------------------------- no bias


@pytest.mark.parametrize("modular", ["pixel", "shared", "none"])
@pytest.mark.parametrize("name", CHANNELS)
def test_moments_have_no_bias(name, modular, seed):
    data = all_observations(seed, channel=CHANNELS[name], modular=modular)
    assert_no_bias(data, CHANNELS[name])


@pytest.mark.parametrize("rank", [2, 3])
def test_moments_with_factors_on_edges_have_no_bias(rank, seed):
    rng = np.random.default_rng(seed)
    channel = ls.AsymmetricFlips(on=0.1, off=0.2)
    weights = factors(rng, rank, seed)
    assert_no_bias(all_observations(seed, channel=channel, edge_weights=weights), channel)


def test_moments_with_features_have_no_bias(seed):
    rng = np.random.default_rng(seed)
    features = np.tile(rng.normal(size=(1, N, 3)), (2**N, 1, 1))
    channel = ls.Flips(0.15)
    assert_no_bias(all_observations(seed, channel=channel, features=features), channel)


def test_moments_with_observed_context_have_no_bias(seed):
    # the context of a pixel is noisy, too, but does not contain the pixel itself
    channel = ls.Flips(0.15)
    assert_no_bias(all_observations(seed, channel=channel, context=2), channel)


@pytest.mark.parametrize("own", [False, True])
def test_features_must_leave_out_the_noise_of_their_pixel(own, seed):
    z = enumerate_x(N).astype(float)
    features = np.roll(z, 1, axis=1) + (z if own else 0.0)
    channel = ls.Flips(0.15)
    data = all_observations(seed, channel=channel, features=features[..., None])
    if not own:
        return assert_no_bias(data, channel)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_no_bias(data, channel)


@pytest.mark.parametrize("out", [0, 1, 2])
def test_factors_must_leave_out_the_noise_of_both_ends(out, seed):
    z = enumerate_x(N).astype(float)
    edges = ls.prepare(functions(seed)).edges
    weights = 1.0 + z.sum(axis=1)[:, None] - z[:, edges[:, :out]].sum(axis=2)
    channel = ls.Flips(0.15)
    data = all_observations(seed, channel=channel, edge_weights=weights)
    if out == 2:
        return assert_no_bias(data, channel)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_no_bias(data, channel)


def assert_no_bias(data, channel):
    """Compare the mean over all observations of all statistics, for every clean x."""
    group, rows = next(data.parts())
    targets = moment_targets(data)
    found = data.statistics(group, rows, targets(group, rows))
    zero, one = channel.log_likelihoods(group.read_observed(rows))
    for x in enumerate_x(N):
        weights = np.exp(np.where(x == 1, one, zero).sum(axis=1))
        exact = data.statistics(group, rows, true_moments(data, x))
        np.testing.assert_allclose(weights @ found, weights @ exact, atol=1e-11)


def test_moments_of_grey_levels_have_no_bias():
    channel = ls.Gaussian(mean=(0.0, 1.5), scale=(0.8, 1.0))
    levels = np.arange(-9.0, 11.5, 0.1)
    z = np.stack(np.meshgrid(levels, levels), axis=-1).reshape(-1, 2)
    data = make_examples([ls.Cut(2, [(0, 1)], 2.0)], observed=z, channel=channel, scale=True)
    group, rows = next(data.parts())
    targets = moment_targets(data)(group, rows)
    zero, one = channel.log_likelihoods(z)
    for x in enumerate_x(2):
        weights = 0.1**2 * np.exp(np.where(x == 1, one, zero).sum(axis=1))
        assert weights @ targets.stats[:, 0] == pytest.approx(2.0 * (x[0] != x[1]), abs=1e-9)
        np.testing.assert_allclose(weights @ targets.mean, x, atol=1e-9)
        exact = weights @ (channel.log_odds(z) @ x)
        assert weights @ targets.agreement == pytest.approx(exact, abs=1e-8)


def test_without_noise_they_are_the_moments_of_the_labels(seed):
    x = ls.make_silhouettes(4, shape=(16, 17), seed=seed)
    data = make_examples(
        ls.grid_cuts((16, 17)), labels=x, observed=x, channel=ls.Flips(1e-9), scale=True
    )
    group, rows = next(data.parts())
    for found, exact in zip(
        moment_targets(data)(group, rows)[:3], data.label_moments(group, rows)[:3], strict=True
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-7, atol=1e-7)
    engine = FixedNoise(2, seed=1)
    rng = np.random.default_rng(seed)
    theta = data.layout.project(rng.normal(size=data.layout.size))
    loss = Objective(data, engine, moment_targets(data)).loss(theta)
    exact = Objective.supervised(data, engine).loss(theta)
    assert loss.value == pytest.approx(exact.value, rel=1e-6)
    np.testing.assert_allclose(loss.gradient, exact.gradient, rtol=1e-6, atol=2e-5)


def test_gradient_is_that_of_the_loss(seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (6, 3, 4)).astype(float)
    z[rng.random(z.shape) < 0.2] = NAN
    data = make_examples(ls.grid_cuts((3, 4)), observed=z, channel=ls.Flips(0.2), scale=True)
    objective = Objective(data, FixedNoise(3, seed=2), moment_targets(data))
    theta = data.layout.project(rng.normal(size=data.layout.size)) + 0.1
    step = 1e-6 * rng.normal(size=data.layout.size)
    ends = [objective.loss(theta + sign * step).value for sign in (-1, 1)]
    slope = objective.loss(theta).gradient @ step
    assert ends[1] - ends[0] == pytest.approx(2 * slope, rel=1e-5, abs=1e-12)


# -------------------------------------------------------------------------------- many and large


def test_blocks_and_what_is_kept_change_nothing(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (7, 4, 5)).astype(float)
    z[rng.random(z.shape) < 0.2] = NAN
    data = make_examples(ls.grid_cuts((4, 5)), observed=z, channel=ls.Flips(0.2), context=1)
    group, rows = next(data.parts())
    kept = moment_targets(data)
    monkeypatch.setattr(module, "_KEPT", 0)
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 45)
    blocks = moment_targets(data)
    assert kept.kept[0] is not None and blocks.kept[0] is None
    np.testing.assert_allclose(kept.shift(group), blocks.shift(group), atol=1e-12)
    assert np.abs(kept.shift(group)).max() > 0.01
    for a, b in zip(kept(group, rows[2:5])[:3], blocks(group, rows[2:5])[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_shapes_may_differ(seed):
    x = [
        ls.make_silhouettes(1, shape=shape, seed=seed)[0]
        for shape in ((16, 18), (20, 17), (16, 18))
    ]
    channel = ls.Flips(1e-9)
    data = make_examples(ls.grid_cuts, observed=x, channel=channel, modular="shared")
    targets = moment_targets(data)
    for group, rows in data.parts():
        found = targets(group, rows).stats
        for row, i in enumerate(group.index):
            exact = [cut(x[i].ravel()) for cut in group.prepared.functions]
            np.testing.assert_allclose(found[row], exact, atol=1e-6)


# ------------------------------------------------------- moments that are those of no distribution


def outside():
    """Return data whose estimate of a pixel is above 1, and of the cut below 0."""
    z = np.ones((4, 1, 6))
    return make_examples(ls.grid_cuts((1, 6))[:1], observed=z, channel=ls.Flips(0.3), scale=True)


def test_without_a_penalty_the_loss_has_no_minimum_and_is_refused():
    data = outside()
    targets = moment_targets(data)
    assert targets.pixels[0].max() > 1 and targets.stats[0].mean() < 0
    objective = Objective(data, FixedNoise(4, seed=0), targets)
    far = [objective.loss(data.layout.fill(modular=t)).value for t in (1e2, 1e3, 1e4)]
    assert far[0] < 0 and far[2] < 50 * far[0] and far[1] < 5 * far[0]
    lengths = []
    for steps in (20, 320):
        with pytest.warns(ls.ConvergenceWarning):
            fit = descend(objective, Penalty.of(data.layout), tol=0.0, max_iter=steps)
        lengths.append(np.linalg.norm(fit.theta))
    assert lengths[1] > 3 * lengths[0]  # descent goes on and on, by steps of 1 / sqrt(h)
    for name in ("alpha", "modular", "scale"):
        given = {"alpha": 0.1, "modular": 0.1, "scale": 0.1, name: 0.0}
        with pytest.raises(ValueError, match=f"needs a penalty of {name} above 0"):
            check_penalty(targets, Penalty.of(data.layout, **given))
    check_penalty(targets, Penalty.of(data.layout, alpha=0.1, modular=0.1, scale=0.1))


def test_shared_terms_inside_the_polytope_need_no_penalty(seed):
    x = ls.make_silhouettes(10, shape=(16, 16), seed=seed)
    z = ls.Flips(0.05).sample(x, seed)
    f = ls.grid_cuts((16, 16))
    for modular in ("shared", "none"):
        data = make_examples(f, observed=z, channel=ls.Flips(0.05), modular=modular)
        assert moment_targets(data).inside
        check_penalty(moment_targets(data), Penalty.of(data.layout))
    # a rate that is too large makes the estimated cuts negative
    wrong = make_examples(f, observed=z, channel=ls.Flips(0.3), modular="shared")
    assert not moment_targets(wrong).inside


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"functions": [ls.ConcaveCardinality([0, 1, 1.5, 1.7])]},
            ls.NotApplicable,
            "sums of cuts",
        ),
        ({"channel": ls.Flips(0.5)}, ValueError, "say nothing about x"),
        ({"channel": ls.Flips(0.0)}, ValueError, r"no doubt about observed\[0\]\[0\]: .* above 0"),
        (
            {"channel": ls.AsymmetricFlips(0.1, 0.0)},
            ValueError,
            r"no doubt about observed\[0\]\[1\]",
        ),
        # a one was not observed, but would leave no doubt
        (
            {"channel": ls.AsymmetricFlips([0.1, 0.0, 0.1], 0.1), "observed": [[1, 0, 1]]},
            ValueError,
            r"can leave no doubt about pixel\[1\]; moments needs noise",
        ),
        ({"observed": [[NAN] * 3]}, ValueError, "nothing but missing entries"),
        ({"observed": [[1, NAN, 0]]}, ValueError, r"functions\[0\] has no edge with both ends"),
    ],
)
def test_refusals(settings, error, message):
    given = {
        "functions": [ls.Cut(3, [(0, 1), (1, 2)])],
        "observed": [[1, 0, 1]],
        "channel": ls.Flips(0.1),
        **settings,
    }
    with pytest.raises(error, match=message):
        moment_targets(make_examples(**given))


def test_labels_alone_are_refused():
    data = make_examples([ls.Cut(2, [(0, 1)])], labels=[[0, 1]])
    with pytest.raises(ValueError, match="give observed and its channel"):
        moment_targets(data)


# ------------------------------------------------------------------------------------ the learner


def silhouettes(seed, rate=0.1, count=60, **settings):
    """Return clean images, and examples with noisy ones alone."""
    x = ls.make_silhouettes(count, shape=(20, 20), seed=seed)
    z = ls.Flips(rate).sample(x, seed + 100)
    settings = {"channel": ls.Flips(rate), "scale": True, **settings}
    return x, make_examples(ls.grid_cuts((20, 20)), observed=z, **settings)


def small(layout, modular=0.5):
    return Penalty.of(layout, alpha=1e-4, modular=modular, scale=1e-4, beta=1e-4)


@long
def test_learns_without_labels_what_labels_teach(seed):
    x, data = silhouettes(seed, modular="shared")
    z = next(data.parts())[0].observed.reshape(x.shape)
    labelled = make_examples(
        ls.grid_cuts((20, 20)),
        labels=x,
        observed=z,
        channel=ls.Flips(0.1),
        modular="shared",
        scale=True,
    )
    found = moments(data, small(data.layout), tol=1e-3)
    exact = logistic(labelled, small(data.layout), tol=1e-3)
    assert found.converged
    np.testing.assert_allclose(found.parameters.alpha, exact.parameters.alpha, rtol=0.25)
    errors = [
        np.mean((means(labelled, fit.theta, method="logistic") > 0.5) != x)
        for fit in (found, exact)
    ]
    assert errors[0] < errors[1] + 0.003
    assert errors[0] < 0.5 * np.mean(z != x)


def test_parameters_are_recovered_from_noisy_samples(seed):
    # exact samples of a chain, where enumeration learns, and noise on top
    f = ls.Cut(6, [(i, i + 1) for i in range(5)])
    model = ls.LogSupermodular(1.5 * f - ls.Modular(np.full(6, 0.4)))
    x = model.sample(4000, seed=seed)
    channel = ls.AsymmetricFlips(on=0.05, off=0.15)
    data = make_examples(
        [f], observed=channel.sample(x, seed + 1), channel=channel, modular="shared"
    )
    # conditional on the noisy x, where the likelihood has the same parameters
    objective = Objective(data, Sums("enumeration"), moment_targets(data))
    fit = minimize(objective, Penalty.of(data.layout), start=data.layout.fill(alpha=0.5))
    assert fit.parameters.alpha[0] == pytest.approx(1.5, abs=0.3)
    assert fit.parameters.modular[0] == pytest.approx(0.4, abs=0.15)


def test_outside_of_the_polytope_a_penalty_keeps_the_fit_finite():
    data = outside()
    with pytest.raises(ValueError, match="needs a penalty of alpha above 0"):
        moments(data, Penalty.of(data.layout, modular=0.1))
    penalty = Penalty.of(data.layout, alpha=5.0, modular=1.0, scale=1.0)
    with pytest.warns(ls.ConvergenceWarning, match="those of no distribution"):
        fit = moments(data, penalty, tol=1e-3, relax=0.0)
    assert not fit.converged and np.abs(fit.theta).max() < 10
    # the optimum is where the penalty balances what no model can match
    objective = Objective(data, Sums("enumeration"), moment_targets(data))
    optimum = minimize(objective, penalty)
    assert optimum.converged and np.abs(optimum.theta).max() < 10
    # and goes away with the penalty
    tiny = dataclasses.replace(penalty, weights=1e-4 * penalty.weights)
    far = minimize(objective, tiny, max_iter=2000)
    assert np.abs(far.theta).max() > 1000 * np.abs(optimum.theta).max()


def test_exact_likelihood_of_a_chain_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    z = np.sort(rng.integers(0, 2, (30, 8)), axis=1)
    data = make_examples(
        ls.grid_cuts((8,)), observed=z, channel=ls.Flips(0.1), modular="shared", scale=True
    )
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01, scale=0.01)
    # sorted pixels are smoother than flips leave any; the penalty alone keeps the fit finite
    with pytest.warns(ls.ConvergenceWarning, match="those of no distribution"):
        found = moments(data, penalty, method="exact", tol=1e-6, relax=0.0)
    exact = minimize(Objective(data, Sums("enumeration"), moment_targets(data)), penalty, tol=1e-6)
    assert exact.converged
    np.testing.assert_allclose(found.theta, exact.theta, atol=1e-4)


@long
def test_exact_likelihood_of_images(seed):
    x, data = silhouettes(seed, count=8, modular="shared")
    found = moments(data, small(data.layout), method="exact", tol=1e-2)
    assert found.converged and (found.parameters.alpha > 0.5).all()
    wrong = np.mean((means(data, found.theta, method="logistic") > 0.5) != x)
    assert wrong < 0.05


def test_same_seed_same_result_whatever_the_threads(tmp_path):
    _, data = silhouettes(0, count=8)
    given = {"tol": 0.0, "max_iter": 30, "seed": 3}
    fits = []
    for more in ({}, {"n_jobs": 2}, {"checkpoint": tmp_path / "state.npz"}):
        with pytest.warns(ls.ConvergenceWarning):
            fits.append(moments(data, small(data.layout), **given, **more))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.theta, fits[0].theta)


@long
def test_context_and_missing_entries_work_together(seed):
    x, _ = silhouettes(seed)
    channel = ls.Missing(0.2, ls.Flips(0.1))
    z = channel.sample(x, seed)
    data = make_examples(ls.grid_cuts((20, 20)), observed=z, channel=channel, scale=True, context=1)
    fit = moments(data, small(data.layout), tol=1e-2)
    wrong = np.mean((means(data, fit.theta, method="logistic") > 0.5) != x)
    assert wrong < 0.08  # a fifth of the pixels was lost


def test_arguments_are_checked(tmp_path):
    _, data = silhouettes(0, count=2)
    with pytest.raises(ValueError, match="method must be one of"):
        moments(data, small(data.layout), method="bethe")
    with pytest.raises(ValueError, match="checkpoint is for method='logistic'"):
        moments(data, small(data.layout), method="exact", checkpoint=tmp_path / "state.npz")
    with pytest.raises(ValueError, match="checkpoint needs a seed"):
        moments(data, small(data.layout), seed=None, checkpoint=tmp_path / "state.npz")


@long
@pytest.mark.filterwarnings("ignore:descent")
def test_an_impossible_objective_is_not_called_converged():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(20, shape=(32, 32), seed=0), seed=1)
    data = make_examples(
        ls.grid_cuts((32, 32)), observed=z, channel=ls.Flips(0.13), modular="shared", scale=True
    )
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=1e-3, scale=1e-3)
    with pytest.warns(ls.ConvergenceWarning, match="those of no distribution"):
        found = moments(data, penalty, tol=1e-2, max_iter=2000, relax=0.0)
    assert not found.converged and found.history[-1].objective < 0
