"""Two clouds of points in the plane, joined to a complete graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from logsuper._base import FloatArray, Seed, as_generator, check_natural, check_number
from logsuper.functions import Cut

# The graph is complete: 2000 points in each cluster are 8 million edges.
_MOST_POINTS = 2000


class MixtureGraph(NamedTuple):
    """Points of two clusters, and the cut of the complete graph on them.

    Attributes
    ----------
    points : ndarray of shape (2 * points, 2)
        The first half belongs to one cluster, the second to the other.
    labels : ndarray of shape (2 * points,), uint8
        1 in the first cluster, 0 in the second.
    cut : Cut

    Examples
    --------
    >>> import logsuper as ls
    >>> graph = ls.gaussian_mixture_graph(points=10, seed=0)
    >>> graph.points.shape, int(graph.labels.sum()), graph.cut
    ((20, 2), 10, Cut(n=20, edges=190))
    """

    points: FloatArray
    labels: NDArray[np.uint8]
    cut: Cut


def gaussian_mixture_graph(
    points: int = 50, decay: float = 1.0, separation: float = 6.0, seed: Seed = 0
) -> MixtureGraph:
    r"""Draw two clusters of points and weigh each pair by how near they are.

    The data on which Djolonga and Krause (2014) and, in section 3.3, Shpakova and Bach (2016)
    compare bounds. The two centres are drawn from :math:`N((3, 3), I)` and :math:`N((-3, -3), I)`,
    the points of a cluster from :math:`N(\mathrm{centre}, I)`; the edge between x and y has the
    weight :math:`e^{-c\|x-y\|}`.

    Parameters
    ----------
    points : int, default 50
        In each cluster, from 1 to 2000.
    decay : float, default 1.0
        The rate c >= 0. It does not change the points.
    separation : float, default 6.0
        Distance >= 0 between the expected centres along each of the two axes.
    seed : int, Generator or None, default 0
        The same integer gives the same points.

    Returns
    -------
    MixtureGraph
        With ``points``, ``labels`` (1 in the first cluster) and ``cut``.

    References
    ----------
    .. [1] J. Djolonga and A. Krause. From MAP to marginals: variational inference in Bayesian
       submodular models. Advances in Neural Information Processing Systems, 2014.
    .. [2] T. Shpakova and F. Bach. Parameter learning for log-supermodular distributions. Advances
       in Neural Information Processing Systems, 2016.

    Examples
    --------
    >>> from logsuper.datasets import gaussian_mixture_graph
    >>> points, labels, cut = gaussian_mixture_graph(points=20, decay=3.0, seed=0)
    >>> points.shape, int(labels.sum()), cut
    ((40, 2), 20, Cut(n=40, edges=780))
    >>> cut(labels) < cut([1] * 10 + [0] * 30)  # the gap is where to cut
    True
    """
    each = check_natural(points, "points")
    if not 1 <= each <= _MOST_POINTS:
        raise ValueError(
            f"points must be from 1 to {_MOST_POINTS} in a cluster, got {each}: the graph is "
            "complete"
        )
    rate, apart = check_number(decay, "decay"), check_number(separation, "separation")
    for name, value in (("decay", rate), ("separation", apart)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, got {value:g}")
    rng = as_generator(seed)
    centres = np.array([[apart / 2], [-apart / 2]]) + rng.normal(size=(2, 2))
    where = (centres[:, None, :] + rng.normal(size=(2, each, 2))).reshape(2 * each, 2)
    pairs = np.stack(np.triu_indices(2 * each, 1), axis=1)
    labels = np.repeat(np.array([1, 0], dtype=np.uint8), each)
    with np.errstate(over="ignore"):  # an infinite exponent is a weight of 0
        weights = np.exp(-rate * pdist(where))
    return MixtureGraph(where, labels, Cut(2 * each, pairs, weights))
