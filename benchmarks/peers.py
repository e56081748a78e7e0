"""Other max-flow packages ("peers"), each used in the fastest way its interface allows.

A peer is created once per graph (untimed: index types, constant arrays); `solve(theta)` then
returns the 0/1 labels of argmax theta'y - f(y). `FLOW` runs while the maximum flow is computed and
its labels are read, so that the time of building graphs can be told apart. No peer is a dependency
of the library, and each is imported only when it is measured.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import FLOW
from benchmarks.workloads import Floats, Graph, Labels


class Peer(Protocol):
    """A max-flow solver bound to one graph."""

    package: str

    def __init__(self, graph: Graph, bound: float) -> None:
        """Store the graph and the largest |theta|, by which integer peers scale."""

    def solve(self, theta: Floats) -> Labels:
        """Return the labels of one field."""


class PyMaxflow:
    """Boykov-Kolmogorov in C++: a new graph per field, filled from arrays."""

    package = "PyMaxflow"

    def __init__(self, graph: Graph, bound: float) -> None:
        self._graph_class = importlib.import_module("maxflow").Graph[float]
        self._n = graph.n
        self._i = np.ascontiguousarray(graph.edges[:, 0])
        self._j = np.ascontiguousarray(graph.edges[:, 1])
        self._weights = graph.weights
        self._ids = np.arange(graph.n)

    def _build(self) -> Any:
        graph = self._graph_class(self._n, len(self._i))
        graph.add_nodes(self._n)
        if len(self._i):
            graph.add_edges(self._i, self._j, self._weights, self._weights)
        return graph

    def solve(self, theta: Floats) -> Labels:
        """Build, solve and read one graph."""
        graph = self._build()
        graph.add_grid_tedges(self._ids, theta, 0.0)
        return self._labels(graph)

    def _labels(self, graph: Any) -> Labels:
        with FLOW:
            graph.maxflow()
            labels: Labels = np.logical_not(graph.get_grid_segments(self._ids)).view(np.uint8)
        return labels


class PyMaxflowReuse(PyMaxflow):
    """The same, one graph for all fields: the change of theta is added to the terminal arcs."""

    def __init__(self, graph: Graph, bound: float) -> None:
        super().__init__(graph, bound)
        self._kept = self._build()
        self._last = np.zeros(graph.n)

    def solve(self, theta: Floats) -> Labels:
        """Continue from the flow of the previous field."""
        self._kept.add_grid_tedges(self._ids, theta - self._last, 0.0)
        self._last = theta
        return self._labels(self._kept)


class ORTools:
    """Push-relabel on int64: capacities scaled by a power of two, all arcs added in one call."""

    package = "ortools"

    def __init__(self, graph: Graph, bound: float) -> None:
        module = importlib.import_module("ortools.graph.python.max_flow")
        self._solver_class = module.SimpleMaxFlow
        self._n = graph.n
        total = 2.0 * float(graph.weights.sum()) + graph.n * bound + 1.0
        self._scale = 2.0 ** (60 - int(np.ceil(np.log2(total))))
        both = graph.edges.astype(np.int32)
        self._tails = np.concatenate([both[:, 0], both[:, 1]])
        self._heads = np.concatenate([both[:, 1], both[:, 0]])
        quantised = np.rint(graph.weights * self._scale).astype(np.int64)
        self._capacities = np.concatenate([quantised, quantised])
        self._ids = np.arange(graph.n, dtype=np.int32)

    def _labels(self, solver: Any) -> Labels:
        with FLOW:
            if solver.solve(self._n, self._n + 1) != solver.OPTIMAL:
                raise RuntimeError("OR-Tools did not reach the optimum")
            labels = np.zeros(self._n + 2, dtype=np.uint8)
            labels[solver.get_source_side_min_cut()] = 1
        return labels[: self._n]

    def solve(self, theta: Floats) -> Labels:
        """Build and solve one structure."""
        quantised = np.rint(theta * self._scale).astype(np.int64)
        positive = quantised > 0
        source, sink = np.int32(self._n), np.int32(self._n + 1)
        solver = self._solver_class()
        solver.add_arcs_with_capacity(
            np.concatenate([self._tails, np.where(positive, source, self._ids), [source]]),
            np.concatenate([self._heads, np.where(positive, self._ids, sink), [sink]]),
            # The last arc has capacity 0: it only declares both terminals.
            np.concatenate([self._capacities, np.abs(quantised), [0]]),
        )
        return self._labels(solver)


class ORToolsReuse(ORTools):
    """The same, one structure for all fields: only terminal capacities are set anew."""

    def __init__(self, graph: Graph, bound: float) -> None:
        super().__init__(graph, bound)
        self._kept = self._solver_class()
        nothing = np.zeros(self._n, dtype=np.int64)
        source = np.full(self._n, self._n, dtype=np.int32)
        self._kept.add_arcs_with_capacity(self._tails, self._heads, self._capacities)
        self._from_source = np.asarray(
            self._kept.add_arcs_with_capacity(source, self._ids, nothing), dtype=np.int32
        )
        self._to_sink = np.asarray(
            self._kept.add_arcs_with_capacity(self._ids, source + np.int32(1), nothing),
            dtype=np.int32,
        )

    def solve(self, theta: Floats) -> Labels:
        """Set the terminal capacities and solve."""
        quantised = np.rint(theta * self._scale).astype(np.int64)
        self._kept.set_arcs_capacity(self._from_source, np.maximum(quantised, 0))
        self._kept.set_arcs_capacity(self._to_sink, np.maximum(-quantised, 0))
        return self._labels(self._kept)


class Scipy:
    """Dinic's algorithm on int32, then a breadth-first search of the residual graph."""

    package = "scipy"

    def __init__(self, graph: Graph, bound: float) -> None:
        self._csgraph = importlib.import_module("scipy.sparse.csgraph")
        self._csr = importlib.import_module("scipy.sparse").csr_array
        self._n = graph.n
        # The residual of an undirected edge reaches twice its capacity.
        largest = max(float(graph.weights.max(initial=0.0)), bound)
        self._scale = 2.0**29 / largest if largest > 0.0 else 1.0
        edges = graph.edges.astype(np.int32)
        self._tails = np.concatenate([edges[:, 0], edges[:, 1]])
        self._heads = np.concatenate([edges[:, 1], edges[:, 0]])
        quantised = np.rint(graph.weights * self._scale).astype(np.int32)
        self._capacities = np.concatenate([quantised, quantised])
        self._ids = np.arange(graph.n, dtype=np.int32)

    def solve(self, theta: Floats) -> Labels:
        """Build, solve, and search the residual graph."""
        quantised = np.rint(theta * self._scale).astype(np.int32)
        positive = quantised > 0
        source, sink = np.int32(self._n), np.int32(self._n + 1)
        tails: NDArray[np.int32] = np.concatenate(
            [self._tails, np.where(positive, source, self._ids)]
        )
        heads: NDArray[np.int32] = np.concatenate(
            [self._heads, np.where(positive, self._ids, sink)]
        )
        data = np.concatenate([self._capacities, np.abs(quantised)])
        capacities = self._csr((data, (tails, heads)), shape=(self._n + 2, self._n + 2))
        with FLOW:
            flow = self._csgraph.maximum_flow(capacities, int(source), int(sink)).flow
            residual = capacities - flow
            residual.eliminate_zeros()
            reached = self._csgraph.breadth_first_order(
                residual, int(source), return_predecessors=False
            )
            labels = np.zeros(self._n + 2, dtype=np.uint8)
            labels[reached] = 1
        return labels[: self._n]


PEERS: dict[str, type[Peer]] = {
    "PyMaxflow": PyMaxflow,
    "PyMaxflow reuse": PyMaxflowReuse,
    "OR-Tools": ORTools,
    "OR-Tools reuse": ORToolsReuse,
    "scipy": Scipy,
}


def version(package: str) -> str | None:
    """Return the installed version of a package, None when it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def divide_and_conquer(peer: type[Peer], graph: Graph, c: Floats) -> Floats:
    """Return the min-norm point of B(f), f(x) = sum_e w_e |x_i - x_j| + c'x, by cuts of a peer.

    Every region is cut at the mean of its field; all regions of a level are one flow problem. If
    the cut does not improve on the mean, the region is finished; otherwise it is split in two, and
    the edges between the parts become fields. Finished regions are removed from the flow.
    """
    point = np.empty(graph.n)
    c = c.copy()
    nodes = np.arange(graph.n)
    region = np.zeros(graph.n, dtype=np.int64)
    i, j, weights = graph.edges[:, 0], graph.edges[:, 1], graph.weights
    while len(nodes):
        size = np.bincount(region)
        mean = np.bincount(region, c) / size
        tolerance = 1e-11 * (1.0 + np.bincount(region, np.abs(c)))
        theta = mean[region] - c
        level = Graph(len(nodes), np.stack([i, j], axis=1), weights)
        labels = peer(level, float(np.abs(theta).max())).solve(theta)
        crossing = labels[i] != labels[j]
        gain = np.bincount(region, theta * labels)
        gain -= np.bincount(region[i[crossing]], weights[crossing], minlength=len(size))
        ones = np.bincount(region, labels)
        split = (gain > tolerance) & (ones > 0) & (ones < size)
        active = split[region]
        point[nodes[~active]] = mean[region[~active]]

        cut = crossing & active[i]
        upper = np.where(labels[i[cut]] == 1, i[cut], j[cut])
        lower = np.where(labels[i[cut]] == 1, j[cut], i[cut])
        c += np.bincount(upper, weights[cut], minlength=len(c))
        c -= np.bincount(lower, weights[cut], minlength=len(c))

        inner = active[i] & ~crossing
        position = np.cumsum(active) - 1
        i, j, weights = position[i[inner]], position[j[inner]], weights[inner]
        halves = 2 * region[active] + labels[active]
        used = np.zeros(2 * len(size), dtype=np.int64)
        used[halves] = 1
        region = (np.cumsum(used) - 1)[halves]
        nodes, c = nodes[active], c[active]
    return point
