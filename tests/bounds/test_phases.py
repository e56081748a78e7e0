"""Where brackets are wide: two phases against exact marginals, and what users get."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls
from logsuper.bounds import _phases
from logsuper.learning import make_examples, means


def grid(shape: tuple[int, int], coupling: float, t: np.ndarray) -> ls.LogSupermodular:
    across, down = ls.grid_cuts(shape)
    f = coupling * across + coupling * down - ls.Modular(t)
    return ls.LogSupermodular(f, shape=(f.n,))


FIELDS = {
    "none": lambda rng, n: np.zeros(n),
    "of one sign": lambda rng, n: np.full(n, 0.03),
    "that hardly decide": lambda rng, n: np.full(n, 0.002),
    "of both signs": lambda rng, n: 0.3 * rng.normal(size=n),
}


@pytest.mark.parametrize("coupling", [2.0, 4.0])
@pytest.mark.parametrize("fields", FIELDS)
def test_phases_are_near_exact_marginals(fields: str, coupling: float, seed: int) -> None:
    m = grid((12, 30), coupling, FIELDS[fields](np.random.default_rng(seed), 360))
    truth = m.marginals("exact").values
    strips = m.marginals("strips", window=6)
    assert (strips.upper - strips.lower > 0.5).any()  # else there is nothing to test
    found = _phases.settle(m.f, strips)
    assert (found.values >= strips.lower).all() and (found.values <= strips.upper).all()
    assert np.abs(found.values - truth).mean() < 0.01
    if fields != "none":  # where one half happens to be the truth
        assert np.abs(found.values - truth).mean() < np.abs(strips.values - truth).mean()


def test_a_vacuous_bracket_is_no_reason_for_one_half() -> None:
    m = grid((40, 40), 2.0, np.full(1600, 0.05))
    told = "1600 of 1600 marginals are certified only .* than 0.1, 1600 of them wider than 0.5"
    with pytest.warns(UserWarning, match=told):
        found = m.marginals()
    assert (found.upper - found.lower).max() > 0.99
    assert (found.values > 0.97).all() and np.median(found.values) > 0.999
    assert found.details["wide"] == 1600
    assert "known to" in repr(found)
    data = make_examples(
        ls.grid_cuts((40, 40)), observed=np.ones((1, 40, 40)), channel=ls.Flips(0.49),
        modular="none",
    )  # fmt: skip
    with pytest.warns(UserWarning, match=told) as caught:
        assert (means(data, [2.0, 2.0], method="exact") > 0.97).all()
    assert len(caught) == 1 and caught[0].filename == __file__


def test_a_third_phase_between_the_extremes() -> None:
    """Two halves that fields hold apart: neither extreme phase, but the one of the mode."""
    t = np.full((12, 30), -0.25)
    t[:, 15:] = 0.25
    m = grid((12, 30), 2.0, t.ravel())
    truth = m.marginals("exact").values
    strips = m.marginals("strips", window=6)
    assert (strips.upper - strips.lower > 0.5).all()
    found = _phases.settle(m.f, strips).values
    assert np.abs(found - truth).mean() < 0.01 < 0.4 < np.abs(strips.values - truth).mean()


def test_brackets_that_are_not_narrow_are_counted() -> None:
    m = grid((40, 40), 0.8, np.random.default_rng(0).choice([-0.45, 0.45], 1600))
    strips = m.marginals("strips")
    width = strips.upper - strips.lower
    loose, wide = (int((width > at).sum()) for at in (0.1, 0.5))
    assert loose > 0 == wide
    with pytest.warns(UserWarning, match=f"{loose} of 1600 .* 0.1, {wide} of them wider than 0.5"):
        m.marginals()


def test_narrow_brackets_keep_their_middle(seed: int) -> None:
    t = 2.0 * np.random.default_rng(seed).choice([-1.0, 1.0], 900)
    m = grid((30, 30), 0.5, t)
    np.testing.assert_array_equal(m.marginals().values, m.marginals("strips").values)
