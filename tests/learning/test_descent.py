"""Stochastic subgradient descent: the printed algorithm, optima, recovery, convergence."""

import dataclasses

import numpy as np
import oracles
import pytest
from objective_oracles import Exact, estimates, kinds, long, quiet, same, silhouettes
from scipy.special import logit

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import (
    FixedNoise,
    FreshNoise,
    Objective,
    Penalty,
    Record,
    _stochastic,
    make_examples,
)
from logsuper.learning import _descent as descent_module
from logsuper.learning import _smooth as smooth
from logsuper.learning._descent import descend, logistic
from logsuper.learning._stochastic import RULES, Descent, converged, make_steps, units

SHAPE = (6, 7)

# ---------------------------------------------------------------------------------- the algorithm


def test_printed_algorithm(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (5, *SHAPE))
    functions = ls.grid_cuts(SHAPE)
    data = make_examples(functions, labels=x)
    objective = Objective.supervised(data, FixedNoise(1, seed=seed))
    found = quiet(
        descend, objective, Penalty.of(data.layout, 0.1, 0.2), steps="printed", max_iter=30
    )
    # section 4.2, with the perturbation that the engine holds fixed
    z = FixedNoise(1, seed=seed).draw(data.groups[0], np.array([0]))[0, 0]
    flat, alpha, t = x.reshape(5, -1), np.zeros(2), np.zeros(42)
    for h in range(1, 31):
        y, _ = ls.maximize(alpha[0] * functions[0] + alpha[1] * functions[1], z + t)
        f = np.array([g(flat).mean() - g(y) for g in functions])
        alpha, t = (
            np.maximum(alpha - 5 / 42 / np.sqrt(h) * (f + 0.1 * alpha), 0.0),
            t - 5 / 42 / np.sqrt(h) * (y - flat.mean(axis=0) + 0.2 * t),
        )
    np.testing.assert_allclose(found.parameters.alpha, alpha, atol=1e-12)
    np.testing.assert_allclose(found.parameters.modular, t, atol=1e-12)


def test_adaptive_rule_and_average(seed):
    data = silhouettes()
    objective = Objective.supervised(data, FreshNoise(2, seed=seed))
    penalty = Penalty.of(data.layout, modular=0.1)
    descent = Descent(
        objective, penalty, objective, make_steps("adaptive", data, 0.7), 4, seed=seed
    )
    state = descent.init(data.layout.fill(alpha=0.5))
    iterates, gradients = [state.theta], []
    for h in range(1, 8):
        state = descent.update(state)
        assert state.step == h and state.cuts == 8 * h
        moved = iterates[-1] - state.theta
        iterates.append(state.theta)
        gradients.append(moved)
    weights = np.arange(1, 8)
    np.testing.assert_allclose(state.average, weights @ iterates[1:] / weights.sum(), atol=1e-12)
    # the first step is a whole unit wherever there is a gradient and no bound
    inner = (iterates[1] > data.layout.lower) & (gradients[0] != 0)
    np.testing.assert_allclose(np.abs(gradients[0])[inner], 0.7 * units(data)[inner], atol=1e-12)
    assert (state.theta[:2] >= 0).all()


def test_adaptive_rule_forgets_large_gradients():
    """After h steps, step k has the weight k (k+1) (k+2) (k+3), about k^4, in the mean square."""
    steps = make_steps("adaptive", silhouettes(2), 1.0)
    gradients = np.repeat([100.0, 1.0], [10, 90])[:, None] * np.ones(len(steps.scale))
    squares = np.zeros(len(steps.scale))
    for h, gradient in enumerate(gradients, 1):
        squares = steps.average(squares, gradient, h)
        k = np.arange(1.0, h + 1)
        weights = k * (k + 1) * (k + 2) * (k + 3)
        mean = weights @ gradients[:h] ** 2 / weights.sum()
        np.testing.assert_allclose(squares, mean, rtol=1e-12)
    # as long as if all gradients had been small, or nearly; with equal weights a thirtieth of it
    share = steps.length(gradient, squares, h) / (steps.scale / np.sqrt(h))
    assert (share > 0.9).all() and (share <= 1.0).all()


def test_every_pass_sees_every_example():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Spy(FreshNoise):
        def evaluate(self, batch, step=0):
            if step < 2**40:
                seen.extend(batch.group.index[batch.rows])
            return super().evaluate(batch, step)

    data = silhouettes()
    objective = Objective.supervised(data, Spy(1, seed=0))
    quiet(
        descend,
        objective,
        Penalty.of(data.layout),
        batch=7,
        max_iter=20,
        estimate=FreshNoise(1, 1),
    )
    passes = np.reshape(seen, (7, 20))
    assert (np.sort(passes, axis=1) == np.arange(20)).all()
    assert len({tuple(order) for order in passes}) == 7


@pytest.mark.parametrize("rule", RULES)
def test_functions_and_features_have_no_scale(rule):
    rng = np.random.default_rng(0)
    x, phi = rng.integers(0, 2, (6, *SHAPE)), rng.normal(size=(6, *SHAPE, 2))
    cuts = ls.grid_cuts(SHAPE)

    def learned(factor):
        data = make_examples(
            [factor * cut for cut in cuts], labels=x, features=factor * phi, modular="shared"
        )
        return quiet(logistic, data, Penalty.of(data.layout), steps=rule, max_iter=40).parameters

    plain, large = learned(1.0), learned(1024.0)
    same_unit = np.allclose(large.alpha * 1024.0, plain.alpha) and np.allclose(
        large.beta * 1024.0, plain.beta
    )
    assert same_unit == (rule == "adaptive")


def test_units_of_all_functions_are_positive(seed):
    rng = np.random.default_rng(seed)
    functions = [make(rng, 6) for make in oracles.FAMILIES.values()]
    functions.append(ls.Modular(np.zeros(6)))
    data = make_examples(functions, labels=np.zeros((1, 6)), modular="none")
    assert np.isfinite(units(data)).all() and (units(data) > 0).all()


# ------------------------------------------------------------------------------------- the optimum


def objective_at(data, penalty, theta, samples=50):
    exact = Objective.supervised(data, FreshNoise(samples, seed=99))
    return exact.loss(theta).value + penalty.value(theta)


@long
@pytest.mark.parametrize("rule", ["adaptive", "separate"])
def test_reaches_the_optimum(rule, seed):
    data = silhouettes(scale=True)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    many = quiet(logistic, data, penalty, tol=0.0, max_iter=300, seed=10)
    best = objective_at(data, penalty, many.theta)
    options = {"steps": rule, "batch": 5, "n_samples": 2, "max_iter": 400, "tol": 0.0}
    found = quiet(logistic, data, penalty, seed=seed, **options)
    assert objective_at(data, penalty, found.theta) <= best * 1.01


def test_reaches_the_optimum_of_an_exact_loss(seed):
    """Without noise of its own, descent must meet L-BFGS."""
    rng = np.random.default_rng(seed)
    x, z = rng.integers(0, 2, (2, 12, 2, 3))
    data = make_examples(
        ls.grid_cuts((2, 3)), labels=x, observed=z, channel=ls.Flips(0.3), modular="shared"
    )
    penalty = Penalty.of(data.layout, alpha=0.05, modular=0.05)
    objective = Objective.supervised(data, Exact())
    best = smooth.minimize(objective, penalty)
    found = descend(objective, penalty, tol=1e-6, seed=seed)
    assert found.converged
    value = objective.loss(found.theta).value + penalty.value(found.theta)
    least = objective.loss(best.theta).value + penalty.value(best.theta)
    assert least - 1e-9 <= value <= least * (1 + 1e-4)


@long
def test_without_coupling_the_fields_are_known(seed):
    """Labels that are independent: t is the logit of the means, alpha is 0."""
    rng = np.random.default_rng(seed)
    x = (rng.random((400, 6)) < np.linspace(0.2, 0.8, 6)).astype(int)
    data = make_examples([ls.Modular(np.zeros(6))], labels=x)
    found = quiet(logistic, data, Penalty.of(data.layout), tol=0.0, max_iter=500, seed=seed)
    np.testing.assert_allclose(found.parameters.modular, logit(x.mean(axis=0)), atol=0.15)


@long
def test_recovers_a_model_from_exact_samples():
    shape, channel = (12, 12), ls.Flips(0.1)
    cuts = ls.grid_cuts(shape)
    prior = ls.LogSupermodular(0.6 * cuts[0] + 1.2 * cuts[1] - ls.Modular(np.full(144, 0.05)))
    x = prior.sample(200, method="cftp", seed=0).reshape(-1, *shape)
    z = channel.sample(x, seed=1)
    data = make_examples(cuts, labels=x, observed=z, channel=channel, modular="shared", scale=True)
    found = logistic(data, Penalty.of(data.layout), tol=1e-4, seed=0).parameters
    # where observations say much, the logistic bound hardly biases what is learned
    np.testing.assert_allclose(found.alpha, [0.6, 1.2], rtol=0.25)
    assert found.modular[0] == pytest.approx(0.05, abs=0.1)
    assert found.scale == pytest.approx(1.0, abs=0.15)


@long
def test_two_pixels_meet_the_biased_optimum_of_the_bound(seed):
    """P(x_1 != x_2) = 2 sigma(-alpha)^2 under the bound, and the fit matches this moment."""
    x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    data = make_examples([ls.Cut(2, [(0, 1)])], labels=x, modular="none")
    options = {"n_samples": 50, "max_iter": 1500, "tol": 0.0}
    found = quiet(logistic, data, Penalty.of(data.layout), seed=seed, **options)
    assert found.parameters.alpha[0] == pytest.approx(-logit(np.sqrt(0.1)), abs=0.05)


# --------------------------------------------------------------------------- every kind of problem


@kinds
def test_every_objective_descends(kind):
    rng = np.random.default_rng(1)
    make, data = kind(rng)
    objective = make(data, FreshNoise(4, seed=1))
    penalty = Penalty.of(data.layout, 0.1, 0.1, 0.1, 0.1)
    start = data.layout.fill(alpha=2.0, modular=1.5, beta=1.0, scale=2.0)
    found = quiet(descend, objective, penalty, start=start, max_iter=150)
    assert (found.theta >= data.layout.lower).all()
    judge = make(data, FixedNoise(40, seed=7))

    def value(theta):
        return judge.loss(theta).value + penalty.value(theta)

    assert value(found.theta) < value(start)


# ------------------------------------------------------------------------- sameness and convergence


@long
@pytest.mark.parametrize("noise", ["fresh", "fixed"])
def test_same_seed_same_result(noise):
    data = silhouettes(scale=True)
    penalty = Penalty.of(data.layout, modular=0.1)

    def learned(**options):
        return quiet(logistic, data, penalty, noise=noise, max_iter=60, **options)

    first = learned(seed=3)
    same(first, learned(seed=3))
    same(first, learned(seed=3, n_jobs=2))
    same(first, learned(seed=np.random.default_rng(3)))
    assert not np.array_equal(first.theta, learned(seed=4).theta)


@long
def test_half_of_the_labels_tell_most():
    data = silhouettes()
    x = np.where(data.groups[0].labels == 1, 1.0, 0.0).reshape(-1, *SHAPE)
    x[np.random.default_rng(0).random(x.shape) < 0.5] = np.nan
    z = data.groups[0].observed.reshape(x.shape)
    half = make_examples(ls.grid_cuts(SHAPE), labels=x, observed=z, channel=ls.Flips(0.2))
    penalty = Penalty.of(data.layout, modular=0.1)
    best = logistic(data, penalty)
    found = logistic(half, penalty)
    start = objective_at(data, penalty, data.layout.fill(alpha=0.5))
    least, value = (objective_at(data, penalty, fit.theta) for fit in (best, found))
    assert least < value < least + 0.4 * (start - least)


@long
def test_history_and_callback():
    data = silhouettes()
    lines = []
    found = logistic(data, Penalty.of(data.layout, modular=0.1), callback=lines.append)
    lines = estimates(lines)
    assert found.converged and tuple(lines) == found.history
    assert [line.step for line in lines] == sorted({line.step for line in lines})
    assert lines[0].step == 0 and lines[-1].step == found.details["steps"]
    assert lines[-1].objective < lines[0].objective
    assert all(line.stderr > 0 for line in lines)
    # estimates cost a small share: 20 images, twice, each time
    assert 40 * len(lines) <= lines[-1].cuts / 8
    last = found.history[-1]
    value = objective_at(data, Penalty.of(data.layout, modular=0.1), found.theta)
    assert abs(last.objective - value) <= 5 * last.stderr


def test_short_runs_warn_and_still_say_what_they_found():
    data = silhouettes()
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        found = logistic(data, Penalty.of(data.layout, modular=0.1), max_iter=5)
    assert not found.converged
    assert found.history[-1].step == found.details["steps"] == 5


@pytest.mark.parametrize("given", [{"context": 1}, {"features": np.ones((4, *SHAPE, 1))}])
@pytest.mark.parametrize("most", [1, 7, 30, 31])
def test_features_take_no_more_steps_than_allowed(most, given):
    x = np.random.default_rng(0).integers(0, 2, (4, *SHAPE))
    data = make_examples(
        ls.grid_cuts(SHAPE), labels=x, observed=x, channel=ls.Flips(0.2), modular="shared", **given
    )
    found = quiet(logistic, data, Penalty.of(data.layout, beta=1.0), max_iter=most, tol=0.0)
    assert found.details["steps"] == found.history[-1].step == most
    assert found.history[0].step == (30 if most > 30 else 0)  # what L-BFGS counts for


def test_criterion_compares_with_half_the_steps():
    data = silhouettes(2)
    objective = Objective.supervised(data, FreshNoise(1, seed=0))
    steps = make_steps("adaptive", data, 1.0)
    state = Descent(objective, Penalty.of(data.layout), objective, steps, 1, 0).init(
        data.layout.fill()
    )

    def decided(*lines, step=None):
        history = tuple(ls.learning.Record(s, 0, value) for s, value in lines)
        now = lines[-1][0] if step is None else step
        return converged(dataclasses.replace(state, step=now, history=history), 1e-2)

    assert not decided((0, 100.0))
    assert not decided((0, 100.0), (10, 100.0))  # the start is not half of anything
    assert not decided((5, 100.0), (9, 100.0))
    assert decided((5, 100.0), (10, 100.0))
    assert not decided((5, 103.0), (10, 100.0))
    assert not decided((5, 98.0), (10, 100.0))
    assert not decided((5, 100.0), (10, 100.0), step=11)
    assert decided((5, 0.0), (10, 0.009))


@long
def test_many_examples_are_judged_by_others_than_the_start_has_fitted(monkeypatch, seed):
    # as with thousands of images: the start, and the estimates, look at a few of them only
    monkeypatch.setattr(descent_module, "_WARM_PIXELS", 5 * 42)
    monkeypatch.setattr(_stochastic, "_EXAMPLES", 6)
    rng = np.random.default_rng(seed)
    data = make_examples(
        ls.grid_cuts(SHAPE), labels=rng.integers(0, 2, (20, *SHAPE)), features=np.ones((20, 42, 1))
    )
    seen = []

    class Watched(FreshNoise):
        def evaluate(self, batch, step=0):
            seen.append((step, set(batch.rows.tolist())))
            return super().evaluate(batch, step)

    objective = Objective.supervised(data, Watched(1, seed=seed))
    quiet(descend, objective, Penalty.of(data.layout, beta=1.0), batch=3, max_iter=31)
    estimates = [rows for step, rows in seen if step >= _stochastic.ESTIMATE]
    start = [rows for step, rows in seen if step == _stochastic.ESTIMATE - 1]
    assert start and estimates and not start[0] & set.union(*estimates)


def test_converges_after_a_half_that_has_seen_all_examples(seed):
    data = silhouettes()
    objective = Objective.supervised(data, FreshNoise(1, seed=seed))
    steps = make_steps("adaptive", data, 1.0)
    descent = Descent(objective, Penalty.of(data.layout), objective, steps, batch=1, seed=seed)
    at_rest = tuple(Record(h, h, 1.0) for h in (1, data.count - 1, 2 * data.count - 1))
    state = dataclasses.replace(
        descent.init(data.layout.fill()), step=at_rest[-1].step, history=at_rest
    )
    assert converged(state, 1e-3) and not descent.converged(state, 1e-3)
    last = Record(2 * data.count, 0, 1.0)
    state = dataclasses.replace(state, step=last.step, history=(*at_rest, last))
    assert descent.converged(state, 1e-3)


def test_fixed_noise_is_a_fixed_function():
    data = silhouettes(6)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    found = logistic(data, penalty, noise="fixed", n_samples=3, tol=1e-2)
    engine = FixedNoise(3, *np.random.default_rng(0).integers(2**64, size=1, dtype=np.uint64))
    fixed = Objective.supervised(data, dataclasses.replace(engine, seed=int(engine.seed)))
    value = fixed.loss(found.theta).value + penalty.value(found.theta)
    assert found.history[-1].objective == pytest.approx(value, rel=1e-12)


def test_bad_options_are_named():
    data = silhouettes(2)
    penalty = Penalty.of(data.layout)
    for options, message in [
        ({"steps": "large"}, "steps must be one of adaptive, separate, printed"),
        ({"rate": 0.0}, "rate = 0 must be positive"),
        ({"tol": -1.0}, "tol = -1 must be at least 0"),
        ({"max_iter": 0}, "max_iter"),
        ({"batch": 0}, "batch"),
        ({"n_samples": 0}, "n_samples"),
        ({"noise": "white"}, "noise must be one of fresh, fixed"),
        ({"start": np.zeros(3)}, "start must have shape"),
        ({"start": np.full(data.layout.size, np.nan)}, "start"),
    ]:
        with pytest.raises(ValueError, match=message):
            logistic(data, penalty, **options)
