r"""Batches of problems :math:`\max_y\theta^\top y-\sum_k\alpha_kf_k(y)`, noise and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import Bits, FloatArray
from logsuper.solvers._noise import logistic_noise


class Problems(NamedTuple):
    """Checked arrays with one row per problem, or one row for all.

    Attributes
    ----------
    theta : ndarray of shape (1 or M, n)
    alpha : ndarray of shape (1 or M, K)
    factors : ndarray of shape (1 or M, 1 or K, E), or None
        Factors on the edges of the cuts.
    size : int
        The number M of problems.
    """

    theta: FloatArray
    alpha: FloatArray
    factors: FloatArray | None
    size: int

    def rows(self, rows: Any) -> Problems:
        """Return the problems with the given indices."""
        theta, alpha, factors = (some_rows(part, rows) for part in self[:3])
        return Problems(theta, alpha, factors, len(rows))


class Noise(NamedTuple):
    """The logistic noise of some samples of each problem.

    Attributes
    ----------
    key : int
        Key of the stream.
    numbers : ndarray of shape (M,)
        Numbers of the problems in the stream.
    first : int
        Number of the first sample.
    samples : int
        Number of samples.
    """

    key: int
    numbers: NDArray[np.uint64]
    first: int
    samples: int

    def of(self, m: int, n: int) -> FloatArray:
        """Return the noise (samples, n) of problem m."""
        draws = np.arange(self.first, self.first + self.samples)
        return np.asarray(logistic_noise(self.key, self.numbers[m : m + 1], draws, n)[0])

    def added_to(self, problems: Problems, m: int) -> Problems:
        """Return one problem per sample: problem m with the noise of the sample."""
        one = problems.rows([m])
        theta = one.theta + self.of(m, one.theta.shape[1])
        return Problems(theta, one.alpha, one.factors, self.samples)


def perturb_each(
    maximize: Callable[[Problems], tuple[Bits, FloatArray, FloatArray]],
    problems: Problems,
    noise: Noise,
    return_samples: bool,
) -> Perturbed:
    """Solve every problem under its noise, by a function that maximises a batch."""
    mean, stats, values, kept = [], [], [], []
    for m in range(problems.size):
        y, value, each = maximize(noise.added_to(problems, m))
        mean.append(y.mean(axis=0))
        stats.append(each.mean(axis=0))
        values.append(value)
        if return_samples:
            kept.append(y)
    samples = np.array(kept) if return_samples else None
    return Perturbed(np.array(mean), np.array(stats), np.array(values), samples)


def some_rows(array: Any, rows: Any) -> Any:
    """Return some rows of an array; None or a single row shared by all is returned unchanged."""
    return array if array is None or len(array) == 1 else array[rows]


class Maximized(NamedTuple):
    r"""A maximiser of :math:`\theta^\top y-f(y)`, or those of a batch.

    Attributes
    ----------
    y : ndarray of shape (n,) or (M, n), uint8
    value : float or ndarray of shape (M,)
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
