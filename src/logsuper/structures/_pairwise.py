r"""The normal form of pairwise functions, :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`."""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray, IntArray, add_up
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
