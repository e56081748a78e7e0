"""Sums of graph-representable functions: one max-flow a problem, batched into the kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray
from logsuper.solvers._fallback_kernel import FallbackKernel
from logsuper.solvers._graph import (
    EdgeList,
    Grid,
    Parts,
    as_edge_list,
    as_grid,
    split,
    union_of_edges,
)
from logsuper.solvers._native import kernels
from logsuper.solvers._results import Perturbed, finite_dot

# A graph counts as dense when it has this share of all pairs, and a matrix of it fits in cache.
_DENSE_SHARE = 0.1
_DENSE_NODES = 2048
# Bytes of samples held at once while functions that no kernel evaluates are evaluated.
_SAMPLE_BYTES = 1 << 26


class Flow:
    r"""One graph for :math:`\sum_k\alpha_kf_k`, solved for many :math:`\theta` and :math:`\alpha`.

    The kernel knows nothing of functions: it has the cuts of the K functions, then one set of
    edges for each function with auxiliary nodes, and returns the cut values. Modular terms are
    folded into the field, and functions with auxiliary nodes are evaluated directly.
    """

    def __init__(self, n: int, parts: Sequence[Parts], layout: Grid | EdgeList) -> None:
        self.n = n
        self.k = len(parts)
        self.layout = layout
        self._parts = parts
        self._others = [part.other for part in parts]
        self._tilted = [k for k, part in enumerate(parts) if part.tilt is not None]
        self._tilt = np.array([part.tilt for part in parts if part.tilt is not None])
        native = kernels()
        self._kernel: Any
        if isinstance(layout, Grid):
            assert native is not None
            self._aux_of: list[int] = []
            steps = np.array(layout.steps, dtype=np.int64)
            self._kernel = native.grid(*layout.shape, steps, self.k, layout.planes)
        else:
            self._aux_of = layout.aux_of
            self._aux_unary = layout.aux_unary
            self._aux_constant = layout.aux_constant
            nodes = n + layout.n_aux
            arguments = (layout.starts, layout.places, layout.weights)
            if native is None:
                self._kernel = FallbackKernel(nodes, layout.edges, *arguments)
            else:
                dense = _is_dense(nodes, layout)
                self._kernel = native.graph(nodes, layout.edges, dense, *arguments)

    @classmethod
    def build(cls, functions: Sequence[SubmodularFunction]) -> Flow | None:
        """Return the graph of the functions, None if one of them is not graph-representable."""
        n = functions[0].n
        parts = [split(f) for f in functions]
        if kernels() is not None and all(part.other is None for part in parts):
            grid = as_grid(n, parts)
            if grid is not None:
                return cls(n, parts, grid)
        edge_list = as_edge_list(n, parts)
        return None if edge_list is None else cls(n, parts, edge_list)

    @functools.cached_property
    def edges(self) -> NDArray[np.int64]:
        """The edges of all cuts in order of first appearance: what ``edge_weights`` refers to."""
        if isinstance(self.layout, Grid):
            return union_of_edges(self.n, self._parts)[0]
        return self.layout.edges[: self.layout.n_cut_edges]

    @functools.cached_property
    def _grid_order(self) -> NDArray[np.int64] | None:
        """Where each edge of the grid kernel stands in `edges`, -1 if nowhere; None if in order."""
        assert isinstance(self.layout, Grid)
        kernel_edges = self.layout.edges()
        if np.array_equal(kernel_edges, self.edges):
            return None
        key = self.edges @ np.array([self.n, 1])
        order = np.argsort(key)
        wanted = kernel_edges @ np.array([self.n, 1])
        place = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
        return np.where(key[order][place] == wanted, order[place], -1)

    @property
    def simple(self) -> bool:
        """Whether there are no auxiliary nodes."""
        return not self._aux_of

    def maximize(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        factors: FloatArray | None,
        problems: int,
        tie: str | None,
        threads: int,
    ) -> tuple[NDArray[np.uint8], FloatArray, FloatArray]:
        y = np.empty((problems, self.n), dtype=np.uint8)
        values = np.empty(problems)
        weights = self._kernel_alpha(alpha)
        cuts = np.empty((problems, weights.shape[1]))
        self._kernel.maximize(
            self.field(theta, alpha),
            weights,
            self._kernel_factors(factors),
            tie == "max",
            tie is not None,  # ties only mean something to the last bit
            threads,
            y,
            values,
            cuts,
        )
        stats = cuts[:, : self.k]
        if self._tilted:
            stats[:, self._tilted] += y @ self._tilt.T
            values -= self._held(theta, alpha)
        if self._aux_of:
            self._add_others(y, stats)
            values = finite_dot(theta, y) - (alpha * stats).sum(axis=1)
        return y, values, np.ascontiguousarray(stats)

    def perturb(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        factors: FloatArray | None,
        numbers: NDArray[np.uint64],
        samples: int,
        key: int,
        first_sample: int,
        return_samples: bool,
        threads: int,
    ) -> Perturbed:
        problems = len(numbers)
        weights = self._kernel_alpha(alpha)
        field = self.field(theta, alpha)
        edge_factors = self._kernel_factors(factors)
        counts = np.zeros((problems, self.n), dtype=np.uint32)
        values = np.empty((problems, samples))
        means = np.empty((problems, self.k))
        kept = np.empty((problems, samples, self.n), np.uint8) if return_samples else None

        # Functions evaluated outside of the kernel need the samples: hold only a block of them.
        block = problems
        if self._aux_of and kept is None:
            block = max(1, _SAMPLE_BYTES // max(1, samples * self.n))
        for first in range(0, problems, block):
            rows = slice(first, min(problems, first + block))
            size = rows.stop - first
            y = None if kept is None else kept[rows]
            if self._aux_of and y is None:
                y = np.empty((size, samples, self.n), dtype=np.uint8)
            cuts = np.empty((size, samples, weights.shape[1]))
            self._kernel.perturb(
                field if len(field) == 1 else field[rows],
                weights if len(weights) == 1 else weights[rows],
                edge_factors
                if edge_factors is None or len(edge_factors) == 1
                else edge_factors[rows],
                self.n,
                key,
                numbers[rows],
                first_sample,
                threads,
                counts[rows],
                values[rows],
                cuts,
                y,
            )
            stats = cuts[..., : self.k]
            if self._aux_of and y is not None:
                flat = np.zeros((size * samples, self.k))
                self._add_others(y.reshape(-1, self.n), flat)
                stats = stats + flat.reshape(size, samples, self.k)
            means[rows] = stats.mean(axis=1)
        if self._aux_of:
            values -= (alpha[:, self._aux_of] @ self._aux_constant)[:, None]
        if self._aux_of or self._tilted:
            values -= self._held(theta, alpha)[:, None]
        mean = counts / np.float64(samples)
        if self._tilted:
            means[:, self._tilted] += mean @ self._tilt.T
        return Perturbed(mean, means, values, kept)

    def min_norm(
        self, theta: FloatArray, alpha: FloatArray, threads: int
    ) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """Return the min-norm points, gaps and numbers of levels; only without auxiliary nodes."""
        points = np.empty((len(theta), self.n))
        gaps = np.empty(len(theta))
        levels = np.empty(len(theta), dtype=np.int64)
        self._kernel.min_norm(
            self.field(theta, alpha),
            self._kernel_alpha(alpha),
            None,
            threads,
            points,
            gaps,
            levels,
        )
        return points, gaps, levels

    def _kernel_alpha(self, alpha: FloatArray) -> FloatArray:
        return np.ascontiguousarray(np.concatenate([alpha, alpha[:, self._aux_of]], axis=1))

    def _kernel_factors(self, factors: FloatArray | None) -> FloatArray | None:
        """Extend the factors of the cut edges by ones for all other edges and functions."""
        if factors is None:
            return None
        if isinstance(self.layout, Grid):
            if self._grid_order is None:
                return factors
            known = np.where(self._grid_order >= 0, factors[..., self._grid_order], 1.0)
            return np.ascontiguousarray(known)
        others = len(self.layout.edges) - self.layout.n_cut_edges
        if factors.shape[1] > 1 and self._aux_of:
            more = np.ones((len(factors), len(self._aux_of), factors.shape[2]))
            factors = np.concatenate([factors, more], axis=1)
        tail = np.ones((*factors.shape[:2], others))
        return np.ascontiguousarray(np.concatenate([factors, tail], axis=2))

    def couplings(
        self, alpha: FloatArray, factors: FloatArray | None
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the weights of the cuts, for all problems or one row for each.

        Of a grid: offsets (O,) between the ends of edges, and weights (P, O, n) at their first
        ends. Else: edges (E, 2) and weights (P, E).
        """
        problems = max(len(alpha), 1 if factors is None else len(factors))
        layout = self.layout
        if isinstance(layout, Grid):
            return layout.couplings(alpha, self._kernel_factors(factors), problems)
        known = np.ones((1, 1, 1)) if factors is None else factors
        weights = np.zeros((problems, layout.n_cut_edges))
        for k in range(self.k):
            terms = slice(layout.starts[k], layout.starts[k + 1])
            own = np.bincount(layout.places[terms], layout.weights[terms], layout.n_cut_edges)
            weights += alpha[:, k, None] * own * known[:, min(k, known.shape[1] - 1)]
        return np.ascontiguousarray(self.edges), weights

    def others(self) -> list[tuple[int, SubmodularFunction]]:
        """Return the terms that need auxiliary nodes, with the numbers of their functions."""
        return [(k, other) for k, other in enumerate(self._others) if other is not None]

    def tilted(self, theta: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return the fields less the modular terms of the functions."""
        return theta - alpha[:, self._tilted] @ self._tilt if self._tilted else theta

    def field(self, theta: FloatArray, alpha: FloatArray) -> FloatArray:
        field = self.tilted(theta, alpha)
        if self._aux_of:
            unary = alpha[:, self._aux_of] @ self._aux_unary
            rows = max(len(field), len(unary))
            full = np.zeros((rows, unary.shape[1]))
            full[:, : self.n] = field
            field = full - unary
        return np.ascontiguousarray(field)

    def _held(self, theta: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return what the elements fixed to 1 cost by themselves.

        The kernel leaves out infinite fields, and with them what `field` has taken off.
        """
        on = theta == np.inf
        if not on.any():
            return np.zeros(1)
        cost = alpha[:, self._tilted] @ self._tilt if self._tilted else np.zeros((1, self.n))
        if self._aux_of:
            cost = cost + alpha[:, self._aux_of] @ self._aux_unary[:, : self.n]
        return np.asarray(np.where(on, cost, 0.0).sum(axis=1))

    def _add_others(self, y: NDArray[np.uint8], stats: FloatArray) -> None:
        for k, other in enumerate(self._others):
            if other is not None:
                stats[:, k] += other(y)


def _is_dense(nodes: int, layout: EdgeList) -> bool:
    count = len(layout.edges)
    if layout.aux_of or nodes > _DENSE_NODES:
        return False
    return count >= max(4 * nodes, _DENSE_SHARE * nodes * nodes / 2)
