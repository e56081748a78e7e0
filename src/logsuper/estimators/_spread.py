"""Many images decoded by other processes, where joblib has been told to use some."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from logsuper.estimators._images import Image, Images
from logsuper.learning import count_workers

# Tasks per process, for those that are faster than others; least pixels of a task.
_TASKS, _LEAST = 8, 1 << 15


def spread(estimator: Any, method: str, images: Images, dtype: type) -> Any:
    """Return what a method of an estimator gives for images, by other processes if there are any.

    None if there are none, or if the images are too few. Noise is a function of the data of an
    image, so that the result does not depend on how images are grouped.
    """
    workers = count_workers()
    if workers < 2:
        return None
    pieces = list(images.pieces(max(_LEAST, images.pixels // (_TASKS * workers))))
    if len(pieces) < 2:
        return None
    import joblib

    own = copy.copy(estimator)
    own.n_jobs, own.callback = None, None
    out = images.room(dtype)
    calls = (joblib.delayed(_decode)(own, method, images.section(piece)) for piece in pieces)
    said: dict[str, type[Warning]] = {}
    for piece, (found, warned) in zip(
        pieces, joblib.Parallel(return_as="generator", batch_size=1)(calls), strict=True
    ):
        out[piece] = np.stack(found) if images.stacked else found
        said |= warned
    for message, category in said.items():
        warnings.warn(message, category, stacklevel=3)
    return out


def _decode(
    estimator: Any, method: str, images: Sequence[Image]
) -> tuple[list[Image], dict[str, type[Warning]]]:
    import joblib

    # a task of Dask would hand out tasks again
    with joblib.parallel_config("sequential"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = list(getattr(estimator, method)(images))
    return found, {str(each.message): each.category for each in said}
