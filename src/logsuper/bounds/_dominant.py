r"""Pairwise models with weights so large that float64 sums would lose all other numbers.

An edge is heavy if its weight exceeds twice the sum of n + 50, the sizes of all fields and all
lighter weights: the states in which its ends differ have less than :math:`e^{-50}` of the mass. The
sum over the other states is a lower bound (`contracted`). As log Z decreases in every weight, a
smaller weight gives an upper bound (`capped`). Both bounds hold for any model and lose little here.
"""

from __future__ import annotations

import math

import numpy as np

from logsuper._base import FloatArray, IntArray, add_up
from logsuper.functions import merge_edges
from logsuper.structures import Pairwise

_SPARE = 50.0


def heavy_from(model: Pairwise) -> float:
    """Return the weight above which edges are heavy; infinity if there are none."""
    if not len(model.weights):
        return math.inf
    weights = np.sort(model.weights)
    fields = float(np.abs(_decided(model)[0]).sum())
    before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
    needed = 2.0 * (before + fields + model.n + _SPARE)
    heavy = np.flatnonzero(weights > needed)
    return float(needed[heavy[0]]) if len(heavy) else math.inf


def contracted(model: Pairwise) -> tuple[Pairwise, IntArray]:
    """Return the model in which heavy edges are contracted, and the new number of each element.

    Its log Z is at most that of the model.
    """
    # slow to import and rarely needed
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    heavy = model.weights > heavy_from(model)
    if not heavy.any():
        return model, np.arange(model.n)
    ends = tuple(model.edges[heavy].T)
    links = coo_array((np.ones(int(heavy.sum())), ends), shape=(model.n, model.n))
    n, label = connected_components(links, directed=False)
    order = np.argsort(label, kind="stable")
    members = np.split(model.t[order], np.cumsum(np.bincount(label))[:-1])
    t = np.array([math.fsum(fields) for fields in members])
    # fsum has an error of half a unit in the last place, and is exact for a single number
    rounded = np.array([len(fields) > 1 for fields in members])
    error = model.error + float((2.0**-53 * np.abs(t))[rounded].sum())
    between = label[model.edges]
    apart = between[:, 0] != between[:, 1]
    edges, weights, _ = merge_edges(between[apart], model.weights[apart], n)
    # a sum of k positive numbers has the relative error of k - 1 roundings
    low, high = np.sort(between[apart], axis=1).T
    most = np.unique(low * np.int64(n) + high, return_counts=True)[1].max(initial=1)
    relative = model.relative + 2.0**-52 * int(most)
    return Pairwise(n, edges, weights, t, error, relative), label


def capped(model: Pairwise) -> tuple[Pairwise, FloatArray]:
    r"""Return a model with moderate numbers, and numbers to add to its log Z.

    The sum is at least log Z of the model: with a smaller field :math:`t_i'<t_i`,
    :math:`\log Z(t)\le\log Z(t')+t_i-t_i'`, and with a larger one :math:`\log Z(t)\le\log Z(t')`.
    """
    t, constant = _decided(model)
    weights = np.minimum(model.weights, heavy_from(model))
    return Pairwise(model.n, model.edges, weights, t, model.error, model.relative), constant


def _decided(model: Pairwise) -> tuple[FloatArray, FloatArray]:
    """Return fields clipped to the range that neighbours can outweigh, and the clipped amounts."""
    with np.errstate(over="ignore"):
        most = _SPARE + 2.0 * add_up(model.edges.ravel(), np.repeat(model.weights, 2), model.n)
    if not np.isfinite(most).all():
        raise ValueError("the weights of the edges are so large that their sums overflow; rescale")
    t = np.clip(model.t, -most, most)
    above = model.t > t
    return t, np.concatenate([model.t[above], -t[above]])
