"""More than ten thousand random problems, each compared with the max-flow of somebody else.

All numbers are integers, so that energies are compared without any tolerance. They span up to ten
orders of magnitude, with weights of 0, isolated nodes, alpha = 0, fixed elements and ties.
"""

import functools
import importlib.util

import numpy as np
from flow_oracles import (
    grid_edges,
    networkx_maximum,
    ortools_maximum,
    random_edges,
    scipy_maxima,
    with_fixed,
)

from logsuper.functions import Cut, Modular, grid_cuts
from logsuper.solvers import prepare

STRUCTURES = 48
PROBLEMS = {"ties": 160, "six digits": 120, "ten digits": 40}


def random_structure(rng):
    """Return functions that are all cuts of one graph: a grid, a sparse or a dense graph."""
    sort = rng.choice(["image", "volume", "row", "hidden grid", "sparse", "dense"])
    if sort in ("image", "volume", "row"):
        most = {"image": (14, 14), "volume": (6, 6, 6), "row": (2, 140)}[sort]
        shape = tuple(int(rng.integers(1, size)) for size in most)
        neighbors = int(rng.choice([4, 8] if len(shape) == 2 else [6, 18, 26]))
        cuts = grid_cuts(shape, neighbors)
        return [*cuts, sum(cuts, Modular(np.zeros(cuts[0].n)))] if rng.integers(2) else list(cuts)
    if sort == "hidden grid":
        height, width = (int(s) for s in rng.integers(2, 12, 2))
        edges = rng.permutation(grid_edges((height, width)))
        return [Cut(height * width, edges, rng.integers(1, 3, len(edges)))]
    n = int(rng.integers(2, 70 if sort == "sparse" else 40))
    edges = random_edges(rng, n, 2 * n if sort == "sparse" else n * n // 3)
    return [
        Cut(n, edges[rng.random(len(edges)) < 0.8], 1.0) + Modular(rng.integers(-1, 2, n)),
        Cut(n, edges, rng.integers(0, 3, len(edges))),
    ]


def draw(rng, kind, problems, n, k, n_edges):
    """Return fields, weights of functions and factors of edges."""
    if kind == "ties":
        theta = with_fixed(rng, rng.integers(-4, 5, (problems, n)).astype(float))
        alpha = rng.integers(0, 3, (problems, k)).astype(float)
        return theta, alpha, rng.integers(0, 3, (problems, n_edges)).astype(float)
    digits = 5 if kind == "six digits" else 10
    theta = np.floor(10.0 ** rng.uniform(0, digits + 1, (problems, n)))
    theta *= rng.choice([-1.0, 1.0], theta.shape)
    alpha = rng.integers(0, 2, (problems, k)).astype(float)
    factors = np.floor(10.0 ** rng.uniform(0, digits, (problems, n_edges)))
    return theta, alpha, factors * (rng.random(factors.shape) < 0.9)


def union_of_edges(functions):
    cuts = [atom.edges for f in functions for _, atom in f.terms() if isinstance(atom, Cut)]
    return np.unique(np.concatenate(cuts), axis=0)


def places(edges, among):
    """Return where each of the edges is among others, -1 where it is not."""
    where = {edge: e for e, edge in enumerate(map(tuple, among.tolist()))}
    return np.array([where.get(edge, -1) for edge in map(tuple, edges.tolist())], dtype=int)


def tables(functions, edges):
    """Return the weights (K, E) of the functions on the edges, and their modular terms (K, n)."""
    weights = np.zeros((len(functions), len(edges)))
    tilt = np.zeros((len(functions), functions[0].n))
    for k, f in enumerate(functions):
        for weight, atom in f.terms():
            if isinstance(atom, Modular):
                tilt[k] += weight * atom.t
            else:
                np.add.at(weights[k], places(atom.edges, edges), weight * atom.weights)
    return weights, tilt


def other_maxima(edges, weights, theta, kind):
    if kind != "ten digits":
        return scipy_maxima(theta.shape[1], edges, weights, theta)
    maximum = ortools_maximum if importlib.util.find_spec("ortools") else networkx_maximum
    rows = zip(weights, theta, strict=True)
    return np.array([maximum(edges, w, t) for w, t in rows], dtype=float)


@functools.cache
def solved_problems():
    """Return structures, problems and their maxima: worked out once, for all engines."""
    found = []
    for number in range(STRUCTURES):
        rng = np.random.default_rng([2024, number])
        functions = random_structure(rng)
        edges = union_of_edges(functions)
        table, tilts = tables(functions, edges)
        for kind, problems in PROBLEMS.items():
            theta, alpha, factors = draw(
                rng, kind, problems, functions[0].n, len(table), len(edges)
            )
            weights, tilt = (alpha @ table) * factors, alpha @ tilts
            best = other_maxima(edges, weights, theta - tilt, kind)
            # An element fixed to 1 pays for what the functions have on it.
            best -= np.where(theta == np.inf, tilt, 0.0).sum(axis=1)
            found.append((functions, edges, weights, tilt, theta, alpha, factors, best))
    return found


def test_no_wrong_answer_in_ten_thousand(engine):
    solves, wrong, layouts = 0, [], set()
    for number, problem in enumerate(solved_problems()):
        functions, edges, weights, tilt, theta, alpha, factors, best = problem
        prepared = prepare(functions)
        layouts.add(prepared.solver)
        given = None
        if len(edges):
            # Edges that no function has are of weight 0, whatever their factor.
            given = np.pad(factors, ((0, 0), (0, 1)), constant_values=1.0)
            given = given[:, places(prepared.edges, edges)]
        tie = (None, "min", "max")[number % 5 % 3]
        y, values, stats = prepared.maximize(theta, alpha, given, tie=tie)

        finite = np.where(np.isfinite(theta), theta, 0.0)
        cut = (weights * (y[:, edges[:, 0]] != y[:, edges[:, 1]])).sum(axis=1)
        bad = values != best
        bad |= (finite * y).sum(axis=1) - cut - (tilt * y).sum(axis=1) != best
        bad |= (finite * y).sum(axis=1) - (alpha * stats).sum(axis=1) != best
        bad |= (np.isinf(theta) & (y != (theta > 0))).any(axis=1)
        solves += len(theta)
        wrong += [(number, tie, int(m)) for m in np.flatnonzero(bad)]
    assert wrong == []
    assert solves >= 10_000
    assert layouts == ({"graph"} if engine == "scipy" else {"grid", "graph"})
