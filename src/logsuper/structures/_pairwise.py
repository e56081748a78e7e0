r"""Pairwise functions in normal form, :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`.

Several functions share the union of their edges. Fixing an element keeps the graph and changes
numbers only: its edges become fields on its neighbours and a constant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, add_up
from logsuper.functions import Cut, Modular, SubmodularFunction, rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Pairwise:
    r"""A pairwise function as arrays.

    Attributes
    ----------
    n : int
    edges : ndarray of shape (E, 2), int64
        Sorted, with ``i < j``, without repetitions.
    weights : ndarray of shape (E,)
        All > 0.
    t : ndarray of shape (n,)
        The field: :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`.
    error : float
        Bound on the error of a function value due to rounding of the fields.
    relative : float
        Bound on the relative error of a weight.
    """

    n: int
    edges: IntArray
    weights: FloatArray
    t: FloatArray
    error: float = 0.0
    relative: float = 2.0**-50

    @property
    def strength(self) -> FloatArray:
        """Total weight of the edges at each element."""
        ends = self.edges.T
        return add_up(ends[0], self.weights, self.n) + add_up(ends[1], self.weights, self.n)

    @property
    def slack(self) -> float:
        """Bound on the error of a function value due to rounding of the fields and weights."""
        with np.errstate(over="ignore"):
            return self.error + self.relative * float(self.weights.sum())

    def as_function(self) -> SubmodularFunction:
        """Return the function that the arrays describe."""
        return Cut(self.n, self.edges, self.weights) - Modular(self.t)

    @property
    def degree(self) -> IntArray:
        """Number of edges at each element."""
        return np.bincount(self.edges.ravel(), minlength=self.n)


def find_pairwise(f: SubmodularFunction) -> Pairwise | None:
    """Return f in normal form, or None if it is not pairwise."""
    graph = f.graph()
    if graph is None or graph.n_aux:
        return None
    nodes, terms = graph.terms
    error = graph.error + rounding(nodes, terms, f.n)
    for weight, atom in f.terms():
        if isinstance(atom, Modular) and np.frexp(weight)[0] != 0.5:
            error += 2.0**-53 * weight * float(np.abs(atom.t).sum())
    return Pairwise(f.n, graph.edges, graph.weights, -graph.unary, error)


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
