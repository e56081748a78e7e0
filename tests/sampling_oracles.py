"""The law of a model by enumeration, whether samples have it, and which kernels they come from."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
from oracles import brute_log_partition, enumerate_x
from scipy.stats import chisquare

from logsuper.functions import Evaluated, SubmodularFunction
from logsuper.functions._sum import split_modular
from logsuper.sampling._scan import GenericScan


def law(f: SubmodularFunction) -> np.ndarray:
    """Return the probabilities of all states, in the order of `enumerate_x`."""
    return np.exp(-f(enumerate_x(f.n)) - brute_log_partition(f))


def p_value(X: np.ndarray, f: SubmodularFunction) -> float:
    """Return the p-value of the chi-square test; rare states are pooled."""
    assert X.dtype == np.uint8 and X.max(initial=0) <= 1
    expected = law(f) * len(X)
    found = np.bincount(X @ (1 << np.arange(f.n)), minlength=2**f.n).astype(float)
    rare = expected < 5.0
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        found = np.append(found[~rare], found[rare].sum())
    if expected[-1] < 1.0:  # even together they should not be seen
        assert found[-1] < 12
        expected, found = expected[:-1], found[:-1]
    if len(expected) == 1:
        return 1.0
    return float(chisquare(found, expected * found.sum() / expected.sum()).pvalue)


def slow_scan(f: SubmodularFunction) -> GenericScan:
    """Return sweeps that evaluate f anew for each gain, whatever is known of it."""
    g, t = split_modular(f)
    return GenericScan(g, t, [(1.0, Evaluated(g))])


# -------------------------------------------------------------------------------------- kernels

BUILDS = {"baseline": "logsuper._kernels", "avx2": "logsuper._kernels_avx2", "numpy": None}


def load(build: str) -> ModuleType | None:
    """Return a build of the kernels, None for NumPy; skip the test where it cannot run."""
    name = BUILDS[build]
    if name is None:
        return None
    try:
        if build == "avx2" and not importlib.import_module("logsuper._kernels").has_avx2():
            pytest.skip("this processor has no AVX2")
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"the compiled kernels ({build}) are not available")


def use(monkeypatch: pytest.MonkeyPatch, build: str) -> None:
    module = load(build)
    for user in ("_scan", "_swendsen_wang"):
        monkeypatch.setattr(f"logsuper.sampling.{user}.kernels", lambda: module)
