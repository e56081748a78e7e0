"""Modes of images so large that they are solved by tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.functions import Cut, SubmodularFunction, Sum
from logsuper.learning._examples import Group
from logsuper.solvers import maximize_tiles

TILED = 1 << 24
"""Pixels from which an image is solved by tiles, which needs about 50 bytes per pixel less."""


def can_be_tiled(
    functions: Sequence[SubmodularFunction], alpha: FloatArray, factors: FloatArray | None
) -> bool:
    """Return whether all functions are cuts of a grid, with one factor per edge at most."""
    cuts = all(isinstance(f, Cut) and f.offset is not None for f in functions)
    return cuts and bool((alpha > 0).any()) and (factors is None or factors.ndim == 2)


def modes_by_tiles(
    group: Group,
    alpha: FloatArray,
    fields: FloatArray,
    factors: FloatArray | None,
    n_jobs: int | None,
) -> NDArray[np.uint8]:
    """Return the labels (B, n) of one solve per image, bit for bit."""
    cuts: tuple[Any, ...] = group.prepared.functions
    used = [k for k in range(len(cuts)) if alpha[k] > 0]
    ends = np.cumsum([0, *(len(cut.weights) for cut in cuts)])
    f = Sum([(float(alpha[k]), cuts[k]) for k in used])
    y = np.empty(fields.shape, dtype=np.uint8)
    for i, (field, row) in enumerate(zip(fields, y, strict=True)):
        weights = None
        if factors is not None:
            own = factors[i]
            weights = [_laid(cuts[k], own[ends[k] : ends[k + 1]]) for k in used]
        theta, out = field.reshape(group.shape), row.reshape(group.shape)
        maximize_tiles(f, theta, edge_weights=weights, out=out, n_jobs=n_jobs)
    return y


def _laid(cut: Any, factors: FloatArray) -> FloatArray:
    """Return factors on the edges of a direction in the shape of these edges."""
    shape = [size - abs(o) for size, o in zip(cut.shape, cut.offset, strict=True)]
    return factors.reshape(shape)
