"""Results of the solvers."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import Bits, FloatArray


class Maximized(NamedTuple):
    r"""A maximiser of :math:`\theta^\top y-f(y)`, or those of a batch.

    Attributes
    ----------
    y : ndarray of shape (n,) or (M, n), uint8
    value : float or ndarray of shape (M,)

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.maximize(ls.Cut(3, [(0, 1), (1, 2)]), [2.0, -0.5, -0.2])
    Maximized(y=array([1, 1, 1], dtype=uint8), value=1.3)
    """

    y: Bits
    value: Any


class Solved(NamedTuple):
    r"""A maximiser of :math:`\theta^\top y-\sum_k\alpha_kf_k(y)`, or those of a batch.

    Attributes
    ----------
    y : ndarray of shape (n,) or (M, n), uint8
    value : float or ndarray of shape (M,)
    stats : ndarray of shape (K,) or (M, K)
        :math:`f_k(y)`.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.prepare([ls.Cut(3, [(0, 1), (1, 2)])]).maximize([2.0, -0.5, -0.2], alpha=[0.5])
    Solved(y=array([1, 0, 0], dtype=uint8), value=1.5, stats=array([1.]))
    """

    y: Bits
    value: Any
    stats: FloatArray


@dataclasses.dataclass(frozen=True, eq=False)
class Perturbed:
    r"""Moments of the maximisers under logistic noise, for M problems and S samples each.

    Attributes
    ----------
    mean : ndarray of shape (M, n)
        Mean of the maximisers :math:`y^*(\theta+z)`.
    stats : ndarray of shape (M, K)
        Mean of the functions, :math:`f_k(y^*)`.
    values : ndarray of shape (M, S)
        :math:`V=\max_y(\theta+z)^\top y-\sum_k\alpha_kf_k(y)` of each sample; its expectation is
        the upper bound :math:`A_{\mathrm{logistic}}` on the log-partition function.
    samples : ndarray of shape (M, S, n), uint8, or None
        The maximisers, if requested.

    Examples
    --------
    >>> import logsuper as ls
    >>> s = ls.prepare([ls.Cut(3, [(0, 1), (1, 2)])])
    >>> out = s.perturb([1.0, 0.0, -1.0], alpha=[1.0], n_samples=50, seed=3)
    >>> out.mean.shape, out.stats.shape, out.values.shape, out.samples
    ((1, 3), (1, 1), (1, 50), None)
    """

    mean: FloatArray
    stats: FloatArray
    values: FloatArray
    samples: Bits | None = None


def finite_dot(theta: FloatArray, y: Bits) -> FloatArray:
    """Return the sum of the finite entries of theta over the ones of y, row by row."""
    finite = np.where(np.isfinite(theta), theta, 0.0)
    with np.errstate(over="ignore"):  # the caller raises an error for an infinite value
        return np.asarray((finite * y).sum(axis=1))
