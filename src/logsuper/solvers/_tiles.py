"""Exact maximisation by tiles, for images and volumes that one solve cannot hold."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from logsuper._base import IntArray, check_callback, check_limit, count_threads, extent
from logsuper.functions import SubmodularFunction
from logsuper.solvers._problems import check_tie
from logsuper.solvers._tile_checkpoint import Checkpoint
from logsuper.solvers._tile_grid import Model, lay_problem
from logsuper.solvers._tile_sources import (
    destination,
    is_dask,
    opened,
    refuse_large_result,
)
from logsuper.solvers._tile_work import TileMap, TileProgress, Work, check_sizes


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
        Pixels in all boxes that were solved, and in graphs of open pixels: the cost.
    integers : str
        How numbers were rounded: "narrow" (32 bits), "wide" (64 bits), "capped" or "exact".

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> across, down = ls.grid_cuts((40, 40))
    >>> theta = np.random.default_rng(0).normal(size=(40, 40))
    >>> found = ls.maximize_tiles(across + down, theta, block=20)
    >>> found.y.shape, found.tiles, found.proven
    ((40, 40), 4, True)
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
    f: SubmodularFunction | Model,
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
    f : SubmodularFunction or LogSupermodular
        A sum of the cuts of `grid_cuts`, of any stencil and with any weights, and of `Modular`
        functions; or what `condition` has left of one.
    theta : array of the shape of the image
        Fields: numpy, memory-mapped, zarr, dask, or anything with a `shape` that can be sliced.
        Infinite fields fix their pixels. Those of pixels that f was conditioned on are not used:
        such pixels have the label that a model was given for them, and 0 in a function, which does
        not know it.
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
        default. Refused for lazy labels of a dask array, whose chunks are the blocks.
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

    Without fields, or at very strong coupling, no pixel is proven by its tile. The whole image is
    then solved at once if it fits into the memory limit (50 to 90 bytes per pixel with four
    neighbours). Otherwise a MemoryError says so, or, with a `budget`, the result says which pixels
    are open.

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
    check_tie(tie)
    check_callback(callback)
    threads = count_threads(n_jobs)
    limit = check_limit(memory_limit)
    grid, source, shape = lay_problem(f, theta, edge_weights)
    allowance = None if budget is None else _check_budget(budget)
    sizes = check_sizes(grid, source, block, halo, limit, threads)
    if is_dask(theta) and out is None:
        own = {"block": block, "budget": budget, "memory_limit": memory_limit, "n_jobs": n_jobs}
        _refuse_for_lazy(checkpoint=checkpoint, callback=callback, **own)
        from logsuper.solvers._tile_dask import lazy_labels

        found = lazy_labels(grid, source, sizes.halo, tie)
        return found.reshape(shape).rechunk(theta.chunks)
    if out is None:
        refuse_large_result(grid.size, limit)
    work = Work(grid, source, tie, sizes, TileMap(n_jobs))
    chunks = extent(work.tiles[0].core) + (1,) * (len(shape) - len(grid.shape))
    saved = None if checkpoint is None else Checkpoint(checkpoint)
    with destination(out, shape, chunks) as labels:
        work.run(labels, saved, callback, allowance)
    return Tiled(
        opened(out, labels),
        work.left,
        len(work.tiles),
        work.reopened,
        work.solved,
        work.units.tier,
    )


def _refuse_for_lazy(**given: object) -> None:
    """Refuse arguments that a lazy result cannot heed."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(
            f"{', '.join(names)}: not for lazy labels of a dask array (its chunks are blocks, and "
            "its scheduler has the workers); give out too, or leave it away"
        )


def _check_budget(budget: float) -> float:
    try:
        number = float(budget)
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0:
        raise ValueError(f"budget must be a number of pixels >= 0, got {budget!r}")
    return number
