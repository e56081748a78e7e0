"""Images that do not fit into memory: read again for each batch, or kept in a temporary file.

A sequence whose items are read when they are indexed, such as `logsuper.io.ImageFiles`, a memory
map or a zarr array, is read once to check it. If all of it fits into `KEPT` bytes it stays in
memory. Else some images do, and the others are read again whenever they are needed. Of every image
a checksum is kept, so that one that changes in between is noticed.
"""

from __future__ import annotations

import math
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from logsuper._base import IntArray, beat

Image = NDArray[Any]

KEPT = 1 << 28
"""Bytes of lazy images that stay in memory, unless their source has a `memory_limit`."""

BINARY, WHOLE, FINITE = 1, 2, 4
"""Facts about an image: all that is there is 0 or 1, nothing is missing, nothing is infinite."""

_REMEDY = "images are read more than once while they are learned from; leave them as they are"


def is_lazy(images: object) -> bool:
    """Return whether the items of a sequence, or of a stack, are read when they are indexed."""
    if isinstance(images, np.ndarray):
        return isinstance(images, np.memmap)
    if isinstance(images, Sequence):
        return not isinstance(images, list | tuple | str | bytes)
    return hasattr(images, "__getitem__") and len(getattr(images, "shape", ())) > 2


def count_images(images: Any) -> int:
    """Return the number of images; some stacks on disk know their shape only."""
    return int(images.shape[0]) if hasattr(images, "shape") else len(images)


class LazyImages(Sequence[Image]):
    """Images of a sequence, checked; those of a lazy one are read again whenever one is needed.

    Parameters
    ----------
    source : sequence of array-like
    name : str
        Of the argument, for messages.
    read : callable
        ``read(item, name)`` returns an item of the source as an array, checked.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Of all images.
    complete : bool
        Whether all of them stay in memory.
    """

    def __init__(self, source: Any, name: str, read: Callable[[Any, str], Image]) -> None:
        self.name, self._source, self._read = name, source, read
        self._numbers: IntArray = np.arange(count_images(source))
        self._sums, self._facts = np.zeros((2, len(self)), dtype=np.uint32)
        self._kept: dict[int, Image] = {}
        self._last: tuple[int, Image] | None = None
        shapes, lazy = [], is_lazy(source)
        limit = getattr(source, "memory_limit", None)
        left = (KEPT if limit is None else limit) if lazy else math.inf
        for i in range(len(self)):
            beat()
            image = self._load(i) if lazy else read(source[i], f"{name}[{i}]")
            shapes.append(image.shape)
            self._facts[i] = _find_facts(image)
            if image.nbytes <= left:
                self._kept[i] = image
                left -= image.nbytes
            else:
                self._sums[i] = _checksum(image)
        self.shapes = tuple(shapes)

    @property
    def complete(self) -> bool:
        """Whether all images are in memory."""
        return len(self._kept) == len(self)

    def have(self, fact: int, index: IntArray | None = None) -> bool:
        """Return whether a fact is true of some images, all by default."""
        return bool((self._facts[slice(None) if index is None else index] & fact).all())

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, i: int) -> Image: ...
    @overload
    def __getitem__(self, i: slice) -> list[Image]: ...
    def __getitem__(self, i: int | slice) -> Image | list[Image]:
        """Return an image, read again unless it was kept; a list of them for a slice."""
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not 0 <= i < len(self):
            raise IndexError(i)
        if i in self._kept:
            return self._kept[i]
        if self._last is None or self._last[0] != i:
            self._last = int(i), self._load_again(i)
        return self._last[1]

    def __iter__(self) -> Iterator[Image]:
        return (self[i] for i in range(len(self)))

    def section(self, piece: slice) -> Sequence[Image]:
        """Return some images for another process: files, which it reads itself, or arrays."""
        if not self.complete and isinstance(self._source, Sequence):
            try:
                part: Sequence[Image] = self._source[piece]
            except TypeError:  # not every sequence has slices
                return self[piece]
            if isinstance(part, type(self._source)):
                return part
        return self[piece]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": {}, "_last": None}

    def _load(self, i: int) -> Image:
        number = int(self._numbers[i])
        # a copy: what is kept must not hold a file, or a larger array
        return np.array(self._read(self._source[number], f"{self.name}[{number}]"), order="C")

    def _load_again(self, i: int) -> Image:
        place = f"{self.name}[{self._numbers[i]}]"
        try:
            image = self._load(i)
        except Exception as error:  # of any source
            text = f"{place} could be read at first, but not again ({error}); {_REMEDY}"
            raise OSError(text) from error
        if image.shape != self.shapes[i] or _checksum(image) != self._sums[i]:
            raise OSError(f"{place} has changed since it was first read; {_REMEDY}")
        return image


def shapes_of(images: Sequence[Image]) -> Sequence[tuple[int, ...]]:
    """Return the shape of each image, without reading it again."""
    return images.shapes if isinstance(images, LazyImages) else [image.shape for image in images]


class RowSource(Protocol):
    """Where rows of numbers are read from."""

    n: int
    dtype: np.dtype[Any]

    def read(self, numbers: IntArray) -> NDArray[Any]:
        """Return some rows, (B, n)."""


class LazyRows:
    """Flat images (N, n) that are not in memory: indexed like an array, by an array of rows."""

    def __init__(self, source: RowSource, numbers: IntArray) -> None:
        self.source, self.numbers = source, numbers
        self.dtype, self.shape = source.dtype, (len(numbers), source.n)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.source.read(self.numbers[rows])

    def __setitem__(self, rows: Any, values: NDArray[Any]) -> None:
        assert isinstance(self.source, StoredRows)
        self.source.write(self.numbers[rows], values)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[row : row + 1][0] for row in range(len(self)))

    def take(self, rows: IntArray, most: int) -> NDArray[Any] | LazyRows:
        """Return some rows, in memory if they have at most so many entries."""
        if len(rows) * self.shape[1] <= most:
            return self[rows]
        return LazyRows(self.source, self.numbers[rows])


class ImageRows:
    """Rows that are made of images, each read when it is needed."""

    def __init__(
        self, images: LazyImages, n: int, dtype: Any, flatten: Callable[[Image, int], Image]
    ) -> None:
        self.images, self.n, self.dtype, self.flatten = images, n, np.dtype(dtype), flatten

    def read(self, numbers: IntArray) -> NDArray[Any]:
        """Return some images as rows."""
        found = np.empty((len(numbers), self.n), dtype=self.dtype)
        for row, i in zip(found, numbers.tolist(), strict=True):
            row[:] = self.flatten(self.images[i], i).ravel()
        return found


class StoredRows:
    """Rows in a temporary file, which is deleted with the object."""

    def __init__(self, count: int, n: int, dtype: Any) -> None:
        self.n, self.dtype = n, np.dtype(dtype)
        self._file = tempfile.TemporaryFile()
        weakref.finalize(self, self._file.close)
        self._file.truncate(count * n * self.dtype.itemsize)

    def read(self, numbers: IntArray) -> NDArray[Any]:
        """Return some rows."""
        found = np.empty((len(numbers), self.n), dtype=self.dtype)
        for row, i in zip(found, numbers.tolist(), strict=True):
            self._file.seek(i * row.nbytes)
            self._file.readinto(row.data)
        return found

    def write(self, numbers: IntArray, values: NDArray[Any]) -> None:
        """Replace some rows."""
        rows = np.ascontiguousarray(np.broadcast_to(values, (len(numbers), self.n)), self.dtype)
        for row, i in zip(rows, numbers.tolist(), strict=True):
            self._file.seek(i * row.nbytes)
            self._file.write(row.data)


# ------------------------------------------------------------------------------------------ inside


def _checksum(image: Image) -> int:
    return zlib.crc32(image.data, zlib.crc32(image.dtype.str.encode()))


def _find_facts(image: Image) -> int:
    missing = image != image
    binary = bool(((image == 0) | (image == 1) | missing).all())
    finite = binary or image.dtype.kind != "f" or not np.isinf(image).any()
    return BINARY * binary | WHOLE * (not missing.any()) | FINITE * bool(finite)
