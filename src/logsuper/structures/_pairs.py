r"""Pairwise functions :math:`f_1,\dots,f_K` on the union of their edges, with fixed elements.

In the normal form :math:`f_k(x)=\sum_ew_{ke}|x_i-x_j|-t_k^\top x`, fixing an element keeps the
graph and changes numbers only: its edges become fields on its neighbours and a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, add_up
from logsuper.structures._pairwise import Pairwise


class Free(NamedTuple):
    r"""A weighted sum of functions after eliminating the elements fixed by infinite fields.

    Attributes
    ----------
    weights : ndarray of shape (E,)
        0 where an end of the edge is fixed.
    field : ndarray of shape (n,)
        :math:`f(x)=\sum_ew_e|x_i-x_j|-t^\top x`; 0 where the element is fixed.
    fixed : ndarray of shape (n,), bool
    point : ndarray of shape (n,)
        Values of the fixed elements, 0 elsewhere.
    constant : float
        Contribution of the fixed elements to -f.
    """

    weights: FloatArray
    field: FloatArray
    fixed: BoolArray
    point: FloatArray
    constant: float


class Pairs(NamedTuple):
    """The normal forms of K functions on common edges.

    Attributes
    ----------
    edges : ndarray of shape (E, 2)
        Sorted, with ``i < j``, without repetitions.
    weights : ndarray of shape (K, E)
    tilt : ndarray of shape (K, n)
        The fields of the normal forms.
    place : ndarray of shape (E,), or None
        Index of each edge among the edges of the cuts; None if some edge does not belong to a cut.
    """

    edges: IntArray
    weights: FloatArray
    tilt: FloatArray
    place: IntArray | None

    @classmethod
    def of(cls, n: int, forms: Sequence[Pairwise], cut_edges: IntArray) -> Pairs:
        """Extend normal forms to the union of their edges."""
        code = np.array([n, 1])
        keys = [form.edges @ code for form in forms]
        union = np.unique(np.concatenate(keys))
        weights = np.zeros((len(forms), len(union)))
        for row, key, form in zip(weights, keys, forms, strict=True):
            row[np.searchsorted(union, key)] = form.weights
        given = np.sort(cut_edges, axis=1) @ code
        order, place = np.argsort(given), None
        if np.isin(union, given).all():
            place = order[np.searchsorted(given[order], union)]
        edges = np.stack(np.divmod(union, max(1, n)), axis=1)
        return cls(edges, weights, np.array([form.t for form in forms]), place)

    def scaled(self, factors: FloatArray | None) -> FloatArray:
        """Return the weights (K, E) with factors (E,) or (K, E) on the edges of the cuts."""
        if factors is None:
            return self.weights
        assert self.place is not None
        return np.asarray(self.weights * factors[..., self.place])

    def gains(self, weights: FloatArray, x: Bits) -> FloatArray:
        """Return the gains (K, n) of the functions at x, given the weights (K, E)."""
        i, j = self.edges.T
        toward = 1.0 - 2.0 * x
        return np.stack(
            [
                add_up(i, w * toward[j], len(x)) + add_up(j, w * toward[i], len(x)) - tilt
                for w, tilt in zip(weights, self.tilt, strict=True)
            ]
        )

    def free(self, weights: FloatArray, alpha: FloatArray, field: FloatArray) -> Free:
        """Return the sum with weights alpha, after eliminating the elements fixed by the field."""
        fixed = np.isinf(field)
        point = np.where(fixed & (field > 0), 1.0, 0.0)
        tilt = alpha @ self.tilt
        t = np.where(fixed, 0.0, field + tilt)
        w = alpha @ weights
        constant = float(tilt @ point)
        if not fixed.any():
            return Free(w, t, fixed, point, constant)
        i, j = self.edges.T
        # |x_i - a| = a + (1 - 2a) x_i for a fixed a
        toward = np.where(fixed, 2.0 * point - 1.0, 0.0)
        for one, other in ((i, j), (j, i)):
            t += add_up(one, np.where(fixed[one], 0.0, w * toward[other]), len(t))
        held = fixed[i] | fixed[j]
        constant -= float(np.where(held, w * np.abs(point[i] - point[j]), 0.0).sum())
        return Free(np.where(held, 0.0, w), t, fixed, point, constant)

    def expect(
        self, weights: FloatArray, free: Free, mean: FloatArray, apart: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return :math:`E f_k` and E x, given E x and :math:`P(x_i\ne x_j)` of free elements."""
        full = np.where(free.fixed, free.point, mean)
        i, j = full[self.edges.T]
        held = free.fixed[self.edges].any(axis=1)
        differ = np.where(held, i + j - 2.0 * i * j, apart)
        return weights @ differ - self.tilt @ full, full
