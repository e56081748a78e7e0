"""Removal of uneven light before masks are estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from logsuper._base import FloatArray, check_number
from logsuper.estimators._images import Image, read_images

# The standard deviation of the blur is the shorter side of an image over this number.
_PART = 8.0


def flatten_light(noisy: Any, width: float | None = None) -> Any:
    r"""Remove uneven light from grey images: subtract a wide blur.

    .. math:: z-\frac{G*z}{G*1},

    with a Gaussian G; pixels that were not observed are left out of both sums. Objects should be
    smaller than the width of the blur: the middle of larger ones is mistaken for light.

    Parameters
    ----------
    noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        Grey levels; NaN, or masked, where nothing was observed.
    width : float, optional
        Standard deviation of G, in pixels, at least 1; by default an eighth of the shorter side of
        each image. It is at most the longer side, where the blur is nearly the mean of the image.

    Returns
    -------
    ndarray of the shape of `noisy`, or list, float64
        NaN where nothing was observed.

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> light = np.tile(np.arange(80.0), (80, 1))
    >>> flat = ls.flatten_light(light[None])[0]
    >>> bool(np.abs(flat[:, 30:50]).max() < 0.1)
    True
    """
    if width is not None and check_number(width, "width") < 1:
        raise ValueError(f"width must be at least 1 pixel, got {width:g}")
    images = read_images(noisy, "noisy")
    found = images.room(np.float64)
    for i, image in enumerate(images):
        found[i] = _flatten(image, width or max(min(image.shape) / _PART, 1.0))
    return found


def _flatten(image: Image, width: float) -> FloatArray:
    z: FloatArray = image.astype(np.float64)
    seen = ~np.isnan(z)
    if not seen.any():
        return z
    z -= z[seen].mean()  # the blur of large numbers would lose digits
    width = min(width, float(max(z.shape)))
    weight = gaussian_filter(seen.astype(np.float64), width)
    blur = gaussian_filter(np.where(seen, z, 0.0), width)
    return np.where(seen, z - blur / np.maximum(weight, np.finfo(np.float64).tiny), np.nan)
