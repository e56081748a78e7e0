"""Exact maximisation by tiles, for images and volumes that one solve cannot hold."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import (
    Bits,
    Box,
    IntArray,
    Tile,
    available_memory,
    check_callback,
    check_integer,
    check_limit,
    count_threads,
    even_cuts,
    extent,
    make_tiles,
    volume,
)
from logsuper.functions import SubmodularFunction, check_function, grid_shape
from logsuper.solvers._inputs import check_tie
from logsuper.solvers._tile_checkpoint import Checkpoint, run_saved
from logsuper.solvers._tile_grid import TileGrid, Units, lay_grid, pixel_bytes, tile_kernel
from logsuper.solvers._tile_rest import BYTES_PER_PIXEL, Rest, batches, by_block
from logsuper.solvers._tile_solve import OpenPixels, Task
from logsuper.solvers._tile_sources import (
    Squeezed,
    check_source,
    destination,
    is_dask,
    opened,
    read,
    refuse_large_result,
)
from logsuper.solvers._tile_units import choose_units
from logsuper.solvers._tile_widen import widen

# Pixels of a block and of its halo by default, for one, two and three axes. Solvers of larger
# blocks do not fit the cache; `python -m benchmarks.tiles` compares sizes.
_BLOCK = {1: 1 << 18, 2: 512, 3: 96}
_HALO = {1: 64, 2: 8, 3: 4}
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
    """

    done: int
    total: int
    open: int


@dataclasses.dataclass(frozen=True, eq=False)
class Tiled:
    """A maximiser that was found by tiles.

    Attributes
    ----------
    y : array of the shape of the image, uint8
        Labels: numpy, or the kind of array that was asked for.
    open : ndarray of shape (P,), int64
        Row-major indices of the pixels that are not proven to have the label of a whole solve.
        Empty unless a `budget` was given. They have the smallest label they may have, or the
        largest with ``tie="max"``.
    tiles : int
        Number of tiles.
    reopened : int
        Number of pixels that were not proven by their tile.
    solved : int
        Pixels in all boxes that were solved (each under two extremes), and in graphs of open
        pixels: the cost.
    integers : str
        How numbers were rounded: "narrow" (32 bits), "wide" (64 bits), "capped" or "exact".
    """

    y: Any
    open: IntArray
    tiles: int
    reopened: int
    solved: int
    integers: str

    @property
    def proven(self) -> bool:
        """Whether all labels are those of a whole solve."""
        return len(self.open) == 0


def maximize_tiles(
    f: SubmodularFunction,
    theta: Any,
    *,
    edge_weights: Sequence[Any] | None = None,
    tie: str | None = None,
    block: int | None = None,
    halo: int | None = None,
    memory_limit: float | None = None,
    budget: float | None = None,
    out: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[TileProgress], object] | None = None,
) -> Any:
    r"""Solve :math:`\max_y\theta^\top y-f(y)` on an image of any size, exactly, by tiles.

    Each block is solved with a margin (halo) around it, twice: with all that lies outside set to
    0, and to 1. The smallest maximiser is a monotone function of the values outside, since f is
    submodular, hence a pixel on which both agree has the label that it has in a whole solve. The
    pixels that stay open are solved together, with the proven ones around them fixed. The labels
    are those of `maximize`, bit for bit.

    Parameters
    ----------
    f : SubmodularFunction
        A sum of the cuts of `grid_cuts`, of any stencil and with any weights, and of `Modular`
        functions.
    theta : array of the shape of the image
        Fields: numpy, memory-mapped, zarr, dask, or anything with a `shape` that can be sliced.
        Infinite fields fix their pixels.
    edge_weights : sequence of array, optional
        Factors >= 0 on the edges, one array per direction of f, in the order of its cuts, each of
        the shape of the edges: (H, W - 1) for the horizontal ones of an image. Any kind of array.
    tie : {None, "min", "max"}, optional
        As in `maximize`.
    block : int, optional
        Largest side of a block. By default 512 pixels for images and 96 for volumes, or less if
        the memory limit asks for it.
    halo : int, optional
        Width of the margin; by default 8 pixels for images and 4 for volumes.
    memory_limit : float, optional
        Bytes that the call may use beside `theta` and the interpreter; the available memory by
        default.
    budget : float, optional
        Number of pixels that may be solved after the first round. Pixels that are still open then
        are listed in the result. By default all are solved.
    out : array or str, optional
        Where labels are written: an array of uint8 (numpy, memory-mapped, zarr), or the name of a
        new file (.npy, memory-mapped) or folder (.zarr). By default an array in memory.
    checkpoint : str or path, optional
        A folder for finished tiles. A second call with the same arguments continues from there.
    n_jobs : int, optional
        Number of threads, one by default; does not change the result. Inside
        ``joblib.parallel_config(backend="dask")`` the tiles are solved by a cluster.
    callback : callable, optional
        Called with a `TileProgress` after each tile.

    Returns
    -------
    Tiled or dask array
        A dask array, lazy and with the chunks of `theta` as blocks, if `theta` is one and `out`
        is not given.

    Notes
    -----
    Rounding (see `maximize`) is chosen for the whole image first, which reads all fields once. The
    result equals that of `maximize` also for its default `tie`, which returns the smallest
    maximiser of the rounded problem. The exception are grids of more than 65536 pixels with rows
    of fewer than 16, which `maximize` treats as graphs, with a smaller quantum.

    Without fields, or at very strong coupling, no pixel is proven by its tile: the open pixels
    then are the whole image, whose graph needs about 1500 bytes per pixel. A MemoryError says so;
    with a `budget` the result says which pixels are open instead.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> image = ls.make_silhouettes(1, shape=(90, 120), seed=0)[0]
    >>> theta = 2.0 * (2.0 * ls.datasets.corrupt(image, ls.Flips(0.1), seed=0) - 1.0)
    >>> f = sum(ls.grid_cuts(image.shape), start=ls.Modular(np.zeros(image.size)))
    >>> found = ls.maximize_tiles(f, theta, block=32)
    >>> found.tiles, found.proven
    (12, True)
    >>> bool((found.y.ravel() == ls.maximize(f, theta.ravel()).y).all())
    True
    """
    check_function(f)
    check_tie(tie)
    check_callback(callback)
    threads = count_threads(n_jobs)
    limit = check_limit(memory_limit)
    grid = lay_grid(f, edge_weights)
    shape = _image_shape(f)
    source = check_source(theta, "theta", shape)
    allowance = None if budget is None else _check_budget(budget)
    if len(shape) > len(grid.shape):
        source = Squeezed(source, grid.shape)
    sizes = _check_sizes(grid, block, halo, limit, threads)
    if is_dask(theta) and out is None:
        from logsuper.solvers._tile_dask import lazy_labels

        found = lazy_labels(grid, theta.reshape(grid.shape), sizes.halo, tie)
        return found.reshape(shape).rechunk(theta.chunks)
    if out is None:
        refuse_large_result(grid.size, limit)
    tiles = make_tiles(grid.shape, even_cuts(grid.shape, sizes.block), sizes.halo + 1)
    over = _Map(n_jobs)
    units = choose_units(grid, source, [tile.core for tile in tiles], tie, over)
    work = _Work(grid, source, units, tie, tiles, sizes, over)
    try:
        chunks = extent(tiles[0].core) + (1,) * (len(shape) - len(grid.shape))
        with destination(out, shape, chunks) as labels:
            saved = None if checkpoint is None else Checkpoint(checkpoint)
            work.first_round(labels, saved, callback)
            reopened = work.n_open
            work.finish(labels, allowance)
    finally:
        tile_kernel.cache_clear()
    result = opened(out, labels)
    left = work.left
    return Tiled(result, left, len(tiles), reopened, work.solved, units.tier)


class _Sizes(NamedTuple):
    block: tuple[int, ...]
    halo: int
    most: int  # pixels of a box that one task may solve
    rest: int  # open pixels that may be solved together


class _Map:
    """Calls of a function for many arguments, in order, by joblib."""

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = n_jobs

    def __call__(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        import joblib  # on first use, as it takes a while

        parallel = joblib.Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        return iter(parallel(joblib.delayed(function)(*each) for each in arguments))


class _Work:
    """The state of a call: tiles, open pixels, and what they cost."""

    def __init__(
        self,
        grid: TileGrid,
        theta: Any,
        units: Units,
        tie: str | None,
        tiles: list[Tile],
        sizes: _Sizes,
        over: _Map,
    ) -> None:
        self.grid, self.theta, self.units, self.tie = grid, theta, units, tie
        self.tiles, self.sizes, self.over = tiles, sizes, over
        self.cuts = even_cuts(grid.shape, sizes.block)
        self.pixels: dict[int, OpenPixels] = {}
        self.solved = 0
        self.left: IntArray = np.empty(0, dtype=np.int64)

    @property
    def n_open(self) -> int:
        return sum(len(found.index) for found in self.pixels.values())

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
            put(labels, self.tiles[number].core, found.labels)
            self.solved += found.solved
            if found.pixels is not None:
                self.pixels[number] = found.pixels
                open_ += len(found.pixels.index)
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
            halo *= 4
            boxes = [self._around(found.index, halo) for found in self.pixels.values()]
            cost = sum(map(volume, boxes))
            if max(map(volume, boxes)) > self.sizes.most or (
                budget is not None and spent + cost > budget
            ):
                break
            spent += cost
            self._widen(labels, boxes, rest.pixels.index)
        else:
            return
        left = []
        for chosen in batches(components, self.sizes.rest):
            size = len(chosen)
            if budget is not None and (spent + size > budget or size > self.sizes.rest):
                left.append(rest.pixels.index[chosen])
                continue
            if size > self.sizes.rest:
                raise MemoryError(
                    f"{size} connected pixels are not proven by tiles with a halo of {halo}, and "
                    "their graph does not fit: allow more (memory_limit), give a larger halo, or a "
                    "budget to leave them open"
                )
            spent += size
            found = rest.solve(chosen, self._look(labels), self.tie)
            self._write(labels, rest.pixels.index[chosen], found)
        self.solved += int(spent)
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
            kept = np.isin(pixels.index, index, assume_unique=True)
            if kept.any():
                # labels of neighbours are looked up again
                some = OpenPixels(*(part[kept] for part in pixels))
                self.pixels[number] = some
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
            put(labels, core, block)


def put(labels: Any, box: Box, values: Bits) -> None:
    """Write a box of labels."""
    more = labels.ndim - len(box)
    labels[(*box, *(slice(0, 1),) * more)] = values.reshape(values.shape + (1,) * more)


def take(labels: Any, box: Box, shape: Sequence[int]) -> Bits:
    """Read a box of labels."""
    more = (slice(0, 1),) * (labels.ndim - len(shape))
    return np.asarray(read(labels, (*box, *more))).reshape(extent(box))


def _image_shape(f: SubmodularFunction) -> tuple[int, ...]:
    """Return the shape that the cuts of f were made for."""
    return tuple(grid_shape(f))


def _check_budget(budget: float) -> float:
    number = float(budget)
    if not number >= 0:
        raise ValueError(f"budget must be a number of pixels >= 0, got {budget!r}")
    return number


def _check_sizes(
    grid: TileGrid, block: int | None, halo: int | None, limit: int | None, threads: int
) -> _Sizes:
    """Return the block and the halo, chosen from the memory limit where they are not given."""
    axes = len(grid.shape)
    margin = _HALO[axes] if halo is None else check_integer(halo, "halo", 0, 2**30)
    share = _SHARE * (limit if limit is not None else (available_memory() or 2**32))
    most = share / threads / pixel_bytes(len(grid.steps), True, grid.uniform)
    if block is None:
        side = min(_BLOCK[axes], int(most ** (1 / axes)) - 2 * (margin + 1))
        if side < 1:
            raise MemoryError(
                f"memory_limit is too small for a tile with a halo of {margin}: allow more, or "
                "give a smaller halo"
            )
    else:
        side = check_integer(block, "block", 1, 2**30)
    return _Sizes((side,) * axes, margin, int(most), max(1, int(share / BYTES_PER_PIXEL)))
