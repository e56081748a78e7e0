"""Random pairwise problems, and max-flows of others that tell their true maxima.

A problem is ``max_y theta'y - sum_e w_e |y_i - y_j|`` on a graph with n nodes and edges (E, 2);
batches have weights (M, E) and fields (M, n).
"""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import maximum_flow

from logsuper.functions import grid_cuts

# ------------------------------------------------------------------------------- true maxima


def energy(edges, weights, theta, y) -> float:
    """Return ``theta'y - sum w |y_i - y_j|`` with one rounding; infinite fields count as 0."""
    y = np.asarray(y, dtype=bool)
    kept = theta[y & np.isfinite(theta)]
    cut = weights[y[edges[:, 0]] != y[edges[:, 1]]] if len(edges) else weights
    return math.fsum([*kept, *(-cut)])


def energies(edges, weights, theta, y) -> np.ndarray:
    return np.array([energy(edges, *row) for row in zip(weights, theta, y, strict=True)])


def exact_energy(edges, weights, theta, y) -> Fraction:
    """Return the energy as a rational number; for fields without infinite entries."""
    on = sum((Fraction(float(t)) for t, v in zip(theta, y, strict=True) if v), Fraction(0))
    pairs = zip(weights, edges, strict=True)
    return on - sum((Fraction(float(w)) for w, (i, j) in pairs if y[i] != y[j]), Fraction(0))


def clip_infinite(edges, weights, theta) -> tuple[np.ndarray, np.ndarray]:
    """Replace infinite fields of integer problems by ones that cannot be outweighed.

    Returns the fields and what they add to the value of any sensible labelling, (M,).
    """
    large = weights.sum(axis=1, keepdims=True) + 1.0
    clipped = np.where(np.isinf(theta), np.sign(theta) * large, theta)
    return clipped, np.where(theta == np.inf, large, 0.0).sum(axis=1)


def scipy_maxima(n, edges, weights, theta) -> np.ndarray:
    """Return the maxima (M,) of integer problems: one call of scipy on all of them side by side."""
    theta, surplus = clip_infinite(edges, weights, theta)
    count = len(theta)
    source, sink = count * n, count * n + 1
    node = np.arange(count * n)
    flat = theta.ravel().astype(np.int64)
    first = (n * np.arange(count))[:, None]
    i, j = (edges[:, 0] + first).ravel(), (edges[:, 1] + first).ravel()
    w = weights.ravel().astype(np.int64)
    up, down = node[flat > 0], node[flat < 0]
    tails = np.concatenate([i, j, np.full(up.size, source), down])
    heads = np.concatenate([j, i, up, np.full(down.size, sink)])
    capacity = np.concatenate([w, w, flat[up], -flat[down]])
    assert capacity.max(initial=0) < 2**31
    shape = (count * n + 2, count * n + 2)
    graph = scipy.sparse.csr_array((capacity.astype(np.int32), (tails, heads)), shape=shape)
    flow = maximum_flow(graph, source, sink).flow
    sent = np.zeros(count * n + 2, dtype=np.int64)
    row = slice(flow.indptr[source], flow.indptr[source + 1])
    sent[flow.indices[row]] = flow.data[row]
    cut = sent[: count * n].reshape(count, n).sum(axis=1)
    return np.maximum(theta, 0).sum(axis=1) - cut - surplus


def networkx_maximum(edges, weights, theta) -> int:
    """Return the maximum of one problem with integers of any size."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["s", "t"])
    for (i, j), w in zip(edges.tolist(), weights.tolist(), strict=True):
        graph.add_edge(i, j, capacity=int(w))
        graph.add_edge(j, i, capacity=int(w))
    for i, t in enumerate(theta.tolist()):
        graph.add_edge(*(("s", i) if t > 0 else (i, "t")), capacity=abs(int(t)))
    return sum(int(t) for t in theta if t > 0) - int(nx.maximum_flow_value(graph, "s", "t"))


def ortools_maximum(edges, weights, theta) -> int:
    """Return the maximum of one problem with integers of up to 62 bits."""
    from ortools.graph.python import max_flow

    n = len(theta)
    up, down = np.flatnonzero(theta > 0), np.flatnonzero(theta < 0)
    i, j = edges.T
    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(
        np.concatenate([i, j, np.full(up.size, n), down]).astype(np.int32),
        np.concatenate([j, i, up, np.full(down.size, n + 1)]).astype(np.int32),
        np.concatenate([weights, weights, theta[up], -theta[down]]).astype(np.int64),
    )
    if not up.size or not down.size:
        return sum(int(t) for t in theta[up])
    assert solver.solve(n, n + 1) == solver.OPTIMAL
    return sum(int(t) for t in theta[up]) - solver.optimal_flow()


# ------------------------------------------------------------------------------------ problems


def random_edges(rng, n, count) -> np.ndarray:
    """Return `count` distinct pairs (fewer if there are not as many) with i < j, shuffled."""
    pairs = np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)
    return rng.permutation(pairs)[:count]


def grid_edges(shape, neighbors=None) -> np.ndarray:
    return np.concatenate([cut.edges for cut in grid_cuts(shape, neighbors)])


def with_fixed(rng, theta) -> np.ndarray:
    """Fix a tenth of the elements to 1 and a tenth to 0."""
    draw = rng.random(theta.shape)
    return np.where(draw < 0.1, np.inf, np.where(draw > 0.9, -np.inf, theta))


def wide(rng, shape) -> np.ndarray:
    """Positive numbers that span ten orders of magnitude."""
    return 10.0 ** rng.uniform(-5, 5, shape)


# name -> (weights, fields), each drawn as f(rng, shape). Integers first: their energies are exact.
INTEGER_KINDS = {
    "small integers": (
        lambda rng, shape: rng.integers(0, 4, shape).astype(float),
        lambda rng, shape: rng.integers(-5, 6, shape).astype(float),
    ),
    "mostly isolated": (
        lambda rng, shape: (rng.integers(1, 4, shape) * (rng.random(shape) < 0.3)).astype(float),
        lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    ),
    "integers, some fixed": (
        lambda rng, shape: rng.integers(0, 4, shape).astype(float),
        lambda rng, shape: with_fixed(rng, rng.integers(-5, 6, shape).astype(float)),
    ),
    "six digits": (
        lambda rng, shape: np.floor(10.0 ** rng.uniform(0, 6, shape)),
        lambda rng, shape: np.floor(10.0 ** rng.uniform(0, 6, shape)) * rng.choice([-1, 1], shape),
    ),
    "no weights": (
        lambda rng, shape: np.zeros(shape),
        lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    ),
    "one weight, weak fields": (
        lambda rng, shape: np.full(shape, 3.0),
        lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    ),
}
FLOAT_KINDS = {
    "one scale": (
        lambda rng, shape: rng.uniform(0, 2, shape),
        lambda rng, shape: 2 * rng.logistic(size=shape),
    ),
    "ten orders of magnitude": (
        wide,
        lambda rng, shape: wide(rng, shape) * rng.choice([-1, 1], shape),
    ),
    "ten orders, zeros, fixed": (
        lambda rng, shape: wide(rng, shape) * (rng.random(shape) < 0.7),
        lambda rng, shape: with_fixed(rng, wide(rng, shape) * rng.choice([-1, 1], shape)),
    ),
    "strong weights, fields at the quantum": (
        lambda rng, shape: rng.uniform(1, 2, shape),
        lambda rng, shape: 1e-9 * rng.normal(size=shape),
    ),
    "fields far beyond the weights": (
        lambda rng, shape: rng.uniform(0, 1, shape),
        lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-3, 300, shape),
    ),
}
KINDS = INTEGER_KINDS | FLOAT_KINDS


def draw(rng, kind, problems, n, n_edges) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (M, E) and fields (M, n) of a kind."""
    weights, theta = KINDS[kind]
    return weights(rng, (problems, n_edges)), theta(rng, (problems, n))


def allowed_loss(n, edges, weights, narrow) -> float:
    """Return by how much the energy of one problem may miss the maximum, as the manual says.

    That is (n + E) quanta: of 1e-7 of the smallest positive weight in the narrow kernel, of 2e-18
    of the largest sum of weights at a node in the wide one.
    """
    positive = weights[weights > 0]
    if not positive.size:
        return 0.0
    if narrow:
        return (n + len(edges)) * 1e-7 * float(positive.min())
    degree = np.bincount(edges[:, 0], weights, n) + np.bincount(edges[:, 1], weights, n)
    return (n + len(edges)) * 2e-18 * float(degree.max())
