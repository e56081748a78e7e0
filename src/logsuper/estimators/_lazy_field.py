r"""Masks and probabilities of a field behind a classifier, of dask arrays: lazy, by chunks.

A chunk knows everything but three numbers of its image: the size, which decides whether it is
reduced and where features look; the mean square difference of neighbours, by which contrast is
measured; and the mean probability, which the calibration weighs. The first is refused where it
matters. The second is computed at once, in one pass over the picture; a chunk whose own mean is
:math:`m_b` then has the factors of the image, of mean m, at the scales :math:`s\sqrt{m/m_b}`. The
third is computed when it is needed, by probabilities of all chunks, which are not kept.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from logsuper._base import FloatArray
from logsuper.estimators._decoding import keep_doubt
from logsuper.estimators._field_samples import Sample
from logsuper.estimators._lazy import HALO, in_blocks
from logsuper.functions import Sum, grid_cuts
from logsuper.solvers import maximize_tiles

__all__ = ["lazy_modes", "lazy_probabilities"]


def lazy_modes(crf: Any, images: Any) -> Any:
    """Return the most probable masks of a dask array: an image, or a stack of images."""
    far = _check(crf, images)
    if images.ndim > _dimensions(crf):
        return _stacked(lazy_modes, crf, images)
    parameters = crf.parameters_.scaled(crf.decode_factor_)
    theta = _by_chunks(_Unary(crf, parameters), images, far, crf._plan["axes"], np.float64)
    coupling = crf._coupling
    if coupling.kind == "none" or not parameters.alpha.any():
        return (theta > 0).astype(np.uint8)
    rows = parameters.alpha.reshape(crf.alpha_.shape)
    cuts = grid_cuts(theta.shape, coupling.neighbors)
    if coupling.kind == "uniform":
        return maximize_tiles(Sum(list(zip(rows[0].tolist(), cuts, strict=True))), theta)
    squares = _squares(crf, images)
    mean = _mean_square(squares)
    weights = []
    for own, column in zip(squares, rows.T, strict=True):
        relative = own / mean if mean else own
        scaled = (-0.5 * relative / scale / scale for scale in coupling.scales)
        weights.append(sum(a * np.exp(each) for a, each in zip(column, scaled, strict=True)))
    f = Sum([(1.0, cut) for cut in cuts])
    return maximize_tiles(f, theta, edge_weights=weights)


def lazy_probabilities(crf: Any, images: Any) -> Any:
    """Return the calibrated probabilities of a dask array, each chunk with a margin."""
    far = _check(crf, images)
    if images.ndim > _dimensions(crf):
        return _stacked(lazy_probabilities, crf, images)
    mean = None
    if crf._coupling.kind == "contrast":
        mean = _mean_square(_squares(crf, images))
    find = _Means(crf, mean)
    axes = crf._plan["axes"]
    options = (in_blocks(images, axes), far + HALO[axes], axes, np.float64)
    share = 0.5
    if crf.calibration_.image:
        share = _by_chunks(find, *options).mean()
    return _by_chunks(find, *options, share=share).rechunk(images.chunks[:axes])


class _Unary:
    """The unary term of a block."""

    def __init__(self, crf: Any, parameters: Any) -> None:
        self.crf, self.parameters = crf, parameters

    def __call__(self, block: Any) -> FloatArray:
        samples, _, unary = self.crf._open([np.asarray(block)])
        [rows] = unary.features(samples)
        found = rows @ self.parameters.beta + self.parameters.modular
        return np.asarray(found).reshape(samples[0].shape)


class _Means:
    """The probabilities of a block: of the field, or calibrated with the mean over the image."""

    def __init__(self, crf: Any, mean: float | None) -> None:
        self.crf, self.mean = crf, mean

    def __call__(self, block: Any, share: Any = None) -> FloatArray:
        block, crf = np.asarray(block), copy.copy(self.crf)
        if self.mean is not None:
            crf._plan = {**crf._plan, "coupling": self._of_image(block)}

        def finish(p: FloatArray, unary: FloatArray, sample: Sample) -> FloatArray:
            if share is None:
                return p
            terms = crf._enlarge_terms(p, unary, sample)
            return keep_doubt(crf.calibration_.apply(*terms, float(share)))

        found: FloatArray = crf._decode([block], crf._find_means, np.float64, finish)[0]
        return found

    def _of_image(self, block: Any) -> dict[str, Any]:
        """Return the coupling with scales that give a block the factors of its image."""
        plan = dict(self.crf._plan["coupling"])
        own = _mean_square(_squares(self.crf, block))
        if own and self.mean:
            times = np.sqrt(self.mean / own)
            plan["scales"] = tuple(float(scale * times) for scale in plan["scales"])
        return plan


def _by_chunks(find: Any, image: Any, far: int, axes: int, dtype: type, **given: Any) -> Any:
    """Return what a function makes of each chunk with a margin around it, without the margin."""
    from dask.array.overlap import overlap, trim_internal

    depth = dict.fromkeys(range(image.ndim), 0)
    depth.update({axis: min(far, image.shape[axis]) for axis in range(axes)})
    image = image.rechunk({axis: -1 for axis in range(axes, image.ndim)})
    outer = overlap(image, depth, boundary="none")
    drop = list(range(axes, image.ndim))
    meta: Any = np.empty((0,) * axes, dtype=dtype)
    found = outer.map_blocks(find, drop_axis=drop, dtype=dtype, meta=meta, **given)
    return trim_internal(found, {axis: depth[axis] for axis in range(axes)}, boundary="none")


def _squares(crf: Any, image: Any) -> list[Any]:
    """Return the squared differences over the edges of each direction, in the shape of these."""
    axes, coupling, first = crf._plan["axes"], crf._coupling, crf._picture.first
    picture = image.reshape(*image.shape[:axes], -1)[..., first:] / coupling.spread
    found = []
    for cut in grid_cuts(image.shape[:axes], coupling.neighbors):
        assert cut.offset is not None
        # edges are numbered by the smaller coordinate of their two ends along each axis
        ends = [
            tuple(
                slice(max(0, sign * step), size + min(0, sign * step))
                for step, size in zip(cut.offset, image.shape, strict=False)
            )
            for sign in (1, -1)
        ]
        found.append(((picture[ends[0]] - picture[ends[1]]) ** 2).sum(axis=-1))
    return found


def _mean_square(squares: list[Any]) -> float:
    count = sum(int(own.size) for own in squares)
    total = float(sum(own.sum() for own in squares))
    return total / max(1, count)


def _stacked(decode: Any, crf: Any, images: Any) -> Any:
    import dask.array as da

    return da.stack([decode(crf, images[i]) for i in range(len(images))])


def _dimensions(crf: Any) -> int:
    return int(crf._plan["axes"] + len(crf._plan["channels"]))


def _check(crf: Any, images: Any) -> int:
    """Refuse what cannot be decoded by chunks; return how far around a pixel features look."""
    plan, count = crf._plan, _dimensions(crf)
    if plan["graphs"] or images.ndim not in (count, count + 1):
        raise ValueError(
            f"images has shape {images.shape}; a dask array is one image of {plan['axes']} axes "
            f"and channels {plan['channels']}, as in training, or a stack of such images"
        )
    if images.shape[images.ndim - len(plan["channels"]) :] != plan["channels"]:
        raise ValueError(
            f"images has shape {images.shape}; the training images have channels {plan['channels']}"
        )
    if np.isnan(images.shape).any():
        raise ValueError("images has chunks of unknown size; call its compute_chunk_sizes first")
    size = plan["working_size"]
    sides = images.shape[images.ndim - count :][: plan["axes"]]
    if size is not None and max(sides) > size:
        raise ValueError(
            f"a dask array is decoded by chunks, but images of this size are reduced to {size} "
            "pixels as a whole; fit with working_size=None, or reduce it first"
        )
    if crf.unary in ("log_odds", "probabilities"):
        return 0
    maker = crf.features if crf.unary_ is not None else crf.unary
    reach = getattr(maker, "reach", None)
    if not isinstance(reach, int | np.integer) or reach < 0:
        raise ValueError(
            "a dask array is decoded by chunks, but the features of a pixel may see the whole "
            "image (built-in ones see its place): give log-odds, with unary='log_odds', or "
            "features as a callable with an attribute `reach`, the pixels it looks at to each side"
        )
    return int(reach)
