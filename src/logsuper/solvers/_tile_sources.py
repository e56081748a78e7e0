"""Arrays that are read and written a box at a time: numpy, memory-mapped, zarr, dask, any other.

A source is anything with a `shape` that returns an array when it is indexed by slices. Arrays in
memory are passed to tasks as views, files and lazy arrays as (source, box), which each task reads.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import Box, FloatArray, as_text


def is_dask(array: Any) -> bool:
    """Return whether an array is a `dask.array.Array`, without importing dask."""
    return type(array).__module__.startswith("dask.array")


def read(source: Any, box: Box) -> NDArray[Any]:
    """Return a box of a source."""
    part = source[box]
    if is_dask(part):
        part = _compute(part)
    return np.asarray(part)


def _compute(lazy: Any) -> Any:
    """Compute a dask array here; on the cluster if parts of it lie in the memory of workers."""
    distributed = sys.modules.get("distributed")
    if not _is_held(lazy):
        return lazy.compute(scheduler="synchronous")
    assert distributed is not None
    try:
        distributed.get_worker()
    except ValueError:
        return lazy.compute()
    with distributed.worker_client():  # gives the place of this task to others meanwhile
        return lazy.compute()


def _is_held(lazy: Any) -> bool:
    """Return whether parts of a dask array lie in the memory of the workers of a cluster."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and bool(distributed.futures_of(lazy))


class Part(NamedTuple):
    """A box of a source that is read where it is needed."""

    source: Any
    box: Box

    def load(self) -> NDArray[Any]:
        """Read the box."""
        return read(self.source, self.box)


def part_of(source: Any, box: Box) -> NDArray[Any] | Part:
    """Return a view of an array in memory; for any other source what is needed to read the box."""
    if type(source) is np.ndarray:
        view: NDArray[Any] = source[box]
        return view
    return Part(source, box)


class Window:
    """A view of a part of an array, indexed as the whole array is; small when it is pickled."""

    def __init__(self, view: Any, origin: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.view, self.origin, self.shape = view, origin, shape

    def __getitem__(self, box: Box) -> NDArray[Any]:
        inside = (slice(b.start - o, b.stop - o) for b, o in zip(box, self.origin, strict=True))
        return read(self.view, tuple(inside))


def crop(source: Any, box: Box) -> Any:
    """Return what is needed to read boxes within a box: a window of an array in memory."""
    if is_dask(source):
        import dask

        part = source[box]
        if not _is_held(part):  # else the workers would no longer be known to hold them
            [part] = dask.optimize(part)  # without the chunks that are not in the box
    elif type(source) is np.ndarray:
        part = source[box]
    else:
        return source
    return Window(part, tuple(side.start for side in box), source.shape)


def load_part(part: Any) -> NDArray[Any]:
    """Return the array of `part_of`."""
    return part.load() if isinstance(part, Part) else part


class Squeezed:
    """A source without its trailing axes of length 1."""

    def __init__(self, source: Any, shape: tuple[int, ...]) -> None:
        self.source = source
        self.shape = shape

    def __getitem__(self, box: Box) -> FloatArray:
        more = (slice(0, 1),) * (len(self.source.shape) - len(self.shape))
        found = read(self.source, (*box, *more))
        return found.reshape(found.shape[: len(self.shape)])


def squeeze(source: Any, shape: tuple[int, ...]) -> Any:
    """Return a source without its trailing axes of length 1."""
    return source.reshape(shape) if is_dask(source) else Squeezed(source, shape)


class Held:
    """A source whose values at held pixels are infinite; see `TileGrid`."""

    def __init__(self, source: Any, held: NDArray[np.int8]) -> None:
        self.source, self.held, self.shape = source, held, held.shape
        self.chunks = getattr(source, "chunks", None)

    def __getitem__(self, box: Box) -> FloatArray:
        return _with_held(read(self.source, box), self.held[box])


def _with_held(field: NDArray[Any], held: NDArray[np.int8]) -> FloatArray:
    return np.where(held == 0, field, np.where(held > 0, np.inf, -np.inf))


def hold(source: Any, held: NDArray[np.int8]) -> Any:
    """Return fields that are infinite where pixels are held."""
    if type(source) is np.ndarray:
        return _with_held(source, held)
    if is_dask(source):
        import dask.array as da

        return da.map_blocks(
            _with_held, source, da.from_array(held, chunks=source.chunks), dtype=np.float64
        )
    return Held(source, held)


def check_source(source: Any, name: str, shape: Sequence[int]) -> Any:
    """Return a source of this shape; lists become arrays."""
    if not hasattr(source, "shape") or not hasattr(source, "__getitem__"):
        source = np.asarray(source)
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask is not used: give {name}.filled(0), where 0 is "
            "no information"
        )
    if isinstance(source, np.ndarray) and source.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {source.dtype}; give an array of real numbers")
    if tuple(source.shape) != tuple(shape):
        raise ValueError(
            f"{name} has shape {tuple(source.shape)}, but the grid of f has {tuple(shape)}; "
            "give an array of the shape of the image"
        )
    return source


@contextlib.contextmanager
def destination(out: Any, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[Any]:
    """Yield an array of uint8 to write labels to; a new file appears under its name at the end.

    `out` is None (an array in memory), an array, or the name of a new .npy file or .zarr folder.
    """
    if out is None:
        yield np.empty(shape, dtype=np.uint8)
        return
    if not isinstance(out, str | os.PathLike):
        if tuple(getattr(out, "shape", ())) != shape or not hasattr(out, "__setitem__"):
            raise ValueError(f"out must be an array of shape {shape}, or the name of a file")
        yield out
        return
    path = Path(out)
    if path.exists():
        raise ValueError(f"out = {path} exists already; give another name or remove it")
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        if path.suffix == ".npy":
            whole = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
            yield whole
            whole.flush()
        elif path.suffix == ".zarr":
            zarr = need_zarr()
            yield zarr.create_array(store=str(part), shape=shape, chunks=chunks, dtype="uint8")
        else:
            raise ValueError(f"out = {path}: the name must end in .npy or .zarr")
        os.replace(part, path)
    finally:  # what was not finished
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def need_zarr() -> Any:
    """Import zarr, or say how to install it."""
    try:
        import zarr
    except ImportError:
        raise ImportError("zarr is needed for this: pip install 'logsuper[distributed]'") from None
    return zarr


def opened(out: Any, written: Any) -> Any:
    """Return the array that was written: files are opened again under their final name."""
    if not isinstance(out, str | os.PathLike):
        return written
    if Path(out).suffix == ".npy":
        return np.load(out, mmap_mode="r")
    return need_zarr().open_array(str(out), mode="r")


def refuse_large_result(n: int, limit: int | None) -> None:
    """Raise a MemoryError if labels do not fit beside the work space."""
    if limit is not None and n > limit // 2:
        raise MemoryError(
            f"the labels take {as_text(n)} and memory_limit is {as_text(limit)}: give out='y.zarr' "
            "or out='y.npy', or allow more"
        )
