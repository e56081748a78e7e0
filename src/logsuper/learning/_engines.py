r"""Log-partition functions of a batch of examples, with their moments.

An engine computes :math:`A(f)`, or a bound on it; a learner can bring its own. Fields may be
infinite, which fixes an element: the value then is that of the conditioned model, without the
finite fields of fixed elements.

Two engines perturb, with fresh or fixed noise: the logistic bound. The others have no approximation
or one that is certified to be small. Small ground sets, graphs of small width and image grids with
a side that is short enough to sum over all its states at once are exact. On larger grids the
log-partition function is that of the strips, a bound whose distance from the truth is known and,
away from the phase transition, about halves with every column of the window.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from logsuper._base import Bits, FloatArray, IntArray, check_integer
from logsuper.bounds import (
    Choice,
    NotApplicable,
    TooLarge,
    choose,
    infer,
    latin_hypercube,
    logit,
    strip_widths,
)
from logsuper.learning._examples import UNKNOWN, Examples, Group, Rows
from logsuper.solvers import Prepared

Side = Literal["free", "held"]
"""Which log-partition function of an objective: the model's own, or with what is known held."""

# Maximum number of fixed noise values that are kept; beyond, they are drawn again at every step.
_KEPT = 1 << 25


class Batch(NamedTuple):
    """Models of some examples of one shape: the input of an engine.

    Attributes
    ----------
    group : Group
    rows : ndarray of shape (B,)
        The examples, as rows of the group.
    alpha : ndarray of shape (K,)
        Weights of the functions.
    fields : ndarray of shape (B, n)
        What is added to -f; infinite where an element is fixed.
    side : {"free", "held"}
        Which side of the objective the models are on: bounds may differ between them.
    """

    group: Group
    rows: IntArray
    alpha: FloatArray
    fields: FloatArray
    side: Side

    @property
    def models(self) -> tuple[Prepared, FloatArray, FloatArray, FloatArray | None]:
        """The models as `bounds.infer` takes them."""
        return self.group.prepared, self.alpha, self.fields, self.group.factors(self.rows)

    def infer(self, choice: Choice, **options: Any) -> Partition:
        """Infer all models by one method."""
        found = infer(*self.models, choice=choice, **options)
        return Partition(found.values[:, None], found.stats, found.mean)


class Partition(NamedTuple):
    r"""Log-partition functions of B models and their derivatives.

    Attributes
    ----------
    values : ndarray of shape (B, S)
        Draws whose mean is the bound; one column for a value without randomness.
    stats : ndarray of shape (B, K)
        Expected :math:`f_k`.
    mean : ndarray of shape (B, n)
        Expected x.
    """

    values: FloatArray
    stats: FloatArray
    mean: FloatArray


@runtime_checkable
class Engine(Protocol):
    """What computes log-partition functions of examples.

    Examples
    --------
    >>> from logsuper.learning import Engine, Exact, FixedNoise
    >>> isinstance(FixedNoise(n_samples=8, seed=0), Engine), isinstance(Exact(), Engine)
    (True, True)
    """

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Return A of each model; `step` numbers the call, for engines that draw fresh noise."""


@dataclasses.dataclass(frozen=True)
class Perturbations:
    r"""The logistic bound :math:`E_z\max_yz^\top y-f(y)` (eq. 3), by some draws of the noise z.

    Attributes
    ----------
    n_samples : int
        Perturbations of each example.
    seed : int
    n_jobs : int or None
    """

    n_samples: int
    seed: int
    n_jobs: int | None = None

    # whether the result for an example depends on its place in the batch
    together: ClassVar[bool] = False


class FixedNoise(Perturbations):
    """The logistic bound with the same noise for an example at every step, a Latin hypercube.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FixedNoise, Objective, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FixedNoise(n_samples=8, seed=0))
    >>> theta = data.layout.fill(alpha=0.5)
    >>> objective.loss(theta).value == objective.loss(theta).value
    True
    """

    def draw(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the noise of some examples, (B, S, n); that of an example never changes."""
        noise = np.empty((len(rows), self.n_samples, group.prepared.n))
        for place, i in enumerate(group.index[rows]):
            pair = np.array([self.seed, int(i)], dtype=np.uint64)  # a list may become floats
            rng = np.random.Generator(np.random.Philox(key=pair))
            noise[place] = logit(latin_hypercube(rng, self.n_samples, group.prepared.n))
        return noise

    def relocate(self, batch: Batch, own: Group) -> FixedNoise:
        """Return the engine for another process, where the batch is all of the group `own`."""
        return KeptNoise(self.n_samples, self.seed)

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Maximise under the noise of these examples, all of it in one call of the kernel."""
        group, rows, alpha, fields, _ = batch
        size = (len(rows), self.n_samples)
        theta = (fields[:, None, :] + self.draw(group, rows)).reshape(-1, group.prepared.n)
        factors = group.factors(rows, self.n_samples)
        y, values, stats = group.prepared.maximize(
            theta, alpha, edge_weights=factors, n_jobs=self.n_jobs
        )
        stats, mean = (part.reshape(*size, -1).mean(axis=1) for part in (stats, y))
        return Partition(values.reshape(size), stats, mean)


class FreshNoise(Perturbations):
    """The logistic bound with new noise at every step.

    The noise of a step is a function of the seed and the step, not of earlier steps, so that a run
    can be resumed. With some labels known, both sides of an objective have the same noise, most of
    which their difference is free of.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FreshNoise, Objective, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FreshNoise(n_samples=8, seed=0))
    >>> theta = data.layout.fill(alpha=0.5)
    >>> objective.loss(theta, step=1).value == objective.loss(theta, step=2).value
    False
    """

    together = True

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Perturb, maximise and average in one call of the kernel."""
        group, rows, alpha, fields, side = batch
        if group.labels is not None and not group.alike():
            side = "free"
        key, factors = noise_key(self.seed, side, step), group.factors(rows)
        out = group.prepared.perturb(
            fields, alpha, self.n_samples, key, edge_weights=factors, n_jobs=self.n_jobs
        )
        return Partition(out.values, out.stats, out.mean)


@dataclasses.dataclass(frozen=True, eq=False)
class KeptNoise(FixedNoise):
    """Fixed noise that is drawn once where memory allows."""

    kept: dict[tuple[Group, bytes], FloatArray] = dataclasses.field(default_factory=dict)

    def draw(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the noise of some examples, (B, S, n)."""
        key = (group, rows.tobytes())
        if key not in self.kept:
            drawn = super().draw(group, rows)
            if drawn.size + sum(noise.size for noise in self.kept.values()) > _KEPT:
                return drawn
            self.kept[key] = drawn
        return self.kept[key]


def derive_key(key: int, number: int) -> int:
    """Return the key of a stream of random numbers that belongs to another key."""
    mixed = np.random.SeedSequence([key, number]).generate_state(1, dtype=np.uint64)
    return int(mixed[0])


def noise_key(key: int, side: Side, step: int) -> int:
    """Return the key of the noise of a step on one side."""
    return derive_key(key, 2 * step + (side == "held"))


SHARED = 2e7
"""The `budget` of `Exact` where one evaluation serves all examples: some tenths of a second."""
WIDTH = 0.1
"""The uncertainty of log Z, in nats per example, with which a window is wide enough."""

# Number of examples that widths are measured on.
_MEASURED = 20


@dataclasses.dataclass(frozen=True)
class Sums:
    """One exact method of `infer` for all examples.

    Attributes
    ----------
    method : {"enumeration", "elimination", "cardinality"}
        All states of up to 16 elements; pairwise functions of moderate treewidth, one example after
        the other; functions of counts over disjoint sets, likewise.
    """

    method: str

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Infer all models of the batch."""
        return batch.infer(Choice(self.method))


@dataclasses.dataclass(frozen=True, eq=False)
class Strips:
    r"""Strip bounds on log Z of 4-neighbour grids, with their gradients.

    The free side of an objective is bounded from above, the held side from below: the loss is an
    upper bound on that of exact inference, by less than the widths. A lower bound on the free side
    would not do: it has spurious minima, at couplings that are strong enough to make it loose.

    Every example has a reference image, on which its bound depends a little. By default it is the
    mode given what is labelled, under the current parameters. With all labels the loss then is
    :math:`-\sum_d\log p(x_d\mid x_{<d})` with each factor bounded from below, a smooth function;
    with few it jumps a little where a mode changes. An engine that is anchored takes the modes at
    its first evaluation and keeps them: bounds that are tighter near there, and smooth.

    Attributes
    ----------
    window : int
        Columns that are summed over at once. A grid whose short side is at most this long is exact.
    n_jobs : int or None
        Threads over the examples.
    anchored : bool

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Exact, Objective, Strips, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> theta = data.layout.fill(alpha=0.5)
    >>> engines = Strips(window=4), Exact()
    >>> above, exact = (Objective.supervised(data, e).loss(theta) for e in engines)
    >>> bool(above.value >= exact.value - 1e-9)
    True
    """

    window: int = 6
    n_jobs: int | None = None
    anchored: bool = False
    _anchors: dict[tuple[Group, Side], Rows] = dataclasses.field(default_factory=dict)

    def anchor(self, window: int) -> Strips:
        """Return an engine that will keep the references of its first evaluation."""
        return dataclasses.replace(self, window=window, anchored=True, _anchors={})

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Bound log Z of each example, several at a time."""
        side = "lower" if batch.side == "held" else "upper"
        choice, references = Choice("strips", self.window), self._references(batch)
        return batch.infer(choice, side=side, references=references, n_jobs=self.n_jobs)

    def relocate(self, batch: Batch, own: Group) -> Strips:
        """Return the engine for another process, where the batch is all of the group `own`."""
        kept: dict[tuple[Group, Side], Rows] = {}
        if self.anchored:
            kept[own, batch.side] = self._references(batch)
        return dataclasses.replace(self, n_jobs=None, _anchors=kept)

    def widths(self, batch: Batch) -> FloatArray:
        """Return how far log Z can be from what `evaluate` returns, (B,)."""
        return strip_widths(*batch.models, self.window, self._references(batch), self.n_jobs)

    def bounds(self, group: Group) -> bool:
        """Return whether the short side of the images exceeds the window; else all is exact."""
        shape = group.prepared.structure.image_shape
        return shape is None or min(shape) > self.window

    def _references(self, batch: Batch) -> Bits:
        """Return the reference of each example, (B, n)."""
        group, rows, alpha, fields, side = batch
        if not self.anchored:
            return self._modes(group, rows, alpha, fields)
        key = group, side
        if key not in self._anchors:
            self._anchors[key] = group.room()
            for part in group.pieces():
                self._anchors[key][part] = np.full(1, UNKNOWN, dtype=np.uint8)
        anchors = self._anchors[key]
        new = (anchors[rows] == UNKNOWN).any(axis=1)
        if new.any():
            anchors[rows[new]] = self._modes(group, rows[new], alpha, fields[new])
        return anchors[rows]

    def _modes(self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray) -> Bits:
        """Return the mode of each example, given its labels unless this is anchored."""
        # examples that are alike share one model, which does not depend on labels
        if group.labels is not None and not self.anchored and not group.alike():
            x = group.labels[rows]
            if not (x == UNKNOWN).any():
                return x
            fields = np.where(x == 1, np.inf, np.where(x == 0, -np.inf, fields))
        return group.prepared.maximize(
            fields, alpha, edge_weights=group.factors(rows), n_jobs=self.n_jobs
        )[0]


class Exact:
    r"""The engine that suits a group: exact where that is affordable, else strips on image grids.

    Parameters
    ----------
    window : int
        Columns of the strips, on grids whose short side is too long to be summed over at once.
    n_jobs : int, optional
        Threads over the examples, for strips.
    budget : float, optional
        Weights that an example may take. A grid of n pixels whose short side has s is summed
        whole, exactly, where :math:`n2^s` are no more; otherwise windows have as many columns w as
        :math:`nw2^w` allows, if these are more than `window`. By default a million, and no wider
        windows.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Exact, Objective, make_examples
    >>> data = make_examples(ls.grid_cuts((3, 4)), labels=np.zeros((1, 3, 4)))
    >>> loss = Objective.supervised(data, Exact()).loss(np.zeros(data.layout.size))
    >>> bool(np.isclose(loss.value, 12 * np.log(2)))
    True
    """

    def __init__(
        self, window: int = 6, n_jobs: int | None = None, budget: float | None = None
    ) -> None:
        self.strips = Strips(check_integer(window, "window", 1, 2**31), n_jobs)
        self.budget = budget
        self._chosen: dict[Group, Engine] = {}

    @property
    def n_jobs(self) -> int | None:
        """Threads over the examples."""
        return self.strips.n_jobs

    def anchor(self, window: int) -> Exact:
        """Return the same with strips that will keep the references of their first evaluation."""
        other = Exact(window, budget=self.budget)
        other.strips = self.strips.anchor(window)
        return other

    def applies(self, examples: Examples) -> bool:
        """Return whether all examples can be evaluated."""
        try:
            for group in examples.groups:
                self.choose(group)
        except (NotApplicable, TooLarge):
            return False
        return True

    def choose(self, group: Group) -> Engine:
        """Return the engine for a group; refuse one that would take too long."""
        if group not in self._chosen:
            factors = group.edge_weights is not None
            choice = choose(group.prepared, factors, self.strips.window, self.budget)
            self._chosen[group] = (
                dataclasses.replace(self.strips, window=choice.window)
                if choice.method == "strips"
                else Sums(choice.method)
            )
        return self._chosen[group]

    def relocate(self, batch: Batch, own: Group) -> Engine:
        """Return the engine for another process, where the batch is all of the group `own`."""
        chosen = self.choose(batch.group)
        return chosen.relocate(batch, own) if isinstance(chosen, Strips) else chosen

    def bounds(self, group: Group) -> bool:
        """Return whether the values of a group are bounds, rather than exact."""
        chosen = self.choose(group)
        return isinstance(chosen, Strips) and chosen.bounds(group)

    def window(self, examples: Examples) -> int:
        """Return the columns of the widest window, 0 where no group has any."""
        engines = [self.choose(group) for group in examples.groups]
        return max((e.window for e in engines if isinstance(e, Strips)), default=0)

    def widths(self, batch: Batch) -> FloatArray:
        """Return how far log Z can be from what `evaluate` returns, (B,)."""
        chosen = self.choose(batch.group)
        return chosen.widths(batch) if isinstance(chosen, Strips) else np.zeros(len(batch.rows))

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Evaluate by the engine of the group."""
        return self.choose(batch.group).evaluate(batch, step)


def some_of(examples: Examples) -> IntArray:
    """Return the examples, evenly spaced in the data, that widths are measured on."""
    return np.unique(np.linspace(0, examples.count - 1, _MEASURED).astype(np.int64))
