r"""The likelihood of observations alone (section 4.4).

.. math:: \log p(z) = A(f-l) - A(f) + \sum_d\log p(z_d\mid x_d=0)

with l the log-odds of the observation z: the log-partition function of the posterior less that of
the prior. Each may have its own engine, for the prior is common to all images, and deserves better.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import ConvergenceWarning, FloatArray, IntArray
from logsuper.channels import Channel
from logsuper.learning._decoding import check_theta, make_model
from logsuper.learning._engines import Engine, Partition
from logsuper.learning._exact_engines import WIDTH, Exact, Strips, some_of
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._features import Context
from logsuper.learning._inputs import check_examples

__all__ = ["Evidence", "Side", "bracket_log_evidence", "log_evidence"]

# Fields of that many pixels are made at once, perturbed ones included.
_HELD = 1 << 23


class Side(NamedTuple):
    """One of the two terms of the likelihood, of all examples.

    Attributes
    ----------
    value : float
        Their mean.
    phi : ndarray of shape (P,)
        The mean of the expected statistics, in the order of the parameters.
    counts : ndarray
        What the channel can be refitted from; empty for the prior.
    cuts : int
        Maximisations that were solved.
    """

    value: float
    phi: FloatArray
    counts: FloatArray
    cuts: int


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """The two terms of the likelihood of observations.

    Attributes
    ----------
    examples : Examples
        Their own channel plays no part: it is given with every call.
    prior, posterior : Engine
        What stands for the log-partition function of each.
    copies : int
        Perturbations of an example, by which its fields multiply in memory.
    """

    examples: Examples
    prior: Engine
    posterior: Engine
    copies: int = 1

    def free(self, theta: FloatArray) -> Side:
        """Return the term A(f) of the prior."""
        value, phi, cuts = 0.0, np.zeros(self.examples.layout.size), 0
        for group, rows, part in self.priors(theta):
            share = (group.count if self.alike(group) else len(rows)) / self.examples.count
            value += share * float(part.values.mean())
            phi += share * self._statistics(group, rows, part)
            cuts += part.values.size
        return Side(value, phi, np.zeros(0), cuts)

    def held(self, theta: FloatArray, channel: Channel) -> Side:
        """Return the term of the posterior, with the likelihood of x = 0 and with the counts."""
        value, phi, cuts = 0.0, np.zeros(self.examples.layout.size), 0
        counts: list[FloatArray] = []
        # as in an `Objective` an odd step is the held side: strips bound it from below
        for group, rows, part, constant in self.posteriors(theta, channel, 1):
            share = len(rows) / self.examples.count
            value += share * float((part.values.mean(axis=1) + constant).mean())
            phi += share * self._statistics(group, rows, part)
            # rounding can take a certain element past 1
            mean = np.clip(part.mean, 0.0, 1.0).reshape(-1, *group.shape)
            counts.append(channel.count(_images(group, rows), mean))
            cuts += part.values.size
        return Side(value, phi, np.sum(counts, axis=0), cuts)

    def alike(self, group: Group) -> bool:
        """Return whether all examples of a group have the same prior."""
        return group.features is None and group.edge_weights is None

    def priors(self, theta: FloatArray) -> Iterator[tuple[Group, IntArray, Partition]]:
        """Yield the prior of one example of a group, or of all where they differ."""
        for group, rows in self._pieces():
            if self.alike(group) and rows[0]:
                continue
            own = rows[:1] if self.alike(group) else rows
            fields = self.examples.fields(theta, group, own, observed=False)
            yield group, own, self.prior.evaluate(group, own, self._alpha(theta), fields, 0)

    def posteriors(
        self, theta: FloatArray, channel: Channel, step: int = 0
    ) -> Iterator[tuple[Group, IntArray, Partition, FloatArray]]:
        r"""Yield posteriors and the constant :math:`\sum_d\log p(z_d\mid x_d=0)` of each example.

        Where an observation leaves no doubt that an element is 1, the constant has its
        :math:`\log p(z_d\mid1)` and its field, which the log-partition function leaves out.
        """
        for group, rows in self._pieces():
            images = _images(group, rows)
            zero, one = (part.reshape(len(rows), -1) for part in channel.log_likelihoods(images))
            fields = self.examples.fields(theta, group, rows, observed=False)
            constant = np.where(np.isneginf(zero), one + fields, zero).sum(axis=1)
            fields = fields + (one - zero)
            part = self.posterior.evaluate(group, rows, self._alpha(theta), fields, step)
            yield group, rows, part, constant

    def anchor(self) -> Evidence:
        """Return the same with strips that will keep the references of their first evaluation."""
        assert isinstance(self.prior, Exact) and isinstance(self.posterior, Exact)
        prior, posterior = (e.anchor(e.strips.window) for e in (self.prior, self.posterior))
        return dataclasses.replace(self, prior=prior, posterior=posterior)

    def width(self, theta: FloatArray, channel: Channel) -> float:
        """Return the mean distance of some examples between the bounds on their likelihoods.

        For engines that are `Exact`; 0, but for rounding, where none of them has windows.
        """
        assert isinstance(self.prior, Exact) and isinstance(self.posterior, Exact)
        index, alpha, total = some_of(self.examples), self._alpha(theta), 0.0
        through = self.examples.with_channel(channel)
        for group, rows in through.parts(index):
            own = rows[:1] * 0 if self.alike(group) else rows
            fields = through.fields(theta, group, own, observed=False)
            free = self.prior.widths(group, own, alpha, fields, 0).mean()
            fields = through.fields(theta, group, rows)
            held = self.posterior.widths(group, rows, alpha, fields, 1).mean()
            total += len(rows) * float(free + held)
        return total / len(index)

    def _alpha(self, theta: FloatArray) -> FloatArray:
        return theta[self.examples.layout.blocks["alpha"]]

    def _statistics(self, group: Group, rows: IntArray, part: Partition) -> FloatArray:
        """Return the mean statistics of some examples, (P,)."""
        moments = Moments(part.stats, part.mean, np.zeros(len(rows)))
        return self.examples.mean_statistics(group, rows, moments)

    def _pieces(self) -> Iterator[tuple[Group, IntArray]]:
        """Split all examples by shape, and such that their fields fit into memory."""
        for group, rows in self.examples.parts():
            size = max(1, _HELD // max(1, group.prepared.n * self.copies))
            for first in range(0, len(rows), size):
                yield group, rows[first : first + size]


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
        What stands for the log-partition functions. With an exact one the values are exact. So they
        are with `Exact` where that is no bound, on image grids with a side of up to about 12
        pixels. On larger ones a difference of two bounds bounds nothing: the values then are the
        middles of `bracket_log_evidence`.
    budget : float, default 1e9
        Of those.

    Returns
    -------
    ndarray of shape (N,)
        In the user's order.

    Warns
    -----
    ConvergenceWarning
        When such a bracket is wider than a tenth of a nat, with its width.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import make_examples
    >>> from logsuper.learning._evidence import log_evidence
    >>> from logsuper.learning._exact_engines import Exact
    >>> z = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> data = make_examples([ls.Cut(2, [(0, 1)])], observed=z, channel=ls.Flips(0.1))
    >>> np.exp(log_evidence(data, [1.0, 0.0, 0.0], Exact())).round(3)
    array([0.324, 0.176, 0.176, 0.324])
    """
    check_examples(examples)
    check_observed(examples)
    if not isinstance(engine, Engine):
        raise TypeError(f"engine must be an engine, such as Exact(), got {type(engine).__name__}")
    parameters = check_theta(examples, theta)
    assert examples.channel is not None
    if any(_bounds(engine, group) for group in examples.groups):
        lower, upper = bracket_log_evidence(
            examples, parameters, budget=budget, n_jobs=getattr(engine, "n_jobs", None)
        )
        width = upper - lower
        if width.max() > WIDTH:
            worst = int(width.argmax())
            warnings.warn(
                f"log p(z) of observed[{worst}] is known to {width[worst]:.2g} nats only, and the "
                f"middle of its bracket returned; raise budget = {budget:g}, or take both ends "
                "from bracket_log_evidence",
                ConvergenceWarning,
                stacklevel=2,
            )
        return lower + width / 2
    evidence = Evidence(examples, engine, engine)
    result = np.empty(examples.count)
    for group, rows, part in evidence.priors(parameters):
        where = group.index if evidence.alike(group) else group.index[rows]
        result[where] = -part.values.mean(axis=1)
    for group, rows, part, constant in evidence.posteriors(parameters, examples.channel):
        result[group.index[rows]] += part.values.mean(axis=1) + constant
    return result


def bracket_log_evidence(
    examples: Examples, theta: ArrayLike, *, budget: float = 1e9, n_jobs: int | None = None
) -> tuple[FloatArray, FloatArray]:
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
    >>> from logsuper.learning import make_examples
    >>> from logsuper.learning._evidence import bracket_log_evidence
    >>> data = make_examples([ls.Cut(2, [(0, 1)])], observed=[[0, 1]], channel=ls.Flips(0.1))
    >>> np.exp(bracket_log_evidence(data, [1.0, 0.0, 0.0])).round(3).ravel()
    array([0.176, 0.176])
    """
    check_examples(examples, n_jobs)
    check_observed(examples)
    assert examples.channel is not None
    parameters = check_theta(examples, theta)
    alpha = parameters[examples.layout.blocks["alpha"]]
    lower, upper = np.empty(examples.count), np.empty(examples.count)
    for group, rows in examples.parts():
        fields = examples.fields(parameters, group, rows, observed=False)
        shared = group.features is None and group.edge_weights is None
        for row in rows:
            prior = make_model(group, int(row), alpha, fields[row])
            if row == 0 or not shared:
                before = prior.bracket(budget, n_jobs=n_jobs)
            image = group.read_observed(rows[row : row + 1]).reshape(group.shape)
            after = prior.observe(examples.channel, image).bracket(budget, n_jobs=n_jobs)
            lower[group.index[row]] = after.lower - before.upper
            upper[group.index[row]] = after.upper - before.lower
    return lower, upper


def check_observed(examples: Examples) -> None:
    """Refuse data that have no likelihood of observations."""
    if any(isinstance(group.features, Context) for group in examples.groups):
        raise ValueError("context describes observations, which the prior does not know of")
    if examples.channel is None or any(group.observed is None for group in examples.groups):
        raise ValueError("observed is missing; the likelihood of observations needs them")
    if examples.layout.scale:
        raise ValueError(
            "scale=True learns a factor on the log-odds, with which a channel is no distribution "
            "of observations; make the examples with scale=False"
        )


def _bounds(engine: Engine, group: Group) -> bool:
    """Return whether an engine bounds the log-partition functions of a group by strips."""
    if isinstance(engine, Strips):
        return not engine.covers(group)
    return isinstance(engine, Exact) and engine.bounds(group)


def _images(group: Group, rows: IntArray) -> FloatArray:
    return group.read_observed(rows).reshape(-1, *group.shape)
