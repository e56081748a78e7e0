"""Reading what users call images: stacks, lists, masked arrays, any dtype of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import as_array, beat, entry, first_index
from logsuper.learning import BINARY, LazyImages, count_images, is_lazy

__all__ = [
    "Image",
    "Images",
    "check_bits",
    "is_blank",
    "read_images",
    "read_labels",
]

Image = NDArray[Any]

# Maximum number of pixels that are decoded at once.
_PIECE = 1 << 20
# The largest grey level: sums of squares over many pixels stay finite.
_LARGEST = 1e140


class Images(LazyImages):
    """Images or volumes that have been checked: arrays of numbers, NaN where they are masked.

    Attributes
    ----------
    stacked : bool
        Whether they came as one array, so that what is made of them is one as well.
    """

    stacked = False

    @property
    def pixels(self) -> int:
        """Number of pixels of all images."""
        return sum(map(math.prod, self.shapes))

    def room(self, dtype: type, copies: tuple[int, ...] = ()) -> Any:
        """Return where to put an array of the shape of each image: a stack or a list, as given."""
        if self.stacked:
            return np.empty((len(self), *copies, *self.shapes[0]), dtype=dtype)
        return [None] * len(self)

    def pieces(self, most: int = _PIECE) -> Iterator[slice]:
        """Split the list into runs of a bounded number of pixels."""
        first, pixels = 0, 0
        for i, size in enumerate(map(math.prod, self.shapes)):
            if pixels and pixels + size > most:
                yield slice(first, i)
                first, pixels = i, 0
            pixels += size
        yield slice(first, len(self))


def read_images(images: Any, name: str) -> Images:
    """Check images or volumes, once: what was read before is returned as it is.

    Arrays and lists are not copied. Lazy sequences that are not small are read again when needed.
    """
    if isinstance(images, Images):
        return images
    if not (is_lazy(images) or isinstance(images, np.ndarray | list | tuple)):
        kind = "None" if images is None else type(images).__name__
        raise TypeError(f"{name} must be an array or a list of arrays, got {kind}")
    objects = isinstance(images, np.ndarray) and images.dtype == object and bool(images.ndim)
    stacked = hasattr(images, "shape") and not objects
    shape = tuple(images.shape) if stacked else ()
    if len(shape) == 2:
        raise ValueError(f"{name} is a single image of shape {shape}; give a stack, {name}[None]")
    if stacked and len(shape) not in (3, 4):
        raise ValueError(
            f"{name} must be a stack (N, H, W) of images or (N, Z, H, W) of volumes, or a list, "
            f"got shape {shape}"
        )
    if not count_images(images):
        raise ValueError(f"{name} is empty; give at least one image")
    found = Images(images, name, _read_image)
    shapes = found.shapes
    for i, sides in enumerate(shapes):
        if len(sides) != len(shapes[0]):
            raise ValueError(
                f"{name}[{i}] has {len(sides)} axes, but {name}[0] has {len(shapes[0])}; "
                "images and volumes cannot be mixed"
            )
    found.stacked = stacked
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


def read_labels(clean: Any, noisy: Images) -> Images:
    """Check labels, and that they belong to the noisy images."""
    labels = read_images(clean, "clean")
    if len(noisy) != len(labels):
        raise ValueError(f"noisy has {len(noisy)} images, clean {len(labels)}; give one for each")
    for i, (z, x) in enumerate(zip(noisy.shapes, labels.shapes, strict=True)):
        if z != x:
            raise ValueError(f"noisy[{i}] has shape {z}, but clean[{i}] has {x}")
    check_bits(labels, "clean", "threshold it; a pixel without a label is NaN")
    if all(map(is_blank, labels)):
        raise ValueError("clean has no label at all; leave it out to do without clean images")
    return labels


def is_blank(image: Image) -> bool:
    """Return whether nothing was observed, or labelled."""
    return image.dtype.kind == "f" and bool(np.isnan(image).all())


def check_bits(images: Sequence[Image], name: str, remedy: str) -> None:
    """Refuse what is neither 0 nor 1 nor missing."""
    if isinstance(images, LazyImages) and images.have(BINARY):
        return
    for i, image in enumerate(images):
        if (bad := _neither(image)).any():
            at = first_index(bad)
            place = entry(f"{name}[{i}]", at)
            raise ValueError(f"{place} = {image[at]} is neither 0 nor 1; {remedy}")


def _neither(image: Image) -> NDArray[np.bool_]:
    beat()
    return np.asarray((image != 0) & (image != 1) & (image == image))
