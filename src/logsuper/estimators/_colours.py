"""Colours of pixels: their scale, few codes that stand for all of them, mixtures over the codes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from logsuper._base import FloatArray, IntArray

__all__ = ["Codes", "as_colours", "log_ratio", "make_codes"]

# sRGB primaries in XYZ (IEC 61966-2-1), rows X, Y, Z.
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
# Width of a code along each channel, and the most codes; channels have values of about 0 to 1.
_STEP, _MOST_CODES = 0.04, 20_000
# Components of a mixture, the standard deviation added to each, and rounds of EM.
_COMPONENTS, _BLUR, _ROUNDS = 5, 0.03, 15


def as_colours(image: NDArray[Any], axes: int) -> FloatArray:
    """Return the channels of each pixel on a common scale, shape (..., C).

    Three channels of type uint8 or uint16, or of other integers in [0, 255], or of floats in
    [0, 1], are sRGB and become CIE L*a*b* (white point of the image's own primaries), divided by
    100. Any other channels are scaled linearly such that their 1st and 99th percentiles are 0 and
    1.
    """
    if image.ndim > axes and image.shape[-1] == 3:
        low, high = image.min(), image.max()
        if image.dtype == np.uint16 or (image.dtype.kind in "iu" and low >= 0 and high <= 255):
            most = 65535 if image.dtype == np.uint16 else 255
            return _as_lab(_linear(np.arange(most + 1) / most)[image])
        if image.dtype.kind == "f" and low >= 0.0 and high <= 1.0:
            return _as_lab(_linear(image.astype(np.float64)))
    values = np.asarray(image, dtype=np.float64)
    if values.ndim == axes:
        values = values[..., None]
    flat = values.reshape(-1, values.shape[-1])
    # a part is enough for percentiles of many pixels
    low, high = np.percentile(flat[:: max(1, len(flat) // 100_000)], [1.0, 99.0], axis=0)
    spread = high - low
    spread = np.where(spread > 0, spread, np.ptp(flat, axis=0))
    return np.asarray((values - low) / np.where(spread > 0, spread, 1.0))


def _linear(srgb: FloatArray) -> FloatArray:
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _as_lab(linear: FloatArray) -> FloatArray:
    xyz = linear @ (_TO_XYZ / _TO_XYZ.sum(axis=1, keepdims=True)).T
    bend = 6.0 / 29.0
    f = np.where(xyz > bend**3, np.cbrt(xyz), xyz / (3.0 * bend**2) + 4.0 / 29.0)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([1.16 * y - 0.16, 5.0 * (x - y), 2.0 * (y - z)], axis=-1)


@dataclasses.dataclass(frozen=True, eq=False)
class Codes:
    """Colours rounded to a few codes, so that a colour model is evaluated once per code.

    Attributes
    ----------
    means : ndarray of shape (M, C)
        The mean colour of the pixels of each code.
    numbers : ndarray of shape (n,)
        The code of each pixel.
    """

    means: FloatArray
    numbers: IntArray


def make_codes(colours: FloatArray, width: float) -> Codes:
    """Return the codes of smoothed colours; `width` (pixels) is that of the Gaussian filter."""
    smooth = gaussian_filter(colours, (*(width,) * (colours.ndim - 1), 0.0))
    flat = smooth.reshape(-1, smooth.shape[-1])
    step = _STEP
    while True:
        cells = np.round((flat - flat.min(axis=0)) / step).astype(np.int64)
        sizes = cells.max(axis=0) + 1
        if math.prod(sizes.tolist()) < 2**62:
            keys = np.ravel_multi_index(tuple(cells.T), tuple(sizes.tolist()))
            numbers, counts = _number(keys, math.prod(sizes.tolist()))
            if len(counts) <= _MOST_CODES:
                break
        step *= 1.5
    sums = [np.bincount(numbers, channel) for channel in flat.T]
    return Codes(np.stack(sums, axis=1) / counts[:, None], numbers)


def _number(keys: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return the rank of each key among the distinct ones, and how often each of these occurs."""
    if most > 4 * keys.size:
        _, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return numbers.ravel(), counts
    each = np.bincount(keys, minlength=most)  # as keys are small, without sorting
    there = each > 0
    return (np.cumsum(there) - 1)[keys], each[there]


def log_ratio(codes: Codes, scribbles: NDArray[np.uint8]) -> FloatArray:
    """Return the log density of the object's colours less that of the background's, per pixel."""
    logs = []
    for label in (1, 2):
        counts = np.bincount(codes.numbers[scribbles == label], minlength=len(codes.means))
        seen = counts > 0
        logs.append(
            _Mixture(codes.means[seen], counts[seen].astype(float)).log_density(codes.means)
        )
    found: FloatArray = (logs[0] - logs[1])[codes.numbers]
    return found


class _Mixture:
    """A mixture of Gaussians with full covariances, fitted to weighted points by EM.

    Components start at points far from each other, so that nothing is random.
    """

    def __init__(self, points: FloatArray, weights: FloatArray) -> None:
        channels = points.shape[1]
        centres = [points[int(weights.argmax())]]
        nearest = ((points - centres[0]) ** 2).sum(axis=1)
        while len(centres) < min(_COMPONENTS, len(points)):
            centres.append(points[int((weights * nearest).argmax())])
            nearest = np.minimum(nearest, ((points - centres[-1]) ** 2).sum(axis=1))
        floor = _BLUR**2 * np.eye(channels)
        spread = np.cov(points.T, aweights=weights, ddof=0).reshape(channels, channels)
        self._means = np.array(centres)
        self._covariances = np.repeat((spread / len(centres) + floor)[None], len(centres), axis=0)
        self._shares = np.full(len(centres), 1.0 / len(centres))
        for _ in range(_ROUNDS):
            logs = self._logs(points)
            parts = np.exp(logs - _log_sum(logs)) * weights
            sizes = parts.sum(axis=1) + 1e-9
            self._shares = sizes / sizes.sum()
            self._means = parts @ points / sizes[:, None]
            apart = points[None] - self._means[:, None]
            products = np.swapaxes(apart * parts[..., None], 1, 2) @ apart
            self._covariances = products / sizes[:, None, None] + floor

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density at some points."""
        return _log_sum(self._logs(points))

    def _logs(self, points: FloatArray) -> FloatArray:
        """Return the log density of each component, with its share, (K, n)."""
        lower = np.linalg.cholesky(self._covariances)
        apart = np.swapaxes(points[None] - self._means[:, None], 1, 2)
        squares = (np.linalg.solve(lower, apart) ** 2).sum(axis=1)
        heights = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        constant = 0.5 * points.shape[1] * math.log(2.0 * math.pi)
        return np.asarray(
            np.log(self._shares)[:, None] - 0.5 * squares - heights[:, None] - constant
        )


def _log_sum(logs: FloatArray) -> FloatArray:
    """Return the log of the sum of exponentials over the first axis, of finite numbers."""
    most = logs.max(axis=0)
    return np.asarray(most + np.log(np.exp(logs - most).sum(axis=0)))
