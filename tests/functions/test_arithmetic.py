"""Sums, weights, and what cannot be added."""

import numpy as np
import pytest
from oracles import enumerate_x, random_cut

from logsuper.functions import ConcaveCardinality, Cut, LogDet, Modular, Sum, grid_cuts

CUT = Cut(3, [(0, 1), (1, 2)])
COUNT = ConcaveCardinality([0.0, 2.0, 3.0, 3.0])
X = enumerate_x(3)


def test_sums_are_flat():
    f = 2.0 * (CUT + 3.0 * COUNT) + CUT - Modular([1.0, 2.0, 3.0]) - Modular([1.0, 0.0, 0.0])
    np.testing.assert_allclose(f(X), 3 * CUT(X) + 6 * COUNT(X) - X @ [2.0, 2.0, 3.0])
    weights, atoms = zip(*f.terms(), strict=True)
    assert weights == (3.0, 6.0, 1.0)
    assert atoms[:2] == (CUT, COUNT)
    assert atoms[2].t.tolist() == [-2.0, -2.0, -3.0]
    assert repr(f) == "3 * Cut(n=3, edges=2) + 6 * ConcaveCardinality(n=3) + Modular(n=3)"


def test_numpy_numbers_and_sum_work():
    assert (np.float64(2.0) * CUT).terms() == ((2.0, CUT),)
    assert (CUT * np.int32(2)).terms() == ((2.0, CUT),)
    total = sum(w * f for w, f in zip(np.array([1.0, 2.0]), grid_cuts((2, 2)), strict=True))
    assert [w for w, _ in total.terms()] == [1.0, 2.0]


def test_the_simplest_form_is_kept():
    assert 1.0 * CUT is CUT
    assert isinstance(Modular([1.0]) + Modular([2.0]), Modular)
    assert (CUT + Modular(np.zeros(3))) is CUT
    assert isinstance(0.0 * CUT, Modular)
    assert (0.0 * LogDet(np.eye(3)) + CUT).graph() is not None


def test_modular_functions_take_any_sign():
    t = Modular([1.0, -2.0])
    assert (-t).t.tolist() == (t * -1).t.tolist() == (-1.0 * t).t.tolist() == [-1.0, 2.0]
    assert (t - t).t.tolist() == [0.0, 0.0]
    assert (Modular([1.0, 1.0, 1.0]) - Modular([0.0, 1.0, 0.0]) + CUT).n == 3


def test_functions_divide_by_a_number():
    f = 3.0 * CUT + COUNT - Modular([1.0, 2.0, 3.0])
    np.testing.assert_allclose((f / 2)(X), f(X) / 2, rtol=1e-15)
    assert (CUT / np.float64(4.0)).terms() == ((0.25, CUT),)
    assert (Modular([1.0, 3.0]) / -2).t.tolist() == [-0.5, -1.5]


def test_greedy_of_a_sum_is_the_sum_of_the_vertices(seed):
    rng = np.random.default_rng(seed)
    f, g = random_cut(rng, 6), ConcaveCardinality(np.sqrt(np.arange(7)))
    w = np.rint(rng.normal(size=6))
    np.testing.assert_allclose((f + 2.0 * g).greedy(w), f.greedy(w) + 2.0 * g.greedy(w))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: -1.0 * CUT, ValueError, r"cannot scale Cut.* by -1: .*supermodular"),
        (lambda: CUT * float("nan"), ValueError, "finite"),
        (lambda: CUT * float("inf"), ValueError, "finite"),
        (lambda: CUT * "2", TypeError, "real number, got str"),
        (lambda: CUT * True, TypeError, "real number, got bool"),
        (lambda: np.ones(2) * CUT, TypeError, "real number, got ndarray"),
        (lambda: CUT * COUNT, TypeError, "product of two"),
        (lambda: CUT - COUNT, TypeError, "only a Modular can be subtracted"),
        (lambda: CUT - 1.0, TypeError, "unsupported operand"),
        (lambda: CUT + 1.0, TypeError, "unsupported operand"),
        (lambda: 1.0 + CUT, TypeError, "unsupported operand"),
        (lambda: CUT + Modular([1.0]), ValueError, "cannot add functions on 3 and 1 elements"),
        (lambda: CUT - Modular([1.0]), ValueError, "cannot add functions on 3 and 1 elements"),
        (lambda: Sum([(1, CUT), (1, Modular([1.0]))]), ValueError, r"terms\[1\] has n = 1.* n = 3"),
        (
            lambda: Sum(CUT),
            TypeError,
            r"terms must be a list of \(weight, function\) pairs, got Cut",
        ),
        (lambda: -CUT, TypeError, "cannot negate Cut.*supermodular"),
        (lambda: -(CUT + COUNT), TypeError, "supermodular"),
        (lambda: CUT / 0.0, ValueError, "cannot divide Cut.* by 0: it must be positive"),
        (lambda: CUT / -2.0, ValueError, "cannot divide Cut.* by -2: it must be positive"),
        (lambda: CUT / COUNT, TypeError, "the divisor of a function must be a real number"),
        (lambda: Modular([1.0]) / 0, ValueError, "cannot divide Modular.* by 0"),
        (lambda: Sum([]), ValueError, "at least one term"),
        (lambda: Sum([(1.0, CUT), (-2.0, COUNT)]), ValueError, r"terms\[1\] has the weight -2"),
        (lambda: Sum([(1.0, np.sum)]), TypeError, r"terms\[0\] holds a"),
        (lambda: Sum([CUT]), TypeError, r"terms\[0\] must be a \(weight, function\) pair"),
        (lambda: Modular([1.0]) * "a", TypeError, "real number"),
    ],
)
def test_what_would_not_be_submodular_is_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()
