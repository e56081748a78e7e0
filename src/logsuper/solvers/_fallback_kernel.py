"""The interface of the compiled kernel on top of scipy's max-flow, for use without a compiler."""

from __future__ import annotations

import numpy as np

from logsuper._base import Bits, FloatArray, IntArray
from logsuper.solvers._fallback import solve_pairwise
from logsuper.solvers._results import finite_dot


class FallbackKernel:
    """One graph and the weights of several functions on its edges, laid out as in `EdgeLists`.

    Results are written to arrays of the caller. `wide`, `threads` and `memory` have no effect:
    every solve is exact in float64 and runs on one thread; `precision` stays 0.
    """

    def __init__(
        self, nodes: int, edges: IntArray, starts: IntArray, places: IntArray, weights: FloatArray
    ) -> None:
        self.nodes = nodes
        self.edges = len(edges)
        self.functions = len(starts) - 1
        self._ends = edges
        self._table = np.zeros((self.functions, len(edges)))
        for k in range(self.functions):
            terms = slice(int(starts[k]), int(starts[k + 1]))
            np.add.at(self._table[k], places[terms], weights[terms])

    def workspace(self, threads: int, wide: bool, min_norm: bool) -> tuple[int, int]:
        """Return the approximate minimum and maximum number of bytes of one solve."""
        size = 100 * self.edges + 100 * self.nodes
        return size, size

    def maximize(
        self,
        theta: FloatArray,
        alpha: FloatArray,
        factors: FloatArray | None,
        maximal: bool,
        wide: bool,
        threads: int,
        y: Bits,
        values: FloatArray,
        stats: FloatArray,
        memory: int | None = None,
        precision: FloatArray | None = None,
        shifted: None = None,  # terms on few elements come added to the field
        shift: None = None,
    ) -> None:
        problems = len(y)
        with np.errstate(over="ignore", invalid="ignore"):  # solve_pairwise refuses overflows
            table = self._table[None] if factors is None else self._table * factors  # (., K, E)
            weights = (alpha[:, :, None] * table).sum(axis=1)
        field = np.broadcast_to(theta, (problems, self.nodes))
        labels = solve_pairwise(
            self.nodes, self._ends, weights, field, tie="max" if maximal else "min"
        )
        y[:] = labels[:, : y.shape[1]]
        cut = (labels[:, self._ends[:, 0]] != labels[:, self._ends[:, 1]]).astype(np.float64)
        stats[:] = (table * cut[:, None, :]).sum(axis=2)
        values[:] = finite_dot(field, labels) - (alpha * stats).sum(axis=1)
