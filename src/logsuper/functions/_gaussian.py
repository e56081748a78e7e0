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
        return np.asarray(np.linalg.slogdet(self._masked(X))[1])

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = self._evaluate(X)
        return values, self._error() + EPS * self.n * np.abs(values)

    def _error(self) -> float:
        r"""Return a bound on the rounding error of every log-determinant of a principal submatrix.

        Gaussian elimination with pivoting returns the exact determinant of a matrix that differs
        from K by at most :math:`n^2\epsilon\rho\|K\|`, where :math:`\rho` is the growth factor of
        the pivots, small in practice (Higham, *Accuracy and Stability of Numerical Algorithms*,
        2002, chapter 9). Each eigenvalue changes by at most that amount.
        """
        spectrum = np.linalg.eigvalsh(self.K) if self.n else np.ones(1)
        off = EPS * (self.n + 1.0) ** 2 * 8.0 * max(float(spectrum[-1]), 1.0)
        least = max(min(float(spectrum[0]), 1.0), 1e-300)
        return self.n * off / least

    def _masked(self, X: FloatArray) -> FloatArray:
        """Return K per row x of X; rows and columns where x is 0 are those of the identity."""
        block = self.K * X[:, :, None] * X[:, None, :]
        diagonal = np.arange(self.n)
        block[:, diagonal, diagonal] += 1.0 - X
        return block

    def _gains(self, X: FloatArray) -> FloatArray:
        # Elements that are on: the diagonal of the inverse is one over the conditional variance.
        # Off: Schur complement. Both use one triangular factor; computing the inverse itself would
        # square the condition number in the error where K is nearly singular.
        columns = np.where(X[:, None, :] > 0, np.eye(self.n), X[:, :, None] * self.K)
        halves = np.linalg.solve(cholesky(self._masked(X)), columns)
        total, most = (halves**2).sum(axis=1), np.diagonal(self.K)
        # clip to the range of a conditional variance, which rounding may leave
        variance = np.where(X > 0, 1.0 / np.maximum(total, 1.0 / most), most - total)
        return np.asarray(np.log(np.clip(variance, EPS * most, most)))

    def _chain(self, order: IntArray) -> FloatArray:
        factors = [np.linalg.cholesky(self.K[np.ix_(row, row)]) for row in order]
        return np.array([2.0 * np.log(np.diagonal(factor)) for factor in factors])

    def _condition(self, free: IntArray, point: FloatArray) -> LogDet:
        return self._given(free, np.flatnonzero(point))

    def _given(self, free: IntArray, given: IntArray) -> LogDet:
        """Return the function of the covariance of free variables conditional on given ones."""
        block = self.K[np.ix_(free, free)]
        if len(given) and len(free):
            cross = self.K[np.ix_(given, free)]
            block = block - cross.T @ np.linalg.solve(self.K[np.ix_(given, given)], cross)
        return LogDet._built((block + block.T) / 2.0)

    def _row_cost(self) -> float:
        return self.n**2 + self.n**3 / 30.0

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
        kernel = LogDet(K)
        self._build(kernel, kernel)

    def _build(self, inside: LogDet, outside: LogDet) -> None:
        # equal unless conditioned: fixing ones changes the first kernel, fixing zeros the second
        self.n = inside.n
        self._inside, self._outside = inside, outside
        self._all_outside = float(outside._evaluate(np.ones((1, self.n)))[0])

    def _evaluate(self, X: FloatArray) -> FloatArray:
        outside = self._outside._evaluate(1.0 - X) - self._all_outside
        return (self._inside._evaluate(X) + outside) / 2.0

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside, outside = self._inside._evaluate(X), self._outside._evaluate(1.0 - X)
        size = np.abs(inside) + np.abs(outside) + abs(self._all_outside)
        own = self._inside._error() + 2.0 * self._outside._error()
        return self._evaluate(X), own + EPS * self.n * size

    def _gains(self, X: FloatArray) -> FloatArray:
        return (self._inside._gains(X) - self._outside._gains(1.0 - X)) / 2.0

    def _chain(self, order: IntArray) -> FloatArray:
        leaving = self._outside._chain(order[:, ::-1])[:, ::-1]
        return (self._inside._chain(order) - leaving) / 2.0

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        on, off = np.flatnonzero(point), np.setdiff1d(np.flatnonzero(point == 0), free)
        return GaussianInformation._built(
            self._inside._given(free, on), self._outside._given(free, off)
        )

    def _row_cost(self) -> float:
        return 2.0 * self._inside._row_cost()

    def _walks(self) -> list[tuple[float, Walk]]:
        return [(0.5, Determinant(self._inside.K)), (0.5, Determinant(self._outside.K, on=False))]

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
