"""The compiled kernels themselves: every layout, both integer widths, both instruction sets.

Energies are compared with scipy, networkx and OR-Tools, labels only where a tie rule makes them
unique. The same problem is solved as a grid, as a sparse and as a dense graph.
"""

import concurrent.futures
import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flow_oracles import (
    INTEGER_KINDS,
    KINDS,
    allowed_loss,
    draw,
    energies,
    exact_energy,
    grid_edges,
    networkx_maximum,
    ortools_maximum,
    random_edges,
    scipy_maxima,
)

from logsuper.functions import grid_cuts
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._native import kernels
from logsuper.structures import structure_of

# Sizes around the widths of vectors (4, 8) and words (64), single rows and columns, flat volumes.
GRIDS = [
    *[((n,), None) for n in (1, 2, 64, 65, 193)],
    *[((1, 1), 4), ((1, 63), 4), ((1, 130), 8), ((7, 1), 4), ((130, 1), 8), ((65, 2), 4)],
    *[((2, 64), 4), ((3, 7), 4), ((3, 7), 8), ((5, 8), 4), ((4, 9), 8), ((9, 15), 4)],
    *[((9, 16), 8), ((8, 17), 4), ((3, 63), 8), ((5, 64), 4), ((4, 65), 8), ((17, 65), 4)],
    *[((4, 130), 4), ((3, 129), 8), ((2, 191), 8)],
    *[((1, 1, 1), 6), ((3, 3, 3), 6), ((3, 3, 3), 18), ((3, 3, 3), 26), ((1, 4, 5), 26)],
    *[((4, 1, 5), 18), ((5, 4, 1), 26), ((6, 1, 1), 26), ((2, 1, 70), 26), ((2, 3, 65), 6)],
    *[((2, 2, 64), 26), ((5, 3, 8), 18)],
]
GRAPHS = [(1, 0), (2, 1), (5, 4), (12, 40), (16, 120), (63, 200), (64, 900), (65, 600), (130, 260)]


def grid_id(case):
    shape, neighbors = case
    return "x".join(map(str, shape)) + (f"-{neighbors}" if neighbors else "")


# -------------------------------------------------------------------------------- calling them


class Layout:
    """A kernel, and the way from weights of given edges to the order of its own."""

    def __init__(self, kernel, n, edges, own):
        self.kernel, self.n = kernel, n
        place = {edge: e for e, edge in enumerate(map(tuple, edges.tolist()))}
        assert set(place) <= set(map(tuple, own.tolist()))
        # A grid has all edges of its stencil: 18 neighbours are 26, some of them of weight 0.
        self._order = np.array(
            [place.get(edge, -1) for edge in map(tuple, own.tolist())], dtype=int
        )

    def run(self, weights, theta, maximal=False, wide=False, threads=1):
        """Solve a batch; every problem has its own weights, given as factors of unit weights."""
        problems = len(theta)
        factors = np.where(self._order >= 0, np.pad(weights, ((0, 0), (0, 1)))[:, self._order], 0.0)
        y = np.full((problems, self.n), 9, dtype=np.uint8)
        values, stats = np.full(problems, np.nan), np.full((problems, 1), np.nan)
        factors = np.ascontiguousarray(factors[:, None, :])
        one = np.ones((1, 1))
        self.kernel.maximize(theta, one, factors, maximal, wide, threads, y, values, stats)
        return y, values, stats[:, 0]


def grid_layout(module, shape, neighbors=None):
    f = functools.reduce(lambda a, b: a + b, grid_cuts(shape, neighbors))
    layout = structure_of(f).grid
    steps = np.array(layout.steps, dtype=np.int64)
    kernel = module.grid(*layout.shape, steps, 1, layout.planes)
    assert (kernel.nodes, kernel.edges, kernel.functions) == (f.n, len(layout.edges()), 1)
    return Layout(kernel, f.n, grid_edges(shape, neighbors), layout.edges())


def graph_layout(module, n, edges, dense):
    count = len(edges)
    one = (np.array([0, count]), np.arange(count), np.ones(count))
    kernel = module.graph(n, np.ascontiguousarray(edges), dense, *one)
    assert (kernel.nodes, kernel.edges, kernel.functions) == (n, count, 1)
    return Layout(kernel, n, edges, edges)


@functools.cache
def grid_problems(shape, neighbors, kind):
    return solved(int(np.prod(shape)), grid_edges(shape, neighbors), kind)


@functools.cache
def graph_problems(n, count, kind):
    return solved(n, random_edges(np.random.default_rng([n, count]), n, count), kind)


def solved(n, edges, kind, count=2):
    """Draw problems of a kind; give their smallest and largest maximisers, and the maxima."""
    rng = np.random.default_rng([n, len(edges), list(KINDS).index(kind)])
    weights, theta = draw(rng, kind, count, n, len(edges))
    smallest = solve_pairwise(n, edges, weights, theta, "min")
    largest = solve_pairwise(n, edges, weights, theta, "max")
    best = energies(edges, weights, theta, smallest)
    if kind in INTEGER_KINDS:
        np.testing.assert_array_equal(scipy_maxima(n, edges, weights, theta), best)
    return edges, weights, theta, smallest, largest, best


def may_be_narrow(n, edges, weights):
    """Whether 32 bits are enough: all weights within a factor of about fifty."""
    degree = np.bincount(edges.ravel(), np.repeat(weights, 2), n)
    positive = weights[weights > 0]
    return bool(positive.size) and positive.min() * 2.0**29 >= 1e7 * degree.max()


def check(layout, problems, kind):
    """Solve in all ways, and compare with what is known."""
    edges, weights, theta, smallest, largest, best = problems
    n = layout.n
    finite = np.where(np.isfinite(theta), theta, 0.0)
    size = np.abs(finite).sum(axis=1) + weights.sum(axis=1)
    for wide in (True, False):
        loss = np.array(
            [allowed_loss(n, edges, w, not wide and may_be_narrow(n, edges, w)) for w in weights]
        )
        for maximal, labels in ((False, smallest), (True, largest)):
            y, values, stats = layout.run(weights, theta, maximal, wide)
            assert y.max(initial=0) <= 1
            assert np.all(y[theta == np.inf] == 1)
            assert np.all(y[theta == -np.inf] == 0)
            if kind in INTEGER_KINDS:
                np.testing.assert_array_equal(y, labels, err_msg=kind)
                np.testing.assert_array_equal(values, best, err_msg=kind)
            reached = energies(edges, weights, theta, y)
            assert np.all(best - reached <= loss), (kind, wide, maximal, best - reached, loss)
            assert np.all(np.abs(values - reached) <= 1e-14 * size), (kind, wide, maximal)
            cut = (weights * (y[:, edges[:, 0]] != y[:, edges[:, 1]])).sum(axis=1)
            np.testing.assert_allclose(stats, cut, rtol=1e-12, err_msg=kind)


# ------------------------------------------------------------------- three layouts, one problem


@pytest.mark.parametrize("case", GRIDS, ids=grid_id)
def test_grids(native, case):
    shape, neighbors = case
    n, edges = int(np.prod(shape)), grid_edges(shape, neighbors)
    layouts = [
        grid_layout(native, shape, neighbors),
        graph_layout(native, n, edges, dense=False),
        graph_layout(native, n, edges, dense=True),
    ]
    for kind in KINDS:
        for layout in layouts:
            check(layout, grid_problems(shape, neighbors, kind), kind)


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("size", GRAPHS, ids=str)
def test_graphs(native, size, dense):
    n, count = size
    edges = random_edges(np.random.default_rng([n, count]), n, count)
    layout = graph_layout(native, n, edges, dense)
    for kind in KINDS:
        check(layout, graph_problems(n, count, kind), kind)


@pytest.mark.parametrize(
    "case", [((61, 67), 4), ((70, 131), 8), ((9, 17, 30), 6), ((7, 8, 33), 26)], ids=grid_id
)
def test_larger_grids(native, case):
    shape, neighbors = case
    n, edges = int(np.prod(shape)), grid_edges(shape, neighbors)
    layouts = [grid_layout(native, shape, neighbors), graph_layout(native, n, edges, dense=False)]
    for kind in ("small integers", "six digits", "ten orders of magnitude"):
        for layout in layouts:
            check(layout, grid_problems(shape, neighbors, kind), kind)


# ---------------------------------------------------------------------- networkx and OR-Tools


def ten_digit_problem(rng, n, edges):
    """Return weights and fields that are integers between 1 and 1e10."""
    weights = np.floor(10.0 ** rng.uniform(0, 10, (1, len(edges))))
    fields = np.floor(10.0 ** rng.uniform(0, 10, (1, n)))
    return weights, fields * rng.choice([-1.0, 1.0], fields.shape)


def layouts_of(native, rng):
    """Return grids of odd shapes, a sparse and a dense graph, as (n, edges, layout)."""
    for shape, neighbors in (((5, 13), 4), ((6, 9), 8), ((3, 4, 5), 6), ((3, 3, 4), 26)):
        edges = grid_edges(shape, neighbors)
        yield int(np.prod(shape)), edges, grid_layout(native, shape, neighbors)
    for n, count, dense in ((60, 150, False), (25, 200, True)):
        edges = random_edges(rng, n, count)
        yield n, edges, graph_layout(native, n, edges, dense)


def test_networkx_on_integers_up_to_ten_billion(native):
    rng = np.random.default_rng(0)
    for n, edges, layout in layouts_of(native, rng):
        for maximal in (False, True):
            weights, theta = ten_digit_problem(rng, n, edges)
            y, values, _ = layout.run(weights, theta, maximal)
            best = networkx_maximum(edges, weights[0], theta[0])
            assert exact_energy(edges, weights[0], theta[0], y[0]) == best
            assert values[0] == pytest.approx(best, rel=1e-15)


def test_ortools_on_integers_up_to_ten_billion(native):
    pytest.importorskip("ortools")
    rng = np.random.default_rng(1)
    for _ in range(10):
        for n, edges, layout in layouts_of(native, rng):
            weights, theta = ten_digit_problem(rng, n, edges)
            y, _, _ = layout.run(weights, theta, maximal=bool(rng.integers(2)))
            best = ortools_maximum(edges, weights[0], theta[0])
            assert exact_energy(edges, weights[0], theta[0], y[0]) == best


@pytest.mark.parametrize("case", [((101, 97), 4), ((15, 16, 17), 6)], ids=grid_id)
def test_ortools_on_large_grids(native, case):
    pytest.importorskip("ortools")
    edges = grid_edges(*case)
    n = int(np.prod(case[0]))
    layout = grid_layout(native, *case)
    for seed in range(2):
        weights, theta = ten_digit_problem(np.random.default_rng(seed), n, edges)
        y, _, _ = layout.run(weights, theta)
        best = ortools_maximum(edges, weights[0], theta[0])
        assert exact_energy(edges, weights[0], theta[0], y[0]) == best


# --------------------------------------------------------------------- what must not matter


def all_layouts(module):
    rng = np.random.default_rng(3)
    edges = random_edges(rng, 40, 90)
    return [
        (grid_layout(module, (6, 70), 4), grid_edges((6, 70), 4)),
        (grid_layout(module, (5, 9), 8), grid_edges((5, 9), 8)),
        (grid_layout(module, (3, 4, 5), 6), grid_edges((3, 4, 5), 6)),
        (grid_layout(module, (3, 4, 5), 26), grid_edges((3, 4, 5), 26)),
        (graph_layout(module, 40, edges, False), edges),
        (graph_layout(module, 40, edges, True), edges),
    ]


def test_threads_do_not_matter(native):
    rng = np.random.default_rng(4)
    for layout, edges in all_layouts(native):
        for kind in ("one scale", "ten orders of magnitude", "small integers"):
            weights, theta = draw(rng, kind, 37, layout.n, len(edges))
            alone = layout.run(weights, theta)
            for threads in (2, 3, 64):
                for a, b in zip(alone, layout.run(weights, theta, threads=threads), strict=True):
                    np.testing.assert_array_equal(a, b)


def test_instruction_sets_agree_to_the_last_bit():
    baseline = pytest.importorskip("logsuper._kernels", exc_type=ImportError)
    if not baseline.has_avx2():
        pytest.skip("this processor has no AVX2")
    avx2 = pytest.importorskip("logsuper._kernels_avx2", exc_type=ImportError)
    rng = np.random.default_rng(5)
    for (one, edges), (two, _) in zip(all_layouts(baseline), all_layouts(avx2), strict=True):
        for kind in KINDS:
            weights, theta = draw(rng, kind, 5, one.n, len(edges))
            for wide in (False, True):
                first = one.run(weights, theta, wide=wide)
                for a, b in zip(first, two.run(weights, theta, wide=wide), strict=True):
                    np.testing.assert_array_equal(a, b)


def test_what_was_solved_before_does_not_matter(native):
    """Workers keep their memory: trees, flows and queues of one solve must not reach the next."""
    rng = np.random.default_rng(6)
    kinds = list(KINDS)
    for place, (used, edges) in enumerate(all_layouts(native)):
        for _ in range(25):
            kind = kinds[rng.integers(len(kinds))]
            weights, theta = draw(rng, kind, 2, used.n, len(edges))
            how = [bool(rng.integers(2)), bool(rng.integers(2))]
            fresh = all_layouts(native)[place][0]
            expected = fresh.run(weights, theta, *how)
            for a, b in zip(used.run(weights, theta, *how), expected, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=kind)


def random_call(rng, layout):
    """Return a call of any method, with weights and fields of any size, as (method, arguments)."""
    n, edges = layout.n, layout.kernel.edges
    m = int(rng.integers(1, 4))
    theta = rng.normal(size=(m, n)) * 10.0 ** rng.choice([-9, 0, 0, 9], (m, 1))
    alpha = rng.choice([0.0, 0.5, 1.0, 1e9], (int(rng.choice([1, m])), 1))
    factors = None
    if rng.random() < 0.4:
        factors = rng.choice([0.0, 1.0, 3.0, 1e-7], (int(rng.choice([1, m])), 1, edges))
    method = str(rng.choice(["maximize", "perturb", "min_norm"]))
    if method == "maximize":
        out = [np.empty((m, n), np.uint8), np.empty(m), np.empty((m, 1))]
        how = [bool(rng.integers(2)), bool(rng.integers(2)), 1]
    elif method == "perturb":
        out = [np.zeros((m, n), np.uint32), np.empty((m, 9)), np.empty((m, 9, 1)), None]
        how = [n, 1, np.arange(m, dtype=np.uint64), 0, 1]
    else:
        out = [np.empty((m, n)), np.empty(m), np.empty(m, np.int64)]
        how = [1]
    return method, [theta, alpha, factors, *how], out


def test_calls_do_not_depend_on_earlier_calls(native):
    """A kernel remembers weights between calls, and how fine its integers were: for good."""
    rng = np.random.default_rng(11)
    for place, (used, _) in enumerate(all_layouts(native)):
        for _ in range(30):
            method, arguments, out = random_call(rng, used)
            fresh = all_layouts(native)[place][0]
            again = [None if array is None else array.copy() for array in out]
            getattr(used.kernel, method)(*arguments, *out)
            getattr(fresh.kernel, method)(*arguments, *again)
            for a, b in zip(out, again, strict=True):
                if a is not None:
                    np.testing.assert_array_equal(a, b, err_msg=method)


def test_a_point_without_weights_leaves_no_trace(native):
    for layout, _ in all_layouts(native)[:4]:
        n, one, zero = layout.n, np.ones((1, 1)), np.zeros((1, 1))
        theta = np.where(np.arange(n) % 2, 1.0, -1.5)[None]
        out = [np.empty((1, n), np.uint8), np.empty(1), np.empty((1, 1))]
        layout.kernel.maximize(theta, 5 * one, None, False, False, 1, *out)
        point = [np.empty((1, n)), np.empty(1), np.empty(1, np.int64)]
        layout.kernel.min_norm(theta, zero, None, 1, *point)
        layout.kernel.maximize(theta, zero, None, False, False, 1, *out)
        np.testing.assert_array_equal(out[0], theta > 0)


def test_order_of_the_batch_does_not_matter(native):
    rng = np.random.default_rng(7)
    for layout, edges in all_layouts(native):
        weights, theta = draw(rng, "ten orders, zeros, fixed", 9, layout.n, len(edges))
        order = rng.permutation(9)
        together = layout.run(weights, theta)
        shuffled = layout.run(weights[order], theta[order])
        for a, b in zip(together, shuffled, strict=True):
            np.testing.assert_array_equal(a[order], b)


def test_one_kernel_serves_several_python_threads(native):
    """The interpreter lock is released: a kernel may be entered twice at a time."""
    rng = np.random.default_rng(8)
    for layout, edges in all_layouts(native):
        tasks = [draw(rng, "one scale", 6, layout.n, len(edges)) for _ in range(12)]
        alone = [layout.run(*task) for task in tasks]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda task, go=layout: go.run(*task, threads=2), tasks))
        for one, other in zip(alone, together, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_arguments_are_only_read(native):
    rng = np.random.default_rng(9)
    for layout, edges in all_layouts(native):
        weights, theta = draw(rng, "integers, some fixed", 3, layout.n, len(edges))
        before = theta.copy()
        theta.flags.writeable = False
        layout.run(weights, theta)
        np.testing.assert_array_equal(theta, before)


# ------------------------------------------------------------------------- single behaviours


def test_only_the_first_nodes_are_wanted(native):
    """Auxiliary nodes are solved for, but only the labels of the real ones are written."""
    layout = graph_layout(native, 4, np.array([[0, 1], [1, 2], [2, 3]]), dense=False)
    theta = np.array([[2.0, -0.5, -0.5, 1.0]])
    y, values, stats = np.full((1, 2), 9, np.uint8), np.empty(1), np.empty((1, 1))
    one = np.ones((1, 1))
    layout.kernel.maximize(theta, one, None, False, True, 1, y, values, stats)
    np.testing.assert_array_equal(y, [[1, 1]])
    assert values[0] == 2.0  # all four nodes count


def test_no_problems_at_all(native):
    for layout, edges in all_layouts(native):
        y, values, stats = layout.run(np.empty((0, len(edges))), np.empty((0, layout.n)))
        assert y.shape == (0, layout.n)
        assert values.shape == stats.shape == (0,)


@pytest.mark.parametrize("spread", [1e12, 1e15])
def test_the_wide_kernel_is_chosen_where_it_is_needed(native, spread):
    """A chain of weak edges next to one strong edge: in 32 bits the weak ones would vanish."""
    n = 9
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    weights = np.ones((1, n - 1))
    weights[0, 0] = spread
    theta = np.zeros((1, n))
    theta[0, 1], theta[0, -1] = 3.0, -2.5  # the weight of 1 in between decides
    for layout in (
        grid_layout(native, (1, n)),
        graph_layout(native, n, edges, False),
        graph_layout(native, n, edges, True),
    ):
        y, values, stats = layout.run(weights, theta, maximal=False, wide=False)
        np.testing.assert_array_equal(y[0, :2], [1, 1])
        assert y[0, -1] == 0
        assert (values[0], stats[0]) == (2.0, 1.0)


def test_fields_of_any_size_are_cut_to_what_matters(native):
    """A field beyond the sum of its node's weights is a sign; no size of it can overflow."""
    largest = np.finfo(float).max
    for layout, edges in all_layouts(native):
        rng = np.random.default_rng(10)
        weights = rng.uniform(1, 2, (1, len(edges)))
        sign = rng.choice([-1.0, 1.0], (1, layout.n))
        for size in (1e2, 1e30, 1e300, largest, np.inf):
            for wide in (False, True):
                y, _, _ = layout.run(weights, size * sign, wide=wide)
                np.testing.assert_array_equal(y, sign > 0)


def test_they_print_nothing_and_read_no_environment(native):
    code = (
        f"import numpy as np, importlib; k = importlib.import_module({native.__name__!r})\n"
        "g = k.grid(1, 9, 9, np.array([[0, 0, 1], [0, 1, 0]]), 1, [(0, 0, 1.0), (0, 1, 1.0)])\n"
        "y, v, s = np.empty((3, 81), np.uint8), np.empty(3), np.empty((3, 1))\n"
        "g.maximize(np.random.randn(3, 81), np.ones((1, 1)), None, False, False, 2, y, v, s)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    if "SANITIZED" not in os.environ:  # sanitizers read their options there
        assert b"getenv" not in Path(native.__file__).read_bytes()


# -------------------------------------------------------------------------------- without them


def test_without_kernels_there_is_one_warning_and_the_same_answer():
    code = """
import sys, warnings
sys.modules["logsuper._kernels"] = sys.modules["logsuper._kernels_avx2"] = None
import logsuper as ls
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        prepared = ls.prepare(ls.grid_cuts((2, 3)))
        print(*prepared.maximize([2, 2, -1, 1, -1, -3], [1.0, 0.5])[:2], prepared.solver)
        ls.min_norm_point(ls.Cut(2, [(0, 1)]))
print(*[(w.category.__name__, "compiler" in str(w.message)) for w in caught])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    *answers, warned = done.stdout.splitlines()
    assert answers == ["[1 1 0 1 0 0] 2.5 graph"] * 3
    assert warned == "('RuntimeWarning', True)"
    assert done.stderr == ""


def test_the_option_of_the_test_run_is_obeyed(request):
    if request.config.getoption("--no-kernels", default=False):
        assert kernels() is None
        with pytest.raises(ImportError):
            importlib.import_module("logsuper._kernels")
    else:
        try:
            baseline = importlib.import_module("logsuper._kernels")
        except ImportError:
            pytest.skip("the compiled kernels were not built")
        name = "logsuper._kernels_avx2" if baseline.has_avx2() else "logsuper._kernels"
        assert kernels().__name__ == name
