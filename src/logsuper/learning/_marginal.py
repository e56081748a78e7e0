r"""Weighted marginal likelihood: each pixel's own label, with what errors cost.

For losses that count wrong pixels, the log loss of each pixel's own probability,

.. math:: L_i(\theta)=-\sum_da_{id}\log q_{id},\qquad
          q_{id}=\frac{a_{id}r_{id}}{a_{id}r_{id}+b_{id}(1-r_{id})},

is nearer to what matters than that of the whole mask (T. Shpakova, F. Bach and A. Osokin, "Marginal
weighted maximum log-likelihood for efficient learning of perturb-and-MAP models", UAI 2018). Here
:math:`r_d=P(y_d=x_d)` is the probability that a perturbed maximiser has the label of pixel d, a is
the cost of an error at this label and b that of the other error. They have
:math:`a[A-A(x_d)]` instead, with A the logistic bound and :math:`A(x_d)` that with pixel d held:
the same with the mean over perturbations outside of the logarithm and b = a, which prefers
couplings that are much too weak (``docs/decisions.md``). In L the means over a few perturbations
are inside, so that couplings are a little too weak with few of them. All maxima of a perturbation
come from one maximal flow (`logsuper.Prepared.label_losses`). L is not convex.
"""

from __future__ import annotations

import dataclasses
import warnings

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
from logsuper.learning._costs import Cost, pixel_costs, rows_of
from logsuper.learning._descent import descend, draws_of, logistic
from logsuper.learning._engines import FreshNoise, noise_key
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem, refuse_certainty


@dataclasses.dataclass(frozen=True, eq=False)
class Marginal(Objective):
    """The mean weighted marginal loss of examples, whose engine is fresh noise.

    Attributes
    ----------
    costs : dict
        The costs of false ones and of false zeros, (N or 1, n, 2), of each group.
    """

    costs: dict[Group, FloatArray] = dataclasses.field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Whether one evaluation serves all examples: not where each has its own labels."""
        return False

    def loss(self, theta: FloatArray, index: IntArray | None = None, step: int = 0) -> Loss:
        """Return the mean loss of some examples, all by default, and its gradient."""
        examples, engine = self.examples, self.engine
        assert isinstance(engine, FreshNoise)
        value, gradient = 0.0, np.zeros(examples.layout.size)
        count = examples.count if index is None else len(index)
        key = noise_key(engine.seed, "free", step)
        for group, rows in examples.pieces(engine.n_samples, index):
            beat()
            assert group.labels is not None
            found = group.prepared.label_losses(
                examples.fields(theta, group, rows),
                theta[examples.layout.blocks["alpha"]],
                group.labels[rows],
                rows_of(self.costs[group], rows),
                n_samples=engine.n_samples,
                seed=key,
                edge_weights=group.factors(rows),
                numbers=group.index[rows],
                n_jobs=engine.n_jobs,
            )
            agreement = examples.agreement(group, rows, found.mean)
            moments = Moments(found.stats, found.mean, agreement)
            share = len(rows) / count
            value += share * float(found.values.mean())
            gradient += share * examples.mean_statistics(group, rows, moments)
        # the mean over draws is inside of a logarithm: they do not tell its standard error
        return Loss(value, np.nan, gradient, count * engine.n_samples)


def marginal(
    examples: Examples,
    penalty: Penalty,
    *,
    loss: str | ArrayLike = "hamming",
    cost: Cost = (1.0, 1.0),
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

    A pixel's own probability is learned, not that of the whole mask, and with a `cost` mostly where
    it is near the threshold that decisions with this cost have. Probabilities keep their meaning.

    Parameters
    ----------
    examples : Examples
        With labels, all or some; conditional where there are observations.
    penalty : Penalty
    loss : "hamming" or array-like
        Weights of the pixels, as in `max_margin`: 1 by default.
    cost : pair of float or array-like
        Of a false one and of a false zero; arrays have the shape of an image.
    start : ndarray of shape (P,), optional
        By default the result of `logistic` with the same penalty.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    callback, tol, max_iter, batch
        As in `descend`.
    n_samples : int, optional
        Perturbations of each example of a step; by default five, and fewer for large images.

    Returns
    -------
    Learned
        Its details are those of `descend`.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, marginal
    >>> x = ls.make_silhouettes(12, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="shared"
    ... )
    >>> penalty = Penalty.of(data.layout, alpha=0.01, modular=0.01)
    >>> found = marginal(data, penalty, cost=(1.0, 5.0), tol=1e-2)
    >>> found.converged, bool((found.parameters.alpha > 0.3).all())
    (True, True)
    """
    check_problem(examples, penalty)
    if not examples.has_labels:
        raise ValueError("labels are missing; marginal learns from labels, all or some")
    refuse_certainty(examples, labels=True)
    costs = pixel_costs(examples, loss, cost)
    count = draws_of(examples) if n_samples is None else n_samples
    count = check_integer(count, "n_samples", 1, 2**31)
    rng = as_generator(seed)
    keys = as_keys(rng, 2)
    if start is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # that of the result is passed on
            start = logistic(
                examples,
                penalty,
                seed=rng,
                n_jobs=n_jobs,
                callback=callback,
                tol=tol,
                max_iter=max_iter,
            ).theta
    return descend(
        Marginal(examples, FreshNoise(count, keys[0], n_jobs), costs=costs),
        penalty,
        start=start,
        seed=rng,
        callback=callback,
        tol=tol,
        max_iter=max_iter,
        batch=batch,
        estimate=FreshNoise(count, keys[1], n_jobs),
    )
