r"""Coupled heat-bath sweeps, the step of all Markov chains of this package.

A sweep visits the elements in a fixed order and sets

.. math:: x_d\leftarrow 1\big[z_d<-\mathrm{gain}_d(x)\big],\qquad
          P(x_d=1\mid x_{-d})=\sigma(-\mathrm{gain}_d(x)),

with standard logistic :math:`z`. As f is submodular, gains decrease in x, hence the update is
monotone: chains with the same noise that start ordered stay ordered (Propp and Wilson 1996). The
noise is a function of (key, problem, time, position in the scan), so that it need not be stored to
be reproduced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from logsuper._base import Bits, FloatArray, IntArray, places_of
from logsuper.functions import Evaluated, SubmodularFunction, Walk, split_modular
from logsuper.sampling._budget import PIECE, Meter
from logsuper.solvers import kernels, logistic_noise
from logsuper.structures import Image, Pairwise, image_of, pairwise_of

# Float64 numbers that the NumPy implementation keeps in memory at a time.
_BLOCK = 1 << 22

Problems = NDArray[np.uint64]

# Operations (about one nanosecond each) per visit to an element in the kernels: on a grid; on a
# graph, without its neighbours; of a sum of terms, without the terms' own work. Then the factor by
# which NumPy is slower on pairwise functions.
_GRID, _GRAPH, _TERM, _NUMPY = 3.0, 10.0, 20.0, 20.0
# Operations of NumPy per unit of a term's `work`, and per term and visit for Python calls.
_NUMBER, _CALL = 6.0, 2e4


class Sweeps(NamedTuple):
    """Sweeps over some problems.

    Attributes
    ----------
    key : int
    problems : ndarray of shape (B,), uint64
        Numbers that the noise depends on.
    times : range
        With step 1 or -1.
    scale : float
        The factor b of g.
    threads : int
    """

    key: int
    problems: Problems
    times: range
    scale: float = 1.0
    threads: int = 1

    def in_kernel(self, kernel: Any, states: Bits, field: FloatArray, *more: Any) -> None:
        """Run the sweeps by a compiled scan."""
        times = self.times.start, len(self.times), self.times.step
        kernel.run(states, field, self.scale, self.key, self.problems, *times, self.threads, *more)

    def noise(self, time: int, n: int) -> FloatArray:
        """Return the noise (B, n) of one sweep."""
        return logistic_noise(self.key, self.problems, time, n)[:, 0]


class Scan(ABC):
    r"""Sweeps with stationary distribution :math:`p(x)\propto\exp(\theta^\top x-b\,g(x))`.

    Attributes
    ----------
    n : int
    modular : ndarray of shape (n,)
        The modular part t of :math:`f(x)=g(x)-t^\top x`.
    """

    n: int
    modular: FloatArray
    # operations per visit to an element, and scratch numbers per problem besides its states
    _visit: float = _GRID
    _row: int = 0
    # function that long loops call regularly
    _pulse: Callable[[], None] | None = None

    def run(
        self, states: Bits, theta: FloatArray, sweeps: Sweeps, meter: Meter | None = None
    ) -> None:
        """Sweep over all chains of each problem, in place, once per time.

        Parameters
        ----------
        states : ndarray of shape (B, C, n), uint8
            One chain per problem, or two with the first below the second.
        theta : ndarray of shape (1 or B, n)
            Fields, including the modular part of f.
        sweeps : Sweeps
        meter : Meter, optional
            Counts the operations.
        """
        if not sweeps.times:
            return
        self._pulse = None if meter is None else meter.pulse
        step = self._step
        for first in range(0, len(states), step):
            block = states[first : first + step]
            field = theta if len(theta) == 1 else theta[first : first + step]
            numbers = sweeps.problems[first : first + step]
            # in pieces, with a possible callback after each
            cost = self.operations(len(block), block.shape[1], 1)
            length = max(1, int(sweeps.threads * PIECE / cost))
            for start in range(0, len(sweeps.times), length):
                part = sweeps.times[start : start + length]
                self._run(block, field, sweeps._replace(problems=numbers, times=part))
                if meter is not None:
                    meter.spend(len(part) * cost)

    @property
    def _step(self) -> int:
        """Number of problems per block."""
        return max(1, _BLOCK // max(self.n, self._row))

    def operations(self, problems: int, chains: int, sweeps: int) -> float:
        """Return the approximate number of operations (nanoseconds) of that many sweeps."""
        return self._visit * self.n * problems * chains * sweeps

    @property
    def energy_cost(self) -> float:
        """Approximate number of operations (nanoseconds) of the energy of one state."""
        return self._visit * self.n

    @abstractmethod
    def energy(self, states: Bits) -> FloatArray:
        """Return g at the states (B, n)."""

    @abstractmethod
    def _run(self, states: Bits, theta: FloatArray, sweeps: Sweeps) -> None:
        """Run the sweeps for a block of problems; see `run`."""


def make_scan(f: SubmodularFunction) -> Scan:
    """Return the fastest scan for f."""
    g, modular = split_modular(f)
    image = image_of(f)
    if image is not None:
        spread = np.zeros(image.t.size)
        spread[image.pixels] = modular
        whole = PairwiseScan(from_image(image), spread, checkerboard(image.shape), image)
        return HoledScan(whole, modular, image.pixels) if image.fixed else whole
    pairwise = pairwise_of(f)
    if pairwise is not None:
        return PairwiseScan(pairwise, modular, np.arange(f.n))
    return GenericScan(g, modular)


def checkerboard(shape: tuple[int, int]) -> IntArray:
    """Return the elements of a grid, those with an even row + column first."""
    row, column = np.indices(shape)
    return np.argsort((row + column).ravel() % 2, kind="stable")


def from_image(image: Image) -> Pairwise:
    """Return an image as a list of edges, including those of weight 0."""
    return Pairwise(image.t.size, *image.edges(), image.t.ravel())


class PairwiseScan(Scan):
    r"""Sweeps over a graph: :math:`-\mathrm{gain}_d=t_d+\sum_jw_{dj}(2x_j-1)`.

    Sums run over the neighbours in order of index, in NumPy and in the kernel, and the products are
    exact. Hence both give identical results, also for a grid and its list of edges.
    """

    def __init__(
        self,
        pairwise: Pairwise,
        modular: FloatArray,
        order: IntArray,
        grid: Image | None = None,
    ) -> None:
        with np.errstate(over="ignore"):
            total = np.abs(pairwise.t) + pairwise.strength
        if not np.isfinite(total).all():
            d = int(np.argmin(np.isfinite(total)))
            raise ValueError(f"the field and the weights of element {d} overflow; rescale f")
        self.n = pairwise.n
        self.modular = modular
        # graph-representable terms other than cuts may have linear parts
        self._linear = pairwise.t - modular
        self._pairwise = pairwise
        self._order = order
        self._grid = grid
        self._visit = _GRID if grid is not None else _GRAPH + 2.0 * len(pairwise.weights) / self.n
        if kernels() is None:
            self._visit *= _NUMPY

    @cached_property
    def _rows(self) -> csr_array:
        """The weights by position in the scan; neighbours within a row in order of index."""
        i, j = np.concatenate([self._pairwise.edges, self._pairwise.edges[:, ::-1]]).T
        position = places_of(self._order, self.n)
        sort = np.lexsort((j, position[i]))
        weights = np.tile(self._pairwise.weights, 2)[sort]
        start = np.concatenate([[0], np.cumsum(np.bincount(position[i], minlength=self.n))])
        return csr_array((weights, position[j[sort]], start), shape=(self.n, self.n))

    @cached_property
    def _levels(self) -> list[tuple[IntArray, csr_array]]:
        """The scan in parallel steps: positions that can be updated together, and their rows."""
        level = [0] * self.n
        start, neighbour = self._rows.indptr.tolist(), self._rows.indices.tolist()
        for p in range(self.n):
            before = [level[q] for q in neighbour[start[p] : start[p + 1]] if q < p]
            level[p] = 1 + max(before, default=-1)
        places = [np.flatnonzero(np.equal(level, k)) for k in range(max(level) + 1)]
        return [(place, self._rows[place]) for place in places]

    @cached_property
    def _kernel(self) -> Any:
        """The compiled scan, or None without kernels."""
        module = kernels()
        if module is None:
            return None
        if self._grid is not None:
            return module.grid_scan(self._grid.across, self._grid.down)
        rows = self._rows
        start, neighbour = (part.astype(np.int64) for part in (rows.indptr, rows.indices))
        return module.graph_scan(self._order, start, neighbour, rows.data)

    def energy(self, states: Bits) -> FloatArray:
        """Return g at the states (B, n)."""
        i, j = self._pairwise.edges.T
        cut = (states[:, i] != states[:, j]) @ self._pairwise.weights
        return np.asarray(cut - states @ self._linear)

    def _run(self, states: Bits, theta: FloatArray, sweeps: Sweeps) -> None:
        field = theta + sweeps.scale * self._linear
        if self._kernel is None:
            self._sweep(states, field, sweeps)
        else:
            sweeps.in_kernel(self._kernel, states, field)

    def _sweep(self, states: Bits, field: FloatArray, sweeps: Sweeps) -> None:
        """Run the sweeps in NumPy, for all problems together."""
        count, chains, _ = states.shape
        spins = np.ascontiguousarray(states.reshape(-1, self.n).T[self._order]) * 2.0 - 1.0
        field = np.repeat(np.broadcast_to(field, (count, self.n)).T[self._order], chains, axis=1)
        for time in sweeps.times:
            noise = sweeps.noise(time, self.n).T.repeat(chains, axis=1)
            for place, rows in self._levels:
                below = noise[place] < field[place] + sweeps.scale * (rows @ spins)
                spins[place] = np.where(below, 1.0, -1.0)
        states.reshape(-1, self.n)[:, self._order] = spins.T > 0


class HoledScan(Scan):
    """Sweeps over an image with fixed pixels, which have no edges and do not affect the others."""

    def __init__(self, whole: PairwiseScan, modular: FloatArray, pixels: IntArray) -> None:
        self.n = len(pixels)
        self.modular = modular
        self._whole, self._pixels = whole, pixels
        self._visit = whole._visit * whole.n / max(1, self.n)

    def energy(self, states: Bits) -> FloatArray:
        """Return g at the states (B, n)."""
        full = np.zeros((len(states), self._whole.n), dtype=np.uint8)
        full[:, self._pixels] = states
        return self._whole.energy(full)

    def _run(self, states: Bits, theta: FloatArray, sweeps: Sweeps) -> None:
        full = np.zeros((*states.shape[:2], self._whole.n), dtype=np.uint8)
        full[..., self._pixels] = states
        fields = np.zeros((*theta.shape[:-1], self._whole.n))
        fields[..., self._pixels] = theta
        self._whole._run(full, fields, sweeps)
        states[:] = full[..., self._pixels]


class GenericScan(Scan):
    """Sweeps for any function, by the gains of its terms, one element after the other.

    The kernels are used if they support all terms, otherwise NumPy, for all problems together. If
    `walks` are given, their weighted gains must be those of g.
    """

    def __init__(
        self,
        g: SubmodularFunction,
        modular: FloatArray,
        walks: list[tuple[float, Walk]] | None = None,
    ) -> None:
        self.n = g.n
        self.modular = modular
        self._g = g
        self._row = g._row_size()
        self._walks = g._walks() if walks is None else walks
        if not any(isinstance(walk, Evaluated) for _, walk in self._walks):
            # evaluations are checked for overflow; without any, check the extreme gains here
            ends = np.stack([np.zeros(g.n), np.ones(g.n)])
            g(ends)
            g.gains(ends)
        numbers = sum(walk.work for _, walk in self._walks)
        self._visit = (_TERM + numbers) if self._kernel is not None else _NUMBER * numbers

    @cached_property
    def _kernel(self) -> Any:
        """The compiled scan; None without kernels, or if they do not support a term."""
        module = kernels()
        if module is None:
            return None
        scan = module.term_scan(self.n)
        known = [walk.add_to(scan, weight) for weight, walk in self._walks]
        return scan if all(known) else None

    def operations(self, problems: int, chains: int, sweeps: int) -> float:
        """Return the approximate number of operations (nanoseconds) of that many sweeps."""
        own = super().operations(problems, chains, sweeps)
        if self._kernel is not None:
            return own
        blocks = -(-problems // self._step)
        return own + _CALL * len(self._walks) * self.n * sweeps * blocks

    def _run(self, states: Bits, theta: FloatArray, sweeps: Sweeps) -> None:
        if self._kernel is None:
            self._sweep(states, theta, sweeps)
        else:
            sweeps.in_kernel(self._kernel, states, np.ascontiguousarray(theta), self._pulse)

    def _sweep(self, states: Bits, theta: FloatArray, sweeps: Sweeps) -> None:
        """Run the sweeps in NumPy, for all problems together."""
        count, chains, _ = states.shape
        X = states.reshape(-1, self.n).astype(np.float64)
        field = np.repeat(np.broadcast_to(theta, (count, self.n)), chains, axis=0)
        for _, walk in self._walks:
            walk.start(X)
        for time in sweeps.times:
            noise = sweeps.noise(time, self.n).repeat(chains, axis=0)
            for _, walk in self._walks:
                walk.renew()
            for d in range(self.n):
                gain = self._gain(d, chains)
                new = noise[:, d] < field[:, d] - sweeps.scale * gain
                rows = np.flatnonzero(new != (X[:, d] > 0))
                if len(rows):
                    X[rows, d] = new[rows]
                    for _, walk in self._walks:
                        walk.flipped(d, rows)
                if self._pulse is not None:
                    self._pulse()
        states[:] = X.reshape(states.shape)

    def _gain(self, d: int, chains: int) -> FloatArray:
        """Return the gains of element d in all chains."""
        total: FloatArray = np.zeros(1)
        for weight, walk in self._walks:
            gain = walk.gain(d)
            if chains == 2 and isinstance(walk, Evaluated):
                walk.refuse_rise(gain.reshape(-1, 2), d)
            total = total + weight * gain
        if chains == 2:
            # enforce, despite rounding, that the gain at the larger state is not larger
            pairs = total.reshape(-1, 2)
            np.minimum(pairs[:, 1], pairs[:, 0], out=pairs[:, 1])
        return total

    def energy(self, states: Bits) -> FloatArray:
        """Return g at the states (B, n)."""
        return np.asarray(self._g(states))

    @property
    def energy_cost(self) -> float:
        """Approximate number of operations (nanoseconds) of the energy of one state."""
        return _NUMBER * self._g._row_cost()
