r"""The normal form of pairwise functions, :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`."""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper.bounds._errors import NotApplicable
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray, IntArray, add_up
from logsuper.functions._cut import Cut
from logsuper.functions._modular import Modular


@dataclasses.dataclass(frozen=True, eq=False)
class Pairwise:
    r"""A pairwise function as arrays.

    Attributes
    ----------
    n : int
    edges : ndarray of shape (E, 2), int64
        With ``i < j``, sorted, each at most once.
    weights : ndarray of shape (E,)
        All > 0.
    t : ndarray of shape (n,)
        The field: :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`.
    """

    n: int
    edges: IntArray
    weights: FloatArray
    t: FloatArray

    @property
    def strength(self) -> FloatArray:
        """Total weight of the edges at each element."""
        ends = self.edges.T
        return add_up(ends[0], self.weights, self.n) + add_up(ends[1], self.weights, self.n)

    @property
    def degree(self) -> IntArray:
        """Number of edges at each element."""
        return np.bincount(self.edges.ravel(), minlength=self.n)


@dataclasses.dataclass(frozen=True, eq=False)
class GridForm:
    r"""A pairwise function on a 4-neighbour image grid.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    t : ndarray of shape (rows, columns)
    across : ndarray of shape (rows, columns - 1)
        Weights >= 0 between horizontal neighbours.
    down : ndarray of shape (rows - 1, columns)
        Weights >= 0 between vertical neighbours.
    """

    shape: tuple[int, int]
    t: FloatArray
    across: FloatArray
    down: FloatArray

    def transposed(self) -> GridForm:
        """Return the same function with rows and columns exchanged."""
        rows, columns = self.shape
        parts = (np.ascontiguousarray(part.T) for part in (self.t, self.down, self.across))
        return GridForm((columns, rows), *parts)


def as_pairwise(f: SubmodularFunction) -> Pairwise | None:
    """Return f in normal form, None if it is not pairwise."""
    # families without a graph, or with one that needs auxiliary nodes, cost nothing to rule out
    graph = f.graph()
    if graph is None or graph.n_aux:
        return None
    return Pairwise(f.n, graph.edges, graph.weights, -graph.unary)


def need_pairwise(f: SubmodularFunction, method: str) -> Pairwise:
    """Return f in normal form; refuse, in the name of a method, what is not pairwise."""
    pairwise = as_pairwise(f)
    if pairwise is None:
        raise NotApplicable(f"{method} needs a pairwise function, got {f!r}")
    return pairwise


def as_grid(f: SubmodularFunction) -> GridForm | None:
    """Return f as a grid, None unless it is a sum of `grid_cuts` of one image and a Modular.

    Cuts with 8 neighbours are no such grid; a chain counts as one row.
    """
    shape: tuple[int, ...] | None = None
    t = np.zeros(f.n)
    planes: dict[tuple[int, ...], FloatArray] = {}
    for weight, atom in f.terms():
        if isinstance(atom, Modular):
            t -= weight * atom.t
            continue
        if not isinstance(atom, Cut) or atom.shape is None or atom.offset is None:
            return None
        if shape not in (None, atom.shape) or len(atom.shape) > 2:
            return None
        if sum(map(abs, atom.offset)) != 1:
            return None
        shape = atom.shape
        planes[atom.offset] = planes.get(atom.offset, 0.0) + weight * atom.weights
    if shape is None:
        return None
    rows, columns = (1, *shape)[-2:]
    across = planes.get((0, 1) if len(shape) == 2 else (1,), np.zeros(rows * (columns - 1)))
    down = planes.get((1, 0), np.zeros((rows - 1) * columns))
    return GridForm(
        (rows, columns),
        t.reshape(rows, columns),
        np.ascontiguousarray(across.reshape(rows, columns - 1)),
        np.ascontiguousarray(down.reshape(rows - 1, columns)),
    )
