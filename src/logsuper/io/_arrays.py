"""Arrays: .npy files by numpy, zarr stores by zarr where that is installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper.io._picture import ImageInfo, Picture, blaming, check_dtype, check_memory

__all__ = ["decode_array", "encode_zarr", "inspect_array", "is_zarr"]

_OPACITY = 4


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a zarr store."""
    marks = (".zarray", ".zgroup", "zarr.json")
    return path.suffix == ".zarr" or any((path / mark).exists() for mark in marks)


def inspect_array(path: str | os.PathLike[str], color: bool) -> ImageInfo:
    """Return shape and dtype from the head of a file."""
    array = _open(path, color)
    shape = array.shape[:-1] if _colored(array, color) else array.shape
    kind = "ZARR" if Path(path).is_dir() else "NPY"
    return ImageInfo(kind, tuple(int(n) for n in shape), np.dtype(array.dtype))


def decode_array(path: str | os.PathLike[str], color: bool) -> Picture:
    """Read an array."""
    array = _open(path, color)
    check_memory(path, float(np.prod(array.shape, dtype=np.float64)), array.dtype.itemsize)
    colored = _colored(array, color)
    with blaming(path, "cannot be read, perhaps truncated or damaged"):
        values = np.array(array[...])
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if colored and values.shape[-1] == _OPACITY:
        return Picture(values[..., :3], True, values[..., 3])
    return Picture(values, colored)


def _colored(array: Any, color: bool) -> bool:
    """Return whether a last axis of 3 or 4 is one of colours, which the caller must say."""
    return color and array.ndim >= 3 and array.shape[-1] in (3, _OPACITY)


def _open(path: str | os.PathLike[str], color: bool) -> Any:
    """Return something with a shape and a dtype that reads when it is indexed."""
    name = os.fspath(path)
    if Path(path).is_dir():
        array = _open_zarr(name)
    else:
        with blaming(path, "is not a .npy file of numbers, or is truncated", why=False):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not hasattr(array, "shape"):
        raise ValueError(f"{name}: is not a single array")
    check_dtype(path, np.dtype(array.dtype))
    axes = array.ndim - _colored(array, color)
    if axes not in (2, 3):
        raise ValueError(
            f"{name}: has shape {array.shape}; an image has 2 axes, a volume 3; split or squeeze it"
        )
    return array


def encode_zarr(folder: str | os.PathLike[str], array: NDArray[Any]) -> None:
    """Write one array to an empty folder, as a zarr store."""
    name = os.fspath(folder)
    _need_zarr(name).save_array(name, np.ascontiguousarray(array))


def _need_zarr(name: str) -> Any:
    try:
        import zarr  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ValueError(f"{name}: zarr needs the package zarr; install it") from None
    return zarr


def _open_zarr(name: str) -> Any:
    """Return the array of a zarr store; of an OME-Zarr image, the one at full resolution."""
    zarr = _need_zarr(name)
    with blaming(name, "cannot be opened as zarr"):
        found = zarr.open(name, mode="r")
        if not hasattr(found, "shape"):
            if "0" not in found:
                raise ValueError(f"{name}: is a zarr group; give one array in it")
            found = found["0"]
    return found
