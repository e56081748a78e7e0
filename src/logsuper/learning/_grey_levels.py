r"""Two Gaussian grey levels fitted to images, by what neighbouring pixels have in common.

The grey levels of two neighbours are a mixture of four products of Gaussians: both pixels 0, both
1, or one of each. Pairs tell overlapping levels apart that single pixels do not, because most
neighbours are alike. The likelihood of all pairs, as if they were independent, is maximised by
EM on a histogram of pairs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from logsuper._warnings import ConvergenceWarning
from logsuper.channels import Gaussian
from logsuper.functions._checks import FloatArray

__all__ = ["fit_grey_levels"]

_BINS = 128
_STEPS = 2000
_CLOSE = 2e-6
# The narrowest level, as a share of the range of all.
_NARROWEST = 1e-3


def fit_grey_levels(images: list[NDArray[Any]]) -> Gaussian:
    """Return the channel of two grey levels, the darker for x = 0, each with its scale."""
    levels, counts, width = _histogram_of_pairs(images)
    mean, scale = _start(levels, counts)
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    for _ in range(_STEPS):
        old = np.concatenate([mean, scale])
        # log of the four terms of each cell, (2, 2, C)
        density = (
            -0.5 * ((levels[None] - mean[:, None, None]) / scale[:, None, None]) ** 2
            - np.log(scale)[:, None, None]
        )
        terms = np.log(joint)[:, :, None] + density[:, None, 0] + density[None, :, 1]
        share = counts * np.exp(terms - logsumexp(terms, axis=(0, 1)))
        joint = np.maximum(share.sum(axis=2) / counts.sum(), 1e-12)
        joint = (joint + joint.T) / (2.0 * joint.sum())
        # of each level: the weight of either pixel of each pair, (2, 2, C)
        weights = np.stack([share.sum(axis=1), share.sum(axis=0)], axis=1)
        size = np.maximum(weights.sum(axis=(1, 2)), 1e-12)
        mean = (weights * levels).sum(axis=(1, 2)) / size
        apart = levels[None] - mean[:, None, None]
        variance = (weights * apart**2).sum(axis=(1, 2)) / size - width**2 / 12.0  # of the bins
        scale = np.sqrt(np.maximum(variance, (_NARROWEST * np.ptp(levels)) ** 2))
        if np.abs(np.concatenate([mean, scale]) - old).max() <= _CLOSE * np.ptp(levels):
            break
    else:
        warnings.warn(
            f"the grey levels {mean[0]:g} and {mean[1]:g} had not settled after {_STEPS} steps; "
            "they overlap too much, give the channel if you know it",
            ConvergenceWarning,
            stacklevel=3,
        )
    order = np.argsort(mean)
    return Gaussian(mean[order], scale[order])


def _histogram_of_pairs(images: list[NDArray[Any]]) -> tuple[FloatArray, FloatArray, float]:
    """Return levels (2, C) and counts (C,) of the cells with pairs in them, and their width."""
    low, high = _range(images)
    width = (high - low) / _BINS
    table = np.zeros(_BINS * _BINS)
    for image in images:
        missing = np.isnan(image)
        bins = np.where(missing, 0.0, np.clip((image - low) / width, 0, _BINS - 1)).astype(np.int64)
        for axis in range(image.ndim):
            lead = [slice(None)] * axis
            seen = ~(missing[*lead, 1:] | missing[*lead, :-1])
            cells = bins[*lead, :-1][seen] * _BINS + bins[*lead, 1:][seen]
            table += np.bincount(cells, minlength=len(table))
    filled = np.flatnonzero(table)
    if not len(filled):
        raise ValueError("observed has no two neighbours that are both observed")
    levels = low + (np.stack(np.divmod(filled, _BINS)) + 0.5) * width
    return levels, table[filled], width


def _range(images: list[NDArray[Any]]) -> tuple[float, float]:
    """Return the range of the grey levels, without a thousandth at either end of each image."""
    ends = []
    for i, image in enumerate(images):
        seen = image[~np.isnan(image)]
        if np.isinf(seen).any():
            raise ValueError(f"observed[{i}] has an infinite entry; NaN means missing")
        if seen.size:
            ends.append(np.quantile(seen, [0.001, 0.999]))
    low, high = (np.min(ends), np.max(ends)) if ends else (0.0, 0.0)
    if not low < high:
        raise ValueError("observed has fewer than two grey levels; kind='gaussian' needs noise")
    return float(low), float(high)


def _start(levels: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two means and scales: two-means of the means of pairs, which overlap less."""
    middle = levels.mean(axis=0)
    center = np.average(middle, weights=counts) + np.array([-1.0, 1.0]) * np.sqrt(
        np.cov(middle, fweights=counts.astype(np.int64), ddof=0)
    )
    for _ in range(50):
        upper = np.abs(middle - center[1]) < np.abs(middle - center[0])
        center = np.array([np.average(middle[s], weights=counts[s]) for s in (~upper, upper)])
    spread = np.array(
        [np.average((levels[:, s] - c) ** 2, weights=np.stack([counts[s]] * 2)) for s, c in
         zip((~upper, upper), center, strict=True)]
    )  # fmt: skip
    return center, np.sqrt(np.maximum(spread, (_NARROWEST * np.ptp(levels)) ** 2))
