"""Weighted marginal likelihood: slopes, what costs do and do not change, a known model."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls
from logsuper.learning import Examples, FreshNoise, Penalty, make_examples, marginal, minimize
from logsuper.learning._costs import pixel_costs
from logsuper.learning._marginal import Marginal
from logsuper.learning._max_margin import max_margin

SHAPE = (4, 5)


def examples(seed: int, known: float = 1.0) -> Examples:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (3, *SHAPE)).astype(float)
    z = ls.Flips(0.2).sample(x, seed=seed)
    x[rng.random(x.shape) > known] = np.nan
    return make_examples(
        ls.grid_cuts(SHAPE),
        labels=x,
        observed=z,
        channel=ls.Flips(0.2),
        modular="pixel",
        context=1,
        scale=True,
    )


def test_the_gradient_is_a_difference(seed: int) -> None:
    """Of every kind of parameter, with costs and weights, and labels that are missing."""
    rng, data = np.random.default_rng(seed), examples(seed, known=0.8)
    costs = pixel_costs(data, rng.exponential(size=(3, *SHAPE)), (1.0, rng.exponential(size=SHAPE)))
    objective = Marginal(data, FreshNoise(6, seed), costs=costs)
    theta = rng.uniform(0.2, 0.8, data.layout.size)
    found, step = objective.loss(theta, step=3), 1e-6
    assert found.value == objective.loss(theta, step=3).value != objective.loss(theta).value
    for j in range(data.layout.size):
        unit = step * np.eye(data.layout.size)[j]
        up, down = (objective.loss(theta + sign * unit, step=3).value for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(found.gradient[j], abs=1e-4)


def test_a_part_of_the_examples_has_its_own_costs(seed: int) -> None:
    rng, data = np.random.default_rng(seed), examples(seed)
    objective = Marginal(
        data, FreshNoise(3, seed), costs=pixel_costs(data, rng.exponential(size=(3, *SHAPE)))
    )
    theta = data.layout.fill(alpha=0.5)
    each = [objective.loss(theta, np.array([i])).value for i in range(3)]
    assert objective.loss(theta).value == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.parametrize("cost", [(1.0, 1.0), (1.0, 5.0), (3.0, 1.0)])
def test_costs_do_not_change_probabilities_that_can_be_right(cost: tuple[float, float]) -> None:
    """Three ones in four: t = log 3 whatever errors cost. Weights of pixels do count."""
    data = make_examples([ls.Modular([0.0])], labels=[[1], [1], [1], [0]])
    penalty = Penalty.of(data.layout, alpha=1.0)
    for loss, odds in [("hamming", 3.0), ([[1.0], [1.0], [1.0], [2.0]], 1.5)]:
        # without couplings there is no randomness
        objective = Marginal(data, FreshNoise(1, 0), costs=pixel_costs(data, loss, cost))
        found = minimize(objective, penalty)
        assert found.parameters.modular == pytest.approx(np.log(odds), abs=1e-4)


def test_the_learner_lowers_its_objective() -> None:
    x = ls.make_silhouettes(6, shape=(16, 16), seed=0)
    z = ls.Flips(0.1).sample(x, seed=1)
    data = make_examples(
        ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="shared"
    )
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01)
    start = data.layout.fill(alpha=0.1)
    found = marginal(data, penalty, start=start, cost=(1.0, 5.0), tol=1e-2, n_samples=3)
    again = marginal(data, penalty, start=start, cost=(1.0, 5.0), tol=1e-2, n_samples=3, n_jobs=2)
    assert found.converged and found.history[-1].objective < 0.9 * found.history[0].objective
    np.testing.assert_array_equal(found.theta, again.theta)


@pytest.mark.parametrize("cost", [(1.0, 1.0), (1.0, 5.0)])
def test_a_known_model_has_no_slope_with_many_perturbations(
    cost: tuple[float, float], seed: int
) -> None:
    """Labels are perturbed maximisers of the model; few perturbations prefer weaker couplings."""
    rng, shape, count = np.random.default_rng(seed), (5, 5), 240
    across, down = ls.grid_cuts(shape)
    features = rng.normal(size=(count, *shape, 1))
    fields = (features[..., 0] - 0.3).reshape(count, -1)
    drawn = ls.prepare([across, down]).perturb(fields, [0.5, 0.7], 1, seed, return_samples=True)
    x = drawn.samples.reshape(count, *shape)
    data = make_examples([across, down], labels=x, features=features, modular="shared")
    truth = np.array([0.5, 0.7, -0.3, 1.0])
    blocks = np.split(np.arange(count), 20)

    def slopes(samples: int) -> np.ndarray:
        objective = Marginal(data, FreshNoise(samples, seed), costs=pixel_costs(data, cost=cost))
        return np.array([objective.loss(truth, block).gradient for block in blocks])

    def in_errors(each: np.ndarray) -> np.ndarray:
        return each.mean(axis=0) / (each.std(axis=0, ddof=1) / np.sqrt(len(blocks)))

    few, many = slopes(2), slopes(80)
    assert (np.abs(in_errors(many)) < 4.0).all()
    assert in_errors((few - many)[:, :2].sum(axis=1)) > 4.0


def test_costs_are_weights_by_label(seed: int) -> None:
    data = examples(seed)
    penalty = Penalty(np.full(data.layout.size, 0.3), data.layout.fill())
    place = np.random.default_rng(seed).uniform(0.5, 3.0, SHAPE)
    (group,) = data.groups
    x = group.labels.reshape(3, *SHAPE)
    found = max_margin(data, penalty, cost=(place, 2.0))
    expected = max_margin(data, penalty, loss=np.where(x == 1, 2.0, place))
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-9)


def test_bad_calls_are_refused() -> None:
    data = examples(0)
    penalty = Penalty.of(data.layout, alpha=0.1, modular=0.1)
    for learn in (marginal, max_margin):
        for cost, told in [
            ((1.0, 0.0), r"cost\[1\] = 0: must be positive"),
            ((np.inf, 1.0), r"cost\[0\] = inf"),
            ((np.ones(3), 1.0), r"cost\[0\] has shape \(3,\), but an image has \(4, 5\)"),
        ]:
            with pytest.raises(ValueError, match=told):
                learn(data, penalty, cost=cost)
        with pytest.raises(TypeError, match="cost must be a pair"):
            learn(data, penalty, cost=3.0)
    blank = make_examples(
        ls.grid_cuts(SHAPE), observed=np.zeros((1, *SHAPE)), channel=ls.Flips(0.1)
    )
    with pytest.raises(ValueError, match="labels are missing"):
        marginal(blank, Penalty.of(blank.layout, alpha=0.1))
    with pytest.raises(ValueError, match="n_samples"):
        marginal(data, penalty, n_samples=0)
