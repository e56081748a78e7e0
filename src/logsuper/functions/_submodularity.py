"""Test whether a function is submodular by looking for a pair of elements that violates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import Seed, as_generator, check_natural, check_number
from logsuper.functions._base import SubmodularFunction

# Largest number of elements for which all 2^n values are checked.
_EXHAUSTIVE = 12

# Tolerated absolute value of f(0), relative to the largest value (rounding).
_ROUNDING = 1e-9


class Violation(NamedTuple):
    """A pair of elements whose joint gain exceeds the sum of their gains, at x."""

    x: NDArray[np.uint8]
    i: int
    j: int
    amount: float

    def __str__(self) -> str:
        return (
            f"given {np.flatnonzero(self.x).tolist()}, elements {self.i} and {self.j} gain "
            f"{self.amount:.3g} more together than apart"
        )


@dataclass(frozen=True, eq=False)
class SubmodularityReport:
    """Result of `check_submodular`; true if no violation was found.

    Attributes
    ----------
    violated : Violation or None
        The worst pair, ``(x, i, j, amount)``: with ``x_i = x_j = 0``,
        ``f(x + i + j) + f(x) - f(x + i) - f(x + j) = amount > 0``.
    exhaustive : bool
        Whether every pair at every x was checked; if so, the absence of a violation is a proof, up
        to rounding.
    pairs_checked : int
        Number of triples (x, i, j) that were checked.

    Examples
    --------
    >>> from logsuper.functions import SetFunction, check_submodular
    >>> report = check_submodular(SetFunction(lambda x: 2.0 * x.all(), 2, check=False))
    >>> bool(report), report.exhaustive, report.pairs_checked
    (False, True, 1)
    >>> x, i, j, amount = report.violated
    >>> x.tolist(), i, j, amount
    ([0, 0], 0, 1, 2.0)
    """

    violated: Violation | None
    exhaustive: bool
    pairs_checked: int

    def __bool__(self) -> bool:
        return self.violated is None

    def __repr__(self) -> str:
        extent = "all" if self.exhaustive else "sampled"
        if self.violated is None:
            return f"<no violation found in {self.pairs_checked} pairs ({extent})>"
        return f"<not submodular: {self.violated} ({self.pairs_checked} pairs, {extent})>"


def check_submodular(
    f: SubmodularFunction, n_samples: int = 2000, seed: Seed = 0, tol: float = 1e-9
) -> SubmodularityReport:
    """Look for a violation of submodularity.

    The search is exhaustive up to 12 elements.  Beyond, it tries random pairs at random points x
    whose fraction of ones is uniform on [0, 1].

    Parameters
    ----------
    f : SubmodularFunction
        Usually a `SetFunction` or a class of your own; the library's families are submodular by
        construction.
    n_samples : int, default 2000
        Number of pairs tried if n > 12; each costs four evaluations.
    seed : int, Generator or None, default 0
        Seed of the random pairs.
    tol : float, default 1e-9
        Violations below this fraction of the largest absolute value are attributed to rounding.

    Returns
    -------
    SubmodularityReport
        True if no violation was found.

    Raises
    ------
    ValueError
        If f is not 0 at 0.

    Examples
    --------
    >>> from logsuper.functions import SetFunction, check_submodular
    >>> check_submodular(SetFunction(lambda x: min(x.sum(), 2), 4))
    <no violation found in 24 pairs (all)>
    >>> report = check_submodular(SetFunction(lambda x: x.sum() ** 2, 3, check=False))
    >>> report
    <not submodular: given [], elements 0 and 1 gain 2 more together than apart (6 pairs, all)>
    """
    if not isinstance(f, SubmodularFunction):
        raise TypeError("f must be a function of the library; wrap a callable in SetFunction")
    n_samples = check_natural(n_samples, "n_samples")
    if check_number(tol, "tol") < 0:
        raise ValueError(f"tol must be at least 0, got {tol:g}")
    if f.n < 2:
        _check_zero(f, float(np.abs(f(np.ones(f.n)))))
        return SubmodularityReport(None, True, 0)
    exhaustive = f.n <= _EXHAUSTIVE
    X, i, j = _all_pairs(f.n) if exhaustive else _some_pairs(f.n, n_samples, seed)
    if exhaustive:
        # each point belongs to many pairs, so evaluate each point once
        bits = 2 ** np.arange(f.n)
        table = np.asarray(f((np.arange(2**f.n)[:, None] >> np.arange(f.n)) & 1))
    rows, corners = np.arange(len(X)), []
    for add_i, add_j in ((0, 0), (1, 0), (0, 1), (1, 1)):
        corner = X.copy()
        corner[rows, i], corner[rows, j] = add_i, add_j
        corners.append(table[corner @ bits] if exhaustive else np.asarray(f(corner)))
    excess = corners[3] + corners[0] - corners[1] - corners[2]
    scale = float(np.max(np.abs(corners), initial=0.0))
    _check_zero(f, scale)
    violated = None
    if len(excess) and excess.max() > tol * scale:
        k = int(excess.argmax())
        violated = Violation(X[k].astype(np.uint8), int(i[k]), int(j[k]), float(excess[k]))
    return SubmodularityReport(violated, exhaustive, len(excess))


def _check_zero(f: SubmodularFunction, scale: float) -> None:
    """Raise a ValueError unless f(0) = 0 up to the rounding error of values of size `scale`."""
    value = float(f(np.zeros(f.n)))
    if not abs(value) <= _ROUNDING * scale:
        raise ValueError(
            f"f is {value:g} at 0 and must be 0 there: let `_evaluate` of {f!r} subtract it"
        )


_Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _all_pairs(n: int) -> _Pairs:
    """Return all (x, i, j) with i < j and x_i = x_j = 0."""
    points = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    parts = []
    for i in range(n):
        for j in range(i + 1, n):
            X = points[(points[:, i] == 0) & (points[:, j] == 0)]
            parts.append((X, np.full(len(X), i), np.full(len(X), j)))
    X, i_, j_ = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, i_, j_


def _some_pairs(n: int, samples: int, seed: Seed) -> _Pairs:
    rng = as_generator(seed)
    X = (rng.random((samples, n)) < rng.random((samples, 1))).astype(np.int64)
    i = rng.integers(n, size=samples)
    j = (i + rng.integers(1, n, size=samples)) % n
    X[np.arange(samples), i] = 0
    X[np.arange(samples), j] = 0
    return X, np.minimum(i, j), np.maximum(i, j)
