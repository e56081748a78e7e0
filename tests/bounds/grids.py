"""Random image grids, and the builds that their transfer matrices run on."""

from __future__ import annotations

import importlib

import numpy as np
import oracles
import pytest

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.solvers._native import kernels

ENGINES = ["baseline", "avx2", "numpy"]
SHAPES = [(1, 1), (1, 2), (2, 1), (1, 7), (7, 1), (2, 2), (3, 4), (4, 3), (2, 6), (6, 2)]


def use_engine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Run the windows on one build of the kernels, or without them."""
    module = None
    if name != "numpy":
        if kernels() is None:
            pytest.skip("the compiled kernels are not available")
        baseline = importlib.import_module("logsuper._kernels")
        if name == "avx2" and not baseline.has_avx2():
            pytest.skip("this processor has no AVX2")
        module = (
            baseline if name == "baseline" else importlib.import_module("logsuper._kernels_avx2")
        )
    for user in ("_windows", "_transfer"):
        monkeypatch.setattr(f"logsuper.bounds.{user}.kernels", lambda: module)


def random_grid(
    rng: np.random.Generator, shape: tuple[int, int], weight: float = 1.0, field: float = 1.0
) -> SubmodularFunction:
    """Return a grid with a different weight on each edge, a tenth of them 0."""
    total = ls.Modular(field * rng.normal(size=shape[0] * shape[1]))
    for cut in ls.grid_cuts(shape):
        count = len(cut.weights)
        weights = weight * rng.exponential(size=count) * (rng.random(count) < 0.9)
        total = total + cut.with_weights(weights)
    return total


def brute(f: SubmodularFunction) -> tuple[float, np.ndarray]:
    """Return log Z and the probabilities that each element is 1, to the last digits."""
    X = oracles.enumerate_x(f.n)
    values = -f(X)
    weights = np.exp(values - values.max())
    return float(values.max() + np.log(weights.sum())), weights @ X / weights.sum()


def transposed(f: SubmodularFunction, shape: tuple[int, int]) -> SubmodularFunction:
    """Return the function of the transposed image."""
    h, w = shape
    across, down = ls.grid_cuts((w, h))
    parts = {
        atom.offset: weight * atom.weights for weight, atom in f.terms() if hasattr(atom, "offset")
    }
    field = sum(weight * atom.t for weight, atom in f.terms() if isinstance(atom, ls.Modular))
    first = parts.get((0, 1), np.zeros(h * (w - 1))).reshape(h, w - 1).T.ravel()
    second = parts.get((1, 0), np.zeros((h - 1) * w)).reshape(h - 1, w).T.ravel()
    field = (np.zeros(h * w) + field).reshape(h, w).T.ravel()
    return across.with_weights(second) + down.with_weights(first) + ls.Modular(field)
