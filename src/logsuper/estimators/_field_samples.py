"""Reading what a field is learned from: images with channels, volumes, graphs, and their masks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from logsuper._base import (
    FloatArray,
    IntArray,
    as_array,
    as_indices,
    as_numeric,
    entry,
    first_index,
)
from logsuper.estimators._images import check_bits, is_blank
from logsuper.learning import LazyImages, count_images, is_lazy, shapes_of

__all__ = ["Sample", "Samples", "read_masks", "read_samples"]

# Maximum number of pixels that are decoded at once: a pixel has tens of factors on edges.
_PIECE = 1 << 17
# The largest number in a picture: sums of squares over many pixels stay finite.
_LARGEST = 1e70


class Source(Protocol):
    """An array that is read, or made, when it is asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, which is known without reading it."""

    def load(self) -> NDArray[Any]:
        """Return the array."""


class Stored(NamedTuple):
    """An image of a sequence that is read again for each use; see `LazyImages`."""

    images: LazyImages
    number: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.images.shapes[self.number]

    def load(self) -> NDArray[Any]:
        """Read the image, unless it was kept."""
        return self.images[self.number]


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """An image, a volume or a graph.

    Attributes
    ----------
    source : ndarray of shape (*shape,) or (*shape, C), or Source
        As the user gave it.
    shape : tuple of int
        Of its mask.
    edges : ndarray of shape (E, 2), or None
        Of a graph; None on a grid.
    """

    source: NDArray[Any] | Source
    shape: tuple[int, ...]
    edges: IntArray | None = None

    @property
    def array(self) -> NDArray[Any]:
        """The numbers as they were given; of a file, read now."""
        return self.source if isinstance(self.source, np.ndarray) else self.source.load()

    @property
    def stored(self) -> bool:
        """Whether the array may be read again for each use."""
        return not isinstance(self.source, np.ndarray)

    @property
    def size(self) -> int:
        """Number of pixels or nodes."""
        return math.prod(self.shape)

    @property
    def channels(self) -> FloatArray:
        """The numbers of each pixel, (n, C)."""
        return self.array.reshape(self.size, -1).astype(np.float64)


class Samples(list[Sample]):
    """Samples that have been read.

    Attributes
    ----------
    stacked : bool
        Whether they came as one array, so that what is made of them is one as well.
    """

    stacked = False

    @property
    def pixels(self) -> int:
        """Number of pixels of all samples."""
        return sum(sample.size for sample in self)

    def room(self, dtype: type, copies: tuple[int, ...] = ()) -> Any:
        """Return where to put an array of the shape of each mask: a stack or a list, as given."""
        if self.stacked:
            return np.empty((len(self), *copies, *self[0].shape), dtype=dtype)
        return [None] * len(self)

    def pieces(self) -> Iterator[tuple[range, list[Sample]]]:
        """Split into runs of a bounded number of pixels."""
        first, pixels = 0, 0
        for i, sample in enumerate(self):
            if pixels and pixels + sample.size > _PIECE:
                yield range(first, i), self[first:i]
                first, pixels = i, 0
            pixels += sample.size
        yield range(first, len(self)), self[first:]


def read_samples(images: Any, axes: int) -> Samples:
    """Check images, or graphs as pairs of features and edges, whose masks have `axes` axes.

    A sequence whose items are read when they are indexed is read again for each use; 256 MB of it
    are kept.
    """
    if isinstance(images, Samples):
        return images
    stored = is_lazy(images) and count_images(images) and not isinstance(images[0], tuple)
    images = images if stored else _as_list(images, "images")
    objects = isinstance(images, np.ndarray) and images.dtype == object
    shape = tuple(images.shape) if hasattr(images, "shape") and not objects else ()
    if shape and len(shape) - 1 not in (axes, axes + 1):
        raise ValueError(
            f"images has shape {shape}; with masks of {axes} axes give "
            f"{axes + 1} axes, or {axes + 2} with channels last"
        )
    if not count_images(images):
        raise ValueError("images is empty; give at least one")
    if stored:
        kept = LazyImages(images, "images", lambda image, name: _as_picture(image, name, axes))
        found = Samples(Sample(Stored(kept, i), own[:axes]) for i, own in enumerate(kept.shapes))
    else:
        found = Samples(_read_sample(image, f"images[{i}]", axes) for i, image in enumerate(images))
    for i, sample in enumerate(found):
        if sample.source.shape[axes:] != found[0].source.shape[axes:]:
            raise ValueError(
                f"images[{i}] has shape {sample.source.shape}, images[0] {found[0].source.shape}; "
                "give all the same channels: convert grey pictures to RGB, or drop alpha"
            )
        if (sample.edges is None) != (found[0].edges is None):
            raise ValueError(f"images[{i}]: graphs and images cannot be mixed")
    found.stacked = bool(shape)
    return found


def _as_list(given: Any, name: str) -> Any:
    """Return an array or a list as it is, and what a generator yields as a list."""
    if isinstance(given, np.ndarray | list | tuple):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        kind = "None" if given is None else type(given).__name__
        raise TypeError(
            f"{name} must be an array or a list of arrays, got {kind}; give a list for one, "
            f"[{name}]"
        )
    return list(given)


def _read_sample(image: Any, name: str, axes: int) -> Sample:
    edges: Any = None
    if isinstance(image, tuple):
        if len(image) != 2:
            raise ValueError(f"{name} has {len(image)} entries; a graph is (features, edges)")
        image, edges = image
        axes = 1
    array = _as_picture(image, name, axes)
    shape = array.shape[:axes]
    if edges is not None:
        edges = as_indices(edges, shape[0], f"the edges of {name}").reshape(-1, 2)
        loops = edges[:, 0] == edges[:, 1]
        if loops.any():
            raise ValueError(f"the edges of {name} join node {edges[loops.argmax(), 0]} to itself")
    return Sample(array, shape, edges)


def _as_picture(image: Any, name: str, axes: int) -> NDArray[Any]:
    array = as_numeric(image, name)
    if array.ndim not in (axes, axes + 1):
        raise ValueError(
            f"{name} has shape {array.shape}, but its mask has {axes} axes; give {axes} axes, or "
            f"{axes + 1} with channels last"
        )
    if not array.size:
        raise ValueError(f"{name} has shape {array.shape}, without a single number")
    return array


def refuse_nonfinite(sample: Sample, i: int, first: int = 0) -> None:
    """Refuse NaN and infinity in the channels of a sample, from number `first` on."""
    array = sample.array
    if array.dtype.kind != "f":
        return
    part = array.reshape(*sample.shape, -1)[..., first:]
    bad = ~(np.abs(part) <= min(_LARGEST, float(np.finfo(part.dtype).max)))
    if bad.any():
        at = first_index(bad)
        raise ValueError(
            f"{entry(f'images[{i}]', at[:-1])} has the value {part[at]:g} in channel "
            f"{at[-1] + first}; a picture cannot have holes, or numbers beyond {_LARGEST:g}: fill "
            "or rescale it first"
        )


def read_masks(masks: Any) -> Sequence[NDArray[Any]]:
    """Check masks: 0, 1, or NaN (or masked) where there is no label; lazy ones are read again."""
    masks = masks if is_lazy(masks) else _as_list(masks, "masks")
    if not count_images(masks):
        raise ValueError("masks is empty; give at least one")
    found = LazyImages(masks, "masks", _read_mask)
    for i, shape in enumerate(found.shapes):
        if len(shape) != len(found.shapes[0]):
            first = len(found.shapes[0])
            raise ValueError(f"masks[{i}] has {len(shape)} axes, masks[0] {first}")
    remedy = "threshold it (mask > 127, if it has 0 and 255); a pixel without a label is NaN"
    check_bits(found, "masks", remedy)
    if all(map(is_blank, found)):
        raise ValueError("masks has no label at all")
    return found


def _read_mask(mask: Any, name: str) -> NDArray[Any]:
    if isinstance(mask, np.ma.MaskedArray):
        mask = np.ma.filled(mask.astype(np.float64), np.nan)
    array = as_array(mask, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    if array.ndim not in (1, 2, 3):
        raise ValueError(
            f"{name} has shape {array.shape}; it must be of an image (2 axes), a volume "
            "(3 axes) or the nodes of a graph (1 axis); give a stack for one, masks[None]"
        )
    if _is_painted(array):
        raise ValueError(
            f"{name} has shape {array.shape} and is the same in all of its last axis, as a "
            f"colour picture of a mask; give one channel, {name}[..., 0]"
        )
    return array


def _is_painted(array: NDArray[Any]) -> bool:
    """Return whether an array looks like a mask that was saved with three or four channels."""
    if array.ndim != 3 or array.shape[-1] not in (3, 4):
        return False
    first = array[..., :1]
    return bool((array == first).all() and (first != first.flat[0]).any())


def match(samples: Samples, masks: Sequence[NDArray[Any]]) -> None:
    """Refuse masks that do not belong to the samples."""
    if len(samples) != len(masks):
        raise ValueError(f"images has {len(samples)} entries, masks {len(masks)}; give one each")
    for i, (sample, shape) in enumerate(zip(samples, shapes_of(masks), strict=True)):
        if sample.shape != shape:
            raise ValueError(
                f"images[{i}] has shape {sample.source.shape}, but masks[{i}] {shape}; a mask "
                "has the shape of its image, without channels"
            )
