"""How good probabilities of pixels are, and whether a number is what was wanted beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.experiments._setting import NOISES

BINS = 20
"""Number of bins of equal width on [0, 1]."""

# Probabilities are at least this far from 0 and 1, as those of `MaskDenoiser` are.
_CERTAIN = 1e-4


def count_bins(probabilities: FloatArray, truth: NDArray[Any]) -> FloatArray:
    """Return count, sum of probabilities and number of ones of each bin, of shape (3, bins)."""
    p = np.clip(probabilities.ravel(), 0.0, 1.0)
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return np.stack([np.bincount(place, weight, BINS) for weight in (None, p, truth.ravel())])


def calibration_error(count: FloatArray, predicted: FloatArray, observed: FloatArray) -> FloatArray:
    """Return the expected calibration error in percent, given sums over the pixels of each bin.

    The mean distance between a bin's mean probability and its fraction of ones, weighted by
    pixels.
    """
    off = np.abs(predicted - observed).sum(axis=-1)
    return np.asarray(100.0 * off / count.sum(axis=-1))


def judge(probabilities: FloatArray, truth: NDArray[Any]) -> tuple[float, float]:
    """Return the log loss in nats per pixel, and the calibration error in percent."""
    p = np.clip(probabilities, _CERTAIN, 1.0 - _CERTAIN)
    loss = -float(np.mean(np.log(np.where(truth == 1, p, 1.0 - p))))
    return loss, float(calibration_error(*count_bins(p, truth)))


def verdict(
    numbers: FloatArray, limits: Sequence[float | None], noises: Sequence[float]
) -> list[str]:
    """Return cells with mean, standard error over seeds, and whether the mean is within its limit.

    Parameters
    ----------
    numbers : ndarray of shape (noises, seeds)
    limits : sequence of float or None
        The largest mean that was wanted at each of `NOISES`, where one was.
    noises : sequence of float

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.experiments._quality import verdict
    >>> verdict(np.array([[1.0, 2.0], [5.0, 5.0]]), (None, None, 1.5, 4.0), (0.1, 0.2))
    ['1.500 ± 0.500, at most 1.5: met', '5.000 ± 0.000, at most 4: NOT met']
    """
    cells = []
    for row, noise in zip(numbers, noises, strict=True):
        limit, mean = limits[NOISES.index(noise)], float(row.mean())
        text = f"{mean:.3f}"
        if len(row) > 1:
            text += f" ± {row.std(ddof=1) / np.sqrt(len(row)):.3f}"
        if limit is not None:
            text += f", at most {limit:g}: {'met' if mean <= limit else 'NOT met'}"
        cells.append(text)
    return cells
