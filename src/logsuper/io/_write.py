"""Images to files: whole or not at all, without loss, never over another file by accident."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from logsuper._base import atomic_write
from logsuper.io._arrays import encode_zarr
from logsuper.io._folders import atomic_folder

__all__ = ["check_writable", "encode_image", "write_image"]

_PILLOW = {".png": "PNG", ".bmp": "BMP", ".pbm": "PPM", ".pgm": "PPM", ".pnm": "PPM"}
_TIFF = (".tif", ".tiff")
_ARRAYS = (".npy", ".zarr")
_LOSSY = (".jpg", ".jpeg", ".jpe", ".jfif", ".webp")

# Pixels that each format can hold: dtypes by their names.
_HOLDS = {
    ".png": ("bool", "uint8", "uint16"),
    ".bmp": ("bool", "uint8"),
    ".pbm": ("bool",),
    ".pgm": ("uint8", "uint16"),
    ".pnm": ("bool", "uint8", "uint16"),
}


def write_image(
    path: str | os.PathLike[str], array: NDArray[Any], *, color: bool = False, force: bool = False
) -> Path:
    """Write an image or a volume to a file, without loss.

    The file appears whole or not at all: it is written under another name and then renamed.

    Parameters
    ----------
    path : str or path
        Its suffix is the format: .png, .bmp, .pbm, .pgm, .tif, .tiff (.ome.tif), .npy, or .zarr, if
        that is installed.
    array : ndarray of shape (H, W) or (Z, H, W), or (H, W, 3) in colour
        bool is written with 1 bit per pixel. Volumes need TIFF, .npy or zarr.
    color : bool, default False
        Whether the last axis is red, green and blue.
    force : bool, default False
        Whether to replace a file that is there.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileExistsError
        If the file is there and `force` is False.
    ValueError
        If the format cannot hold the image, or is not lossless.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from logsuper.io import write_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_image(Path(folder) / "new" / "mask.png", np.zeros((2, 2), dtype=np.uint8))
    ...     path.name
    'mask.png'
    """
    target = Path(path)
    pixels = np.asarray(array)
    check_writable(target, pixels.shape, pixels.dtype, color)
    if target.exists() and not force:
        raise FileExistsError(f"{target}: is there already; give another name, or force=True")
    if target.suffix.lower() == ".zarr":
        with atomic_folder(target) as folder:
            encode_zarr(folder, pixels)
        return target
    with atomic_write(target) as file:
        encode_image(file, target.name, pixels, color=color)
    return target


def check_writable(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any], color: bool = False
) -> None:
    """Raise a ValueError if the format that a name stands for cannot hold an image."""
    name, suffix = os.fspath(path), Path(path).suffix.lower()
    if suffix in _LOSSY:
        raise ValueError(f"{name}: {suffix} changes pixels; write .png or .tif")
    if suffix not in (*_PILLOW, *_TIFF, *_ARRAYS):
        known = ", ".join((*_PILLOW, *_TIFF, *_ARRAYS))
        raise ValueError(f"{name}: cannot write {suffix or 'a file without a suffix'}; use {known}")
    axes = len(shape) - color
    if axes not in (2, 3) or 0 in shape or (color and shape[-1] != 3):
        raise ValueError(f"{name}: an array of shape {shape} is not an image or a volume")
    if dtype.kind not in "biuf":
        raise ValueError(f"{name}: pixels of dtype {dtype} are not real numbers")
    if suffix in _PILLOW and axes == 3:
        hint = ", or give color=True if the last axis is red, green and blue"
        maybe = hint if len(shape) == 3 and shape[-1] == 3 else ""
        raise ValueError(f"{name}: {suffix} cannot hold a volume; write .tif or .npy{maybe}")
    if suffix in _PILLOW and (
        dtype.name not in _HOLDS[suffix]
        or (color and (dtype != np.uint8 or suffix not in (".png", ".bmp", ".pnm")))
    ):
        colored = " in colour" if color else ""
        raise ValueError(f"{name}: {suffix} cannot hold {dtype}{colored}; write .tif or .npy")


def encode_image(
    file: BinaryIO,
    name: str,
    array: NDArray[Any],
    *,
    color: bool = False,
    palette: NDArray[np.uint8] | None = None,
) -> None:
    """Write an image to an open file, in the format that a name stands for.

    Parameters
    ----------
    file : binary file
    name : str
        Its suffix is the format; see `write_image`.
    array : ndarray
    color : bool, default False
    palette : ndarray of shape (n, 3), uint8, optional
        Colours that the pixels are numbers of, for PNG, BMP and TIFF.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from logsuper.io import encode_image
    >>> file = io.BytesIO()
    >>> encode_image(file, "mask.png", np.zeros((4, 6), np.uint8))
    >>> file.getvalue()[1:4]
    b'PNG'
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".npy":
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    elif suffix in _TIFF:
        _encode_tiff(file, name, array, color, palette)
    else:
        from PIL import Image

        picture = Image.fromarray(np.ascontiguousarray(array))
        if palette is not None:
            picture.putpalette(palette.tobytes())
        picture.save(file, format=_PILLOW[suffix])


def _encode_tiff(
    file: BinaryIO,
    name: str,
    array: NDArray[Any],
    color: bool,
    palette: NDArray[np.uint8] | None,
) -> None:
    import tifffile

    kind: dict[str, Any] = {"photometric": "rgb" if color else "minisblack"}
    if palette is not None:
        table = np.zeros((3, 256), np.uint16)
        table[:, : len(palette)] = palette.T * np.uint16(257)
        kind = {"photometric": "palette", "colormap": table}

    axes = ("ZYX" if array.ndim - color == 3 else "YX") + ("S" if color else "")
    ome = Path(name).stem.lower().endswith(".ome")
    tifffile.imwrite(
        file,
        np.ascontiguousarray(array),
        **kind,
        compression="zlib",
        ome=ome,
        metadata={"axes": axes},
    )
