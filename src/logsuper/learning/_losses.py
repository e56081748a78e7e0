"""What an evaluation of an objective gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from logsuper._base import FloatArray


class Loss(NamedTuple):
    """The loss of some examples.

    Attributes
    ----------
    value : float
        Their mean.
    stderr : float
        Its standard error due to the perturbations; NaN where there is only one per example.
    gradient : ndarray of shape (P,)
        In the order of the layout.
    cuts : int
        Maximisations that were solved.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Exact, Objective, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> loss = Objective.supervised(data, Exact()).loss(data.layout.fill(alpha=0.5))
    >>> loss.gradient.shape, loss.cuts
    ((3,), 1)
    """

    value: float
    stderr: float
    gradient: FloatArray
    cuts: int


class Term(NamedTuple):
    """One of the two sides of the loss, averaged over examples.

    Attributes
    ----------
    value : float
        The log-partition function.
    phi : ndarray of shape (P,)
        The expected statistics, in the order of the layout.
    variance : float
        Of `value`, due to the perturbations.
    cuts : int
        Maximisations that were solved.
    counts : ndarray
        What a channel can be refitted from; 0 where none was given.
    draws : ndarray of shape (B, S) or None
        The values of each example under each perturbation.
    """

    value: float
    phi: FloatArray
    variance: float
    cuts: int
    counts: FloatArray
    draws: FloatArray | None = None

    def variance_beside(self, other: Term) -> float:
        """Return the variance of the difference to the other side, which may share the noise."""
        if self.draws is None or other.draws is None or self.draws.shape != other.draws.shape:
            return self.variance + other.variance
        return variance_of(self.draws - other.draws)


def average_terms(terms: Sequence[Term], counts: Sequence[int]) -> Term:
    """Return a side of all examples, given that of pieces with so many examples."""
    if len(terms) == 1:
        return terms[0]
    shares = np.array(counts) / sum(counts)
    return Term(
        float(shares @ [term.value for term in terms]),
        np.asarray(shares @ np.array([term.phi for term in terms])),
        float(shares**2 @ [term.variance for term in terms]),
        sum(term.cuts for term in terms),
        np.zeros(()),
    )


def variance_of(draws: FloatArray) -> float:
    """Return the variance of the mean of draws (B, S), NaN where there is one per example."""
    spread = draws.var(axis=1, ddof=1).mean() if draws.shape[1] > 1 else np.nan
    return float(spread) / draws.size
