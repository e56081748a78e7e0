r"""The structured support vector machine with margin rescaling.

.. math:: \min_\theta\ \Omega(\theta)+\frac1N\sum_i
    \max_y\ \theta^\top(\varphi_i(y)-\varphi_i(x_i))+\sum_d\omega_d|y_d-x_{id}|

(I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large margin methods for structured and
interdependent output variables", 2005). The loss only adds :math:`\omega(1-2x_i)` to the field, so
that its maximiser is one more submodular minimisation; `logsuper.learning._frank_wolfe` solves it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, Seed
from logsuper.learning._costs import Cost, pixel_costs, rows_of
from logsuper.learning._engines import Batch, Partition
from logsuper.learning._examples import Examples, Group
from logsuper.learning._frank_wolfe import minimize, refuse_missing_labels
from logsuper.learning._learned import Learned
from logsuper.learning._objective import Objective, Penalty, check_problem


def max_margin(
    examples: Examples,
    penalty: Penalty,
    *,
    loss: str | ArrayLike = "hamming",
    cost: Cost = (1.0, 1.0),
    seed: Seed = 0,
    n_jobs: int | None = None,
    max_iter: int = 500,
    **options: Any,
) -> Learned:
    r"""Train a structured support vector machine, to a certified gap.

    Its parameters are made for decoding by the mode, and say nothing about probabilities.

    Parameters
    ----------
    examples : Examples
        With a label for every pixel; a margin to labels that are not known has no convex form.
    penalty : Penalty
        With a positive weight for every parameter, in wrong pixels per example.
    loss : "hamming" or array-like
        One per wrong pixel; or the weight of each pixel, in the shape of an image, or of all
        images; a list with an array for each image where their shapes differ.
    cost : pair of float or array-like
        Factors on the loss of a false one and of a false zero; arrays have the shape of an image.
    seed : int, Generator or None
        Not used: nothing is random.
    n_jobs : int, optional
        Threads; the result does not depend on them.
    max_iter : int, default 500
        Rounds after which a `ConvergenceWarning` is given.
    **options
        start, callback, tol and blocks, as in `saa`.

    Returns
    -------
    Learned
        With the same details as `saa`.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, max_margin
    >>> x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="shared"
    ... )
    >>> found = max_margin(data, Penalty.of(data.layout, alpha=0.1, modular=0.1))
    >>> found.converged, bool(found.parameters.alpha.min() > 0.3)
    (True, True)
    """
    check_problem(examples, penalty)
    refuse_missing_labels(examples, "max_margin")
    engine = _Augmented(pixel_costs(examples, loss, cost), n_jobs)
    objective = _Margin.supervised(examples, engine)
    return minimize(objective, penalty, name="max_margin", max_iter=max_iter, **options)


@dataclasses.dataclass(frozen=True)
class _Augmented:
    """The value of the most violating y, instead of the log-partition function.

    Attributes
    ----------
    costs : dict
        The losses of false ones and of false zeros, (N or 1, n, 2), of each group.
    n_jobs : int or None
    """

    costs: dict[Group, FloatArray]
    n_jobs: int | None

    def relocate(self, batch: Batch, own: Group) -> _Augmented:
        """Return the engine for another process, where the batch is all of the group `own`."""
        return _Augmented({own: rows_of(self.costs[batch.group], batch.rows)}, None)

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        r"""Maximise :math:`u^\top y-f(y)+\sum_d\omega_d|y_d-x_d|`."""
        group, rows, alpha, fields, _ = batch
        assert group.labels is not None
        # |y - x| = x + (1 - 2x) y
        x = group.labels[rows].astype(np.float64)
        costs = rows_of(self.costs[group], rows)
        weights = np.where(x == 1.0, costs[..., 1], costs[..., 0])
        augmented = fields + weights * (1.0 - 2.0 * x)
        y, values, stats = group.prepared.maximize(
            augmented, alpha, edge_weights=group.factors(rows), n_jobs=self.n_jobs
        )
        values = values + (weights * x).sum(axis=1)
        return Partition(values[:, None], stats, y.astype(np.float64))


class _Margin(Objective):
    """The mean loss of examples; each maximisation depends on the labels of its example."""

    @property
    def alike(self) -> bool:
        """Whether the free side is the same for all examples: not with a loss in it."""
        return False
