"""One image file to one array, by stated rules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper._base import check_choice
from logsuper.io._arrays import decode_array, inspect_array, is_zarr
from logsuper.io._picture import ImageInfo, Picture
from logsuper.io._pillow import decode_pillow, inspect_pillow
from logsuper.io._tiff import decode_tiff, inspect_tiff

__all__ = ["FilePath", "MaskPixels", "Missing", "inspect_image", "read_image", "read_mask"]

FilePath = str | os.PathLike[str]
Missing = str | float | tuple[int, int, int] | None

_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_NPY = b"\x93NUMPY"

# Differences between channels (of 255) below which a JPEG is grey: the rounding of its colours.
_JPEG_GREY = 8


def read_image(
    path: FilePath, color: bool = False, *, missing: Missing = None, palette: str = "colors"
) -> NDArray[Any]:
    """Read an image or a volume from a file.

    Parameters
    ----------
    path : str or path
        PNG, JPEG, BMP, PBM, PGM, GIF, TIFF (stacks, BigTIFF, OME volumes) or .npy, recognised by
        their content; or a zarr store, if zarr is installed.
    color : bool, default False
        Whether the image may have colours (a photograph). A mask has none: pictures with equal red,
        green and blue are grey, others are refused.
    missing : "alpha", "nan", (int, int, int) or number, optional
        Which pixels of a mask are missing: those less than half opaque, those that are NaN (always
        so for floats), those of one colour (8 bits per channel), or those of one level, as stored.
    palette : {"colors", "indices"}
        What a pixel of a picture with a palette is: its colour, or its number in the palette, as
        label images mean it.

    Returns
    -------
    ndarray of shape (H, W), (Z, H, W), or (H, W, 3) in colour
        bool for 1 bit per pixel, uint8, uint16, or the type of the file; white is the larger
        number. A masked array if pixels are missing by `missing`. Upright, as EXIF says.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be opened.
    ValueError
        In one line: what is wrong with the file, and what to do.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from logsuper.io import read_image, write_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_image(Path(folder) / "mask.png", np.eye(2, dtype=bool))
    ...     read_image(path)
    array([[ True, False],
           [False,  True]])
    """
    check_choice(palette, "palette", ("colors", "indices"))
    picture = _decode(path, color, palette)
    if color:
        return picture.values if picture.colored and not _is_grey(picture) else _grey(picture)
    return _as_mask(os.fspath(path), picture, _missing(picture, missing), missing)


def inspect_image(path: FilePath, color: bool = False) -> ImageInfo:
    """Return format, shape and dtype of an image file, without decoding its pixels.

    Parameters
    ----------
    path : str or path
    color : bool, default False
        As in `read_image`; it matters for arrays whose last axis has 3 or 4 entries.

    Returns
    -------
    ImageInfo

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from logsuper.io import inspect_image, write_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_image(Path(folder) / "stack.tif", np.zeros((3, 4, 5), dtype=np.uint8))
    ...     info = inspect_image(path)
    >>> info.format, info.shape, info.dtype
    ('TIFF', (3, 4, 5), dtype('uint8'))
    """
    kind = _kind(path)
    if kind == "tiff":
        return inspect_tiff(path)
    return inspect_array(path, color) if kind == "array" else inspect_pillow(path)


class MaskPixels(NamedTuple):
    """A mask as stored.

    Attributes
    ----------
    pixels : ndarray
        As `read_image` returns them; with a palette of two colours, numbers in the palette.
    levels : (int, int), optional
        Which numbers are the darker and the brighter of the two colours.
    palette : ndarray of shape (n, 3), uint8, optional
    """

    pixels: NDArray[Any]
    levels: tuple[int, int] | None = None
    palette: NDArray[np.uint8] | None = None


def read_mask(path: FilePath, missing: Missing = None) -> MaskPixels:
    """Read a mask as `read_image` does, and keep the palette of one that has two colours.

    These may be any two; the brighter one stands for one.
    """
    picture = _decode(path, False, "colors")
    gone = _missing(picture, missing)
    if picture.palette is None or picture.indices is None:
        return MaskPixels(_as_mask(os.fspath(path), picture, gone, missing))
    known = picture.indices if gone is None else picture.indices[~gone]
    used = np.unique(known)
    colors = np.unique(picture.palette[used], axis=0)
    if not 1 <= len(colors) <= 2:
        return MaskPixels(_as_mask(os.fspath(path), picture, gone, missing))
    _check_opacity(os.fspath(path), picture, missing)
    palette, dark, bright = _two_colors(picture.palette, used)
    ones = (picture.values == palette[bright]).all(axis=-1)
    pixels = np.where(ones, bright, dark).astype(np.uint8)
    return MaskPixels(_masked(pixels, gone), (dark, bright), palette)


def _two_colors(
    palette: NDArray[np.uint8], used: NDArray[Any]
) -> tuple[NDArray[np.uint8], int, int]:
    """Return a palette and the numbers of its darker and its brighter colour in use.

    With one colour in use, the other one is the darkest or the brightest of the palette.
    """
    brightness = palette @ np.array([299, 587, 114])
    _, first = np.unique(palette[used], axis=0, return_index=True)
    numbers = sorted(used[first].tolist(), key=lambda number: (brightness[number], number))
    if len(numbers) == 2:
        return palette, numbers[0], numbers[1]
    [only] = numbers
    black = not palette[only].any()
    other = int(np.argmax(brightness) if black else np.argmin(brightness))
    if (palette[other] == palette[only]).all():  # all colours are this one
        other = len(palette) if len(palette) < 256 else (only + 1) % 256
        palette = np.append(palette, palette[:1], axis=0)[:256]
        palette[other] = 255 if black else 0
    return (palette, only, other) if black else (palette, other, only)


def _decode(path: FilePath, color: bool, palette: str) -> Picture:
    """Decode a file of any kind that has at least one pixel."""
    kind = _kind(path)
    if kind == "tiff":
        picture = decode_tiff(path, palette)
    elif kind == "array":
        picture = decode_array(path, color)
    else:
        picture = decode_pillow(path, palette)
    if not picture.values.size:
        raise ValueError(f"{os.fspath(path)}: has shape {picture.values.shape}, without a pixel")
    return picture


def _kind(path: FilePath) -> str:
    """Return which decoder a file is for, by its first bytes."""
    if Path(path).is_dir():
        if is_zarr(Path(path)):
            return "array"
        raise IsADirectoryError(f"{os.fspath(path)}: is a folder; give a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{os.fspath(path)}: is not a file")  # a pipe would wait for ever
    with open(path, "rb") as file:
        start = file.read(8)
    if not start:
        raise ValueError(f"{os.fspath(path)}: is empty")
    if start.startswith(_NPY):
        return "array"
    return "tiff" if start.startswith(_TIFF) else "pillow"


def _as_mask(
    name: str, picture: Picture, gone: NDArray[np.bool_] | None, missing: Missing
) -> NDArray[Any]:
    """Return grey levels, masked where they are missing."""
    known = None if gone is None else ~gone
    if picture.colored and not _is_grey(picture, known):
        if picture.channels is not None:
            raise ValueError(f"{name}: {picture.channels}")
        raise ValueError(f"{name}: is in colour; a mask is grey: {_color_remedy(picture, known)}")
    _check_opacity(name, picture, missing)
    return _masked(_grey(picture), gone)


def _check_opacity(name: str, picture: Picture, missing: Missing) -> None:
    """Refuse transparent pixels, unless they are missing."""
    if missing != "alpha" and picture.alpha is not None and _see_through(picture).any():
        raise ValueError(
            f"{name}: has transparent pixels; take them as missing (--missing alpha, in Python "
            "missing='alpha'), or flatten the image"
        )


def _masked(values: NDArray[Any], gone: NDArray[np.bool_] | None) -> NDArray[Any]:
    return values if gone is None or not gone.any() else np.ma.MaskedArray(values, mask=gone)


def _color_remedy(picture: Picture, known: NDArray[np.bool_] | None) -> str:
    """Return what to do about colours: say that the only one is missing, or convert the image."""
    values = picture.values if known is None else picture.values[known]
    colored = values[(values != values[..., :1]).any(axis=-1)]
    everywhere = colored.size == values.size
    if known is not None or picture.lossy or everywhere or (colored != colored[0]).any():
        return "convert it"
    named = tuple(int(level) // _unit(values) for level in colored[0])
    color = "#" + "".join(f"{level:02x}" for level in named)
    return (
        f"convert it, or, if its pixels of the colour {color} are missing, say so (--missing "
        f"'{color}', in Python missing={named})"
    )


def _missing(picture: Picture, missing: Missing) -> NDArray[np.bool_] | None:
    """Return which pixels are missing, None if no rule says so."""
    values = picture.values
    if missing is None or missing == "nan":
        return None
    if missing == "alpha":
        return None if picture.alpha is None else _see_through(picture)
    if isinstance(missing, tuple):
        if picture.colored:
            return np.asarray((values == np.array(missing) * _unit(values)).all(axis=-1))
        if len(set(missing)) > 1:
            return None  # a grey picture has no pixel of that colour
        level = missing[0] * _unit(values) if values.dtype != bool else missing[0] // 255
        return np.asarray(values == level)
    if isinstance(missing, int | float):
        return np.asarray(
            (values == missing).all(axis=-1) if picture.colored else values == missing
        )
    raise ValueError(f"missing must be 'alpha', 'nan', a colour or a grey level, got {missing!r}")


def _unit(values: NDArray[Any]) -> int:
    """Return what one of 255 steps is in the type of the pixels."""
    return 257 if values.dtype == np.uint16 else 1


def _see_through(picture: Picture) -> NDArray[np.bool_]:
    """Return which pixels are less than half opaque."""
    assert picture.alpha is not None
    alpha = picture.alpha
    full = np.iinfo(alpha.dtype).max if alpha.dtype.kind in "iu" else 1
    return np.asarray(alpha < full / 2)


def _is_grey(picture: Picture, where: NDArray[np.bool_] | None = None) -> bool:
    """Return whether red, green and blue are equal, wherever that matters."""
    values = picture.values if where is None else picture.values[where]
    if not picture.lossy:
        first = values[..., 0]
        return bool((first == values[..., 1]).all() and (first == values[..., 2]).all())
    spread = values.max(axis=-1).astype(np.int64) - values.min(axis=-1)
    return bool((spread <= _JPEG_GREY).all())


def _grey(picture: Picture) -> NDArray[Any]:
    """Return the grey levels of a picture without colours."""
    # green has most of the brightness, and of a lossy picture the least error
    return np.ascontiguousarray(picture.values[..., 1]) if picture.colored else picture.values
