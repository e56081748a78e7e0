r"""Tests of the residual noise inside regions: is it independent, with two grey levels.

Well inside a region of one label, where little is in doubt, an observation less the mean of its
label, over the deviation of that, is a residual r with mean 0 and variance 1. Given the clean
image, observations are taken to be independent: the correlation of residuals at a distance,

.. math:: \rho(d)=\sum_ir_ir_{i+d}\Big/\sum_ir_i^2,

is then 0 up to chance. If it is not, its range shows the cause. The correlation of neighbours is
split into three parts, :math:`\rho(1)=\text{light}+\text{far}+\text{near}`:

- light: the share of the variance that a smooth surface explains (`_light`);
- far: :math:`\rho(4)` of what is then left, along the axis where it is least. Patches of one label
  are brighter than others: more than two grey levels, objects, coarse texture;
- near: the rest. Blobs and stripes of noise, compression, blur, fine texture.

Independent residuals may still not be Gaussian. Their distance from it is the largest difference
of the distribution functions, that of the Gaussian with the same quartiles. Grey levels are often
cut off at black and white, so the extremes are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter, minimum_filter
from scipy.special import ndtr, ndtri

from logsuper._base import FloatArray, beat, refuse
from logsuper.learning._light import Extreme, Place, find_light
from logsuper.learning._make_examples import as_images, check_alike

# Correlations, near and far, that matter, beyond this number of standard errors. A wide blur that
# was subtracted leaves halos of masks, up to .12 far.
_NEAR, _PATCHES, _SIGMAS = 0.1, 0.13, 3.0
# A mask that light or patches misled leaves some of the other parts: reported above this share.
_SECOND = 0.3
# Distance from a Gaussian that matters (uniform noise has .09), and least pixels of a label for it.
_DISTANCE, _ENOUGH = 0.15, 200
# Sums of the squares of larger grey levels may be infinite.
_LARGEST = 1e140
# How far the patches of a label reach at least.
_FAR = 4


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Properties of the residuals inside regions.

    Attributes
    ----------
    correlation, stderr : float
        Of neighbours, along the axis where it is largest; the error is that under independence.
    light, far, near : float
        The parts of it.
    distance : float
        Of the distribution of a label from a Gaussian, the larger of both.
    lowest, highest : Extreme or None
        Of the light; None where it is even.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import examine_residuals
    >>> clean = ls.make_silhouettes(4, shape=(64, 64), seed=0)
    >>> found = examine_residuals(ls.Gaussian((0.0, 2.0), 0.5).sample(clean, seed=1), clean)
    >>> found.causes, bool(abs(found.correlation) < 4 * found.stderr)
    ((), True)
    """

    correlation: float
    stderr: float
    light: float = 0.0
    far: float = 0.0
    near: float = 0.0
    distance: float = 0.0
    lowest: Extreme | None = None
    highest: Extreme | None = None

    @property
    def causes(self) -> tuple[str, ...]:
        """What is wrong: none, one or two of "light", "levels" and "noise"."""
        if self.light > 0.0:
            size, name = max((self.near, "noise"), (self.far, "levels"))
            return ("light", name) if size > _SECOND else ("light",)
        error = _SIGMAS * self.stderr
        levels = self.far > _PATCHES + error or self.distance > _DISTANCE
        noise = self.near > (_SECOND if levels else _NEAR + error)
        return ("levels",) * levels + ("noise",) * noise


def examine_residuals(
    observed: Any, cleaned: Any, places: Sequence[Place] | None = None
) -> Residuals:
    """Test whether the residual noise depends on place or neighbours, and is Gaussian.

    Parameters
    ----------
    observed : array-like (N, ...) or list of arrays
        Images, or windows of images; NaN where nothing was observed. Binary images are not tested
        for light or for a Gaussian distribution.
    cleaned : the same, of 0 and 1
        Clean images, or good estimates of them.
    places : sequence of Place, optional
        Where windows are from. By default each is a whole image.

    Returns
    -------
    Residuals

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> from logsuper.learning import examine_residuals
    >>> clean = ls.make_silhouettes(4, shape=(64, 64), seed=0)
    >>> noisy = ls.Gaussian((0.0, 2.0), 0.5).sample(clean, seed=1)
    >>> examine_residuals(noisy, clean).causes
    ()
    >>> examine_residuals(noisy + np.linspace(0.0, 2.0, 64), clean).causes
    ('light',)
    """
    observed, cleaned = _check(observed, cleaned)
    if places is not None and len(places) != len(observed):
        raise ValueError(f"places has {len(places)} entries, observed {len(observed)}")
    mean, deviation, residuals = _residuals(observed, cleaned)
    correlation, stderr = _neighbours(residuals)
    if all(bool(((z == 0) | (z == 1) | (z != z)).all()) for z in observed):
        return Residuals(correlation, stderr, near=max(correlation, 0.0))
    if places is None:
        places = [Place(i, (0,) * z.ndim, z.shape) for i, z in enumerate(observed)]
    light = find_light(residuals, cleaned, places, mean, deviation)
    share, left = (0.0, residuals) if light is None else (light.share, light.left)
    far = (1.0 - share) * max(
        min((_lagged(left, axis, _FAR)[0] for axis in range(left[0].ndim)), default=0.0), 0.0
    )
    near = max(correlation - share - far, 0.0)
    distance = max(_distance(residuals, cleaned, value) for value in (0, 1))
    ends = () if light is None else (light.lowest, light.highest)
    return Residuals(correlation, stderr, share, far, near, distance, *ends)


def neighbour_correlation(observed: Any, cleaned: Any) -> tuple[float, float]:
    """Return the correlation of neighbouring observations inside of regions, and its error.

    Parameters
    ----------
    observed : array-like (N, ...) or list of arrays
        NaN where nothing was observed.
    cleaned : the same, of 0 and 1
        Clean images, or good estimates of them.

    Returns
    -------
    correlation, stderr : float
        Along the axis where it is largest. The standard error is that under independence, infinite
        if there is no pair.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import neighbour_correlation
    >>> rng = np.random.default_rng(0)
    >>> clean = np.zeros((200, 200))
    >>> correlation, stderr = neighbour_correlation([rng.random((200, 200)) < 0.1], [clean])
    >>> bool(abs(correlation) < 4 * stderr)
    True
    """
    return _neighbours(_residuals(*_check(observed, cleaned))[2])


# ------------------------------------------------------------------------------------------ inside


def _check(observed: Any, cleaned: Any) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Return images and masks that belong together."""
    z, x = as_images(observed, "observed"), as_images(cleaned, "cleaned")
    check_alike(z, "observed", x, "cleaned")
    for i, (image, mask) in enumerate(zip(z, x, strict=True)):
        beat()
        if not image.ndim:
            raise ValueError(f"observed[{i}] is a number, not an image")
        if image.ndim != z[0].ndim:
            raise ValueError(f"observed[{i}] has {image.ndim} axes, observed[0] {z[0].ndim}")
        large = np.abs(image.astype(np.float64)) > _LARGEST
        why = "infinite, or so large that its square is; NaN means missing"
        refuse(large, image, f"observed[{i}]", why)
        if not ((mask == 0) | (mask == 1)).all():
            raise ValueError(f"cleaned[{i}] has an entry that is neither 0 nor 1")
    return list(z), [mask.astype(np.uint8) for mask in x]


def _residuals(
    observed: Sequence[NDArray[Any]], cleaned: Sequence[NDArray[Any]]
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Return the mean and the deviation of each label, and the residuals, NaN at borders."""
    inner = [maximum_filter(x, 3) == minimum_filter(x, 3) for x in cleaned]
    found = [np.full(z.shape, np.nan) for z in observed]
    mean, deviation = np.zeros(2), np.zeros(2)
    for value in (0, 1):
        places = [inside & (x == value) for inside, x in zip(inner, cleaned, strict=True)]
        parts = [z[place].astype(np.float64) for z, place in zip(observed, places, strict=True)]
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        if values.size:
            mean[value], deviation[value] = values.mean(), values.std()
        for r, place, part in zip(found, places, parts, strict=True):
            if deviation[value] > 0.0:
                r[place] = (part - mean[value]) / deviation[value]
    return mean, deviation, found


def _neighbours(residuals: list[FloatArray]) -> tuple[float, float]:
    """Return the correlation at distance 1 along the axis where it is largest, and its error."""
    found = [_lagged(residuals, axis, 1) for axis in range(residuals[0].ndim)]
    return max((pair for pair in found if np.isfinite(pair[1])), default=(0.0, np.inf))


def _lagged(residuals: list[FloatArray], axis: int, lag: int) -> tuple[float, float]:
    """Return the correlation at a distance along an axis, and its error under independence."""
    product, square, pairs = 0.0, 0.0, 0
    for r in residuals:
        beat()
        one, other = (np.moveaxis(r, axis, 0)[part] for part in (slice(lag, None), slice(-lag)))
        both = ~(np.isnan(one) | np.isnan(other))
        product += float((one * other)[both].sum())
        square += float((one[both] ** 2).sum() + (other[both] ** 2).sum()) / 2.0
        pairs += int(both.sum())
    return (product / square, float(1.0 / np.sqrt(pairs))) if square > 0.0 else (0.0, np.inf)


def _distance(residuals: list[FloatArray], cleaned: Sequence[NDArray[Any]], value: int) -> float:
    """Return how far the distribution of a label is from the Gaussian with its quartiles."""
    parts = [r[(x == value) & ~np.isnan(r)] for r, x in zip(residuals, cleaned, strict=True)]
    r = np.concatenate(parts)
    levels, counts = np.unique(r, return_counts=True)
    if r.size < _ENOUGH or len(levels) < 3:
        return 0.0
    lower, middle, upper = np.quantile(r, [0.25, 0.5, 0.75])
    if not upper > lower:
        return 0.0
    # a grey level represents an interval: half of the pixels at it lie below
    below = (np.cumsum(counts) - 0.5 * counts) / r.size
    expected = ndtr((levels - middle) / (upper - lower) * 2.0 * ndtri(0.75))
    return float(np.abs(below - expected)[1:-1].max())
