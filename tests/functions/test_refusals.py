"""Bad input: one clear error that names the argument and the index."""

import math

import numpy as np
import pytest

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    FacilityLocation,
    GaussianInformation,
    LogDet,
    Modular,
    PnPotts,
    RobustPn,
    SetFunction,
    check_submodular,
    grid_cuts,
)

F = Cut(3, [(0, 1), (1, 2)])
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        # the ground set
        (lambda: Cut(-1, []), ValueError, "n must be at least 0"),
        (lambda: Cut(2.5, []), TypeError, "n must be an integer"),
        (lambda: Cut(10**30, []), ValueError, r"n must be below 2\*\*31.*, got 10{30}$"),
        (lambda: Cut.directed(10**30, [(0, 1)]), ValueError, r"n must be below 2\*\*31"),
        (lambda: ConcaveCardinality([0.0], 2**31), ValueError, r"n must be below 2\*\*31"),
        (lambda: PnPotts(2**63, [[0, 1]]), ValueError, r"n must be below 2\*\*31"),
        (lambda: SetFunction(len, 10**30), ValueError, r"n must be below 2\*\*31"),
        (lambda: grid_cuts((10**30, 2)), ValueError, r"shape\[0\] must be below 2\*\*31"),
        (lambda: grid_cuts((10**9,) * 3), ValueError, r"2\*\*59 elements or more"),
        # Modular
        (lambda: Modular([0.0, NAN]), ValueError, r"t\[1\] = nan is not finite"),
        (lambda: Modular([[1.0]]), ValueError, "t must be one-dimensional"),
        (lambda: Modular(["a"]), TypeError, "t must hold real numbers"),
        (lambda: Modular([1j]), TypeError, "t must hold real numbers"),
        (lambda: Modular([[1.0], [1.0, 2.0]]), ValueError, "rectangular"),
        # Cut
        (lambda: Cut(3, [(0, 3)]), ValueError, r"edges\[0, 1\] = 3 is outside"),
        (lambda: Cut(3, [(0, 1), (-1, 2)]), ValueError, r"edges\[1, 0\] = -1 is outside"),
        (lambda: Cut(3, [(0, 1), (2, 2)]), ValueError, r"edges\[1\] joins element 2 to itself"),
        (lambda: Cut(3, [(0, 1, 2)]), ValueError, r"shape \(E, 2\)"),
        (lambda: Cut(3, [(0.0, 1.0)]), TypeError, "integer indices"),
        (lambda: Cut(3, [(0, 1)], [1.0, 2.0]), ValueError, r"weights must be .* \(1,\)"),
        (lambda: Cut(3, [(0, 1)], NAN), ValueError, "weights = nan is not finite"),
        (lambda: Cut(3, [(0, 1)], INF), ValueError, "weights = inf is not finite"),
        (
            lambda: Cut(3, [(0, 1), (1, 2)], [1.0, -0.5]),
            ValueError,
            r"weights\[1\] = -0.5 is negative: the edge \(1, 2\) would be repulsive",
        ),
        (lambda: Cut.directed(3, [(0, 1)], -1.0), ValueError, r"weights\[0\] = -1 is negative"),
        # grids
        (lambda: grid_cuts((2, 2), 5), ValueError, "neighbors must be one of 4, 8"),
        (lambda: grid_cuts((2, 2, 2, 2)), ValueError, "one to three axes"),
        (lambda: grid_cuts((2, 0)), ValueError, r"shape\[1\] is 0"),
        (lambda: grid_cuts((2, 2.0)), TypeError, r"shape\[1\] must be an integer"),
        (lambda: grid_cuts((2, 2), spacing=(1.0, 0.0)), ValueError, r"spacing\[1\] .*positive"),
        (lambda: grid_cuts((2, 2), spacing=5e-324), ValueError, "spacing puts .* rescale"),
        (lambda: grid_cuts((2, 2), 8, [1.7e308] * 2), ValueError, "spacing puts .* rescale"),
        (lambda: grid_cuts((2, 2))[0].with_weights(-1.0), ValueError, "weights = -1 is negative"),
        (lambda: grid_cuts((2, 2))[0].with_weights([1.0] * 3), ValueError, r"of shape \(2,\)"),
        (lambda: grid_cuts((2, 2), spacing=(1.0,)), ValueError, "spacing must be"),
        (lambda: grid_cuts(5), TypeError, "shape must be a sequence .* got int"),
        (lambda: Cut(3, [(0, 1), (2,)]), ValueError, "edges must be a rectangular"),
        # cardinality
        (lambda: ConcaveCardinality([0.0, 1.0, 4.0]), ValueError, r"not concave at 1: g\(1\) = 1"),
        (lambda: ConcaveCardinality([]), ValueError, "at least the value at 0"),
        (lambda: ConcaveCardinality([0.0, NAN]), ValueError, r"g\[1\] = nan"),
        (lambda: ConcaveCardinality(math.sqrt), ValueError, "n is needed"),
        (lambda: ConcaveCardinality([0.0, 1.0], n=4), ValueError, "g must have 5 values"),
        (lambda: ConcaveCardinality([0.0, 1.0], n=4, subset=[4]), ValueError, r"subset\[0\] = 4"),
        (lambda: ConcaveCardinality([0.0, 1.0, 1.0], 4, [1, 1]), ValueError, "contains 1 twice"),
        # concave of modular
        (lambda: ConcaveOfModular(np.sqrt, [1.0, -1.0]), ValueError, r"w\[1\] = -1 is negative"),
        (lambda: ConcaveOfModular(np.square, [1.0, 2.0]), ValueError, "g is not concave at 1"),
        (lambda: ConcaveOfModular(np.square, np.full(50, 0.3)), ValueError, "g is not concave"),
        (lambda: ConcaveOfModular(lambda v: NAN, [1.0]), ValueError, r"g\(0\) = nan"),
        (lambda: ConcaveOfModular(3.0, [1.0]), TypeError, "callable or a pair"),
        (lambda: ConcaveOfModular(([0, 1], [0, 1]), [1.0, 1.0]), ValueError, r"cover \[0, 2\]"),
        (lambda: ConcaveOfModular(([0, 1, 2], [0, 1, 3]), [1.0, 1.0]), ValueError, "not concave"),
        (lambda: ConcaveOfModular(([0, 2, 1], [0, 1, 1]), [1.0]), ValueError, "must increase"),
        (lambda: ConcaveOfModular(([0, 2], [0.0]), [1.0]), ValueError, "as many values"),
        # coverage and facility location
        (lambda: Coverage([[0], [1]], [1.0, -1.0]), ValueError, r"weights\[1\] = -1 is negative"),
        (lambda: Coverage([[0], [2]], [1.0, 1.0]), ValueError, r"sets\[1\]\[0\] = 2 is outside"),
        (lambda: Coverage([[0, 0]]), ValueError, r"sets\[0\] contains 0 twice"),
        (lambda: Coverage([[0, -1]]), ValueError, r"sets\[0\]\[1\] = -1 is outside"),
        (lambda: FacilityLocation([[1.0, -1.0]]), ValueError, r"benefits\[0, 1\] = -1"),
        (lambda: FacilityLocation([1.0]), ValueError, "benefits must have shape"),
        (lambda: Coverage(None), TypeError, "sets must be a list of lists .* got NoneType"),
        (lambda: Coverage([["a"]]), TypeError, r"sets\[0\] must hold integer indices"),
        (lambda: Coverage([{0, "a"}]), TypeError, r"sets\[0\] must hold integer indices"),
        (lambda: Coverage(np.array([[1, 0], [1, 1]])), ValueError, "pass a boolean matrix"),
        # hyperedges
        (lambda: PnPotts(4, 3), TypeError, "members must be a list of elements .* got int"),
        (lambda: RobustPn(4, 3, 1.0), TypeError, "members must be a list of elements .* got int"),
        (
            lambda: RobustPn(3, [0, 1], 1.0, side=np.array([0, 1])),
            ValueError,
            "side must be 0 or 1",
        ),
        (lambda: RobustPn(3, [[0], [1]], 1.0, None), TypeError, "weights must be a number or"),
        (lambda: PnPotts(3, [[0, 1], [1, 3]]), ValueError, r"members\[1\]\[1\] = 3 is outside"),
        (lambda: PnPotts(3, [[0, 1], [1, 2]], [1.0, -1.0]), ValueError, r"weight\[1\] = -1"),
        (lambda: PnPotts(3, [0, 0]), ValueError, "members contains 0 twice"),
        (lambda: RobustPn(3, [0, 1], -1.0), ValueError, r"threshold\[0\] = -1"),
        (lambda: RobustPn(3, [0, 1], 1.0, [1.0, -1.0]), ValueError, r"weights\[1\] = -1"),
        (lambda: RobustPn(3, [[0], [1, 2]], 1.0, [1.0, [1.0, -2.0]]), ValueError, r"\[1\]\[1\]"),
        (lambda: RobustPn(3, [[0], [1, 2]], 1.0, [1.0]), ValueError, "weights must have 2 parts"),
        (lambda: RobustPn(3, [0, 1], 1.0, side=2), ValueError, "side must be 0 or 1"),
        # kernels
        (lambda: LogDet([[1.0, 2.0], [2.0, 1.0]]), ValueError, "smallest eigenvalue is -1"),
        (lambda: LogDet(np.ones((2, 2))), ValueError, "positive definite"),
        (lambda: LogDet([[1.0, 0.5], [0.0, 1.0]]), ValueError, r"symmetric: K\[0, 1\] = 0.5"),
        (lambda: LogDet(np.ones((2, 3))), ValueError, "square"),
        (lambda: GaussianInformation(-np.eye(2)), ValueError, "positive definite"),
        # callables
        (lambda: SetFunction(3, 2), TypeError, "must be callable"),
        (lambda: SetFunction(lambda x: x.sum() ** 2, 3), ValueError, "elements 0 and 1 gain 2"),
        (lambda: SetFunction(lambda x: NAN, 2), ValueError, r"nan at x = \[0, 0\]"),
        (lambda: SetFunction(lambda X: 1.0, 2, vectorized=True), ValueError, r"shape \(1,\)"),
        (lambda: SetFunction(lambda x: None, 3), TypeError, r"None at x = \[0, 0, 0\]; it must"),
        (lambda: SetFunction(lambda x: "a", 2), TypeError, r"returned 'a' at x = \[0, 0\]"),
        (lambda: SetFunction(lambda x: "1.5", 2), TypeError, r"returned '1.5' at x = \[0, 0\]"),
        (lambda: SetFunction(lambda X: "a", 2, vectorized=True), TypeError, "return 1 numbers"),
        (lambda: check_submodular(F, n_samples=-1), ValueError, "n_samples must be at least 0"),
        (lambda: check_submodular(F, tol=-1), ValueError, "tol must be at least 0, got -1"),
        (lambda: check_submodular(np.sum), TypeError, "wrap a callable in SetFunction"),
    ],
)
def test_construction(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("call", [F, F.gains], ids=["f", "gains"])
@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ([0, 2, 1], ValueError, r"X\[1\] = 2 is neither 0 nor 1"),
        ([[0, 0, 1], [0, 0, -1]], ValueError, r"X\[1, 2\] = -1 is neither"),
        ([0.0, 0.5, 1.0], ValueError, r"X\[1\] = 0.5 is neither"),
        ([0.0, NAN, 1.0], ValueError, r"X\[1\] = nan is neither"),
        ([0, 1], ValueError, r"shape \(\.\.\., 3\), got \(2,\)"),
        (1, ValueError, r"shape \(\.\.\., 3\), got \(\)"),
        (["0", "1", "1"], TypeError, "X must hold real numbers"),
        (np.ma.masked_array([0, 1, 1], [0, 1, 0]), ValueError, "X has masked entries"),
    ],
)
def test_points(call, X, error, match):
    with pytest.raises(error, match=match):
        call(X)


@pytest.mark.parametrize("call", [F.greedy, F.lovasz], ids=["greedy", "lovasz"])
@pytest.mark.parametrize(
    ("w", "match"),
    [
        ([0.0, NAN, 1.0], r"w\[1\] = nan is not finite"),
        ([0.0, INF, 1.0], r"w\[1\] = inf is not finite"),
        ([0.0, 1.0], r"w must have shape \(\.\.\., 3\)"),
    ],
)
def test_fields(call, w, match):
    with pytest.raises(ValueError, match=match):
        call(w)


@pytest.mark.parametrize(
    ("fixed", "error", "match"),
    [
        ({3: 1}, ValueError, r"key 3, outside the ground set \[0, 3\)"),
        ({-1: 1}, ValueError, "key -1, outside"),
        ({0: 2}, ValueError, r"fixed\[0\] = 2 is neither 0 nor 1"),
        ({0: NAN}, ValueError, r"fixed\[0\] = nan is neither"),
        ({0: np.array([1, 0])}, ValueError, r"fixed\[0\] = array.* is neither 0 nor 1"),
        ({0.0: 1}, TypeError, "key 0.0, which is not an element"),
        ([(0, 1)], TypeError, "fixed must map elements"),
    ],
)
def test_fixed_values(fixed, error, match):
    with pytest.raises(error, match=match):
        F.condition(fixed)


def test_rounding_is_not_taken_for_convexity():
    ConcaveCardinality(0.1 * np.arange(1000))
    ConcaveCardinality(1e9 + 0.1 * np.arange(100))
    ConcaveOfModular(np.sqrt, np.full(9, 0.1))
    ConcaveOfModular(lambda v: -0.3 * v, np.random.default_rng(0).random(10))
    ConcaveOfModular(lambda k: (0, 3, 5, 6)[int(min(k, 3))], np.ones(30))  # concave where it counts
