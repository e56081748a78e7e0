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

from logsuper._base import FloatArray, Seed, as_float, refuse_negative
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
    engine = _Augmented(_pixel_weights(examples, loss), n_jobs)
    objective = _Margin.supervised(examples, engine)
    return minimize(objective, penalty, name="max_margin", max_iter=max_iter, **options)


@dataclasses.dataclass(frozen=True)
class _Augmented:
    """The value of the most violating y, instead of the log-partition function.

    Attributes
    ----------
    weights : dict
        The loss of each pixel, (n,) or (N, n), of each group.
    n_jobs : int or None
    """

    weights: dict[Group, FloatArray]
    n_jobs: int | None

    def relocate(self, batch: Batch, own: Group) -> _Augmented:
        """Return the engine for another process, where the batch is all of the group `own`."""
        given = self.weights[batch.group]
        return _Augmented({own: given if given.ndim == 1 else given[batch.rows]}, None)

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        r"""Maximise :math:`u^\top y-f(y)+\sum_d\omega_d|y_d-x_d|`."""
        group, rows, alpha, fields, _ = batch
        assert group.labels is not None
        # |y - x| = x + (1 - 2x) y
        x = group.labels[rows].astype(np.float64)
        given = self.weights[group]
        weights = given if given.ndim == 1 else given[rows]
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


def _pixel_weights(examples: Examples, loss: str | ArrayLike) -> dict[Group, FloatArray]:
    """Return the weight of each pixel in the loss, for every group."""
    if isinstance(loss, str):
        if loss != "hamming":
            raise ValueError(f"loss must be 'hamming' or the weights of pixels, got {loss!r}")
        return {group: np.ones(group.prepared.n) for group in examples.groups}
    shapes = [group.shape for group in examples.groups]
    if len(shapes) == 1:
        group = examples.groups[0]
        weights = _as_weights(loss, "loss", shapes[0], (examples.count, *shapes[0]))
        one = weights.shape == group.shape
        return {group: weights.ravel() if one else weights.reshape(group.count, -1)}
    if not isinstance(loss, list | tuple) or len(loss) != examples.count:
        raise ValueError(
            f"loss must be 'hamming' or a list of {examples.count} arrays, one per image, for "
            f"images of {' and '.join(map(str, shapes))}"
        )
    return {
        group: np.stack(
            [_as_weights(loss[i], f"loss[{i}]", group.shape).ravel() for i in group.index]
        )
        for group in examples.groups
    }


def _as_weights(loss: Any, name: str, *shapes: tuple[int, ...]) -> FloatArray:
    """Return weights of pixels, of one of the given shapes."""
    weights = as_float(loss, name)
    refuse_negative(weights, name, "a wrong pixel must not be a gain")
    if weights.shape not in shapes:
        raise ValueError(f"{name} has shape {weights.shape}, but the image has {shapes[0]}")
    return weights
