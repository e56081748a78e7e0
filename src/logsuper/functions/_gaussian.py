"""Entropy and mutual information of Gaussian variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import EPS, FloatArray, IntArray, as_float, frozen
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._walks import Determinant, Walk, cholesky


class LogDet(SubmodularFunction):
    r"""The log-determinant :math:`f(x)=\log\det K_{SS}`, with S the set of elements that are on.

    Up to a modular term it is twice the entropy of Gaussian variables with covariance K.  It is
    submodular but not monotone in general.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Symmetric and positive definite.

    Attributes
    ----------
    K : ndarray of shape (n, n)

    Examples
    --------
    >>> from logsuper.functions import LogDet
    >>> f = LogDet([[2.0, 1.0], [1.0, 1.0]])
    >>> float(f([1, 1])) == 0.0
    True
    >>> g, constant = f.condition({0: 1})
    >>> g.K
    array([[0.5]])
    """

    def __init__(self, K: ArrayLike) -> None:
        self._build(_as_kernel(K))

    def _build(self, K: FloatArray) -> None:
        self.K = frozen(K)
        self.n = len(K)

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return _log_det(self.K, X)

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = self._evaluate(X)
        return values, _log_det_error(self.K) + EPS * self.n * np.abs(values)

    def _gains(self, X: FloatArray) -> FloatArray:
        return _log_det_gains(self.K, X)

    def _chain(self, order: IntArray) -> FloatArray:
        return _log_det_chain(self.K, order)

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        other = object.__new__(LogDet)
        other._build(_schur(self.K, free, np.flatnonzero(point)))
        return other

    def _row_cost(self) -> float:
        return _log_det_cost(self.n)

    def _walks(self) -> list[tuple[float, Walk]]:
        return [(1.0, Determinant(self.K))]

    def _row_size(self) -> int:
        return self.n**2


class GaussianInformation(SubmodularFunction):
    r"""The mutual information between the elements that are on and those that are off.

    .. math:: f(x)=I(S;V\setminus S)
              =\tfrac12\left(\log\det K_{SS}+\log\det K_{\bar S\bar S}-\log\det K\right)

    for Gaussian variables with covariance K; symmetric, :math:`f(1-x)=f(x)`.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Symmetric and positive definite.

    Examples
    --------
    >>> from logsuper.functions import GaussianInformation
    >>> f = GaussianInformation([[1.0, 0.6], [0.6, 1.0]])
    >>> print(f([[1, 0], [1, 1]]).round(4))
    [0.2231 0.    ]
    """

    def __init__(self, K: ArrayLike) -> None:
        kernel = _as_kernel(K)
        self._build(kernel, kernel)

    def _build(self, inside: FloatArray, outside: FloatArray) -> None:
        # equal unless conditioned: fixing ones changes the first kernel, fixing zeros the second
        self.n = len(inside)
        self._inside = frozen(inside)
        self._outside = frozen(outside)
        self._all_outside = float(_log_det(outside, np.ones((1, self.n)))[0])

    def _evaluate(self, X: FloatArray) -> FloatArray:
        outside = _log_det(self._outside, 1.0 - X) - self._all_outside
        return (_log_det(self._inside, X) + outside) / 2.0

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside, outside = _log_det(self._inside, X), _log_det(self._outside, 1.0 - X)
        size = np.abs(inside) + np.abs(outside) + abs(self._all_outside)
        own = _log_det_error(self._inside) + 2.0 * _log_det_error(self._outside)
        return self._evaluate(X), own + EPS * self.n * size

    def _gains(self, X: FloatArray) -> FloatArray:
        outside = _log_det_gains(self._outside, 1.0 - X)
        return (_log_det_gains(self._inside, X) - outside) / 2.0

    def _chain(self, order: IntArray) -> FloatArray:
        leaving = _log_det_chain(self._outside, order[:, ::-1])[:, ::-1]
        return (_log_det_chain(self._inside, order) - leaving) / 2.0

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        off = np.setdiff1d(np.flatnonzero(point == 0), free)
        other = object.__new__(GaussianInformation)
        other._build(
            _schur(self._inside, free, np.flatnonzero(point)), _schur(self._outside, free, off)
        )
        return other

    def _row_cost(self) -> float:
        return 2.0 * _log_det_cost(self.n)

    def _walks(self) -> list[tuple[float, Walk]]:
        return [(0.5, Determinant(self._inside)), (0.5, Determinant(self._outside, on=False))]

    def _row_size(self) -> int:
        return self.n**2


def _as_kernel(K: ArrayLike) -> FloatArray:
    kernel = as_float(K, "K")
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"K must be a square matrix, got shape {kernel.shape}")
    if kernel.size == 0:
        return kernel
    half = kernel / 2.0  # sums of two entries may overflow
    skew = np.abs(half - half.T)
    if skew.max() > 1e-8 * np.abs(half).max():
        i, j = np.unravel_index(int(skew.argmax()), skew.shape)
        raise ValueError(
            f"K must be symmetric: K[{i}, {j}] = {kernel[i, j]:g}, K[{j}, {i}] = {kernel[j, i]:g}"
        )
    kernel = half + half.T
    spectrum = np.linalg.eigvalsh(kernel)
    if spectrum[0] <= len(kernel) * np.finfo(np.float64).eps * abs(spectrum[-1]):
        raise ValueError(
            f"K must be positive definite; its smallest eigenvalue is {spectrum[0]:.3g}, its "
            f"largest {spectrum[-1]:.3g}. Add a small multiple of the identity if it is a "
            "covariance up to rounding"
        )
    return kernel


def _masked(K: FloatArray, X: FloatArray) -> FloatArray:
    """Return K per row x of X, with rows and columns where x is 0 replaced by the identity's."""
    block = K * X[:, :, None] * X[:, None, :]
    diagonal = np.arange(len(K))
    block[:, diagonal, diagonal] += 1.0 - X
    return block


def _log_det(K: FloatArray, X: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.slogdet(_masked(K, X))[1])


def _log_det_cost(n: int) -> float:
    """Return the approximate cost of a log-determinant in the unit of `_row_cost`."""
    return n**2 + n**3 / 30.0


def _log_det_error(K: FloatArray) -> float:
    r"""Return a bound on the rounding error of every log-determinant of a principal submatrix.

    Gaussian elimination with pivoting returns the exact determinant of a matrix that differs from K
    by at most :math:`n^2\epsilon\rho\|K\|`, where :math:`\rho` is the growth factor of the pivots,
    small in practice (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, chapter 9).
    Each eigenvalue changes by at most that amount.
    """
    spectrum = np.linalg.eigvalsh(K) if len(K) else np.ones(1)
    off = EPS * (len(K) + 1.0) ** 2 * 8.0 * max(float(spectrum[-1]), 1.0)
    least = max(min(float(spectrum[0]), 1.0), 1e-300)
    return len(K) * off / least


def _log_det_gains(K: FloatArray, X: FloatArray) -> FloatArray:
    # Elements that are on: the diagonal of the inverse is one over the conditional variance. Off:
    # Schur complement. Both use one triangular factor; computing the inverse itself would square
    # the condition number in the error where K is nearly singular.
    columns = np.where(X[:, None, :] > 0, np.eye(len(K)), X[:, :, None] * K)
    halves = np.linalg.solve(cholesky(_masked(K, X)), columns)
    total, most = (halves**2).sum(axis=1), np.diagonal(K)
    # clip to the range of a conditional variance, which rounding may leave
    variance = np.where(X > 0, 1.0 / np.maximum(total, 1.0 / most), most - total)
    return np.asarray(np.log(np.clip(variance, EPS * most, most)))


def _log_det_chain(K: FloatArray, order: IntArray) -> FloatArray:
    steps = np.empty(order.shape)
    for m, row in enumerate(order):
        steps[m] = 2.0 * np.log(np.diagonal(np.linalg.cholesky(K[np.ix_(row, row)])))
    return steps


def _schur(K: FloatArray, free: IntArray, given: IntArray) -> FloatArray:
    """Return the covariance of the free variables conditional on the given ones."""
    block = K[np.ix_(free, free)]
    if len(given) and len(free):
        cross = K[np.ix_(given, free)]
        block = block - cross.T @ np.linalg.solve(K[np.ix_(given, given)], cross)
    return (block + block.T) / 2.0
