"""Grids are recognised however they are given, what only looks like one is not, answers are right.

A grid that was found is compared with the functions edge by edge, and with brute force.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from networkx.algorithms.approximation import treewidth_min_fill_in
from oracles import brute_maximize, enumerate_x
from structures.models import (
    GRID,
    STYLES,
    as_one_cut,
    as_some_cuts,
    condition,
    edges_of,
    make_functions,
    values_on_grid,
)

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.structures import Structure, find_structure, image_of

IMAGES = [(2, 2), (2, 3), (3, 2), (2, 7), (9, 2), (3, 3), (4, 5), (7, 3), (3, 8), (5, 13), (6, 6)]
BOXES = [
    *((shape, 4) for shape in IMAGES),
    *((shape, 8) for shape in IMAGES if shape[1] > 2),
    *((shape, 6) for shape in [(2, 3, 3), (3, 3, 4), (4, 5, 3), (2, 7, 5)]),
    *((shape, 18) for shape in [(2, 3, 3), (3, 3, 4), (3, 4, 5)]),
    *((shape, 26) for shape in [(2, 3, 3), (3, 3, 4), (4, 3, 5)]),
]


def three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    a, b, c = (1,) * (3 - len(shape)) + tuple(shape)
    return a, b, c


def some_states(rng: np.random.Generator, n: int, count: int = 40) -> np.ndarray:
    return rng.integers(0, 2, (count, n)).astype(float)


def check_values(structure: Structure, functions: list[SubmodularFunction], X: np.ndarray) -> None:
    """Assert that the grid, and the image if there is one, have the values of the functions."""
    grid = structure.grid
    assert grid is not None
    values = np.stack([f(X) for f in functions], axis=1)
    linear = np.stack(
        [X @ structure.tilts.get(k, np.zeros(X.shape[1])) for k in range(len(values[0]))]
    )
    scale = 1e-13 * (1.0 + np.abs(values).max())
    found = values_on_grid(grid, len(functions), X) + linear.T
    assert np.allclose(found, values, rtol=0, atol=scale)
    if structure.image_shape is not None:
        assert np.allclose(image_values(structure, X), values.sum(axis=1), rtol=0, atol=4 * scale)


def image_values(structure: Structure, X: np.ndarray) -> np.ndarray:
    """Return sum w|x_i - x_j| - t'x of the image of a structure."""
    image = structure.image
    assert image is not None and image.shape == structure.image_shape
    rows, columns = image.shape
    assert image.across.shape == (rows, columns - 1) and image.down.shape == (rows - 1, columns)
    x = np.zeros((len(X), rows * columns))
    x[:, image.pixels] = X
    x = x.reshape(-1, rows, columns)
    across = (np.abs(np.diff(x, axis=2)) * image.across).sum((1, 2))
    down = (np.abs(np.diff(x, axis=1)) * image.down).sum((1, 2))
    return across + down - (x * image.t).sum((1, 2))


def check_maxima(functions: list[SubmodularFunction], rng: np.random.Generator) -> None:
    """Compare maxima with brute force."""
    s = ls.prepare(functions)
    theta = 2.0 * rng.normal(size=(6, s.n))
    alpha = rng.exponential(size=len(functions))
    total = sum(float(a) * f for a, f in zip(alpha, functions, strict=True))
    best = brute_maximize(total, theta)[1]
    for tie, loss in ((None, 1e-6), ("min", 1e-12)):
        y, values, stats = s.maximize(theta, alpha, tie=tie)
        assert np.allclose(values, best, rtol=0, atol=loss)
        assert np.allclose((theta * y).sum(axis=1) - total(y), values, rtol=0, atol=1e-12)
        assert np.allclose(stats, np.stack([f(y) for f in functions], axis=1), rtol=0, atol=1e-12)


# -------------------------------------------------------------------------------------- are grids


@each("style", STYLES)
@pytest.mark.parametrize("shape, neighbors", BOXES)
def test_grids_are_recognised(shape: tuple[int, ...], neighbors: int, style: str) -> None:
    rng = np.random.default_rng([*shape, neighbors])
    functions = make_functions(rng, shape, neighbors, style)
    structure = find_structure(functions)
    assert structure.kind == "grid" and structure.is_whole
    assert structure.grid.shape == three(shape)
    assert (structure.image_shape == shape) == (neighbors == 4)
    check_values(structure, functions, some_states(rng, structure.n))
    assert ls.prepare(functions).solver == GRID
    if structure.n <= 12:
        check_maxima(functions, rng)


@pytest.mark.parametrize("shape, neighbors", [((6, 7), 4), ((5, 6), 8), ((4, 4, 4), 6),
                                              ((3, 4, 5), 18), ((4, 3, 4), 26)])  # fmt: skip
@pytest.mark.parametrize("share", [0.0, 0.1, 0.25])
def test_edges_may_be_missing_or_weigh_nothing(
    shape: tuple[int, ...], neighbors: int, share: float, seed: int
) -> None:
    rng = np.random.default_rng([seed, neighbors])
    edges = edges_of(shape, neighbors)
    edges = edges[rng.random(len(edges)) >= share]
    weights = rng.exponential(size=len(edges)) * (rng.random(len(edges)) >= share)
    n = int(np.prod(shape))
    assert edges.max() == n - 1
    for functions in ([as_one_cut(rng, edges, weights)], as_some_cuts(rng, edges, weights)):
        functions = [f - ls.Modular(rng.normal(size=n)) for f in functions]
        structure = find_structure(functions)
        assert structure.kind == "grid" and structure.grid.shape == three(shape)
        check_values(structure, functions, some_states(rng, n))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 9), (9, 1), (9,), (1, 1, 9),
                                   (1, 9, 1), (9, 1, 1)])  # fmt: skip
def test_rows_and_columns(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    functions = [cut.with_weights(rng.exponential(size=len(cut.weights))) for cut in
                 ls.grid_cuts(shape)]  # fmt: skip
    functions[0] = functions[0] - ls.Modular(rng.normal(size=n))
    structure = find_structure(functions)
    assert structure.kind == "grid"
    assert structure.grid.shape == (1, 1, n) and structure.image_shape == (1, n)
    check_values(structure, functions, enumerate_x(n).astype(float))
    check_maxima(functions, rng)


@pytest.mark.parametrize("shape, neighbors", [((1, 4, 5), 26), ((4, 1, 5), 18), ((5, 4, 1), 26),
                                              ((5, 1), 8), ((2, 1, 3), 26), ((3, 2, 2), 26),
                                              ((2, 2, 2), 6), ((7, 2), 8)])  # fmt: skip
def test_flat_volumes_and_short_sides(shape: tuple[int, ...], neighbors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for style in ("uniform", "contrast", "sum"):
        functions = make_functions(rng, shape, neighbors, style)
        structure = find_structure(functions)
        assert structure.kind == "grid" and structure.n == structure.grid.size
        check_values(structure, functions, some_states(rng, structure.n))
        if structure.n <= 12:
            check_maxima(functions, rng)
    # given as a cut they may be taken for any graph, with the same answers
    functions = make_functions(rng, shape, neighbors, "one cut")
    structure = find_structure(functions)
    assert structure.kind in ("grid", "pairwise")
    if structure.grid is not None:
        check_values(structure, functions, some_states(rng, structure.n))
    if structure.n <= 14:
        check_maxima(functions, rng)


def test_grids_and_cuts_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((4, 5))
    diagonals = ls.grid_cuts((4, 5), neighbors=8)[2:]
    edges = edges_of((4, 5), 8)
    for functions in (
        [cuts[0], as_one_cut(rng, edges, rng.exponential(size=len(edges)))],
        [as_one_cut(rng, edges_of((4, 5)), np.ones(31)), diagonals[1]],
        [cuts[0] + cuts[0].with_weights(2.0) + 0.5 * cuts[0], sum(cuts)],
        [ls.Cut(20, [(0, 6), (1, 2)]), *cuts],
    ):
        structure = find_structure(functions)
        assert structure.kind == "grid" and structure.grid.shape == (1, 4, 5)
        check_values(structure, list(functions), some_states(rng, 20))


# ----------------------------------------------------------------------------------- are not grids


def torus(shape: tuple[int, int]) -> np.ndarray:
    index = np.arange(shape[0] * shape[1]).reshape(shape)
    pairs = [np.stack([index, np.roll(index, -1, axis)], axis=-1).reshape(-1, 2) for axis in (0, 1)]
    return np.concatenate(pairs)


def plus(
    shape: tuple[int, ...], *more: tuple[int, int], neighbors: int | None = None
) -> np.ndarray:
    return np.concatenate([edges_of(shape, neighbors), np.array(more)])


LOOKALIKES = {
    "torus": torus((3, 4)),
    "square torus": torus((3, 3)),
    "long torus": torus((6, 5)),
    "an edge joining two rows": plus((3, 4), (3, 4)),
    "rows joined like a chain": plus((3, 4), (3, 4), (7, 8)),
    "an edge joining two rows of a volume": plus((3, 3, 4), (3, 4)),
    "an edge over two pixels": plus((3, 4), (4, 6)),
    "an edge over two rows": plus((4, 3), (1, 7)),
    "a knight's move": plus((4, 5), (0, 7)),
    "two widths": np.array([(0, 4), (4, 8), (0, 5), (1, 2), (2, 3), (5, 10), (7, 11)]),
    "two images side by side": np.concatenate([edges_of((2, 3)), edges_of((3, 2)) + 6]),
    "an image and a pixel more": np.concatenate([edges_of((3, 4)), [(0, 12)]]),
    "a diagonal around the border": plus((4, 5), (4, 10), neighbors=8),
    "all pairs": np.stack(np.triu_indices(9, 1), axis=1),
    "a star": np.array([(0, j) for j in range(1, 12)]),
}


@each("name", LOOKALIKES)
def test_what_only_looks_like_a_grid(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = np.sort(LOOKALIKES[name], axis=1)
    weights = rng.exponential(size=len(edges))
    n = int(edges.max()) + 1
    for functions in ([as_one_cut(rng, edges, weights)], as_some_cuts(rng, edges, weights, 2)):
        assert find_structure(functions).grid is None
        assert find_structure(functions).kind == "pairwise"
        assert find_structure(functions).image is None
        assert ls.prepare(functions).solver == "graph"
        if n <= 13:
            check_maxima(functions, rng)


def test_grids_of_different_shapes_are_not_one() -> None:
    for functions in (
        [ls.grid_cuts((3, 4))[0], ls.grid_cuts((4, 3))[1]],
        [ls.grid_cuts((3, 4))[0] + ls.grid_cuts((2, 6))[0]],
        [ls.grid_cuts((3, 4))[1], ls.grid_cuts((3, 2, 2))[1]],
        [ls.grid_cuts((12,))[0], ls.grid_cuts((3, 4))[0]],
    ):
        assert find_structure(functions).kind == "pairwise"
        check_maxima(functions, np.random.default_rng(0))


@given(st.integers(0, 2**32 - 1), st.sampled_from([6, 8, 9, 10, 12, 13]), st.data())
def test_any_edges_of_any_lags(number: int, n: int, data: st.DataObject) -> None:
    """Edges with few differences of indices, like those of grids: found or not, all is right."""
    rng = np.random.default_rng(number)
    lags = data.draw(st.lists(st.integers(1, n - 1), min_size=1, max_size=4, unique=True))
    pairs = np.array([(i, i + lag) for lag in lags for i in range(n - lag)])
    pairs = pairs[rng.random(len(pairs)) < data.draw(st.sampled_from([0.3, 0.8, 1.0]))]
    f = ls.Cut(n, pairs, rng.exponential(size=len(pairs))) - ls.Modular(rng.normal(size=n))
    structure = find_structure([f])
    X = some_states(rng, n)
    if structure.grid is not None:
        assert structure.grid.size == n and structure.is_whole
        check_values(structure, [f], X)
    image = image_of(f)
    if image is not None:
        assert np.allclose(image_values(structure, X), f(X), atol=1e-12)
    s = ls.prepare([f])
    theta = rng.normal(size=(3, n))
    found, best = s.maximize(theta, 1.0, tie="max")[1], brute_maximize(f, theta)[1]
    assert np.allclose(found, best, rtol=0, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 6), st.data())
def test_one_edge_too_many_or_too_few(number: int, rows: int, columns: int, data) -> None:
    """An image with one more edge may have diagonals, or be no image, but is never wrong."""
    rng = np.random.default_rng(number)
    n = rows * columns
    edges = edges_of((rows, columns))
    extra = tuple(sorted(rng.choice(n, 2, replace=False).tolist()))
    known = set(map(tuple, edges.tolist()))
    if data.draw(st.booleans()):
        edges = edges[np.arange(len(edges)) != rng.integers(len(edges))]
    else:
        edges = np.concatenate([edges, [extra]])
    f = as_one_cut(rng, edges, rng.exponential(size=len(edges)))
    if f.n < n:  # the last pixel has lost its only edge
        return
    structure = find_structure([f])
    (r, c), (s, d) = (divmod(p, columns) for p in extra)
    if len(edges) < len(known):
        assert structure.kind == "grid"
    elif extra in known:
        assert structure.image_shape == (rows, columns)
    elif columns > 2 and max(abs(r - s), abs(c - d)) > 1:
        assert structure.image_shape is None
    if structure.grid is not None:
        check_values(structure, [f], some_states(rng, n))


# ------------------------------------------------------------------------------------------ widths


@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, 5), (5, 3), (2, 6), (1, 7), (3, 3, 3)]),
       st.data())  # fmt: skip
def test_the_treewidth_is_no_less_than_was_said(number: int, shape, data: st.DataObject) -> None:
    rng = np.random.default_rng(number)
    missing = data.draw(st.sampled_from([0.0, 0.0, 0.1]))
    functions = [
        cut.with_weights(1.0 * (rng.random(len(cut.weights)) >= missing))
        for cut in ls.grid_cuts(shape)
    ]
    n = functions[0].n
    count = data.draw(st.integers(0, 3))
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(n)[:count]}
    functions = condition(functions, fixed)[0] if fixed else functions
    structure = find_structure(functions)
    if structure.grid is None:
        return
    graph = nx.Graph()
    graph.add_nodes_from(range(structure.n))
    for form in structure.pairwise:
        graph.add_edges_from(form.edges.tolist())
    assert 0 <= structure.grid.least_width <= treewidth_min_fill_in(graph)[0]
    if not missing and not fixed:
        assert structure.grid.least_width == sorted((1, *shape))[-2]
