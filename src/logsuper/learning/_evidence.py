r"""The log-likelihood of each observation: the held side of an `Objective` less the free one."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.channels import Channel
from logsuper.learning._decoding import check_theta, make_model
from logsuper.learning._engines import WIDTH, Engine, Exact, Strips
from logsuper.learning._examples import Examples, check_examples
from logsuper.learning._objective import Objective, refuse_context


def log_evidence(
    examples: Examples, theta: ArrayLike, engine: Engine, *, budget: float = 1e9
) -> FloatArray:
    r"""Return the log-likelihood :math:`\log p(z_i)` of each observation.

    Parameters
    ----------
    examples : Examples
        With observations and their channel; no channel scale.
    theta : array-like of shape (P,)
        Parameters in the order of the layout.
    engine : Engine
        Computes the log-partition functions. With an exact one the values are exact, and so
        they are with `Exact` on image grids with a side of up to about 12 pixels. On larger grids
        the engine gives bounds, whose difference is not a bound: the values then are the middles
        of `bracket_log_evidence`.
    budget : float, default 1e9
        Of `bracket_log_evidence`.

    Returns
    -------
    ndarray of shape (N,)
        In the user's order.

    Warns
    -----
    ConvergenceWarning
        When such a bracket is wider than a tenth of a nat; the message has the width.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Exact, log_evidence, make_examples
    >>> z = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> data = make_examples([ls.Cut(2, [(0, 1)])], observed=z, channel=ls.Flips(0.1))
    >>> np.exp(log_evidence(data, [1.0, 0.0, 0.0], Exact())).round(3)
    array([0.324, 0.176, 0.176, 0.324])
    """
    check_examples(examples)
    channel = check_evidence(examples)
    if not isinstance(engine, Engine):
        raise TypeError(f"engine must be an engine, such as Exact(), got {type(engine).__name__}")
    parameters = check_theta(examples, theta)
    bounds = isinstance(engine, Exact | Strips) and any(map(engine.bounds, examples.groups))
    if bounds:
        lower, upper = bracket_log_evidence(
            examples, parameters, budget=budget, n_jobs=getattr(engine, "n_jobs", None)
        )
        width = upper - lower
        if width.max() > WIDTH:
            worst = int(width.argmax())
            warnings.warn(
                f"log p(z) of observed[{worst}] is known to {width[worst]:.2g} nats only, and the "
                f"middle of its bracket is returned; raise budget = {budget:g}, or take both ends "
                "from bracket_log_evidence",
                ConvergenceWarning,
                stacklevel=2,
            )
        return lower + width / 2
    objective = Objective(examples, engine, latent=True)
    return objective.values(parameters, "held", channel) - objective.values(parameters, "free")


class EvidenceBracket(NamedTuple):
    """Certified bounds on the log-likelihoods of N observations, each of shape (N,)."""

    lower: FloatArray
    upper: FloatArray


def bracket_log_evidence(
    examples: Examples, theta: ArrayLike, *, budget: float = 1e9, n_jobs: int | None = None
) -> EvidenceBracket:
    r"""Return certified lower and upper bounds on :math:`\log p(z_i)`.

    The lower bound is the lower one on the posterior's log-partition function less the upper one
    on the prior's; the upper bound the other way round.

    Parameters
    ----------
    examples : Examples
    theta : array-like of shape (P,)
    budget : float, default 1e9
        Elementary operations for each of the log-partition functions, see
        `LogSupermodular.bracket`.
    n_jobs : int, optional

    Returns
    -------
    lower, upper : ndarray of shape (N,)

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import bracket_log_evidence, make_examples
    >>> data = make_examples([ls.Cut(2, [(0, 1)])], observed=[[0, 1]], channel=ls.Flips(0.1))
    >>> np.exp(bracket_log_evidence(data, [1.0, 0.0, 0.0])).round(3).ravel()
    array([0.176, 0.176])
    """
    check_examples(examples, n_jobs)
    channel = check_evidence(examples)
    parameters = check_theta(examples, theta)
    alpha = parameters[examples.layout.blocks["alpha"]]
    lower, upper = np.empty(examples.count), np.empty(examples.count)
    for group, rows in examples.parts():
        fields = examples.fields(parameters, group, rows, observed=False)
        for row in rows:
            prior = make_model(group, int(row), alpha, fields[row])
            if row == 0 or not group.alike(observed=False):
                before = prior.bracket(budget, n_jobs=n_jobs)
            (image,) = group.images(rows[row : row + 1])
            after = prior.observe(channel, image).bracket(budget, n_jobs=n_jobs)
            lower[group.index[row]] = after.lower - before.upper
            upper[group.index[row]] = after.upper - before.lower
    return EvidenceBracket(lower, upper)


def check_evidence(examples: Examples) -> Channel:
    """Return the channel; refuse examples without a likelihood of observations."""
    refuse_context(examples)
    if examples.channel is None or any(group.observed is None for group in examples.groups):
        raise ValueError("observed is missing; the likelihood of observations needs them")
    if examples.layout.scale:
        raise ValueError(
            "scale=True learns a factor on the log-odds, with which a channel is not a "
            "distribution of observations; make the examples with scale=False"
        )
    return examples.channel
