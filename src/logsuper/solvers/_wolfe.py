r"""Single steps of Wolfe's nearest-point algorithm on a base polytope.

This module holds the geometry and its numerics; ``_min_norm`` decides when to stop and when to
split the problem.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager

import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from logsuper._base import FloatArray, IntArray
from logsuper.functions import SubmodularFunction

# A set A is tight if f(A) - x(A) is at most the first, and x increases after it by more than the
# second, both relative to `mass`.
_TIGHT = 1e-13
_JUMP = 1e-9


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread.

    The matrices here are many and small: synchronising threads costs more than they save, and much
    more on a busy machine.
    """
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class Wolfe:
    r"""Wolfe's algorithm on :math:`B(f - \theta)`, one step at a time.

    Parameters
    ----------
    f : SubmodularFunction
        With at least one element.
    field : ndarray of float64, shape (n,)
    start : ndarray of float64, shape (n,)
        The first vertex minimises the inner product with this vector.
    """

    def __init__(self, f: SubmodularFunction, field: FloatArray, start: FloatArray) -> None:
        self.f = f
        self.field = field
        self.calls = 0
        self.scale = 0.0  # largest 2-norm of |greedy vertex of f| + |field| so far
        self.mass = 0.0  # largest 1-norm of the same
        self._look(start)
        self.corral = Corral(self.vertex)
        self._look(self.corral.point)

    def _look(self, x: FloatArray) -> None:
        """Find the vertex with the least inner product with x, and both gaps."""
        self.point = x
        base = self.f.greedy(-x)
        self.vertex = base - self.field
        self.calls += 1
        # Magnitudes before the subtraction, which rounding errors are relative to.
        self.scale = max(self.scale, float(np.linalg.norm(np.abs(base) + np.abs(self.field))))
        self.mass = max(self.mass, float(np.abs(base).sum() + np.abs(self.field).sum()))
        # The greedy algorithm adds elements in increasing order of x, so that its partial sums are
        # the values of f on the level sets of x.
        self.order = np.argsort(x, kind="stable")
        self.chain = np.concatenate([[0.0], np.cumsum(self.vertex[self.order])])
        self.norm_gap = max(0.0, float(x @ (x - self.vertex)))
        self.set_gap = max(0.0, float(self.chain.min() - np.minimum(x, 0.0).sum()))

    def step(self) -> bool:
        """Add the vertex; return whether the point has moved."""
        moved = self.corral.advance(self.vertex)
        if moved:
            self._look(self.corral.point)
        return moved

    def tight(self) -> tuple[IntArray, FloatArray]:
        """Return the places of the order that end a tight set, and the slacks f(A) - x(A) there."""
        x = self.point[self.order]
        slack = (self.chain[1:] - np.cumsum(x))[:-1]
        jumps = np.diff(x) > _JUMP * self.mass / len(x)
        places = np.flatnonzero(jumps & (slack <= _TIGHT * self.mass))
        return places + 1, np.maximum(slack[places], 0.0)


class Corral:
    r"""Affinely independent vertices and the least-norm point of their convex hull.

    The columns :math:`(\kappa, s_j)`, with :math:`\kappa` about the size of the vertices, are kept
    in a QR factorisation that is updated, not recomputed. The affine minimiser
    :math:`\min \|\sum_j \mu_j s_j\|^2, \sum_j \mu_j = 1` is proportional to the least-squares
    solution of :math:`\sum_j \mu_j (\kappa, s_j) \approx (\kappa, 0)`, hence
    :math:`R \mu \propto Q^\top e_1`: one triangular solve, whose error grows with the condition
    number and not with its square.
    """

    def __init__(self, vertex: FloatArray) -> None:
        self.point = vertex.copy()
        self.points = vertex[None, :].copy()
        self.weights = np.ones(1)
        self.kappa = float(np.linalg.norm(vertex)) or 1.0
        self.stuck = False
        self._factorise()

    def _factorise(self) -> None:
        columns = np.vstack([np.full(len(self.points), self.kappa), self.points.T])
        self.Q, self.R = scipy.linalg.qr(columns, mode="economic", check_finite=False)
        self.fresh = True

    def advance(self, vertex: FloatArray) -> bool:
        """Add a vertex and move the point; return whether the point has improved."""
        x = self.point
        size = float(np.linalg.norm(x))
        # A gap below its own rounding error is meaningless.
        noise = 4 * np.finfo(float).eps * size * (size + float(np.linalg.norm(vertex)))
        if self.stuck or float(x @ (x - vertex)) <= noise:
            return False
        if self._insert(vertex):
            point = self._settle()
            if float(point @ point) < float(self.point @ self.point):
                self.point, self.fresh = point, False
                return True
        # Rounding errors prevent progress: recompute the factorisation once, then stop.
        self.stuck = self.fresh
        if not self.fresh:
            self._factorise()
            self.point = self._settle()
            self.fresh = True
        return not self.stuck

    def _insert(self, vertex: FloatArray) -> bool:
        """Add a vertex with weight 0, unless it depends affinely on the present ones."""
        if len(self.points) > len(vertex):
            return False
        size = float(np.linalg.norm(vertex))
        if size > 10 * self.kappa:
            self.kappa = size
            self._factorise()
        column = np.concatenate([[self.kappa], vertex])
        try:
            self.Q, self.R = scipy.linalg.qr_insert(
                self.Q, self.R, column, len(self.points), which="col", check_finite=False
            )
        except np.linalg.LinAlgError:
            return False
        if abs(self.R[-1, -1]) <= 1e-14 * float(np.linalg.norm(column)):
            self._delete(len(self.points))
            return False
        self.points = np.vstack([self.points, vertex])
        self.weights = np.append(self.weights, 0.0)
        return True

    def _delete(self, index: int) -> None:
        Q, R = scipy.linalg.qr_delete(self.Q, self.R, index, 1, which="col", check_finite=False)
        # If Q is square, scipy returns a full factorisation, not an economic one.
        self.Q, self.R = Q[:, : R.shape[1]], R[: R.shape[1]]

    def _settle(self) -> FloatArray:
        """Run Wolfe's minor cycles: move to the affine minimiser, dropping vertices on the way."""
        while True:
            try:
                target = scipy.linalg.solve_triangular(self.R, self.Q[0], check_finite=False)
            except np.linalg.LinAlgError:
                return np.asarray(self.weights @ self.points)
            target /= target.sum()
            outside = np.flatnonzero(target <= 0)
            if outside.size == 0:
                self.weights = target
                return np.asarray(target @ self.points)
            # Move towards the affine minimiser until the first weight is 0.
            old = self.weights[outside]
            steps = old / np.maximum(old - target[outside], np.finfo(float).tiny)
            step = float(steps.min())
            self.weights = (1.0 - step) * self.weights + step * target
            gone = self.weights <= 1e-14
            gone[outside[steps.argmin()]] = True
            for index in np.flatnonzero(gone)[::-1].tolist():
                self._delete(index)
            self.points, self.weights = self.points[~gone], self.weights[~gone]
            self.weights /= self.weights.sum()
