r"""What learners minimise: a difference of two log-partition functions per example.

.. math:: L_i(\theta) = A_i(\theta) - \bar A_i(\theta)

The *free* side :math:`A_i` is that of the model of example i, the *held* side that of the same
model with what is known held fixed. With all labels known it is linear,
:math:`\theta^\top\varphi_i(x_i)`, and the loss convex: :math:`-\log p(x_i)` (eq. 5), or
:math:`-\log p(x_i\mid z_i)` (section 4.3). With some labels it is :math:`A(f\mid x_O)`. With
observations alone the free side is the prior, the held side the posterior (section 4.4),

.. math:: -\log p(z) = A(f) - A(f-l) - \sum_d\log p(z_d\mid x_d=0),

with l the log-odds of the observation z. Each side may have its own engine: a prior that all images
share deserves a better one. The weighted quadratic regulariser of every learner is here too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from logsuper._base import FloatArray, IntArray, beat, check_number, entry, first_index
from logsuper.channels import Channel
from logsuper.learning._engines import Batch, Engine, FixedNoise, Side
from logsuper.learning._examples import UNKNOWN, Examples, Group, Moments, check_examples
from logsuper.learning._features import Context, Judged
from logsuper.learning._layout import LARGEST, Layout
from logsuper.learning._losses import Loss as Loss
from logsuper.learning._losses import Term as Term
from logsuper.learning._losses import average_terms, variance_of
from logsuper.learning._team import Team

Targets = Callable[[Group, IntArray], Moments]


@runtime_checkable
class Shifted(Protocol):
    """Targets whose moments do not give all of the statistics."""

    def shift(self, group: Group) -> FloatArray:
        """Return what to add to the statistics of each example, (P,)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Objective:
    """The mean loss of examples, without the regulariser.

    Attributes
    ----------
    examples : Examples
    engine : Engine
        Computes the log-partition function of the free side.
    targets : callable, optional
        Moments of the held side, for `supervised` and `moments`; else an engine gives them.
    latent : bool
        Whether observations are what is known, rather than what is conditioned on.
    posterior : Engine, optional
        Computes the log-partition function of the held side; by default `engine`.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Exact, Objective, make_examples
    >>> data = make_examples([ls.Cut(2, [(0, 1)])], observed=[[0, 1]], channel=ls.Flips(0.1))
    >>> objective, theta = Objective(data, Exact(), latent=True), np.array([1.0, 0.0, 0.0])
    >>> free, held = objective.free(theta), objective.held(theta, data.channel)
    >>> round(float(np.exp(held.value - free.value)), 3)  # p(z)
    0.176
    """

    examples: Examples
    engine: Engine
    targets: Targets | None = None
    latent: bool = False
    posterior: Engine | None = None

    def __post_init__(self) -> None:
        if self.latent:
            refuse_context(self.examples)

    @classmethod
    def supervised(cls, examples: Examples, engine: Engine) -> Objective:
        """Return -log p(x), or -log p(x | z) where there are observations, of the known labels.

        What is observed must leave some doubt about every label, and about every pixel if a factor
        on the log-odds is learned.
        """
        if not examples.has_labels:
            raise ValueError("labels are missing; learn from observations alone with `latent`")
        refuse_certainty(examples, labels=not examples.layout.scale)
        return cls(examples, engine, _label_targets(examples) if examples.labelled else None)

    @property
    def convex(self) -> bool:
        """Whether the held side is linear."""
        return self.targets is not None

    @property
    def alike(self) -> bool:
        """Whether the free side is the same for all examples of a shape."""
        return self.examples.alike(observed=not self.latent)

    @property
    def together(self) -> bool:
        """Whether one evaluation per shape serves all examples, on both sides."""
        return self.alike and self.convex

    def loss(self, theta: FloatArray, index: IntArray | None = None, step: int = 0) -> Loss:
        """Return the mean loss of some examples, all by default, and its gradient.

        `step` numbers the call: engines with fresh noise draw it as a function of this number. The
        value is without the likelihood of x = 0, which `held` has.
        """
        value, variance, cuts = 0.0, 0.0, 0
        gradient = np.zeros(self.examples.layout.size)
        count = self.examples.count if index is None else len(index)
        for group, rows in self.examples.parts(index):
            beat()
            free = self._mean_term(theta, group, rows, "free", step)
            held = self._mean_term(theta, group, rows, "held", step)
            share = len(rows) / count
            value += share * (free.value - held.value)
            gradient += share * (free.phi - held.phi)
            variance += share**2 * free.variance_beside(held)
            cuts += free.cuts + held.cuts
        return Loss(value, float(np.sqrt(variance)), gradient, cuts)

    def free(self, theta: FloatArray) -> Term:
        """Return the free side of all examples, a piece of them at a time."""
        return self._total(theta, "free")

    def held(self, theta: FloatArray, channel: Channel | None = None) -> Term:
        """Return the held side of all examples, a piece of them at a time.

        With a `channel`, used instead of that of the examples, the value includes the likelihood of
        x = 0, and the counts are those of the channel.
        """
        return self._total(theta, "held", channel)

    def values(self, theta: FloatArray, side: Side, channel: Channel | None = None) -> FloatArray:
        """Return one side of each example, (N,), in the user's order."""
        found = np.empty(self.examples.count)
        for group, rows in self._pieces(side):
            batch, constant = self.pose(theta, group, rows, side, channel)
            draws = self.engine_of(side).evaluate(batch).values
            found[group.index[rows]] = draws.mean(axis=1) + constant
        return found

    def pose(
        self,
        theta: FloatArray,
        group: Group,
        rows: IntArray,
        side: Side,
        channel: Channel | None = None,
    ) -> tuple[Batch, FloatArray | float]:
        r"""Return the models of one side, and what to add to their log-partition functions.

        One model for all examples if these are alike. With a `channel` the constant is
        :math:`\sum_d\log p(z_d\mid x_d=0)` of each example; where an observation leaves no doubt
        that an element is 1, :math:`\log p(z_d\mid1)` and its field, which the log-partition
        function leaves out. With labels it is the mean of the fields at the known ones.
        """
        examples, constant = self.examples, 0.0
        if side == "free" and self.alike:
            rows = rows[:1] * 0
        prior = self.latent and (side == "free" or channel is not None)
        fields = examples.fields(theta, group, rows, observed=not prior)
        batch = Batch(group, rows, theta[examples.layout.blocks["alpha"]], fields, side)
        if side == "free":
            return batch, constant
        if channel is not None:
            zero, one = (
                part.reshape(len(rows), -1) for part in channel.log_likelihoods(group.images(rows))
            )
            sums = np.where(np.isneginf(zero), one + fields, zero).sum(axis=1)
            return batch._replace(fields=fields + (one - zero)), sums
        if group.labels is not None:
            x = group.labels[rows]
            constant = float(fields[x == 1].sum()) / len(rows)
            fields = np.where(x == 1, np.inf, np.where(x == 0, -np.inf, fields))
        return batch._replace(fields=fields), constant

    def engine_of(self, side: Side) -> Engine:
        """Return the engine of one side."""
        return self.engine if side == "free" or self.posterior is None else self.posterior

    def _pieces(self, side: Side) -> Iterator[tuple[Group, IntArray]]:
        """Split all examples into pieces that fit into memory, unless they share one model."""
        for group, rows in self.examples.parts():
            for piece in self._split(group, rows, side):
                yield group, piece

    def _split(self, group: Group, rows: IntArray, side: Side) -> Iterable[IntArray]:
        if side == "free" and self.alike:
            return [rows]
        engine = self.engine_of(side)
        return group.pieces(engine.n_samples if isinstance(engine, FixedNoise) else 1, rows)

    def _mean_term(
        self, theta: FloatArray, group: Group, rows: IntArray, side: Side, step: int
    ) -> Term:
        """Return one side of examples of a group, a piece of them at a time."""
        linear = side == "held" and self.convex
        if linear or getattr(self.engine_of(side), "together", False):
            pieces = [rows]
        else:
            pieces = list(self._split(group, rows, side))
        terms = list(self._terms(theta, group, pieces, side, step))
        return average_terms(terms, [len(piece) for piece in pieces])

    def _total(self, theta: FloatArray, side: Side, channel: Channel | None = None) -> Term:
        """Return one side, averaged over all examples."""
        value, variance, cuts = 0.0, 0.0, 0
        phi, counts = np.zeros(self.examples.layout.size), np.zeros(())
        for group, rows in self.examples.parts():
            pieces = list(self._split(group, rows, side))
            terms = self._terms(theta, group, pieces, side, 0, channel)
            for piece, term in zip(pieces, terms, strict=True):
                share = len(piece) / self.examples.count
                value += share * term.value
                phi += share * term.phi
                variance += share**2 * term.variance
                cuts += term.cuts
                counts = counts + term.counts
        return Term(value, phi, variance, cuts, counts)

    def _terms(
        self,
        theta: FloatArray,
        group: Group,
        pieces: Sequence[IntArray],
        side: Side,
        step: int,
        channel: Channel | None = None,
    ) -> Iterator[Term]:
        """Yield one side of each piece; other processes are asked for all pieces at once."""
        found = self._ask_team(theta, group, np.concatenate(pieces)) if side == "free" else []
        if not found:
            for piece in pieces:
                yield self._term(theta, group, piece, side, step, channel)
            return
        ends = np.cumsum([len(piece) for piece in pieces])[:-1]
        for draws, *blocks in zip(*(np.split(part, ends) for part in found), strict=True):
            phi = np.concatenate([np.add.reduce(block, axis=0) for block in blocks]) / len(draws)
            yield Term(float(draws.mean()), phi, variance_of(draws), draws.size, np.zeros(()))

    def _term(
        self,
        theta: FloatArray,
        group: Group,
        rows: IntArray,
        side: Side,
        step: int,
        channel: Channel | None = None,
    ) -> Term:
        """Return one side of some examples of a group."""
        examples, counts = self.examples, np.zeros(())
        if side == "held" and self.targets is not None:
            phi, level = self._mean_target(group, rows)
            # without a learned scale w = 1, which is not a parameter
            value = float(phi @ theta) + (0.0 if examples.layout.scale else level)
            return Term(value, phi, 0.0, 0, counts)
        batch, constant = self.pose(theta, group, rows, side, channel)
        draws, mean, moments = self._evaluate(batch, step)
        phi = examples.mean_statistics(group, batch.rows, moments)
        if self.latent and side == "free":
            phi[examples.layout.blocks["scale"]] = 0.0  # a prior does not depend on observations
        if isinstance(constant, float):
            value = float(draws.mean()) + constant
        else:
            value = float((draws.mean(axis=1) + constant).mean())
        if channel is not None:
            # rounding can make the mean of a certain element larger than 1
            inside = np.clip(mean, 0.0, 1.0).reshape(-1, *group.shape)
            counts = channel.count(group.images(rows), inside)
        return Term(value, phi, variance_of(draws), draws.size, counts, draws)

    def _evaluate(self, batch: Batch, step: int) -> tuple[FloatArray, FloatArray, Moments]:
        draws, stats, mean = self.engine_of(batch.side).evaluate(batch, step)
        agreement = np.zeros(len(mean))
        if self.examples.layout.scale:
            agreement = self.examples.agreement(batch.group, batch.rows, mean)
        return draws, mean, Moments(stats, mean, agreement)

    def _ask_team(self, theta: FloatArray, group: Group, rows: IntArray) -> list[Any]:
        """Return what `answer` gives for some examples; nothing if there are no other processes."""
        relocate = getattr(self.engine, "relocate", None)
        # a judge is as large as many parts
        alone = self.alike or self.latent or isinstance(group.features, Judged)
        team = self._teams[group]
        if relocate is None or alone or not (chunks := team.split(rows)):
            return []

        def attempt(some: IntArray) -> None:
            self._term(theta, group, some, "free", 0)

        if not team.is_worth_while(rows, attempt):
            return []

        def pack(chunk: IntArray) -> Objective:
            own = group.take(chunk, group.index[chunk])
            engine = relocate(self.pose(theta, group, chunk, "free")[0], own)
            examples = dataclasses.replace(self.examples, groups=(own,))
            return dataclasses.replace(self, examples=examples, engine=engine, targets=None)

        return team.ask(chunks, pack, theta)

    def answer(self, theta: FloatArray) -> list[FloatArray]:
        """Return the draws and the statistics, of each kind, of the free side of all examples."""
        found = []
        for group, rows in self._pieces("free"):
            batch, _ = self.pose(theta, group, rows, "free")
            draws, _, moments = self._evaluate(batch, 0)
            found.append([draws, *self.examples.blocks(group, batch.rows, moments)])
        return [np.concatenate(column) for column in zip(*found, strict=True)]

    @functools.cached_property
    def _teams(self) -> dict[Group, Team]:
        return {group: Team(group.prepared.n) for group in self.examples.groups}

    def _mean_target(self, group: Group, rows: IntArray) -> tuple[FloatArray, float]:
        """Return the same as `_target`, a piece at a time; full passes need it at every step."""
        whole = len(rows) == group.count and bool((rows == np.arange(group.count)).all())
        pieces = list(group.pieces(rows=rows))
        if not whole and len(pieces) == 1:
            return self._target(group, rows)
        key = group, b"" if whole else rows.tobytes()
        if key not in self._linear:
            parts = [(len(piece), *self._target(group, piece)) for piece in pieces]
            phi = sum(size * part for size, part, _ in parts) / len(rows)
            self._linear[key] = np.asarray(phi), sum(b * a for b, _, a in parts) / len(rows)
        return self._linear[key]

    def _target(self, group: Group, rows: IntArray) -> tuple[FloatArray, float]:
        """Return the mean statistics of the held side where it is linear, and of l'x."""
        assert self.targets is not None
        moments = self.targets(group, rows)
        phi = self.examples.mean_statistics(group, rows, moments)
        if isinstance(self.targets, Shifted):
            phi += self.targets.shift(group)
        return phi, float(moments.agreement.mean())

    @functools.cached_property
    def _linear(self) -> dict[tuple[Group, bytes], tuple[FloatArray, float]]:
        """What `_mean_target` has found."""
        return {}


def refuse_context(examples: Examples) -> None:
    """Raise for features that only a model of labels given observations can have."""
    if any(isinstance(group.features, Context | Judged) for group in examples.groups):
        raise ValueError("context describes observations, on which the prior cannot depend")


def _label_targets(examples: Examples) -> Targets:
    """Return the moments of labels that are all known; of the x only their bytes are kept."""
    known = {}
    for group in examples.groups:
        none = np.empty((0, group.prepared.n))  # the x of all pieces would fill the memory
        parts = [examples.label_moments(group, rows)._replace(mean=none) for rows in group.pieces()]
        features = [part.features for part in parts if part.features is not None]
        known[group] = (
            np.concatenate([part.stats for part in parts]),
            np.concatenate([part.agreement for part in parts]),
            np.concatenate(features) if features else None,
            np.concatenate([part.ones for part in parts]),
        )

    def targets(group: Group, rows: IntArray) -> Moments:
        assert group.labels is not None
        stats, agreement, features, ones = known[group]
        mean = group.labels[rows].astype(np.float64)
        own = None if features is None else features[rows]
        return Moments(stats[rows], mean, agreement[rows], own, ones[rows])

    return targets


def refuse_certainty(examples: Examples, labels: bool = False) -> None:
    """Raise where an observation leaves no doubt about a pixel; with ``labels``, about a label.

    A label's :math:`l_dx_d` would be infinite on both sides of the loss. Without a label the pixel
    is only held fixed, on both sides.
    """
    for group, rows in examples.pieces():
        if examples.channel is None or group.observed is None:
            continue
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


@dataclasses.dataclass(frozen=True, eq=False)
class Penalty:
    r""":math:`\Omega(\theta)=\frac12\sum_j\lambda_j(\theta_j-c_j)^2`, in nats per example.

    Attributes
    ----------
    weights : ndarray
        :math:`\lambda_j\ge0`, one per parameter.
    center : ndarray
        :math:`c_j`: 0, except for the channel scale w, whose natural value is 1.

    Examples
    --------
    >>> from logsuper.learning import Layout, Penalty
    >>> Penalty.of(Layout(functions=2, modular=1), alpha=0.01, modular=1.0).weights
    array([0.01, 0.01, 1.  ])
    """

    weights: FloatArray
    center: FloatArray

    @classmethod
    def of(
        cls,
        layout: Layout,
        alpha: float = 0.0,
        modular: float = 0.0,
        beta: float = 0.0,
        scale: float = 0.0,
    ) -> Penalty:
        """Return the regulariser with one weight for each kind of parameter."""
        if not isinstance(layout, Layout):
            raise TypeError(
                f"layout must be a Layout, such as examples.layout, got a {type(layout).__name__}"
            )
        given = {"alpha": alpha, "modular": modular, "beta": beta, "scale": scale}
        for name, value in given.items():
            number = check_number(value, f"penalty of {name}")
            if number < 0:
                raise ValueError(f"penalty of {name} = {number:g} must be at least 0")
            if number > 0 and not 1.0 / LARGEST <= number <= LARGEST:
                raise ValueError(
                    f"penalty of {name} = {number:g} must be 0 or from {1.0 / LARGEST:g} to "
                    f"{LARGEST:g}; rescale functions, features and penalty"
                )
        return cls(layout.fill(**given), layout.fill())

    def value(self, theta: FloatArray) -> float:
        """Return the penalty."""
        return 0.5 * float(np.dot(self.weights, (theta - self.center) ** 2))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return its gradient."""
        return self.weights * (theta - self.center)


def check_problem(examples: Examples, penalty: object) -> None:
    """Refuse to learn from anything but examples, with a penalty on their parameters."""
    check_examples(examples)
    if not isinstance(penalty, Penalty):
        raise TypeError(
            "penalty must be a Penalty, such as Penalty.of(examples.layout, modular=0.1), got a "
            f"{type(penalty).__name__}"
        )
    if len(penalty.weights) != examples.layout.size:
        raise ValueError(
            f"penalty is for {len(penalty.weights)} parameters, these examples have "
            f"{examples.layout.size}"
        )
