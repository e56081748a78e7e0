r"""Layers over cuts: Fenchel-Young losses, smooth means, total variation, with their gradients.

Losses and means are those of perturbed cuts.

With noise z of mean 0 (logistic here, as everywhere in this library) and scale :math:`\sigma`,

.. math:: F(\theta,w)=\mathbb{E}\max_y\ (\theta+\sigma z)^\top y-f_w(y),\qquad
          f_w(y)=\sum_ew_e|y_i-y_j|,

is convex in :math:`(\theta,w)`, with the mean maximiser :math:`\mathbb{E}y^*` as its gradient in
:math:`\theta` and :math:`-\mathbb{E}|y^*_i-y^*_j|` in the weight of an edge
(Q. Berthet, M. Blondel, O. Teboul, M. Cuturi, J.-P. Vert and F. Bach, "Learning with differentiable
perturbed optimizers", 2020, proposition 2.2 and section 4.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from logsuper._base import FloatArray, Seed
from logsuper.functions import Cut
from logsuper.learning._cut_batch import CutBatch, Draws
from logsuper.solvers import Prepared, min_norm_point


class PerturbedLoss(NamedTuple):
    """The loss of each problem, and its gradients.

    Attributes
    ----------
    loss : float or ndarray of shape (M,)
    d_theta : ndarray of the shape of theta
    d_edge_weights : ndarray of shape (E,) or (M, E)
        One row per problem, even if all problems share their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import perturbed_loss
    >>> found = perturbed_loss(np.zeros((2, 3)), np.ones(2), np.ones((2, 3)), shape=(1, 3), seed=0)
    >>> found.loss.shape, found.d_theta.shape, found.d_edge_weights.shape
    ((2,), (2, 3), (2, 2))
    """

    loss: Any
    d_theta: FloatArray
    d_edge_weights: FloatArray


def perturbed_loss(
    theta: ArrayLike,
    edge_weights: ArrayLike,
    y: ArrayLike,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_samples: int = 16,
    sigma: float = 1.0,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> PerturbedLoss:
    r"""Return the Fenchel-Young loss of perturbed cuts, and its gradients.

    .. math:: L(\theta,w;y)=\frac1S\sum_s\Big(\max_{y'}\ (\theta+\sigma z_s)^\top y'-f_w(y')\Big)
              -\Big((\theta+\sigma z_s)^\top y-f_w(y)\Big)

    The last noise term has mean 0. It makes the loss at least 0 for every draw, and 0 where y is
    the maximiser of all S perturbed problems. The gradients are
    :math:`\frac1S\sum_sy^*_s-y` in theta and :math:`|y_i-y_j|-\frac1S\sum_s|y^*_{si}-y^*_{sj}|` in
    the weight of an edge: exact subgradients of the loss for its noise. It is convex. Where labels
    are missing, the second maximum is taken over what the labels leave free, with the same noise;
    the loss is then a difference of two convex functions.

    This is what a network that gives the unaries and the weights of edges is trained with: by
    `logsuper.torch` in PyTorch, and by these gradients in any other framework.

    Parameters
    ----------
    theta : array-like of shape (n,) or (M, n); (H, W) or (M, H, W) on a grid
        Fields, such as the log-odds that a network gives.
    edge_weights : array-like of shape (E,) or (M, E)
        Weights >= 0 of the edges, in the order of ``structure.edges``; for a grid that is
        ``logsuper.prepare(logsuper.grid_cuts(shape, neighbors)).edges``.
    y : array-like of the shape of theta
        Labels 0 or 1; NaN, or masked, where there is none.
    structure : Prepared, optional
        Cuts, whose own weights are multiplied by `edge_weights`.
    shape : sequence of int, optional
        Of an image or volume, instead of a structure.
    neighbors : int, optional
        Of a pixel, as in `grid_cuts`.
    n_samples : int, default 16
        Perturbations S of each problem.
    sigma : float, default 1.0
        Scale of the noise. With 0 this would be the perceptron's loss; without edges and with many
        samples it is the logistic loss, at any sigma in units of sigma.
    seed : int, Generator or None, default 0
        Give another one at each step of a stochastic descent.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    PerturbedLoss
        With ``loss``, ``d_theta`` and ``d_edge_weights``.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import perturbed_loss
    >>> theta, y = np.array([[2.0, 1.0], [-1.0, -3.0]]), np.array([[1, 1], [0, 0]])
    >>> loss, d_theta, d_weights = perturbed_loss(theta, np.ones(4), y, shape=(2, 2), sigma=0.1)
    >>> round(loss, 3)  # y is the maximiser under each of 16 small perturbations
    0.0
    >>> loss, d_theta, d_weights = perturbed_loss(theta, np.ones(4), 1 - y, shape=(2, 2), sigma=0.1)
    >>> d_theta.round(1)
    array([[ 1.,  1.],
           [-1., -1.]])
    """
    batch = CutBatch.of(theta, edge_weights, structure, shape, neighbors)
    labels = batch.read_labels(y)
    draws = Draws.of(n_samples, sigma, seed)
    known = ~np.isnan(labels)
    x = np.where(known, labels, 0.0)
    partial = np.flatnonzero(~known.all(axis=1))
    fixed = np.where(known, np.where(x == 1, np.inf, -np.inf), batch.theta)
    count = len(labels)
    values, maximisers = draws.maximize(
        batch,
        np.concatenate([batch.theta, fixed[partial]]),
        np.concatenate([batch.edge_weights, batch.edge_weights[partial]]),
        np.concatenate([np.arange(count), partial]),
        n_jobs,
    )
    mean, cut = _statistics(batch, maximisers)
    held, held_cut = x.copy(), batch.disagreements(x.astype(np.uint8)).astype(np.float64)
    held[partial], held_cut[partial] = mean[count:], cut[count:]
    # what the held side has: the labelled ones, and the maxima over what labels leave free
    best = draws.sigma * values.mean(axis=1)
    noise = sum(draws.noise(count, s, batch.n) for s in range(draws.count)) / draws.count
    value = ((batch.theta + draws.sigma * noise) * x).sum(axis=1)
    value -= (batch.base * batch.edge_weights * held_cut).sum(axis=1)
    fixed_value = ((batch.theta + draws.sigma * noise) * x)[partial].sum(axis=1)
    value[partial] = fixed_value + best[count:]
    loss = best[:count] - value
    return PerturbedLoss(
        float(loss[0]) if batch.single else loss,
        batch.per_node(mean[:count] - held),
        batch.per_edge(batch.base * (held_cut - cut[:count])),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PerturbedMeans:
    r"""The mean maximiser of perturbed cuts.

    Attributes
    ----------
    mean : ndarray of the shape of theta
        In [0, 1]: the share of perturbations in which each element is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import perturbed_means
    >>> found = perturbed_means(np.array([3.0, 0.0, -3.0]), np.ones(2), shape=(1, 3), seed=0)
    >>> found.mean.shape, bool(found.mean[0] > found.mean[2])
    ((3,), True)
    """

    mean: FloatArray
    _batch: CutBatch
    _draws: Draws
    _maximisers: NDArray[np.uint8]

    def pull_back(self, gradient: ArrayLike) -> tuple[FloatArray, FloatArray]:
        r"""Return the gradients in theta and in the edge weights of a function of `mean`.

        By Stein's identity, :math:`\partial_\theta\mathbb{E}h(y^*)
        =\operatorname{cov}(h(y^*),\tanh(z/2))/\sigma`, for logistic noise z. As the derivative of
        the mean is the second derivative of F, it is symmetric, and for a gradient g both are
        covariances with one number per sample, :math:`u=g^\top\tanh(z/2)`:

        .. math:: \tfrac1\sigma\operatorname{cov}(y^*,u),\qquad
           -\tfrac1\sigma\operatorname{cov}(|y^*_i-y^*_j|,u).

        They are estimated without bias from the same samples; an element that no perturbation
        changes has gradient 0. Their variance falls as 1 over the number of samples.

        Parameters
        ----------
        gradient : array-like of the shape of theta

        Returns
        -------
        d_theta : ndarray of the shape of theta
        d_edge_weights : ndarray of shape (E,) or (M, E)
        """
        batch, draws = self._batch, self._draws
        g = batch.read_gradient(gradient)
        scores = np.stack(
            [
                (g * np.tanh(0.5 * draws.noise(len(g), s, batch.n))).sum(axis=1)
                for s in range(draws.count)
            ]
        )
        scores -= scores.mean(axis=0)  # the other factor need not be centred then
        d_theta, d_weights = np.zeros(g.shape), np.zeros(batch.edge_weights.shape)
        for s, score in enumerate(scores[..., None]):
            labels = self._maximisers[:, s]
            d_theta += score * labels
            d_weights -= score * batch.disagreements(labels)
        scale = draws.sigma * (draws.count - 1)
        return (
            batch.per_node(d_theta / scale),
            batch.per_edge(batch.base * d_weights / scale),
        )


def perturbed_means(
    theta: ArrayLike,
    edge_weights: ArrayLike,
    structure: Prepared | None = None,
    *,
    shape: Sequence[int] | None = None,
    neighbors: int | None = None,
    n_samples: int = 16,
    sigma: float = 1.0,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> PerturbedMeans:
    r"""Return the mean maximiser :math:`\mathbb{E}y^*` of perturbed cuts, which is differentiable.

    A cut is a piecewise constant function of its field and weights; its mean under noise is smooth.
    The gradient needs many samples: train through `perturbed_loss`, whose gradient is far more
    exact, wherever there are labels of the cut itself.

    Parameters
    ----------
    theta, edge_weights, structure, shape, neighbors, sigma, seed, n_jobs
        As in `perturbed_loss`.
    n_samples : int, default 16
        At least 2.

    Returns
    -------
    PerturbedMeans
        With ``mean``, and ``pull_back`` for gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import perturbed_means
    >>> found = perturbed_means([1.0], [], shape=(1,), n_samples=100_000)
    >>> found.mean.round(2), found.pull_back([1.0])[0].round(2)  # the logistic function
    (array([0.73]), array([0.2]))
    """
    batch = CutBatch.of(theta, edge_weights, structure, shape, neighbors)
    draws = Draws.of(n_samples, sigma, seed, least=2)
    numbers = np.arange(len(batch.theta))
    _, maximisers = draws.maximize(batch, batch.theta, batch.edge_weights, numbers, n_jobs)
    mean = batch.per_node(maximisers.mean(axis=1))
    return PerturbedMeans(mean, batch.without_solver(), draws, maximisers)


# ------------------------------------------------------------------------------------------ inside


def _statistics(batch: CutBatch, maximisers: NDArray[np.uint8]) -> tuple[FloatArray, FloatArray]:
    """Return the means over samples (R, S, n) of the labels and of the cut edges."""
    rows, count = maximisers.shape[:2]
    cut = np.zeros((rows, len(batch.edges)))
    for s in range(count):
        cut += batch.disagreements(maximisers[:, s])
    return maximisers.mean(axis=1), cut / count


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
