r"""Engines without an approximation, or with one that is certified to be small.

Small ground sets, graphs of small width and image grids with a side that is short enough to sum
over all its states at once are exact. On larger grids the log-partition function is that of the
strips, a bound whose distance from the truth is known and, away from the phase transition, about
halves with every column of the window.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, check_integer, count_threads
from logsuper.bounds import (
    GridForm,
    NotApplicable,
    TooLarge,
    chain_odds,
    edge_fields,
    eliminate,
    elimination_cost,
    pair_marginals,
    strips_gradient,
)
from logsuper.functions import Cut, Modular, SubmodularFunction
from logsuper.learning._count_engine import Counts
from logsuper.learning._engines import Batch, Engine, Partition, Side
from logsuper.learning._examples import UNKNOWN, Examples, Group
from logsuper.learning._pairs import Pairs, Reduced, grid_shape
from logsuper.solvers import kernels

__all__ = ["SHARED", "WIDTH", "Elimination", "Enumeration", "Exact", "Strips", "some_of"]

SHARED = 2e7
"""The `budget` of `Exact` where one evaluation serves all examples: some tenths of a second."""
WIDTH = 0.1
"""The uncertainty of log Z, in nats an example, with which a window is wide enough."""

# Enumeration takes ground sets of so many elements, and is the fastest up to that many.
_LARGEST, _TINY = 16, 10
_LEAST = 1e-300
# States of all examples that are held at once.
_HELD = 1 << 22
# Operations of elimination, of about a nanosecond, that one example may take.
_BUDGET = 1e9
# Weights that a grid may take in place of its windows: some milliseconds.
_WHOLE = 1e6
# Columns of the widest window that is taken without having been asked for.
_WIDEST = 12
# Examples that widths are measured on.
_MEASURED = 20

Bits = NDArray[np.uint8]
Target = Literal["lower", "upper"]
Row = tuple[float, FloatArray, FloatArray]
"""Of one example: log Z, the expected functions and the expected x."""


class Enumeration:
    """Sums over all states: any functions, of up to 16 elements."""

    def __init__(self) -> None:
        self._tables: dict[Group, tuple[Bits, FloatArray]] = {}

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Sum over the states, some examples at a time."""
        group, rows, alpha, fields, _ = batch
        if group not in self._tables:
            self._tables[group] = _tabulate(group, None)
        X, F = self._tables[group]
        size = 1 if group.edge_weights is not None else max(1, _HELD // len(X))
        parts = []
        for first in range(0, len(rows), size):
            some = slice(first, first + size)
            if group.edge_weights is not None:
                _, F = _tabulate(group, group.factors(rows[some]))
            parts.append(_sum_states(X, F, alpha, fields[some]))
        return Partition(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Elimination:
    """Exact inference in pairwise functions of moderate treewidth, one example after the other."""

    def __init__(self) -> None:
        self._pairs: dict[Group, Pairs] = {}

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Sum out the elements of each example in turn."""
        group, rows, alpha, fields, _ = batch
        if group not in self._pairs:
            self._pairs[group] = Pairs.need(group, "elimination")
        pairs = self._pairs[group]
        return _stack(
            [
                _solve(pairs, pairs.scaled(group, row), alpha, field, partial(_eliminate, pairs))
                for row, field in zip(rows, fields, strict=True)
            ]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Strips:
    r"""Strip bounds on log Z of 4-neighbour grids, with their gradients.

    The free side of an objective is bounded from above, the held side from below: the loss is an
    upper bound on that of exact inference, by less than the widths. A lower bound on the free side
    would not do: it has spurious minima, at couplings that are strong enough to make it loose.

    Every example has a reference image, on which its bound depends a little. By default it is the
    mode given what is labelled, under the parameters at hand. With all labels the loss then is
    :math:`-\sum_d\log p(x_d\mid x_{<d})` with each factor bounded from below, a smooth function;
    with few it jumps a little where a mode changes. An engine that is anchored takes the modes at
    its first evaluation and keeps them: bounds that are tighter near there, and smooth.

    Attributes
    ----------
    window : int
        Columns that are summed over at once. A grid whose short side is no longer is exact.
    n_jobs : int or None
        Threads over the examples.
    anchored : bool
    """

    window: int = 6
    n_jobs: int | None = None
    anchored: bool = False
    _lattices: dict[Group, _Lattice] = dataclasses.field(default_factory=dict)
    _anchors: dict[tuple[Group, Side], _Anchors] = dataclasses.field(default_factory=dict)

    def anchor(self, window: int) -> Strips:
        """Return an engine that will keep the references of its first evaluation."""
        return dataclasses.replace(self, window=window, anchored=True, _anchors={})

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Bound log Z of each example, several at a time."""
        group, rows, alpha, fields, side = batch
        target: Target = "lower" if side == "held" else "upper"
        lattice = self._lattice(group)
        references = self._references(batch)

        def one(row: int, field: FloatArray, reference: Bits) -> Row:
            def infer(reduced: Reduced) -> Row:
                grid, x, transposed = lattice.lay(reduced, reference, self.window)
                value, *gradient = strips_gradient(grid, x, self.window, side=target)
                mean, by_weight = lattice.gather(gradient, transposed)
                return value, mean, -by_weight

            weights = lattice.pairs.scaled(group, row)
            return _solve(lattice.pairs, weights, alpha, field, infer)

        return _stack(self._map(one, rows, fields, references))

    def widths(self, batch: Batch) -> FloatArray:
        """Return how far log Z can be from what `evaluate` returns, (B,)."""
        group, rows, alpha, fields, _ = batch
        lattice = self._lattice(group)
        references = self._references(batch)

        def one(row: int, field: FloatArray, reference: Bits) -> float:
            reduced = lattice.pairs.reduce(lattice.pairs.scaled(group, row), alpha, field)
            grid, x, _ = lattice.lay(reduced, reference, self.window)
            low, high = chain_odds(
                grid, min(self.window, grid.shape[1]), x, edge_fields(grid), threads=1
            )
            above, below = np.where(x == 1, (-low, -high), (high, low))
            return float(np.sum(np.logaddexp(0.0, above) - np.logaddexp(0.0, below)))

        return np.array(self._map(one, rows, fields, references))

    def covers(self, group: Group) -> bool:
        """Return whether the window holds the short side of the images, so that all is exact."""
        return min(self._lattice(group).shape) <= self.window

    def _map(
        self, one: Callable[..., Any], rows: IntArray, fields: FloatArray, references: Bits
    ) -> list[Any]:
        """Do something for each example, on the threads."""
        tasks = zip(rows.tolist(), fields, references, strict=True)
        threads = count_threads(self.n_jobs)
        if threads == 1:
            return [one(*task) for task in tasks]
        # the kernel releases the interpreter
        return list(Parallel(threads, require="sharedmem")(delayed(one)(*task) for task in tasks))

    def _lattice(self, group: Group) -> _Lattice:
        """Return the edges of a group on their image; refuse what is none."""
        if group not in self._lattices:
            pairs = Pairs.need(group, "strips")
            shape = grid_shape(group, pairs)
            if shape is None:
                raise NotApplicable(
                    "strips needs 4-neighbour cuts of one image (grid_cuts), got "
                    f"{list(group.prepared.functions)!r}"
                )
            self._lattices[group] = _Lattice(pairs, shape)
        return self._lattices[group]

    def _references(self, batch: Batch) -> Bits:
        """Return the reference of each example, (B, n)."""
        group, rows, alpha, fields, side = batch
        if not self.anchored:
            return self._modes(group, rows, alpha, fields)
        key = group, side
        if key not in self._anchors:
            self._anchors[key] = _Anchors(group.count, group.prepared.n)
        anchors = self._anchors[key]
        new = ~anchors.known[rows]
        if new.any():
            anchors.x[rows[new]] = self._modes(group, rows[new], alpha, fields[new])
            anchors.known[rows[new]] = True
        return anchors.x[rows]

    def _modes(self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray) -> Bits:
        """Return the mode of each example, given its labels unless this is anchored."""
        # where examples are alike, one of them stands for all, whatever its labels are
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
        self._others = Elimination(), Enumeration(), Counts()
        self._chosen: dict[Group, Engine] = {}

    @property
    def n_jobs(self) -> int | None:
        """Threads over the examples."""
        return self.strips.n_jobs

    def anchor(self, window: int) -> Exact:
        """Return the same with strips that will keep the references of their first evaluation."""
        other = Exact(window, budget=self.budget)
        other.strips, other._others = self.strips.anchor(window), self._others
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
            self._chosen[group] = self._choose(group)
        return self._chosen[group]

    def bounds(self, group: Group) -> bool:
        """Return whether the values of a group are bounds, rather than exact."""
        chosen = self.choose(group)
        return isinstance(chosen, Strips) and not chosen.covers(group)

    def window(self, examples: Examples) -> int:
        """Return the columns of the widest window, 0 where no group has any."""
        engines = [self.choose(group) for group in examples.groups]
        return max((e.window for e in engines if isinstance(e, Strips)), default=0)

    def _choose(self, group: Group) -> Engine:
        elimination, enumeration, counts = self._others
        n, functions = group.prepared.n, list(group.prepared.functions)
        if n <= _TINY:
            return enumeration
        pairs = Pairs.of(group)
        shape = None if pairs is None else grid_shape(group, pairs)
        if shape is not None:
            window = self._columns(n, min(shape))
            # wide windows take long without the kernels, which elimination does not need
            if window > self.strips.window and window == min(shape) and kernels() is None:
                return elimination
            return dataclasses.replace(self.strips, window=window)
        if n <= _LARGEST:
            return enumeration
        cost = Counts.cost(group)
        if pairs is None and cost is None:
            raise NotApplicable(
                "exact needs pairwise functions, counts over disjoint sets, or at most "
                f"{_LARGEST} elements, got n = {n} and {functions!r}; use method='samples'"
            )
        if pairs is not None:
            cost = elimination_cost(_pairwise(pairs, pairs.weights.sum(axis=0), np.zeros(n)))
        assert cost is not None
        if not cost <= _BUDGET:
            raise TooLarge(
                f"exact would take {cost:.2g} operations an example for {functions!r}, above "
                f"{_BUDGET:.0e}; use method='samples'",
                cost,
            )
        return counts if pairs is None else elimination

    def _columns(self, n: int, short: int) -> int:
        """Return the columns of the windows of a grid."""
        given, budget = self.strips.window, _WHOLE if self.budget is None else self.budget
        if short > given and n * 2.0 ** min(short, 1000) <= budget:
            return short
        if short <= given or self.budget is None:
            return given
        wider = range(given + 1, _WIDEST + 1)
        return max((w for w in wider if n * w * 2.0**w <= budget), default=given)

    def widths(self, batch: Batch) -> FloatArray:
        """Return how far log Z can be from what `evaluate` returns, (B,)."""
        chosen = self.choose(batch.group)
        return chosen.widths(batch) if isinstance(chosen, Strips) else np.zeros(len(batch.rows))

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Evaluate by the engine of the group."""
        return self.choose(batch.group).evaluate(batch, step)


def some_of(examples: Examples) -> IntArray:
    """Return the examples, all over the data, that widths are measured on."""
    return np.unique(np.linspace(0, examples.count - 1, _MEASURED).astype(np.int64))


# ------------------------------------------------------------------------------------------ inside


@dataclasses.dataclass(frozen=True, eq=False)
class _Lattice:
    """Edges of a group, placed on an image."""

    pairs: Pairs
    shape: tuple[int, int]

    @property
    def is_across(self) -> NDArray[np.bool_]:
        i, j = self.pairs.edges.T
        return np.asarray((j == i + 1) & (j % self.shape[1] > 0))

    def lay(self, reduced: Reduced, reference: Bits, window: int) -> tuple[GridForm, Bits, bool]:
        """Return an example's function as a grid, its reference, and whether it is transposed.

        Windows of rows or columns: those that end at the weaker edges, which more often have
        different ends in the reference.
        """
        rows, columns = self.shape
        at, is_across = self.pairs.edges[:, 0], self.is_across
        planes = np.zeros((2, rows * columns))
        for plane, mine in zip(planes, (is_across, ~is_across), strict=True):
            plane[at[mine]] = reduced.weights[mine]
        grid = GridForm(
            self.shape,
            reduced.field.reshape(self.shape),
            np.ascontiguousarray(planes[0].reshape(self.shape)[:, :-1]),
            np.ascontiguousarray(planes[1].reshape(self.shape)[:-1]),
            np.flatnonzero(~reduced.fixed),
        )
        x = reference.reshape(self.shape)
        transposed = rows < columns
        if min(rows, columns) > window:
            transposed = bool(np.mean(x[1:] != x[:-1]) > np.mean(x[:, 1:] != x[:, :-1]))
        if transposed:
            return grid.transposed(), np.ascontiguousarray(x.T), True
        return grid, x, False

    def gather(
        self, gradient: Sequence[FloatArray], transposed: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return derivatives in the fields (n,) and in the weights of the edges (E,)."""
        dt, dacross, ddown = gradient
        if transposed:
            dt, dacross, ddown = dt.T, ddown.T, dacross.T
        planes = np.zeros((2, *self.shape))
        planes[0, :, :-1], planes[1, :-1] = dacross, ddown
        across, down = planes.reshape(2, -1)[:, self.pairs.edges[:, 0]]
        return dt.ravel(), np.where(self.is_across, across, down)


class _Anchors:
    """Reference images of a group that stay."""

    def __init__(self, count: int, n: int) -> None:
        self.x = np.zeros((count, n), dtype=np.uint8)
        self.known = np.zeros(count, dtype=bool)


def _solve(
    pairs: Pairs,
    weights: FloatArray,
    alpha: FloatArray,
    field: FloatArray,
    infer: Callable[[Reduced], Row],
) -> Row:
    """Return log Z and expectations of an example, by what infers those of its free part."""
    reduced = pairs.reduce(weights, alpha, field)
    value, mean, apart = infer(reduced)
    stats, full = pairs.expect(weights, reduced, mean, apart)
    return value + reduced.constant, stats, full


def _stack(parts: list[Row]) -> Partition:
    values, stats, means = zip(*parts, strict=True)
    return Partition(np.array(values)[:, None], np.array(stats), np.array(means))


def _pairwise(pairs: Pairs, weights: FloatArray, field: FloatArray) -> SubmodularFunction:
    return Cut(len(field), pairs.edges, weights) - Modular(field)


def _eliminate(pairs: Pairs, reduced: Reduced) -> Row:
    """Return log Z, E x and P(x_i != x_j) of what is not fixed."""
    # a weight that changes nothing keeps the edge: the same plan serves all examples and steps
    f = _pairwise(pairs, np.maximum(reduced.weights, _LEAST), reduced.field)
    value = eliminate(f).value - float(reduced.fixed.sum()) * math.log(2.0)
    mean, _, apart = pair_marginals(f)
    return value, mean, apart


def _tabulate(group: Group, factors: FloatArray | None) -> tuple[Bits, FloatArray]:
    """Return all states (2^n, n) and the functions there (2^n, K)."""
    n = group.prepared.n
    if n > _LARGEST:
        raise TooLarge(f"enumeration takes up to {_LARGEST} elements, got n = {n}", 2.0**n)
    X = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(np.uint8)
    # with every element fixed, maximising only evaluates, factors on edges and all
    fixed = np.where(X == 1, np.inf, -np.inf)
    alpha = np.zeros(len(group.prepared.functions))
    return X, group.prepared.maximize(fixed, alpha, edge_weights=factors)[2]


def _sum_states(X: Bits, F: FloatArray, alpha: FloatArray, fields: FloatArray) -> Partition:
    """Sum e^(u'x - f(x)) over all states for each field."""
    states = X.astype(np.float64)
    finite = np.where(np.isinf(fields), 0.0, fields)
    score = finite @ states.T - F @ alpha
    wrong = np.isneginf(fields) @ states.T + np.isposinf(fields) @ (1.0 - states.T)
    score[wrong > 0] = -np.inf
    top = score.max(axis=1, keepdims=True)
    mass = np.exp(score - top)
    total = mass.sum(axis=1, keepdims=True)
    p = mass / total
    return Partition(top + np.log(total), p @ F, p @ states)
