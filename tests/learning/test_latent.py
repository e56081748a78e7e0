"""Learning from observations alone: both methods, what they need, and what they refuse."""

import numpy as np
import pytest
from latent_oracles import brute_log_evidence, random_data

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import Penalty, logistic, make_examples
from logsuper.learning._decoding import means
from logsuper.learning._latent import latent

METHODS = ("em", "subgradient")
# few cuts, for they are slow where the kernels are missing
FEW = {"n_samples": 2, "n_prior_samples": 40}


def silhouettes(seed, count=20, rate=0.1, modular="pixel", start=None):
    x = ls.make_silhouettes(count, shape=(16, 16), seed=seed)
    z = ls.Flips(rate).sample(x, seed=100 + seed)
    channel = ls.Flips(rate if start is None else start)
    return x, make_examples(ls.grid_cuts((16, 16)), observed=z, channel=channel, modular=modular)


@pytest.mark.parametrize("method", METHODS)
def test_denoises_without_having_seen_a_clean_image(method, seed):
    """It removes most of the noise that a learner with the clean images removes from the same."""
    x, data = silhouettes(seed)
    penalty = Penalty.of(data.layout, modular=0.3)
    found = latent(data, penalty, method=method, tol=1e-3, seed=seed, **FEW)
    assert found.converged and found.channel is data.channel
    noisy = ls.Flips(0.1).sample(x, seed=100 + seed)
    shown = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=noisy, channel=data.channel)
    best = logistic(shown, Penalty.of(shown.layout, modular=0.3), seed=seed)

    def removed(examples, theta):
        clean = means(examples, theta, method="logistic", n_samples=1000) > 0.5
        return np.mean(noisy != x) - np.mean(clean != x)

    assert removed(data, found.theta) > 0.6 * removed(shown, best.theta)
    last = found.history[-1]
    assert last.objective < found.history[0].objective and last.cuts > 0


def test_both_methods_reach_the_same_objective(seed):
    _, data = silhouettes(seed, modular="shared")
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01)
    options = {"n_samples": 5, "n_prior_samples": 200, "seed": seed}
    em = latent(data, penalty, **options)
    steps = latent(data, penalty, method="subgradient", tol=1e-5, **options)
    # both histories are of the same perturbations
    first = abs(em.history[0].objective - steps.history[0].objective)
    assert first <= 1e-9 * em.history[0].objective
    assert steps.history[-1].objective == pytest.approx(em.history[-1].objective, rel=2e-3)
    np.testing.assert_allclose(steps.parameters.alpha, em.parameters.alpha, rtol=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_noise_that_is_learned_improves_the_objective(method, seed):
    _, data = silhouettes(seed, start=0.3)
    penalty = Penalty.of(data.layout, modular=0.3)
    # the objective favours ever less noise, slowly: the tolerance says when to stop
    options = {"method": method, "tol": 1e-2, "seed": seed, **FEW}
    fixed, learned = (latent(data, penalty, noise=n, **options) for n in ("fixed", "learned"))
    assert learned.history[-1].objective < fixed.history[-1].objective - 1.0
    assert 0.0 < float(learned.channel.rate) < 0.2
    assert float(fixed.channel.rate) == 0.3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", ["fixed", "learned"])
def test_same_seed_same_result(method, noise):
    _, data = silhouettes(0, count=6, start=0.2)
    penalty = Penalty.of(data.layout, modular=0.3)
    options = {"method": method, "noise": noise, "tol": 1e-2, **FEW}
    runs = [latent(data, penalty, n_jobs=n_jobs, **options) for n_jobs in (1, 2, 1)]
    for other in runs[1:]:
        np.testing.assert_array_equal(other.theta, runs[0].theta)
        assert other.history == runs[0].history
        assert float(other.channel.rate) == float(runs[0].channel.rate)
    assert (latent(data, penalty, seed=1, **options).theta != runs[0].theta).any()


@pytest.mark.parametrize("method", METHODS)
def test_images_of_different_shapes_and_missing_pixels(method, seed):
    rng = np.random.default_rng(seed)
    shapes = [(16, 16), (20, 16), (16, 16)]
    images = [ls.make_silhouettes(1, shape=s, seed=seed + k)[0] for k, s in enumerate(shapes)]
    z = [ls.Missing(0.2, ls.Flips(0.1)).sample(x, rng) for x in images]
    data = make_examples(
        ls.grid_cuts, observed=z, channel=ls.Missing(0.2, ls.Flips(0.2)), modular="shared"
    )
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    found = latent(data, penalty, method=method, noise="learned", tol=1e-2, **FEW)
    assert found.history[-1].objective < found.history[0].objective
    assert isinstance(found.channel, ls.Missing)
    assert float(found.channel.channel.rate) < 0.2


def test_priors_that_differ_are_each_evaluated(seed):
    """An image's factors on edges enter its prior: weights of 0 decouple its pixels."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (4, 2, 3))
    factors = np.ones((4, 7))
    factors[1] = 0.0
    data = make_examples(
        ls.grid_cuts((2, 3)), observed=z, channel=ls.Flips(0.2), edge_weights=factors
    )
    theta = np.concatenate([[0.9, 1.1], rng.normal(size=6)])
    with pytest.warns(ConvergenceWarning):
        found = latent(data, Penalty.of(data.layout), engine="exact", start=theta, max_iter=0)
    plain = make_examples(ls.grid_cuts((2, 3)), observed=z, channel=ls.Flips(0.2))
    values = brute_log_evidence(plain, theta)
    values[1] = brute_log_evidence(plain, np.concatenate([[0.0, 0.0], theta[2:]]))[1]
    assert found.history[0].objective == pytest.approx(-values.mean(), abs=1e-10)


def test_stopping_early_warns_and_says_so():
    data = random_data(np.random.default_rng(0), ls.Flips(0.2))
    penalty = Penalty.of(data.layout, modular=0.1)
    for method in METHODS:
        lines = []
        with pytest.warns(ConvergenceWarning, match="latent stopped after 1 iterations"):
            found = latent(
                data, penalty, method=method, max_iter=1, tol=1e-12, callback=lines.append
            )
        assert not found.converged and found.history == tuple(lines) and len(lines) == 2


# --------------------------------------------------------------------------------------- refusals


def observed(channel, **options):
    z = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    return make_examples([ls.Cut(3, [(0, 1), (1, 2)])], observed=z, channel=channel, **options)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: observed(ls.Flips(0.1)), {"method": "newton"}, "method must be one of em, sub"),
        (
            lambda: observed(ls.Flips(0.1)),
            {"noise": "known"},
            "noise must be one of fixed, learned",
        ),
        (lambda: observed(ls.Flips(0.1)), {"engine": "bethe"}, "engine must be one of logistic"),
        (
            lambda: observed(ls.Flips(0.1)),
            {"engine": "exact", "method": "subgradient"},
            "has engine='logistic' only",
        ),
        (lambda: observed(ls.Flips(0.1)), {"tol": 0.0}, "tol = 0 must be positive"),
        (lambda: observed(ls.Flips(0.1)), {"start": [0.0]}, r"start must have shape \(4,\)"),
        (lambda: observed(ls.Flips(0.1)), {"n_samples": 0}, "n_samples"),
        (lambda: observed(ls.Flips(0.1), scale=True), {}, "scale=True learns a factor"),
        (
            lambda: observed(ls.Flips(0.1), labels=[[0, 1, 1], [1, 1, 0]]),
            {},
            "latent learns from observations alone",
        ),
        (
            lambda: make_examples([ls.Cut(3, [(0, 1)])], labels=[[0, 1, 1]]),
            {},
            "observed is missing",
        ),
        (lambda: observed(ls.Flips([0.1, 0.0, 0.1])), {}, r"no doubt about observed\[0\]"),
        (lambda: observed(ls.Missing(0.1)), {}, "leaves no doubt"),
        (lambda: observed(ls.Flips(0.5)), {"noise": "learned"}, "rates below one half"),
        (lambda: observed(ls.Flips(0.7)), {"noise": "learned"}, "rates below one half"),
        (
            lambda: observed(ls.AsymmetricFlips(0.6, 0.5)),
            {"noise": "learned"},
            "cannot be the start of learning the noise",
        ),
        (
            lambda: observed(ls.Missing(0.2, ls.Gaussian((1.0, 1.0)))),
            {"noise": "learned"},
            "different means",
        ),
    ],
)
def test_refusals(make, options, message):
    data = make()
    with pytest.raises(ValueError, match=message):
        latent(data, Penalty.of(data.layout), **options)
