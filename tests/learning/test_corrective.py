"""The quadratic programme of the corrective step, by its optimality conditions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logsuper.learning._frank_wolfe import FREE, maximize


def check(Q: np.ndarray, b: np.ndarray, owner: np.ndarray, z: np.ndarray) -> None:
    """Assert that z is feasible and that no variable could gain by growing."""
    assert (z >= 0).all()
    slope = b - Q @ z
    scale = 1.0 + np.abs(b).max() + np.abs(Q).max()
    for group in range(int(owner.max()) + 1):
        mine = owner == group
        assert z[mine].sum() == pytest.approx(1.0, abs=1e-12)
        level = slope[mine] @ z[mine]
        assert slope[mine].max() <= level + 1e-7 * scale
    free = owner == FREE
    assert (slope[free] <= 1e-7 * scale).all()
    assert abs(slope[free] @ z[free]) <= 1e-7 * scale


def start(owner: np.ndarray) -> np.ndarray:
    z = np.zeros(len(owner))
    for group in range(int(owner.max()) + 1):
        z[np.flatnonzero(owner == group)[0]] = 1.0
    return z


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 30),
    rank=st.integers(1, 12),
    groups=st.integers(1, 4),
    free=st.integers(0, 3),
    spread=st.floats(0.0, 3.0),
)
def test_optimality(seed: int, size: int, rank: int, groups: int, free: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(groups * size, rank)) * 10.0 ** rng.uniform(-spread, 0.0, rank)
    owner = np.repeat(np.arange(groups), size)
    b = rng.normal(size=len(rows))
    if free:  # multipliers of bounds: minus unit vectors, so that the maximum stays finite
        rows = np.concatenate([rows, -np.eye(rank)[: min(free, rank)]])
        owner = np.append(owner, np.full(min(free, rank), FREE))
        b = np.append(b, -rng.random(min(free, rank)))
    Q = rows @ rows.T
    check(Q, b, owner, maximize(Q, b, owner, start(owner)))


def test_planes_that_repeat_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(4, 3)), 5, axis=0)
    b, owner = np.repeat(rng.normal(size=4), 5), np.zeros(20, dtype=np.int64)
    Q = rows @ rows.T
    check(Q, b, owner, maximize(Q, b, owner, start(owner)))


def test_a_warm_start_ends_where_a_cold_one_does() -> None:
    rng = np.random.default_rng(1)
    rows, b = rng.normal(size=(20, 30)), rng.normal(size=20)
    owner = np.arange(20) % 2
    Q = rows @ rows.T
    cold = maximize(Q, b, owner, start(owner))
    rough = np.full(20, 0.1)
    np.testing.assert_allclose(maximize(Q, b, owner, rough), cold, atol=1e-9)
    np.testing.assert_allclose(maximize(Q, b, owner, cold), cold, atol=1e-12)


def test_no_curvature_is_a_linear_programme() -> None:
    b, owner = np.array([1.0, 3.0, 2.0]), np.zeros(3, dtype=np.int64)
    np.testing.assert_allclose(maximize(np.zeros((3, 3)), b, owner, start(owner)), [0.0, 1.0, 0.0])
