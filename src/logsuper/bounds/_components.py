r"""Independent parts: :math:`f(x)=\sum_Cf_C(x_C)`, hence log Z is the sum of those of the parts."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from logsuper._base import EPS, FloatArray, IntArray
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise, pairwise_of, structure_of

# Parts with at least this fraction of the elements are made by conditioning, which keeps a grid a
# grid; smaller parts of a pairwise function are taken from its list of edges.
_LARGE = 1 / 16


def components(f: SubmodularFunction) -> list[IntArray]:
    """Return the elements of each part, in order; a single part if f is not a graph."""
    # slow to import
    from scipy.sparse.csgraph import connected_components

    structure = structure_of(f)
    if structure.graphs is None:
        return [np.arange(f.n)]
    if structure.others:
        graph = f.graph()
        assert graph is not None
        size, edges = f.n + graph.n_aux, graph.edges
    else:
        size, edges = f.n, structure.edges[structure.table[0] > 0]
    links = coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(size, size))
    count, label = connected_components(links, directed=False)
    label = label[: f.n]
    if count == 1:
        return [np.arange(f.n)]
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return sorted((np.sort(part) for part in parts), key=lambda part: int(part[0]))


def restricted(
    f: SubmodularFunction, parts: list[IntArray]
) -> list[tuple[IntArray, SubmodularFunction]]:
    """Return the function of each part of two or more elements, with the elements."""
    several = [part for part in parts if len(part) > 1]
    small = [part for part in several if len(part) < _LARGE * f.n]
    model = pairwise_of(f) if small else None
    pieces = iter(_pieces(model, small) if model else ())
    found = []
    for part in several:
        if model and len(part) < _LARGE * f.n:
            g = next(pieces)
        else:
            others = np.setdiff1d(np.arange(f.n), part)
            g = f.condition(dict.fromkeys(others.tolist(), 0))[0] if len(others) else f
        found.append((part, g))
    return found


def single_elements(f: SubmodularFunction, parts: list[IntArray]) -> tuple[FloatArray, float]:
    """Return log(1 + e^t) of the parts of one element, and a bound on the error of their sum."""
    alone = np.array([part[0] for part in parts if len(part) == 1], dtype=np.int64)
    if not len(alone):
        return np.empty(0), 0.0
    field = -f.gains(np.zeros(f.n))[alone]
    values = np.logaddexp(0.0, field)
    return values, 8.0 * EPS * float((values + np.abs(field)).sum())


def _pieces(model: Pairwise, parts: list[IntArray]) -> list[SubmodularFunction]:
    """Return the functions of some parts of a pairwise one, in one pass over the edges."""
    number = np.full(model.n, -1, dtype=np.int64)
    place = np.empty(model.n, dtype=np.int64)
    for k, part in enumerate(parts):
        number[part], place[part] = k, np.arange(len(part))
    which = number[model.edges[:, 0]]
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(parts) + 1))
    found = []
    for k, part in enumerate(parts):
        mine = order[starts[k] : starts[k + 1]]
        edges = place[model.edges[mine]]
        piece = Pairwise(len(part), edges, model.weights[mine], model.t[part])
        found.append(piece.as_function())
    return found
