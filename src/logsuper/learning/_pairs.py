r"""Pairwise functions of examples as one list of edges, with labels held fixed.

In the normal form :math:`f_k(x)=\sum_ew_{ke}|x_i-x_j|-t_k^\top x` a field that fixes an element
only changes numbers: its edges become fields on its neighbours, and a constant.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, add_up
from logsuper.bounds import NotApplicable, as_grid, as_pairwise
from logsuper.functions import Sum
from logsuper.learning._examples import Group
from logsuper.solvers import split

__all__ = ["Pairs", "Reduced", "grid_shape"]


class Reduced(NamedTuple):
    r"""The function of one example, without what is fixed.

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
        What the fixed elements add to -f.
    """

    weights: FloatArray
    field: FloatArray
    fixed: NDArray[np.bool_]
    point: FloatArray
    constant: float


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """The functions of a group of examples on the edges of all of them.

    Attributes
    ----------
    edges : ndarray of shape (E, 2)
        With ``i < j``, each once.
    weights : ndarray of shape (K, E)
    tilt : ndarray of shape (K, n)
        The fields of the normal forms.
    place : ndarray of shape (E,)
        Where each edge stands among `Prepared.edges`; empty if the group has no factors on them.
    """

    edges: IntArray
    weights: FloatArray
    tilt: FloatArray
    place: IntArray

    @classmethod
    def of(cls, group: Group) -> Pairs | None:
        """Return the functions of a group, None if one of them is not pairwise."""
        prepared = group.prepared
        forms = []
        for f in prepared.functions:
            form = as_pairwise(f)
            # factors are for the edges of cuts; other functions keep theirs
            if form is None or (group.edge_weights is not None and split(f).other is not None):
                return None
            forms.append(form)
        n = prepared.n
        keys = [form.edges @ np.array([n, 1]) for form in forms]
        union = np.unique(np.concatenate(keys))
        weights = np.zeros((len(forms), len(union)))
        for row, key, form in zip(weights, keys, forms, strict=True):
            row[np.searchsorted(union, key)] = form.weights
        place = np.empty(0, dtype=np.int64)
        if group.edge_weights is not None:
            given = np.sort(prepared.edges, axis=1) @ np.array([n, 1])
            order = np.argsort(given)
            place = order[np.searchsorted(given[order], union)]
        edges = np.stack(np.divmod(union, n), axis=1)
        return cls(edges, weights, np.array([form.t for form in forms]), place)

    @classmethod
    def need(cls, group: Group, method: str) -> Pairs:
        """Return the functions of a group; refuse, in the name of a method, others."""
        pairs = cls.of(group)
        if pairs is None:
            raise NotApplicable(
                f"{method} needs pairwise functions, got {list(group.prepared.functions)!r}"
            )
        return pairs

    def gains(self, group: Group, rows: IntArray, x: NDArray[np.uint8]) -> FloatArray:
        """Return the gains of each function at x (B, n), as (K, B, n)."""
        i, j = self.edges.T
        result = np.empty((len(self.weights), *x.shape))
        toward = 1.0 - 2.0 * x
        for b, row in enumerate(rows.tolist()):
            for k, w in enumerate(self.scaled(group, row)):
                sums = (add_up(a, w * toward[b, o], x.shape[1]) for a, o in ((i, j), (j, i)))
                result[k, b] = sum(sums) - self.tilt[k]
        return result

    def scaled(self, group: Group, row: int) -> FloatArray:
        """Return the weights (K, E) of an example, with its factors."""
        if group.edge_weights is None:
            return self.weights
        factors = group.edge_weights[row][..., self.place]
        return np.asarray(self.weights * factors)

    def reduce(self, weights: FloatArray, alpha: FloatArray, field: FloatArray) -> Reduced:
        """Return the function of an example, given its weights (K, E)."""
        fixed = np.isinf(field)
        point = np.where(fixed & (field > 0), 1.0, 0.0)
        tilt = alpha @ self.tilt
        t = np.where(fixed, 0.0, field + tilt)
        w = alpha @ weights
        constant = float(tilt @ point)
        if not fixed.any():
            return Reduced(w, t, fixed, point, constant)
        i, j = self.edges.T
        # |x_i - a| = a + (1 - 2a) x_i for a fixed a
        toward = np.where(fixed, 2.0 * point - 1.0, 0.0)
        for one, other in ((i, j), (j, i)):
            t += add_up(one, np.where(fixed[one], 0.0, w * toward[other]), len(t))
        held = fixed[i] | fixed[j]
        constant -= float(np.where(held, w * np.abs(point[i] - point[j]), 0.0).sum())
        return Reduced(np.where(held, 0.0, w), t, fixed, point, constant)

    def expect(
        self, weights: FloatArray, reduced: Reduced, mean: FloatArray, apart: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return :math:`E f_k` and E x, given E x and :math:`P(x_i\ne x_j)` of the free part."""
        full = np.where(reduced.fixed, reduced.point, mean)
        i, j = full[self.edges.T]
        held = reduced.fixed[self.edges].any(axis=1)
        differ = np.where(held, i + j - 2.0 * i * j, apart)
        return weights @ differ - self.tilt @ full, full


def grid_shape(group: Group, pairs: Pairs) -> tuple[int, int] | None:
    """Return rows and columns of the image whose 4-neighbour grid has all edges, or None."""
    n = group.prepared.n
    shapes = [tuple(size for size in group.shape if size > 1)]
    known = as_grid(Sum((1.0, f) for f in group.prepared.functions))
    if known is not None and len(known.pixels) == known.t.size:
        shapes.append(known.shape)
    for shape in shapes:
        rows, columns = (1, 1, *shape)[-2:]
        i, j = pairs.edges.T
        across = (j == i + 1) & (j % columns > 0)
        if len(shape) <= 2 and rows * columns == n and np.all(across | (j == i + columns)):
            return rows, columns
    return None
