"""One question for a batch: every method against enumeration, strips within their widths."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from oracles import FAMILIES, brute_log_partition, enumerate_x, random_concave, random_cut
from structures.models import contrast, edges_of, make_functions, reweighted

import logsuper as ls
from logsuper.bounds import Choice, NotApplicable, TooLarge, choose, infer, strip_widths
from logsuper.bounds._infer import Inferred
from logsuper.functions import SubmodularFunction
from logsuper.solvers import Prepared, kernels


def truth(
    prepared: Prepared, alpha: np.ndarray, theta: np.ndarray, factors: np.ndarray | None = None
) -> Inferred:
    """Return log Z, E f_k and E x of each model, state by state; fixed elements have no field."""
    X = enumerate_x(prepared.n)
    rows = []
    for m, row in enumerate(theta):
        functions = list(prepared.functions)
        if factors is not None:
            functions = [
                reweighted(f, prepared.edges, factors[m, k] if factors.ndim == 3 else factors[m])
                for k, f in enumerate(functions)
            ]
        F = np.stack([f(X) for f in functions], axis=1)
        finite = np.isfinite(row)
        agrees = np.all(X[:, ~finite] == (row[~finite] > 0), axis=1)
        score = (X[:, finite] @ row[finite] - F @ alpha)[agrees]
        top = score.max()
        p = np.exp(score - top)
        value = top + np.log(p.sum())
        p /= p.sum()
        rows.append((value, p @ F[agrees], p @ X[agrees]))
    return Inferred(*(np.array(part) for part in zip(*rows, strict=True)))


def check(found: Inferred, exact: Inferred, known: float = 1e-10) -> None:
    """Assert that all numbers are equal to rounding."""
    scale = 1.0 + np.abs(exact.stats).max()
    assert found.values.shape == exact.values.shape
    assert np.allclose(found.values, exact.values, rtol=known, atol=known * scale)
    assert np.allclose(found.stats, exact.stats, rtol=known, atol=known * scale)
    assert np.allclose(found.mean, exact.mean, rtol=0, atol=known)


def random_fields(rng: np.random.Generator, problems: int, n: int) -> np.ndarray:
    """Return fields without infinite entries, with some, and with nothing else."""
    theta = 1.5 * rng.normal(size=(problems, n))
    for m in range(1, problems):
        share = 1.0 if m == problems - 1 else 0.3
        fixed = rng.random(n) < share
        theta[m, fixed] = np.where(rng.random(fixed.sum()) < 0.5, -np.inf, np.inf)
    return theta


def random_factors(
    rng: np.random.Generator, prepared: Prepared, problems: int, per_function: bool
) -> np.ndarray:
    """Return factors (M, E) or (M, K, E), a fifth of them 0."""
    own = (len(prepared.functions),) if per_function else ()
    size = (problems, *own, len(prepared.edges))
    return rng.exponential(size=size) * (rng.random(size) < 0.8)


def images(rng: np.random.Generator, shape: tuple[int, int]) -> list[SubmodularFunction]:
    across, down = ls.grid_cuts(shape)
    tilt = ls.Modular(rng.normal(size=across.n))
    return [across, contrast(rng, down, 0.1), across.with_weights(0.3) + down - tilt]


def pairwise(rng: np.random.Generator, n: int) -> list[SubmodularFunction]:
    return [random_cut(rng, n), random_cut(rng, n) - ls.Modular(rng.normal(size=n))]


def counts(rng: np.random.Generator, n: int) -> list[SubmodularFunction]:
    """Return functions of counts over disjoint sets, one of them in two functions, and fields."""
    order = rng.permutation(n)
    sets = order[: n // 2], order[n // 2 : -1]  # the last element is counted nowhere
    one, two = (ls.ConcaveCardinality(random_concave(rng, len(s)), n=n, subset=s) for s in sets)
    other = ls.ConcaveCardinality(random_concave(rng, len(sets[0])), n=n, subset=sets[0])
    return [one + 0.5 * two, other - ls.Modular(rng.normal(size=n)), ls.Modular(rng.normal(size=n))]


# ------------------------------------------------------------------------------ against enumeration


@each("family", FAMILIES)
def test_enumeration_of_any_family(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare([FAMILIES[family](rng, 6), FAMILIES[family](rng, 6)])
    alpha, theta = rng.exponential(size=2), random_fields(rng, 4, 6)
    assert choose(s) == Choice("enumeration")
    exact = truth(s, alpha, theta)
    check(infer(s, alpha, theta, choice=choose(s)), exact, 1e-9)


@pytest.mark.parametrize("factors", [None, "shared", "per function"])
@pytest.mark.parametrize("make, n", [(images, (3, 3)), (images, (2, 5)), (pairwise, 8)])
@pytest.mark.parametrize("method", ["enumeration", "elimination", "strips"])
def test_pairwise_methods(method: str, make, n, factors: str | None, seed: int) -> None:
    if method == "strips" and make is pairwise:
        make, n = images, (5, 2)
    rng = np.random.default_rng([seed, 3])
    s = ls.prepare(make(rng, n))
    alpha = rng.exponential(size=len(s.functions))
    theta = random_fields(rng, 5, s.n)
    given = None if factors is None else random_factors(rng, s, 5, factors == "per function")
    exact = truth(s, alpha, theta, given)
    for side in ("lower", "upper"):  # a window that holds the short side makes both exact
        found = infer(s, alpha, theta, given, choice=Choice(method, 5), side=side)
        check(found, exact)
    # each model by itself, and on threads
    for m in range(5):
        row = None if given is None else given[m : m + 1]
        options = {"choice": Choice(method, 5), "side": "upper", "n_jobs": 2}
        alone = infer(s, alpha, theta[m : m + 1], row, **options)
        assert alone.values[0] == pytest.approx(found.values[m], rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("n", [5, 9])
def test_counts(n: int, seed: int) -> None:
    rng = np.random.default_rng([seed, n])
    s = ls.prepare(counts(rng, n))
    alpha = rng.exponential(size=3)
    theta = random_fields(rng, 6, n)
    exact = truth(s, alpha, theta)
    check(infer(s, alpha, theta, choice=Choice("cardinality")), exact)
    check(infer(s, alpha, theta, choice=Choice("enumeration")), exact)


def test_modular_functions_by_every_exact_method(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare([ls.Modular(rng.normal(size=7)), ls.Modular(rng.normal(size=7))])
    alpha, theta = rng.exponential(size=2), random_fields(rng, 4, 7)
    exact = truth(s, alpha, theta)
    for method in ("enumeration", "elimination", "cardinality"):
        check(infer(s, alpha, theta, choice=Choice(method)), exact)


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 3), st.data())
def test_any_pairwise_model(number: int, n: int, count: int, data: st.DataObject) -> None:
    """Weights over some orders of magnitude, alpha of 0, edges that only some functions have."""
    rng = np.random.default_rng(number)
    functions = [
        random_cut(rng, n) + random_cut(rng, n) - ls.Modular(rng.normal(size=n))
        for _ in range(count)
    ]
    s = ls.prepare(functions)
    alpha = 10.0 ** rng.uniform(-3, 1, count) * (rng.random(count) < 0.8)
    theta = random_fields(rng, 3, n)
    factors = None
    if len(s.edges) and data.draw(st.booleans()):
        factors = random_factors(rng, s, 3, data.draw(st.booleans()))
    exact = truth(s, alpha, theta, factors)
    for method in ("enumeration", "elimination"):
        check(infer(s, alpha, theta, factors, choice=Choice(method)), exact)


def test_conditioned_models(seed: int) -> None:
    """What is fixed beforehand, or by infinite fields, is one model."""
    rng = np.random.default_rng(seed)
    whole = images(rng, (3, 4))
    fixed = {1: 1, 6: 0, 7: 1}
    parts = [f.condition(fixed) for f in whole]
    s, full = ls.prepare([g for g, _ in parts]), ls.prepare(whole)
    constants = np.array([constant for _, constant in parts])
    alpha, theta = rng.exponential(size=3), rng.normal(size=(3, 9))
    held = np.zeros((3, 12))
    held[:, list(fixed)] = [np.inf if value else -np.inf for value in fixed.values()]
    free = np.flatnonzero(np.isfinite(held[0]))
    held[:, free] = theta
    assert not s.structure.is_whole
    for method, other in (("enumeration", "strips"), ("elimination", "elimination")):
        here = infer(s, alpha, theta, choice=Choice(method))
        there = infer(full, alpha, held, choice=Choice(other, 3))
        assert np.allclose(here.values - alpha @ constants, there.values, rtol=0, atol=1e-11)
        assert np.allclose(here.stats + constants, there.stats, rtol=0, atol=1e-11)
        assert np.allclose(here.mean, there.mean[:, free], rtol=0, atol=1e-12)
        assert np.array_equal(there.mean[:, list(fixed)], [list(fixed.values())] * 3)


@pytest.mark.parametrize("neighbors", [8, 26])
def test_larger_graphs_by_elimination(neighbors: int, seed: int) -> None:
    """Derivatives of log Z by differences, where there are too many states to enumerate."""
    rng = np.random.default_rng([seed, neighbors])
    shape = (3, 8) if neighbors == 8 else (2, 3, 4)
    s = ls.prepare([0.4 * f for f in make_functions(rng, shape, neighbors, "sum")])
    alpha, theta = rng.uniform(0.5, 1.0, 2), rng.normal(size=(1, 24))
    theta[0, :2] = np.inf, -np.inf
    choice = choose(s)
    assert choice == Choice("elimination")
    found = infer(s, alpha, theta, choice=choice)
    value = lambda a, t: infer(s, a, t, choice=choice).values[0]  # noqa: E731
    h = 1e-4
    for k in range(2):
        step = h * np.eye(2)[k]
        slope = (value(alpha - step, theta) - value(alpha + step, theta)) / (2 * h)
        assert slope == pytest.approx(found.stats[0, k], abs=1e-5)
    for d in (2, 11):
        step = h * np.eye(24)[d]
        slope = (value(alpha, theta + step) - value(alpha, theta - step)) / (2 * h)
        assert slope == pytest.approx(found.mean[0, d], abs=1e-6)
    assert found.mean[0, :2].tolist() == [1.0, 0.0]


# ------------------------------------------------------------------------------------------- strips


@pytest.mark.parametrize("factors", [None, "shared", "per function"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
def test_strips_bound_the_truth_within_their_widths(shape, factors, seed: int) -> None:
    rng = np.random.default_rng([seed, *shape])
    s = ls.prepare(images(rng, shape))
    alpha, theta = rng.uniform(0.2, 0.8, 3), random_fields(rng, 4, s.n)
    given = None if factors is None else random_factors(rng, s, 4, factors == "per function")
    exact = truth(s, alpha, theta, given).values
    modes = s.maximize(theta, alpha, edge_weights=given)[0]
    others = rng.integers(0, 2, modes.shape, dtype=np.uint8)
    others = np.where(np.isinf(theta), theta > 0, others).astype(np.uint8)
    widths = []
    for window in (1, 2, 5):
        for references in (modes, others):
            low, high = (
                infer(
                    s, alpha, theta, given, choice=Choice("strips", window), side=side,
                    references=references,
                ).values
                for side in ("lower", "upper")
            )  # fmt: skip
            slack = 1e-12 * (1.0 + np.abs(exact))
            assert np.all(low - slack <= exact) and np.all(exact <= high + slack)
            width = strip_widths(s, alpha, theta, given, window, references)
            assert np.allclose(width, high - low, rtol=1e-9, atol=1e-11)
            if references is modes:
                widths.append(width)
                default = infer(s, alpha, theta, given, choice=Choice("strips", window)).values
                assert np.array_equal(default, low)
    assert np.all(widths[2] <= 1e-11) and widths[0][0] > 1e-4
    # all pixels of the last model are fixed
    assert np.all(np.array(widths)[:, 3] <= 1e-11)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_strips_return_the_derivatives_of_the_bound(side: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare(images(rng, (5, 5)))
    alpha, theta = rng.uniform(0.2, 0.8, 3), rng.normal(size=(2, 25))
    theta[1, 3], theta[1, 11] = np.inf, -np.inf
    factors = rng.exponential(size=(2, 3, len(s.edges)))
    x = s.maximize(theta, alpha, edge_weights=factors)[0]

    def value(a: np.ndarray, t: np.ndarray) -> Inferred:
        options = {"choice": Choice("strips", 2), "side": side, "references": x}
        return infer(s, a, t, factors, **options)

    found = value(alpha, theta)
    h = 1e-5
    for k in range(3):
        step = h * np.eye(3)[k]
        slope = (value(alpha - step, theta).values - value(alpha + step, theta).values) / (2 * h)
        assert np.allclose(slope, found.stats[:, k], rtol=1e-6, atol=1e-6)
    for d in (0, 7, 12, 24):
        step = h * np.eye(25)[d]
        slope = (value(alpha, theta + step).values - value(alpha, theta - step).values) / (2 * h)
        assert np.allclose(slope, found.mean[:, d], rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (2, 2), (2, 6), (6, 2)])
def test_strips_of_narrow_images(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = ls.prepare(images(rng, shape))
    alpha, theta = rng.exponential(size=3), random_fields(rng, 3, s.n)
    exact = truth(s, alpha, theta)
    for window in (2, 9):
        check(infer(s, alpha, theta, choice=Choice("strips", window)), exact)


# ------------------------------------------------------------------------------------------- choice


def test_tiny_ground_sets_are_enumerated() -> None:
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        assert choose(ls.prepare([FAMILIES[family](rng, 10)])) == Choice("enumeration"), family


def test_sensible_choices() -> None:
    rng = np.random.default_rng(0)
    logdet = ls.LogDet(np.eye(16))
    cases = [
        (Choice("strips", 6), ls.grid_cuts((3, 4))),
        (Choice("strips", 6), ls.grid_cuts((60, 80))),
        (Choice("strips", 6), [ls.Cut(20, edges_of((4, 5))) - ls.Modular(np.ones(20))]),
        (Choice("strips", 6), ls.grid_cuts((1, 500))),
        (Choice("elimination"), ls.grid_cuts((4, 30), neighbors=8)),
        (Choice("elimination"), ls.grid_cuts((3, 3, 30))),
        (Choice("elimination"), [ls.Cut(400, [(0, j) for j in range(1, 400)])]),
        (Choice("elimination"), [f.condition({7: 1})[0] for f in ls.grid_cuts((5, 20))]),
        (Choice("enumeration"), [f.condition({7: 1})[0] for f in ls.grid_cuts((3, 5))]),
        (Choice("enumeration"), [logdet]),
        (Choice("enumeration"), ls.grid_cuts((4, 4), neighbors=8)),
        (Choice("enumeration"), [sum(ls.grid_cuts((4, 4))) + logdet]),
        (Choice("cardinality"), [ls.ConcaveCardinality(np.sqrt, n=2000)]),
        (Choice("cardinality"), counts(rng, 40)),
        (Choice("enumeration"), counts(rng, 15)),
    ]
    for expected, functions in cases:
        assert choose(ls.prepare(functions)) == expected, functions
    # where the short side is not too long, the image is summed whole
    whole = Choice("strips", 9) if kernels() is not None else Choice("elimination")
    assert choose(ls.prepare(ls.grid_cuts((9, 100)))) == whole
    assert choose(ls.prepare(ls.grid_cuts((9, 100))), budget=1e5) == Choice("strips", 6)
    assert choose(ls.prepare(ls.grid_cuts((9, 100))), window=9) == Choice("strips", 9)
    assert choose(ls.prepare(ls.grid_cuts((50, 50))), budget=2e7) == Choice("strips", 9)


@pytest.mark.parametrize("seed_of_case", range(3))
def test_what_is_chosen_is_right(seed_of_case: int) -> None:
    rng = np.random.default_rng(seed_of_case)
    for functions in (
        images(rng, (3, 4)),
        [sum(images(rng, (4, 3)))],
        make_functions(rng, (3, 4), 8, "contrast"),
        counts(rng, 12),
        pairwise(rng, 12),
        [0.5 * FAMILIES["log-det"](rng, 11), random_cut(rng, 11)],
    ):
        s = ls.prepare(functions)
        alpha, theta = rng.uniform(0.2, 1.0, len(functions)), random_fields(rng, 3, s.n)
        check(infer(s, alpha, theta, choice=choose(s)), truth(s, alpha, theta), 1e-9)
        if len(s.edges) and s.solver != "min_norm":
            factors = random_factors(rng, s, 3, per_function=True)
            found = infer(s, alpha, theta, factors, choice=choose(s, factors=True))
            check(found, truth(s, alpha, theta, factors), 1e-9)


def test_refused_by_name() -> None:
    complete = np.stack(np.triu_indices(200, 1), axis=1)
    covers = np.zeros((30, 10), dtype=bool)
    covers[:20] = np.kron(np.eye(10), np.ones((2, 1))) > 0
    with pytest.raises(TooLarge, match=r"operations per example for \[Cut\(n=200, edges=19900\)\]"):
        choose(ls.prepare([ls.Cut(200, complete)]))
    with pytest.raises(TooLarge, match=r"above 1e\+09; use method='samples'"):
        choose(ls.prepare(ls.grid_cuts((12, 12, 12))))
    with pytest.raises(TooLarge, match=r"\[ConcaveCardinality\(n=100000\)\]"):
        choose(ls.prepare([ls.ConcaveCardinality(np.sqrt, n=100_000)]))
    for functions in ([ls.LogDet(np.eye(17))], [ls.ConcaveCardinality(np.sqrt, n=30),
                                                ls.Cut(30, [(0, 1)])]):  # fmt: skip
        with pytest.raises(NotApplicable, match=f"at most 16 elements, got n = {functions[0].n}"):
            choose(ls.prepare(functions))
    # edges of other terms than cuts take no factors
    mixed = ls.prepare([ls.Cut(30, [(0, 1)]), ls.Coverage(covers)])
    assert choose(mixed) == Choice("elimination")
    with pytest.raises(NotApplicable, match="Coverage"):
        choose(mixed, factors=True)


def test_methods_refuse_what_they_cannot_do() -> None:
    logdet = ls.prepare([ls.LogDet(np.eye(12))])
    diagonals = ls.prepare(ls.grid_cuts((3, 4), neighbors=8))
    holes = ls.prepare([f.condition({5: 1})[0] for f in ls.grid_cuts((3, 5))])
    for s, method, name in (
        (logdet, "elimination", "elimination needs pairwise functions"),
        (logdet, "strips", "strips needs pairwise functions"),
        (logdet, "cardinality", "cardinality needs functions of counts"),
        (diagonals, "strips", "strips needs 4-neighbour cuts of one image"),
        (diagonals, "cardinality", "cardinality needs functions of counts"),
        (holes, "strips", "strips needs 4-neighbour cuts of one image .* without fixed pixels"),
    ):
        alpha, theta = np.ones(len(s.functions)), np.zeros((1, s.n))
        with pytest.raises(NotApplicable, match=name):
            infer(s, alpha, theta, choice=Choice(method, 3))
    with pytest.raises(TooLarge, match="enumeration takes up to 16 elements, got n = 17"):
        infer(ls.prepare([ls.LogDet(np.eye(17))]), np.ones(1), np.zeros((1, 17)),
              choice=Choice("enumeration"))  # fmt: skip
    with pytest.raises(ValueError, match="method must be one of enumeration, elimination, card"):
        infer(logdet, np.ones(1), np.zeros((1, 12)), choice=Choice("transfer"))


def test_no_models_and_widths_of_what_is_not_an_image() -> None:
    s = ls.prepare(ls.grid_cuts((3, 4), neighbors=8))
    alpha, none = np.ones(4), np.empty((0, 12))
    found = infer(s, alpha, none, choice=choose(s))
    assert (
        found.values.shape == (0,) and found.stats.shape == (0, 4) and found.mean.shape == (0, 12)
    )
    with pytest.raises(NotApplicable, match="strips needs 4-neighbour cuts"):
        strip_widths(s, alpha, np.zeros((1, 12)), None, 3, np.zeros((1, 12), dtype=np.uint8))


def test_enumeration_tabulates_functions_once(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    s = ls.prepare(ls.grid_cuts((2, 4)))
    calls = []
    solve = s.maximize
    monkeypatch.setattr(s, "maximize", lambda *a, **k: calls.append(1) or solve(*a, **k))
    theta = rng.normal(size=(3, 8))
    first, second = (
        infer(s, np.array([a, 1.0]), theta, choice=Choice("enumeration")) for a in (0.5, 2.0)
    )
    assert len(calls) == 1
    for found, a in ((first, 0.5), (second, 2.0)):
        f = a * s.functions[0] + s.functions[1] - ls.Modular(theta[1])
        assert found.values[1] == pytest.approx(brute_log_partition(f), rel=1e-12)
