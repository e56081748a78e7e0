r"""Two Gaussian grey levels fitted to images, by what neighbouring pixels have in common.

The grey levels of two neighbours are a mixture of four products of Gaussians: both pixels 0, both
1, or one of each. Pairs separate overlapping levels that single pixels do not, because most
neighbours are alike. The likelihood of all pairs, as if they were independent, is maximised on a
histogram of pairs.

Grey levels are often cut off at black and white. So the first and the last cell of the histogram
stand for all that lies beyond; and what is returned are the mean and the deviation of each level as
it is seen, cut off at the extremes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

from logsuper._base import ConvergenceWarning, FloatArray, beat
from logsuper.channels import Gaussian

_BINS = 128
# The narrowest level, as a share of the standard deviation of all pixels.
_NARROWEST = 1e-2
# Minimum distance of the two means of the means of pairs, in the same unit, unless nearly all
# neighbours are unlike: for Gaussian levels of neighbours with correlation r, it is
# 1.6 sqrt((1 + r) / 2).
_APART = 0.5
_ROUNDING = 1e-6
_UNTOLD = (
    "observed does not tell two grey levels: nearly all neighbours are alike; give the channel"
)


class _Pairs(NamedTuple):
    """A histogram of neighbours.

    Attributes
    ----------
    levels : ndarray of shape (2, C)
        Both grey levels of the pairs of each cell; in the cells at the ends the inner edge.
    end : ndarray of shape (2, C)
        -1 in the lowest cells, 1 in the highest, else 0.
    share : ndarray of shape (C,)
        Of all pairs.
    width : float
    """

    levels: FloatArray
    end: FloatArray
    share: FloatArray
    width: float


def fit_grey_levels(images: Sequence[NDArray[Any]]) -> Gaussian:
    """Return the channel of two grey levels, the darker for x = 0, each with its scale."""
    pairs, extremes = _histogram_of_pairs(images)
    middle = float((pairs.levels * pairs.share).sum() / 2)
    unit = float(np.sqrt(((pairs.levels - middle) ** 2 * pairs.share).sum() / 2))
    if unit <= _ROUNDING * pairs.width:
        raise ValueError(_UNTOLD)
    scaled = pairs._replace(levels=(pairs.levels - middle) / unit, width=pairs.width / unit)
    start = np.array([*_start(scaled), np.log(0.7), np.log(0.7), 0.0, -2.0, 0.0])
    bounds = [(None, None)] * 2 + [(np.log(_NARROWEST), None)] * 2 + [(-20.0, 20.0)] * 3
    limits = {"maxiter": 500, "ftol": 1e-11, "gtol": 1e-6}
    found = minimize(
        _loss, start, (scaled,), method="L-BFGS-B", jac=True, bounds=bounds, options=limits
    )
    if not found.success:
        warnings.warn(
            f"the fit of two grey levels had not settled after {found.nit} steps; give the channel "
            "if you know it",
            ConvergenceWarning,
            stacklevel=3,
        )
    # the variance within a cell is not that of the noise
    within = scaled.width**2 / 12.0
    deviation = np.sqrt(np.maximum(np.exp(2.0 * found.x[2:4]) - within, within))
    mean, deviation = _cut_off(found.x[:2], deviation, *((e - middle) / unit for e in extremes))
    order = np.argsort(mean)
    return Gaussian(middle + unit * mean[order], unit * deviation[order])


def _cut_off(
    mean: FloatArray, scale: FloatArray, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Return the means and deviations of Gaussians that are cut off at both ends."""
    a, b = (low - mean) / scale, (high - mean) / scale
    below, above, inside = ndtr(a), ndtr(-b), ndtr(b) - ndtr(a)
    first = a * below + b * above + _normal(a) - _normal(b)
    second = a**2 * below + b**2 * above + inside + a * _normal(a) - b * _normal(b)
    return mean + scale * first, scale * np.sqrt(np.maximum(second - first**2, _NARROWEST**2))


def _normal(x: FloatArray) -> FloatArray:
    """Return the density of the standard Gaussian."""
    return np.asarray(np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi))


def _loss(theta: FloatArray, pairs: _Pairs) -> tuple[float, FloatArray]:
    """Return minus the mean log-likelihood of a pair, and its gradient.

    `theta` has the two means, the logs of the two scales, and the logits of the pairs 00, 01
    (and 10, which is the same) and 11.
    """
    share, end = pairs.share, pairs.end
    mean, scale = theta[:2, None, None], np.exp(theta[2:4, None, None])
    joint = np.exp(theta[[[4, 5], [5, 6]]])
    joint /= joint.sum()
    error = (pairs.levels - mean) / scale  # of each level: both pixels of each pair, (2, 2, C)
    inner = -0.5 * error**2 - np.log(scale) + np.log(pairs.width / np.sqrt(2.0 * np.pi))
    tail = log_ndtr(-end * error)
    density = np.where(end == 0, inner, tail)
    # derivatives in the mean, times the scale, and in the log of the scale
    slope = np.where(end == 0, error, end * np.exp(-0.5 * error**2 - tail) / np.sqrt(2.0 * np.pi))
    stretch = slope * error - (end == 0)
    top = density.max(axis=0)
    relative = np.exp(density - top)
    belief = joint[:, :, None] * relative[:, None, 0] * relative[None, :, 1]  # (2, 2, C)
    total = belief.sum(axis=(0, 1))
    belief *= share / total  # the probability that the pair is of this kind
    weights = np.stack([belief.sum(axis=1), belief.sum(axis=0)], axis=1)
    kinds = belief.sum(axis=2) - joint
    gradient = np.concatenate(
        [
            (weights * slope / scale).sum(axis=(1, 2)),
            (weights * stretch).sum(axis=(1, 2)),
            [kinds[0, 0], kinds[0, 1] + kinds[1, 0], kinds[1, 1]],
        ]
    )
    return -float(share @ (np.log(total) + top.sum(axis=0))), -gradient


def _histogram_of_pairs(images: Sequence[NDArray[Any]]) -> tuple[_Pairs, tuple[float, float]]:
    """Return the histogram, and the extreme grey levels."""
    low, high = _range(images)
    width = (high - low) / _BINS
    table = np.zeros(_BINS * _BINS)
    for image in images:
        missing = np.isnan(image)
        bins = np.where(missing, 0.0, np.clip((image - low) / width, 0, _BINS - 1)).astype(np.int64)
        for axis in range(image.ndim):
            beat()
            lead = [slice(None)] * axis
            seen = ~(missing[*lead, 1:] | missing[*lead, :-1])
            cells = bins[*lead, :-1][seen] * _BINS + bins[*lead, 1:][seen]
            table += np.bincount(cells, minlength=len(table))
    filled = np.flatnonzero(table)
    if not len(filled):
        raise ValueError("observed has no two neighbours that are both observed")
    cells = np.stack(np.divmod(filled, _BINS))
    end = (cells == _BINS - 1) * 1.0 - (cells == 0)
    levels = low + (cells + 0.5 * (1.0 - end)) * width
    ends = [(np.nanmin(z), np.nanmax(z)) for z in images if not np.isnan(z).all()]
    extremes = float(min(low for low, _ in ends)), float(max(high for _, high in ends))
    return _Pairs(levels, end, table[filled] / table.sum(), width), extremes


def _range(images: Sequence[NDArray[Any]]) -> tuple[float, float]:
    """Return the range of the grey levels, without a thousandth at either end of each image."""
    ends = []
    for i, image in enumerate(images):
        beat()
        seen = image[~np.isnan(image)]
        if np.isinf(seen).any():
            raise ValueError(f"observed[{i}] has an infinite entry; NaN means missing")
        if seen.size:
            ends.append(np.quantile(seen, [0.001, 0.999]))
    low, high = (np.min(ends), np.max(ends)) if ends else (0.0, 0.0)
    if not low < high:
        raise ValueError("observed has fewer than two grey levels; kind='gaussian' needs noise")
    return float(low), float(high)


def _start(pairs: _Pairs) -> FloatArray:
    """Return two grey levels: two means of the means of pairs, which overlap less than pixels."""
    middle, share = pairs.levels.mean(axis=0), pairs.share
    center: FloatArray = np.array([-1.0, 1.0]) * np.sqrt(share @ middle**2)
    for _ in range(20):
        upper = np.abs(middle - center[1]) < np.abs(middle - center[0])
        if upper.all() or not upper.any():
            break
        center = np.array([np.average(middle[s], weights=share[s]) for s in (~upper, upper)])
    # where all pairs have one mean, as on a checkerboard, single pixels differ: their quartiles
    return center if np.ptp(center) > _APART else _quartiles(pairs)


def _quartiles(pairs: _Pairs) -> FloatArray:
    """Return the lower and the upper quartile of the grey levels."""
    order = np.argsort(pairs.levels, axis=None)
    below = np.cumsum(np.tile(pairs.share, 2)[order]) / 2.0
    found: FloatArray = pairs.levels.ravel()[order[np.searchsorted(below, [0.25, 0.75])]]
    if np.ptp(found) <= _ROUNDING:
        raise ValueError(_UNTOLD)
    return found
