r"""How sure probabilities may be: one number that softens, or sharpens, all of them.

What a field makes of a classifier's errors is surer than it should be: a wrong region is wrong as a
whole, and neighbours that agree count as if each had judged on its own. Dividing all log-odds by a
temperature T,

.. math:: p_T=\sigma\bigl(\operatorname{logit}(p)/T\bigr),

changes no decision, and the T with the least log loss on labelled pixels makes probabilities as
sure as they are right (C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern
neural networks", 2017). The log loss is convex in 1/T. Without labels, the `score` of hidden pixels
takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import logit

from logsuper._base import FloatArray, Seed
from logsuper.learning._decoding import SAMPLES, means
from logsuper.learning._examples import Examples, check_examples
from logsuper.learning._score import Hiding, blind, check_temperature, heat, log_predictive

# Temperatures that are looked at: beyond, probabilities would mean nothing, or the data are few.
_LEAST, _MOST = 0.1, 100.0


def soften(probabilities: ArrayLike, temperature: float) -> FloatArray:
    """Return probabilities whose log-odds are divided by a temperature.

    Parameters
    ----------
    probabilities : array-like
        0 and 1 stay as they are.
    temperature : float
        Above 1 all come nearer to .5, below 1 nearer to 0 or 1.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> from logsuper.learning import soften
    >>> soften([0.1, 0.5, 0.9], 2.0).round(2)
    array([0.25, 0.5 , 0.75])
    """
    t = check_temperature(temperature)
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("probabilities must lie in [0, 1]")
    return heat(p, t)


def best_temperature(
    examples: Examples,
    theta: ArrayLike,
    *,
    features: Callable[[Any], Any] | None = None,
    edge_weights: Callable[[Any], Any] | None = None,
    method: str = "logistic",
    n_samples: int = SAMPLES,
    seed: Seed = 0,
    n_jobs: int | None = None,
) -> float:
    """Return the temperature at which the probabilities of `means` have the least log loss.

    Parameters
    ----------
    examples : Examples
        With labels, and features as new examples will have them: of a classifier that has not seen
        these images. Without labels, observed pixels are hidden and predicted, see `score`.
    theta : array-like of shape (P,)
        The parameters.
    features, edge_weights : callable, optional
        As in `score`, for examples without labels.
    method, samples, seed, n_jobs
        As in `means`.

    Returns
    -------
    float
        For `soften`; from .1 to 100.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import best_temperature, make_examples
    >>> x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.2).sample(x, seed=1)
    >>> data = make_examples(  # a channel that claims too little noise
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.02), modular="none"
    ... )
    >>> best_temperature(data, [0.5, 0.5]) > 1.5
    True
    """
    check_examples(examples, n_jobs)
    if not examples.has_labels:
        made = blind(examples, features, edge_weights)
        hiding = Hiding(4, n_samples, seed, n_jobs, method, made)
        return _least(_hidden(examples, np.asarray(theta), hiding))
    p = means(examples, theta, method=method, n_samples=n_samples, seed=seed, n_jobs=n_jobs)
    margins = np.concatenate([logit(own) * (2.0 * x - 1.0) for x, own in examples.compare(p)])
    # what is certain stays so at any temperature
    margins = margins[np.isfinite(margins)]
    if not margins.size:
        return 1.0
    return _least(lambda t: float(np.logaddexp(0.0, -margins / t).mean()))


# ------------------------------------------------------------------------------------------ inside


def _hidden(examples: Examples, theta: FloatArray, hiding: Hiding) -> Callable[[float], float]:
    """Return minus the score of hidden pixels as a function of the temperature."""
    found = hiding.means(examples, theta)

    def loss(t: float) -> float:
        total, known = 0.0, 0
        for group, mean in zip(examples.groups, found, strict=True):
            logs = log_predictive(examples, group, np.arange(group.count), heat(mean, t))
            total -= float(np.nansum(logs))
            known += int(np.count_nonzero(logs == logs))
        return total / max(known, 1)

    return loss


def _least(loss: Callable[[float], float]) -> float:
    """Return the temperature of the least loss, which has one minimum in 1/T."""
    found = minimize_scalar(
        lambda inverse: loss(1.0 / inverse),
        bounds=(1.0 / _MOST, 1.0 / _LEAST),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(1.0 / found.x)
