"""Masks and probabilities of dask arrays: lazy, a chunk at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray
from logsuper.bounds import marginals_tiles
from logsuper.channels import Channel
from logsuper.estimators._blind_spot import BlindSpot
from logsuper.estimators._decoding import keep_doubt
from logsuper.estimators._images import read_images
from logsuper.estimators._mask_examples import functions_on, gather
from logsuper.estimators._noise import check_observed
from logsuper.estimators._surroundings import reach
from logsuper.functions import SubmodularFunction, Sum
from logsuper.learning import Parameters, soften
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
    temperature_: float
    n_jobs: int | None
    surroundings_: BlindSpot | None
    _design: dict[str, Any]

    def predict(self, noisy: Any) -> Any:
        """Return masks."""

    def predict_proba(self, noisy: Any) -> Any:
        """Return probabilities."""


@dataclasses.dataclass(frozen=True, eq=False)
class FieldMaker:
    """Computes the fields of a block of an image, as `learning.modes` does."""

    design: dict[str, Any]
    channel: Channel
    parameters: Parameters
    factor: float
    around: BlindSpot | None

    def __call__(self, block: Any) -> FloatArray:
        """Return the field of each pixel of a block."""
        images = read_images([np.asarray(block)], "noisy")
        check_observed(self.channel, images)
        judge = None if self.around is None else self.around.judge_new()
        examples = gather(self.design, list(images), self.channel, judge=judge)
        theta = examples.layout.pack(self.parameters.scaled(self.factor))
        [group] = examples.groups
        return examples.fields(theta, group, np.arange(1)).reshape(block.shape)


def lazy_modes(denoiser: Denoiser, noisy: Any) -> Any:
    """Return the most probable masks of a dask array: an image, or a stack of images."""
    design = denoiser._design
    _check(denoiser, noisy)
    if noisy.ndim > design["axes"]:
        return _stacked(noisy, lambda image: lazy_modes(denoiser, image), np.uint8)
    theta = _fields(denoiser, noisy, denoiser.decode_factor_)
    alpha = denoiser.parameters_.scaled(denoiser.decode_factor_).alpha
    if not np.any(alpha):
        return (theta > 0).astype(np.uint8)
    return maximize_tiles(_function(denoiser, noisy.shape, alpha), theta)


def _fields(denoiser: Denoiser, noisy: Any, factor: float) -> Any:
    """Return the fields of a dask array of one image, lazily."""
    import dask.array as da

    maker = FieldMaker(
        denoiser._design,
        denoiser.channel_,
        denoiser.parameters_,
        factor,
        denoiser.surroundings_,
    )
    return da.map_overlap(
        maker,
        noisy,
        depth=_depth(denoiser, noisy),
        boundary="none",
        dtype=np.float64,
        meta=np.empty((0,) * noisy.ndim),
    )


def _function(denoiser: Denoiser, shape: tuple[int, ...], alpha: FloatArray) -> SubmodularFunction:
    cuts = functions_on(denoiser._design["neighbors"], shape)
    return Sum(list(zip(np.ravel(alpha).tolist(), cuts, strict=True)))


def lazy_intervals(denoiser: Denoiser, noisy: Any, width: float) -> tuple[Any, Any]:
    """Return certified bounds on the probabilities of a dask array: an image, or a stack."""
    _check(denoiser, noisy)
    if noisy.ndim > denoiser._design["axes"]:
        import dask.array as da

        pairs = [lazy_intervals(denoiser, noisy[i], width) for i in range(len(noisy))]
        lower, upper = zip(*pairs, strict=True)
        return da.stack(lower), da.stack(upper)
    f = _function(denoiser, noisy.shape, denoiser.parameters_.alpha)
    return bound_means(denoiser, f, _fields(denoiser, noisy, 1.0), width)


def bound_means(
    denoiser: Denoiser, f: SubmodularFunction, field: Any, width: float
) -> tuple[Any, Any]:
    """Return certified bounds on the probabilities of one image, as denoisers give them."""
    heat = denoiser.temperature_

    def finish(p: FloatArray) -> FloatArray:
        return keep_doubt(soften(p, heat))

    def alone(u: FloatArray, slip: float) -> FloatArray:
        return finish(expit(u) * (1.0 + slip))

    if not np.any(denoiser.parameters_.alpha):
        slip = 4.0 * EPS
        return _each_chunk(alone, field, slip=-slip), _each_chunk(alone, field, slip=slip)
    jobs = None if is_lazy(field) else denoiser.n_jobs
    found = marginals_tiles(f, field, width=width, n_jobs=jobs)
    return _each_chunk(finish, found.lower), _each_chunk(finish, found.upper)


def _each_chunk(function: Callable[..., FloatArray], array: Any, **options: float) -> Any:
    """Call a function of an array, or of each chunk of a dask array."""
    if not is_lazy(array):
        return function(array, **options)
    return array.map_blocks(function, dtype=np.float64, meta=np.empty((0,) * array.ndim), **options)


def lazy_means(denoiser: Denoiser, noisy: Any) -> Any:
    """Return the probabilities of a dask array, each chunk with a margin of `HALO` pixels."""
    return _by_chunks(denoiser, noisy, denoiser.predict_proba, np.float64)


def lazy_decisions(denoiser: Denoiser, noisy: Any) -> Any:
    """Return masks decided pixel by pixel, from the same probabilities."""
    return _by_chunks(denoiser, noisy, denoiser.predict, np.uint8)


def _by_chunks(denoiser: Denoiser, noisy: Any, decode: Callable[[Any], Any], dtype: type) -> Any:
    _check(denoiser, noisy)
    if noisy.ndim > denoiser._design["axes"]:
        return _stacked(noisy, lambda image: _by_chunks(denoiser, image, decode, dtype), dtype)
    import dask.array as da

    return da.map_overlap(
        lambda block: decode([np.asarray(block)])[0],
        noisy,
        depth=_depth(denoiser, noisy, HALO),
        boundary="none",
        dtype=dtype,
        meta=np.empty((0,) * noisy.ndim, dtype=dtype),
    )


def _stacked(noisy: Any, decode: Any, dtype: type) -> Any:
    import dask.array as da

    return da.stack([decode(noisy[i]) for i in range(len(noisy))]).astype(dtype)


def _depth(denoiser: Denoiser, noisy: Any, halo: int = 0) -> tuple[int, ...]:
    """Return how far around a pixel the filter and the classifier look, and a halo beyond that."""
    around, far = denoiser.surroundings_, int(denoiser._design["context"] or 0)
    if around is not None:
        far = max(far, reach(noisy.ndim, around.levels))
    return tuple(min(halo + far, size) for size in noisy.shape)


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
    if denoiser.surroundings_ is not None and denoiser.surroundings_.places:
        raise ValueError(
            "a dask array is decoded by chunks, but the classifier of the context sees the place "
            "of a pixel in its image, as all training images have one shape; fit with "
            "context='auto', or with images of several shapes"
        )
    if denoiser.channel_.local:
        raise ValueError(
            "a dask array is decoded by chunks, but noise has rates per pixel; give one rate"
        )
    if not all(math.isfinite(size) for size in noisy.shape):
        raise ValueError("noisy has chunks of unknown size; call its compute_chunk_sizes first")
