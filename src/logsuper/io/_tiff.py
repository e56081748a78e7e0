"""TIFF: pages, stacks, BigTIFF and OME volumes, decoded by tifffile."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logsuper.io._picture import ImageInfo, Picture, blaming, check_dtype, check_memory, orient
from logsuper.io._picture import turns as exchanges
from logsuper.io._pillow import pixels_of, reading

__all__ = ["decode_tiff", "inspect_tiff"]

# Values of the tag PhotometricInterpretation.
_WHITE_IS_ZERO, _RGB, _PALETTE, _CMYK = 0, 2, 3, 5
_ORIENTATION = 274
_LOSSY = (6, 7, 34892)  # kinds of JPEG


class _Layout(NamedTuple):
    """The axes of the one image in a file, and where its colours and rows are.

    Attributes
    ----------
    shape : tuple of int
        All axes that are longer than 1, or image axes.
    axes : str
        Their letters: Y and X are rows and columns, S and C samples and channels.
    """

    shape: tuple[int, ...]
    axes: str

    @property
    def samples(self) -> int | None:
        """Place of the axis of colours, if there is one."""
        return next((i for i, letter in enumerate(self.axes) if letter in "SC"), None)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a TIFF file; tifffile logs what it finds odd, which would end up on the terminal."""
    import tifffile

    logger = tifffile.logger()
    before, logger.disabled = logger.disabled, True
    try:
        with (
            blaming(path, "cannot be decoded, perhaps truncated or damaged"),
            tifffile.TiffFile(path) as file,
        ):
            yield file
    finally:
        logger.disabled = before


def inspect_tiff(path: str | os.PathLike[str]) -> ImageInfo:
    """Return shape and dtype from the tags of a file."""
    with _opened(path) as file:
        series = _single(path, file)
        layout = _layout(path, series)
        shape = [n for i, n in enumerate(layout.shape) if i != layout.samples]
        if exchanges(_orientation(series)):
            shape[-1], shape[-2] = shape[-2], shape[-1]
        dtype = np.dtype(series.dtype)
        if series.keyframe.photometric == _PALETTE:
            dtype = np.dtype(np.uint8)
        return ImageInfo("TIFF", tuple(shape), dtype, int(series.keyframe.compression) in _LOSSY)


def decode_tiff(path: str | os.PathLike[str], palette: str) -> Picture:
    """Decode the one image or stack of a file."""
    with _opened(path) as file:
        series = _single(path, file)
        layout = _layout(path, series)
        page = series.keyframe
        lossy = int(page.compression) in _LOSSY
        check_memory(path, float(math.prod(series.shape)), np.dtype(series.dtype).itemsize)
        try:
            values = np.asarray(series.asarray())
        except ValueError as error:
            if "imagecodecs" not in str(error):
                raise
            picture = _decode_without_codec(path, palette, lossy, str(page.compression.name))
            if "C" not in layout.axes:
                return picture
            values = picture.values
        values = values.reshape(layout.shape)
        colors, alpha, channels = layout.samples, None, None
        indices: NDArray[Any] | None = None
        table: NDArray[np.uint8] | None = None
        if colors is not None:
            values = np.moveaxis(values, colors, -1)
            if layout.axes[colors] == "C":
                values, channels = _split_channels(path, values, series)
            else:
                values, alpha = _split(path, values, page.photometric)
        rows = layout.axes.replace("S", "").replace("C", "").index("Y")
        colored = colors is not None and values.ndim == len(layout.shape)
        if page.photometric == _WHITE_IS_ZERO:
            values = _invert(values)
        elif page.photometric == _PALETTE and palette == "colors":
            # a palette has 16 bits, which repeat 8
            indices, table = values, (np.asarray(page.colormap).T >> 8).astype(np.uint8)
            values, colored = np.asarray(table[indices]), True
        turn = _orientation(series)
        if alpha is not None:
            alpha = orient(alpha, turn, rows)
        if indices is not None:
            indices = orient(indices, turn, rows)
        return Picture(orient(values, turn, rows), colored, alpha, lossy, channels, indices, table)


def _single(path: str | os.PathLike[str], file: Any) -> Any:
    """Return the one image, or stack of images of one size."""
    series = file.series
    if not series:
        raise ValueError(f"{os.fspath(path)}: holds no image")
    if len(series) > 1:
        shapes = sorted({str(one.shape) for one in series})
        raise ValueError(
            f"{os.fspath(path)}: holds {len(series)} images of different kinds or sizes "
            f"({', '.join(shapes[:3])}); split it into files"
        )
    return series[0]


def _orientation(series: Any) -> int:
    tag = series.keyframe.tags.get(_ORIENTATION)
    return 1 if tag is None or not isinstance(tag.value, int) else int(tag.value)


def _layout(path: str | os.PathLike[str], series: Any) -> _Layout:
    """Return the axes of an image or volume, with one of colours or without."""
    name = os.fspath(path)
    check_dtype(path, np.dtype(series.dtype))
    if series.keyframe.photometric == _CMYK:
        raise ValueError(f"{name}: has CMYK colours of print; convert it to grey or RGB")
    kept = [
        (n, letter)
        for n, letter in zip(series.shape, series.axes, strict=True)
        if n != 1 or letter in "YX"
    ]
    layout = _Layout(tuple(n for n, _ in kept), "".join(letter for _, letter in kept))
    spatial = [letter for letter in layout.axes if letter not in "SC"]
    many = sum(letter in "SC" for letter in layout.axes) > 1
    if many or len(spatial) not in (2, 3) or spatial[-2:] != ["Y", "X"]:
        raise ValueError(
            f"{name}: has the axes {series.axes} of shape {series.shape}; split it into images "
            "(YX) or volumes (ZYX)"
        )
    return layout


def _split(
    path: str | os.PathLike[str], values: NDArray[Any], photometric: int
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return grey levels or colours, and what says how opaque they are."""
    count = values.shape[-1]
    if count == 2 and photometric != _RGB:
        return values[..., 0], values[..., 1]
    if count in (3, 4):
        return values[..., :3], values[..., 3] if count == 4 else None
    raise ValueError(f"{os.fspath(path)}: has {count} channels; keep one, or red, green and blue")


def _split_channels(
    path: str | os.PathLike[str], values: NDArray[Any], series: Any
) -> tuple[NDArray[Any], str | None]:
    """Return the image that all channels of a microscope show, or three of them as colours.

    Unlike samples (axis S), they are named by the axis C, and none of them is opacity. Of three
    that differ, also what to say where colours are refused.
    """
    if (values == values[..., :1]).all():
        return values[..., 0], None
    count, name, axis = values.shape[-1], os.path.basename(path), series.axes.index("C")
    first = f"tifffile.imread({name!r}).take(0, {axis - series.ndim})"
    remedy = (
        f"has {count} channels (axes {series.axes}), and a mask has one, a photograph three: save "
        "the one you want as an image of its own, the first by "
        f"tifffile.imwrite('one.tif', {first}, photometric='minisblack')"
    )
    if count == 3:
        return values, remedy
    raise ValueError(f"{os.fspath(path)}: {remedy}")


def _invert(values: NDArray[Any]) -> NDArray[Any]:
    """Return pixels with white as the larger number."""
    if values.dtype.kind == "b":
        return ~values
    if values.dtype.kind == "u":
        return np.iinfo(values.dtype).max - values
    return values


def _decode_without_codec(
    path: str | os.PathLike[str], palette: str, lossy: bool, compression: str
) -> Picture:
    """Let Pillow decode what tifffile would need the package imagecodecs for, such as LZW."""
    try:
        with _silenced(), reading(path, ("TIFF",)) as file:
            count = int(getattr(file, "n_frames", 1))
            check_memory(path, float(np.prod(file.size)) * count, 4)
            frames = []
            for index in range(count):
                file.seek(index)
                file.load()
                frames.append(pixels_of(file, palette, None, lossy))
        if count == 1:
            return frames[0]
        alphas = [frame.alpha for frame in frames if frame.alpha is not None]
        return Picture(
            np.stack([frame.values for frame in frames]),
            frames[0].colored,
            np.stack(alphas) if alphas else None,
            lossy,
        )
    except ValueError:
        raise ValueError(
            f"{os.fspath(path)}: is damaged, or compressed by {compression} in a way that needs "
            "the package imagecodecs; install that, or save the image as ZIP (deflate)"
        ) from None


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep what libtiff, in C, prints about damaged files off the terminal."""
    try:
        kept = os.dup(2)
    except OSError:  # no standard error at all
        yield
        return
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
