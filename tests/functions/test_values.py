"""Each family against its formula, written the slow way."""

import math

import numpy as np
import pytest
from oracles import (
    enumerate_x,
    random_concave,
    random_coverage,
    random_cut,
    random_facility,
    random_kernel,
    random_piecewise,
    random_potts,
    random_robust,
    random_subset_cardinality,
)

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
)

N = 6


def assert_equals(f, formula):
    """Compare with a formula that takes the list of elements that are on."""
    for x in enumerate_x(f.n):
        on = np.flatnonzero(x).tolist()
        assert f(x) == pytest.approx(formula(on), abs=1e-10)


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


def test_modular(rng):
    t = rng.normal(size=N)
    assert_equals(Modular(t), lambda on: sum(t[i] for i in on))


def test_cut(rng):
    f = random_cut(rng, N)
    edges = [(i, j, w) for (i, j), w in zip(f.edges.tolist(), f.weights, strict=True)]
    assert_equals(f, lambda on: sum(w for i, j, w in edges if (i in on) != (j in on)))


def test_directed_cut(rng):
    arcs = [(0, 1), (1, 0), (2, 3), (2, 3), (5, 0)]
    weights = rng.exponential(size=5)
    f = Cut.directed(N, arcs, weights)
    pairs = list(zip(arcs, weights, strict=True))
    assert_equals(f, lambda on: sum(w for (i, j), w in pairs if i in on and j not in on))
    assert [type(atom) for _, atom in f.terms()] == [Cut, Modular]


def test_balanced_arcs_are_a_plain_cut():
    f = Cut.directed(2, [(0, 1), (1, 0)], 2.0)
    assert isinstance(f, Cut)
    assert f.weights.tolist() == [2.0]


def test_cardinality(rng):
    g = random_concave(rng, N)
    assert_equals(ConcaveCardinality(g), lambda on: g[len(on)] - g[0])
    f = random_subset_cardinality(rng, N)
    assert_equals(f, lambda on: f.g[len(set(on) & set(f.subset.tolist()))])


def test_cardinality_from_a_callable():
    f = ConcaveCardinality(math.sqrt, n=5, subset=[4, 1, 2])
    assert f.subset.tolist() == [1, 2, 4]
    assert_equals(f, lambda on: math.sqrt(len(set(on) & {1, 2, 4})))


def test_concave_of_modular(rng):
    w = rng.exponential(size=N)
    for g in (np.log1p, lambda v: 3 - math.exp(-v)):  # the second takes one number at a time
        f = ConcaveOfModular(g, w)
        assert_equals(f, lambda on, g=g: g(sum(w[i] for i in on)) - g(0.0))
    assert f.g(0.0) == 0.0
    assert f.g([w[0], w.sum()]) == pytest.approx([f([1] + [0] * 5), f(np.ones(N))])


def test_piecewise_linear_of_modular(rng):
    f = random_piecewise(rng, N)
    w = f.weights
    assert_equals(f, lambda on: float(f.g(sum(w[i] for i in on))))
    threshold = w.sum() / 2
    g = ConcaveOfModular(([0.0, threshold, w.sum()], [0.0, threshold, threshold]), w)
    assert_equals(g, lambda on: min(threshold, sum(w[i] for i in on)))


def test_coverage(rng):
    f = random_coverage(rng, N)
    sets = [set() for _ in range(N)]
    for item, element in zip(f.group, f.member, strict=True):
        sets[element].add(int(item))
    formula = lambda on: sum(f.weights[u] for u in set().union(*(sets[i] for i in on)))  # noqa: E731
    assert_equals(f, formula)
    assert_equals(Coverage([sorted(s) for s in sets], f.weights), formula)
    assert_equals(
        Coverage([[7], [7, 3], []]),
        lambda on: len(set().union(*([{7}, {7, 3}, set()][i] for i in on))),
    )


def test_facility_location(rng):
    f = random_facility(rng, N)
    assert_equals(f, lambda on: sum(max((row[i] for i in on), default=0.0) for row in f.benefits))


def test_potts(rng):
    f = random_potts(rng, N)
    pairs = list(zip(f.members, f.weights, strict=True))
    assert_equals(f, lambda on: sum(w for C, w in pairs if 0 < len(set(C) & set(on)) < len(C)))


@pytest.mark.parametrize("side", [0, 1])
def test_robust(rng, side):
    f = random_robust(rng, N, side)

    def cost(on):
        total = 0.0
        for members, weights, limit in zip(f.members, f.weights, f.threshold, strict=True):
            paid = sum(w for i, w in zip(members, weights, strict=True) if (i in on) == side)
            total += min(limit, paid)
        return total

    assert_equals(f, lambda on: cost(on) - cost([]))


def test_robust_takes_one_hyperedge_or_several():
    one = RobustPn(4, [3, 0, 1], 2.0, [1.0, 0.5, 0.25])
    several = RobustPn(4, [[3, 0, 1], [2]], [2.0, 0.0], [[1.0, 0.5, 0.25], 9.0])
    X = enumerate_x(4)
    np.testing.assert_array_equal(one(X), several(X))
    for two in (2.0, np.array(2.0), [2.0, [2.0, 2.0]]):
        f = RobustPn(4, [[0, 1], [2, 3]], 1.0, two)
        np.testing.assert_array_equal(f(X[[1, 5]]), [1.0, 2.0])


def test_log_det(rng):
    K = random_kernel(rng, N)
    assert_equals(LogDet(K), lambda on: np.linalg.slogdet(K[np.ix_(on, on)])[1])


def test_gaussian_information(rng):
    K = random_kernel(rng, N)

    def log_det(on):
        return np.linalg.slogdet(K[np.ix_(on, on)])[1]

    def information(on):
        off = [i for i in range(N) if i not in on]
        return (log_det(on) + log_det(off) - log_det(list(range(N)))) / 2

    f = GaussianInformation(K)
    assert_equals(f, information)
    X = enumerate_x(N)
    np.testing.assert_allclose(f(X), f(1 - X), atol=1e-12)
    assert (f(X) >= -1e-12).all()


def test_set_function_subtracts_its_value_at_zero():
    f = SetFunction(lambda x: 5.0 + min(int(x.sum()), 2), 4)
    assert_equals(f, lambda on: min(len(on), 2))
    batch = SetFunction(lambda X: np.minimum(X.sum(axis=1), 2.0), 4, vectorized=True)
    np.testing.assert_array_equal(batch(enumerate_x(4)), f(enumerate_x(4)))


def test_set_function_sees_uint8_vectors():
    seen = []

    def function(x):
        seen.append((x.dtype, x.shape))
        return float(x.any())

    SetFunction(function, 3, check=False)([1, 0, 1])
    assert set(seen) == {(np.dtype(np.uint8), (3,))}


def test_conditioned_functions_stay_in_their_family(rng):
    K = random_kernel(rng, N)
    for f, kinds in [
        (random_cut(rng, N), {Cut, Modular}),
        (ConcaveCardinality(random_concave(rng, N)), {ConcaveCardinality}),
        (random_piecewise(rng, N), {ConcaveOfModular}),
        (random_coverage(rng, N), {Coverage}),
        (random_facility(rng, N), {FacilityLocation}),
        (random_potts(rng, N), {PnPotts, RobustPn}),
        (random_robust(rng, N, 0), {RobustPn}),
        (LogDet(K), {LogDet}),
        (GaussianInformation(K), {GaussianInformation}),
    ]:
        g, _ = f.condition({0: 1, 3: 0})
        assert {type(atom) for _, atom in g.terms()} <= kinds
    assert LogDet(K).condition({2: 0})[0].K == pytest.approx(np.delete(np.delete(K, 2, 0), 2, 1))


def test_functions_of_nothing_can_be_built():
    for f in (
        Modular([]),
        Cut(0, []),
        ConcaveCardinality([7.0]),
        ConcaveOfModular(np.sqrt, []),
        ConcaveOfModular(([0.0], [1.0]), []),
        Coverage([]),
        FacilityLocation(np.empty((3, 0))),
        PnPotts(0, []),
        RobustPn(0, [], 1.0),
        LogDet(np.empty((0, 0))),
        GaussianInformation(np.empty((0, 0))),
        SetFunction(lambda x: 3.0, 0),
    ):
        assert f.n == 0
        assert f([]) == 0.0
        assert f(np.empty((2, 0))).tolist() == [0.0, 0.0]


def test_functions_of_sets():
    f = SetFunction.of_sets(lambda chosen: np.sqrt(len(chosen)), 5)
    np.testing.assert_allclose(f(enumerate_x(5)), np.sqrt(enumerate_x(5).sum(axis=1)))
    weights = [1.0, 2.0, 4.0]
    g = SetFunction.of_sets(lambda chosen: min(5.0, sum(weights[i] for i in chosen)), 3)
    assert g([1, 0, 1]) == 5.0 and g([1, 1, 0]) == 3.0
    with pytest.raises(ValueError, match="not submodular"):
        SetFunction.of_sets(lambda chosen: len(chosen) ** 2, 3)
    with pytest.raises(TypeError, match="callable"):
        SetFunction.of_sets(3, 3)


def test_a_function_that_does_not_look_at_x_is_noticed():
    with pytest.warns(UserWarning, match="of_sets"):
        SetFunction(lambda chosen: np.sqrt(len(chosen)), 4)
