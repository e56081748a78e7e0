"""Bad input: one clear error that names the argument and the place, whatever the solver."""

import numpy as np
import pytest
from cases import each

from logsuper.functions import (
    ConcaveCardinality,
    Cut,
    LogDet,
    Modular,
    PnPotts,
    grid_cuts,
)
from logsuper.solvers import maximize, min_norm_point, prepare

# One function for every solver there is, all with six elements.
FUNCTIONS = {
    "grid": lambda: grid_cuts((2, 3))[0],
    "grid and modular": lambda: grid_cuts((2, 3))[1] + Modular(np.ones(6)),
    "sparse": lambda: Cut(6, [(0, 5), (1, 2)]),
    "dense": lambda: Cut(6, [(i, j) for i in range(6) for j in range(i)]),
    "no edges": lambda: Cut(6, []),
    "auxiliary nodes": lambda: PnPotts(6, [[0, 1, 2, 3]]) + Cut(6, [(4, 5)]),
    "sorting": lambda: ConcaveCardinality(np.sqrt(np.arange(7.0))),
    "modular": lambda: Modular(np.ones(6)),
    "min-norm": lambda: LogDet(np.eye(6) + 0.1),
}


def with_entry(shape, place, value):
    array = np.zeros(shape)
    array[place] = value
    return array


# -------------------------------------------------------------------------------------- theta

BAD_FIELDS = {
    "NaN": (with_entry(6, 3, np.nan), ValueError, r"^theta\[3\] = nan: .*0 .*inf"),
    "NaN in a batch": (with_entry((4, 6), (2, 5), np.nan), ValueError, r"^theta\[2, 5\] = nan"),
    "NaN next to infinities": (
        np.array([np.inf, -np.inf, 0, np.inf, np.nan, -np.inf]),
        ValueError,
        r"^theta\[4\] = nan",
    ),
    "all NaN": (np.full((2, 6), np.nan), ValueError, r"^theta\[0, 0\] = nan"),
    "too short": (
        np.zeros(5),
        ValueError,
        r"^theta must have shape \(6,\) or \(M, 6\), got \(5,\)",
    ),
    "too long": (np.zeros((2, 7)), ValueError, r"^theta must have shape .*got \(2, 7\)"),
    "transposed": (np.zeros((6, 2)), ValueError, r"^theta must have shape .*got \(6, 2\)"),
    "three axes": (np.zeros((1, 2, 6)), ValueError, r"^theta must have shape .*got \(1, 2, 6\)"),
    "empty": (np.zeros(0), ValueError, r"^theta must have shape .*got \(0,\)"),
    "a number": (1.0, ValueError, r"^theta must have shape"),
    "text": (["a"] * 6, TypeError, r"^theta must hold real numbers, got dtype <U1"),
    "complex": (np.zeros(6, complex), TypeError, r"^theta must hold real numbers, got dtype comp"),
    "objects": ([None] * 6, TypeError, r"^theta must hold real numbers, got dtype object"),
    "dates": (np.zeros(6, "M8[s]"), TypeError, r"^theta must hold real numbers"),
    "ragged": ([[0.0] * 6, [0.0] * 5], ValueError, r"^theta must be a rectangular array"),
    "huge integers": ([10**30] * 6, TypeError, r"^theta must hold real numbers, got dtype object"),
}


@each("solver", FUNCTIONS)
@pytest.mark.parametrize("case", BAD_FIELDS)
def test_bad_fields(engine, solver, case):
    f = FUNCTIONS[solver]()
    theta, error, message = BAD_FIELDS[case]
    with pytest.raises(error, match=message):
        maximize(f, theta)
    prepared = prepare([f, Modular(np.zeros(6))])
    for tie in (None, "max"):
        with pytest.raises(error, match=message):
            prepared.maximize(theta, [1.0, 1.0], tie=tie, n_jobs=2)
    for n_jobs in (1, 2):
        with pytest.raises(error, match=message):
            prepared.perturb(theta, [1.0, 0.0], n_samples=9, seed=1, n_jobs=n_jobs)


@each("solver", FUNCTIONS)
def test_the_solver_works_after_an_error(engine, solver):
    """An error leaves nothing behind in a kernel's memory."""
    f = FUNCTIONS[solver]()
    prepared = prepare([f])
    theta = np.random.default_rng(0).normal(size=(5, 6))
    before = prepared.maximize(theta, 1.0)
    bad = theta.copy()
    bad[3, 2] = np.nan
    for n_jobs in (1, 2):
        with pytest.raises(ValueError, match="nan"):
            prepared.maximize(bad, 1.0, n_jobs=n_jobs)
        with pytest.raises(ValueError, match="nan"):
            prepared.perturb(bad, 1.0, 3, 1, n_jobs=n_jobs)
        for a, b in zip(before, prepared.maximize(theta, 1.0, n_jobs=n_jobs), strict=True):
            np.testing.assert_array_equal(a, b)


# -------------------------------------------------------------------------------------- alpha


@each("solver", FUNCTIONS)
@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        ([1.0], ValueError, r"^alpha must have shape \(2,\) or \(M, 2\), got \(1,\)"),
        (np.ones((3, 3)), ValueError, r"^alpha must have shape .*got \(3, 3\)"),
        (np.ones((1, 1, 2)), ValueError, r"^alpha must have shape .*got \(1, 1, 2\)"),
        ([1.0, np.nan], ValueError, r"^alpha\[1\] = nan: .*finite"),
        ([[1.0, 1.0], [np.inf, 1.0]], ValueError, r"^alpha\[1, 0\] = inf: .*finite"),
        ([-np.inf, 1.0], ValueError, r"^alpha\[0\] = -inf"),
        ([1.0, -1e-3], ValueError, r"^alpha\[1\] = -0.001: .*negative weight"),
        (["a", "b"], TypeError, r"^alpha must hold real numbers"),
        ([1j, 0], TypeError, r"^alpha must hold real numbers"),
        ([[1.0, 1.0], [1.0]], ValueError, r"^alpha must be a rectangular array"),
        (None, TypeError, r"^alpha must hold real numbers"),
    ],
)
def test_bad_alpha(engine, solver, alpha, error, message):
    f = FUNCTIONS[solver]()
    prepared = prepare([f, Modular(np.ones(6))])
    with pytest.raises(error, match=message):
        prepared.maximize(np.zeros(6), alpha)
    with pytest.raises(error, match=message):
        prepared.perturb(np.zeros(6), alpha, n_samples=2, seed=1)


# ------------------------------------------------------------------------------- edge weights


def cut_structures():
    return {
        "grid": grid_cuts((2, 3)),  # 7 edges
        "contrast": [cut.with_weights(np.arange(len(cut.weights))) for cut in grid_cuts((2, 3))],
        "graph": [
            Cut(6, [(0, 5), (1, 2), (2, 3)]),
            Cut(6, [(0, 1), (0, 2), (1, 3), (0, 5), (4, 5)]),
        ],
        "auxiliary": [
            Cut(6, [(0, 5), (1, 2), (2, 3)]) + PnPotts(6, [[0, 1, 2, 3]]),
            Cut(6, [(0, 1), (0, 2), (1, 3), (4, 5)]),
        ],
    }


@pytest.mark.parametrize("name", cut_structures())
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (
            np.ones(6),
            ValueError,
            r"^edge_weights must have shape \(7,\), \(M, 7\) or \(M, 2, 7\), got",
        ),
        (np.ones((2, 8)), ValueError, r"^edge_weights must have shape .*got \(2, 8\)"),
        (np.ones((2, 3, 7)), ValueError, r"^edge_weights must have shape .*got \(2, 3, 7\)"),
        (np.ones((1, 1, 2, 7)), ValueError, r"^edge_weights must have shape"),
        (1.0, ValueError, r"^edge_weights must have shape"),
        (with_entry(7, 4, np.nan), ValueError, r"^edge_weights\[4\] = nan: .*finite"),
        (with_entry((1, 7), (0, 6), np.inf), ValueError, r"^edge_weights\[0, 6\] = inf: .*finite"),
        (
            with_entry((1, 2, 7), (0, 1, 2), -1),
            ValueError,
            r"^edge_weights\[0, 1, 2\] = -1: .*repul",
        ),
        (["a"] * 7, TypeError, r"^edge_weights must hold real numbers"),
        (np.ones(7, complex), TypeError, r"^edge_weights must hold real numbers"),
        ([[1.0] * 7, [1.0] * 6], ValueError, r"^edge_weights must be a rectangular array"),
    ],
)
def test_bad_edge_weights(engine, name, weights, error, message):
    prepared = prepare(cut_structures()[name])
    assert len(prepared.edges) == 7
    with pytest.raises(error, match=message):
        prepared.maximize(np.zeros(6), [1.0, 1.0], weights)
    with pytest.raises(error, match=message):
        prepared.perturb(np.zeros(6), [1.0, 1.0], 2, 1, edge_weights=weights)


@pytest.mark.parametrize(
    "functions",
    [
        [Modular(np.zeros(6))],
        [PnPotts(6, [[0, 1, 2]])],
        [Cut(6, [])],
        [ConcaveCardinality(np.sqrt(np.arange(7.0)))],
        [LogDet(np.eye(6))],
    ],
    ids=repr,
)
def test_edge_weights_without_edges(engine, functions):
    for weights in (np.ones(3), np.ones((2, 3)), np.empty(0)):
        with pytest.raises(ValueError, match=r"^edge_weights was given, but"):
            prepare(functions).maximize(np.zeros(6), [1.0], weights)


def test_edge_weights_where_no_max_flow_can_take_them(engine):
    """There is a cut, but the min-norm point solves the sum: the message must not deny the cut."""
    prepared = prepare([Cut(6, [(0, 1)]), LogDet(np.eye(6))])
    with pytest.raises(
        ValueError, match=r"^edge_weights was given, but (?!none of the functions is)"
    ):
        prepared.maximize(np.zeros(6), [1.0, 1.0], [2.0])


# -------------------------------------------------------------------------------- other arguments


@each("solver", FUNCTIONS)
@pytest.mark.parametrize("tie", ["minimal", "MIN", "", 0, 1, True, "None"])
def test_bad_tie(engine, solver, tie):
    f = FUNCTIONS[solver]()
    message = rf"^tie must be None, 'min' or 'max', got {tie!r}"
    with pytest.raises(ValueError, match=message):
        maximize(f, np.zeros(6), tie=tie)
    with pytest.raises(ValueError, match=message):
        prepare([f]).maximize(np.zeros((0, 6)), [1.0], tie=tie)


@each("solver", FUNCTIONS)
@pytest.mark.parametrize(
    ("n_jobs", "error", "message"),
    [
        (0, ValueError, "^n_jobs must not be 0; use -1 for all processors"),
        (1.0, TypeError, "^n_jobs must be an integer, got 1.0"),
        (True, TypeError, "^n_jobs must be an integer, got True"),
        ("all", TypeError, "^n_jobs must be an integer, got 'all'"),
        (2**31, ValueError, "^n_jobs must be at least"),
    ],
)
def test_bad_n_jobs(engine, solver, n_jobs, error, message):
    f = FUNCTIONS[solver]()
    with pytest.raises(error, match=message):
        maximize(f, np.zeros(6), n_jobs=n_jobs)
    with pytest.raises(error, match=message):
        prepare([f]).perturb(np.zeros(6), [1.0], 2, 1, n_jobs=n_jobs)


@each("solver", FUNCTIONS)
def test_any_other_number_of_jobs_is_fine(engine, solver):
    f = FUNCTIONS[solver]()
    theta = np.random.default_rng(1).normal(size=(3, 6))
    expected = maximize(f, theta)[1]
    for n_jobs in (None, 1, 2, 1000, 2**31 - 1, -1, -2, -1000, np.int64(2)):
        np.testing.assert_array_equal(maximize(f, theta, n_jobs=n_jobs)[1], expected)


@each("solver", FUNCTIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_samples": 0}, ValueError, "^n_samples must be at least 1 and below 2147483648, got 0"),
        ({"n_samples": -1}, ValueError, "^n_samples must be at least 1"),
        ({"n_samples": 2**31}, ValueError, "^n_samples must be .* below 2147483648"),
        ({"n_samples": 2.0}, TypeError, "^n_samples must be an integer, got 2.0"),
        ({"n_samples": True}, TypeError, "^n_samples must be an integer"),
        ({"n_samples": None}, TypeError, "^n_samples must be an integer, got None"),
        (
            {"seed": -1},
            ValueError,
            "^seed must be at least 0 and below 18446744073709551616, got -1",
        ),
        ({"seed": 2**64}, ValueError, "^seed must be at least 0 and below"),
        ({"seed": 1.0}, TypeError, "^seed must be an integer, got 1.0"),
        ({"seed": "seed"}, TypeError, "^seed must be an integer, got 'seed'"),
        ({"first_sample": -1}, ValueError, "^first_sample must be at least 0"),
        ({"first_sample": 2**32 - 1}, ValueError, "^first_sample must be at least 0 and below"),
        ({"first_sample": 0.5}, TypeError, "^first_sample must be an integer"),
    ],
)
def test_bad_perturbations(engine, solver, arguments, error, message):
    f = FUNCTIONS[solver]()
    with pytest.raises(error, match=message):
        prepare([f]).perturb(np.zeros(6), [1.0], **({"n_samples": 2, "seed": 1} | arguments))


# ------------------------------------------------------------------------------ batch lengths


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((2, 3, None), r"^alpha has 3 rows, but theta has 2"),
        ((2, 1, 3), r"^edge_weights has 3 rows, but theta has 2"),
        ((1, 2, 3), r"^edge_weights has 3 rows, but alpha has 2"),
        ((0, 2, None), r"^alpha has 2 rows, but theta has 0"),
        ((2, 0, 1), r"^alpha has 0 rows, but theta has 2"),
        ((2, 2, 0), r"^edge_weights has 0 rows, but (theta|alpha) has 2"),
    ],
)
def test_batches_must_fit(engine, rows, message):
    for functions in cut_structures().values():
        prepared = prepare(functions)
        theta, alpha = np.zeros((rows[0], 6)), np.ones((rows[1], 2))
        weights = None if rows[2] is None else np.ones((rows[2], 7))
        with pytest.raises(ValueError, match=message + ".*give one row, or as many"):
            prepared.maximize(theta, alpha, weights)
        with pytest.raises(ValueError, match=message):
            prepared.perturb(theta, alpha, 2, 1, edge_weights=weights)


# ------------------------------------------------------------------------------- the functions


def test_bad_functions(engine):
    with pytest.raises(TypeError, match=r"^f must be a submodular function, got a ndarray"):
        maximize(np.zeros(3), np.zeros(3))
    with pytest.raises(TypeError, match=r"^f must be a submodular function, got a tuple"):
        maximize(grid_cuts((2, 2)), np.zeros(4))
    with pytest.raises(ValueError, match=r"^functions is empty"):
        prepare([])
    with pytest.raises(TypeError, match=r"^functions\[1\] is a str"):
        prepare([Modular([1.0]), "cut"])
    with pytest.raises(
        ValueError, match=r"^functions\[2\] has n = 4, but functions\[0\] has n = 3"
    ):
        prepare([Modular(np.zeros(3)), Cut(3, []), Cut(4, [])])


def test_a_function_in_place_of_a_list(engine):
    """A common slip: prepare(f) for prepare([f])."""
    with pytest.raises(TypeError):
        prepare(Cut(3, [(0, 1)]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Cut(3, [(0, 3)]), ValueError, r"edges\[0.*3"),
        (lambda: Cut(3, [(0, 1), (-1, 2)]), ValueError, r"edges\[1.*-1"),
        (lambda: Cut(3, [(0, 1), (1, 2)], [1.0, -0.5]), ValueError, r"weights\[1\] = -0.5"),
        (lambda: Cut(3, [(0, 1)], [np.nan]), ValueError, r"weights"),
        (lambda: Cut(3, [(0, 1)], [np.inf]), ValueError, r"weights"),
        (lambda: Cut(3, [(1, 1)]), ValueError, r"edges\[0\]"),
        (lambda: Cut(3, [(0.5, 1)]), (TypeError, ValueError), r"edges"),
        (lambda: grid_cuts((2, 3))[0].with_weights([1.0]), ValueError, r"weights"),
        (lambda: grid_cuts((2, 3))[0].with_weights(-np.ones(4)), ValueError, r"weights\[0\] = -1"),
        (lambda: grid_cuts((0, 3)), ValueError, r"shape\[0\] is 0"),
        (lambda: -1.0 * Cut(3, [(0, 1)]), ValueError, r"-1"),
    ],
)
def test_functions_that_no_solver_should_see(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("name", ["grid", "sparse", "dense"])
def test_products_that_overflow(engine, name):
    """Each number is finite, their product is not: refused, or solved; never a wrong answer."""
    prepared = prepare([FUNCTIONS[name]()])
    theta = np.array([5.0, -1.0, 0.5, -1.0, -1.0, 1.0])
    weights = np.full(len(prepared.edges), 1e200)
    with pytest.raises(ValueError, match=r"(weight|alpha|overflow|large|finite)"):
        prepared.maximize(theta, [1e200], weights)


@pytest.mark.parametrize("name", ["grid", "sparse", "dense"])
def test_products_that_underflow(engine, name):
    prepared = prepare([FUNCTIONS[name]()])
    theta = np.array([5.0, -1.0, 0.5, -1.0, -1.0, 1.0])
    weights = np.full(len(prepared.edges), 1e-200)
    y, value, stats = prepared.maximize(theta, [1e-200], weights)
    np.testing.assert_array_equal(y, theta > 0)
    assert value == 6.5
    assert 0 < stats[0] < 1e-198


def test_masked_arrays_are_refused():
    """A mask means "not observed": what lies under it must not be used in silence."""
    hidden = np.ma.array([5.0, -1.0, -1.0], mask=[True, False, False])
    prepared = prepare([Cut(3, [(0, 1)])])
    for call in (
        lambda: prepared.maximize(hidden, [1.0]),
        lambda: prepared.perturb(hidden, [1.0], 2, 0),
        lambda: prepared.maximize(np.zeros((3, 3)), hidden[:, None]),
        lambda: min_norm_point(Cut(3, [(0, 1)]), hidden),
    ):
        with pytest.raises(ValueError, match="masked"):
            call()
    open_mask = np.ma.array([5.0, -1.0, -1.0], mask=False)
    assert prepared.maximize(open_mask, [1.0])[1] == 4.0


@pytest.mark.parametrize(
    "f", [Cut(4, [(0, 1)]), ConcaveCardinality([0, 1, 1, 1, 1]), Modular(np.ones(4))]
)
def test_fields_whose_sum_overflows(f):
    with pytest.raises(ValueError, match=r"theta\[\d\].*overflow"):
        maximize(f, [1e308] * 4)


def test_fields_whose_square_overflows():
    found = min_norm_point(Cut(3, [(0, 1)]), [0.0, 1e200, 1.0])
    assert found.s[1] == pytest.approx(-1e200) and np.abs(found.s[[0, 2]]).max() <= 1.0
    assert found.converged and found.gap >= 0.0


def test_one_function_is_not_a_list():
    with pytest.raises(TypeError, match=r"prepare\(\[f\]\)"):
        prepare(Cut(3, [(0, 1)]))
