r"""Learning with the L-field bound (section 4.1).

.. math:: A(f)\le A_L(f)=\min_{s\in B(f)}\sum_d\log(1+e^{-s_d})=\max_{\mu\in[0,1]^n}H(\mu)-f(\mu)

with the entropy H and the Lovász extension of f on the right. The maximiser is unique, so that the
bound is differentiable: the expected x is :math:`\mu=\sigma(-s)`, the expected :math:`f_k` is
:math:`f_k(\mu)`.

For generative learning with one free field per pixel it is degenerate: the optimum has
:math:`\mu=\bar x`, the mean of the data, where the derivative in :math:`\alpha_k` is
:math:`\frac1N\sum_if_k(x_i)-f_k(\bar x)\ge0` by Jensen's inequality. So :math:`\alpha=0` is
optimal, and the only optimum unless the data form a chain. Conditional models are not degenerate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from logsuper._base import FloatArray, IntArray, Seed
from logsuper.functions import SubmodularFunction
from logsuper.learning._decoding import make_function
from logsuper.learning._engines import Batch, Partition
from logsuper.learning._examples import Examples, Group
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Objective, Penalty, check_problem
from logsuper.learning._smooth import minimize
from logsuper.solvers import min_norm_point


class LField:
    """The L-field bound, by the min-norm points of the base polytopes.

    Parameters
    ----------
    n_jobs : int, optional
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def relocate(self, batch: Batch, own: Group) -> LField:
        """Return the engine for another process."""
        return LField()

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Find the min-norm points, of all examples at once where their functions are the same."""
        group, rows, alpha, fields, _ = batch
        values, mean = np.empty(len(rows)), np.empty(fields.shape)
        fixed = np.isinf(fields)
        alone = fixed.any(axis=1) | (group.edge_weights is not None)
        if not alone.all():
            f = make_function(group, 0, alpha)
            values[~alone], mean[~alone] = _solve(f, fields[~alone], self.n_jobs)
        for b in np.flatnonzero(alone):
            f = make_function(group, int(rows[b]), alpha)
            point = {int(i): int(fields[b, i] > 0) for i in np.flatnonzero(fixed[b])}
            g, constant = f.condition(point)
            free = ~fixed[b]
            value, mean[b, free] = _solve(g, fields[b, free][None], self.n_jobs)
            values[b] = value[0] - constant
            mean[b, fixed[b]] = fields[b, fixed[b]] > 0
        return Partition(values[:, None], self._stats(group, rows, mean), mean)

    @staticmethod
    def _stats(group: Group, rows: IntArray, mean: FloatArray) -> FloatArray:
        """Return the Lovász extensions of the functions, (B, K)."""
        if group.edge_weights is None:
            return np.stack([f.lovasz(mean) for f in group.prepared.functions], axis=1)
        each = np.eye(len(group.prepared.functions))
        return np.array(
            [
                [make_function(group, row, one).lovasz(m) for one in each]
                for row, m in zip(rows.tolist(), mean, strict=True)
            ]
        )


def lfield(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-5,
    max_iter: int = 200,
) -> Learned:
    r"""Minimise the L-field bound on :math:`-\log p(x)` or :math:`-\log p(x\mid z)` by L-BFGS.

    It is a bound with all labels. With some, :math:`A_L(f)-A_L(f\mid x_O)` is the difference of two
    upper bounds: an approximation, above or below, and not convex.

    Without observations or features, and with one field per pixel, the optimum is degenerate: no
    coupling, and the logits of the pixels' means (section 4.1).

    Parameters
    ----------
    examples : Examples
        With labels; some of them may be missing.
    penalty : Penalty
    start : ndarray of shape (P,), optional
    seed
        Not used: nothing is random.
    n_jobs : int, optional
        Threads over the examples.
    callback : callable, optional
    tol, max_iter
        As in `minimize`.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Penalty, lfield, make_examples
    >>> x = ls.make_silhouettes(20, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x)
    >>> lfield(data, Penalty.of(data.layout, modular=0.01)).parameters.alpha
    array([0., 0.])
    """
    check_problem(examples, penalty)
    objective = Objective.supervised(examples, LField(n_jobs))
    return minimize(objective, penalty, start=start, callback=callback, tol=tol, max_iter=max_iter)


# ------------------------------------------------------------------------------------------ inside


def _solve(
    f: SubmodularFunction, fields: FloatArray, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return the bound and the expected x for each field."""
    s = min_norm_point(f, fields, n_jobs=n_jobs).s
    return np.logaddexp(0.0, -s).sum(axis=1), np.asarray(expit(-s))
