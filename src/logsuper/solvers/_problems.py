r"""Batches of problems :math:`\max_y\theta^\top y-\sum_k\alpha_kf_k(y)`.

Checks of their arguments, their noise, and results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import Bits, FloatArray, as_floats, refuse
from logsuper.solvers._noise import as_words, logistic_noise


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


def check_theta(theta: ArrayLike, n: int, allow_nan: bool = False) -> tuple[FloatArray, bool]:
    """Return theta as (M, n) and whether it was a single field (n,)."""
    field = as_floats(theta, "theta")
    if field.ndim not in (1, 2) or field.shape[-1] != n:
        raise ValueError(f"theta must have shape ({n},) or (M, {n}), got {field.shape}")
    if not allow_nan:
        refuse_nan(field)
    return field if field.ndim == 2 else field[None], field.ndim == 1


def refuse_nan(theta: FloatArray) -> None:
    """Raise a ValueError that names the first NaN in theta."""
    remedy = "give 0 for an element without information; +-inf fixes an element"
    refuse(np.isnan(theta), theta, "theta", remedy)


def check_alpha(alpha: ArrayLike, k: int) -> FloatArray:
    """Return the weights of the functions as (1, K) or (M, K)."""
    array = as_floats(alpha, "alpha")
    if array.ndim == 0 and k == 1:
        array = array[None]
    if array.ndim not in (1, 2) or array.shape[-1] != k:
        raise ValueError(f"alpha must have shape ({k},) or (M, {k}), got {array.shape}")
    refuse(~np.isfinite(array), array, "alpha", "give each function a finite weight, 0 for none")
    refuse(array < 0, array, "alpha", "a negative weight makes a function supermodular")
    return array if array.ndim == 2 else array[None]


def check_edge_weights(weights: ArrayLike, k: int, edges: int) -> FloatArray:
    """Return the factors of the edges as (1 or M, 1 or K, E)."""
    array = as_floats(weights, "edge_weights")
    legal = f"({edges},), (M, {edges}) or (M, {k}, {edges})"
    if array.ndim not in (1, 2, 3) or array.shape[-1] != edges:
        raise ValueError(f"edge_weights must have shape {legal}, got {array.shape}")
    if array.ndim == 3 and array.shape[1] not in (1, k):
        raise ValueError(f"edge_weights must have shape {legal}, got {array.shape}")
    refuse(~np.isfinite(array), array, "edge_weights", "weights of edges must be finite")
    refuse(array < 0, array, "edge_weights", "a negative weight is repulsive, not submodular")
    return array.reshape(-1, array.shape[1] if array.ndim == 3 else 1, edges)


def check_batch(**lengths: int) -> int:
    """Return the number of problems, given the numbers of rows (1 is broadcast)."""
    count, first = 1, ""
    for name, length in lengths.items():
        if length == 1:
            continue
        if first and length != count:
            raise ValueError(
                f"{name} has {length} rows, but {first} has {count}; give one row, or as many"
            )
        count, first = length, name
    return count


def check_tie(tie: str | None) -> None:
    """Raise a ValueError unless tie is None, "min" or "max"."""
    if tie not in (None, "min", "max"):
        raise ValueError(f"tie must be None, 'min' or 'max', got {tie!r}")


def check_numbers(numbers: ArrayLike | None, problems: int) -> NDArray[np.uint64]:
    """Return the numbers of the problems of a batch, 0, 1, ... by default."""
    if numbers is None:
        return np.arange(problems, dtype=np.uint64)
    given = as_words(numbers, "numbers", 64)
    if given.shape != (problems,):
        raise ValueError(f"numbers must have shape ({problems},), got {given.shape}")
    return given
