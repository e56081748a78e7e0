"""Settings and fixtures shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "logsuper",
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("logsuper")


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"seed{seed}")
def seed(request: pytest.FixtureRequest) -> int:
    """Several seeds, so that no test leans on a lucky one."""
    return int(request.param)
