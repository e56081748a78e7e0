"""The work of solving all tiles of an image, and then the pixels that they leave open."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import (
    Bits,
    Box,
    IntArray,
    available_memory,
    check_integer,
    count_threads,
    even_cuts,
    extent,
    make_tiles,
    volume,
)
from logsuper.solvers._native import kernels
from logsuper.solvers._tile_checkpoint import Checkpoint, run_saved
from logsuper.solvers._tile_grid import TileGrid, box_field, forget_kernels, pixel_bytes
from logsuper.solvers._tile_open import Components, OpenSet
from logsuper.solvers._tile_rest import BYTES_PER_PIXEL, Rest, by_block
from logsuper.solvers._tile_solve import OPEN, OpenPixels, Task, record, solve_again
from logsuper.solvers._tile_sources import read
from logsuper.solvers._tile_units import choose_units

# Pixels of a block and of its halo by default, for one, two and three axes. Solvers of larger
# blocks do not fit the cache; `python -m benchmarks.tiles` compares sizes.
_BLOCK = {1: 1 << 18, 2: 512, 3: 96}
_HALO = {1: 64, 2: 8, 3: 4}
# Chunks of a file along each side of a block.
_CHUNKS = 4
# Tiles after which it is asked whether tiles prove anything, if the whole image fits.
_TRIED = 8
# Pixels that are read at a time from an array in memory to choose the integers.
_SLAB = 1 << 19
# Fraction of the memory limit for the boxes that are solved at the same time.
_SHARE = 0.5
# The same for a box that is solved when nothing else is.
_SHARE_ALONE = 0.8


class TileProgress(NamedTuple):
    """How far `maximize_tiles` is.

    Attributes
    ----------
    done, total : int
        Number of tiles.
    open : int
        Number of pixels of finished tiles that are not proven yet.

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> across, down = ls.grid_cuts((40, 40))
    >>> told = []
    >>> theta = np.random.default_rng(0).normal(size=(40, 40))
    >>> _ = ls.maximize_tiles(across + down, theta, block=20, callback=told.append)
    >>> told[-1].done == told[-1].total
    True
    """

    done: int
    total: int
    open: int


class Sizes(NamedTuple):
    """Block and halo in pixels, and what fits into memory.

    Attributes
    ----------
    block : tuple of int
    even : bool
        Whether blocks are made about equal, instead of as large as possible.
    halo : int
    rest : int
        Open pixels that may be solved together.
    memory : float
        Bytes that the call may use.
    """

    block: tuple[int, ...]
    even: bool
    halo: int
    rest: int
    memory: float

    def cuts(self, shape: Sequence[int]) -> list[list[int]]:
        """Return, for each axis, where blocks begin, and the end."""
        if self.even:
            return even_cuts(shape, self.block)
        return [[*range(0, n, side), n] for n, side in zip(shape, self.block, strict=True)]


class TileMap:
    """Calls of a function for many arguments; results come in order.

    On a cluster, or any other backend of joblib that is not of threads, the calls are joblib's.
    Threads are our own: joblib looks for results every hundredth of a second, in which a thread
    solves several tiles.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = n_jobs

    def __call__(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        import joblib  # on first use, as it takes a while

        backend, usual = joblib.parallel.get_active_backend(prefer="threads")
        if getattr(backend, "uses_threads", False):
            jobs = usual if self.n_jobs is None else self.n_jobs
            return _over_threads(function, arguments, count_threads(jobs))
        # tiles are large enough: one task each
        parallel = joblib.Parallel(
            n_jobs=self.n_jobs, prefer="threads", return_as="generator", batch_size=1
        )
        return iter(parallel(joblib.delayed(function)(*each) for each in arguments))


# Tasks per thread that are begun or waiting.
_AHEAD = 4


def _over_threads(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], threads: int
) -> Iterator[Any]:
    """Yield the results of calls, in order; few results wait for the caller at a time."""
    if threads == 1:
        yield from itertools.starmap(function, arguments)
        return
    waiting: collections.deque[Future[Any]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for each in arguments:
                waiting.append(pool.submit(function, *each))
                if len(waiting) == _AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error, or if the caller stops
            pool.shutdown(cancel_futures=True)


class Work:
    """The state of a call: tiles, open pixels, and what they cost.

    Parameters
    ----------
    grid : TileGrid
    theta : source
    tie : {None, "min", "max"}
    sizes : Sizes
    over : TileMap
    """

    def __init__(
        self, grid: TileGrid, theta: Any, tie: str | None, sizes: Sizes, over: TileMap
    ) -> None:
        self.grid, self.theta, self.tie, self.sizes, self.over = grid, theta, tie, sizes, over
        self.cuts = sizes.cuts(grid.shape)
        self.tiles = make_tiles(grid.shape, self.cuts, sizes.halo + 1)
        self.units = choose_units(grid, theta, self._slabs(), tie, over)
        self.open = OpenSet(grid.shape, self.cuts, grid.steps)
        self.reopened = self.solved = 0
        self.left: IntArray = np.empty(0, dtype=np.int64)

    def _slabs(self) -> list[Box]:
        """Return boxes that are fast to read: blocks, or whole rows of an array in memory."""
        shape = self.grid.shape
        if type(self.theta) is not np.ndarray or not self.theta.flags.c_contiguous:
            return [tile.core for tile in self.tiles]
        rows = max(1, _SLAB // math.prod(shape[1:]))
        slabs = make_tiles(shape, even_cuts(shape, (rows, *shape[1:])), 0)
        return [slab.core for slab in slabs]

    def run(
        self,
        labels: Any,
        saved: Checkpoint | None = None,
        callback: Callable[[TileProgress], object] | None = None,
        budget: float | None = None,
    ) -> None:
        """Write the labels of the whole image to an array."""
        try:
            self.first_round(labels, saved, callback, may_stop=budget is None)
            self.reopened = len(self.open)
            self.finish(labels, math.inf if budget is None else budget)
            self.left = self.open.places()
        finally:
            forget_kernels()  # frees the work space of the solvers

    @property
    def most(self) -> int:
        """Pixels of a box that may be solved when nothing else is."""
        tier = self.units.tier
        if kernels() is None or tier not in ("narrow", "wide"):
            return self.sizes.rest
        each = pixel_bytes(len(self.grid.steps), tier == "wide", self.grid.uniform)
        return int(_SHARE_ALONE * self.sizes.memory / each)

    def first_round(
        self,
        labels: Any,
        saved: Checkpoint | None,
        callback: Callable[[TileProgress], object] | None,
        may_stop: bool,
    ) -> None:
        """Solve all tiles; or give up if most pixels stay open, and the whole image fits."""
        count = len(self.tiles)
        enough = max(_TRIED, count // 20)
        may_stop &= enough < count and self.grid.size <= self.most
        number = seen = reopened = 0
        stop = False

        def tasks() -> Iterator[tuple[Task, Checkpoint | None]]:
            for tile in self.tiles:
                if stop:
                    return
                yield Task.of(self.grid, self.theta, tile, self.units, self.tie), saved

        for number, found in enumerate(self.over(run_saved, tasks()), 1):
            is_open = found.take_open(self.tie)
            put_box(labels, self.tiles[number - 1].core, found.labels)
            self.open.put(number - 1, is_open)
            self.solved += found.solved
            seen += is_open.size
            reopened += int(np.count_nonzero(is_open))
            stop |= may_stop and number == enough and 2 * reopened > seen
            if callback is not None:
                callback(TileProgress(number, count, reopened))
        for later in range(number, count):
            self.open.put(later, np.ones(extent(self.tiles[later].core), dtype=bool))
        if stop and callback is not None:
            callback(TileProgress(count, count, reopened))

    def finish(self, labels: Any, budget: float) -> None:
        """Solve the open pixels, with the proven ones fixed.

        Where they are dense, boxes around them are solved as grids, else graphs of open pixels. If
        neither fits into memory, tiles get a larger halo.
        """
        halo = self.sizes.halo
        while len(self.open):
            found = self.open.components()
            boxes, graphs, large = self._plan(found, budget)
            budget -= int(found.sizes[graphs].sum()) + sum(map(volume, boxes))
            # graphs first, as the numbers of components are those of the open pixels of now
            for some in _batches(graphs, found.sizes, self.sizes.rest):
                self._solve_graph(labels, found, some)
            self.open.prove_components(found, graphs)
            for box in boxes:
                self._solve_box(labels, box)
            if not large:
                return
            halo = max(1, 4 * halo)
            boxes = [self._around(number, halo) for number in self.open.tiles()]
            cost = sum(map(volume, boxes))
            if cost > budget:
                return
            if max(map(volume, boxes)) > self.most:
                if budget < math.inf:
                    return
                raise MemoryError(
                    f"{large} connected pixels are not proven by tiles with a halo of {halo // 4}, "
                    "and do not fit: allow more (memory_limit), give a larger halo, or a budget to "
                    "leave them open"
                )
            budget -= cost
            for box in boxes:
                self._solve_box(labels, box)

    def _plan(self, found: Components, budget: float) -> tuple[list[Box], IntArray, int]:
        """Return boxes to be solved, components to be solved as graphs, and what is too large.

        The last is the number of pixels of the largest component that does not fit; 0 if all do.
        What a budget does not allow is in none of them.
        """
        groups = found.groups(self.grid.shape, volume(self.tiles[0].core))
        whole = tuple(slice(0, size) for size in self.grid.shape)
        dense = sum(volume(group.box) for group in groups if group.dense)
        if dense > volume(whole) and volume(whole) <= min(self.most, budget):
            return [whole], np.empty(0, dtype=np.int64), 0
        boxes: list[Box] = []
        graphs: list[IntArray] = []
        large = 0
        for group in groups:
            cost = volume(group.box)
            fits = cost <= self.most
            if fits and cost <= budget and (group.dense or group.size > self.sizes.rest):
                boxes.append(group.box)
                budget -= cost
                continue
            small = found.sizes[group.components] <= self.sizes.rest
            if not small.all() and not fits:
                large = max(large, int(found.sizes[group.components].max()))
            size = int(found.sizes[group.components[small]].sum())
            if size <= budget:
                graphs.append(group.components[small])
                budget -= size
        return boxes, np.concatenate([np.empty(0, dtype=np.int64), *graphs]), large

    def _around(self, number: int, halo: int) -> Box:
        """Return the box of the open pixels of a tile, with a margin."""
        places = np.nonzero(self.open.get(number))
        return tuple(
            slice(
                max(0, int(p.min()) + side.start - halo - 1),
                min(size, int(p.max()) + side.start + halo + 2),
            )
            for p, side, size in zip(places, self.open.core(number), self.grid.shape, strict=True)
        )

    def _solve_box(self, labels: Any, box: Box) -> None:
        """Solve the open pixels of a box as a grid; those that are not proven then stay open."""
        is_open = self.open.in_box(box)
        if not is_open.any():  # another box had them
            return
        known = take(labels, box, self.grid.shape).copy()
        proven, found = solve_again(
            self.grid, self.theta, self.units, self.tie, box, known, is_open
        )
        self.solved += volume(box)
        known[proven] = found[proven]
        put_box(labels, box, known)
        self.open.prove(box, proven)

    def _solve_graph(self, labels: Any, found: Components, some: IntArray) -> None:
        """Solve whole components of open pixels as a graph."""
        places = self.open.pixels_of(found, some)
        rest = Rest(
            (self._record(labels, number, where) for number, where in places),
            self.grid.shape,
            self.grid.steps,
            self.units,
        )
        y = rest.solve(self.tie)
        self.solved += len(y)
        for number, mine, inside in by_block(rest.pixels.place, self.grid.shape, self.cuts):
            core = self.tiles[number].core
            block = take(labels, core, self.grid.shape).copy()
            block[inside] = y[mine]
            put_box(labels, core, block)

    def _record(self, labels: Any, number: int, where: tuple[IntArray, ...]) -> OpenPixels:
        """Return the fields, weights and neighbours of open pixels of a tile."""
        core = self.open.core(number)
        box = tuple(
            slice(max(0, int(w.min()) + side.start - 1), min(size, int(w.max()) + side.start + 2))
            for w, side, size in zip(where, core, self.grid.shape, strict=True)
        )
        here = [w + (c.start - b.start) for w, c, b in zip(where, core, box, strict=True)]
        known = np.where(self.open.in_box(box), np.uint8(OPEN), take(labels, box, self.grid.shape))
        field = box_field(self.grid.field_parts(self.theta, box))
        return record(field, self.grid.parts(box), known, here, box, self.grid.shape)


def _batches(components: IntArray, sizes: IntArray, most: int) -> Iterator[IntArray]:
    """Yield components, as many at a time as have at most so many pixels together."""
    first = total = 0
    for last, size in enumerate(sizes[components].tolist()):
        if total and total + size > most:
            yield components[first:last]
            first, total = last, 0
        total += size
    if total:
        yield components[first:]


def put_box(labels: Any, box: Box, values: NDArray[Any]) -> None:
    """Write a box of labels."""
    more = labels.ndim - len(box)
    labels[(*box, *(slice(0, 1),) * more)] = values.reshape(values.shape + (1,) * more)


def take(labels: Any, box: Box, shape: Sequence[int]) -> Bits:
    """Read a box of labels."""
    more = (slice(0, 1),) * (labels.ndim - len(shape))
    return np.asarray(read(labels, (*box, *more))).reshape(extent(box))


def check_sizes(
    grid: TileGrid,
    theta: Any,
    block: int | None,
    halo: int | None,
    limit: int | None,
    threads: int,
) -> Sizes:
    """Return the block and the halo, chosen from the memory limit where they are not given.

    Blocks of a file with chunks are whole chunks, several along each axis: each chunk that a margin
    touches is read.
    """
    axes = len(grid.shape)
    margin = _HALO[axes] if halo is None else check_integer(halo, "halo", 0, 2**30)
    memory = float(limit if limit is not None else (available_memory() or 2**32))
    share = _SHARE * memory
    most = share / threads / pixel_bytes(len(grid.steps), True, grid.uniform)
    rest = max(1, int(share / BYTES_PER_PIXEL))
    if block is not None:
        side = check_integer(block, "block", 1, 2**30)
        return Sizes((side,) * axes, True, margin, rest, memory)
    largest = int(most ** (1 / axes)) - 2 * (margin + 1)
    if largest < 1:
        raise MemoryError(
            f"memory_limit is too small for a tile with a halo of {margin}: allow more, or give a "
            "smaller halo"
        )
    chunks = getattr(theta, "chunks", None)
    if chunks is None or len(chunks) != axes or not all(isinstance(c, int) for c in chunks):
        return Sizes((min(_BLOCK[axes], largest),) * axes, True, margin, rest, memory)
    sides = []
    for chunk in chunks:
        wanted = min(largest, max(_BLOCK[axes], _CHUNKS * chunk))
        sides.append(max(1, wanted // chunk) * chunk if wanted >= chunk else wanted)
    return Sizes(tuple(sides), False, margin, rest, memory)
