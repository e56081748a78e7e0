"""Grids given in every way there is, what conditioning leaves of them, and their true values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from oracles import enumerate_x

from logsuper.functions import Cut, Modular, SubmodularFunction, grid_cuts
from logsuper.solvers import Prepared, kernels, prepare
from logsuper.solvers._flow import Flow
from logsuper.structures import Grid, find_structure

Shape = tuple[int, ...]

GRID = "graph" if kernels() is None else "grid"
"""The solver of grids."""

# ----------------------------------------------------------------------------- ways to give a grid


def edges_of(shape: Shape, neighbors: int | None = None) -> np.ndarray:
    """Return the edges of a grid by comparing all pairs of pixels, i < j."""
    reach = {2: 1, 4: 1, 6: 1, 8: 2, 18: 2, 26: 3, None: 1}[neighbors]
    place = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape), axis=1)
    i, j = np.triu_indices(len(place), 1)
    step = np.abs(place[i] - place[j])
    near = (step.max(axis=1) == 1) & (step.sum(axis=1) <= reach)
    return np.stack([i[near], j[near]], axis=1)


def as_one_cut(rng: np.random.Generator, edges: np.ndarray, weights: np.ndarray) -> Cut:
    """Return a cut with its edges in any order, and each with its ends in any order."""
    n, order = edges.max() + 1, rng.permutation(len(edges))
    turned = np.where(rng.random(len(edges))[:, None] < 0.5, edges, edges[:, ::-1])
    return Cut(int(n), turned[order], weights[order])


def as_some_cuts(
    rng: np.random.Generator, edges: np.ndarray, weights: np.ndarray, count: int = 3
) -> list[Cut]:
    """Return several cuts that share out the edges, some of which are in two of them."""
    mine = rng.random((count, len(edges))) < 0.2
    mine[rng.integers(count, size=len(edges)), np.arange(len(edges))] = True
    share = weights / mine.sum(axis=0)
    n = int(edges.max() + 1)
    return [Cut(n, edges[m], share[m]) for m in mine]


def contrast(rng: np.random.Generator, cut: Cut, zeros: float = 0.0) -> Cut:
    """Return a cut with a weight of its own on each edge, some of them 0."""
    count = len(cut.weights)
    return cut.with_weights(rng.exponential(size=count) * (rng.random(count) >= zeros))


def make_functions(
    rng: np.random.Generator, shape: Shape, neighbors: int | None, style: str
) -> list[SubmodularFunction]:
    """Return the functions of a grid: uniform or contrast weights, as one cut or as several."""
    cuts = grid_cuts(shape, neighbors)
    if style == "uniform":
        return list(cuts)
    if style == "contrast":
        return [contrast(rng, cut, 0.1) for cut in cuts]
    if style == "sum":  # of uniform directions, one with a contrast, and fields
        total = sum(float(rng.exponential()) * cut for cut in cuts)
        return [total - Modular(rng.normal(size=cuts[0].n)), contrast(rng, cuts[0])]
    edges = edges_of(shape, neighbors)
    weights = np.ones(len(edges)) if style == "plain cut" else rng.exponential(size=len(edges))
    if style in ("one cut", "plain cut"):
        return [as_one_cut(rng, edges, weights)]
    assert style == "some cuts"
    return list(as_some_cuts(rng, edges, weights))


STYLES = ["uniform", "contrast", "sum", "plain cut", "one cut", "some cuts"]


def condition(
    functions: Iterable[SubmodularFunction], fixed: dict[int, int]
) -> tuple[list[SubmodularFunction], np.ndarray]:
    """Fix elements of all functions; return what is left and the constants."""
    parts = [f.condition(fixed) for f in functions]
    return [g for g, _ in parts], np.array([constant for _, constant in parts])


def rebuilt(f: SubmodularFunction) -> SubmodularFunction:
    """Return the same function, of cuts that do not know where they come from."""
    total: SubmodularFunction = Modular(np.zeros(f.n))
    for weight, atom in f.terms():
        if isinstance(atom, Cut):
            atom = Cut(f.n, atom.edges, atom.weights)
        total = total + weight * atom
    return total


def reweighted(f: SubmodularFunction, edges: np.ndarray, factors: np.ndarray) -> SubmodularFunction:
    """Return a function with factors on its edges, which are listed in any order."""
    place = {edge: e for e, edge in enumerate(map(tuple, edges.tolist()))}
    total: SubmodularFunction = Modular(np.zeros(f.n))
    for weight, atom in f.terms():
        if isinstance(atom, Cut):
            own = np.array([place[edge] for edge in map(tuple, atom.edges.tolist())], dtype=int)
            atom = Cut(f.n, atom.edges, atom.weights * factors[own])
        total = total + weight * atom
    return total


def add(functions: Sequence[SubmodularFunction], alpha: np.ndarray) -> SubmodularFunction:
    """Return the weighted sum of functions."""
    total: SubmodularFunction = Modular(np.zeros(functions[0].n))
    for weight, f in zip(alpha.tolist(), functions, strict=True):
        total = total + weight * f
    return total


# -------------------------------------------------------------------------------------- conditioned


def to_few(
    rng: np.random.Generator, n: int, fixed: dict[int, int], most: int = 12
) -> dict[int, int]:
    """Fix more pixels until no more than so many are free."""
    free = rng.permutation([d for d in range(n) if d not in fixed])
    return fixed | {int(d): int(rng.integers(2)) for d in free[most:]}


def cuts_in(functions: list[SubmodularFunction]) -> list[Cut]:
    return [atom for f in functions for _, atom in f.terms() if isinstance(atom, Cut)]


def on_list(s: Prepared) -> Flow:
    """Return the solver for lists of edges."""
    return Flow(s.structure, on_grid=False)


def check_solver(functions: list[SubmodularFunction], fixed: dict[int, int], n: int) -> Prepared:
    """Assert that functions are prepared as those of a grid with holes; return them prepared."""
    s = prepare(functions)
    left = cuts_in(functions)
    if not left:
        assert s.solver == "sorting" and s.structure.kind == "modular"
        return s
    if find_structure([cut.origin[0] for cut in left]).grid is None:
        assert len(left) < 3  # one of several cuts has too few edges to tell
        return s
    assert s.solver == GRID and s.structure.kind == "grid"
    grid = s.structure.grid
    free = np.array([d for d in range(n) if d not in fixed])
    if fixed:
        assert grid.size == n and np.array_equal(grid.pixels, free)
        assert not s.structure.is_whole
    else:
        assert grid.pixels is None and s.structure.is_whole
    return s


# ------------------------------------------------------------------------------------ true values


def values_on_grid(grid: Grid, k: int, X: np.ndarray) -> np.ndarray:
    """Return the values (M, k) of the cuts of k functions that a grid stands for, edge by edge."""
    whole = np.zeros((len(X), grid.size))
    whole[:, slice(None) if grid.pixels is None else grid.pixels] = X
    whole = whole.reshape(-1, *grid.shape)
    there_is = np.ones(grid.size, dtype=bool)
    if grid.pixels is not None:
        there_is[:] = False
        there_is[grid.pixels] = True
    there_is = there_is.reshape(grid.shape)
    found = np.zeros((len(X), k))
    for number, step, value in grid.planes:
        weights = np.broadcast_to(value, grid.size).reshape(grid.shape)
        for here in np.ndindex(grid.shape):
            there = tuple(np.add(here, grid.steps[step]))
            inside = all(0 <= c < size for c, size in zip(there, grid.shape, strict=True))
            if inside and there_is[here] and there_is[there]:
                apart = whole[:, *here] != whole[:, *there]
                found[:, number] += weights[here] * apart
    return found


def exact_energies(f: SubmodularFunction, theta: np.ndarray) -> list[Fraction]:
    """Return theta'x - f(x) at all x as rational numbers, for cuts and modular terms."""
    linear = [Fraction(float(t)) for t in theta]
    edges: list[tuple[int, int, Fraction]] = []
    for weight, atom in f.terms():
        w = Fraction(weight)
        if isinstance(atom, Modular):
            linear = [a - w * Fraction(t) for a, t in zip(linear, atom.t.tolist(), strict=True)]
        else:
            assert isinstance(atom, Cut)
            pairs = zip(atom.edges.tolist(), atom.weights.tolist(), strict=True)
            edges += [(i, j, w * Fraction(own)) for (i, j), own in pairs]
    energies = []
    for x in enumerate_x(f.n).tolist():
        on = sum((t for t, v in zip(linear, x, strict=True) if v), Fraction(0))
        energies.append(on - sum((w for i, j, w in edges if x[i] != x[j]), Fraction(0)))
    return energies


def number_of(y: np.ndarray) -> int:
    """Return where a labelling stands in `enumerate_x`."""
    return int(y @ (1 << np.arange(len(y))))
