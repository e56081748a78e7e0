"""Expectation-maximisation: monotone, a maximum of the likelihood, and the truth it finds."""

import numpy as np
import pytest
from latent_oracles import CHANNELS, SHAPE, brute_log_evidence, random_data
from objective_oracles import estimates, long
from scipy.optimize import minimize

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.functions import ConcaveCardinality
from logsuper.learning import FixedNoise, Objective, Penalty, log_evidence, make_examples
from logsuper.learning._engines import Exact, Sums
from logsuper.learning._latent import Problem, expectation_maximization, latent

CASES = [("flips", "fixed"), *((name, "learned") for name in CHANNELS)]


def objectives(found):
    return np.array([record.objective for record in found.history])


def assert_monotone(found):
    values = objectives(found)
    assert len(values) > 3
    assert np.diff(values).max() <= 1e-9 * abs(values[0])
    assert values[-1] < values[0] - 0.01


@pytest.mark.filterwarnings("ignore:latent stopped")
@pytest.mark.parametrize(("name", "noise"), CASES)
def test_monotone_with_fixed_perturbations(name, noise, seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng, CHANNELS[name], count=8)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    found = latent(
        data, penalty, noise=noise, n_samples=3, n_prior_samples=20, tol=1e-12, max_iter=12
    )
    assert_monotone(found)


@pytest.mark.filterwarnings("ignore:latent stopped")
@pytest.mark.parametrize("method", ["silhouettes", "shapes", "cardinality", "features"])
def test_monotone_on_other_problems(method, seed):
    rng = np.random.default_rng(seed)
    options = {"n_samples": 2, "n_prior_samples": 20, "tol": 1e-12, "max_iter": 6}
    channel = ls.Flips(0.2)
    if method == "shapes":
        z = [rng.integers(0, 2, shape) for shape in ((4, 5), (3, 3), (4, 5))]
        data = make_examples(ls.grid_cuts, observed=z, channel=channel, modular="shared")
    elif method == "cardinality":
        f = [ConcaveCardinality(np.sqrt(np.arange(9.0)))]
        z = rng.integers(0, 2, (10, 8))
        data = make_examples(f, observed=z, channel=channel, modular="shared")
    else:
        x = ls.make_silhouettes(5, shape=(16, 16), seed=seed)
        z = channel.sample(x, rng)
        phi = rng.normal(size=(5, 16, 16, 2)) if method == "features" else None
        data = make_examples(ls.grid_cuts((16, 16)), observed=z, channel=channel, features=phi)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01, beta=0.01)
    assert_monotone(latent(data, penalty, noise="learned", **options))


@pytest.mark.filterwarnings("ignore:latent stopped")
@pytest.mark.parametrize(("name", "noise"), CASES)
def test_exact_em_increases_the_true_likelihood(name, noise, seed):
    rng = np.random.default_rng(seed)
    data = random_data(rng, CHANNELS[name], count=8)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    ends = []
    for most in (0, 1, 3, 10):
        found = latent(data, penalty, noise=noise, engine="exact", tol=1e-12, max_iter=most)
        truth = -brute_log_evidence(data, found.theta, found.channel).mean()
        truth += penalty.value(found.theta)
        assert found.history[-1].objective == pytest.approx(truth, abs=1e-10)
        ends.append(truth)
    assert (np.diff(ends) < -1e-6).all()


def test_exact_em_ends_where_direct_maximisation_does(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (60, 1, 1)) * np.ones((1, *SHAPE))
    data = make_examples(
        ls.grid_cuts(SHAPE),
        observed=ls.Flips(0.15).sample(x, rng),
        channel=ls.Flips(0.3),
        modular="shared",
    )
    penalty = Penalty.of(data.layout, alpha=0.3, modular=0.3)

    def objective(v):
        channel = ls.Flips(1 / (1 + np.exp(-v[-1])))
        return penalty.value(v[:-1]) - brute_log_evidence(data, v[:-1], channel).mean()

    found = latent(data, penalty, noise="learned", engine="exact", tol=1e-6)
    assert found.converged
    bounds = [(0, None), (0, None), (None, None), (-13.8, -0.004)]
    best = minimize(objective, [1.0, 1.0, 0.0, -1.0], bounds=bounds)
    assert found.history[-1].objective == pytest.approx(best.fun, abs=5e-4)


# ---------------------------------------------------------------------------------- larger images


@long
def test_exact_em_equals_em_by_elimination_on_larger_grids():
    f = ls.grid_cuts((8, 8))
    x = ls.LogSupermodular(0.8 * f[0] + 0.8 * f[1]).sample(20, "cftp", seed=0).reshape(-1, 8, 8)
    data = make_examples(f, observed=ls.Flips(0.1).sample(x, seed=1), channel=ls.Flips(0.1))
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    start = data.layout.fill(alpha=0.5)
    found = latent(data, penalty, engine="exact", start=start, tol=1e-4)
    problem = Problem(penalty, start, data.channel, False, None, tol=1e-4, max_iter=200)
    exactly = Objective(data, Sums("elimination"), latent=True)
    best = expectation_maximization(exactly, problem, steps=5)
    assert found.converged and best.converged
    np.testing.assert_allclose(found.theta, best.theta, atol=1e-5)
    np.testing.assert_allclose(objectives(found), objectives(best), rtol=1e-9)
    assert found.details["width"] == pytest.approx(0.0, abs=1e-9)


@long
@pytest.mark.filterwarnings("ignore:latent stopped")
def test_a_prior_that_all_images_share_is_summed_whole():
    """Where images have their own, it has the windows of the posteriors, and is nats away."""
    x = ls.make_silhouettes(3, shape=(16, 16), seed=0)[:, 1:15, 1:15]
    options = {"observed": ls.Flips(0.1).sample(x, seed=1), "channel": ls.Flips(0.1)}
    f, theta = ls.grid_cuts((14, 14)), np.array([0.9, 0.9, 0.0])
    fit = {"engine": "exact", "start": theta, "max_iter": 0}
    shared = make_examples(f, modular="shared", **options)
    found = latent(shared, Penalty.of(shared.layout), **fit)
    truth = -log_evidence(shared, theta, Sums("elimination")).mean()
    assert found.details["width"] < 1e-2
    assert 0.0 <= found.history[0].objective - truth <= found.details["width"]
    own = make_examples(f, modular="shared", edge_weights=np.ones((3, 364)), **options)
    with pytest.warns(ConvergenceWarning, match="nats per image only"):
        found = latent(own, Penalty.of(own.layout), **fit)
    assert found.details["width"] > 1.0
    assert 0.0 <= found.history[0].objective - truth <= found.details["width"]


def narrow():
    """Return a problem on which EM with windows of two columns makes the objective worse."""
    x = ls.make_silhouettes(8, shape=(16, 16), seed=0)
    z = ls.AsymmetricFlips(0.05, 0.15).sample(x, seed=2)
    start = ls.AsymmetricFlips(0.2, 0.3)
    data = make_examples(ls.grid_cuts((16, 16)), observed=z, channel=start, modular="shared")
    return data, Penalty.of(data.layout, alpha=0.01, modular=0.1)


@long
def test_an_iteration_that_makes_it_worse_is_not_taken():
    data, penalty = narrow()
    evidence, lines = Objective(data, Exact(2), latent=True, posterior=Exact(2)), []
    start = data.layout.fill(alpha=0.5)
    problem = Problem(penalty, start, data.channel, True, lines.append, tol=1e-6, max_iter=60)
    found = expectation_maximization(evidence, problem, steps=5)
    assert not found.converged
    assert found.details["rise"] > 0.01
    assert_monotone(found)
    lines = estimates(lines)
    assert found.history == tuple(lines)
    free, held = evidence.free(found.theta), evidence.held(found.theta, found.channel)
    value = free.value - held.value + penalty.value(found.theta)
    assert found.history[-1].objective == pytest.approx(value, rel=1e-12)


@long
def test_references_that_stay_go_on_where_those_that_follow_make_it_worse(monkeypatch):
    data, penalty = narrow()
    lines = []
    options = {"engine": "exact", "noise": "learned", "window": 2, "tol": 1e-4}
    with pytest.warns(ConvergenceWarning, match="nats per image only.*raise window"):
        found = latent(data, penalty, callback=lines.append, **options)
    assert found.converged and "rise" not in found.details
    assert found.details["width"] > 0.1
    assert_monotone(found)
    lines = estimates(lines)
    assert found.history == tuple(lines)
    assert [record.step for record in lines] == list(range(len(lines)))
    # without, the fit ends at the best it had, and says why
    monkeypatch.setattr("logsuper.learning._latent.keep_references", lambda objective: objective)
    with pytest.warns(ConvergenceWarning) as caught:
        worse = latent(data, penalty, **options)
    stopped, wide = (str(warning.message) for warning in caught)
    assert "at the best parameters: the next would have raised" in stopped
    assert "nats per image only" in wide
    assert not worse.converged
    assert_monotone(worse)
    assert found.history[-1].objective < worse.history[-1].objective


def test_refuses_a_start_that_is_not_finite():
    class Broken(Sums):
        def evaluate(self, *args):
            part = super().evaluate(*args)
            return part._replace(values=part.values * np.nan)

    data = random_data(np.random.default_rng(0), ls.Flips(0.2))
    with pytest.raises(ValueError, match="objective is nan at the start; start from smaller"):
        expectation_maximization(
            Objective(data, Sums("enumeration"), latent=True, posterior=Broken("enumeration")),
            Problem(
                Penalty.of(data.layout),
                data.layout.fill(alpha=0.5),
                data.channel,
                learn_channel=False,
                callback=None,
                tol=1e-5,
                max_iter=5,
            ),
            steps=5,
        )


def test_the_objective_is_that_of_the_paper_with_its_constant(seed):
    """The history starts at A(f) - A(f - l) - sum log p(z | 0) with the same perturbations."""
    rng = np.random.default_rng(seed)
    data = random_data(rng, ls.Flips(0.2), count=4)
    theta = np.concatenate([[0.7, 0.3], rng.normal(size=6)])
    penalty = Penalty.of(data.layout, modular=0.3)
    with pytest.warns(UserWarning, match="latent stopped after 0 iterations"):
        found = latent(
            data,
            penalty,
            n_samples=2000,
            n_prior_samples=8000,
            start=theta,
            max_iter=0,
            seed=seed,
        )
    loss = Objective(data, FixedNoise(4000, seed), latent=True).loss(theta)
    (group,) = data.groups
    z = group.read_observed(np.arange(4)).reshape(4, *SHAPE)
    constant = ls.Flips(0.2).log_likelihoods(z)[0].sum() / 4
    expected = loss.value - constant + penalty.value(theta)
    assert found.history[0].objective == pytest.approx(expected, abs=6 * loss.stderr)


# ---------------------------------------------------------------------------------------- recovery


def known(seed, channel, count=1000):
    """Return observations of exact samples of a grid model."""
    f = 1.2 * ls.grid_cuts((3, 3))[0] + 0.8 * ls.grid_cuts((3, 3))[1] - ls.Modular([0.2] * 9)
    x = ls.LogSupermodular(f).sample(count, seed=seed).reshape(count, 3, 3)
    z = channel.sample(x, seed=1000 + seed)
    return z, np.array([1.2, 0.8, 0.2])


def test_parameters_and_noise_are_recovered(seed):
    z, truth = known(seed, ls.Flips(0.15))
    data = make_examples(ls.grid_cuts((3, 3)), observed=z, channel=ls.Flips(0.3), modular="shared")
    found = latent(
        data, Penalty.of(data.layout), noise="learned", engine="exact", tol=1e-6, max_iter=500
    )
    assert found.converged
    # standard deviations over six seeds of 1500 images: .04, .04 and .009, and .008 of the rate
    assert (np.abs(found.theta - truth) < 6 * np.array([0.04, 0.04, 0.009])).all()
    assert float(found.channel.rate) == pytest.approx(0.15, abs=0.04)


def test_parameters_are_recovered_under_known_noise(seed):
    z, truth = known(seed, ls.Flips(0.15))
    data = make_examples(ls.grid_cuts((3, 3)), observed=z, channel=ls.Flips(0.15), modular="shared")
    found = latent(data, Penalty.of(data.layout), engine="exact", tol=1e-6, max_iter=500)
    # standard deviations over six seeds of 1500 images: .046, .04 and .008
    assert (np.abs(found.theta - truth) < 6 * np.array([0.046, 0.04, 0.008])).all()


def test_grey_levels_are_recovered(seed):
    truth = ls.Gaussian((1.0, 3.0), (0.8, 1.2))
    z, theta = known(seed, truth, 500)
    data = make_examples(
        ls.grid_cuts((3, 3)),
        observed=z,
        channel=ls.Gaussian((0.0, 4.0), (2.0, 2.0)),
        modular="shared",
    )
    found = latent(
        data, Penalty.of(data.layout), noise="learned", engine="exact", tol=1e-6, max_iter=500
    )
    # standard deviations over six seeds of 800 images: .02 and .04, .013, and .07, .03 and .02
    np.testing.assert_allclose(found.channel.mean, truth.mean, atol=0.2)
    np.testing.assert_allclose(found.channel.scale, truth.scale, atol=0.07)
    np.testing.assert_allclose(found.theta, theta, atol=0.35)
