"""Sample-average likelihood: optimum, certificate and moments, against all labellings listed."""

import numpy as np
import pytest
from learning_oracles import LEARNABLE, Enumerated, all_statistics, small_examples
from objective_oracles import long, quiet
from objective_oracles import silhouettes as images

import logsuper as ls
from logsuper._base._random import as_key
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import (
    Examples,
    FixedNoise,
    Learned,
    Objective,
    Penalty,
    Record,
    make_examples,
)
from logsuper.learning._descent import descend
from logsuper.learning._frank_wolfe import minimize, saa

TIGHT = 1e-11


def weigh(data: Examples, seed: int = 0, low: float = 0.05) -> Penalty:
    """Return a penalty with a weight and a centre of its own for every parameter."""
    rng = np.random.default_rng(seed)
    size = data.layout.size
    center = data.layout.project(rng.normal(size=size)) * (rng.random(size) < 0.5)
    return Penalty(low + rng.exponential(size=size), center)


def listed(data: Examples, penalty: Penalty, samples: int, seed: int) -> Enumerated:
    """Return the objective of `saa` with every labelling listed."""
    (group,) = data.groups
    slopes, constants, y = all_statistics(data)
    rows = np.arange(group.count)
    alike = all(given is None for given in (group.observed, group.features, group.edge_weights))
    noise = FixedNoise(samples, as_key(seed)).draw(group, rows * 0 if alike else rows)
    offsets = constants[:, None] + noise @ y.T  # (N, S, 2^n)
    return Enumerated(
        data,
        penalty,
        np.repeat(slopes, samples, axis=0),
        offsets.reshape(len(rows) * samples, -1),
    )


@pytest.mark.parametrize("family", LEARNABLE)
def test_the_optimum_is_that_of_a_generic_solver(family: str, seed: int) -> None:
    data = small_examples(family, seed)
    penalty = weigh(data, seed)
    problem = listed(data, penalty, 2, seed)
    _, optimum = problem.solve()
    found = saa(data, penalty, n_samples=2, seed=seed, tol=TIGHT)
    assert found.converged
    last = found.history[-1]
    assert last.objective == pytest.approx(problem.value(found.theta), rel=1e-10, abs=1e-10)
    assert last.objective == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert last.objective <= optimum + 1e-9 * abs(optimum)


@pytest.mark.parametrize(
    "options",
    [
        {"observed": False},
        {"scale": False},
        {"modular": "shared", "features": 2},
        {"modular": "none"},
        {"factors": "image"},
        {"factors": "function", "features": 2},
        {"factors": "image", "observed": False},
    ],
    ids=str,
)
def test_the_optimum_whatever_is_learned(options: dict, seed: int) -> None:
    data = small_examples("cut", seed, **options)
    penalty = weigh(data, seed)
    problem = listed(data, penalty, 2, seed)
    found = saa(data, penalty, n_samples=2, seed=seed, tol=TIGHT)
    assert found.history[-1].objective == pytest.approx(problem.solve()[1], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("family", LEARNABLE)
def test_moments_of_the_certificate_match(family: str, seed: int) -> None:
    data = small_examples(family, seed)
    penalty = weigh(data, seed)
    problem = listed(data, penalty, 2, seed)
    found = saa(data, penalty, n_samples=2, seed=seed, tol=TIGHT)
    theta, moments = found.theta, found.details["moments"]
    # stationarity, with the sign of a multiplier where a parameter is at its bound
    balance = penalty.gradient(theta) + moments
    free = theta > data.layout.lower
    assert np.abs(balance[free]).max() < 1e-6
    assert (balance[~free] > -1e-6).all()
    assert found.details["residual"] < 1e-6
    # a convex combination of maximisers is a subgradient of the mean of the maxima
    assert abs(found.details["slack"]) < 1e-8
    rng = np.random.default_rng(seed)
    for size in (1e-3, 0.1, 10.0):
        other = data.layout.project(theta + size * rng.normal(size=len(theta)))
        ground = problem.loss(theta) + moments @ (other - theta)
        assert problem.loss(other) >= ground - 1e-8 * (1.0 + abs(ground))


def test_the_gap_is_certified_in_every_round(seed: int) -> None:
    data = small_examples("cut", seed)
    penalty = weigh(data, seed, low=0.01)
    optimum = listed(data, penalty, 4, seed).solve()[1]
    records: list[Record] = []
    found = saa(data, penalty, n_samples=4, seed=seed, tol=1e-10, callback=records.append)
    assert tuple(records) == found.history
    gaps = np.array([record.gap for record in records])
    excess = np.array([record.objective for record in records]) - optimum
    assert (np.diff(gaps) <= 0).all()
    assert (excess <= gaps + 1e-8 * abs(optimum)).all()
    assert (gaps - excess >= -1e-8 * abs(optimum)).all()
    assert found.details["dual"] <= optimum + 1e-9 * abs(optimum)
    assert [record.step for record in records] == list(range(1, len(records) + 1))
    assert records[-1].cuts == len(records) * 4 * data.count


def silhouettes(seed: int, count: int = 8) -> Examples:
    x = ls.make_silhouettes(count, shape=(16, 16), seed=seed)
    z = ls.Flips(0.1).sample(x, seed=seed)
    return make_examples(
        ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), scale=True
    )


@pytest.mark.parametrize("blocks", [1, 4, 100])
def test_the_gap_of_images_goes_to_a_millionth(seed: int, blocks: int) -> None:
    data = silhouettes(seed)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    found = saa(data, penalty, n_samples=4, tol=1e-6, blocks=blocks)
    assert found.converged and found.history[-1].gap <= 1e-6 * found.history[-1].objective


def test_the_loss_is_that_of_fixed_noise(seed: int) -> None:
    data = silhouettes(seed)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=1.0, scale=0.1)
    found = saa(data, penalty, n_samples=4, seed=seed)
    objective = Objective.supervised(data, FixedNoise(4, as_key(seed)))
    value = penalty.value(found.theta) + objective.loss(found.theta).value
    assert found.history[-1].objective == pytest.approx(value, rel=1e-12)


@long
@pytest.mark.parametrize("options", [{"scale": True}, {"modular": "shared", "context": 1}], ids=str)
def test_descent_reaches_the_same_optimum(options: dict, seed: int) -> None:
    """One convex function, two ways down: stochastic subgradients and Frank-Wolfe."""
    data = images(**options)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.3, beta=0.3, scale=0.1)
    objective = Objective.supervised(data, FixedNoise(4, seed=seed))
    certified = minimize(objective, penalty, name="saa", tol=1e-6)
    found = quiet(descend, objective, penalty, seed=seed, batch=5, tol=0.0, max_iter=400)
    assert certified.converged
    optimum = certified.history[-1].objective
    value = objective.loss(found.theta).value + penalty.value(found.theta)
    assert certified.details["dual"] <= value <= optimum * (1 + 1e-3)
    # by strong convexity the parameters are then the same too
    apart = found.theta - certified.theta
    assert penalty.weights @ apart**2 <= 2 * (value - certified.details["dual"])
    names = {"alpha": 0.02, "scale": 0.02, "modular": 0.1, "beta": 0.1}
    for name, most in names.items():
        assert np.abs(apart[data.layout.blocks[name]]).max(initial=0.0) < most


def test_weights_of_no_use_are_zero() -> None:
    """Chequerboards are rougher than any model with alpha >= 0: the bound is active."""
    x = np.indices((4, 4)).sum(axis=0) % 2
    data = make_examples(ls.grid_cuts((4, 4)), labels=[x, 1 - x, x], modular="shared")
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    found = saa(data, penalty, n_samples=20, tol=TIGHT)
    np.testing.assert_array_equal(found.parameters.alpha, 0.0)
    assert (found.details["moments"][:2] > 1.0).all()  # more agreement would cost
    assert found.details["residual"] < 1e-6


def test_shapes_may_differ() -> None:
    shapes = [(16, 17), (20, 16), (16, 17)]
    x = [ls.make_silhouettes(1, shape=shape, seed=3)[0] for shape in shapes]
    z = [ls.Flips(0.1).sample(image, seed=i) for i, image in enumerate(x)]
    data = make_examples(
        ls.grid_cuts, labels=x, observed=z, channel=ls.Flips(0.1), modular="shared", scale=True
    )
    found = saa(data, Penalty.of(data.layout, alpha=0.1, modular=0.1, scale=0.1), tol=1e-9)
    assert found.converged and found.details["residual"] < 1e-3


def same(one: Learned, other: Learned) -> bool:
    return np.array_equal(one.theta, other.theta) and one.history == other.history


def test_same_seed_same_result() -> None:
    data = silhouettes(0, count=4)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=1.0, scale=0.1)
    found = saa(data, penalty, n_samples=3, seed=5, n_jobs=1)
    assert same(found, saa(data, penalty, n_samples=3, seed=5, n_jobs=2))
    assert same(found, saa(data, penalty, n_samples=3, seed=5))
    assert not same(found, saa(data, penalty, n_samples=3, seed=6))


def test_a_start_is_where_it_starts() -> None:
    data = silhouettes(0)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    cold = saa(data, penalty, tol=1e-6)
    warm = saa(data, penalty, tol=1e-6, start=cold.theta)
    assert warm.history[0].objective == cold.history[-1].objective
    assert len(warm.history) < len(cold.history)
    assert warm.history[-1].objective == pytest.approx(cold.history[-1].objective, rel=2e-6)


def test_noise_that_is_not_kept_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = silhouettes(0, count=3)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=1.0, scale=0.1)
    kept = saa(data, penalty, n_samples=2)
    monkeypatch.setattr("logsuper.learning._engines._KEPT", 0)
    assert same(kept, saa(data, penalty, n_samples=2))


def test_a_gap_that_is_left_is_told() -> None:
    data = silhouettes(0)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    with pytest.warns(ConvergenceWarning, match=r"saa left a gap of .* after 3 rounds"):
        found = saa(data, penalty, max_iter=3)
    assert not found.converged and len(found.history) == 3


def test_a_callback_can_end_the_fit() -> None:
    class Enough(Exception):
        pass

    def stop(record: Record) -> None:
        raise Enough

    data = silhouettes(0)
    with pytest.raises(Enough):
        saa(data, Penalty.of(data.layout, alpha=1.0, modular=1.0, scale=1.0), callback=stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"tol": 0.0}, "tol = 0 must be positive"),
        ({"tol": float("nan")}, "tol must be finite"),
        ({"max_iter": 0}, "max_iter"),
        ({"blocks": 0}, "blocks"),
        ({"start": np.zeros(3)}, r"start must have shape \(259,\)"),
        ({"start": np.full(259, np.nan)}, r"start\[0\]"),
    ],
    ids=str,
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    data = silhouettes(0)
    with pytest.raises(ValueError, match=message):
        saa(data, Penalty.of(data.layout, alpha=1.0, modular=1.0, scale=1.0), **options)


def test_what_cannot_be_learned_is_refused() -> None:
    data = silhouettes(0)
    with pytest.raises(ValueError, match=r"saa needs a positive penalty .* that of scale is 0"):
        saa(data, Penalty.of(data.layout, alpha=1.0, modular=1.0))
    other = small_examples("cut", 0)
    with pytest.raises(ValueError, match="penalty is for 7 parameters, these examples have 259"):
        saa(data, weigh(other))
    unlabelled = make_examples(
        [ls.Cut(2, [(0, 1)])], observed=[[0, 1]], channel=ls.Flips(0.1), modular="none"
    )
    with pytest.raises(ValueError, match="saa needs a label for every pixel"):
        saa(unlabelled, Penalty.of(unlabelled.layout, alpha=1.0))
    sure = make_examples(
        [ls.Cut(2, [(0, 1)])],
        labels=[[0, 1]],
        observed=[[0, 1]],
        channel=ls.Flips(0.0),
        modular="none",
    )
    with pytest.raises(ValueError, match="leaves no doubt"), np.errstate(invalid="ignore"):
        saa(sure, Penalty.of(sure.layout, alpha=1.0))
