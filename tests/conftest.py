"""Settings and fixtures shared by all tests."""

import sys
import warnings

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-kernels",
        action="store_true",
        default=False,
        help="behave as if the compiled kernels had not been built",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The default is for runs that load this file late, after the command line has been read.
    if config.getoption("--no-kernels", default=False):
        for name in ("logsuper._kernels", "logsuper._kernels_avx2"):
            sys.modules[name] = None  # type: ignore[assignment]  # importing it now fails
    from logsuper.solvers._native import kernels

    with warnings.catch_warnings():
        # Without kernels there is one warning, which test_kernels.py looks at.
        warnings.simplefilter("ignore", RuntimeWarning)
        kernels()
