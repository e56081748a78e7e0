r"""Two Gaussian grey levels fitted to images, by what neighbouring pixels have in common.

The grey levels of two neighbours are a mixture of four products of Gaussians: both pixels 0, both
1, or one of each. Pairs tell overlapping levels apart that single pixels do not, because most
neighbours are alike. The likelihood of all pairs, as if they were independent, is maximised on a
histogram of pairs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from logsuper._warnings import ConvergenceWarning
from logsuper.channels import Gaussian
from logsuper.functions._checks import FloatArray

__all__ = ["fit_grey_levels"]

_BINS = 128
# The narrowest level, as a share of the standard deviation of all pixels.
_NARROWEST = 1e-2


def fit_grey_levels(images: list[NDArray[Any]]) -> Gaussian:
    """Return the channel of two grey levels, the darker for x = 0, each with its scale."""
    levels, counts, width = _histogram_of_pairs(images)
    share = counts / counts.sum()
    middle = float((levels * share).sum() / 2)
    unit = float(np.sqrt(((levels - middle) ** 2 * share).sum() / 2))
    levels = (levels - middle) / unit
    start = np.array([*_start(levels, share), np.log(0.7), np.log(0.7), 0.0, -2.0, 0.0])
    free = (None, None)
    found = minimize(
        _loss,
        start,
        args=(levels, share),
        jac=True,
        method="L-BFGS-B",
        bounds=[free] * 2 + [(np.log(_NARROWEST), None)] * 2 + [(-20.0, 20.0)] * 3,
        options={"maxiter": 500, "ftol": 1e-11, "gtol": 1e-6},
    )
    if not found.success:
        warnings.warn(
            f"the fit of two grey levels had not settled after {found.nit} steps; give the channel "
            "if you know it",
            ConvergenceWarning,
            stacklevel=3,
        )
    mean = middle + unit * found.x[:2]
    # the variance within a bin is not that of the noise
    scale = np.sqrt(np.maximum((unit * np.exp(found.x[2:4])) ** 2 - width**2 / 12.0, width**2 / 12))
    order = np.argsort(mean)
    return Gaussian(mean[order], scale[order])


def _loss(theta: FloatArray, levels: FloatArray, share: FloatArray) -> tuple[float, FloatArray]:
    """Return minus the mean log-likelihood of a pair, and its gradient.

    `theta` has the two means, the logs of the two scales, and the logits of the pairs 00, 01
    (and 10, which is the same) and 11.
    """
    mean, scale = theta[:2, None, None], np.exp(theta[2:4, None, None])
    joint = np.exp(theta[[[4, 5], [5, 6]]])
    joint /= joint.sum()
    error = (levels - mean) / scale  # of each level: both pixels of each pair, (2, 2, C)
    density = -0.5 * error**2 - np.log(scale)
    top = density.max(axis=0)
    relative = np.exp(density - top)
    belief = joint[:, :, None] * relative[:, None, 0] * relative[None, :, 1]  # (2, 2, C)
    total = belief.sum(axis=(0, 1))
    belief *= share / total  # that the pair is of this kind
    weights = np.stack([belief.sum(axis=1), belief.sum(axis=0)], axis=1)
    kinds = belief.sum(axis=2) - joint
    gradient = np.concatenate(
        [
            (weights * error / scale).sum(axis=(1, 2)),
            (weights * (error**2 - 1.0)).sum(axis=(1, 2)),
            [kinds[0, 0], kinds[0, 1] + kinds[1, 0], kinds[1, 1]],
        ]
    )
    return -float(share @ (np.log(total) + top.sum(axis=0))), -gradient


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


def _start(levels: FloatArray, share: FloatArray) -> FloatArray:
    """Return two grey levels: two means of the means of pairs, which overlap less than pixels."""
    middle = levels.mean(axis=0)
    center: FloatArray = np.array([-1.0, 1.0]) * np.sqrt(share @ middle**2)
    for _ in range(20):
        upper = np.abs(middle - center[1]) < np.abs(middle - center[0])
        center = np.array([np.average(middle[s], weights=share[s]) for s in (~upper, upper)])
    return center
