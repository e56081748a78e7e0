"""What a decoder hands over: pixels as stored, before the rules for masks and photographs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import require_memory

__all__ = ["ImageInfo", "Picture", "blaming", "check_dtype", "check_memory", "orient", "turns"]


@dataclasses.dataclass(frozen=True, eq=False)
class Picture:
    """Decoded pixels.

    Attributes
    ----------
    values : ndarray of shape (H, W), (Z, H, W), or either with (3,) appended for colour
    colored : bool
        Whether the last axis is red, green and blue.
    alpha : ndarray, optional
        Opacity of each pixel, 0 for transparent.
    lossy : bool
        Whether compression has changed the pixels.
    channels : str, optional
        What to say where colours are refused, if these are channels of a microscope.
    indices : ndarray, optional
        Numbers of the pixels in the palette that `values` are colours of.
    palette : ndarray of shape (n, 3), uint8, optional
        The colours of that palette.
    """

    values: NDArray[Any]
    colored: bool = False
    alpha: NDArray[Any] | None = None
    lossy: bool = False
    channels: str | None = None
    indices: NDArray[Any] | None = None
    palette: NDArray[np.uint8] | None = None


@dataclasses.dataclass(frozen=True)
class ImageInfo:
    """What is known of an image file without decoding its pixels.

    Attributes
    ----------
    format : str
        "PNG", "JPEG", "BMP", "PPM" (with PBM and PGM), "GIF", "TIFF", "NPY" or "ZARR": what the
        file is, whatever its name.
    shape : tuple of int
        (H, W), or (Z, H, W) for volumes, upright; without colours.
    dtype : dtype
        bool for 1 bit.
    lossy : bool
        Whether the compression of the format changes pixels, as JPEG's does.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from logsuper.io import inspect_image, write_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_image(f"{folder}/mask.png", np.zeros((4, 6), bool))
    ...     info = inspect_image(path)
    >>> info.format, info.shape, info.lossy
    ('PNG', (4, 6), False)
    """

    format: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    lossy: bool = False

    @property
    def size(self) -> int:
        """Number of pixels."""
        return int(np.prod(self.shape, dtype=np.int64))


@contextlib.contextmanager
def blaming(path: str | os.PathLike[str], what: str, why: bool = True) -> Iterator[None]:
    """Turn whatever a decoder raises on bytes that are not its own into one line about the file.

    Parameters
    ----------
    path : path-like
    what : str
        What is wrong with it.
    why : bool
        Whether to say what the decoder says.
    """
    name = os.fspath(path)
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError | MemoryError) and str(error).startswith(name):
            raise  # one of ours
        if not why and not isinstance(error, OSError):
            raise ValueError(f"{name}: {what}") from None
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{name}: {what}: {reason}") from None


def check_memory(path: str | os.PathLike[str], pixels: float, itemsize: int) -> None:
    """Refuse an image that would not fit into memory, before it is decoded."""
    require_memory(pixels * itemsize, None, os.fspath(path), "split or crop the image")


def check_dtype(path: str | os.PathLike[str], dtype: np.dtype[Any]) -> None:
    """Refuse pixels that are not real numbers."""
    if dtype.kind not in "biuf":
        raise ValueError(f"{os.fspath(path)}: pixels of dtype {dtype} are not real numbers")


def turns(orientation: int) -> bool:
    """Return whether an EXIF orientation exchanges height and width."""
    return 5 <= orientation <= 8


def orient(values: NDArray[Any], orientation: int, axis: int) -> NDArray[Any]:
    """Return an image upright, given its EXIF orientation and the axis of its rows."""
    rows, columns = axis, axis + 1
    if turns(orientation):
        values = np.swapaxes(values, rows, columns)
    # orientation: axes to reverse after exchanging them
    reversed_axes = {2: (columns,), 3: (rows, columns), 4: (rows,), 6: (columns,)}
    reversed_axes |= {7: (rows, columns), 8: (rows,)}
    return np.flip(values, reversed_axes.get(orientation, ()))
