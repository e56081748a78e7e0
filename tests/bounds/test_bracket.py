"""Both ends at once: every certified method that applies and can be paid for takes part."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import brute_log_partition
from scipy.special import gammaln

import logsuper as ls
from logsuper.bounds import _bethe, _bracket, _mean_field, _trw
from logsuper.bounds._bracket import components, restricted, single_elements
from logsuper.structures import pairwise_of


def robust_pair(n: int) -> ls.RobustPn:
    """A pairwise function whose terms have no closed form for their expectation."""
    return ls.RobustPn(n, [[0, 1]], threshold=[2.0], weights=[[1.0, 2.0]])


def test_a_pairwise_function_is_bounded_through_its_normal_form() -> None:
    """`marginals()` and "bethe" raised NotApplicable: mean field was asked about the terms."""
    rng = np.random.default_rng(0)
    cuts = ls.grid_cuts((25, 25), neighbors=8)
    f = sum(0.5 * cut for cut in cuts) + robust_pair(625) - ls.Modular(rng.normal(size=625))
    m = ls.LogSupermodular(f)
    assert m.marginals().method == "bethe"
    found = m.bracket()
    assert found.below.method == "bethe"
    assert found.above.method == "trw"
    # the same function, its pair written as an edge and a field
    pairwise = pairwise_of(f)
    same = ls.LogSupermodular(pairwise.as_function())
    assert abs(same.log_partition("mean_field").value - m.log_partition("mean_field").value) < 1e-6


def test_mean_field_takes_a_term_through_its_normal_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = robust_pair(7) + ls.Coverage(rng.random((7, 5)) < 0.5) - ls.Modular(rng.normal(size=7))
    bound = _mean_field.log_partition(f)
    assert bound.value <= brute_log_partition(f) <= bound.value + 2.0


def bipartite(a: int, b: int, w: float, t: float) -> tuple[ls.SubmodularFunction, float]:
    """Return a complete bipartite model with equal weights, and log Z from the counts."""
    edges = np.stack(np.meshgrid(np.arange(a), a + np.arange(b), indexing="ij"), -1).reshape(-1, 2)
    i, j = np.arange(a + 1)[:, None], np.arange(b + 1)

    def choose(n: int, k: np.ndarray) -> np.ndarray:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    terms = choose(a, i) + choose(b, j) + t * (i + j) - w * (i * (b - j) + (a - i) * j)
    return ls.Cut(a + b, edges, w) - ls.Modular(np.full(a + b, t)), float(
        np.logaddexp.reduce(terms.ravel())
    )


@pytest.mark.parametrize("w, t", [(0.003, 1.3), (0.004, 0.0)])
def test_large_dense_graphs_have_tree_reweighted_bounds_too(w: float, t: float) -> None:
    f, truth = bipartite(250, 250, w, t)
    found = ls.LogSupermodular(f).bracket()
    assert found.lower <= truth <= found.upper
    assert found.above.method == "trw"
    alone = ls.LogSupermodular(f).log_partition("trw").value
    assert found.upper - truth < 1.3 * (alone - truth) + 0.01
    assert truth - found.lower < 0.1


def test_a_budget_buys_effort_and_every_effort_is_a_bound() -> None:
    f, truth = bipartite(30, 30, 0.05, 0.2)
    model = pairwise_of(f)
    for method, side in ((_bethe, 1.0), (_trw, -1.0)):
        assert method.effort(model, 10.0) is None
        efforts = [method.effort(model, budget) for budget in (1e7, 1e8, 1e9, 1e10)]
        values = [side * method.within(f, e).value for e in efforts if e is not None]
        assert len(values) >= 3
        assert all(value <= side * truth for value in values)
        assert values[-1] >= values[0] - 1e-9


def pieces(seed: int) -> list[ls.SubmodularFunction]:
    rng = np.random.default_rng(seed)
    across, down = ls.grid_cuts((3, 4))
    return [
        0.7 * across + 0.4 * down - ls.Modular(rng.normal(size=12)),
        ls.Cut(3, [(0, 1), (1, 2)], [1.0, 2.0]) - ls.Modular(rng.normal(size=3)),
        ls.Modular([0.3]),
        ls.Coverage([[0], [0, 1], [1], [0]], [1.0, 2.0]) - ls.Modular(rng.normal(size=4)),
    ]


def beside(functions: list[ls.SubmodularFunction]) -> ls.SubmodularFunction:
    """Return the sum of functions of different elements, as cuts, fields and coverage of all."""
    n = sum(f.n for f in functions)
    total: ls.SubmodularFunction = ls.Modular(np.zeros(n))
    first = 0
    for f in functions:
        pairwise = pairwise_of(f)
        if pairwise is not None:
            t = np.zeros(n)
            t[first : first + f.n] = pairwise.t
            total = total + ls.Cut(n, pairwise.edges + first, pairwise.weights) - ls.Modular(t)
        else:
            for weight, atom in f.terms():
                if isinstance(atom, ls.Modular):
                    t = np.zeros(n)
                    t[first : first + f.n] = weight * atom.t
                    total = total + ls.Modular(t)
                else:
                    sets = [[]] * first + [[0], [0, 1], [1], [0]] + [[]] * (n - first - f.n)
                    total = total + ls.Coverage(sets, atom.weights)
        first += f.n
    return total


def test_parts_are_found_and_restricted(seed: int) -> None:
    functions = pieces(seed)
    f = beside(functions)
    parts = components(f)
    assert [len(part) for part in parts] == [12, 3, 1, 4]
    alone, error = single_elements(f, parts)
    total = float(alone.sum()) + sum(brute_log_partition(g) for _, g in restricted(f, parts))
    assert total == pytest.approx(sum(brute_log_partition(g) for g in functions), abs=1e-10)
    assert error < 1e-13


def test_bounds_of_parts_add_up(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Small parts are exact where the whole is not."""
    functions = pieces(seed)
    f = beside(functions)
    truth = sum(brute_log_partition(g) for g in functions)
    whole = _bracket._exact.operations
    monkeypatch.setattr(_bracket._exact, "operations", lambda g: np.inf if g.n > 10 else whole(g))
    found = _bracket.bracket(f, budget=1e8)
    assert found.lower <= truth + 1e-12
    assert found.upper >= truth - 1e-12
    assert found.below.details["components"] == 4
    assert "enumeration" in found.below.method
    # only the first part is bounded, as well as alone
    first = _bracket.bracket(pairwise_of(functions[0]).as_function(), budget=1e8 * 12 / 20)
    assert found.width == pytest.approx(first.width, rel=0.2)


def test_many_small_parts_are_quick_and_exact() -> None:
    rng = np.random.default_rng(0)
    count = 3000
    edges = np.array([(3 * k + i, 3 * k + i + 1) for k in range(count) for i in range(2)])
    w, t = rng.exponential(size=2 * count), rng.normal(size=3 * count)
    m = ls.LogSupermodular(ls.Cut(3 * count, edges, w) - ls.Modular(t))
    found = m.bracket()
    assert found.width < 1e-6
    assert found.lower <= m.log_partition("elimination").value + 1e-8
