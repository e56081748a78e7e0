"""General graphs as lists of edges, the input of the kernels for sparse and dense graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from logsuper._base import FloatArray, IntArray, first_appearances
from logsuper.functions import Cut, PairwiseGraph

WeightedCut = tuple[int, float, Cut]


class EdgeLists(NamedTuple):
    """Edges of the cuts of K functions first, then those of auxiliary constructions.

    Attributes
    ----------
    n_aux : int
        Number of auxiliary nodes, which follow the n elements.
    edges : ndarray of shape (E, 2)
    n_cut_edges : int
        Number of edges that belong to cuts; these come first.
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
    n_cut_edges: int
    starts: IntArray
    places: IntArray
    weights: FloatArray
    aux_of: list[int]
    aux_unary: FloatArray
    aux_constant: FloatArray


def union_of_edges(n: int, cuts: Sequence[WeightedCut]) -> tuple[IntArray, IntArray]:
    """Return the distinct edges of all cuts, by first appearance, and the index of each edge."""
    every = [cut.edges for _, _, cut in cuts]
    stacked = np.concatenate([np.empty((0, 2), dtype=np.int64), *every])
    first, place = first_appearances(stacked[:, 0] * np.int64(max(n, 1)) + stacked[:, 1])
    return stacked[first], place


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
        n_cut_edges=len(edges),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        places=np.concatenate(places).astype(np.int64),
        weights=np.concatenate([np.empty(0), *weights]).astype(np.float64),
        aux_of=[number for number, _ in graphs],
        aux_unary=unary,
        aux_constant=np.array([graph.constant for _, graph in graphs], dtype=np.float64),
    )
