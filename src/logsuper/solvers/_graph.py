"""From functions to the graph that a kernel solves: regular grids, or edge lists."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.functions import Cut, Modular, PairwiseGraph, SubmodularFunction, Sum

Step = tuple[int, int, int]

# The stencils that the grid kernel knows, steps in (depth, height, width), along the row first.
_AXES_2 = ((0, 0, 1), (0, 1, 0))
_PLANE_8 = (*_AXES_2, (0, 1, 1), (0, 1, -1))
_AXES_3 = (*_AXES_2, (1, 0, 0))
_ALL_26 = (
    *_AXES_3,
    *((0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0)),
    *((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1)),
)
# Nodes with their padding that the grid kernel takes.
_LARGEST_GRID = (1 << 30) - 1
STENCILS: tuple[tuple[Step, ...], ...] = (_AXES_2, _AXES_3, _PLANE_8, _ALL_26)


@dataclasses.dataclass(frozen=True)
class Parts:
    """One function, split into what the kernels treat differently.

    Attributes
    ----------
    cuts : list of (float, Cut)
        Weighted cuts.
    tilt : ndarray of shape (n,) or None
        Sum of the modular terms, if there is one.
    other : SubmodularFunction or None
        The rest: terms that need auxiliary nodes.
    """

    cuts: list[tuple[float, Cut]]
    tilt: FloatArray | None
    other: SubmodularFunction | None


def split(f: SubmodularFunction) -> Parts:
    """Split a function into cuts, a modular term and the rest."""
    cuts: list[tuple[float, Cut]] = []
    tilt: FloatArray | None = None
    rest: list[tuple[float, SubmodularFunction]] = []
    for weight, atom in f.terms():
        if isinstance(atom, Modular):
            tilt = weight * atom.t if tilt is None else tilt + weight * atom.t
        elif isinstance(atom, Cut):
            cuts.append((weight, atom))
        else:
            rest.append((weight, atom))
    return Parts(cuts, tilt, Sum(rest) if rest else None)


@dataclasses.dataclass(frozen=True)
class Grid:
    """A regular grid and, for each function, its weights: (function, offset, number or array)."""

    shape: tuple[int, int, int]
    steps: tuple[Step, ...]
    planes: list[tuple[int, int, float | FloatArray]]

    def edges(self) -> IntArray:
        """Return the edges (E, 2) in the order of the kernel: by step, then row-major."""
        index = np.arange(math.prod(self.shape), dtype=np.int64).reshape(self.shape)
        pairs = [
            np.stack([index[_part(self.shape, step, 0)].ravel(),
                      index[_part(self.shape, step, 1)].ravel()], axis=1)
            for step in self.steps
        ]  # fmt: skip
        return np.concatenate(pairs)

    def couplings(
        self, alpha: FloatArray, factors: FloatArray | None, problems: int
    ) -> tuple[IntArray, FloatArray]:
        """Return offsets (O,) from first to second ends, and weights (problems, O, n) at the first.

        `factors` are in the order of `edges`, of shape (M or 1, K or 1, E).
        """
        used = sorted({offset for _, offset, _ in self.planes})
        weights = np.zeros((len(used), problems, *self.shape))
        for k, offset, value in self.planes:
            block = (slice(None), *_part(self.shape, self.steps[offset], 0))
            plane = weights[used.index(offset)][block]
            own = value if isinstance(value, float) else value.reshape(1, *self.shape)[block]
            factor: float | FloatArray = 1.0
            if factors is not None:
                parts = [_part(self.shape, step, 0) for step in self.steps[: offset + 1]]
                sizes = [np.empty(self.shape, np.bool_)[part].size for part in parts]
                mine = slice(sum(sizes[:-1]), sum(sizes))
                factor = factors[:, min(k, factors.shape[1] - 1), mine]
                factor = factor.reshape(-1, *plane.shape[1:])
            plane += alpha[:, k, None, None, None] * own * factor
        _, height, width = self.shape
        steps = np.array([self.steps[offset] for offset in used], dtype=np.int64).reshape(-1, 3)
        offsets = steps @ np.array([height * width, width, 1])
        ordered = weights.reshape(len(used), problems, math.prod(self.shape)).swapaxes(0, 1)
        return offsets, np.ascontiguousarray(ordered)


def _part(shape: tuple[int, int, int], step: Step, end: int) -> tuple[slice, ...]:
    """Return the block of the grid with the first (0) or second (1) ends of a step's edges."""
    signs = step if end else tuple(-s for s in step)
    return tuple(slice(max(0, s), size + min(0, s)) for s, size in zip(signs, shape, strict=True))


def as_grid(n: int, parts: Sequence[Parts]) -> Grid | None:
    """Return the functions on a regular grid, if all of their cuts lie on one."""
    cuts = [(k, weight, cut) for k, part in enumerate(parts) for weight, cut in part.cuts]
    if not cuts or n == 0:
        return None
    shapes = {cut.shape for _, _, cut in cuts if cut.shape is not None}
    if len(shapes) > 1:
        return None
    shape = _as_three(shapes.pop()) if shapes else _guess_shape(n, [cut for _, _, cut in cuts])
    if shape is None or math.prod(shape) != n:
        return None

    turns = 0
    while shape[2] == 1 and n > 1:  # a column is a row
        shape, turns = (shape[2], shape[0], shape[1]), turns + 1
    # Rows are padded to words of 64: a large grid with short rows is better off as a list of edges.
    padded = n // shape[2] * (-(-shape[2] // 64) * 64)
    if padded > _LARGEST_GRID or (padded > 4 * n and n > 1 << 16):
        return None

    pieces: list[tuple[int, Step, float | FloatArray]] = []
    for k, weight, cut in cuts:
        if cut.offset is not None:
            if not cut.weights.size:
                continue
            step = _turned(_as_step(cut.offset), turns)
            value = _on_step(shape, step, cut)
            pieces.append((k, step, value * weight))
        else:
            found = _by_step(shape, cut)
            if found is None:
                return None
            pieces += [(k, step, array * weight) for step, array in found]
    used = {step for _, step, _ in pieces}
    for steps in STENCILS:
        if used <= set(steps) and (shape[0] == 1 or steps is not _AXES_2):
            return Grid(shape, steps, [(k, steps.index(step), v) for k, step, v in pieces])
    return None


def _turned(step: Step, turns: int) -> Step:
    for _ in range(turns):
        step = (step[2], step[0], step[1])
    return step


def _as_three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    a, b, c = (1,) * (3 - len(shape)) + tuple(shape)
    return a, b, c


def _as_step(offset: tuple[int, ...]) -> Step:
    a, b, c = (0,) * (3 - len(offset)) + tuple(offset)
    return a, b, c


def _on_step(shape: tuple[int, int, int], step: Step, cut: Cut) -> float | FloatArray:
    """Return the weights of a cut of one direction: one number if they are all equal."""
    if cut.weights.size == 0:
        return 0.0
    first = float(cut.weights[0])
    if cut.weights.strides == (0,) or bool((cut.weights == first).all()):
        return first
    plane = np.zeros(shape)
    plane[_part(shape, step, 0)] = cut.weights.reshape(plane[_part(shape, step, 0)].shape)
    return plane.ravel()


def _by_step(shape: tuple[int, int, int], cut: Cut) -> list[tuple[Step, FloatArray]] | None:
    """Sort the edges of any cut by their step on the grid, None if one of them has no step."""
    n = math.prod(shape)
    i, j = cut.edges.T
    a = np.stack(np.unravel_index(i, shape), axis=1)
    b = np.stack(np.unravel_index(j, shape), axis=1)
    found = []
    steps, place = np.unique(b - a, axis=0, return_inverse=True)
    if len(steps) > len(_ALL_26):
        return None
    for t, row in enumerate(steps):
        step: Step = (int(row[0]), int(row[1]), int(row[2]))
        if step not in _ALL_26:
            return None
        mine = place.ravel() == t
        plane = np.zeros(n)
        plane[i[mine]] = cut.weights[mine]
        found.append((step, plane))
    return found


def _guess_shape(n: int, cuts: Sequence[Cut]) -> tuple[int, int, int] | None:
    """Return the shape of an image whose 4-neighbour grid the edges could be."""
    width = 0
    for cut in cuts:
        lag = cut.edges[:, 1] - cut.edges[:, 0]
        wide = lag[lag > 1]
        if wide.size and not width:
            width = int(wide[0])
        if wide.size and (wide != width).any():
            return None
    if width < 2 or n % width:
        return None
    for cut in cuts:
        i, j = cut.edges.T
        if ((j - i == 1) & (i % width == width - 1)).any():
            return None
    return 1, n // width, width


@dataclasses.dataclass(frozen=True)
class EdgeList:
    """Any graph: the edges of the cuts first, then those of auxiliary constructions.

    Attributes
    ----------
    n_aux : int
        Auxiliary nodes, after the n real ones.
    edges : ndarray of shape (E, 2)
    n_cut_edges : int
        How many of the edges belong to cuts.
    starts, places, weights : ndarray
        Kernel function k has ``weights[t]`` on edge ``places[t]``,
        ``starts[k] <= t < starts[k + 1]``. The cuts of the K functions come first, then one for
        each function with auxiliary nodes.
    aux_of : list of int
        Which function each of the latter belongs to.
    aux_unary : ndarray of shape (len(aux_of), n + n_aux)
    aux_constant : ndarray of shape (len(aux_of),)
    """

    n_aux: int
    edges: IntArray
    n_cut_edges: int
    starts: IntArray
    places: IntArray
    weights: FloatArray
    aux_of: list[int]
    aux_unary: FloatArray
    aux_constant: FloatArray


def union_of_edges(n: int, parts: Sequence[Parts]) -> tuple[IntArray, IntArray]:
    """Return every edge of every cut once, by first appearance, and where each has gone."""
    every = [cut.edges for part in parts for _, cut in part.cuts]
    stacked = np.concatenate([np.empty((0, 2), dtype=np.int64), *every])
    _, first, place = np.unique(
        stacked[:, 0] * np.int64(max(n, 1)) + stacked[:, 1], return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return stacked[first[order]], rank[place.ravel()]


def as_edge_list(n: int, parts: Sequence[Parts]) -> EdgeList | None:
    """Return the functions on one edge list, None if one of them has no graph."""
    graphs: list[tuple[int, PairwiseGraph]] = []
    for k, part in enumerate(parts):
        if part.other is not None:
            graph = part.other.graph()
            if graph is None:
                return None
            graphs.append((k, graph))

    cut_edges, place = union_of_edges(n, parts)
    counts, places, weights, at = [], [], [], 0
    for part in parts:
        size = 0
        for weight, cut in part.cuts:
            size += len(cut.weights)
            weights.append(weight * cut.weights)
        places.append(place[at : at + size])
        counts.append(size)
        at += size

    n_aux = sum(graph.n_aux for _, graph in graphs)
    unary = np.zeros((len(graphs), n + n_aux))
    edges, node, edge = [cut_edges], n, len(cut_edges)
    for row, (_, graph) in enumerate(graphs):
        unary[row, :n] = graph.unary[:n]
        unary[row, node : node + graph.n_aux] = graph.unary[n:]
        edges.append(np.where(graph.edges < n, graph.edges, graph.edges + (node - n)))
        places.append(np.arange(edge, edge + len(graph.edges)))
        weights.append(graph.weights)
        counts.append(len(graph.edges))
        node += graph.n_aux
        edge += len(graph.edges)
    return EdgeList(
        n_aux=n_aux,
        edges=np.ascontiguousarray(np.concatenate(edges)),
        n_cut_edges=len(cut_edges),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        places=np.concatenate([np.empty(0, np.int64), *places]).astype(np.int64),
        weights=np.concatenate([np.empty(0), *weights]).astype(np.float64),
        aux_of=[k for k, _ in graphs],
        aux_unary=unary,
        aux_constant=np.array([graph.constant for _, graph in graphs], dtype=np.float64),
    )
