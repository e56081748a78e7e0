"""Pseudo-likelihood, against conditionals by enumeration and the truth."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper.learning import Examples, Penalty, make_examples
from logsuper.learning._exact import exact
from logsuper.learning._pseudo import PseudoLikelihood, pseudo


def enumerate_loss(data: Examples, theta: np.ndarray) -> float:
    """Return the mean of -sum_d log p(x_d | all others) from the values of f at both x_d."""
    (group,) = data.groups
    alpha = theta[data.layout.blocks["alpha"]]
    n, total = group.prepared.n, 0.0
    for row in range(group.count):
        rows = np.array([row])
        x, field = group.labels[row], data.fields(theta, group, rows)[0]
        for d in range(n):
            both = np.tile(x, (2, 1))
            both[:, d] = 0, 1
            fixed = np.where(both == 1, np.inf, -np.inf)
            F = group.prepared.maximize(fixed, alpha * 0, edge_weights=group.factors(rows))[2]
            score = both @ field - F @ alpha
            total -= score[x[d]] - np.logaddexp(*score)
    return total / group.count


@pytest.mark.parametrize("family", oracles.FAMILIES)
def test_loss_and_gradient(family: str) -> None:
    rng = np.random.default_rng(3)
    functions = [oracles.FAMILIES[family](rng, 5), oracles.random_cut(rng, 5)]
    data = make_examples(
        functions,
        labels=rng.integers(0, 2, (3, 5)),
        observed=rng.integers(0, 2, (3, 5)),
        channel=ls.Flips(0.2),
        features=rng.normal(size=(3, 5, 2)),
        scale=True,
    )
    check(data, rng)


@pytest.mark.parametrize("each", [False, True])
def test_factors_on_edges(each: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    functions = list(ls.grid_cuts((2, 3)))
    size = (3, 2, 7) if each else (3, 7)
    data = make_examples(
        functions, labels=rng.integers(0, 2, (3, 2, 3)), edge_weights=rng.exponential(size=size)
    )
    check(data, rng)


def check(data: Examples, rng: np.random.Generator) -> None:
    theta = data.layout.fill(alpha=0.2) + 0.3 * rng.random(data.layout.size)
    found = PseudoLikelihood(data).loss(theta)
    assert found.value == pytest.approx(enumerate_loss(data, theta), rel=1e-9, abs=1e-11)
    for j in range(data.layout.size):
        h = np.zeros_like(theta)
        h[j] = 1e-6 * max(1.0, 1.0 / (1e-3 + abs(found.gradient[j])))
        ahead, behind = (PseudoLikelihood(data).loss(t).value for t in (theta + h, theta - h))
        assert found.gradient[j] == pytest.approx((ahead - behind) / (2 * h[j]), rel=2e-4, abs=1e-4)


def test_blocks_of_examples_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = make_examples(list(ls.grid_cuts((3, 3))), labels=rng.integers(0, 2, (7, 3, 3)))
    theta = data.layout.fill(alpha=0.4)
    whole = PseudoLikelihood(data).loss(theta)
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 18)
    monkeypatch.setattr("logsuper.learning._pseudo._KEPT", 40)
    split = PseudoLikelihood(data)
    for _ in range(2):
        assert split.loss(theta).value == pytest.approx(whole.value, rel=1e-12)
        assert split.loss(theta).gradient == pytest.approx(whole.gradient, abs=1e-12)
    each = [PseudoLikelihood(data.subset(np.array([i]))).loss(theta).value for i in range(7)]
    assert np.mean(each) == pytest.approx(whole.value, rel=1e-12)


def test_recovers_a_known_model(seed: int) -> None:
    shape, true = (10, 10), np.array([0.7, 0.4, 0.3])
    fh, fv = ls.grid_cuts(shape)
    f = true[0] * fh + true[1] * fv - ls.Modular(np.full(100, true[2]))
    x = ls.LogSupermodular(f).sample(600, "cftp", seed=seed).reshape(-1, *shape)
    data = make_examples([fh, fv], labels=x, modular="shared")
    found = pseudo(data, Penalty.of(data.layout))
    assert found.converged
    # the sandwich covariance of an M-estimator, from the gradients of the examples
    objective = PseudoLikelihood(data)
    alone = [PseudoLikelihood(data.subset(np.array([i]))) for i in range(len(x))]
    scores = [one.loss(found.theta).gradient for one in alone]
    h = 1e-4
    slopes = [
        (
            objective.loss(found.theta + h * e).gradient
            - objective.loss(found.theta - h * e).gradient
        )
        for e in np.eye(3)
    ]
    bread = np.linalg.inv(np.array(slopes) / (2 * h))
    stderr = np.sqrt(np.diag(bread @ np.cov(np.transpose(scores)) @ bread) / len(x))
    assert np.all(np.abs(found.theta - true) < 3.5 * stderr)


@long
def test_over_estimates_the_coupling_of_smooth_images() -> None:
    x = ls.make_silhouettes(10, shape=(16, 16), seed=0)
    channel = ls.Flips(0.1)
    data = make_examples(
        ls.grid_cuts((16, 16)),
        labels=x,
        observed=channel.sample(x, seed=1),
        channel=channel,
        modular="shared",
    )
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01)
    likely = exact(data, penalty, window=5, tol=1e-3).parameters.alpha
    found = pseudo(data, penalty).parameters.alpha
    assert np.all(found > likely)
    assert found.sum() > 1.15 * likely.sum()


def test_needs_all_labels() -> None:
    data = make_examples(list(ls.grid_cuts((2, 2))), labels=[[[0, 1], [np.nan, 1]]])
    with pytest.raises(ValueError, match="labels are missing"):
        pseudo(data, Penalty.of(data.layout))


def test_channels_that_leave_no_doubt_are_refused():
    x = np.eye(4)[None]
    data = make_examples(ls.grid_cuts((4, 4)), labels=x, observed=x, channel=ls.Flips(0.0))
    with pytest.raises(ValueError, match=r"Flips\(0\) leaves no doubt about observed\[0\]\[0, 0\]"):
        pseudo(data, Penalty.of(data.layout))
