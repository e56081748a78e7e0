r"""The structure of functions :math:`f_1,\dots,f_K`, found once and cached on the functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from logsuper._base import FloatArray, IntArray, first_appearances
from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Cut,
    Modular,
    PairwiseGraph,
    SubmodularFunction,
    Sum,
)
from logsuper.structures._grid import Grid, Image, find_grid
from logsuper.structures._pairwise import Pairs, Pairwise, find_pairwise

KINDS = ("modular", "counts", "grid", "pairwise", "graph", "opaque")
"""The kinds of structure, the most special first."""

Counted = tuple[IntArray, FloatArray]
"""A set of m elements, and the values (K, m + 1) of all functions at 0 to m ones in it."""


class Structure:
    r"""The structure of functions :math:`f_1,\dots,f_K` over the same n elements.

    ============== ====================================================================
    ``kind``       all functions are
    ============== ====================================================================
    "modular"      modular
    "counts"       sums of modular functions and of functions of counts over disjoint sets
    "grid"         sums of modular functions and of cuts on one regular grid
    "pairwise"     sums of modular functions and of cuts (or functions equal to a cut)
    "graph"        sums of minima of pairwise functions over auxiliary nodes
    "opaque"       known only through their values
    ============== ====================================================================

    Use `find_structure` to get one. Attributes are computed on first use.

    Attributes
    ----------
    n : int
    cuts : list of (int, float, Cut)
        Index of the function, factor, cut.
    tilts : dict of int to ndarray of shape (n,)
        The modular terms of each function that has any.
    others : list of (int, SubmodularFunction)
        Index of a function, and the sum of its other terms.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.structures import find_structure
    >>> find_structure(ls.grid_cuts((3, 4))).kind
    'grid'
    >>> find_structure([ls.Cut(6, [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5)])]).grid.shape
    (1, 2, 3)
    """

    def __init__(self, functions: Sequence[SubmodularFunction]) -> None:
        # a weak reference to a single function: the structure is cached on that function
        self._functions: tuple[Callable[[], SubmodularFunction | None], ...]
        if len(functions) == 1:
            self._functions = (weakref.ref(functions[0]),)
        else:
            self._functions = tuple(partial(_same, f) for f in functions)
        self.n = functions[0].n
        self.cuts: list[tuple[int, float, Cut]] = []
        self.tilts: dict[int, FloatArray] = {}
        self.others: list[tuple[int, SubmodularFunction]] = []
        for k, f in enumerate(functions):
            rest: list[tuple[float, SubmodularFunction]] = []
            for weight, term in f.terms():
                atom = _apart(term) if term is f and len(functions) == 1 else term
                if isinstance(atom, Modular):
                    tilt = weight * atom.t
                    self.tilts[k] = self.tilts[k] + tilt if k in self.tilts else tilt
                elif isinstance(atom, Cut):
                    self.cuts.append((k, weight, atom))
                else:
                    rest.append((weight, atom))
            if rest:
                self.others.append((k, Sum(rest)))

    @property
    def functions(self) -> tuple[SubmodularFunction, ...]:
        """The functions, as long as they are referenced elsewhere."""
        return tuple(f for f in (reference() for reference in self._functions) if f is not None)

    @property
    def count(self) -> int:
        """Number K of functions."""
        return len(self._functions)

    @cached_property
    def kind(self) -> str:
        """One of `KINDS`."""
        if not self.cuts and not self.others:
            return "modular"
        if self.counts is not None:
            return "counts"
        if self.grid is not None:
            return "grid"
        if self.pairwise is not None:
            return "pairwise"
        return "opaque" if self.graphs is None else "graph"

    # ------------------------------------------------------------------------------- pairwise

    @cached_property
    def grid(self) -> Grid | None:
        """The regular grid on which all functions lie, or None."""
        return None if self.others else find_grid(self.n, self.cuts)

    @cached_property
    def image_shape(self) -> tuple[int, int] | None:
        """Rows and columns of the image whose 4-neighbour grid contains all edges, or None.

        Edges between successive elements make an image of one row.
        """
        if self.grid is not None:
            return self.grid.shape[1:] if self.grid.is_image else None
        chain = bool(self.cuts) and not self.others
        return (1, self.n) if chain and (np.diff(self.edges, axis=1) == 1).all() else None

    @property
    def is_whole(self) -> bool:
        """Whether there is no grid, or every pixel of the grid is an element."""
        return self.grid is None or self.grid.pixels is None

    @cached_property
    def image(self) -> Image | None:
        """The sum of the functions on the 4-neighbour grid of an image, or None."""
        few = bool(self.others) and self.count == 1 and self.counts is None
        if few and self.pairwise is not None:
            # the other terms are equal to pairwise functions
            [form] = self.pairwise
            grid = find_grid(self.n, [(0, 1.0, Cut(self.n, form.edges, form.weights))])
            if grid is not None and grid.is_image:
                return Image.lay(grid.shape[1:], form.edges, form.weights, form.t)
        if self.grid is None or self.image_shape is None:
            return None
        return Image.lay(self.image_shape, *self.listed, self.field, self.grid.pixels)

    @property
    def field(self) -> FloatArray:
        """The sum t of all modular terms -t'x."""
        return -sum(self.tilts.values(), np.zeros(self.n))

    @property
    def listed(self) -> tuple[IntArray, FloatArray]:
        """The concatenated edges of all cuts, with repetitions, and their weights."""
        edges = [np.empty((0, 2), dtype=np.int64), *(cut.edges for _, _, cut in self.cuts)]
        weights = [np.empty(0), *(factor * cut.weights for _, factor, cut in self.cuts)]
        return np.concatenate(edges), np.concatenate(weights)

    @cached_property
    def pairwise(self) -> tuple[Pairwise, ...] | None:
        """The normal form of each function, or None if one of them is not pairwise."""
        if self.graphs is None or any(graph.n_aux for _, graph in self.graphs):
            return None
        if self.count > 1:
            forms = [structure_of(f).pairwise for f in self.functions]
            return tuple(form[0] for form in forms if form is not None)
        found = find_pairwise(self.functions[0])
        assert found is not None
        return (found,)

    @cached_property
    def pairs(self) -> Pairs | None:
        """The normal forms of all functions on common edges, or None if one is not pairwise."""
        forms = self.pairwise
        return None if forms is None else Pairs.of(self.n, forms, self.edges)

    # --------------------------------------------------------------------------------- graphs

    @cached_property
    def graphs(self) -> list[tuple[int, PairwiseGraph]] | None:
        """The graphs of the `others`, or None if one of them has no graph."""
        found = [(k, f.graph()) for k, f in self.others]
        known = [(k, graph) for k, graph in found if graph is not None]
        return known if len(known) == len(found) else None

    @cached_property
    def _union(self) -> tuple[IntArray, IntArray]:
        return union_of_edges(self.n, self.cuts)

    @property
    def edges(self) -> IntArray:
        """The edges (E, 2) of all cuts in order of first appearance."""
        return self._union[0]

    @cached_property
    def cut_places(self) -> list[IntArray]:
        """Return the places of the edges of each of the `cuts` among `edges`."""
        sizes = [len(cut.weights) for _, _, cut in self.cuts]
        return np.split(self._union[1], np.cumsum(sizes, dtype=np.int64))[:-1]

    @cached_property
    def table(self) -> FloatArray:
        """The weights (K, E) of the cuts of each function on `edges`."""
        table = np.zeros((self.count, len(self.edges)))
        for (k, factor, cut), place in zip(self.cuts, self.cut_places, strict=True):
            np.add.at(table[k], place, factor * cut.weights)
        return table

    def combine(
        self, alpha: FloatArray, factors: FloatArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        r"""Return `edges` and the weights (P, E) of the cuts of :math:`\sum_k\alpha_kf_k`.

        `alpha` is (1 or M, K), `factors` on the edges (1 or M, 1 or K, E).
        """
        weights = np.zeros(
            (max(len(alpha), 1 if factors is None else len(factors)), len(self.edges))
        )
        for k, own in enumerate(self.table):
            more = 1.0 if factors is None else factors[:, min(k, factors.shape[1] - 1)]
            weights += alpha[:, k, None] * own * more
        return np.ascontiguousarray(self.edges), weights

    @cached_property
    def lists(self) -> EdgeLists | None:
        """The functions as lists of edges, or None if one of them has no graph."""
        if self.graphs is None:
            return None
        cuts = self.cuts
        return make_lists(self.n, self.count, cuts, *self._union, self.graphs)

    # --------------------------------------------------------------------------------- counts

    @cached_property
    def counts(self) -> list[Counted] | None:
        """Disjoint sets and the functions of their counts; None if there are other terms."""
        if self.cuts:
            return None
        tables: dict[bytes, Counted] = {}
        for k, other in self.others:
            for weight, atom in other.terms():
                found = counted(atom)
                if found is None:
                    return None
                members, g = found
                key = np.asarray(members, dtype=np.int64).tobytes()
                if key not in tables:
                    tables[key] = members, np.zeros((self.count, len(g)))
                tables[key][1][k] += weight * g
        times = np.zeros(self.n, dtype=np.int64)
        for members, _ in tables.values():
            times[members] += 1
        return None if (times > 1).any() else list(tables.values())


def _same(f: SubmodularFunction) -> SubmodularFunction:
    return f


def counted(atom: SubmodularFunction) -> tuple[IntArray, FloatArray] | None:
    """Return the elements whose count f depends on, and f at counts 0, 1, ...; else None."""
    if isinstance(atom, ConcaveCardinality):
        return atom.subset, atom.g
    if isinstance(atom, ConcaveOfModular):
        members = np.flatnonzero(atom.weights)
        weights = atom.weights[members]
        if len(members) == 0 or (weights == weights[0]).all():
            step = weights[0] if len(members) else 0.0
            return members, atom.g(step * np.arange(len(members) + 1.0))
    return None


def _apart(f: SubmodularFunction) -> SubmodularFunction:
    """Return a copy of a function without its cached structure.

    A structure that held the function it is cached on would be a cycle: its graph would stay in
    memory until the next full garbage collection.
    """
    if not type(f).__module__.startswith("logsuper."):  # what others own is not copied
        return f
    other = object.__new__(type(f))
    other.__dict__.update(vars(f))
    other.__dict__.pop("_structure", None)
    return other


def find_structure(functions: Iterable[SubmodularFunction]) -> Structure:
    """Return the structure of functions over the same elements.

    The structure of a single function is cached on it, as functions are immutable.
    """
    listed = tuple(functions)
    return structure_of(listed[0]) if len(listed) == 1 else Structure(listed)


def structure_of(f: SubmodularFunction) -> Structure:
    """Return the structure of one function, cached on the function."""
    kept = getattr(f, "__dict__", {})
    found: Structure | None = kept.get("_structure")
    if found is None:
        found = kept["_structure"] = Structure((f,))
    return found


def pairwise_of(f: SubmodularFunction) -> Pairwise | None:
    """Return the normal form of a function, or None if it is not pairwise."""
    found = structure_of(f).pairwise
    return None if found is None else found[0]


def image_of(f: SubmodularFunction) -> Image | None:
    """Return f as a function on a 4-neighbour image grid, or None if it is not one."""
    return structure_of(f).image


WeightedCut = tuple[int, float, Cut]


class EdgeLists(NamedTuple):
    """Edges of the cuts of K functions first, then those of auxiliary constructions.

    Attributes
    ----------
    n_aux : int
        Number of auxiliary nodes, which follow the n elements.
    edges : ndarray of shape (E, 2)
    starts, places, weights : ndarray
        Kernel function k has weight ``weights[t]`` on edge ``places[t]`` for
        ``starts[k] <= t < starts[k + 1]``. The cuts of the K functions come first, then one kernel
        function per function with auxiliary nodes.
    aux_of : list of int
        Index of the function that each of the latter belongs to.
    aux_unary : ndarray of shape (len(aux_of), n + n_aux)
    aux_constant : ndarray of shape (len(aux_of),)
    """

    n_aux: int
    edges: IntArray
    starts: IntArray
    places: IntArray
    weights: FloatArray
    aux_of: list[int]
    aux_unary: FloatArray
    aux_constant: FloatArray


def union_of_edges(n: int, cuts: Sequence[WeightedCut]) -> tuple[IntArray, IntArray]:
    """Return the distinct edges of all cuts, by first appearance, and the index of each edge."""
    every = [cut.edges for _, _, cut in cuts]
    if (found := _union_of_steps(every)) is not None:
        return found
    stacked = np.concatenate([np.empty((0, 2), dtype=np.int64), *every])
    first, place = first_appearances(stacked[:, 0] * np.int64(max(n, 1)) + stacked[:, 1])
    return stacked[first], place


def _union_of_steps(every: Sequence[IntArray]) -> tuple[IntArray, IntArray] | None:
    """Return the same without sorting, or None if the cuts are not those of steps on a grid.

    Edges of a step have one difference of their ends, and first ends that increase: cuts of
    different differences have no edge in common.
    """
    distinct: dict[int, tuple[IntArray, IntArray]] = {}
    places, count = [], 0
    for edges in every:
        first, step = edges[:, 0], edges[:, 1] - edges[:, 0]
        if not len(edges) or (step != step[0]).any() or (first[1:] <= first[:-1]).any():
            return None
        known, place = distinct.get(int(step[0]), (None, None))
        if known is None:
            place = np.arange(count, count + len(edges), dtype=np.int64)
            distinct[int(step[0])] = edges, place
            count += len(edges)
        elif not np.array_equal(known, edges):
            return None
        assert place is not None
        places.append(place)
    if not places:
        return None
    return np.concatenate([edges for edges, _ in distinct.values()]), np.concatenate(places)


def make_lists(
    n: int,
    k: int,
    cuts: Sequence[WeightedCut],
    edges: IntArray,
    place: IntArray,
    graphs: Sequence[tuple[int, PairwiseGraph]],
) -> EdgeLists:
    """Return the cuts of k functions, whose edges are ``edges[place]``, and graphs as lists."""
    sizes = np.zeros(k, dtype=np.int64)
    for number, _, cut in cuts:
        sizes[number] += len(cut.weights)
    counts = sizes.tolist()
    places, weights = [place], [factor * cut.weights for _, factor, cut in cuts]
    n_aux = sum(graph.n_aux for _, graph in graphs)
    unary = np.zeros((len(graphs), n + n_aux))
    every, node, edge = [edges], n, len(edges)
    for row, (_, graph) in enumerate(graphs):
        unary[row, :n] = graph.unary[:n]
        unary[row, node : node + graph.n_aux] = graph.unary[n:]
        every.append(np.where(graph.edges < n, graph.edges, graph.edges + (node - n)))
        places.append(np.arange(edge, edge + len(graph.edges)))
        weights.append(graph.weights)
        counts.append(len(graph.edges))
        node += graph.n_aux
        edge += len(graph.edges)
    return EdgeLists(
        n_aux=n_aux,
        edges=np.ascontiguousarray(np.concatenate(every)),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        places=np.concatenate(places).astype(np.int64),
        weights=np.concatenate([np.empty(0), *weights]).astype(np.float64),
        aux_of=[number for number, _ in graphs],
        aux_unary=unary,
        aux_constant=np.array([graph.constant for _, graph in graphs], dtype=np.float64),
    )
