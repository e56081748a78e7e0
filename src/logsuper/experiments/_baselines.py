"""Baselines for denoising masks without a learned model, tuned on the training images only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter
from sklearn.ensemble import HistGradientBoostingClassifier

from logsuper._base import FloatArray
from logsuper.functions import grid_cuts
from logsuper.solvers import prepare

Bits = NDArray[np.uint8]

# not ratios of small integers, for which cuts would tie
ALPHAS = tuple(np.geomspace(0.1313, 1.3131, 40).tolist())
"""Candidate weights of the cut, for observations of weight one."""

WEIGHTS = tuple(np.geomspace(0.15, 0.75, 14).round(3).tolist())
"""Candidate weights of the total variation."""

# Radius of a patch in pixels.
_RADIUS = 4
# Iterations of the dual method for total variation.
_ITERATIONS = 100


def median(images: FloatArray) -> Bits:
    """Return the median of 3 x 3 pixels, which has no parameter to tune."""
    return np.asarray(median_filter(images, size=(1, 3, 3)), dtype=np.uint8)


def cut(train: FloatArray, clean: Bits, test: FloatArray) -> Bits:
    r"""Decode by one cut, :math:`\max_y(2z-1)^\top y-\alpha(f_h(y)+f_v(y))`, with the best alpha.

    This equals anisotropic total variation (separate horizontal and vertical differences),
    thresholded at one half.
    """
    prepared = prepare(grid_cuts(train.shape[1:]))

    def decode(images: FloatArray, alpha: float) -> Bits:
        fields = 2.0 * images.reshape(len(images), -1) - 1.0
        found = prepared.maximize(fields, np.array([alpha, alpha]), n_jobs=1)[0]
        return found.reshape(images.shape)

    return decode(test, tune(decode, ALPHAS, train, clean))


def total_variation(train: FloatArray, clean: Bits, test: FloatArray) -> Bits:
    """Smooth by total variation with the best weight, and threshold at one half."""

    def decode(images: FloatArray, weight: float) -> Bits:
        return (smooth(images, weight) > 0.5).astype(np.uint8)

    return decode(test, tune(decode, WEIGHTS, train, clean))


def boosting(
    train: FloatArray, clean: Bits, test: FloatArray, *, pixels: int, seed: int
) -> FloatArray:
    """Return the log-odds of boosted trees, fitted to a random subset of the training pixels.

    Their features are the noisy 9 x 9 pixels around a pixel, and its position.
    """
    features = _patches(train)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(features))[:pixels]
    trees = HistGradientBoostingClassifier(
        max_iter=200, max_leaf_nodes=31, early_stopping=False, random_state=seed
    )
    trees.fit(features[chosen], clean.ravel()[chosen])
    return np.asarray(trees.decision_function(_patches(test))).reshape(test.shape)


def tune(
    decode: Callable[[FloatArray, float], Bits],
    values: tuple[float, ...],
    noisy: FloatArray,
    clean: Bits,
) -> float:
    """Return the value with the fewest wrong pixels; of several, the smallest."""
    wrong = [int(np.count_nonzero(decode(noisy, value) != clean)) for value in values]
    return values[int(np.argmin(wrong))]


def smooth(images: FloatArray, weight: float, iterations: int = _ITERATIONS) -> FloatArray:
    r"""Return :math:`\operatorname{argmin}_w\frac12\|w-z\|^2+\lambda\sum_d|(\nabla w)_d|_2`.

    The model of L. Rudin, S. Osher and E. Fatemi (1992), for each of the images (N, H, W), by
    accelerated projected gradients on the dual, :math:`w=z-\lambda\nabla^\top p` with
    :math:`|p_d|\le1` (A. Beck and M. Teboulle, "Fast gradient-based algorithms for constrained
    total variation image denoising and deblurring problems", 2009).
    """
    z = images.astype(np.float32)  # enough for a threshold, and faster
    p = np.zeros((2, *z.shape), dtype=np.float32)
    q, speed = p.copy(), 1.0
    for _ in range(iterations):
        # the norm of the gradient operator is at most sqrt(8)
        step = q + _gradient(z - weight * _adjoint(q)) / np.float32(8.0 * weight)
        new = step / np.maximum(1.0, np.sqrt((step**2).sum(axis=0)))
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * speed**2))
        q = new + np.float32((speed - 1.0) / faster) * (new - p)
        p, speed = new, faster
    return np.asarray(z - weight * _adjoint(p), dtype=np.float64)


# ------------------------------------------------------------------------------------------ inside


def _gradient(w: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return differences to the pixel below and to the right, 0 at the border."""
    found = np.zeros((2, *w.shape), dtype=w.dtype)
    found[0, :, :-1] = w[:, 1:] - w[:, :-1]
    found[1, :, :, :-1] = w[:, :, 1:] - w[:, :, :-1]
    return found


def _adjoint(p: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the adjoint of the gradient, the negative divergence."""
    found = np.zeros(p.shape[1:], dtype=p.dtype)
    found[:, 1:] += p[0, :, :-1]
    found[:, :-1] -= p[0, :, :-1]
    found[:, :, 1:] += p[1, :, :, :-1]
    found[:, :, :-1] -= p[1, :, :, :-1]
    return found


def _patches(images: FloatArray) -> NDArray[np.float32]:
    """Return the pixels around each pixel, NaN outside the image, and its row and column."""
    width = 2 * _RADIUS + 1
    around = ((0, 0), (_RADIUS, _RADIUS), (_RADIUS, _RADIUS))
    padded = np.pad(images.astype(np.float32), around, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (width, width), axis=(1, 2))
    places = np.indices(images.shape)[1:].reshape(2, -1).T
    return np.hstack([windows.reshape(images.size, -1), places.astype(np.float32)])
