r"""Mixtures of forests, by expectation maximisation.

.. math:: p(x)=\sum_c\pi_cp_c(x)

with forests :math:`p_c` (`_forest`): M. Meilă and M. I. Jordan, "Learning with mixtures of trees",
2000. Both steps are exact. The prior acts like additional rows for each component, in which
features are independent and as frequent as in all rows; the objective is

.. math:: \sum_i\log p(x_i)+a\sum_c\big(\log\pi_c+\mathrm E_q\log p_c(x)\big),

with a rows of the law q, and no step lowers it. It is not concave: the result depends on the
start, and the best of several starts is kept. The first steps fit independent features, which
recover from a poor start sooner; their optimum is the start for forests.
"""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import ConvergenceWarning, FloatArray, IntArray
from logsuper.estimators._forest import Forest, Rows, independent_shares, shares_of
from logsuper.learning import Callback, Record

PRIOR = 3.0
"""Weight of the prior, in rows per component."""

TOL = 1e-3
"""Gain in nats per row below which a step is the last one."""

MAX_ITER = 500


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """Forests with their weights, and how they were found.

    Attributes
    ----------
    weights : ndarray of shape (C,)
        Positive, with sum 1.
    forests : tuple of Forest
    history : tuple of Record
        Records of the negative objective per row.
    converged : bool
    """

    weights: FloatArray
    forests: tuple[Forest, ...]
    history: tuple[Record, ...] = ()
    converged: bool = False

    def log_likelihood(self, rows: FloatArray) -> FloatArray:
        """Return the log-probability of the known entries (not NaN) of each row."""
        return np.asarray(np.logaddexp.reduce(self.log_joint(Rows.of(rows)), axis=0))

    def log_joint(self, rows: Rows) -> FloatArray:
        """Return the log-probability of each component and row together, shape (C, N)."""
        each = np.stack([forest.log_likelihood(rows) for forest in self.forests])
        return np.log(self.weights)[:, None] + each


def fit_mixture(
    rows: FloatArray,
    n_components: int,
    *,
    rng: np.random.Generator,
    n_init: int = 1,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    prior: float = PRIOR,
    callback: Callback | None = None,
) -> Mixture:
    """Fit a mixture of forests.

    Parameters
    ----------
    rows : ndarray of shape (N, n)
        0, 1, or NaN for an unknown entry.
    n_components : int
    rng : Generator
        For the starts.
    n_init : int
        Number of starts; a single component needs only one.
    tol : float
    max_iter : int
        Maximum number of steps per start.
    prior : float
        See `PRIOR`.
    callback : callable, optional
        Called with each record of each start.

    Returns
    -------
    Mixture

    Warns
    -----
    ConvergenceWarning
        If the best start has not converged after `max_iter` steps.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> part = rng.random((500, 1)) < 0.3
    >>> x = np.where(part, rng.random((500, 6)) < 0.9, rng.random((500, 6)) < 0.2).astype(float)
    >>> np.sort(fit_mixture(x, 2, rng=rng).weights).round(1)
    array([0.3, 0.7])
    """
    steps = _Steps(rows, prior)
    found = []
    # threads only slow down many small products
    with threadpool_limits(1, user_api="blas"):
        for _ in range(n_init if n_components > 1 else 1):
            start = np.eye(n_components)[:, _nearest_seeds(steps.filled, n_components, rng)]
            found.append(_climb(steps, start, tol, max_iter, callback))
    best = min(found, key=lambda mixture: mixture.history[-1].objective)
    if not best.converged:
        warnings.warn(
            f"the mixture of {n_components} still gains after {max_iter} iterations; raise "
            "max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    return best


# ------------------------------------------------------------------------------------------ inside


class _Steps:
    """The two steps, on some rows."""

    def __init__(self, rows: FloatArray, prior: float) -> None:
        known = ~np.isnan(rows)
        # half an observation of each kind keeps frequencies away from 0 and 1
        self.frequencies: FloatArray = (np.nansum(rows, axis=0) + 0.5) / (known.sum(axis=0) + 1.0)
        self.rows = Rows.of(rows)
        self.filled = np.where(known, rows, self.frequencies)
        self._prior, self._shares = prior, prior * independent_shares(self.frequencies)

    def expect(self, mixture: Mixture) -> tuple[FloatArray, float]:
        """Return the responsibilities (C, N), and the objective per row."""
        joint = mixture.log_joint(self.rows)
        total = np.logaddexp.reduce(joint, axis=0)
        before = np.log(mixture.weights).sum()
        before += sum(forest.expect(self.frequencies) for forest in mixture.forests)
        return np.exp(joint - total), -float(total.sum() + self._prior * before) / self.rows.count

    def maximise(
        self, forests: tuple[Forest, ...], responsibilities: FloatArray, couple: bool
    ) -> Mixture:
        """Return the likeliest mixture, given what the forests say about unknown entries."""
        totals = responsibilities.sum(axis=1)
        found = []
        for forest, weights, total in zip(forests, responsibilities, totals, strict=True):
            if couple:
                together = forest.together(self.rows, weights)
                p = self._share(np.diagonal(together), total)
                found.append(Forest.likeliest(p, shares_of(together, total, self._shares)))
            else:
                p = self._share(forest.means(self.rows, weights), total)
                found.append(Forest.independent(p))
        seen = totals + self._prior
        return Mixture(seen / seen.sum(), tuple(found))

    def _share(self, ones: FloatArray, total: float) -> FloatArray:
        """Return the share of ones, those of the prior included."""
        return np.asarray((ones + self._prior * self.frequencies) / (total + self._prior))


def _climb(
    steps: _Steps, start: FloatArray, tol: float, max_iter: int, callback: Callback | None
) -> Mixture:
    """Repeat both steps from given responsibilities (C, N), first without couplings."""
    responsibilities, components = start, len(start)
    # unknown entries are first filled in from the frequencies
    mixture = Mixture(np.ones(1), (Forest.independent(steps.frequencies),) * components)
    history: list[Record] = []
    couple = components == 1
    while True:
        couple = couple or len(history) >= max_iter // 2
        mixture = steps.maximise(mixture.forests, responsibilities, couple)
        responsibilities, objective = steps.expect(mixture)
        history.append(Record(len(history) + 1, 0, objective))
        if callback is not None:
            callback(history[-1])
        settled = len(history) > 1 and history[-2].objective - objective < tol
        if couple and (settled or len(history) >= max_iter):
            return dataclasses.replace(mixture, history=tuple(history), converged=settled)
        couple = couple or settled


def _nearest_seeds(rows: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return, for each row, the nearest of some rows that are far from each other (k-means++)."""
    nearest = np.zeros(len(rows), dtype=np.int64)
    distance = np.full(len(rows), np.inf)
    chances = np.ones(len(rows))
    for c in range(count):
        if c and distance.any():  # else all rows are equal to a seed
            chances = distance
        seed = rows[rng.choice(len(rows), p=chances / chances.sum())]
        new = ((rows - seed) ** 2).sum(axis=1)
        nearest[new < distance] = c
        distance = np.minimum(distance, new)
    return nearest
