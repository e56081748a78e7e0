"""Reading what users call images: stacks, lists, masked arrays, any dtype of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import as_array, entry, first_index

__all__ = ["check_bits", "check_pairs", "pieces", "read_images"]

Image = NDArray[Any]

# Images of so many pixels in all are decoded at once.
_PIECE = 1 << 20
# The largest grey level: sums of its square, over many pixels, are finite.
_LARGEST = 1e140


def read_images(images: Any, name: str) -> list[Image]:
    """Return images or volumes as a list of arrays, NaN where they are masked; no other copies."""
    loose = isinstance(images, np.ndarray) and images.dtype == object and images.ndim > 0
    if isinstance(images, np.ndarray) and not loose and images.ndim not in (3, 4):
        if images.ndim == 2:
            raise ValueError(
                f"{name} is a single image of shape {images.shape}; give a stack, {name}[None]"
            )
        raise ValueError(
            f"{name} must be a stack (N, H, W) of images or (N, Z, H, W) of volumes, or a list, "
            f"got shape {images.shape}"
        )
    if not isinstance(images, np.ndarray | list | tuple):
        raise TypeError(f"{name} must be an array or a list of arrays, got {_kind(images)}")
    if not len(images):
        raise ValueError(f"{name} is empty; give at least one image")
    found = [_read_image(image, f"{name}[{i}]") for i, image in enumerate(images)]
    for i, image in enumerate(found):
        if image.ndim != found[0].ndim:
            raise ValueError(
                f"{name}[{i}] has {image.ndim} axes, but {name}[0] has {found[0].ndim}; "
                "images and volumes cannot be mixed"
            )
    return found


def _read_image(image: Any, name: str) -> Image:
    if isinstance(image, np.ma.MaskedArray):
        masked = np.ma.is_masked(image)
        image = np.ma.filled(image.astype(np.float64), np.nan) if masked else image.data
    array = as_array(image, name)
    if array.ndim not in (2, 3):
        raise ValueError(
            f"{name} has shape {array.shape}; it must be an image (2 axes) or a volume (3 axes)"
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not array.size:
        raise ValueError(f"{name} has shape {array.shape}, without a single pixel")
    if array.dtype.kind == "f":
        large = np.abs(array) > min(_LARGEST, float(np.finfo(array.dtype).max))
        if large.any():
            at = first_index(large)
            raise ValueError(
                f"{entry(name, at)} = {array[at]:g} is infinite, or so large that its square is; "
                "NaN means missing"
            )
    return array


def is_binary(image: Image) -> bool:
    """Return whether all that is there is 0 or 1."""
    return image.dtype == np.bool_ or not _neither(image).any()


def check_bits(images: list[Image], name: str, remedy: str) -> None:
    """Refuse what is neither 0 nor 1 nor missing."""
    for i, image in enumerate(images):
        if not is_binary(image):
            at = first_index(_neither(image))
            raise ValueError(
                f"{entry(f'{name}[{i}]', at)} = {image[at]} is neither 0 nor 1; {remedy}"
            )


def _neither(image: Image) -> NDArray[np.bool_]:
    bad = (image != 0) & (image != 1)
    if image.dtype.kind == "f":
        bad &= image == image
    return np.asarray(bad)


def check_pairs(noisy: list[Image], clean: list[Image]) -> None:
    """Refuse images and labels that do not belong together."""
    if len(noisy) != len(clean):
        raise ValueError(f"noisy has {len(noisy)} images, clean {len(clean)}; give one for each")
    for i, (z, x) in enumerate(zip(noisy, clean, strict=True)):
        if z.shape != x.shape:
            raise ValueError(f"noisy[{i}] has shape {z.shape}, but clean[{i}] has {x.shape}")


def pieces(images: list[Image]) -> Iterator[slice]:
    """Split a list into runs of a bounded number of pixels."""
    first, pixels = 0, 0
    for i, image in enumerate(images):
        if pixels and pixels + image.size > _PIECE:
            yield slice(first, i)
            first, pixels = i, 0
        pixels += image.size
    yield slice(first, len(images))


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
