"""Sums of graph-representable functions: one max-flow per problem, in batched kernel calls."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from logsuper._base import Bits, BoolArray, FloatArray, IntArray
from logsuper.solvers._fallback import FallbackKernel
from logsuper.solvers._native import kernels
from logsuper.solvers._precision import evaluate, hidden, maximize_exactly, tilted
from logsuper.solvers._problems import (
    Noise,
    Perturbed,
    Problems,
    finite_dot,
    perturb_each,
    some_rows,
)
from logsuper.solvers._workspace import Workspace, require_edges
from logsuper.structures import EdgeLists, Grid, Structure

# A graph is treated as dense if it has at least this fraction of all pairs and at most this many
# nodes, so that its matrix fits in the cache.
_DENSE_SHARE = 0.1
_DENSE_NODES = 2048
# Bytes of samples kept in memory at a time while functions are evaluated outside the kernel.
_SAMPLE_BYTES = 1 << 26


class Flow:
    r"""One graph for :math:`\sum_k\alpha_kf_k`, solved for many :math:`\theta` and :math:`\alpha`.

    The kernel holds the cuts of the K functions, then one set of edges per function with auxiliary
    nodes, and returns the cut values. Modular terms are added to the field, and functions with
    auxiliary nodes are evaluated outside the kernel.
    """

    def __init__(self, structure: Structure, on_grid: bool = True) -> None:
        self.structure = structure
        self.n = structure.n
        self.k = structure.count
        self._tilted = sorted(structure.tilts)
        self._tilt = np.array([structure.tilts[k] for k in self._tilted])
        self._aux_of: list[int] = []
        self.grid: Grid | None = structure.grid if on_grid else None
        native = kernels()
        self._kernel: Any
        if self.grid is not None:
            assert native is not None
            steps = np.array(self.grid.steps, dtype=np.int64)
            planes, pixels = self.grid.planes, self.grid.pixels
            self._kernel = native.grid(*self.grid.shape, steps, self.k, planes, pixels)
        else:
            lists = structure.lists
            assert lists is not None
            self._aux_of, self._aux_unary = lists.aux_of, lists.aux_unary
            self._aux_constant = lists.aux_constant
            nodes = self.n + lists.n_aux
            arguments = (lists.starts, lists.places, lists.weights)
            if native is None:
                self._kernel = FallbackKernel(nodes, lists.edges, *arguments)
            else:
                dense = _is_dense(nodes, lists)
                self._kernel = native.graph(nodes, lists.edges, dense, *arguments)
        self._workspace = Workspace(self._kernel)
        # a label, plus float64 temporaries to evaluate modular terms and auxiliary functions
        self._bytes_per_label = 1.0 + 8 * bool(self._tilted) + 24 * bool(self._aux_of)

    @classmethod
    def build(cls, structure: Structure, memory_limit: int | None = None) -> Flow | None:
        """Return the graph of the functions, or None if one is not graph-representable."""
        if structure.n == 0:
            return None
        cuts = [cut for _, _, cut in structure.cuts]
        require_edges(sum(cut.weights.size for cut in cuts if cut.offset is None), memory_limit)
        if kernels() is not None and structure.grid is not None:
            return cls(structure)
        require_edges(sum(cut.weights.size for cut in cuts), memory_limit)
        return None if structure.graphs is None else cls(structure, on_grid=False)

    @property
    def name(self) -> str:
        """The name of the solver."""
        return "graph" if self.grid is None else "grid"

    @property
    def edges(self) -> IntArray:
        """The edges of all cuts in order of first appearance, which is that of ``edge_weights``."""
        return self.structure.edges

    @property
    def _on_list(self) -> Flow:
        """The same problem as a list of edges if the grid has pixels that are not elements."""
        # a cached reference to itself would keep the kernel's memory until the next full collection
        return self if self.grid is None or self.grid.pixels is None else self._listed

    @functools.cached_property
    def _listed(self) -> Flow:
        return Flow(self.structure, on_grid=False)

    @functools.cached_property
    def _few(self) -> tuple[IntArray, IntArray, FloatArray] | None:
        """Elements with a modular term, the kernel's nodes for them, and these terms.

        Such as the neighbours of elements fixed by conditioning; the kernel then adds the terms to
        the fields. None if more than n / 8 elements have a modular term.
        """
        touched = np.flatnonzero(self._tilt.any(axis=0)) if self._tilted else np.arange(0)
        if self._aux_of or kernels() is None or not 0 < len(touched) <= self.n // 8:
            return None
        nodes = touched if self.grid is None else self.grid.to_pixels(touched)
        return touched, nodes, self._tilt[:, touched]

    @functools.cached_property
    def _grid_order(self) -> IntArray | None:
        """Index in `edges` of each edge of the grid kernel, -1 if absent; None if identical."""
        assert self.grid is not None
        kernel_edges, edges = self.grid.edges(), self.grid.to_pixels(self.edges)
        if np.array_equal(kernel_edges, edges):
            return None
        code = np.array([self.grid.size, 1])
        key, wanted = edges @ code, kernel_edges @ code
        order = np.argsort(key)
        place = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
        return np.where(key[order][place] == wanted, order[place], -1)

    @property
    def regular(self) -> bool:
        """Whether `couplings` returns the format for grids."""
        return self._on_list.grid is not None

    @property
    def simple(self) -> bool:
        """Whether there are no auxiliary nodes."""
        return not self._aux_of

    def maximize(
        self, problems: Problems, tie: str | None, threads: int, memory_limit: int | None = None
    ) -> tuple[Bits, FloatArray, FloatArray]:
        wide = tie is not None  # ties are only meaningful at the highest precision
        arrays = problems.size * self.n * self._bytes_per_label + self._copies(problems)
        workers = min(threads, problems.size)
        with self._workspace.granted("maximize", arrays, memory_limit, workers, wide) as memory:
            y, values, stats, precision = self._run(problems, wide, tie, threads, memory)
            own = tilted(self.structure, problems) if self._aux_of else problems.theta
            rows = np.flatnonzero(self._too_coarse(own, problems.alpha, precision, wide))
            if len(rows) and not wide and self._aux_of:
                some = problems.rows(rows)
                found = self._run(some, True, tie, threads, memory)
                y[rows], values[rows], stats[rows], precision = found
                rows = rows[self._too_coarse(some_rows(own, rows), some.alpha, precision, True)]
        if len(rows):
            some = problems.rows(rows)
            y[rows] = maximize_exactly(self.structure, some, tie)
            values[rows], stats[rows] = evaluate(self.structure, y[rows], some)
        return y, values, np.ascontiguousarray(stats)

    def _run(
        self, problems: Problems, wide: bool, tie: str | None, threads: int, memory: int
    ) -> tuple[Bits, FloatArray, FloatArray, FloatArray]:
        """Return labels, values and statistics from the kernel, and the precision it used."""
        theta, alpha, factors, count = problems
        y = np.empty((count, self.n), dtype=np.uint8)
        values = np.empty(count)
        weights = self._kernel_alpha(alpha)
        cuts = np.empty((count, weights.shape[1]))
        precision = np.zeros((count, 2))
        few, more = self._few, {}
        if few is not None:
            touched, nodes, tilt = few
            shift = alpha[:, self._tilted] @ tilt
            more = {"shifted": nodes, "shift": shift}
        self._kernel.maximize(
            self.field(problems) if few is None else theta,
            weights,
            self._kernel_factors(factors),
            tie == "max",
            wide,
            threads,
            y,
            values,
            cuts,
            memory=memory,
            precision=precision,
            **more,
        )
        stats = cuts[:, : self.k]
        if few is not None:
            stats[:, self._tilted] += y[:, touched] @ tilt.T
            values -= np.where(theta[:, touched] == np.inf, shift, 0.0).sum(axis=1)
        elif self._tilted:
            stats[:, self._tilted] += y @ self._tilt.T
            values -= self._held(problems)
        if self._aux_of:
            self._add_others(y, stats)
            values = finite_dot(theta, y) - (alpha * stats).sum(axis=1)
        return y, values, stats, precision

    def _too_coarse(
        self, own: FloatArray, alpha: FloatArray, precision: FloatArray, wide: bool
    ) -> BoolArray:
        """Return which problems were solved with integers too coarse for their fields."""
        coarse = precision[:, 1] > 0
        if self._aux_of:
            linear = np.abs(alpha[:, self._aux_of] @ self._aux_unary).max(axis=1, initial=0.0)
            own = np.broadcast_to(own, (len(coarse), self.n))
            coarse |= hidden(own, np.broadcast_to(linear, len(coarse)), precision[:, 0], wide)
        return coarse

    def perturb(
        self,
        problems: Problems,
        noise: Noise,
        return_samples: bool,
        threads: int,
        memory_limit: int | None = None,
    ) -> Perturbed:
        count, samples = problems.size, noise.samples
        block = count
        if self._aux_of and not return_samples:
            # functions evaluated outside the kernel need the samples: keep a block at a time
            block = max(1, min(count, _SAMPLE_BYTES // max(1, samples * self.n)))
        arrays = self._copies(problems) + 8.0 * count * samples
        arrays += count * self.n * (12.0 + samples * return_samples)
        arrays += block * samples * (16.0 * self.k + self.n * bool(self._aux_of))
        workers = min(threads, count * samples)
        arrays += 13.0 * workers * self._kernel.nodes
        with self._workspace.granted("perturb", arrays, memory_limit, workers) as memory:
            if isinstance(self._kernel, FallbackKernel):
                solve = functools.partial(self.maximize, tie=None, threads=threads)
                return perturb_each(solve, problems, noise, return_samples)
            return self._perturb(problems, noise, return_samples, threads, block, memory)

    def _perturb(
        self,
        problems: Problems,
        noise: Noise,
        return_samples: bool,
        threads: int,
        block: int,
        memory: int,
    ) -> Perturbed:
        """Solve the problems in blocks; see `perturb`."""
        alpha, count, samples = problems.alpha, problems.size, noise.samples
        weights, field = self._kernel_alpha(alpha), self.field(problems)
        factors = self._kernel_factors(problems.factors)
        counts = np.zeros((count, self.n), dtype=np.uint32)
        values = np.empty((count, samples))
        means = np.empty((count, self.k))
        kept = np.empty((count, samples, self.n), np.uint8) if return_samples else None
        told = np.zeros((count, 2))

        for first in range(0, count, block):
            rows = slice(first, min(count, first + block))
            size = rows.stop - first
            y = None if kept is None else kept[rows]
            if self._aux_of and y is None:
                y = np.empty((size, samples, self.n), dtype=np.uint8)
            cuts = np.empty((size, samples, weights.shape[1]))
            self._kernel.perturb(
                some_rows(field, rows),
                some_rows(weights, rows),
                some_rows(factors, rows),
                self.n,
                noise.key,
                noise.numbers[rows],
                noise.first,
                threads,
                counts[rows],
                values[rows],
                cuts,
                y,
                memory=memory,
                precision=told[rows],
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
            values -= self._held(problems)[:, None]
        mean = counts / np.float64(samples)
        if self._tilted:
            means[:, self._tilted] += mean @ self._tilt.T
        # the noise is of order 1, so the integers must resolve numbers of that size
        for m in np.flatnonzero(self._too_coarse(np.ones((1, self.n)), alpha, told, False)):
            noisy = noise.added_to(problems, int(m))
            found, values[m], stats = self.maximize(noisy, None, threads)
            mean[m], means[m] = found.mean(axis=0), stats.mean(axis=0)
            if kept is not None:
                kept[m] = found
        return Perturbed(mean, means, values, kept)

    def min_norm(
        self, problems: Problems, threads: int, memory_limit: int | None = None
    ) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Return the min-norm points, gaps, numbers of levels and `field`; no auxiliary nodes."""
        if self._on_list is not self:
            return self._on_list.min_norm(problems, threads, memory_limit)
        count = problems.size
        # for the points, their squares and the squares of the fields
        arrays = self._copies(problems) + 24.0 * problems.theta.size
        points, gaps = np.empty((count, self.n)), np.empty(count)
        levels = np.empty(count, dtype=np.int64)
        with self._workspace.granted(
            "min_norm_point", arrays, memory_limit, min(threads, count), min_norm=True
        ) as memory:
            field, weights = self.field(problems), self._kernel_alpha(problems.alpha)
            self._kernel.min_norm(
                field, weights, None, threads, points, gaps, levels, memory=memory
            )
        return points, gaps, levels, field

    def _copies(self, problems: Problems) -> float:
        """Return the number of bytes of the copies of fields and factors made for the kernel."""
        size = 0.0 if problems.factors is None else 16.0 * problems.factors.size
        if self._tilted or self._aux_of:
            size += 16.0 * max(len(problems.theta), len(problems.alpha)) * self._kernel.nodes
        return size

    def _kernel_alpha(self, alpha: FloatArray) -> FloatArray:
        return np.ascontiguousarray(np.concatenate([alpha, alpha[:, self._aux_of]], axis=1))

    def _kernel_factors(self, factors: FloatArray | None) -> FloatArray | None:
        """Return factors for all edges and functions of the kernel: 1 except on cut edges."""
        if factors is None:
            return None
        if self.grid is not None:
            if self._grid_order is None:
                return factors
            known = np.where(self._grid_order >= 0, factors[..., self._grid_order], 0.0)
            return np.ascontiguousarray(known)
        lists = self.structure.lists
        assert lists is not None
        others = len(lists.edges) - len(self.edges)
        if factors.shape[1] > 1 and self._aux_of:
            more = np.ones((len(factors), len(self._aux_of), factors.shape[2]))
            factors = np.concatenate([factors, more], axis=1)
        tail = np.ones((*factors.shape[:2], others))
        return np.ascontiguousarray(np.concatenate([factors, tail], axis=2))

    def couplings(self, problems: Problems) -> tuple[IntArray, FloatArray]:
        """Return the weights of the cuts, with one row per problem, or one row for all (P = 1).

        On a grid: offsets (O,) between the ends of edges, and weights (P, O, n) at their first
        ends. Otherwise: edges (E, 2) and weights (P, E).
        """
        flow, alpha, factors = self._on_list, problems.alpha, problems.factors
        if flow.grid is None:
            return self.structure.combine(alpha, factors)
        rows = max(len(alpha), 1 if factors is None else len(factors))
        return flow.grid.couplings(alpha, flow._kernel_factors(factors), rows)

    def field(self, problems: Problems) -> FloatArray:
        """Return the fields of the kernel's nodes, which include all linear terms."""
        field = tilted(self.structure, problems)
        if self._aux_of:
            unary = problems.alpha[:, self._aux_of] @ self._aux_unary
            rows = max(len(field), len(unary))
            full = np.zeros((rows, unary.shape[1]))
            full[:, : self.n] = field
            field = full - unary
        return np.ascontiguousarray(field)

    def _held(self, problems: Problems) -> FloatArray:
        """Return the linear cost of the elements that are fixed to 1.

        The kernel omits infinite fields from its values, and with them the linear terms that
        `field` has subtracted.
        """
        on, alpha = problems.theta == np.inf, problems.alpha
        if not on.any():
            return np.zeros(1)
        cost = alpha[:, self._tilted] @ self._tilt if self._tilted else np.zeros((1, self.n))
        if self._aux_of:
            cost = cost + alpha[:, self._aux_of] @ self._aux_unary[:, : self.n]
        return np.asarray(np.where(on, cost, 0.0).sum(axis=1))

    def _add_others(self, y: Bits, stats: FloatArray) -> None:
        """Add the functions with auxiliary nodes to the statistics."""
        for k, other in self.structure.others:
            stats[:, k] += other(y)


def _is_dense(nodes: int, lists: EdgeLists) -> bool:
    if lists.aux_of or nodes > _DENSE_NODES:
        return False
    return len(lists.edges) >= max(4 * nodes, _DENSE_SHARE * nodes * nodes / 2)
