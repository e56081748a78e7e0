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
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from logsuper._base import FloatArray, IntArray, entry, first_index
from logsuper.learning._engines import Engine
from logsuper.learning._examples import UNKNOWN, Examples, Group, Moments
from logsuper.learning._features import Context

__all__ = ["Loss", "Objective", "pieces", "refuse_certainty"]

Targets = Callable[[Group, IntArray], Moments]


@runtime_checkable
class Shifted(Protocol):
    """Targets whose moments do not tell all of the statistics."""

    def shift(self, group: Group) -> FloatArray:
        """Return what to add to the statistics of each example, (P,)."""


# Pixels that are worked with at a time.
_PIECE = 1 << 20


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
        """Return -log p(x), or -log p(x | z) where there are observations, of the known labels.

        What is observed must leave some doubt about every label, and about every pixel if a factor
        on the log-odds is learned.
        """
        if any(group.labels is None for group in examples.groups):
            raise ValueError("labels are missing; learn from observations alone with `latent`")
        refuse_certainty(examples, labels=not examples.layout.scale)
        if not examples.labelled:
            return cls(examples, engine)
        known = {id(group): _known(examples, group) for group in examples.groups}

        def targets(group: Group, rows: IntArray) -> Moments:
            assert group.labels is not None
            stats, agreement, features = known[id(group)]
            mean = group.labels[rows].astype(np.float64)
            kept = None if features is None else features[rows]
            return Moments(stats[rows], mean, agreement[rows], kept)

        return cls(examples, engine, targets)

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
            value += share * (free.value - held.value)
            gradient += share * (free.phi - held.phi)
            variance += share**2 * (free.variance + held.variance)
            cuts += free.cuts + held.cuts
        return Loss(value, float(np.sqrt(variance)), gradient, cuts)

    def _free(self, theta: FloatArray, group: Group, rows: IntArray, step: int) -> _Side:
        """Return the side of the model itself."""
        fields = self.examples.fields(theta, group, rows, observed=not self.latent)
        side = self._evaluate(theta, group, rows, fields, 2 * step)
        if self.latent:
            side.phi[self.examples.layout.blocks["scale"]] = 0.0  # a prior knows no observations
        return side

    def _held(self, theta: FloatArray, group: Group, rows: IntArray, step: int) -> _Side:
        """Return the side with the known labels, or the observations, held fixed."""
        examples = self.examples
        if self.targets is not None:
            whole = len(rows) == group.count and bool((rows == np.arange(group.count)).all())
            phi, agreement = self._linear[id(group)] if whole else self._target(group, rows)
            value = float(phi @ theta)
            if not examples.layout.scale:
                value += agreement  # w = 1, which is no parameter
            return _Side(phi, value, 0.0, 0)
        fields = examples.fields(theta, group, rows)
        if group.labels is None:
            return self._evaluate(theta, group, rows, fields, 2 * step + 1)
        x = group.labels[rows]
        fixed = np.where(x == 1, np.inf, np.where(x == 0, -np.inf, fields))
        side = self._evaluate(theta, group, rows, fixed, 2 * step + 1)
        return side._replace(value=side.value + float(fields[x == 1].sum()) / len(rows))

    def _target(self, group: Group, rows: IntArray) -> tuple[FloatArray, float]:
        """Return the mean statistics of the held side where it is linear, and of l'x."""
        assert self.targets is not None
        moments = self.targets(group, rows)
        phi = self.examples.mean_statistics(group, rows, moments)
        if isinstance(self.targets, Shifted):
            phi += self.targets.shift(group)
        return phi, float(moments.agreement.mean())

    @functools.cached_property
    def _linear(self) -> dict[int, tuple[FloatArray, float]]:
        """The same of all examples of each group: full batches need it at every step."""
        result = {}
        for group in self.examples.groups:
            parts = [(len(rows), *self._target(group, rows)) for rows in pieces(group)]
            phi = sum(size * part for size, part, _ in parts) / group.count
            result[id(group)] = np.asarray(phi), sum(b * a for b, _, a in parts) / group.count
        return result

    def _evaluate(
        self, theta: FloatArray, group: Group, rows: IntArray, fields: FloatArray, step: int
    ) -> _Side:
        examples = self.examples
        alpha = theta[examples.layout.blocks["alpha"]]
        draws, stats, mean = self.engine.evaluate(group, rows, alpha, fields, step)
        moments = Moments(stats, mean, examples.agreement(group, rows, mean))
        spread = draws.var(axis=1, ddof=1).mean() if draws.shape[1] > 1 else np.nan
        phi = examples.mean_statistics(group, rows, moments)
        return _Side(phi, float(draws.mean()), float(spread) / draws.size, draws.size)


class _Side(NamedTuple):
    """One of the two log-partition functions: means over examples, and the variance of `value`."""

    phi: FloatArray
    value: float
    variance: float
    cuts: int


def _known(examples: Examples, group: Group) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return f_k(x), l'x and Phi'x of all labels; the x themselves stay bytes."""
    parts = [examples.label_moments(group, rows) for rows in pieces(group)]
    stats, agreement = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("stats", "agreement")
    )
    features = [part.features for part in parts if part.features is not None]
    return stats, agreement, np.concatenate(features) if features else None


def pieces(group: Group) -> Iterator[IntArray]:
    """Yield all rows of a group, few enough at a time to work with one number a pixel."""
    size = max(1, _PIECE // max(1, group.prepared.n))
    for first in range(0, group.count, size):
        yield np.arange(first, min(first + size, group.count))


def refuse_certainty(examples: Examples, labels: bool = False) -> None:
    """Raise where an observation leaves no doubt about a pixel; with ``labels``, about a label.

    A label's :math:`l_dx_d` would be infinite on both sides of the loss. Without a label the pixel
    is but held fixed, on both sides.
    """
    for group in examples.groups:
        if examples.channel is None or group.observed is None:
            continue
        for rows in pieces(group):
            certain = np.isinf(examples.log_odds(group, rows))
            if labels and group.labels is not None:
                certain &= group.labels[rows] != UNKNOWN
            if certain.any():
                row, pixel = first_index(certain)
                at = tuple(int(i) for i in np.unravel_index(pixel, group.shape))
                raise ValueError(
                    f"{examples.channel!r} leaves no doubt about "
                    f"{entry(f'observed[{group.index[rows[row]]}]', at)}: its log-odds are "
                    "infinite, and so is the loss; give the channel a rate above 0"
                    + (", or such pixels no label (NaN)" if labels else "")
                )
