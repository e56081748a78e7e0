"""Features of the observations around a pixel, against one loop a pixel."""

import itertools

import numpy as np
import pytest

from logsuper.learning import _features
from logsuper.learning._features import Context
from logsuper.solvers._native import kernels

CASES = [((7,), 2), ((1, 1), 1), ((4, 9), 1), ((6, 5), 2), ((3, 20), 4), ((3, 4, 5), 1)]


def neighbours(context: Context, odds: np.ndarray) -> np.ndarray:
    """Return the features (B, n, p), one pixel at a time."""
    images = np.tanh(odds.reshape(-1, *context.shape) / 2)
    reach = range(-context.radius, context.radius + 1)
    steps = [s for s in itertools.product(reach, repeat=len(context.shape)) if any(s)]
    found = np.zeros((len(odds), odds.shape[1], len(steps)))
    for d, place in enumerate(np.ndindex(context.shape)):
        for k, step in enumerate(steps):
            at = tuple(np.add(place, step))
            if all(0 <= a < size for a, size in zip(at, context.shape, strict=True)):
                found[:, d, k] = images[:, *at]
    return found


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("shape", "radius"), CASES)
def test_context_is_a_window_without_its_middle(shape, radius, native, seed, monkeypatch):
    if native and kernels() is None:
        pytest.skip("the kernels are not built")
    if not native:
        monkeypatch.setattr(_features, "kernels", lambda: None)
    rng = np.random.default_rng(seed)
    context = Context(shape, radius)
    odds = 3.0 * rng.standard_normal((3, int(np.prod(shape))))
    odds[0, 0], odds[1, 0] = np.inf, 0.0  # no doubt, not observed
    phi = neighbours(context, odds)
    beta, mean = rng.standard_normal(context.size), rng.random(odds.shape)
    rows = np.arange(3)
    assert phi.shape[2] == context.size
    inputs = context.inputs(rows, odds)
    np.testing.assert_allclose(context.field(inputs, beta), phi @ beta, atol=1e-12)
    sums = np.einsum("bdp,bd->bp", phi, mean)
    np.testing.assert_allclose(context.statistics(inputs, mean), sums, atol=1e-12)


def test_kernels_refuse_margins_that_do_not_fit():
    native = kernels()
    if native is None:
        pytest.skip("the kernels are not built")
    padded, inner = np.zeros((2, 1, 6, 7)), np.zeros((2, 1, 4, 5))
    native.filter_field(padded, np.zeros((1, 3, 3)), inner)
    for wrong in (np.zeros((1, 3, 5)), np.zeros((1, 2, 3)), np.zeros((3, 3, 3)), np.zeros((3, 3))):
        with pytest.raises(ValueError):
            native.filter_field(padded, wrong, inner)
    with pytest.raises(ValueError):
        native.filter_field(padded[:1], np.zeros((1, 3, 3)), inner)
    with pytest.raises(ValueError):
        native.filter_sums(padded, inner, np.zeros((1, 1, 3, 3)))
