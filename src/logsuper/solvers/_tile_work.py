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
from logsuper.solvers._tile_checkpoint import Checkpoint, run_saved
from logsuper.solvers._tile_grid import TileGrid, forget_kernels, pixel_bytes
from logsuper.solvers._tile_rest import BYTES_PER_PIXEL, Rest, batches, by_block
from logsuper.solvers._tile_solve import OpenPixels, Task
from logsuper.solvers._tile_sources import read
from logsuper.solvers._tile_units import choose_units
from logsuper.solvers._tile_widen import widen

# Pixels of a block and of its halo by default, for one, two and three axes. Solvers of larger
# blocks do not fit the cache; `python -m benchmarks.tiles` compares sizes.
_BLOCK = {1: 1 << 18, 2: 512, 3: 96}
_HALO = {1: 64, 2: 8, 3: 4}
# Chunks of a file along each side of a block.
_CHUNKS = 4
# Pixels that are read at a time from an array in memory to choose the integers.
_SLAB = 1 << 19
# Fraction of the memory limit for the boxes that are solved at the same time.
_SHARE = 0.5


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
    most : int
        Pixels of a box that one task may solve.
    rest : int
        Open pixels that may be solved together.
    """

    block: tuple[int, ...]
    even: bool
    halo: int
    most: int
    rest: int

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
        self.pixels: dict[int, OpenPixels] = {}
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
            self.first_round(labels, saved, callback)
            self.reopened = sum(len(found.place) for found in self.pixels.values())
            self.finish(labels, budget)
        finally:
            forget_kernels()  # frees the work space of the solvers

    def first_round(
        self,
        labels: Any,
        saved: Checkpoint | None,
        callback: Callable[[TileProgress], object] | None,
    ) -> None:
        """Solve all tiles."""
        tasks = (
            (Task.of(self.grid, self.theta, tile, self.units, self.tie), saved)
            for tile in self.tiles
        )
        open_ = 0
        for number, found in enumerate(self.over(run_saved, tasks)):
            put_box(labels, self.tiles[number].core, found.labels)
            self.solved += found.solved
            if found.pixels is not None:
                self.pixels[number] = found.pixels
                open_ += len(found.pixels.place)
            if callback is not None:
                callback(TileProgress(number + 1, len(self.tiles), open_))

    def finish(self, labels: Any, budget: float | None) -> None:
        """Solve the open pixels, with a larger halo as long as they are too many at a time."""
        halo = self.sizes.halo
        spent = 0.0
        while self.pixels:
            rest = Rest(self.pixels.values(), self.grid.shape, self.grid.steps, self.units)
            components = rest.components()
            largest = int(np.bincount(components).max())
            if largest <= self.sizes.rest:
                break
            halo = max(1, 4 * halo)
            boxes = [self._around(found.place, halo) for found in self.pixels.values()]
            cost = sum(map(volume, boxes))
            if max(map(volume, boxes)) > self.sizes.most or (
                budget is not None and spent + cost > budget
            ):
                break
            spent += cost
            self._widen(labels, boxes, rest.pixels.place)
        else:
            return
        left = []
        for chosen in batches(components, self.sizes.rest):
            size = len(chosen)
            if budget is not None and (spent + size > budget or size > self.sizes.rest):
                left.append(rest.pixels.place[chosen])
                continue
            if size > self.sizes.rest:
                raise MemoryError(
                    f"{size} connected pixels are not proven by tiles with a halo of {halo}, and "
                    "their graph does not fit: allow more (memory_limit), give a larger halo, or a "
                    "budget to leave them open"
                )
            spent += size
            self.solved += size
            found = rest.solve(chosen, self._look(labels), self.tie)
            self._write(labels, rest.pixels.place[chosen], found)
        if left:
            self.left = np.sort(np.concatenate(left))

    def _around(self, index: IntArray, halo: int) -> Box:
        """Return the box of some pixels, with a margin."""
        places = np.unravel_index(index, self.grid.shape)
        return tuple(
            slice(max(0, int(p.min()) - halo - 1), min(size, int(p.max()) + halo + 2))
            for p, size in zip(places, self.grid.shape, strict=True)
        )

    def _widen(self, labels: Any, boxes: list[Box], index: IntArray) -> None:
        """Solve the open pixels again in larger boxes, with the proven ones fixed."""
        for box in boxes:
            known = take(labels, box, self.grid.shape)
            found = widen(self.grid, self.theta, self.units, self.tie, box, known, index)
            self.solved += volume(box)
            self._write(labels, *found)
            index = index[~np.isin(index, found[0], assume_unique=True)]
        for number, pixels in list(self.pixels.items()):
            kept = np.isin(pixels.place, index, assume_unique=True)
            if kept.any():
                # labels of neighbours are looked up again
                self.pixels[number] = pixels.some(kept)
            else:
                del self.pixels[number]

    def _look(self, labels: Any) -> Callable[[IntArray], Bits]:
        def look(index: IntArray) -> Bits:
            found = np.empty(len(index), dtype=np.uint8)
            for number, mine, inside in by_block(index, self.grid.shape, self.cuts):
                core = self.tiles[number].core
                found[mine] = take(labels, core, self.grid.shape)[inside]
            return found

        return look

    def _write(self, labels: Any, index: IntArray, values: Bits) -> None:
        for number, mine, inside in by_block(index, self.grid.shape, self.cuts):
            core = self.tiles[number].core
            block = np.array(take(labels, core, self.grid.shape))
            block[inside] = values[mine]
            put_box(labels, core, block)


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
    share = _SHARE * (limit if limit is not None else (available_memory() or 2**32))
    most = share / threads / pixel_bytes(len(grid.steps), True, grid.uniform)
    rest = max(1, int(share / BYTES_PER_PIXEL))
    if block is not None:
        side = check_integer(block, "block", 1, 2**30)
        return Sizes((side,) * axes, True, margin, int(most), rest)
    largest = int(most ** (1 / axes)) - 2 * (margin + 1)
    if largest < 1:
        raise MemoryError(
            f"memory_limit is too small for a tile with a halo of {margin}: allow more, or give a "
            "smaller halo"
        )
    chunks = getattr(theta, "chunks", None)
    if chunks is None or len(chunks) != axes or not all(isinstance(c, int) for c in chunks):
        return Sizes((min(_BLOCK[axes], largest),) * axes, True, margin, int(most), rest)
    sides = []
    for chunk in chunks:
        wanted = min(largest, max(_BLOCK[axes], _CHUNKS * chunk))
        sides.append(max(1, wanted // chunk) * chunk if wanted >= chunk else wanted)
    return Sizes(tuple(sides), False, margin, int(most), rest)
