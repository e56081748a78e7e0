r"""Pseudo-likelihood: the likelihood of each element given all others.

J. Besag, "Statistical analysis of non-lattice data", The Statistician 24, 1975. With
:math:`p(x_d=1\mid x_{-d})=\sigma(-g_d)`, where :math:`g_d=f(x,x_d=1)-f(x,x_d=0)`,

.. math:: -\sum_d\log p(x_d\mid x_{-d})=\sum_d\log\bigl(1+e^{(2x_d-1)g_d}\bigr),

and g is linear in the parameters: a logistic regression, without any log-partition function.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import expit

from logsuper._base import FloatArray, IntArray, Seed
from logsuper.bounds import need_pairs
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Loss, Penalty, check_problem, refuse_certainty
from logsuper.learning._smooth import Function, minimize

# Maximum number of gains (elements times functions) that are kept; beyond, they are recomputed.
_KEPT = 1 << 25


@dataclasses.dataclass(frozen=True, eq=False)
class PseudoLikelihood:
    """The mean negative log-pseudo-likelihood of labelled examples, convex in the parameters."""

    examples: Examples
    _gains: dict[tuple[Group, int], FloatArray] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.examples.labelled:
            raise ValueError(
                "labels are missing; the pseudo-likelihood needs a label for every pixel of every "
                "example (`exact` does not)"
            )
        refuse_certainty(self.examples, labels=True)

    def loss(self, theta: FloatArray) -> Loss:
        """Return the mean loss of all examples, and its gradient."""
        examples, count = self.examples, self.examples.count
        alpha = theta[examples.layout.blocks["alpha"]]
        value, gradient = 0.0, np.zeros(examples.layout.size)
        for group, rows in examples.pieces():
            assert group.labels is not None
            gains = self._gain(group, rows)
            sign = 2.0 * group.labels[rows] - 1.0
            # g = sum_k alpha_k g_k - u
            margin = sign * (np.tensordot(alpha, gains, 1) - examples.fields(theta, group, rows))
            value += float(np.logaddexp(0.0, margin).sum()) / count
            # the derivative in g is that in -u, and in the k-th weight over g_k
            slope = sign * expit(margin)
            stats = -np.einsum("kbd,bd->bk", gains, slope)
            moments = Moments(stats, -slope, examples.agreement(group, rows, -slope))
            gradient += examples.statistics(group, rows, moments).sum(axis=0) / count
        return Loss(value, 0.0, gradient, 0)

    def _gain(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the gains of each function at the labels, (K, B, n); kept if they are few."""
        key = group, int(rows[0])
        if key in self._gains:
            return self._gains[key]
        gains = self._find_gains(group, rows)
        if sum(kept.size for kept in self._gains.values()) + gains.size <= _KEPT:
            self._gains[key] = gains
        return gains

    def _find_gains(self, group: Group, rows: IntArray) -> FloatArray:
        assert group.labels is not None
        x = group.labels[rows]
        if group.edge_weights is None:
            return np.array([f.gains(x) for f in group.prepared.functions])
        pairs = need_pairs(group.prepared, True, "pseudo with edge_weights")
        weights = [pairs.scaled(factors) for factors in group.edge_weights[rows]]
        each = [pairs.gains(w, row) for w, row in zip(weights, x, strict=True)]
        return np.stack(each, axis=1)


def pseudo(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
) -> Learned:
    r"""Maximise the pseudo-likelihood :math:`\prod_d p(x_d\mid x_{-d})` by L-BFGS.

    Cheap, convex, and consistent where the model is true. On smooth images, which no model of this
    kind has drawn, it sees next to no pixel that differs from all its neighbours, and strongly
    over-estimates the coupling: a start and a baseline rather than a result.

    Parameters
    ----------
    examples : Examples
        With all labels.
    penalty : Penalty
    start : ndarray of shape (P,), optional
    seed, n_jobs
        Not used: nothing is random, and NumPy does the work.
    callback : callable, optional
    tol, max_iter
        As in `minimize`.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, pseudo
    >>> fh, fv = ls.grid_cuts((8, 8))
    >>> x = ls.LogSupermodular(0.6 * fh + 0.4 * fv).sample(4000, "cftp", seed=0)
    >>> data = make_examples([fh, fv], labels=x.reshape(-1, 8, 8), modular="shared")
    >>> np.round(pseudo(data, Penalty.of(data.layout)).parameters.alpha, 1)
    array([0.6, 0.4])
    """
    check_problem(examples, penalty)
    objective = Function(examples, PseudoLikelihood(examples).loss)
    return minimize(objective, penalty, start=start, callback=callback, tol=tol, max_iter=max_iter)
