r"""Engines without an approximation, or with one that is certified to be small.

Small ground sets, graphs of small width and image grids with a side that is short enough to sum
over all its states at once are exact. On larger grids the log-partition function is that of the
strips, a bound whose distance from the truth is known and, away from the phase transition, about
halves with every column of the window.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, check_integer
from logsuper.bounds import Choice, NotApplicable, TooLarge, choose, infer, strip_widths
from logsuper.learning._engines import Batch, Engine, Partition, Side
from logsuper.learning._examples import UNKNOWN, Examples, Group

SHARED = 2e7
"""The `budget` of `Exact` where one evaluation serves all examples: some tenths of a second."""
WIDTH = 0.1
"""The uncertainty of log Z, in nats per example, with which a window is wide enough."""

# Number of examples that widths are measured on.
_MEASURED = 20

Bits = NDArray[np.uint8]


class _Method:
    """One method of `infer` for all examples."""

    method: str

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Infer all models of the batch."""
        group, rows, alpha, fields, _ = batch
        choice = Choice(self.method)
        found = infer(group.prepared, alpha, fields, group.factors(rows), choice=choice)
        return Partition(found.values[:, None], found.stats, found.mean)


class Enumeration(_Method):
    """Sums over all states: any functions, of up to 16 elements."""

    method = "enumeration"


class Elimination(_Method):
    """Exact inference in pairwise functions of moderate treewidth, one example after the other."""

    method = "elimination"


class Counts(_Method):
    """Exact inference where only counts over disjoint sets matter, one example after the other."""

    method = "cardinality"


_SUMS: dict[str, Engine] = {e.method: e for e in (Elimination(), Enumeration(), Counts())}


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
    _anchors: dict[tuple[Group, Side], Bits] = dataclasses.field(default_factory=dict)

    def anchor(self, window: int) -> Strips:
        """Return an engine that will keep the references of its first evaluation."""
        return dataclasses.replace(self, window=window, anchored=True, _anchors={})

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Bound log Z of each example, several at a time."""
        group, rows, alpha, fields, side = batch
        found = infer(
            group.prepared,
            alpha,
            fields,
            group.factors(rows),
            choice=Choice("strips", self.window),
            side="lower" if side == "held" else "upper",
            references=self._references(batch),
            n_jobs=self.n_jobs,
        )
        return Partition(found.values[:, None], found.stats, found.mean)

    def widths(self, batch: Batch) -> FloatArray:
        """Return how far log Z can be from what `evaluate` returns, (B,)."""
        group, rows, alpha, fields, _ = batch
        factors, references = group.factors(rows), self._references(batch)
        return strip_widths(
            group.prepared, alpha, fields, factors, self.window, references, self.n_jobs
        )

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
            self._anchors[key] = np.full((group.count, group.prepared.n), UNKNOWN, dtype=np.uint8)
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
            strips = dataclasses.replace(self.strips, window=choice.window)
            self._chosen[group] = _SUMS.get(choice.method, strips)
        return self._chosen[group]

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
