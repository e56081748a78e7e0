"""L-BFGS under bounds, against problems whose optimum is known."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from objective_oracles import estimates

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import Examples, Loss, Penalty, Record, make_examples
from logsuper.learning._smooth import minimize


class Quadratic:
    """A loss with curvatures from 1e-2 to 1e4, the optimum of some parameters out of bounds."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 2, (3, 2, 3))
        z = 1 - x
        self.examples: Examples = make_examples(
            ls.grid_cuts((2, 3)), labels=x, observed=z, channel=ls.Flips(0.2), scale=True
        )
        size = self.examples.layout.size
        rotation = np.linalg.qr(rng.normal(size=(size, size)))[0]
        mixed = rotation @ np.diag(rng.uniform(0.5, 2.0, size)) @ rotation.T
        root = np.sqrt(np.r_[1e4, 1e3, np.full(6, 1e-2), 10.0])
        self.H = root[:, None] * mixed * root
        self.center = rng.normal(size=size)
        self.center[0] = -1.0

    def loss(self, theta: np.ndarray) -> Loss:
        off = theta - self.center
        return Loss(0.5 * float(off @ self.H @ off), 0.0, self.H @ off, 5)


def penalty_of(problem: Quadratic) -> Penalty:
    return Penalty.of(problem.examples.layout, alpha=0.1, modular=1e-3, scale=1.0)


def test_optimum_under_bounds(seed: int) -> None:
    problem = Quadratic(seed)
    penalty = penalty_of(problem)
    found = minimize(problem, penalty, tol=1e-6)
    gradient = problem.loss(found.theta).gradient + penalty.gradient(found.theta)
    lower = problem.examples.layout.lower
    free = found.theta > lower
    assert found.converged
    assert np.all(found.theta >= lower)
    assert np.all(np.abs(gradient[free]) <= 1e-6 * np.sqrt(4e4))
    assert np.all(gradient[~free] >= 0)
    assert len(found.history) < 60


@pytest.mark.parametrize(
    ("value", "slope"), [(np.inf, 0.0), (-np.inf, 0.0), (np.nan, 1.0), (1.0, np.nan), (1.0, np.inf)]
)
def test_refuses_a_start_that_is_not_finite(value: float, slope: float) -> None:
    class Broken(Quadratic):
        def loss(self, theta: np.ndarray) -> Loss:
            gradient = np.zeros(len(theta))
            gradient[1] = slope
            return Loss(value, 0.0, gradient, 1)

    problem = Broken(0)
    count = int(not np.isfinite(slope))
    message = f"objective is {value:g} at the start, with {count} entries .*; start from smaller"
    with pytest.raises(ValueError, match=message):
        minimize(problem, penalty_of(problem))


def test_an_end_that_is_not_finite_is_no_convergence() -> None:
    class Cliff(Quadratic):
        """Falls for ever, and reaches minus infinity at the first step."""

        def loss(self, theta: np.ndarray) -> Loss:
            far = theta[-1] > 1.5  # the weight of the log-odds starts at 1
            gradient = np.zeros(len(theta))
            gradient[-1] = 0.0 if far else -1.0
            return Loss(-np.inf if far else -theta[-1], 0.0, gradient, 1)

    problem = Cliff(0)
    with pytest.warns(ConvergenceWarning):
        found = minimize(problem, Penalty.of(problem.examples.layout), max_iter=5)
    assert not found.converged


def test_history_ends_at_the_result(seed: int) -> None:
    problem = Quadratic(seed)
    penalty = penalty_of(problem)
    seen: list[Record] = []
    found = minimize(problem, penalty, callback=seen.append)
    seen = estimates(seen)
    assert tuple(seen) == found.history
    assert [record.step for record in seen] == list(range(len(seen)))
    last = problem.loss(found.theta).value + penalty.value(found.theta)
    assert found.history[-1].objective == pytest.approx(last, rel=1e-12)
    assert found.history[-1].cuts == 5 * found.details["evaluations"]
    objective = [record.objective for record in seen]
    assert all(b <= a + 1e-12 * abs(a) for a, b in itertools.pairwise(objective))


def test_start_at_the_optimum_stays(seed: int) -> None:
    problem = Quadratic(seed)
    penalty = penalty_of(problem)
    found = minimize(problem, penalty)
    again = minimize(problem, penalty, start=found.theta)
    assert again.converged
    assert len(again.history) == 1
    assert np.array_equal(again.theta, found.theta)


def test_warns_when_it_must_stop() -> None:
    problem = Quadratic(0)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        found = minimize(problem, penalty_of(problem), max_iter=2)
    assert not found.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minimize(problem, penalty_of(problem), start=found.theta)


def test_callback_ends_the_fit() -> None:
    def stop(record: Record) -> None:
        if record.step == 2:
            raise KeyboardInterrupt

    problem = Quadratic(0)
    with pytest.raises(KeyboardInterrupt):
        minimize(problem, penalty_of(problem), callback=stop)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tol": 0.0}, "tol = 0 must be positive"),
        ({"tol": float("nan")}, "tol"),
        ({"max_iter": -1}, "max_iter"),
        ({"start": np.zeros(3)}, r"start must have shape \(9,\)"),
        ({"start": np.full(9, np.inf)}, r"start\[0\]"),
    ],
)
def test_bad_arguments(change: dict[str, object], message: str) -> None:
    problem = Quadratic(0)
    with pytest.raises(ValueError, match=message):
        minimize(problem, penalty_of(problem), **change)  # type: ignore[arg-type]
