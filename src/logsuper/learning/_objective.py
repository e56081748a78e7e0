r"""What learners minimise: a difference of two log-partition functions an example.

.. math:: L_i(\theta) = A_i(\theta) - \bar A_i(\theta)

The *free* side :math:`A_i` is that of the model of example i, the *held* side that of the same
model with what is known held fixed. With all labels known it is linear,
:math:`\theta^\top\varphi_i(x_i)`, and the loss convex: :math:`-\log p(x_i)` (eq. 5), or
:math:`-\log p(x_i\mid z_i)` (section 4.3). With some labels it is :math:`A(f\mid x_O)`. With
observations alone the held side is the posterior, the free side the prior (section 4.4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from logsuper.functions._checks import FloatArray, IntArray
from logsuper.learning._engines import Engine
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._features import Context

__all__ = ["Loss", "Objective"]

Targets = Callable[[Group, IntArray], Moments]


class Loss(NamedTuple):
    """The loss of some examples.

    Attributes
    ----------
    value : float
        Their mean.
    stderr : float
        Its standard error due to the perturbations; NaN where there is one of an example only.
    gradient : ndarray of shape (P,)
        In the order of the layout.
    cuts : int
        Maximisations that were solved.
    """

    value: float
    stderr: float
    gradient: FloatArray
    cuts: int


@dataclasses.dataclass(frozen=True, eq=False)
class Objective:
    """The mean loss of examples, without the regulariser.

    Attributes
    ----------
    examples : Examples
    engine : Engine
        What stands for the log-partition function of the free side.
    targets : callable, optional
        Moments of the held side, for `supervised` and `moments`; else the engine gives them.
    latent : bool
        Whether observations are what is known, rather than what is conditioned on.
    """

    examples: Examples
    engine: Engine
    targets: Targets | None = None
    latent: bool = False

    def __post_init__(self) -> None:
        if self.latent and any(isinstance(g.features, Context) for g in self.examples.groups):
            raise ValueError("context describes observations, which the prior does not know of")

    @classmethod
    def supervised(cls, examples: Examples, engine: Engine) -> Objective:
        """Return -log p(x), or -log p(x | z) where there are observations, of the known labels."""
        if any(group.labels is None for group in examples.groups):
            raise ValueError("labels are missing; learn from observations alone with `latent`")
        if not examples.labelled:
            return cls(examples, engine)
        known = {id(g): examples.label_moments(g, rows) for g, rows in examples.parts()}
        return cls(examples, engine, lambda g, rows: Moments(*(m[rows] for m in known[id(g)])))

    @property
    def convex(self) -> bool:
        """Whether the held side is linear."""
        return self.targets is not None

    @property
    def alike(self) -> bool:
        """Whether the free side is the same for all examples of a shape."""
        return all(
            (self.latent or g.observed is None) and g.features is None and g.edge_weights is None
            for g in self.examples.groups
        )

    def loss(self, theta: FloatArray, index: IntArray | None = None, step: int = 0) -> Loss:
        """Return the mean loss of some examples, all by default, and its gradient.

        `step` numbers the call: engines with fresh noise draw it as a function of this number.
        """
        value, variance, cuts = 0.0, 0.0, 0
        gradient = np.zeros(self.examples.layout.size)
        count = self.examples.count if index is None else len(index)
        for group, rows in self.examples.parts(index):
            free = self._free(theta, group, rows[:1] * 0 if self.alike else rows, step)
            held = self._held(theta, group, rows, step)
            share = len(rows) / count
            value += share * float(free.values.mean() - held.values.mean())
            gradient += share * (free.phi.mean(axis=0) - held.phi.mean(axis=0))
            for side in (free, held):
                variance += share**2 * float(side.variances.mean()) / len(side.variances)
            cuts += free.cuts + held.cuts
        return Loss(value, float(np.sqrt(variance)), gradient, cuts)

    def _free(self, theta: FloatArray, group: Group, rows: IntArray, step: int) -> _Side:
        """Return the side of the model itself."""
        fields = self.examples.fields(theta, group, rows, observed=not self.latent)
        return self._evaluate(theta, group, rows, fields, 2 * step)

    def _held(self, theta: FloatArray, group: Group, rows: IntArray, step: int) -> _Side:
        """Return the side with the known labels, or the observations, held fixed."""
        examples = self.examples
        if self.targets is not None:
            moments = self.targets(group, rows)
            phi = examples.statistics(group, rows, moments)
            values = phi @ theta
            if not examples.layout.scale:
                values += moments.agreement  # w = 1, which is no parameter
            return _Side(phi, values, np.zeros(len(rows)), 0)
        fields = examples.fields(theta, group, rows)
        if group.labels is None:
            return self._evaluate(theta, group, rows, fields, 2 * step + 1)
        x = group.labels[rows]
        fixed = np.where(x == 1, np.inf, np.where(x == 0, -np.inf, fields))
        side = self._evaluate(theta, group, rows, fixed, 2 * step + 1)
        return side._replace(values=side.values + np.where(x == 1, fields, 0.0).sum(axis=1))

    def _evaluate(
        self, theta: FloatArray, group: Group, rows: IntArray, fields: FloatArray, step: int
    ) -> _Side:
        examples = self.examples
        alpha = theta[examples.layout.blocks["alpha"]]
        draws, stats, mean = self.engine.evaluate(group, rows, alpha, fields, step)
        moments = Moments(stats, mean, examples.agreement(group, rows, mean))
        many = draws.shape[1] > 1
        variances = draws.var(axis=1, ddof=1) / draws.shape[1] if many else draws[:, 0] * np.nan
        phi = examples.statistics(group, rows, moments)
        return _Side(phi, draws.mean(axis=1), variances, draws.size)


class _Side(NamedTuple):
    """One of the two log-partition functions of B examples: statistics, values, variances."""

    phi: FloatArray
    values: FloatArray
    variances: FloatArray
    cuts: int
