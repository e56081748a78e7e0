r"""Log-odds of a reduced image, refined by the picture at its own size.

What the field says at the working size is blurred when it is brought back: outlines lie a pixel of
the working size off, and colours that only the large picture tells apart are not used. The log-odds
:math:`z` are therefore denoised by a total variation that costs little where the picture changes,

.. math:: x=\operatorname{argmin}_x\tfrac12\|x-z\|^2+\lambda\sum_{ij}w_{ij}|x_i-x_j|,

whose sign is the exact cut for the field z and the couplings :math:`\lambda w`. The strength is
chosen by the log loss on training images; probabilities are calibrated again, from x and z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper._base import FloatArray, beat
from logsuper.estimators._calibration import Calibration, bounded_logit, mix
from logsuper.estimators._field_samples import Sample
from logsuper.estimators._working_size import enlarge, reduce, reduced_shape
from logsuper.functions import grid_cuts
from logsuper.learning import contrast_weights, total_variation
from logsuper.solvers import prepare

__all__ = ["Picture", "Refinement", "choose_refinement"]

# Strengths that are tried, on this many training images at most. They grow with the side of the
# image, as areas grow faster than outlines.
_STRENGTHS, _TRIED = (4.0, 16.0), 30
# Scale of the contrast, as in `contrast_weights`.
_SCALE = 0.5
# How many times as large as the working size the refined image is at most.
_FINER = 4


class Picture(NamedTuple):
    """What contrast is judged by.

    Attributes
    ----------
    first : int
        Number of the first channel of the picture.
    spread : ndarray of shape (C,)
        Standard deviations of its channels.
    size : int
        The working size.
    """

    first: int
    spread: FloatArray
    size: int

    def refine(self, odds: FloatArray, sample: Sample, strength: float) -> FloatArray:
        """Return refined log-odds of a sample, at its own size."""
        beat()
        if not strength:
            return odds
        shape = reduced_shape(sample.shape, _FINER * self.size)
        values = sample.array.reshape(*sample.shape, -1)[..., self.first :]
        if shape != sample.shape:
            values, odds = reduce(values, shape), reduce(odds, shape)
        grid = prepare(grid_cuts(shape))
        rows = values.reshape(odds.size, -1) / self.spread
        weights = contrast_weights(rows, grid.edges, (_SCALE,))[0]
        weights *= strength * max(shape) / self.size
        found = total_variation(odds, weights, shape=shape).values
        return found if shape == sample.shape else enlarge(found, sample.shape)


class Refinement(NamedTuple):
    """A strength, 0 for none, and the calibration of what it makes of log-odds."""

    strength: float = 0.0
    calibration: Calibration = Calibration()

    def apply(self, p: FloatArray, sample: Sample, picture: Picture) -> FloatArray:
        """Return refined probabilities of a sample, from those at its own size."""
        if not self.strength:
            return p
        odds = bounded_logit(p)
        return self.calibration.apply(expit(picture.refine(odds, sample, self.strength)), odds)


def choose_refinement(
    find: Callable[[int], FloatArray],
    samples: Sequence[Sample],
    labels: Sequence[NDArray[Any]],
    places: Sequence[NDArray[np.int64]],
    picture: Picture,
) -> Refinement:
    """Return the refinement with the least log loss on training images.

    Parameters
    ----------
    find : callable
        Returns the calibrated probabilities of image k, at its own size.
    samples, labels : sequences
        The images and their masks.
    places : sequence of ndarray
        The labelled pixels of each image that count.
    picture : Picture
    """

    def look(k: int, strength: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        odds = bounded_logit(find(k))
        refined = expit(picture.refine(odds, samples[k], strength))
        rows = (refined, odds, labels[k].astype(np.float64))
        x, z, y = (row.ravel()[places[k]] for row in rows)
        return x, z, y

    count = len(samples)
    some = np.unique(np.linspace(0, count - 1, min(count, _TRIED)).round().astype(int)).tolist()
    best, kept = 0.0, {k: look(k, 0.0) for k in some}
    least = _log_loss(Calibration(), kept.values())
    for strength in _STRENGTHS:
        rows = {k: look(k, strength) for k in some}
        loss = _log_loss(mix(*zip(*rows.values(), strict=True)), rows.values())
        if loss < least:
            best, least, kept = strength, loss, rows
    if not best:
        return Refinement()
    every = [kept[k] if k in kept else look(k, best) for k in range(count)]
    return Refinement(best, mix(*zip(*every, strict=True)))


def _log_loss(calibration: Calibration, rows: Iterable[tuple[FloatArray, ...]]) -> float:
    """Return the log loss on all pixels, in nats per pixel."""
    total, pixels = 0.0, 0
    for x, z, y in rows:
        p = np.clip(calibration.apply(x, z), 1e-9, 1.0 - 1e-9)
        total -= float(np.log(np.where(y == 1, p, 1.0 - p)).sum())
        pixels += len(y)
    return total / max(1, pixels)
