"""Images with channels, masks that may be partial, and probability maps, from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from logsuper.cli._folder import Job
from logsuper.cli._observed import Reading, read_observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLOURS = 3


def read_picture(path: Path) -> NDArray[Any]:
    """Return the pixels of an image: integers as shares of white, other numbers as they are."""
    import numpy as np

    from logsuper.io import read_image

    values = read_image(path, color=True)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError(f"{path}: has pixels that are NaN or infinite; fill them first")
        return values
    return _shares(values)


def read_mask(path: Path, missing: Any) -> NDArray[Any]:
    """Return labels 0 and 1; NaN where there is none."""
    import numpy as np

    from logsuper.io import inspect_image

    seen = read_observed(path, inspect_image(path), Reading(missing=missing, can_cut=False))
    if not seen.binary:
        raise ValueError(
            f"{path}: has grey levels; a mask has two, and --missing says which other one stands "
            "for pixels without a label"
        )
    found = seen.assemble(list(seen.parts))
    return np.asarray(found, dtype=np.float32 if found.dtype.kind == "f" else np.uint8)


def read_map(path: Path) -> NDArray[Any]:
    """Return a network's probabilities, NaN where they are not known."""
    import numpy as np

    from logsuper.io import read_image

    values = np.asarray(read_image(path))
    if values.dtype.kind != "f":
        return _shares(values)
    wrong = (values < 0) | (values > 1)
    if wrong.any():
        raise ValueError(
            f"{path}: has the value {values[wrong][0]:g}; probabilities are from 0 to 1 (log-odds "
            "z are 1 / (1 + exp(-z)))"
        )
    return values


def compose(
    job: Job, picture: NDArray[Any], odds: tuple[Path, NDArray[Any]] | None, axes: int, colours: int
) -> NDArray[Any]:
    """Return what a field is given for an image: (..., C), a probability map in front.

    Parameters
    ----------
    job : Job
    picture : ndarray
    odds : (Path, ndarray), optional
        A probability map and its file.
    axes : int
        Of the mask.
    colours : int
        How many channels the picture shall have; grey is repeated for red, green and blue.
    """
    import numpy as np

    if picture.ndim == axes:
        picture = picture[..., None]
    if picture.ndim != axes + 1:
        kind = "a volume" if axes == _COLOURS else "an image"
        raise ValueError(f"{job.source}: has shape {picture.shape}, and is not {kind}")
    if picture.shape[-1] == 1 and colours == _COLOURS:
        picture = picture.repeat(_COLOURS, axis=-1)
    if picture.shape[-1] != colours:
        if len(job.info.shape) > axes:
            raise ValueError(
                f"{job.source}: is a volume of {job.info.shape[0]} slices, and the others are "
                "images; save its slices as images"
            )
        raise ValueError(
            f"{job.source}: has {picture.shape[-1]} channel{'s' * (picture.shape[-1] > 1)}, but "
            f"the images that are learned from have {colours}; convert it"
        )
    if odds is None:
        return picture
    path, values = odds
    if values.shape != picture.shape[:-1]:
        raise ValueError(
            f"{path}: has shape {values.shape}, but {job.source} has {picture.shape[:-1]}; a "
            "probability map has the size of its image"
        )
    return np.concatenate([values[..., None], picture], axis=-1)


def count_channels(picture: NDArray[Any], axes: int) -> int:
    """Return the number of channels of a picture whose mask has some number of axes."""
    return int(picture.shape[-1]) if picture.ndim == axes + 1 else 1


def _shares(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers as shares of the largest of their type."""
    import numpy as np

    white = 1 if values.dtype == bool else np.iinfo(values.dtype).max
    return np.asarray(values / np.float32(white), dtype=np.float32)
