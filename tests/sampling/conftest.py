"""Which kernels the tests of the samplers run on."""

from __future__ import annotations

import pytest
from sampling_oracles import BUILDS, use


@pytest.fixture(params=list(BUILDS))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test on both builds of the kernels, and on NumPy."""
    use(monkeypatch, request.param)
    return str(request.param)
