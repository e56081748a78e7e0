"""check_submodular finds what is wrong, and counts what it looked at."""

import numpy as np
import pytest

from logsuper.functions import (
    ConcaveCardinality,
    Cut,
    Modular,
    SetFunction,
    SubmodularFunction,
    check_submodular,
)


def bad_pair(x):
    """Submodular but for one pair: 4 and 7 attract each other only when 2 is on."""
    return float(np.sqrt(x.sum())) * 0.5 + 2.0 * float(x[2] * x[4] * x[7])


@pytest.mark.parametrize("n", [8, 12, 14, 30])
def test_a_violated_pair_is_found_and_true(n):
    f = SetFunction(bad_pair, n, check=False)
    report = check_submodular(f, n_samples=500)
    assert not report
    x, i, j, amount = report.violated
    assert {i, j} < {2, 4, 7}
    assert x[i] == x[j] == 0
    corners = np.repeat(x[None], 4, axis=0)
    corners[[1, 3], i] = 1
    corners[[2, 3], j] = 1
    none, one, other, both = f(corners)
    assert both + none - one - other == pytest.approx(amount)
    assert amount > 1.0
    assert report.exhaustive == (n <= 12)
    assert f"elements {i} and {j}" in repr(report)


def test_the_worst_pair_is_reported():
    f = SetFunction(lambda x: 1.0 * x[0] * x[1] + 3.0 * x[1] * x[2], 4, check=False)
    assert check_submodular(f).violated[1:] == (1, 2, 3.0)


def test_pairs_are_counted():
    assert check_submodular(Modular(np.ones(5))).pairs_checked == 10 * 2**3
    assert check_submodular(Modular(np.ones(40)), n_samples=77).pairs_checked == 77
    assert check_submodular(Modular([1.0])).pairs_checked == 0
    assert "no violation found in 77 pairs (sampled)" in repr(
        check_submodular(Cut(40, [(0, 1)]), n_samples=77)
    )


def test_rounding_is_not_a_violation(seed):
    rng = np.random.default_rng(seed)
    assert check_submodular(Modular(1e6 * rng.normal(size=10)))
    assert check_submodular(1e-9 * ConcaveCardinality(np.sqrt(np.arange(31))))


def test_small_functions_are_judged_by_their_own_scale():
    assert not check_submodular(SetFunction(lambda x: 1e-12 * x.all(), 2, check=False))


def test_the_same_seed_looks_at_the_same_pairs():
    f = SetFunction(bad_pair, 20, check=False)
    a, b = (check_submodular(f, n_samples=300, seed=5).violated for _ in range(2))
    assert a[1:] == b[1:]
    np.testing.assert_array_equal(a.x, b.x)


def test_a_small_violation_of_a_large_function_is_still_found():
    f = SetFunction(lambda x: float(x.sum()) + 1e-7 * float(x[0] * x[1]), 6, check=False)
    assert check_submodular(f).violated.amount == pytest.approx(1e-7, rel=1e-6)
    assert check_submodular(f, tol=1e-6)


class Shifted(SubmodularFunction):
    """A count plus a constant, which no function of the library may have."""

    def __init__(self, n, shift):
        self.n = n
        self.shift = shift

    def _evaluate(self, X):
        return X.sum(axis=1) + self.shift


@pytest.mark.parametrize("n", [1, 4, 20])
def test_a_function_that_is_not_0_at_0_is_refused(n):
    assert check_submodular(Shifted(n, 0.0))
    assert check_submodular(Shifted(n, 1e-13))
    with pytest.raises(ValueError, match=r"f is 2.5 at 0 and must be 0 there.*Shifted"):
        check_submodular(Shifted(n, 2.5))
