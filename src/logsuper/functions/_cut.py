"""Graph cut functions: the total weight of the edges whose ends disagree."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from logsuper._base import (
    FloatArray,
    IntArray,
    add_up,
    as_indices,
    as_vector,
    check_size,
    first_appearances,
    first_index,
    frozen,
    places_of,
)
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._graph import PairwiseGraph
from logsuper.functions._modular import Modular
from logsuper.functions._sum import combine
from logsuper.functions._walks import Groups, Pieces, Walk


class Cut(SubmodularFunction):
    r"""The cut function of an undirected graph, :math:`f(x)=\sum_{(i,j)}w_{ij}|x_i-x_j|`.

    Every pairwise submodular function is the sum of a `Cut` and a `Modular`.  For directed graphs
    use `Cut.directed`, for images and volumes `grid_cuts`.

    Parameters
    ----------
    n : int
        Number of elements.
    edges : array-like of shape (E, 2)
        Pairs of distinct elements in any order.  A pair given twice becomes one edge with the sum
        of the weights; otherwise the order of the edges is kept.
    weights : float or array-like of shape (E,), default 1.0
        Non-negative: a negative weight would be repulsive, hence not submodular.

    Attributes
    ----------
    n : int
    edges : ndarray of shape (E, 2), int64
        Each with ``i < j``, without duplicates.
    weights : ndarray of shape (E,), float64
    shape : tuple of int or None
        Shape of the grid, for a cut made by `grid_cuts`.
    offset : tuple of int or None
        Offset from the first end of an edge to the second, for a cut made by `grid_cuts`.

    Examples
    --------
    >>> from logsuper.functions import Cut
    >>> f = Cut(3, [(0, 1), (1, 2)], weights=[1.0, 3.0])
    >>> f([[0, 0, 1], [1, 1, 1]])
    array([3., 0.])
    >>> f.gains([0, 0, 1])
    array([ 1., -2.,  3.])
    >>> g, constant = f.condition({1: 1})
    >>> g, constant
    (Modular(n=2), 4.0)
    """

    edges: IntArray
    shape: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None
    # set by conditioning, so that the remaining part of a grid is still recognised as a grid
    _origin: tuple[Cut, IntArray] | None = None

    def __init__(self, n: int, edges: ArrayLike, weights: ArrayLike = 1.0) -> None:
        self.n = check_size(n)
        pairs = _as_pairs(edges, self.n)
        values = _as_weights(weights, pairs)
        low, high = np.sort(pairs, axis=1).T
        first, place = first_appearances(low * np.int64(self.n) + high)
        self.edges = frozen(np.stack([low[first], high[first]], axis=1))
        self.weights = frozen(add_up(place, values, len(first)))

    @classmethod
    def directed(cls, n: int, arcs: ArrayLike, weights: ArrayLike = 1.0) -> SubmodularFunction:
        r"""Return :math:`\sum_{(i,j)}w_{ij}x_i(1-x_j)` as the sum of a `Cut` and a `Modular`.

        Parameters
        ----------
        n : int
        arcs : array-like of shape (E, 2)
            Arc (i, j) costs its weight when :math:`x_i=1` and :math:`x_j=0`.
        weights : float or array-like of shape (E,), default 1.0

        Examples
        --------
        >>> from logsuper.functions import Cut
        >>> f = Cut.directed(2, [(0, 1)], weights=3.0)
        >>> f([[1, 0], [0, 1], [1, 1]])
        array([3., 0., 0.])
        """
        size = check_size(n)
        pairs = _as_pairs(arcs, size)
        half = _as_weights(weights, pairs) / 2.0
        tilt = add_up(pairs[:, 0], half, size) - add_up(pairs[:, 1], half, size)
        return combine([(1.0, Cut(size, pairs, half)), (1.0, Modular(tilt))])

    @property
    def origin(self) -> tuple[Cut, IntArray | None]:
        """The cut before conditioning, and the elements of it that are free (None for all)."""
        return (self, None) if self._origin is None else self._origin

    def with_weights(self, weights: ArrayLike) -> Cut:
        """Return a cut with the same edges, in the same order, and new weights.

        Parameters
        ----------
        weights : float or array-like of shape (E,)
            In the order of `edges`; for instance the contrast-sensitive weights of an image.
        """
        other = self._copy()
        other.weights = frozen(_as_weights(weights, self.edges))
        return other

    def _copy(self) -> Self:
        """Return a copy without the cached structure, which depends on the weights."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("_structure", None)
        return other

    # All methods below use these two, which the subclass for grids overrides by slicing.

    def _gather(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the entries of X (M, n) at the first and at the second end of each edge."""
        return X[:, self.edges[:, 0]], X[:, self.edges[:, 1]]

    def _scatter(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Sum, at each element, the numbers at its ends of edges: the adjoint of `_gather`."""
        ends = self._incidence
        return np.asarray(first @ ends[0] + second @ ends[1])

    @cached_property
    def _incidence(self) -> tuple[csr_array, csr_array]:
        count = len(self.edges)
        one, rows = np.ones(count), np.arange(count)
        shape = (count, self.n)
        i, j = self.edges.T
        return csr_array((one, (rows, i)), shape=shape), csr_array((one, (rows, j)), shape=shape)

    def _evaluate(self, X: FloatArray) -> FloatArray:
        first, second = self._gather(X)
        return np.asarray(np.abs(first - second) @ self.weights)

    def _lovasz(self, W: FloatArray) -> FloatArray:
        return self._evaluate(W)

    def _gains(self, X: FloatArray) -> FloatArray:
        first, second = self._gather(1.0 - 2.0 * X)
        return self._scatter(second * self.weights, first * self.weights)

    def _greedy(self, W: FloatArray) -> FloatArray:
        # the end that enters first adds the weight, the other removes it; ties in order of index
        first, second = self._gather(W)
        paid = np.where(first >= second, self.weights, -self.weights)
        return self._scatter(paid, -paid)

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = self._gather(Q)
        apart = first * (1.0 - second) + second * (1.0 - first)
        return np.asarray(apart @ self.weights), self._gains(Q)  # the gains are linear in x

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        place = places_of(free, self.n)
        i, j = self.edges.T
        inside = (place[i] >= 0) & (place[j] >= 0)
        # an edge to a fixed element is w a + w (1 - 2a) x
        tilt = np.zeros(len(free))
        for here, there in ((i, j), (j, i)):
            border = (place[here] >= 0) & (place[there] < 0)
            pull = self.weights[border] * (1.0 - 2.0 * point[there[border]])
            tilt += add_up(place[here[border]], pull, len(free))
        parts: list[tuple[float, SubmodularFunction]] = [(1.0, Modular(tilt))]
        if inside.any():
            rest = Cut(len(free), place[self.edges[inside]], self.weights[inside])
            root, left = self.origin
            rest._origin = (root, frozen(free if left is None else left[free]))
            parts.insert(0, (1.0, rest))
        return combine(parts)

    def _walks(self) -> list[tuple[float, Walk]]:
        # an edge is a group of two elements that costs its weight if exactly one of them is on
        count = len(self.weights)
        group, member = np.repeat(np.arange(count), 2), self.edges.ravel()
        values = np.zeros((count, 3))
        values[:, 1] = self.weights
        pieces = Pieces.stack(np.tile([0.0, 1.0, 2.0], (count, 1)), values)

        def profile(V: FloatArray, edge: IntArray) -> FloatArray:
            return np.asarray(self.weights[edge] * (V == 1.0))

        return [(1.0, Groups(self.n, group, member, np.ones(2 * count), count, profile, pieces))]

    def _row_size(self) -> int:
        return max(self.n, len(self.weights))

    def graph(self) -> PairwiseGraph:
        """Return the graph of this cut, without the edges of weight 0."""
        keep = self.weights > 0
        edges, weights = frozen(self.edges[keep]), frozen(self.weights[keep])
        return PairwiseGraph(self.n, 0, edges, weights, frozen(np.zeros(self.n)))

    def __repr__(self) -> str:
        return f"Cut(n={self.n}, edges={len(self.weights)})"


def _as_pairs(edges: ArrayLike, n: int) -> IntArray:
    pairs = as_indices(edges, n, "edges")
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must have shape (E, 2), got {pairs.shape}")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        [e] = first_index(loops)
        raise ValueError(f"edges[{e}] joins element {pairs[e, 0]} to itself; remove it")
    return pairs


def _as_weights(weights: ArrayLike, pairs: IntArray) -> FloatArray:
    values = as_vector(weights, "weights", len(pairs))
    negative = values < 0
    if negative.any():
        [e] = first_index(negative)
        raise ValueError(
            f"weights[{e}] = {values[e]:g} is negative: the edge ({pairs[e, 0]}, {pairs[e, 1]}) "
            "would be repulsive, which is not submodular"
        )
    return values
