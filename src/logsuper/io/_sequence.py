"""Many image files: found in folders, read one at a time."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from numpy.typing import NDArray

from logsuper._base import check_choice, check_limit
from logsuper.io._arrays import is_zarr
from logsuper.io._picture import ImageInfo
from logsuper.io._read import FilePath, Missing, inspect_image, read_image

__all__ = ["SUFFIXES", "ImageFiles", "find_images"]

SUFFIXES = (
    *(".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp", ".pbm", ".pgm", ".pnm", ".gif"),
    *(".npy", ".zarr"),
)
"""Suffixes by which files in a folder count as images, in lower or upper case."""


def find_images(paths: FilePath | Iterable[FilePath]) -> list[Path]:
    """Return image files: those that are given, and those in folders that are given.

    Parameters
    ----------
    paths : path or iterable of paths
        Files count whatever their names. In a folder, files count whose names end in one of
        `SUFFIXES` and do not begin with a dot; folders in it are not entered.

    Returns
    -------
    list of Path
        In the order given, those of a folder sorted by name; each file once.

    Raises
    ------
    OSError
        If a path is not there, or a folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from logsuper.io import find_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.png", "a.TIF", "notes.txt", ".hidden.png"):
    ...         _ = (Path(folder) / name).touch()
    ...     [path.name for path in find_images(folder)]
    ['a.TIF', 'b.png']
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: dict[str, Path] = {}
    for path in map(Path, given):
        for file in _inside(path):
            found.setdefault(os.path.abspath(file), file)
    return list(found.values())


def _inside(path: Path) -> list[Path]:
    """Return a file itself, or the images of a folder."""
    if not path.is_dir() or is_zarr(path):
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder")
        return [path]
    names = sorted(entry.name for entry in os.scandir(path) if _counts(entry))
    return [path / name for name in names]


def _counts(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()
    if entry.name.startswith(".") or suffix not in SUFFIXES:
        return False
    return entry.is_dir() == (suffix == ".zarr")


class ImageFiles(Sequence[NDArray[Any]]):
    """Image files as a sequence of arrays, each read when it is indexed and not kept.

    Parameters
    ----------
    paths : path or iterable of paths
        Files and folders, as in `find_images`.
    color, missing, palette
        As in `read_image`.
    memory_limit : float, optional
        Bytes of decoded images that a fit keeps in memory, 256 MB by default. It reads the others
        again whenever it needs them: they must not change meanwhile.

    Attributes
    ----------
    paths : tuple of Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from logsuper.io import ImageFiles, write_image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in (1, 2):
    ...         _ = write_image(Path(folder) / f"{k}.png", np.full((k, 3), 255, dtype=np.uint8))
    ...     images = ImageFiles(folder)
    ...     len(images), images.info(1).shape, int(images[1].sum())
    (2, (2, 3), 1530)
    """

    def __init__(
        self,
        paths: FilePath | Iterable[FilePath],
        color: bool = False,
        *,
        missing: Missing = None,
        palette: str = "colors",
        memory_limit: float | None = None,
    ) -> None:
        check_choice(palette, "palette", ("colors", "indices"))
        self.paths = tuple(find_images(paths))
        self.color, self.missing, self.palette = color, missing, palette
        self.memory_limit = check_limit(memory_limit)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> ImageFiles: ...
    def __getitem__(self, index: int | slice) -> NDArray[Any] | ImageFiles:
        """Read one image; a slice is again a sequence of files."""
        if isinstance(index, slice):
            part = copy.copy(self)  # without a look at the files
            part.paths = self.paths[index]
            return part
        return read_image(self.paths[index], self.color, missing=self.missing, palette=self.palette)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def info(self, index: int) -> ImageInfo:
        """Return format, shape and dtype of one image, without decoding its pixels."""
        return inspect_image(self.paths[index], self.color)
