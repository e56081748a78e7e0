"""Learning with the L-field bound: its gradient, its degeneracy, and where it is none."""

from __future__ import annotations

import numpy as np
import oracles
import pytest

import logsuper as ls
from logsuper.learning import Examples, Objective, Penalty, make_examples
from logsuper.learning._engines import Sums
from logsuper.learning._lfield import LField, lfield


def conditional(rng: np.random.Generator, known: float, factors: bool) -> Examples:
    x = rng.integers(0, 2, (4, 2, 3)).astype(float)
    x[rng.random(x.shape) >= known] = np.nan
    return make_examples(
        list(ls.grid_cuts((2, 3))),
        labels=x,
        observed=rng.integers(0, 2, (4, 2, 3)),
        channel=ls.Flips(0.2),
        edge_weights=rng.exponential(size=(4, 7)) if factors else None,
        scale=True,
    )


@pytest.mark.parametrize("known", [1.0, 0.5])
@pytest.mark.parametrize("factors", [False, True])
def test_gradient_by_finite_differences(known: float, factors: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = conditional(rng, known, factors)
    theta = data.layout.fill(alpha=0.5) + 0.5 * rng.random(data.layout.size)
    objective = Objective.supervised(data, LField())
    found = objective.loss(theta)
    for j in range(data.layout.size):
        h = np.zeros_like(theta)
        h[j] = 1e-5
        slope = (objective.loss(theta + h).value - objective.loss(theta - h).value) / 2e-5
        assert found.gradient[j] == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("family", oracles.FAMILIES)
def test_bounds_the_loss_from_above(family: str) -> None:
    rng = np.random.default_rng(1)
    data = make_examples([oracles.FAMILIES[family](rng, 5)], labels=rng.integers(0, 2, (3, 5)))
    theta = data.layout.fill(alpha=0.5) + 0.3 * rng.normal(size=data.layout.size)
    theta[0] = 0.5
    exactly, bound = (
        Objective.supervised(data, engine).loss(theta).value
        for engine in (Sums("enumeration"), LField())
    )
    assert exactly <= bound + 1e-7 * (1 + abs(bound))


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_difference_of_two_bounds_is_none(label: float) -> None:
    """A label against the field sets two pixels free, where the bound of the held side is loose."""
    data = make_examples(
        [ls.Cut(3, [(0, 1), (1, 2)], [2.0, 6.0])], labels=[[label, np.nan, np.nan]]
    )
    theta = data.layout.fill(alpha=1.0)
    theta[1:] = [6.0, 1.0, 1.0]
    exactly, difference = (
        Objective.supervised(data, engine).loss(theta).value
        for engine in (Sums("enumeration"), LField())
    )
    assert (difference < exactly - 0.1) == (label == 0.0)
    assert (difference > exactly + 0.01) == (label == 1.0)


@pytest.mark.parametrize(
    "family", ["grid", "directed cut", "cardinality", "coverage", "facility location", "log-det"]
)
def test_generative_learning_is_degenerate(family: str, seed: int) -> None:
    """Section 4.1: by Jensen's inequality nothing is gained by coupling."""
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, 6)
    x = rng.integers(0, 2, (12, 6))
    mean = x.mean(axis=0)
    excess = float(np.mean(f(x)) - f.lovasz(mean))
    assert excess > 0  # the data are no chain
    data = make_examples([f], labels=x)
    found = lfield(data, Penalty.of(data.layout), start=data.layout.fill(alpha=0.5), tol=1e-6)
    assert found.converged
    assert found.parameters.alpha == pytest.approx([0.0], abs=1e-5)
    model = 1.0 / (1.0 + np.exp(-found.parameters.modular))
    assert model == pytest.approx(mean, abs=1e-4)
    # the derivative in alpha at the optimum is the excess itself
    slope = Objective.supervised(data, LField()).loss(found.theta).gradient[0]
    assert slope == pytest.approx(excess, rel=1e-3, abs=1e-4)


def test_a_chain_leaves_the_coupling_undetermined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = oracles.random_coverage(rng, 6)
    x = np.tri(7, 6, -1)[:, rng.permutation(6)]  # nested sets
    assert float(np.mean(f(x)) - f.lovasz(x.mean(axis=0))) == pytest.approx(0.0, abs=1e-12)
    data = make_examples([f], labels=x)
    penalty = Penalty.of(data.layout)
    ends = [
        lfield(data, penalty, start=data.layout.fill(alpha=a), tol=1e-6).history[-1].objective
        for a in (0.0, 0.3)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


def test_conditional_learning_is_not_degenerate(seed: int) -> None:
    channel = ls.Flips(0.2)
    x = ls.make_silhouettes(10, shape=(16, 16), seed=seed)
    z = channel.sample(x, seed=seed)
    data = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=z, channel=channel)
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=0.1)
    found = lfield(data, penalty, tol=1e-3)
    assert found.converged
    assert np.all(found.parameters.alpha > 0.05)


def test_conditional_learning_of_two_pixels() -> None:
    """Pixels that always agree, seen through independent noise."""
    x = np.array([[0, 0], [1, 1]] * 2)
    z = np.array([[0, 1], [1, 0], [0, 0], [1, 1]])
    data = make_examples(
        [ls.Cut(2, [(0, 1)])], labels=x, observed=z, channel=ls.Flips(0.3), modular="none"
    )
    found = lfield(data, Penalty.of(data.layout, alpha=0.01))
    assert found.parameters.alpha[0] > 0.1
