"""Settings and fixtures shared by all tests."""

import gc
import os
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

# Tests run side by side: threads of BLAS would only wait for each other. Before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
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


def _data(name: str) -> Path:
    """Return a folder of public data that is not part of the project; skip where it is absent."""
    folder = Path(os.environ.get("LOGSUPER_DATA", "absent")) / name
    if not folder.is_dir():
        pytest.skip(f"the folder LOGSUPER_DATA has no {name}")
    return folder


@pytest.fixture
def traced() -> Callable[[Callable[[], object]], int]:
    """Return what runs a function and says how many bytes it had in use at its peak."""

    def measure(work: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


@pytest.fixture(scope="module")
def few_trees() -> Iterator[None]:
    """Grow 20 trees where experiments grow 200, and denoisers 10: enough for all but figures."""
    from logsuper.estimators import _blind_spot
    from logsuper.experiments import _baselines

    trees = _baselines.HistGradientBoostingClassifier
    few = trees(max_iter=10, early_stopping=False, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blind_spot, "trees", lambda seed: few)
        patch.setattr(
            _baselines,
            trees.__name__,
            lambda **options: trees(**{**options, "max_iter": 20}),
        )
        yield


@pytest.fixture(scope="session")
def uai2014() -> Path:
    """The folder with models of the UAI 2014 inference competition and their answers."""
    return _data("uai2014")


@pytest.fixture(scope="session")
def horses() -> np.ndarray:
    """Ten silhouettes of the Weizmann horses, 50 x 50."""
    from benchmarks.images import load_silhouettes

    return load_silhouettes(_data("weizmann_horse_db").parent, 10)


LONG = (
    "test_pages", "test_examples", "test_fuzz", "test_browser", "test_noise_level",
    "test_reproduce", "test_logistic", "test_demo", "test_kernels", "test_select", "test_package",
    "test_cluster", "test_hierarchy", "test_doubts", "test_min_norm", "test_ten_thousand",
    "test_moments", "test_table1", "test_power",
)  # fmt: skip
"""Files that take longest: they start first, so that no processor waits for one at the end."""


# What is made while tests are collected stays: no need to look for garbage in it, again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONG)))


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
