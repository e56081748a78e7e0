"""Reading what users call images: stacks, lists, masked arrays, any dtype of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import as_array, beat, entry, first_index

__all__ = ["Image", "Images", "check_bits", "is_binary", "is_blank", "read_images", "read_labels"]

Image = NDArray[Any]

# Maximum number of pixels that are decoded at once.
_PIECE = 1 << 20
# The largest grey level: sums of squares over many pixels stay finite.
_LARGEST = 1e140


class Images(list[Image]):
    """Images or volumes that have been read: arrays of numbers, NaN where they are masked.

    Attributes
    ----------
    stacked : bool
        Whether they came as one array, so that what is made of them is one as well.
    """

    stacked = False

    @property
    def shapes(self) -> set[tuple[int, ...]]:
        """The shapes of the images."""
        return {image.shape for image in self}

    def room(self, dtype: type, copies: tuple[int, ...] = ()) -> Any:
        """Return where to put an array of the shape of each image: a stack or a list, as given."""
        if self.stacked:
            return np.empty((len(self), *copies, *self[0].shape), dtype=dtype)
        return [None] * len(self)

    def pieces(self) -> Iterator[slice]:
        """Split the list into runs of a bounded number of pixels."""
        first, pixels = 0, 0
        for i, image in enumerate(self):
            if pixels and pixels + image.size > _PIECE:
                yield slice(first, i)
                first, pixels = i, 0
            pixels += image.size
        yield slice(first, len(self))


def read_images(images: Any, name: str) -> Images:
    """Check images or volumes, once: what was read before is returned as it is; no other copies."""
    if isinstance(images, Images):
        return images
    if not isinstance(images, np.ndarray | Sequence) or isinstance(images, str | bytes):
        kind = "None" if images is None else type(images).__name__
        raise TypeError(f"{name} must be an array or a list of arrays, got {kind}")
    stacked = isinstance(images, np.ndarray) and not (images.dtype == object and images.ndim)
    shape = np.shape(images) if stacked else ()
    if len(shape) == 2:
        raise ValueError(f"{name} is a single image of shape {shape}; give a stack, {name}[None]")
    if stacked and len(shape) not in (3, 4):
        raise ValueError(
            f"{name} must be a stack (N, H, W) of images or (N, Z, H, W) of volumes, or a list, "
            f"got shape {shape}"
        )
    if not len(images):
        raise ValueError(f"{name} is empty; give at least one image")
    found = Images(_read_image(image, f"{name}[{i}]") for i, image in enumerate(images))
    for i, image in enumerate(found):
        if image.ndim != found[0].ndim:
            raise ValueError(
                f"{name}[{i}] has {image.ndim} axes, but {name}[0] has {found[0].ndim}; "
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
    for i, (z, x) in enumerate(zip(noisy, labels, strict=True)):
        if z.shape != x.shape:
            raise ValueError(f"noisy[{i}] has shape {z.shape}, but clean[{i}] has {x.shape}")
    check_bits(labels, "clean", "threshold it; a pixel without a label is NaN")
    if all(map(is_blank, labels)):
        raise ValueError("clean has no label at all; leave it out to do without clean images")
    return labels


def is_blank(image: Image) -> bool:
    """Return whether nothing was observed, or labelled."""
    return image.dtype.kind == "f" and bool(np.isnan(image).all())


def is_binary(image: Image) -> bool:
    """Return whether all that is there is 0 or 1."""
    return not _neither(image).any()


def check_bits(images: list[Image], name: str, remedy: str) -> None:
    """Refuse what is neither 0 nor 1 nor missing."""
    for i, image in enumerate(images):
        if (bad := _neither(image)).any():
            at = first_index(bad)
            place = entry(f"{name}[{i}]", at)
            raise ValueError(f"{place} = {image[at]} is neither 0 nor 1; {remedy}")


def _neither(image: Image) -> NDArray[np.bool_]:
    beat()
    return np.asarray((image != 0) & (image != 1) & (image == image))
