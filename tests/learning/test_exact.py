"""Exact likelihood: engines against enumeration, learners against what must hold at an optimum."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import oracles
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.bounds._choose import _columns
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.learning import Examples, Objective, Penalty, make_examples, minimize
from logsuper.learning._engines import SHARED, Batch, Engine, Exact, Side, Strips, Sums
from logsuper.learning._exact import Samples, exact
from logsuper.sampling import sample

SIDES: tuple[Side, ...] = ("free", "held")

SHAPES = [(3, 4), (1, 7), (7,), (4, 2)]


def cuts(shape: tuple[int, ...]) -> list[ls.SubmodularFunction]:
    if len(shape) == 2:
        return list(ls.grid_cuts(shape))
    chain = [(i, i + 1) for i in range(shape[0] - 1)]
    return [ls.Cut(shape[0], chain), ls.Cut(shape[0], chain[1:])]


def make(
    shape: tuple[int, ...],
    rng: np.random.Generator,
    *,
    known: float = 1.0,
    factors: str = "none",
    functions: list[ls.SubmodularFunction] | None = None,
) -> Examples:
    """Return five conditional examples; a share of the labels is known."""
    f = cuts(shape) if functions is None else functions
    x = rng.integers(0, 2, (5, *shape)).astype(float)
    x[rng.random(x.shape) >= known] = np.nan
    edges = len(ls.prepare(f).edges)
    size = {"none": None, "edge": (5, edges), "function": (5, len(f), edges)}[factors]
    return make_examples(
        f,
        labels=x,
        observed=rng.integers(0, 2, (5, *shape)),
        channel=ls.Flips(0.2),
        scale=True,
        edge_weights=None if size is None else rng.exponential(size=size),
    )


def some_theta(data: Examples, rng: np.random.Generator) -> np.ndarray:
    return data.layout.fill(alpha=0.3) + rng.exponential(0.4, data.layout.size)


def enumerate_loss(data: Examples, theta: np.ndarray) -> float:
    """Return the mean of -log p(known labels | z), by a sum over all states."""
    (group,) = data.groups
    X = oracles.enumerate_x(group.prepared.n)
    fixed = np.where(X == 1, np.inf, -np.inf)
    alpha = theta[data.layout.blocks["alpha"]]
    losses = []
    for row in range(group.count):
        rows = np.array([row])
        F = group.prepared.maximize(fixed, alpha * 0, edge_weights=group.factors(rows))[2]
        score = X @ data.fields(theta, group, rows)[0] - F @ alpha
        labels = group.labels[row]
        fits = np.all((X == labels) | (labels == 2), axis=1)
        losses.append(np.logaddexp.reduce(score) - np.logaddexp.reduce(score[fits]))
    return float(np.mean(losses))


@functools.cache
def enumerated(
    shape: tuple[int, ...], known: float, factors: str
) -> tuple[Examples, np.ndarray, float, dict[int, float]]:
    """Return examples, parameters, and what enumeration says of the loss and some of its slopes."""
    rng = np.random.default_rng(7)
    data = make(shape, rng, known=known, factors=factors)
    theta = some_theta(data, rng)
    theta[0] = 0.0  # the derivative in a weight that is 0 counts too
    value, slopes = enumerate_loss(data, theta), {}
    for j in (0, 1, 2, data.layout.size - 1):
        # one-sided to second order, as weights must not be negative
        h = np.zeros_like(theta)
        h[j] = 1e-4
        one, two = (enumerate_loss(data, theta + k * h) for k in (1, 2))
        slopes[j] = (4 * one - two - 3 * value) / 2e-4
    return data, theta, value, slopes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "engine",
    [
        lambda: Sums("enumeration"),
        lambda: Sums("elimination"),
        lambda: Strips(4),
        Exact,
    ],
)
@pytest.mark.parametrize("known", [1.0, 0.6, 0.0])
def test_engines_equal_enumeration(shape: tuple[int, ...], engine: object, known: float) -> None:
    for factors in ("none", "edge", "function"):
        data, theta, value, slopes = enumerated(shape, known, factors)
        objective = Objective.supervised(data, engine())  # type: ignore[operator]
        loss = objective.loss(theta)
        assert loss.value == pytest.approx(value, abs=1e-11)
        for j, slope in slopes.items():
            assert loss.gradient[j] == pytest.approx(slope, abs=2e-6)


@pytest.mark.parametrize("family", ["coverage", "log-det", "cardinality", "P^n Potts", "callable"])
def test_any_function_by_enumeration(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    functions = [oracles.FAMILIES[family](rng, 6), oracles.random_cut(rng, 6)]
    data = make((6,), rng, known=0.7, functions=functions)
    theta = some_theta(data, rng)
    value = Objective.supervised(data, Exact()).loss(theta).value
    assert value == pytest.approx(enumerate_loss(data, theta), abs=1e-11)


@pytest.mark.parametrize("known", [1.0, 0.5])
@pytest.mark.parametrize("anchored", [False, True])
def test_strips_bound_the_loss_within_their_width(known: float, anchored: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = make((6, 7), rng, known=known)
    theta = some_theta(data, rng)
    truth = Objective.supervised(data, Strips(6)).loss(theta)
    (group,) = data.groups
    rows = np.arange(5)
    fields, alpha = data.fields(theta, group, rows), theta[:2]
    errors = []
    for window in (2, 3, 4):
        engine = Strips(window)
        engine = engine.anchor(window) if anchored else engine
        loss = Objective.supervised(data, engine).loss(theta)
        free, held = (Batch(group, rows, alpha, fields, side) for side in SIDES)
        upper, lower = engine.evaluate(free).values, engine.evaluate(held).values
        exactly = Strips(6).evaluate(free).values
        width = engine.widths(free)
        assert np.all(lower <= exactly + 1e-10)
        assert np.all(exactly <= upper + 1e-10)
        assert np.all(upper[:, 0] - exactly[:, 0] <= width + 1e-10)
        assert loss.value >= truth.value - 1e-10
        errors.append(loss.value - truth.value)
    assert errors[2] < 0.3 * errors[0]


@pytest.mark.parametrize("side", SIDES)
def test_gradient_of_strips_with_a_narrow_window(side: Side, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = make((5, 6), rng)
    (group,) = data.groups
    rows, fields, alpha = np.arange(5), rng.normal(size=(5, 30)), np.array([0.7, 0.9])
    engine = Strips(2).anchor(2)
    found = engine.evaluate(Batch(group, rows, alpha, fields, side))

    def value(da: np.ndarray, du: np.ndarray) -> np.ndarray:
        return engine.evaluate(Batch(group, rows, alpha + da, fields + du, side)).values[:, 0]

    h = 1e-5
    for k, step in enumerate(h * np.eye(2)):
        slope = (value(step, np.zeros(30)) - value(-step, np.zeros(30))) / (2 * h)
        assert -found.stats[:, k] == pytest.approx(slope, abs=1e-6)
    for d in (0, 13, 29):
        step = h * np.eye(30)[d]
        slope = (value(np.zeros(2), step) - value(np.zeros(2), -step)) / (2 * h)
        assert found.mean[:, d] == pytest.approx(slope, abs=1e-6)


@long
@pytest.mark.parametrize("shape", [(10, 10), (4, 12), (9, 12), (12, 12)], ids=str)
@pytest.mark.parametrize("alpha", [0.5, 0.9, 2.0])
def test_exact_equals_elimination_on_larger_grids(shape: tuple[int, int], alpha: float) -> None:
    """Strong coupling without a field is where windows would be nats from the truth."""
    rng = np.random.default_rng(0)
    data = make(shape, rng)
    (group,) = data.groups
    rows, weights = np.arange(3), np.array([alpha, 1.1 * alpha])
    fields = np.stack([rng.normal(size=group.prepared.n) * scale for scale in (0.0, 0.1, 1.0)])
    batch = Batch(group, rows, weights, fields, "free")
    truth = Sums("elimination").evaluate(batch)
    for engine in (Exact(), Exact().anchor(3)):
        for side in SIDES:
            found = engine.evaluate(batch._replace(side=side))
            for ours, expected in zip(found, truth, strict=True):
                np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)
        assert engine.widths(batch) == pytest.approx(0.0, abs=1e-9)


def test_windows_that_a_budget_affords(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(engine: Exact, shape: tuple[int, int]) -> Engine:
        data = make_examples(ls.grid_cuts(shape), labels=np.zeros((1, *shape)))
        (group,) = data.groups
        found = engine.choose(group)
        window = engine.window(data)
        assert window == (found.window if isinstance(found, Strips) else 0)
        assert engine.bounds(group) == (0 < window < min(shape))
        return found

    monkeypatch.setattr("logsuper.bounds._choose.kernels", lambda: object())
    # a grid of n pixels is summed whole where n 2^s <= 1e6: 144 2^12 = 5.9e5, 169 2^13 = 1.4e6
    sizes = {(4, 12): 6, (12, 12): 12, (13, 13): 6, (10, 100): 6}
    for shape, window in sizes.items():
        engine = chosen(Exact(), shape)
        assert isinstance(engine, Strips) and engine.window == window
    assert _columns(4_000_000, 2000, 6, None) == 6  # 2^2000 is no float
    # 256 2^16 = 1.7e7, 576 11 2^11 = 1.3e7 and 2500 9 2^9 = 1.2e7 are below 2e7
    for shape, window in {(16, 16): 16, (17, 17): 12, (24, 24): 11, (50, 50): 9}.items():
        engine = chosen(Exact(budget=SHARED), shape)
        assert isinstance(engine, Strips) and engine.window == window
    monkeypatch.setattr("logsuper.bounds._choose.kernels", lambda: None)
    assert chosen(Exact(), (8, 30)) == Sums("elimination")
    assert isinstance(chosen(Exact(), (6, 30)), Strips)
    assert isinstance(chosen(Exact(), (13, 13)), Strips)


def test_choice_of_the_engine() -> None:
    def chosen(shape: tuple[int, ...], functions: list[ls.SubmodularFunction]) -> Engine:
        data = make_examples(functions, labels=np.zeros((1, *shape)))
        return Exact().choose(data.groups[0])

    assert chosen((3, 3), list(ls.grid_cuts((3, 3)))) == Sums("enumeration")
    assert isinstance(chosen((30, 30), list(ls.grid_cuts((30, 30)))), Strips)
    assert isinstance(chosen((900,), list(ls.grid_cuts((30, 30)))), Strips)
    assert chosen((15,), [ls.LogDet(np.eye(15) + 0.1)]) == Sums("enumeration")
    ring = ls.Cut(40, [(i, (i + 1) % 40) for i in range(40)])
    assert chosen((40,), [ring]) == Sums("elimination")
    with pytest.raises(NotApplicable, match="LogDet"):
        chosen((40,), [ls.LogDet(np.eye(40))])
    with pytest.raises(TooLarge, match="operations"):
        chosen((30, 30), list(ls.grid_cuts((30, 30), neighbors=8)))
    with pytest.raises(TooLarge, match="16 elements"):
        data = make_examples([ls.Modular(np.zeros(20))], labels=np.zeros((1, 20)))
        Objective.supervised(data, Sums("enumeration")).loss(data.layout.fill())


# --------------------------------------------------------------------------------------- learners


@pytest.mark.parametrize("family", ["grid", "cut", "coverage", "facility location", "log-det"])
def test_moments_match_at_the_optimum(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, 8)
    x = ls.LogSupermodular(0.5 * f).sample(60, "cftp", seed=seed)
    data = make_examples([f], labels=x)
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=1e-2)
    found = exact(data, penalty, tol=1e-6)
    assert found.converged
    assert found.details["method"] == "sums"
    (group,) = data.groups
    field = data.fields(found.theta, group, np.array([0]))
    p = found.parameters
    expected = Sums("enumeration").evaluate(Batch(group, np.array([0]), p.alpha, field, "free"))
    pull = penalty.gradient(found.theta)
    apart = expected.mean[0] - x.mean(axis=0).ravel() + pull[1:]
    assert apart == pytest.approx(np.zeros(8), abs=3e-6)
    slope = float(np.mean(f(x.reshape(len(x), -1))) - expected.stats[0, 0] + pull[0])
    size = max(1.0, float(np.sqrt(found.details["curvature"][0])))
    assert slope >= -1e-6 * size
    if p.alpha[0] > 0:
        assert abs(slope) <= 1e-6 * size


def test_recovers_a_known_model(seed: int) -> None:
    shape, true = (4, 40), np.array([0.7, 0.4, 0.3])
    fh, fv = ls.grid_cuts(shape)
    f = true[0] * fh + true[1] * fv - ls.Modular(np.full(160, true[2]))
    x = ls.LogSupermodular(f).sample(150, "cftp", seed=seed).reshape(-1, *shape)
    data = make_examples([fh, fv], labels=x, modular="shared")
    found = exact(data, Penalty.of(data.layout), tol=1e-6)
    # the covariance of the statistics is the information of one example
    moments = data.label_moments(data.groups[0], np.arange(len(x)))
    phi = data.statistics(data.groups[0], np.arange(len(x)), moments)
    stderr = np.sqrt(np.diag(np.linalg.inv(np.cov(phi.T))) / len(x))
    assert np.all(np.abs(found.theta - true) < 3.5 * stderr)
    assert found.details["width"] == pytest.approx(0.0, abs=1e-9)


@long
@pytest.mark.parametrize("shape", [(10, 10), (14, 14)], ids=str)
def test_labels_alone_on_grids_that_are_summed_whole(shape: tuple[int, int]) -> None:
    f = ls.grid_cuts(shape)
    x = ls.LogSupermodular(0.8 * f[0] + 0.8 * f[1]).sample(50, "cftp", seed=0)
    data = make_examples(f, labels=x.reshape(-1, *shape), modular="shared")
    penalty = Penalty.of(data.layout)
    found = exact(data, penalty, tol=1e-5)
    best = minimize(
        Objective.supervised(data, Sums("elimination")), penalty, start=found.theta, tol=1e-5
    )
    assert found.converged
    assert found.theta == pytest.approx(best.theta, abs=1e-5)
    assert found.history[-1].objective == pytest.approx(best.history[0].objective, abs=1e-9)
    assert found.details["window"] == shape[0]
    assert found.details["width"] == pytest.approx(0.0, abs=1e-9)


@long
def test_a_wide_bound_warns() -> None:
    f = ls.grid_cuts((13, 13))
    x = ls.LogSupermodular(0.7 * f[0] + 0.7 * f[1]).sample(20, "cftp", seed=0)
    data = make_examples(f, labels=x.reshape(-1, 13, 13), modular="shared")
    penalty = Penalty.of(data.layout, alpha=1e-3)
    with pytest.warns(ConvergenceWarning, match="nats per example only.* 3 columns.*raise window"):
        found = exact(data, penalty, window=3)
    assert found.converged  # which is about the optimiser
    assert found.details["window"] == 3
    truth = Objective.supervised(data, Sums("elimination")).loss(found.theta).value
    bound = found.history[-1].objective - penalty.value(found.theta)
    assert 0.1 < bound - truth <= found.details["width"]
    # windows that hold the short side leave nothing to warn of
    assert exact(data, penalty, window=13).details["width"] < 1e-9


@long
def test_strips_reach_the_optimum_of_the_exact_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logsuper.bounds._choose._WHOLE", 0.0)
    x = ls.make_silhouettes(12, shape=(16, 16), seed=0)[:, 2:14, 2:13]
    z = ls.Flips(0.15).sample(x, seed=1)
    data = make_examples(
        ls.grid_cuts((12, 11)), labels=x, observed=z, channel=ls.Flips(0.15), scale=True
    )
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    best, near = (exact(data, penalty, window=window) for window in (11, None))
    assert 1e-6 < near.details["width"] < 0.1
    assert 0 <= near.history[-1].objective - best.history[-1].objective < near.details["width"]
    assert near.parameters.alpha == pytest.approx(best.parameters.alpha, rel=0.03)
    assert near.converged


@long
def test_partial_labels_and_threads() -> None:
    rng = np.random.default_rng(0)
    data = make((6, 6), rng, known=0.7)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1, scale=0.1)
    one, two = (exact(data, penalty, n_jobs=jobs, tol=1e-5) for jobs in (1, 2))
    assert np.array_equal(one.theta, two.theta)
    assert one.converged
    loss = Objective.supervised(data, Sums("elimination")).loss(one.theta)
    gradient = loss.gradient + penalty.gradient(one.theta)
    assert np.all(np.abs(gradient[one.theta > data.layout.lower]) < 1e-3)
    assert [record.step for record in one.history] == list(range(len(one.history)))


@pytest.mark.parametrize("known", [1.0, 0.5])
@pytest.mark.parametrize("factors", ["none", "edge"])
@pytest.mark.parametrize("max_iter", [1024, 1])
def test_samples_have_the_right_moments(known: float, factors: str, max_iter: int) -> None:
    """With one sweep nothing coalesces, and cluster chains take over."""
    rng = np.random.default_rng(3)
    data = make((2, 3), rng, known=known, factors=factors)
    theta = some_theta(data, rng)
    truth = Objective.supervised(data, Sums("enumeration")).loss(theta)
    draws = 1500
    engine = Samples(5, draws, max_iter=max_iter)
    loss = Objective.supervised(data, engine).loss(theta)
    # statistics of an example vary by a few units at most
    assert loss.gradient == pytest.approx(truth.gradient, abs=5 * 4.0 / np.sqrt(5 * draws))
    assert bool(engine._chains) == (max_iter == 1)


def test_learns_by_samples(seed: int) -> None:
    fh, fv = ls.grid_cuts((5, 5))
    x = ls.LogSupermodular(0.5 * fh + 0.3 * fv).sample(200, "cftp", seed=seed)
    data = make_examples([fh, fv], labels=x.reshape(-1, 5, 5), modular="shared")
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=1e-3)
    best = exact(data, penalty)
    options = {"method": "samples", "seed": seed, "tol": 1e-3, "max_iter": 400}
    found, again = (exact(data, penalty, **options) for _ in range(2))  # type: ignore[arg-type]
    assert np.array_equal(found.theta, again.theta)
    assert found.details["method"] == "samples"
    objective = Objective.supervised(data, Exact())
    losses = [objective.loss(t).value for t in (data.layout.fill(), found.theta, best.theta)]
    assert losses[1] - losses[2] < 0.02 * (losses[0] - losses[2])


@long
def test_learns_a_strongly_coupled_prior_by_chains_that_persist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below the critical temperature coupling from the past takes too long."""
    walks: list[object] = []

    def spy(*args: Any, **options: Any) -> np.ndarray:
        walks.append(args)
        return sample(*args, **options)

    monkeypatch.setattr("logsuper.learning._exact.sample", spy)
    functions, truth = ls.grid_cuts((12, 12), 8), np.array([0.8, 0.8, 0.3, 0.3])
    model = ls.LogSupermodular(sum(a * f for a, f in zip(truth, functions, strict=True)))  # type: ignore[arg-type]
    x = model.sample(200, "swendsen_wang", seed=0, burn_in=300).reshape(-1, 12, 12)
    data = make_examples(functions, labels=x, modular="shared")
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=1e-3)
    options = {"method": "samples", "tol": 5e-3}
    one, two = (exact(data, penalty, n_jobs=jobs, **options) for jobs in (1, 2))  # type: ignore[arg-type]
    assert np.array_equal(one.theta, two.theta)
    assert one.converged and one.details["method"] == "samples" and len(walks) > 100
    assert one.parameters.alpha == pytest.approx(truth, abs=0.2)
    assert one.parameters.modular == pytest.approx([0.0], abs=0.03)


def test_chains_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[object] = []
    states: list[np.ndarray] = []

    def spy(*args: Any, **options: Any) -> np.ndarray:
        starts.append(options["start"])
        states.append(sample(*args, **options))
        return states[-1]

    monkeypatch.setattr("logsuper.learning._exact.sample", spy)
    data = make((3, 4), np.random.default_rng(0))
    objective = Objective.supervised(data, Samples(1, draws=2, max_iter=1))
    theta = data.layout.fill(alpha=2.0)
    for step in (1, 2):
        objective.loss(theta, step=step)
    assert starts[:5] == [None] * 5
    for before, start in zip(states[:5], starts[5:], strict=True):
        assert start is before


def test_refusals() -> None:
    data = make((3, 3), np.random.default_rng(0))
    penalty = Penalty.of(data.layout)
    with pytest.raises(ValueError, match="method"):
        exact(data, penalty, method="magic")
    with pytest.raises(ValueError, match="window"):
        exact(data, penalty, window=0)
    unlabelled = dataclasses.replace(
        data, groups=tuple(dataclasses.replace(g, labels=None) for g in data.groups)
    )
    with pytest.raises(ValueError, match="labels are missing"):
        exact(unlabelled, penalty)
    wide = make_examples([ls.LogDet(np.eye(40))], labels=np.zeros((1, 40)))
    with pytest.raises(NotApplicable, match="samples"):
        exact(wide, Penalty.of(wide.layout), method="sums")
