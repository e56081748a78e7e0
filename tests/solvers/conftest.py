"""Which max-flow the solver tests run on: the compiled kernels (both builds), or scipy's."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

KERNELS = {"baseline": "logsuper._kernels", "avx2": "logsuper._kernels_avx2"}


def load(name: str) -> ModuleType | None:
    """Return one of the two builds, None if it is absent or this processor cannot run it."""
    try:
        if not importlib.import_module(KERNELS["baseline"]).has_avx2() and name == "avx2":
            return None
        return importlib.import_module(KERNELS[name])
    except ImportError:
        return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        names = [name for name in KERNELS if load(name) is not None]
        metafunc.parametrize("engine", [*names, "scipy"], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test on every max-flow there is: both builds of the kernels, and scipy."""
    module = None if request.param == "scipy" else load(request.param)
    for user in ("_flow", "_parametric"):
        monkeypatch.setattr(f"logsuper.solvers.{user}.kernels", lambda: module)
    return str(request.param)


@pytest.fixture(params=list(KERNELS))
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run a test on both builds of the compiled kernels; skip it where there are none."""
    module = load(request.param)
    if module is None:
        pytest.skip(f"the compiled kernels ({request.param}) are not available")
    for user in ("_flow", "_parametric"):
        monkeypatch.setattr(f"logsuper.solvers.{user}.kernels", lambda: module)
    return module


@pytest.fixture
def seeds(engine: str) -> tuple[int, ...]:
    """Several seeds, so that no test leans on a lucky one; one for scipy next to the kernels."""
    return (0,) if engine == "scipy" and load("baseline") is not None else (0, 1, 2)
