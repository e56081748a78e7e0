"""Images to work on: from the command line, dropped on the page, or drawn by the package."""

from __future__ import annotations

import dataclasses
import functools
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.datasets import make_scenes, make_silhouettes
from logsuper.io import read_image
from logsuper.studio._limits import Limits, Refusal

__all__ = ["SHIPPED", "Source", "decode", "encode_png", "open_path", "open_shipped"]

# Formats of dropped files; Pillow would start programs to decode some others.
_FORMATS = ("PNG", "JPEG", "BMP", "PPM", "GIF")
_SMALLEST = 4  # pixels along each side

_SILHOUETTES, _SCENES = "silhouette", "scene"
_SHAPES = {_SILHOUETTES: (120, 160), _SCENES: (240, 320)}
_SEEDS = {_SILHOUETTES: (1, 3, 5, 7), _SCENES: (1, 7, 6, 8)}
SHIPPED = tuple(f"{kind}-{i}" for kind in _SHAPES for i in range(4))
"""The names of images that ship with the package."""

# A grey image is a mask with soft borders if this share of its pixels is within an eighth of black
# or of white.
_NEARLY_ALL, _END = 0.95, 0.125


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """An image, and how to get it in Python.

    Attributes
    ----------
    name : str
        For the user.
    pixels : ndarray of shape (H, W) or (H, W, 3)
        What is worked on.
    full : tuple of int
        Height and width of the whole image.
    step : int
        Every step-th row and column of it is worked on.
    code : tuple of str
        Lines of Python that make `image` from a file or from the package.
    truth : ndarray of shape (H, W), optional
        The clean mask of an image that ships.
    """

    name: str
    pixels: NDArray[Any]
    full: tuple[int, int]
    step: int
    code: tuple[str, ...]
    truth: NDArray[np.uint8] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what is worked on."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def colored(self) -> bool:
        """Whether there are red, green and blue."""
        return self.pixels.ndim == 3

    @property
    def is_mask(self) -> bool:
        """Whether all pixels are black or white, or nearly so."""
        return not self.colored and np.ptp(self.pixels) > 0 and as_observed(self.pixels)[1]

    def shown(self) -> NDArray[np.uint8]:
        """Return the image with 8 bits per pixel, for the screen."""
        return _as_bytes(self.pixels)

    @property
    def code_of_results(self) -> list[str]:
        """Lines of Python that write `mask` and `probability` at the size of the file."""
        enlarged = [
            "height, width = whole.shape[:2]",
            f"mask = mask.repeat({self.step}, 0).repeat({self.step}, 1)[:height, :width]",
            f"probability = probability.repeat({self.step}, 0).repeat({self.step}, 1)"
            "[:height, :width]",
        ]
        return [
            *(enlarged if self.step > 1 else []),
            "",
            'write_image("mask.png", np.where(mask, 255, 0).astype(np.uint8), force=True)',
            "wide = np.round(65535 * probability).astype(np.uint16)",
            'write_image("probability.png", wide, force=True)',
        ]

    def enlarge(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return an image of this size at the size of the whole."""
        height, width = self.full
        return image.repeat(self.step, 0).repeat(self.step, 1)[:height, :width]


def open_path(path: Path, limits: Limits) -> Source:
    """Read a file that the user named; raises ValueError, OSError or MemoryError."""
    values = read_image(path, color=True)
    return _make(str(path), values, limits, f"read_image({str(path)!r}, color=True)")


def decode(data: bytes, name: str, limits: Limits) -> Source:
    """Decode a file that was dropped on the page, as `logsuper.io.read_image` would."""
    if not data:
        raise Refusal(f"{name}: the file is empty")
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\x93NUMPY")):
        raise Refusal(
            f"{name}: TIFF and .npy files are opened from the shell: logsuper studio FILE", 415
        )
    values = _decode(data, name, limits)
    return _make(name, values, limits, f"read_image({name!r}, color=True)")


@functools.lru_cache(maxsize=len(SHIPPED))
def open_shipped(name: str) -> Source:
    """Return an image that the package draws."""
    if name not in SHIPPED:
        raise Refusal(f"there is no image {name[:40]!r} in the package", 404)
    kind, _, number = name.partition("-")
    shape, seed = _SHAPES[kind], _SEEDS[kind][int(number)]
    if kind == _SILHOUETTES:
        [mask] = make_silhouettes(1, shape, seed)
        code = (f"[image] = ls.make_silhouettes(1, {shape}, seed={seed})",)
        return Source(name, mask, shape, 1, code, mask)
    code = (f"[image] = ls.make_scenes(1, {shape}, seed={seed}).images",)
    return Source(name, make_scenes(1, shape, seed).images[0], shape, 1, code)


def as_observed(pixels: NDArray[Any]) -> tuple[FloatArray, bool, str]:
    """Return grey levels as observations of a mask.

    Returns
    -------
    observed : ndarray
        0 and 1, or grey levels from 0 to 1.
    binary : bool
    code : str
        The expression that makes it from `image`.
    """
    low, high = (float(end) for end in (pixels.min(), pixels.max()))
    if low == high:
        raise Refusal("all pixels of this image are alike: there is nothing to clean")
    scaled = (pixels.astype(np.float64) - low) / (high - low)
    outside = (scaled > _END) & (scaled < 1.0 - _END)
    if np.count_nonzero(outside) <= (1.0 - _NEARLY_ALL) * outside.size:
        middle = (low + high) / 2.0
        return (pixels > middle).astype(np.float64), True, f"(image > {middle:g}).astype(float)"
    return scaled, False, f"(image.astype(float) - {low!r}) / {high - low!r}"


def encode_png(image: NDArray[Any]) -> bytes:
    """Return an image of 8 or 16 bits as PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(file, "PNG")
    return file.getvalue()


# ------------------------------------------------------------------------------------------ inside


def _decode(data: bytes, name: str, limits: Limits) -> NDArray[Any]:
    """Return grey levels, or red, green and blue, upright."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            _check(picture, name, limits)
            lossy = picture.format in ("JPEG", "MPO")
            picture.load()
            return _pixels(ImageOps.exif_transpose(picture), lossy)
    except Refusal:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name, limits) from None
    except Exception:  # decoders raise many types on damaged bytes
        raise Refusal(
            f"{name}: not a PNG, JPEG, BMP, PGM or GIF image, or a damaged one", 415
        ) from None


def _check(picture: Any, name: str, limits: Limits) -> None:
    """Refuse pictures by their heads, before they are decoded."""
    if math.prod(picture.size) > limits.pixels:
        raise _too_large(name, limits)
    if picture.format != "MPO" and getattr(picture, "is_animated", False):
        raise Refusal(f"{name}: an animation; save one frame of it as an image", 415)
    if picture.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
        raise Refusal(f"{name}: has {picture.mode} colours; convert it to RGB", 415)


def _too_large(name: str, limits: Limits) -> Refusal:
    return Refusal(
        f"{name}: has more than {limits.pixels / 1e6:g} million pixels; crop or shrink it", 413
    )


def _pixels(picture: Any, lossy: bool) -> NDArray[Any]:
    if picture.mode in ("P", "PA"):
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    values = np.asarray(picture)
    if picture.mode.startswith("I"):
        return values.astype(np.uint16) if 0 <= values.min() <= values.max() < 2**16 else values
    if picture.mode in ("LA", "La"):
        return np.ascontiguousarray(values[..., 0])
    if values.ndim == 2:
        return values
    values = np.ascontiguousarray(values[..., :3])
    spread = values.max(axis=-1).astype(np.int64) - values.min(axis=-1)
    return np.ascontiguousarray(values[..., 1]) if spread.max() <= (8 if lossy else 0) else values


def _make(name: str, values: NDArray[Any], limits: Limits, code: str) -> Source:
    if values.ndim - (values.shape[-1] == 3 and values.ndim > 2) != 2:
        raise Refusal(f"{name}: a volume; the studio shows images of two axes", 415)
    height, width = values.shape[:2]
    if min(height, width) < _SMALLEST:
        raise Refusal(f"{name}: {width} x {height} pixels are too few; give at least 4 x 4")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Refusal(f"{name}: has NaN or infinite pixels; fill them first")
    step = max(1, math.ceil(math.sqrt(height * width / limits.work)))
    lines = [f"image = {code}"]
    if step > 1:
        lines.append(f"whole, image = image, image[::{step}, ::{step}]  # as in the studio")
    pixels = np.ascontiguousarray(values[::step, ::step])
    return Source(name, pixels, (height, width), step, tuple(lines))


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    if values.dtype == np.uint8 and values.ndim == 3:
        return values
    low, high = (float(end) for end in (values.min(), values.max()))
    if values.dtype == np.uint8 and (low, high) != (0.0, 1.0):
        return values
    spread = high - low if high > low else 1.0
    return np.round(255.0 * (values.astype(np.float64) - low) / spread).astype(np.uint8)
