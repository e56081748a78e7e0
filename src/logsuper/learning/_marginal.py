r"""Weighted marginal likelihood: each pixel's own label, with what an error there costs.

.. math:: L_i(\theta)=\sum_dc_{id}\bigl[A_i(\theta)-A_i(\theta\mid x_{id})\bigr],

with A the logistic bound and :math:`A(\theta\mid x_d)` that of the model in which only element d is
held at its label: :math:`A-A(x_d)` stands for :math:`-\log p(x_d\mid z)` (T. Shpakova, F. Bach and
A. Osokin, "Marginal weighted maximum log-likelihood for efficient learning of perturb-and-MAP
models", UAI 2018). With :math:`m_d` the difference of the maxima with :math:`y_d=1` and
:math:`y_d=0`, which does not depend on the noise of d, that is

.. math:: A-A(x_d)=E\max\bigl(0,-(2x_d-1)(m_d+\zeta_d)\bigr)
          =E\log\bigl(1+e^{-(2x_d-1)m_d}\bigr)\ge-\log P(y^*_d=x_d),

the log loss of the probability that a perturbed maximiser has the label, up to Jensen's inequality:
a logistic regression on :math:`m_d`. It is a difference of convex functions, so that the start
matters. All maxima of a draw come from one maximal flow (`logsuper.Prepared.label_losses`).
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    IntArray,
    Seed,
    as_generator,
    as_keys,
    beat,
    check_integer,
)
from logsuper.learning._descent import descend, draws_of, logistic
from logsuper.learning._engines import FreshNoise, noise_key
from logsuper.learning._examples import Examples, Moments
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._max_margin import pixel_weights
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem, refuse_certainty

# Perturbations of each example in an estimate of the objective.
_ESTIMATED = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Marginal(Objective):
    """The mean weighted marginal loss of examples, whose engine is fresh noise.

    Attributes
    ----------
    costs : dict
        What an error costs at each pixel, (n,) or (N, n), by the identity of the group.
    """

    costs: dict[int, FloatArray] = dataclasses.field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Whether one evaluation serves all examples: not where each has its own labels."""
        return False

    def loss(self, theta: FloatArray, index: IntArray | None = None, step: int = 0) -> Loss:
        """Return the mean loss of some examples, all by default, and its gradient."""
        examples, engine = self.examples, self.engine
        assert isinstance(engine, FreshNoise)
        value, variance, gradient = 0.0, 0.0, np.zeros(examples.layout.size)
        count = examples.count if index is None else len(index)
        key = noise_key(engine.seed, "free", step)
        for group, rows in examples.pieces(engine.n_samples, index):
            beat()
            assert group.labels is not None
            costs = self.costs[id(group)]
            found = group.prepared.label_losses(
                examples.fields(theta, group, rows),
                theta[examples.layout.blocks["alpha"]],
                group.labels[rows],
                costs if costs.ndim == 1 else costs[rows],
                engine.n_samples,
                key,
                edge_weights=group.factors(rows),
                numbers=group.index[rows],
                n_jobs=engine.n_jobs,
            )
            agreement = examples.agreement(group, rows, found.mean)
            moments = Moments(found.stats, found.mean, agreement)
            share, draws = len(rows) / count, found.values
            value += share * float(draws.mean())
            gradient += share * examples.mean_statistics(group, rows, moments)
            spread = draws.var(axis=1, ddof=1).mean() if draws.shape[1] > 1 else np.nan
            variance += share**2 * float(spread) / draws.size
        return Loss(value, float(np.sqrt(variance)), gradient, count * engine.n_samples)


def marginal(
    examples: Examples,
    penalty: Penalty,
    *,
    loss: str | ArrayLike = "hamming",
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    batch: int | None = None,
    n_samples: int | None = None,
) -> Learned:
    r"""Minimise the weighted marginal loss by stochastic subgradients, from maximum likelihood on.

    For losses that count wrong pixels, some of them more than others: a pixel's own probability is
    learned, not that of the whole mask. Where errors of ones cost :math:`c_1` and those of zeros
    :math:`c_0`, log-odds exceed those of a fit without costs by about :math:`\log(c_1/c_0)`: a
    pixel is then a one if its probability is above one half.

    Parameters
    ----------
    examples : Examples
        With labels, all or some; conditional where there are observations.
    penalty : Penalty
    loss : "hamming" or array-like
        What an error costs at each pixel, as in `max_margin`: 1 by default.
    start : ndarray of shape (P,), optional
        By default the result of `logistic` with the same penalty.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    callback, tol, max_iter, batch
        As in `descend`.
    n_samples : int, optional
        Perturbations of each example of a step; five by default, fewer for large images.

    Returns
    -------
    Learned
        Its details are those of `descend`.

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, marginal
    >>> x = ls.make_silhouettes(12, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="shared"
    ... )
    >>> penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01)
    >>> plain = marginal(data, penalty, tol=1e-2)
    >>> costly = marginal(data, penalty, loss=np.where(x == 1, 5.0, 1.0), tol=1e-2)
    >>> bool(costly.parameters.modular > plain.parameters.modular)
    True
    """
    check_problem(examples, penalty)
    if not examples.has_labels:
        raise ValueError("labels are missing; marginal learns from labels, all or some")
    refuse_certainty(examples, labels=True)
    costs = pixel_weights(examples, loss)
    count = draws_of(examples) if n_samples is None else n_samples
    count = check_integer(count, "n_samples", 1, 2**31)
    rng = as_generator(seed)
    keys = as_keys(rng, 2)
    if start is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # that of the result is passed on
            first: dict[str, Any] = {"seed": rng, "n_jobs": n_jobs, "callback": callback, "tol": tol}
            start = logistic(examples, penalty, max_iter=max_iter, **first).theta
    return descend(
        Marginal(examples, FreshNoise(count, keys[0], n_jobs), costs=costs),
        penalty,
        start=start,
        seed=rng,
        callback=callback,
        tol=tol,
        max_iter=max_iter,
        batch=batch,
        estimate=FreshNoise(_ESTIMATED, keys[1], n_jobs),
    )
