import warnings

import pytest
from denoisers import make_pairs, quick

import logsuper as ls


@pytest.fixture
def stopped_early():
    """Small problems with few steps: whether they converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(24)


@pytest.fixture(scope="module")
def fitted(pairs):
    noisy, clean = pairs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        return quick(noise=0.1, context=2).fit(noisy[:20], clean[:20])
