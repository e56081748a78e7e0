"""Masks and probabilities of dask arrays: lazy, a chunk at a time."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol

import numpy as np

from logsuper._base import FloatArray
from logsuper.channels import Channel
from logsuper.estimators._images import read_images
from logsuper.estimators._mask_examples import functions_on, gather
from logsuper.estimators._noise import check_observed
from logsuper.functions import Sum
from logsuper.learning import Parameters
from logsuper.solvers import maximize_tiles

HALO = 32
"""Pixels around a chunk that its probabilities are computed with."""


def is_lazy(images: Any) -> bool:
    """Return whether images are a dask array, without importing dask."""
    return type(images).__module__.startswith("dask.array")


class Denoiser(Protocol):
    """What is needed of a fitted denoiser."""

    channel_: Channel
    parameters_: Parameters
    decode_factor_: float
    _design: dict[str, Any]

    def predict_proba(self, noisy: Any) -> Any:
        """Return probabilities."""


@dataclasses.dataclass(frozen=True, eq=False)
class FieldMaker:
    """Computes the fields of a block of an image, as `learning.modes` does."""

    design: dict[str, Any]
    channel: Channel
    parameters: Parameters
    factor: float

    def __call__(self, block: Any) -> FloatArray:
        """Return the field of each pixel of a block."""
        images = read_images([np.asarray(block)], "noisy")
        check_observed(self.channel, images)
        examples = gather(self.design, list(images), self.channel)
        theta = examples.layout.pack(self.parameters.scaled(self.factor))
        [group] = examples.groups
        return examples.fields(theta, group, np.arange(1)).reshape(block.shape)


def lazy_modes(denoiser: Denoiser, noisy: Any) -> Any:
    """Return the most probable masks of a dask array: an image, or a stack of images."""
    design = denoiser._design
    _check(denoiser, noisy)
    if noisy.ndim > design["axes"]:
        return _stacked(noisy, lambda image: lazy_modes(denoiser, image), np.uint8)
    import dask.array as da

    maker = FieldMaker(design, denoiser.channel_, denoiser.parameters_, denoiser.decode_factor_)
    reach = _reach(design)
    theta = da.map_overlap(
        maker,
        noisy,
        depth=reach,
        boundary="none",
        dtype=np.float64,
        meta=np.empty((0,) * noisy.ndim),
    )
    alpha = denoiser.parameters_.scaled(denoiser.decode_factor_).alpha
    if not np.any(alpha):
        return (theta > 0).astype(np.uint8)
    cuts = functions_on(design["neighbors"], noisy.shape)
    return maximize_tiles(Sum(list(zip(np.ravel(alpha).tolist(), cuts, strict=True))), theta)


def lazy_means(denoiser: Denoiser, noisy: Any) -> Any:
    """Return the probabilities of a dask array, each chunk with a margin of `HALO` pixels."""
    _check(denoiser, noisy)
    if noisy.ndim > denoiser._design["axes"]:
        return _stacked(noisy, lambda image: lazy_means(denoiser, image), np.float64)
    import dask.array as da

    depth = HALO + _reach(denoiser._design)
    return da.map_overlap(
        lambda block: denoiser.predict_proba([np.asarray(block)])[0],
        noisy,
        depth=tuple(min(depth, size) for size in noisy.shape),
        boundary="none",
        dtype=np.float64,
        meta=np.empty((0,) * noisy.ndim),
    )


def _stacked(noisy: Any, decode: Any, dtype: type) -> Any:
    import dask.array as da

    return da.stack([decode(noisy[i]) for i in range(len(noisy))]).astype(dtype)


def _reach(design: dict[str, Any]) -> int:
    """Return how far the filter of the observations reaches."""
    return int(design["context"] or 0)


def _check(denoiser: Denoiser, noisy: Any) -> None:
    """Refuse what cannot be decoded by chunks."""
    design = denoiser._design
    if noisy.ndim not in (design["axes"], design["axes"] + 1):
        raise ValueError(
            f"noisy has {noisy.ndim} axes; give one image of {design['axes']}, or a stack of images"
        )
    if design["modular"] == "pixel":
        raise ValueError(
            "a dask array is decoded by chunks, but the modular term was learned for each pixel; "
            "fit with modular='shared'"
        )
    if not (design["neighbors"] is None or isinstance(design["neighbors"], int | np.integer)):
        raise ValueError("a dask array is decoded by chunks, which needs neighbors to be a number")
    if not all(math.isfinite(size) for size in noisy.shape):
        raise ValueError("noisy has chunks of unknown size; call its compute_chunk_sizes first")
