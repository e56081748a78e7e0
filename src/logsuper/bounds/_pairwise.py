r"""The normal form of pairwise functions, :math:`f(x)=\sum_e w_e|x_i-x_j|-t^\top x`."""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray, IntArray, add_up
from logsuper.bounds._errors import NotApplicable
from logsuper.functions import Cut, Modular, SubmodularFunction, rounding
from logsuper.solvers import split


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
    error : float
        Bound on how far the rounding of the fields moves a value of the function.
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
        """Bound on how far all rounding in these numbers moves a value of the function."""
        with np.errstate(over="ignore"):
            return self.error + self.relative * float(self.weights.sum())

    def as_function(self) -> SubmodularFunction:
        """Return the function of the arrays."""
        return Cut(self.n, self.edges, self.weights) - Modular(self.t)

    @property
    def degree(self) -> IntArray:
        """Number of edges at each element."""
        return np.bincount(self.edges.ravel(), minlength=self.n)


@dataclasses.dataclass(frozen=True, eq=False)
class GridForm:
    r"""A pairwise function on a 4-neighbour image grid, or on what conditioning left of one.

    A pixel that was fixed stays as one without edges and without a field, which doubles Z.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    t : ndarray of shape (rows, columns)
    across : ndarray of shape (rows, columns - 1)
        Weights >= 0 between horizontal neighbours.
    down : ndarray of shape (rows - 1, columns)
        Weights >= 0 between vertical neighbours.
    pixels : ndarray of shape (n,), int64
        The pixel, in row-major order, that each element of the function is.
    """

    shape: tuple[int, int]
    t: FloatArray
    across: FloatArray
    down: FloatArray
    pixels: IntArray

    @property
    def fixed(self) -> int:
        """Number of pixels that are no elements."""
        return self.t.size - len(self.pixels)

    def transposed(self) -> GridForm:
        """Return the same function with rows and columns exchanged."""
        rows, columns = self.shape
        t, across, down = (np.ascontiguousarray(p.T) for p in (self.t, self.down, self.across))
        r, c = np.divmod(self.pixels, columns)
        return GridForm((columns, rows), t, across, down, c * rows + r)

    def mirrored(self) -> GridForm:
        """Return the same function with the columns in the opposite order."""
        parts = (self.t, self.across, self.down)
        t, across, down = (np.ascontiguousarray(part[:, ::-1]) for part in parts)
        r, c = np.divmod(self.pixels, self.shape[1])
        return GridForm(self.shape, t, across, down, (r + 1) * self.shape[1] - 1 - c)


def as_pairwise(f: SubmodularFunction) -> Pairwise | None:
    """Return f in normal form, None if it is not pairwise."""
    # families without a graph, or with one that needs auxiliary nodes, cost nothing to rule out
    graph = f.graph()
    if graph is None or graph.n_aux:
        return None
    nodes, terms = graph.terms
    error = graph.error + rounding(nodes, terms, f.n)
    for weight, atom in f.terms():
        if isinstance(atom, Modular) and np.frexp(weight)[0] != 0.5:
            error += 2.0**-53 * weight * float(np.abs(atom.t).sum())
    return Pairwise(f.n, graph.edges, graph.weights, -graph.unary, error)


def need_pairwise(f: SubmodularFunction, method: str) -> Pairwise:
    """Return f in normal form; refuse, in the name of a method, what is not pairwise."""
    pairwise = as_pairwise(f)
    if pairwise is None:
        raise NotApplicable(f"{method} needs a pairwise function, got {f!r}")
    return pairwise


def as_grid(f: SubmodularFunction) -> GridForm | None:
    """Return f as a grid, None unless it is a sum of `grid_cuts` of one image and a Modular.

    Cuts with 8 neighbours are no such grid; a chain counts as one row. Elements may be fixed.
    """
    shape: tuple[int, ...] | None = None
    pixels = np.empty(0, dtype=np.int64)
    planes: list[FloatArray] = []
    parts = split(f)
    if parts.other is not None:
        return None
    for weight, cut in parts.cuts:
        if cut.pixels is None:
            return None
        its_shape, offset, its_pixels = cut.pixels
        if len(its_shape) > 2 or sum(map(abs, offset)) != 1:
            return None
        if shape is None:
            shape, pixels = its_shape, its_pixels
            rows, columns = (1, *shape)[-2:]
            planes = [np.zeros((rows, columns)), np.zeros((rows, columns))]
        elif shape != its_shape or not np.array_equal(pixels, its_pixels):
            return None
        # an edge is kept at the first of its two pixels
        flat = planes[offset == (1, 0)].reshape(-1)
        flat[pixels[cut.edges[:, 0]]] += weight * cut.weights
    if shape is None:
        return None
    image = np.zeros(rows * columns)
    if parts.tilt is not None:
        image[pixels] = -parts.tilt
    return GridForm(
        (rows, columns),
        image.reshape(rows, columns),
        np.ascontiguousarray(planes[0][:, :-1]),
        np.ascontiguousarray(planes[1][:-1]),
        pixels,
    )
