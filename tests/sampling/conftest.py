"""Which kernels the tests of the samplers run on."""

from __future__ import annotations

import warnings

import pytest
from sampling_oracles import BUILDS, use

from logsuper.solvers._native import kernels


def pytest_configure() -> None:
    with warnings.catch_warnings():
        # without kernels there is one warning, which the tests of the solvers look at
        warnings.simplefilter("ignore", RuntimeWarning)
        kernels()


@pytest.fixture(params=list(BUILDS))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test on both builds of the kernels, and on NumPy."""
    use(monkeypatch, request.param)
    return str(request.param)
