"""Perturb-and-MAP by tiles: the noise of a pixel depends on its place in the whole image."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from logsuper._base import (
    Box,
    FloatArray,
    IntArray,
    Seed,
    check_callback,
    check_integer,
    check_limit,
    count_threads,
    require_memory,
    stream_key,
)
from logsuper.functions import SubmodularFunction
from logsuper.solvers._native import kernels
from logsuper.solvers._noise import logistic_of
from logsuper.solvers._tile_checkpoint import Checkpoint
from logsuper.solvers._tile_grid import Model, lay_problem
from logsuper.solvers._tile_sources import read
from logsuper.solvers._tile_work import TileMap, TileProgress, Work, check_sizes, put_box, take


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyFields:
    """Fields minus modular terms plus the logistic noise of one sample: a source.

    Attributes
    ----------
    theta : source
    tilt : ndarray or None
    before : ndarray of int64 or None
        Number of free pixels before each pixel, for a function that was conditioned: its noise is
        that of its elements.
    shape : tuple of int
    key, problem, sample : int
        Which stream of noise; see `Prepared.perturb`.
    """

    theta: Any
    tilt: FloatArray | None
    before: IntArray | None
    shape: tuple[int, ...]
    key: int
    problem: int
    sample: int

    def __getitem__(self, box: Box) -> FloatArray:
        field = np.array(read(self.theta, box), dtype=np.float64, order="C")
        if self.tilt is not None:
            field -= self.tilt[box]
        if self.before is None:
            self._add_noise(row_starts(box, self.shape), field)
            return field
        # the free pixels of a row are successive elements
        before = self.before[box].reshape(-1, field.shape[-1])
        noise = np.zeros(before.shape)
        starts = np.ascontiguousarray(before[:, 0])
        self._add_noise(starts, noise)
        own = np.take_along_axis(noise, before - starts[:, None], axis=1)
        return field + own.reshape(field.shape)

    def _add_noise(self, starts: IntArray, field: FloatArray) -> None:
        """Add the noise of successive elements to each row of a field."""
        rows = field.reshape(len(starts), -1)
        native = kernels()
        if native is not None:
            native.add_noise(self.key, self.problem, self.sample, starts, rows)
        else:
            places = starts[:, None] + np.arange(rows.shape[1])
            rows += logistic_of(self.key, self.problem, self.sample, places)


def row_starts(box: Box, shape: Sequence[int]) -> IntArray:
    """Return the indices in the whole image of the first pixels of the rows of a box."""
    starts = np.zeros(1, dtype=np.int64)
    for side, size in zip(box[:-1], shape[:-1], strict=True):
        starts = (starts[:, None] * size + np.arange(side.start, side.stop)).ravel()
    return np.asarray(starts * shape[-1] + box[-1].start)


def perturb_tiles(
    f: SubmodularFunction | Model,
    theta: Any,
    n_samples: int,
    seed: Seed,
    *,
    edge_weights: Sequence[Any] | None = None,
    number: int = 0,
    block: int | None = None,
    halo: int | None = None,
    memory_limit: float | None = None,
    out: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[TileProgress], object] | None = None,
) -> Any:
    r"""Count how often each pixel is 1 in maximisers under logistic noise, by tiles.

    The counts are those of ``prepare([f]).perturb(theta, [1.0], n_samples, seed)`` on the whole
    image, bit for bit: the noise of a pixel depends on its place in the image, not in a tile.

    Parameters
    ----------
    f, theta, edge_weights, block, halo, memory_limit, n_jobs
        As in `maximize_tiles`.
    n_samples : int
        Number of perturbations.
    seed : int, Generator or None
        Key of the noise, as in `Prepared.perturb`.
    number : int
        Number of the problem in the stream of noise.
    out : array of uint32 of the shape of the image, optional
        Where the counts are written; labels of one sample then lie in a temporary file. By default
        an array in memory.
    checkpoint : str or path, optional
        A folder for finished tiles of all samples, one bit per pixel and sample. A second call with
        the same arguments continues from there.
    callback : callable, optional
        Called with a `TileProgress`, whose tiles are those of all samples.

    Returns
    -------
    array of the shape of the image, uint32
        Counts of ones; divided by `n_samples` they estimate the marginals.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> theta = np.random.default_rng(0).normal(size=(40, 50))
    >>> across, down = ls.grid_cuts(theta.shape)
    >>> counts = ls.perturb_tiles(across + down, theta, n_samples=5, seed=0, block=16)
    >>> whole = ls.prepare([across + down]).perturb(theta.ravel(), [1.0], n_samples=5, seed=0)
    >>> bool((counts / 5 == whole.mean.reshape(40, 50)).all())
    True
    """
    check_callback(callback)
    samples = check_integer(n_samples, "n_samples", 1, 2**31)
    problem = check_integer(number, "number", 0, 2**64)
    key = stream_key(seed)
    threads = count_threads(n_jobs)
    limit = check_limit(memory_limit)
    grid, source, shape = lay_problem(f, theta, edge_weights)
    if grid.size > 2**34:
        raise ValueError(f"theta has {grid.size} pixels; noise is defined for up to 2**34")
    sizes = check_sizes(grid, source, block, halo, limit, threads)
    if out is None:
        require_memory(5.0 * grid.size, limit, "perturb_tiles", "give out, or allow more")
        out = np.zeros(shape, dtype=np.uint32)
    elif tuple(getattr(out, "shape", ())) != shape:
        raise ValueError(f"out must be an array of shape {shape}")
    elif np.dtype(out.dtype) != np.uint32:
        raise TypeError(f"out has dtype {out.dtype}; give an array of uint32, which holds counts")
    bare = dataclasses.replace(grid, tilt=None)
    free = None if grid.held is None else grid.held == 0
    before = None if free is None else (np.cumsum(free) - free.ravel()).reshape(grid.shape)
    saved = None if checkpoint is None else Checkpoint(checkpoint)
    with _scratch(shape, isinstance(out, np.ndarray)) as labels:
        for sample in range(samples):
            noisy = NoisyFields(source, grid.tilt, before, grid.shape, key, problem, sample)
            work = Work(bare, noisy, None, sizes, TileMap(n_jobs))
            report = None if callback is None else _Report(callback, sample, samples)
            work.run(labels, saved, report)
            for tile in work.tiles:
                ones = take(labels, tile.core, grid.shape).astype(np.uint32)
                if sample:
                    ones += take(out, tile.core, grid.shape)
                put_box(out, tile.core, ones)
    return out


class _Report:
    """A callback for the tiles of one sample, which reports those of all."""

    def __init__(
        self, callback: Callable[[TileProgress], object], sample: int, samples: int
    ) -> None:
        self.callback, self.sample, self.samples = callback, sample, samples

    def __call__(self, state: TileProgress) -> None:
        done, total, open_ = state
        self.callback(TileProgress(self.sample * total + done, self.samples * total, open_))


@contextlib.contextmanager
def _scratch(shape: tuple[int, ...], in_memory: bool) -> Iterator[Any]:
    """Yield an array for labels: in memory, or in a temporary file."""
    if in_memory:
        yield np.empty(shape, dtype=np.uint8)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield np.lib.format.open_memmap(
            Path(folder) / "labels.npy", mode="w+", dtype=np.uint8, shape=shape
        )
