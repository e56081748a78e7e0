r"""The weighted log loss of single labels under logistic noise, and its slopes.

Given the noise of all others, element d of a perturbed maximiser is 1 with probability
:math:`\sigma(m_d)` (see ``_conditional.py``), where :math:`m_d+z_d` is the difference of the maxima
of :math:`V(y)=(\theta+z)^\top y-\sum_k\alpha_kf_k(y)` with :math:`y_d=1` and with 0. Let
:math:`r_d` be the mean over samples of the probability of the label :math:`x_d`, a the cost of an
error at this label and b that of the other error:

.. math:: L=-\sum_da\log q_d,\qquad q_d=\frac{ar_d}{ar_d+b(1-r_d)}.

The expectation of each term is least where :math:`r_d` is the true probability, whatever the costs
are, and it is most curved where that is near the threshold a decision with these costs has. The
slope of :math:`m_d` is the difference of the two maximisers, of which one is the maximiser
:math:`y^*` itself. For pairwise functions the kernel finds all others by continuing one maximal
flow (``flips.hpp``); otherwise each is one more maximisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from logsuper._base import Bits, FloatArray, as_floats, refuse, refuse_negative
from logsuper.solvers._direct import Direct
from logsuper.solvers._flow import Flow
from logsuper.solvers._native import kernels
from logsuper.solvers._precision import tilted
from logsuper.solvers._problems import Noise, Problems, some_rows

# Numbers in the fields of the problems that are maximised at a time.
_PIECE = 1 << 22
# Largest margin, so that no probability becomes 0.
_LARGEST = 500.0

Maximize = Callable[[Problems], tuple[Bits, FloatArray, FloatArray]]


class LabelLosses(NamedTuple):
    r"""Losses of labels, for M problems.

    Attributes
    ----------
    values : ndarray of shape (M,)
        The losses L.
    mean : ndarray of shape (M, n)
        :math:`\partial L/\partial\theta`.
    stats : ndarray of shape (M, K)
        :math:`-\partial L/\partial\alpha`.

    Examples
    --------
    >>> import logsuper as ls
    >>> s = ls.prepare([ls.Cut(2, [(0, 1)])])
    >>> s.label_losses([0.0, 0.0], [0.0], [1, 0], n_samples=1, seed=0).mean
    array([[-0.5,  0.5]])
    """

    values: FloatArray
    mean: FloatArray
    stats: FloatArray


def find_losses(
    solver: Flow | Direct,
    problems: Problems,
    noise: Noise,
    labels: Bits,
    costs: FloatArray,
    threads: int,
) -> LabelLosses:
    """Return the losses; labels are (M, n), above 1 where there is none, and costs (M, n, 2)."""
    native = kernels()
    if native is None or not isinstance(solver, Flow) or not solver.simple:
        more = (threads,) if isinstance(solver, Flow) else ()
        return _one_by_one(
            lambda some: solver.maximize(some, None, *more), problems, noise, labels, costs
        )
    count, n, structure = problems.size, solver.n, solver.structure
    edges, weights = structure.combine(problems.alpha, problems.factors)
    own = np.broadcast_to(tilted(structure, problems), (count, n))
    values, mean, cuts = np.zeros(count), np.zeros((count, n)), np.zeros((count, len(edges)))
    native.flip_labels(
        edges,
        weights,
        np.ascontiguousarray(own),
        np.ascontiguousarray(labels),
        np.ascontiguousarray(costs),
        noise.numbers,
        noise.key,
        noise.first,
        noise.samples,
        threads,
        values,
        mean,
        cuts,
    )
    stats, factors = np.zeros((count, structure.count)), problems.factors
    for k, unit in enumerate(structure.table):
        scaled = unit if factors is None else factors[:, min(k, factors.shape[1] - 1)] * unit
        stats[:, k] = (cuts * scaled).sum(axis=1)
        if k in structure.tilts:
            stats[:, k] += mean @ structure.tilts[k]
    return LabelLosses(values, mean, stats)


def _one_by_one(
    maximize: Maximize, problems: Problems, noise: Noise, labels: Bits, costs: FloatArray
) -> LabelLosses:
    """Return the same by one maximisation per labelled element and sample."""
    count, n = labels.shape
    values, mean = np.zeros(count), np.zeros((count, n))
    stats = np.zeros((count, problems.alpha.shape[1]))
    for m, x in enumerate(labels):
        own = np.take_along_axis(costs[m], np.minimum(x, 1)[:, None].astype(np.int64), 1)[:, 0]
        at = np.flatnonzero((x <= 1) & (own > 0.0))
        noisy = noise.added_to(problems, m)
        y, best, each = maximize(noisy)
        sample, d = (part.ravel() for part in np.meshgrid(range(noise.samples), at, indexing="ij"))
        signs = np.where(y[sample, d] == 1, 1.0, -1.0)
        gap, change, counted = (
            np.empty(len(d)),
            np.empty((len(d), n)),
            np.empty((len(d), len(each.T))),
        )
        step = max(1, _PIECE // max(1, n))
        for part in (slice(k, k + step) for k in range(0, len(d), step)):
            s, e, up = sample[part], d[part], signs[part]
            theta, rows = noisy.theta[s], np.arange(len(e))
            held = np.where(up < 0.0, theta[rows, e], 0.0)  # values leave out infinite fields
            theta[rows, e] = -up * np.inf
            factors = some_rows(noisy.factors, s)
            other, value, stat = maximize(Problems(theta, noisy.alpha, factors, len(e)))
            gap[part] = up * (best[s] - value - held)
            change[part] = up[:, None] * (y[s].astype(np.float64) - other)
            counted[part] = up[:, None] * (each[s] - stat)
        z = noisy.theta[sample, d] - some_rows(problems.theta, [m])[0, d]
        sign = np.where(x[at] == 1, 1.0, -1.0)
        margins = sign * (gap - z).reshape(noise.samples, len(at))
        rights = expit(np.clip(margins, -_LARGEST, _LARGEST))
        right = rights.mean(axis=0)
        a, b = costs[m, at, x[at]], costs[m, at, 1 - x[at]]
        all_ = a * right + b * (1.0 - right)
        values[m] = -(a * np.log(a * right / all_)).sum()
        slope = -sign * a * b / (right * all_) * rights * (1.0 - rights)
        slopes = slope.ravel() / noise.samples
        mean[m], stats[m] = slopes @ change, slopes @ counted
    return LabelLosses(values, mean, stats)


def check_labels(theta: FloatArray, labels: ArrayLike, costs: ArrayLike) -> tuple[Bits, FloatArray]:
    """Return labels (M, n) and costs (M, n, 2); a label above 1, or NaN, is none."""
    given, price = as_floats(labels, "labels"), as_floats(costs, "costs")
    shape = theta.shape
    if given.shape not in (shape, shape[1:]):
        raise ValueError(f"labels must have shape {shape} or {shape[1:]}, got {given.shape}")
    legal = np.isin(given, (0.0, 1.0, 2.0)) | np.isnan(given)
    refuse(~legal, given, "labels", "must be 0 or 1; 2 or NaN for none")
    whole = (*shape, 2)
    if price.shape not in (whole, (1, *whole[1:]), whole[1:], whole[2:]):
        raise ValueError(f"costs must have shape {whole}, {whole[1:]} or (2,), got {price.shape}")
    refuse_negative(price, "costs", "a wrong label must not be a gain")
    refuse(~np.isfinite(price), price, "costs", "must be finite")
    codes = np.broadcast_to(np.where(np.isnan(given), 2.0, given).astype(np.uint8), shape)
    certain = np.isinf(theta) & (codes <= 1)
    refuse(certain, theta, "theta", "leaves no doubt about an element that has a label")
    return codes, np.broadcast_to(price, whole)
