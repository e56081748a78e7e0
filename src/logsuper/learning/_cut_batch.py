"""Batches of cut problems as layers see them: one field and one weight per edge and problem."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import (
    FloatArray,
    IntArray,
    Seed,
    as_float,
    as_floats,
    as_list,
    as_rows,
    check_integer,
    check_number,
    refuse,
    refuse_negative,
    stream_key,
)
from logsuper.functions import Cut, grid_cuts
from logsuper.solvers import Prepared, kernels, logistic_noise, prepare


@dataclasses.dataclass(frozen=True, eq=False)
class CutBatch:
    r"""M problems :math:`\max_y\theta^\top y-\sum_ew_e|y_i-y_j|` on one graph.

    Attributes
    ----------
    prepared : Prepared or None
        The solver; results that only pull gradients back do without.
    edges : ndarray of shape (E, 2)
    base : ndarray of shape (E,)
        The weight of each edge in the cuts themselves, which `edge_weights` multiply.
    theta : ndarray of shape (M, n)
    edge_weights : ndarray of shape (M, E)
    layout : tuple of int
        The shape of the user's fields, which results have as well.
    single : bool
        Whether the user gave one problem without a batch axis.
    """

    prepared: Prepared | None
    edges: IntArray
    base: FloatArray
    theta: FloatArray
    edge_weights: FloatArray
    layout: tuple[int, ...]
    single: bool

    @classmethod
    def of(
        cls,
        theta: ArrayLike,
        edge_weights: ArrayLike,
        structure: Prepared | None,
        shape: Sequence[int] | None,
        neighbors: int | None,
    ) -> CutBatch:
        """Check what the user gave."""
        prepared, base, sizes = _find_structure(structure, shape, neighbors)
        given = as_float(theta, "theta")
        field = as_rows(given, sizes)
        if field.ndim not in (1, 2) or field.shape[-1] != prepared.n:
            raise ValueError(f"theta must have shape {_wanted(sizes)}, got {given.shape}")
        weights, edges = as_float(edge_weights, "edge_weights"), len(prepared.edges)
        single = field.ndim == 1
        legal = [(edges,)] if single else [(edges,), (len(field), edges)]
        if weights.shape not in legal:
            raise ValueError(
                f"edge_weights must have shape {' or '.join(map(str, legal))}, one weight per row "
                f"of Prepared.edges, got {weights.shape}"
            )
        refuse_negative(weights, "edge_weights", "a repulsive edge is not submodular")
        rows = np.atleast_2d(field)
        shared = np.broadcast_to(weights, (len(rows), edges))
        return cls(
            prepared,
            prepared.edges,
            base,
            rows,
            np.ascontiguousarray(shared),
            given.shape,
            single,
        )

    @property
    def n(self) -> int:
        """Number of elements."""
        return int(self.theta.shape[1])

    def without_solver(self) -> CutBatch:
        """Return the same for what is kept: a solver is large, and must not outlive its module."""
        return dataclasses.replace(self, prepared=None)

    def read_labels(self, y: ArrayLike) -> FloatArray:
        """Return labels (M, n), NaN where there is none."""
        given = as_floats(_unmasked(y), "y")
        if given.shape != self.layout:
            raise ValueError(f"y has shape {given.shape}, but theta {self.layout}")
        bad = (given != 0) & (given != 1) & ~np.isnan(given)
        refuse(bad, given, "y", "a label is 0 or 1, NaN where there is none")
        return given.reshape(self.theta.shape)

    def read_gradient(self, gradient: ArrayLike) -> FloatArray:
        """Return what is pulled back, (M, n)."""
        given = as_float(gradient, "gradient")
        if given.shape != self.layout:
            raise ValueError(f"gradient has shape {given.shape}, but theta {self.layout}")
        return given.reshape(self.theta.shape)

    def per_node(self, rows: FloatArray) -> FloatArray:
        """Return rows (M, n) in the user's layout."""
        return rows.reshape(self.layout)

    def per_edge(self, rows: FloatArray) -> FloatArray:
        """Return rows (M, E), or one row."""
        return rows[0] if self.single else rows

    def disagreements(self, labels: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return whether the ends of each edge differ, (..., E), for labels (..., n)."""
        i, j = self.edges.T
        return np.asarray(labels[..., i] != labels[..., j])


@dataclasses.dataclass(frozen=True)
class Draws:
    """How many perturbations, their scale and their key."""

    count: int
    sigma: float
    key: int

    @classmethod
    def of(cls, n_samples: int, sigma: float, seed: Seed, least: int = 1) -> Draws:
        """Check what the user gave."""
        count = check_integer(n_samples, "n_samples", least, 2**31)
        if not 1e-70 <= check_number(sigma, "sigma") <= 1e70:
            raise ValueError(f"sigma must be positive, from 1e-70 to 1e70, got {sigma:g}")
        return cls(count, float(sigma), stream_key(seed))

    def maximize(
        self,
        batch: CutBatch,
        fields: FloatArray,
        weights: FloatArray,
        numbers: IntArray,
        n_jobs: int | None,
    ) -> tuple[FloatArray, NDArray[np.uint8]]:
        """Return the values (R, S), in units of sigma, and maximisers (R, S, n) of perturbed rows.

        Noise of scale sigma is noise of scale 1 on fields and weights divided by sigma.
        """
        solver = batch.prepared
        assert solver is not None
        found = solver.perturb(
            fields / self.sigma,
            np.ones(len(solver.functions)),
            self.count,
            self.key,
            True,
            edge_weights=weights / self.sigma if weights.size else None,
            numbers=numbers,
            n_jobs=n_jobs,
        )
        assert found.samples is not None
        return found.values, found.samples

    def noise(self, problems: int, sample: int, n: int) -> FloatArray:
        """Return the noise, of scale 1, of one sample of problems 0, 1, ..., (M, n)."""
        native = kernels()
        if native is None:
            return logistic_noise(self.key, range(problems), sample, n)[:, 0]
        found = np.empty((problems, n))
        for m, row in enumerate(found):
            native.draw_noise(self.key, m, sample, row)
        return found


# ------------------------------------------------------------------------------------------ inside


def _find_structure(
    structure: Prepared | None, shape: Sequence[int] | None, neighbors: int | None
) -> tuple[Prepared, FloatArray, tuple[int, ...]]:
    if (structure is None) == (shape is None):
        raise ValueError("give either structure, from logsuper.prepare, or the shape of a grid")
    if structure is None:
        assert shape is not None
        given: list[int] = as_list(shape, "shape", "a sequence of integers, as in (4, 5)")
        sizes = tuple(check_integer(size, f"shape[{k}]", 1, 2**31) for k, size in enumerate(given))
        near = None if neighbors is None else check_integer(neighbors, "neighbors", 1, 27)
        return (*_prepare_grid(sizes, near), sizes)
    if neighbors is not None:
        raise ValueError("neighbors belongs to shape; a structure has edges already")
    if not isinstance(structure, Prepared):
        raise TypeError(
            f"structure must be what logsuper.prepare returns, got {type(structure).__name__}"
        )
    return structure, _base_weights(structure), (structure.n,)


@functools.lru_cache(maxsize=16)
def _prepare_grid(shape: tuple[int, ...], neighbors: int | None) -> tuple[Prepared, FloatArray]:
    prepared = prepare(grid_cuts(shape, neighbors))
    return prepared, _base_weights(prepared)


# kernels must not outlive the interpreter's modules
atexit.register(_prepare_grid.cache_clear)


def _base_weights(prepared: Prepared) -> FloatArray:
    """Return the weight of each edge in the sum of all cuts."""
    for k, f in enumerate(prepared.functions):
        if not isinstance(f, Cut):
            raise TypeError(
                f"structure.functions[{k}] is a {type(f).__name__}; a layer takes cuts alone: its "
                "modular term is theta"
            )
    return np.asarray(prepared.structure.table.sum(axis=0))


def _unmasked(y: Any) -> Any:
    if isinstance(y, np.ma.MaskedArray):
        return np.ma.filled(y.astype(np.float64), np.nan)
    return y


def _wanted(sizes: tuple[int, ...]) -> str:
    n = math.prod(sizes)
    rows = f"({n},) or (M, {n})"
    return rows if len(sizes) == 1 else f"{sizes}, (M, {', '.join(map(str, sizes))}), {rows}"
