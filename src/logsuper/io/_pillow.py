"""PNG, JPEG, BMP, PBM, PGM and GIF, decoded by Pillow."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from logsuper.io._picture import ImageInfo, Picture, blaming, check_memory, orient, turns

__all__ = ["decode_pillow", "inspect_pillow", "pixels_of", "reading"]

# Formats that are tried, whatever the file name; Pillow starts programs to decode some others.
_FORMATS = ("PNG", "JPEG", "BMP", "DIB", "PPM", "GIF")
_LOSSY = ("JPEG", "MPO")
_ORIENTATION = 0x0112
_DTYPES = {"1": "bool", "L": "uint8", "LA": "uint8", "F": "float32"}
_WIDE = ("I", "I;16", "I;16B", "I;16L", "I;16N")
_COLOURS = {"CMYK": "CMYK colours of print", "YCbCr": "YCbCr", "LAB": "Lab", "HSV": "HSV"}


@contextmanager
def reading(path: str | os.PathLike[str], formats: tuple[str, ...] = _FORMATS) -> Iterator[Any]:
    """Open a picture; what is wrong with the file becomes one line."""
    from PIL import Image, UnidentifiedImageError

    name = os.fspath(path)
    with blaming(path, "cannot be decoded, perhaps truncated or damaged"):
        with warnings.catch_warnings():
            # what cannot fit into memory is refused below; Pillow refuses twice this size itself
            warnings.simplefilter("ignore")
            try:
                picture = Image.open(path, formats=formats)
            except Image.DecompressionBombError:
                raise ValueError(
                    f"{name}: claims more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels, as "
                    "decompression bombs do; give images of that size as TIFF or .npy"
                ) from None
            except UnidentifiedImageError:
                raise ValueError(f"{name}: is not an image of a known format") from None
            with picture:
                check_memory(path, float(np.prod(picture.size)), 4)
                yield picture


def inspect_pillow(path: str | os.PathLike[str]) -> ImageInfo:
    """Return format, shape and dtype from the head of a file."""
    with reading(path) as picture:
        _check(path, picture)
        wide = picture.mode in _WIDE or _deep(picture) is not None
        width, height = picture.size
        if turns(_orientation(picture)):
            width, height = height, width
        kind = _DTYPES.get(picture.mode, "uint16" if wide else "uint8")
        name = {"MPO": "JPEG", "DIB": "BMP"}.get(picture.format, picture.format)
        return ImageInfo(name, (height, width), np.dtype(kind), picture.format in _LOSSY)


def decode_pillow(path: str | os.PathLike[str], palette: str) -> Picture:
    """Decode a picture, upright."""
    from PIL import ImageOps

    with reading(path) as picture:
        _check(path, picture)
        lossy = picture.format in _LOSSY
        key = picture.info.get("transparency")
        if (raw := _deep(picture)) is not None:
            found = _decode_deep(path, raw, key)
            turn = _orientation(picture)
            alpha = None if found.alpha is None else orient(found.alpha, turn, 0)
            return Picture(orient(found.values, turn, 0), found.colored, alpha)
        picture.load()
        if _orientation(picture) != 1:
            picture = ImageOps.exif_transpose(picture)
        return pixels_of(picture, palette, key, lossy)


def _orientation(picture: Any) -> int:
    return int(picture.getexif().get(_ORIENTATION, 1))


def _deep(picture: Any) -> str | None:
    """Return how a PNG of several channels with 16 bits each is stored, of which Pillow reads 8."""
    raw = picture.tile[0][3] if picture.format == "PNG" and picture.tile else None
    return raw if raw in ("RGB;16B", "RGBA;16B", "LA;16B") else None


def _decode_deep(path: str | os.PathLike[str], raw: str, key: Any) -> Picture:
    """Decode a PNG of several channels with 16 bits each.

    Pillow keeps the upper bytes, and the lower ones if it takes the data for little-endian. Grey
    levels with opacity have as many bytes per pixel as four channels of 8 bits.
    """
    if raw == "LA;16B":
        values = _load_as(path, "RGBA").view(">u2").astype(np.uint16)
        return Picture(values[..., 0], False, values[..., 1])
    high, low = _load_as(path, raw), _load_as(path, raw.replace("16B", "16L"))
    values = high.astype(np.uint16) << 8 | low
    alpha = values[..., 3] if raw == "RGBA;16B" else None
    if isinstance(key, tuple):
        gone = (values == np.asarray(key)).all(axis=-1)
        alpha = np.where(gone, 0, 65535).astype(np.uint16)
    return Picture(values[..., :3], True, alpha)


def _load_as(path: str | os.PathLike[str], raw: str) -> np.ndarray[Any, Any]:
    """Return the pixels of a PNG, its data taken for those of another kind."""
    with reading(path) as picture:
        tile = picture.tile[0]
        picture.tile = [tile._replace(args=raw) if hasattr(tile, "args") else (*tile[:3], raw)]
        picture.load()
        return np.array(picture)


def _check(path: str | os.PathLike[str], picture: Any) -> None:
    """Refuse what is not one picture of grey levels or of red, green and blue."""
    name = os.fspath(path)
    if picture.format != "MPO" and getattr(picture, "is_animated", False):
        raise ValueError(f"{name}: is an animation; save the frames as images of their own")
    if picture.format == "PPM" and picture.mode == "RGB" and picture.tile:
        most = picture.tile[0][3]  # the raw mode, or with it the largest value
        if isinstance(most, tuple) and int(most[-1]) > 255:
            raise ValueError(f"{name}: has more than 8 bits per colour; save it as PNG or TIFF")
    if picture.mode in _COLOURS:
        raise ValueError(f"{name}: has {_COLOURS[picture.mode]}; convert it to grey or RGB")


def pixels_of(picture: Any, palette: str, key: Any = None, lossy: bool = False) -> Picture:
    """Return the pixels of a loaded picture in an array of their own bit depth.

    Parameters
    ----------
    picture : Image
    palette : {"colors", "indices"}
        What a pixel of a picture with a palette stands for.
    key : int, tuple or bytes, optional
        Level, colour or palette entries that are transparent.
    lossy : bool
    """
    indices = table = None
    if picture.mode == "P" and palette == "colors":
        indices = np.array(picture)
        table = np.array(picture.getpalette("RGB"), dtype=np.uint8).reshape(-1, 3)
        if indices.size and indices.max() >= len(table):  # as Pillow takes these for black
            table = np.pad(table, ((0, int(indices.max()) + 1 - len(table)), (0, 0)))
        picture = picture.convert("RGB" if key is None else "RGBA")
        key = None
    elif picture.mode == "P":
        key = None
    elif picture.mode == "PA":
        picture = picture.convert("RGBA")
    values = np.asarray(picture)
    if picture.mode in _WIDE:
        values = _as_uint16(values)
    if picture.mode in ("LA", "La"):
        return Picture(values[..., 0], False, values[..., 1], lossy)
    if picture.mode in ("RGBA", "RGBa", "RGBX"):
        return Picture(values[..., :3], True, values[..., 3], lossy, indices=indices, palette=table)
    colored = picture.mode == "RGB"
    alpha = None
    if isinstance(key, int | tuple):
        transparent = values == np.asarray(key)
        transparent = transparent.all(axis=-1) if colored else transparent
        alpha = np.where(transparent, 0, 255).astype(np.uint8)
    return Picture(values, colored, alpha, lossy, indices=indices, palette=table)


def _as_uint16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return 16-bit pixels, which Pillow may give in 32."""
    if values.size and 0 <= values.min() and values.max() <= 65535:
        return values.astype(np.uint16)
    return values
