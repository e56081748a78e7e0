"""`prepare`: one structure with changing weights equals functions built anew for each problem."""

import gc
import pickle
import weakref

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from cases import each
from flow_oracles import grid_edges, random_edges
from oracles import FAMILIES, brute_maximize, random_kernel

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    FacilityLocation,
    LogDet,
    Modular,
    PnPotts,
    RobustPn,
    Sum,
    grid_cuts,
)
from logsuper.solvers import Prepared, maximize, prepare
from logsuper.solvers._fallback import solve_pairwise

# ------------------------------------------------------------------------------- structures


def contrast(rng, cut):
    """Return a cut of an image with weights that differ from edge to edge, some of them 0."""
    weights = rng.exponential(size=len(cut.weights)) * (rng.random(len(cut.weights)) < 0.9)
    return cut.with_weights(weights)


def some_cut(rng, n, count):
    return Cut(n, random_edges(rng, n, count), rng.exponential(size=count))


# name -> (functions, the solver that compiled kernels bring). All with n <= 60.
CUTS = {
    "image, 4 neighbours": (lambda rng: grid_cuts((5, 9)), "grid"),
    "image, 8 neighbours": (lambda rng: grid_cuts((6, 7), 8), "grid"),
    "row": (lambda rng: grid_cuts((40,)), "grid"),
    "column": (lambda rng: grid_cuts((17, 1)), "grid"),
    "volume, 6 neighbours": (lambda rng: grid_cuts((3, 4, 5)), "grid"),
    "volume, 18 neighbours": (lambda rng: grid_cuts((3, 4, 4), 18), "grid"),
    "volume, 26 neighbours": (lambda rng: grid_cuts((3, 3, 5), 26), "grid"),
    "spacing": (lambda rng: grid_cuts((3, 4, 4), 26, spacing=(2.0, 1.0, 0.5)), "grid"),
    "contrast": (lambda rng: [contrast(rng, cut) for cut in grid_cuts((6, 9), 8)], "grid"),
    "contrast and uniform": (
        lambda rng: [*grid_cuts((6, 9)), sum(contrast(rng, c) for c in grid_cuts((6, 9))[1:])],
        "grid",
    ),
    "one direction": (lambda rng: grid_cuts((6, 9))[1:], "grid"),
    "slices of a volume": (lambda rng: grid_cuts((3, 4, 5))[:2], "grid"),
    "columns of a volume": (lambda rng: grid_cuts((4, 3, 5))[2:], "grid"),
    "hidden grid": (lambda rng: [Cut(48, rng.permutation(grid_edges((6, 8))), 2.0)], "grid"),
    "hidden and open grid": (
        lambda rng: [Cut(48, grid_edges((6, 8))[::2], 0.5), *grid_cuts((6, 8), 8)],
        "grid",
    ),
    "modular parts": (
        lambda rng: [
            grid_cuts((5, 6))[0] - Modular(rng.normal(size=30)),
            2.0 * grid_cuts((5, 6))[1],
            Modular(rng.normal(size=30)),
        ],
        "grid",
    ),
    "sparse": (lambda rng: [some_cut(rng, 40, 60), some_cut(rng, 40, 80)], "graph"),
    "dense": (lambda rng: [some_cut(rng, 24, 200), some_cut(rng, 24, 90)], "graph"),
    "directed": (
        lambda rng: [Cut.directed(20, random_edges(rng, 20, 50), 1.5), some_cut(rng, 20, 30)],
        "graph",
    ),
}
MIXED = {
    "image and hyperedges": (
        lambda rng: [
            *grid_cuts((4, 6)),
            PnPotts(24, [[0, 1, 2, 6, 7, 8], [9, 10, 11]], [0.5, 1.5]),
            RobustPn(24, [rng.permutation(24)[:9]], 2.0, side=0),
        ],
        "graph",
    ),
    "cut and hyperedge in one": (
        lambda rng: [
            some_cut(rng, 12, 25) + 0.5 * PnPotts(12, [[0, 1, 2, 3], [7, 8]]),
            Coverage(rng.random((12, 6)) < 0.3, rng.exponential(size=6)) + some_cut(rng, 12, 10),
            Modular(rng.normal(size=12)) + FacilityLocation(rng.exponential(size=(3, 12))),
        ],
        "graph",
    ),
    "cardinalities": (
        lambda rng: [
            ConcaveCardinality(np.sqrt(np.arange(11.0))),
            ConcaveCardinality(np.minimum(np.arange(5.0), 2.0), n=10, subset=[1, 3, 5, 7]),
            some_cut(rng, 10, 12),
        ],
        "graph",
    ),
}
DIRECT = {
    "modular": (lambda rng: [Modular(rng.normal(size=9)) for _ in range(3)], "sorting"),
    "cardinality and modular": (
        lambda rng: [ConcaveCardinality(np.sqrt(np.arange(10.0))), Modular(rng.normal(size=9))],
        "sorting",
    ),
    "concave of modular": (
        lambda rng: [ConcaveOfModular(np.sqrt, rng.exponential(size=9)), Modular(np.ones(9))],
        "sorting",
    ),
    "log-determinant": (
        lambda rng: [LogDet(random_kernel(rng, 7)), some_cut(rng, 7, 9)],
        "min_norm",
    ),
}
ALL = CUTS | MIXED | DIRECT


def build(name, seed=0):
    rng = np.random.default_rng([seed, list(ALL).index(name)])
    return rng, list(ALL[name][0](rng))


def total(functions, alpha):
    return Sum([(float(a), f) for a, f in zip(alpha, functions, strict=True)])


def check_one(functions, theta, alpha, y, value, stats, tol=1e-9):
    """Compare one answer with the functions themselves and with a solve of their plain sum."""
    finite = np.where(np.isfinite(theta), theta, 0.0)
    f = total(functions, alpha)
    size = 1 + np.abs(finite).sum() + np.abs(f(y))
    np.testing.assert_allclose(stats, [g(y) for g in functions], rtol=1e-12, atol=1e-12)
    assert abs(value - (finite @ y - f(y))) <= 1e-13 * size
    _, best = maximize(f, theta)
    assert abs(value - best) <= tol * size


# ------------------------------------------------------------------------------------- alpha


@each("name", ALL)
def test_alpha_for_all_and_for_each(engine, name, seeds):
    for seed in seeds:
        rng, functions = build(name, seed)
        prepared = prepare(functions)
        k, n = len(functions), prepared.n
        theta = 2 * rng.normal(size=(6, n))
        theta[3][rng.random(n) < 0.3] = np.inf
        theta[4][rng.random(n) < 0.3] = -np.inf
        alpha = rng.exponential(size=(6, k))
        alpha[1] = 0.0  # where learning starts
        alpha[2, 0] = 0.0
        alpha[5] *= 1e-6

        y, values, stats = prepared.maximize(theta, alpha)
        assert (y.shape, values.shape, stats.shape) == ((6, n), (6,), (6, k))
        assert (y.dtype, values.dtype, stats.dtype) == (np.uint8, np.float64, np.float64)
        for m in range(6):
            check_one(functions, theta[m], alpha[m], y[m], values[m], stats[m])

        for row in alpha[[0, 1, 2]]:
            y, values, stats = prepared.maximize(theta, row)
            for m in range(6):
                check_one(functions, theta[m], row, y[m], values[m], stats[m])


@each("name", ALL)
def test_one_row_goes_with_many(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    theta, alpha = rng.normal(size=prepared.n), rng.exponential(size=(4, len(functions)))
    long = prepared.maximize(np.tile(theta, (4, 1)), alpha)
    for given in (theta, theta[None]):
        for a, b in zip(prepared.maximize(given, alpha), long, strict=True):
            np.testing.assert_array_equal(a, b)


@each("name", ALL)
def test_single_problems_have_no_batch_axis(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    theta, alpha = rng.normal(size=prepared.n), rng.exponential(size=len(functions))
    y, value, stats = prepared.maximize(theta, alpha)
    assert (y.shape, stats.shape) == ((prepared.n,), (len(functions),))
    assert isinstance(value, float)
    for batch in (
        prepared.maximize(theta[None], alpha),
        prepared.maximize(theta, alpha[None]),
        prepared.maximize(theta[None], alpha[None]),
    ):
        np.testing.assert_array_equal(batch[0], y[None])
        np.testing.assert_array_equal(batch[1], [value])
        np.testing.assert_array_equal(batch[2], stats[None])


def test_a_number_will_do_for_one_function(engine):
    prepared = prepare([Cut(2, [(0, 1)])])
    assert prepared.maximize([2.0, -1.0], 0.5)[1] == 1.5


@each("name", ALL)
def test_threads_do_not_matter(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    theta = rng.normal(size=(7, prepared.n))
    alpha = rng.exponential(size=(7, len(functions)))
    for tie in (None, "max"):
        for row in (alpha, alpha[0]):
            alone = prepared.maximize(theta, row, n_jobs=1, tie=tie)
            for n_jobs in (None, 2, -1):
                again = prepared.maximize(theta, row, n_jobs=n_jobs, tie=tie)
                for a, b in zip(alone, again, strict=True):
                    np.testing.assert_array_equal(a, b)


@each("name", ALL)
def test_ties_go_to_the_extremes(engine, name):
    """With alpha = 0 and theta = 0 everything is a maximiser."""
    _, functions = build(name)
    prepared = prepare(functions)
    zero, none = np.zeros(prepared.n), np.zeros(len(functions))
    assert not prepared.maximize(zero, none, tie="min")[0].any()
    assert prepared.maximize(zero, none, tie="max")[0].all()


# ------------------------------------------------------------------------------- edge weights


def reweighted(f, edges, factors):
    """Return a function with the weights of its cuts multiplied by the factors of their edges."""
    place = {edge: e for e, edge in enumerate(map(tuple, edges.tolist()))}
    terms = []
    for weight, atom in f.terms():
        if isinstance(atom, Cut):
            rows = [place[edge] for edge in map(tuple, atom.edges.tolist())]
            atom = atom.with_weights(atom.weights * factors[rows])
        terms.append((weight, atom))
    return Sum(terms)


def random_factors(rng, shape):
    return rng.exponential(size=shape) * (rng.random(shape) < 0.85)


@each("name", CUTS | MIXED)
def test_edge_weights_equal_functions_built_anew(engine, name, seeds):
    for seed in seeds:
        rng, functions = build(name, seed)
        prepared = prepare(functions)
        n, k, count = prepared.n, len(functions), len(prepared.edges)
        theta, alpha = 2 * rng.normal(size=(4, n)), rng.exponential(size=(4, k))
        theta[2][rng.random(n) < 0.2] = np.inf
        alpha[1, 0] = 0.0
        shapes = [(count,), (4, count), (4, k, count)]
        if seed == 0:
            shapes += [(4, 1, count), (1, count), (1, k, count)]
        for shape in shapes:
            factors = random_factors(rng, shape)
            full = np.broadcast_to(
                factors[:, None] if factors.ndim == 2 else factors, (4, k, count)
            )
            y, values, stats = prepared.maximize(theta, alpha, edge_weights=factors)
            for m in range(4):
                mine = [reweighted(f, prepared.edges, full[m, i]) for i, f in enumerate(functions)]
                check_one(mine, theta[m], alpha[m], y[m], values[m], stats[m])
            many = prepared.maximize(theta, alpha, edge_weights=factors, n_jobs=3)
            for a, b in zip((y, values, stats), many, strict=True):
                np.testing.assert_array_equal(a, b)
        # What was given once is forgotten: without factors the weights are the old ones.
        y, values, stats = prepared.maximize(theta, alpha)
        for m in range(4):
            check_one(functions, theta[m], alpha[m], y[m], values[m], stats[m])


@pytest.mark.parametrize("name", ["contrast", "image, 8 neighbours", "sparse", "dense"])
def test_edge_weights_over_ten_orders_of_magnitude(engine, name, seeds):
    for seed in seeds:
        rng, functions = build(name, seed)
        prepared = prepare(functions)
        n, k, edges = prepared.n, len(functions), prepared.edges
        factors = 10.0 ** rng.uniform(-5, 5, (6, len(edges)))
        theta = rng.normal(size=(6, n)) * 10.0 ** rng.uniform(-5, 5, (6, n))
        alpha = rng.exponential(size=k)
        y, values, _ = prepared.maximize(theta, alpha, factors)
        for m in range(6):
            mine = [reweighted(f, edges, factors[m]) for f in functions]
            f = total(mine, alpha)
            graph = f.graph()
            best = solve_pairwise(n, graph.edges, graph.weights, theta[m][None])[0]
            top = theta[m] @ best - f(best)
            assert values[m] >= top - 1e-13 * (np.abs(theta[m]).sum() + graph.weights.sum())
            assert y[m].dtype == np.uint8


@each("name", CUTS)
def test_ones_change_nothing_and_zeros_cut_everything(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    count, k = len(prepared.edges), len(functions)
    theta, alpha = rng.normal(size=(3, prepared.n)), rng.exponential(size=k)
    plain = prepared.maximize(theta, alpha)
    for a, b in zip(plain, prepared.maximize(theta, alpha, np.ones(count)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    tilts = [sum(w * g.t for w, g in f.terms() if isinstance(g, Modular)) for f in functions]
    field = theta - alpha @ np.array([np.zeros(prepared.n) + t for t in tilts])
    y, values, _ = prepared.maximize(theta, alpha, np.zeros(count))
    np.testing.assert_array_equal(y, field > 0)
    np.testing.assert_allclose(values, np.maximum(field, 0).sum(axis=1), rtol=1e-12)


@each("name", CUTS)
def test_one_problem_with_edge_weights_has_no_batch_axis(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    factors = random_factors(rng, len(prepared.edges))
    theta, alpha = rng.normal(size=prepared.n), np.ones(len(functions))
    y, value, stats = prepared.maximize(theta, alpha, factors)
    assert (y.shape, stats.shape) == ((prepared.n,), (len(functions),))
    batch = prepared.maximize(theta, alpha, factors[None])
    assert batch[0].shape == (1, prepared.n)
    np.testing.assert_array_equal(batch[0][0], y)
    assert batch[1][0] == value


@each("name", CUTS | MIXED)
def test_the_edges_are_those_of_the_cuts(engine, name):
    """`edges` holds every edge of every cut once, with i < j: the same with any max-flow.

    Weights computed on one machine must fit another one, with a compiler or without.
    """
    _, functions = build(name)
    edges = prepare(functions).edges
    cuts = [atom for f in functions for _, atom in f.terms() if isinstance(atom, Cut)]
    union = {edge for cut in cuts for edge in map(tuple, cut.edges.tolist())}
    assert edges.dtype == np.int64
    assert np.all(edges[:, 0] < edges[:, 1])
    assert len(set(map(tuple, edges.tolist()))) == len(edges)
    assert set(map(tuple, edges.tolist())) == union


@pytest.mark.parametrize("name", CUTS | MIXED)
def test_the_order_of_the_edges_does_not_depend_on_the_engine(monkeypatch, name):
    _, functions = build(name)
    edges = prepare(functions).edges
    monkeypatch.setattr("logsuper.solvers._flow.kernels", lambda: None)
    np.testing.assert_array_equal(prepare(functions).edges, edges)


# --------------------------------------------------------------------------- choice of solver


@each("name", ALL)
def test_the_solver_follows_from_the_structure(engine, name):
    _, functions = build(name)
    solver = ALL[name][1]
    assert prepare(functions).solver == ("graph" if engine + solver == "scipygrid" else solver)


@pytest.mark.parametrize(
    ("n", "edges"),
    [
        (12, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]),  # 3-4 joins two rows
        (12, [(0, 4), (4, 8), (0, 3), (1, 2)]),  # two widths
        (12, [(0, 5), (5, 10)]),  # 12 is no multiple of 5
        (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),  # a chain
        (9, [(0, 3), (3, 6), (0, 6), (0, 1)]),  # a torus
    ],
)
def test_what_only_looks_like_a_grid(native, n, edges, seed):
    rng = np.random.default_rng(seed)
    f = Cut(n, edges, rng.exponential(size=len(edges)))
    prepared = prepare([f])
    assert prepared.solver == "graph"
    theta = rng.normal(size=(5, n))
    np.testing.assert_allclose(prepared.maximize(theta, 1.0)[1], brute_maximize(f, theta)[1])


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (5, 2), (3, 4), (6, 2)])
@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_hidden_grids_are_solved_as_what_they_are(engine, shape, share, seeds):
    """Any part of a grid's edges, in any order: found to be a grid or not, the answer is right."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 30])
        edges = rng.permutation(grid_edges(shape))
        edges = edges[: max(1, int(share * len(edges)))]
        f = Cut(int(np.prod(shape)), edges, rng.exponential(size=len(edges)))
        theta = 1.5 * rng.normal(size=(8, f.n))
        np.testing.assert_allclose(
            prepare([f]).maximize(theta, 1.0)[1], brute_maximize(f, theta)[1]
        )


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.data())
def test_any_edges_with_any_factors(data):
    n = data.draw(st.integers(2, 6))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    numbers = st.sampled_from([0.0, 0.25, 1.0, 2.0, 1e-6, 1e5])
    functions = []
    for _ in range(data.draw(st.integers(1, 3))):
        edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
        functions.append(Cut(n, edges, [data.draw(numbers) for _ in edges]))
    prepared = prepare(functions)
    k, count = len(functions), len(prepared.edges)
    theta = np.array(data.draw(st.lists(st.floats(-4, 4), min_size=n, max_size=n)))
    alpha = np.array(data.draw(st.lists(numbers, min_size=k, max_size=k)))
    factors = np.array(data.draw(st.lists(numbers, min_size=k * count, max_size=k * count)))
    factors = factors.reshape(1, k, count)
    y, value, stats = prepared.maximize(theta, alpha, factors)
    mine = [reweighted(f, prepared.edges, factors[0, i]) for i, f in enumerate(functions)]
    f = total(mine, alpha)
    _, best = brute_maximize(f, theta)
    assert value[0] == pytest.approx(best, rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(stats[0], [g(y[0]) for g in mine], rtol=1e-12)


# --------------------------------------------------------------------------------- the object


@each("name", ALL)
def test_pickling(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    theta, alpha = rng.normal(size=(3, prepared.n)), rng.exponential(size=len(functions))
    before = prepared.maximize(theta, alpha)
    again = pickle.loads(pickle.dumps(prepared))
    assert isinstance(again, Prepared)
    assert again.solver == prepared.solver
    np.testing.assert_array_equal(again.edges, prepared.edges)
    for a, b in zip(before, again.maximize(theta, alpha), strict=True):
        np.testing.assert_array_equal(a, b)


@each("name", ALL)
def test_repr_names_functions_and_solver(engine, name):
    _, functions = build(name)
    prepared = prepare(functions)
    text = repr(prepared)
    assert text.startswith("Prepared([")
    assert f"solver='{prepared.solver}'" in text
    assert all(repr(f) in text for f in functions)
    assert prepared.functions == tuple(functions)
    assert prepared.n == functions[0].n


def test_functions_may_come_from_an_iterator(engine):
    assert len(prepare(cut for cut in grid_cuts((3, 4))).functions) == 2


@each("name", ALL)
def test_empty_batches(engine, name):
    _, functions = build(name)
    prepared = prepare(functions)
    n, k, count = prepared.n, len(functions), len(prepared.edges)
    for theta, alpha in (
        (np.empty((0, n)), np.ones(k)),
        (np.ones(n), np.empty((0, k))),
        (np.empty((0, n)), np.empty((0, k))),
    ):
        y, values, stats = prepared.maximize(theta, alpha)
        assert (y.shape, values.shape, stats.shape) == ((0, n), (0,), (0, k))
        assert y.dtype == np.uint8
    if count:
        y, values, stats = prepared.maximize(np.ones(n), np.ones(k), np.empty((0, count)))
        assert (y.shape, values.shape, stats.shape) == ((0, n), (0,), (0, k))


def test_no_elements(engine):
    for functions in ([Modular(np.zeros(0))], [Cut(0, []), Modular(np.zeros(0))]):
        prepared = prepare(functions)
        y, values, stats = prepared.maximize(np.zeros((3, 0)), np.ones(len(functions)))
        assert (y.shape, stats.shape) == ((3, 0), (3, len(functions)))
        np.testing.assert_array_equal(values, np.zeros(3))
        np.testing.assert_array_equal(stats, np.zeros((3, len(functions))))
        assert prepared.edges.shape == (0, 2)


@each("name", ALL)
def test_arguments_are_not_changed(engine, name):
    rng, functions = build(name)
    prepared = prepare(functions)
    theta, alpha = rng.normal(size=(3, prepared.n)), rng.exponential(size=(3, len(functions)))
    factors = random_factors(rng, (3, len(prepared.edges))) if name in CUTS else None
    given = [array.copy() for array in (theta, alpha, factors) if array is not None]
    for array in (theta, alpha, factors):
        if array is not None:
            array.flags.writeable = False
    prepared.maximize(theta, alpha, factors, tie="max")
    prepared.perturb(theta, alpha, n_samples=2, seed=1, edge_weights=factors)
    after = [array for array in (theta, alpha, factors) if array is not None]
    for a, b in zip(given, after, strict=True):
        np.testing.assert_array_equal(a, b)


@each("name", ALL)
def test_layout_and_type_of_the_arguments_do_not_matter(engine, name):
    """Lists, other floats and integers, views with strides: all are read as float64."""
    rng, functions = build(name)
    prepared = prepare(functions)
    n, k, count = prepared.n, len(functions), len(prepared.edges)
    theta, alpha = rng.integers(-3, 4, (4, n)), rng.integers(0, 3, (4, k))
    factors = rng.integers(0, 3, (4, count))
    if name in DIRECT:
        factors = None
    plain = prepared.maximize(theta.astype(float), alpha.astype(float), factors)
    for change in (
        lambda a: a,
        lambda a: a.tolist(),
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int8),
        lambda a: np.asfortranarray(a.astype(float)),
        lambda a: np.repeat(a.astype(float), 2, axis=1)[:, ::2],
        lambda a: a.astype(float)[::-1][::-1],
    ):
        given = None if factors is None else change(factors)
        for a, b in zip(plain, prepared.maximize(change(theta), change(alpha), given), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["sum with a graph", "sum without a graph", "grid", "cardinality"])
def test_a_sum_equals_its_parts(engine, name, seeds):
    """prepare([f, g]) with weights (a, b) is prepare([a f + b g]) with weight 1."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 31])
        f, g = FAMILIES[name](rng, 6), FAMILIES["modular"](rng, 6)
        theta = rng.normal(size=(5, 6))
        _, apart, stats = prepare([f, g]).maximize(theta, [0.5, 2.0])
        _, together, one = prepare([0.5 * f + 2.0 * g]).maximize(theta, [1.0])
        np.testing.assert_allclose(apart, together, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(stats @ [0.5, 2.0], one[:, 0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("neighbors", [4, 8])
def test_memory_is_freed_with_the_last_reference(neighbors):
    """A cycle would keep the kernel and its work space until the next full garbage collection."""
    cuts = grid_cuts((12, 13), neighbors)
    alpha = np.ones(len(cuts))

    def kept():
        return sum(type(each).__name__ == "Flow" for each in gc.get_objects())

    gc.collect()
    before = kept()
    gc.disable()
    try:
        prepared = prepare(cuts)
        prepared.maximize(np.ones(prepared.n), alpha)
        prepared.conditional_means(np.ones(prepared.n), alpha, n_samples=2, seed=0)
        assert kept() == before + 1
        del prepared
        assert kept() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("name", list(FAMILIES))
def test_functions_are_freed_with_the_last_reference(name):
    """The structure that is kept with a function does not hold it."""
    f = FAMILIES[name](np.random.default_rng(0), 8)
    gc.collect()
    gc.disable()
    try:
        maximize(f, np.ones(f.n))
        gone = weakref.ref(f)
        del f
        assert gone() is None
    finally:
        gc.enable()
