r"""Total-variation denoising as a layer, with its gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from logsuper._base import FloatArray
from logsuper.functions import Cut
from logsuper.learning._cut_batch import CutBatch
from logsuper.solvers import Prepared, min_norm_point

__all__ = ["TotalVariation", "total_variation"]


@dataclasses.dataclass(frozen=True, eq=False)
class TotalVariation:
    """The total-variation denoising of some fields.

    Attributes
    ----------
    values : ndarray of the shape of theta
        Constant on regions; equal values are exactly equal.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import total_variation
    >>> total_variation(np.array([0.0, 1.0, 5.0]), np.ones(2), shape=(1, 3)).values
    array([1., 1., 4.])
    """

    values: FloatArray
    _batch: CutBatch

    def pull_back(self, gradient: ArrayLike) -> tuple[FloatArray, FloatArray]:
        r"""Return the gradients in theta and in the edge weights of a function of `values`.

        On a region A, a connected set of equal values, the value is the mean of theta over A less
        :math:`\frac1{|A|}\sum_ew_e\operatorname{sign}(x_i-x_j)` over the edges that leave it. So
        the Jacobian in theta averages over regions, and an edge between two of them has the
        derivative :math:`-\operatorname{sign}(x_i-x_j)(\bar g_i-\bar g_j)`, with the averages
        :math:`\bar g` of the gradient. Both hold wherever the regions do not change, which is
        everywhere but on a set of measure 0.

        Parameters
        ----------
        gradient : array-like of the shape of theta

        Returns
        -------
        d_theta : ndarray of the shape of theta
        d_edge_weights : ndarray of shape (E,) or (M, E)
        """
        batch = self._batch
        g, x = batch.read_gradient(gradient), self.values.reshape(batch.theta.shape)
        i, j = batch.edges.T
        fused = (x[:, i] == x[:, j]) & (batch.base * batch.edge_weights > 0)
        row, edge = np.nonzero(fused)
        start = row * batch.n
        first, second = start + i[edge], start + j[edge]
        links = coo_array((np.ones(len(row)), (first, second)), shape=(x.size, x.size))
        _, region = connected_components(links, directed=False)
        averages = np.bincount(region, g.ravel()) / np.bincount(region)
        mean = averages[region].reshape(x.shape)
        slope = -np.sign(x[:, i] - x[:, j]) * (mean[:, i] - mean[:, j])
        return batch.per_node(mean), batch.per_edge(batch.base * slope)


def total_variation(
    theta: ArrayLike,
    edge_weights: ArrayLike,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_jobs: int | None = None,
) -> TotalVariation:
    r"""Denoise fields by total variation, exactly, with one weight per edge.

    .. math:: x(\theta,w)=\operatorname{argmin}_x\tfrac12\|x-\theta\|^2+\sum_ew_e|x_i-x_j|

    This is minus the min-norm point of the cut (`logsuper.min_norm_point`): its sign is the
    maximiser of :math:`\theta^\top y-f_w(y)`, its levels those for all other thresholds. As a layer
    it is the continuous relative of a cut, with an exact gradient.

    Parameters
    ----------
    theta, edge_weights, structure, shape, neighbors, n_jobs
        As in `perturbed_loss`.

    Returns
    -------
    TotalVariation
        With ``values``, and ``pull_back`` for gradients.

    Examples
    --------
    >>> from logsuper.learning import total_variation
    >>> found = total_variation([2.0, 0.0, 0.5], [1.0, 1.0], shape=(3,))
    >>> found.values
    array([1.  , 0.75, 0.75])
    >>> found.pull_back([0.0, 1.0, 0.0])
    (array([0. , 0.5, 0.5]), array([ 0.5, -0. ]))
    """
    batch = CutBatch.of(theta, edge_weights, structure, shape, neighbors)
    values = batch.per_node(-_points(batch, n_jobs))
    return TotalVariation(values, batch.without_solver())


def _points(batch: CutBatch, n_jobs: int | None) -> FloatArray:
    """Return the min-norm points (M, n), in one call of the solver."""
    edges, n = batch.edges, batch.n
    weights = batch.base * batch.edge_weights
    if (weights == weights[:1]).all():
        return np.asarray(min_norm_point(Cut(n, edges, weights[0]), batch.theta, n_jobs).s)
    # problems with weights of their own are the parts of one graph
    problems = np.arange(len(weights))
    every = (edges[None] + n * problems[:, None, None]).reshape(-1, 2)
    union = Cut(batch.theta.size, every, weights.ravel())
    return np.asarray(min_norm_point(union, batch.theta.ravel(), n_jobs).s).reshape(-1, n)
