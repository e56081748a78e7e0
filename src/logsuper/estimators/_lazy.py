"""Masks and probabilities of dask arrays: lazy, a chunk at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper._base import EPS, FloatArray, Tile, make_tiles
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

HALO = {1: 64, 2: 32, 3: 16}
"""Pixels around a block that its probabilities are computed with, for one, two and three axes."""
WHOLE = 1 << 22
"""Pixels of an image beyond which probabilities are computed by blocks."""
BLOCK = {1: WHOLE, 2: 1024, 3: 128}
"""Sides of these blocks. They lie at multiples of it, whatever chunks an array has, so that the
result does not depend on chunks; their noise is that of their data."""


def is_lazy(images: Any) -> bool:
    """Return whether images are a dask array, without importing dask."""
    return type(images).__module__.startswith("dask.array")


class Denoiser(Protocol):
    """What is needed of a fitted denoiser."""

    cost: tuple[Any, Any]
    channel_: Channel
    parameters_: Parameters
    decode_factor_: float
    temperature_: float
    n_jobs: int | None
    surroundings_: BlindSpot | None
    _design: dict[str, Any]

    def _means_of(self, image: Any) -> FloatArray:
        """Return the probabilities of one image, solved as a whole, as they come."""

    def _finish(self, p: FloatArray) -> FloatArray:
        """Return probabilities as `predict_proba` gives them."""

    def _decide(self, p: FloatArray) -> NDArray[np.uint8]:
        """Return the mask that probabilities lead to."""


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
    """Return the probabilities of a dask array, by blocks with a margin of `HALO` pixels."""
    return _by_blocks(denoiser, noisy, denoiser._finish, np.float64)


def lazy_decisions(denoiser: Denoiser, noisy: Any) -> Any:
    """Return masks decided pixel by pixel, from the same probabilities."""
    if _is_local(denoiser.cost):
        raise ValueError("a dask array is decoded by chunks, but cost is per pixel; give numbers")
    return _by_blocks(denoiser, noisy, denoiser._decide, np.uint8)


def _by_blocks(
    denoiser: Denoiser, noisy: Any, finish: Callable[[FloatArray], Any], dtype: type
) -> Any:
    _check(denoiser, noisy)
    if noisy.ndim > denoiser._design["axes"]:
        return _stacked(noisy, lambda image: _by_blocks(denoiser, image, finish, dtype), dtype)
    import dask.array as da

    return da.map_overlap(
        lambda block: finish(denoiser._means_of(np.asarray(block))),
        in_blocks(noisy, noisy.ndim),
        depth=_depth(denoiser, noisy, HALO[noisy.ndim]),
        boundary="none",
        dtype=dtype,
        meta=np.empty((0,) * noisy.ndim, dtype=dtype),
    ).rechunk(noisy.chunks)


def block_cuts(shape: Sequence[int]) -> list[list[int]]:
    """Return, for each axis, where the blocks of an image begin, and the end.

    A last block that would be narrow is joined to the one before it.
    """
    side = BLOCK[len(shape)] if math.prod(shape) > WHOLE else max(shape)
    cuts = []
    for size in shape:
        count = max(1, (size + side - side // 4) // side)
        cuts.append([*range(0, count * side, side), size])
    return cuts


def in_blocks(image: Any, axes: int) -> Any:
    """Return a dask array with chunks of the blocks by which probabilities are computed."""
    chunks = [tuple(np.diff(cut).tolist()) for cut in block_cuts(image.shape[:axes])]
    return image.rechunk(dict(enumerate(chunks)))


def decode_by_blocks(
    denoiser: Denoiser, image: Any, finish: Callable[..., Any], out: NDArray[Any]
) -> None:
    """Write what probabilities of a large image in memory lead to; the bits of a dask array.

    ``finish(p, box)`` is called with the probabilities of each block.
    """
    shape = image.shape
    depth = _depth(denoiser, image, HALO[image.ndim])
    for tile in make_tiles(shape, block_cuts(shape), 0):
        outer = tuple(
            slice(max(0, side.start - d), min(size, side.stop + d))
            for side, d, size in zip(tile.core, depth, shape, strict=True)
        )
        inner = Tile(tile.core, outer).inner
        out[tile.core] = finish(denoiser._means_of(image[outer])[inner], tile.core)


def goes_by_blocks(denoiser: Denoiser, shape: tuple[int, ...]) -> bool:
    """Return whether probabilities of an image in memory are computed by blocks."""
    return math.prod(shape) > WHOLE and _obstacle(denoiser) is None


def _is_local(cost: tuple[Any, Any]) -> bool:
    """Return whether costs are given per pixel."""
    return any(np.ndim(each) for each in cost)


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
    reason = _obstacle(denoiser)
    if reason is not None:
        raise ValueError(f"a dask array is decoded by chunks, {reason}")
    if not all(math.isfinite(size) for size in noisy.shape):
        raise ValueError("noisy has chunks of unknown size; call its compute_chunk_sizes first")


def _obstacle(denoiser: Denoiser) -> str | None:
    """Return why a fitted denoiser cannot decode parts of an image by themselves."""
    design, around = denoiser._design, denoiser.surroundings_
    if design["modular"] == "pixel":
        return "but the modular term was learned for each pixel; fit with modular='shared'"
    if not (design["neighbors"] is None or isinstance(design["neighbors"], int | np.integer)):
        return "which needs neighbors to be a number"
    if around is not None and around.places:
        return (
            "but the classifier of the context sees the place of a pixel in its image, as all "
            "training images have one shape; fit with context='auto', or with images of several "
            "shapes"
        )
    if denoiser.channel_.local:
        return "but noise has rates per pixel; give one rate"
    return None
