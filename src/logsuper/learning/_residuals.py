r"""Whether the noise of a pixel tells of that of its neighbour.

Given the clean image, observations are taken to be independent. Well inside regions of one value,
where little is in doubt, neighbouring observations then are uncorrelated, whatever the channel.
Blobs and stripes of noise, compression, texture and uneven light all correlate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter, minimum_filter

from logsuper._base import FloatArray

__all__ = ["neighbour_correlation"]


def neighbour_correlation(
    observed: Sequence[NDArray[Any]], cleaned: Sequence[NDArray[Any]]
) -> tuple[float, float]:
    """Return the correlation of neighbouring observations inside of regions, and its error.

    Parameters
    ----------
    observed : sequence of arrays
        NaN where nothing was observed.
    cleaned : sequence of arrays of 0 and 1
        Clean images, or good guesses at them.

    Returns
    -------
    correlation, stderr : float
        The standard error is that under independence, infinite if there is no pair.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning._residuals import neighbour_correlation
    >>> rng = np.random.default_rng(0)
    >>> clean = np.zeros((200, 200))
    >>> correlation, stderr = neighbour_correlation([rng.random((200, 200)) < 0.1], [clean])
    >>> bool(abs(correlation) < 4 * stderr)
    True
    """
    inner = [maximum_filter(x, 3) == minimum_filter(x, 3) for x in cleaned]
    residuals = _residuals(observed, cleaned, inner)
    product, square, pairs = 0.0, 0.0, 0
    for r in residuals:
        for axis in range(r.ndim):
            one, other = (np.moveaxis(r, axis, 0)[part] for part in (slice(1, None), slice(-1)))
            both = ~(np.isnan(one) | np.isnan(other))
            product += float((one * other)[both].sum())
            square += float((one[both] ** 2).sum() + (other[both] ** 2).sum()) / 2.0
            pairs += int(both.sum())
    if not pairs or square <= 0.0:
        return 0.0, np.inf
    return product / square, 1.0 / np.sqrt(pairs)


def _residuals(
    observed: Sequence[NDArray[Any]],
    cleaned: Sequence[NDArray[Any]],
    inner: list[NDArray[np.bool_]],
) -> list[FloatArray]:
    """Return observations less the mean of their kind over its deviation, NaN at borders."""
    found = [np.full(z.shape, np.nan) for z in observed]
    for value in (0, 1):
        places = [inside & (x == value) for inside, x in zip(inner, cleaned, strict=True)]
        parts = [z[place].astype(np.float64) for z, place in zip(observed, places, strict=True)]
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        deviation = float(values.std()) if values.size else 0.0
        for r, place, part in zip(found, places, parts, strict=True):
            if deviation > 0.0:
                r[place] = (part - values.mean()) / deviation
    return found
