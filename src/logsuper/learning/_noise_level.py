r"""How much noise there is, from noisy images alone and without a model of them.

Clean images are smooth: few of their pixels are single ones, ends of lines or thin lines. Given the
rates of flips, the clean shares of such patterns can be estimated without a bias from the noisy
ones; the rates at which they nearly vanish are those of the noise (`_flip_rates`).

Pixels share neighbours. So the standard error is not what independent pixels would have: products
of what two pixels with a neighbour in common add to the error are part of it, and so is how far the
clean images may be from smooth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import FloatArray, IntArray, as_array, beat, check_choice
from logsuper.channels import AsymmetricFlips, Channel, Flips
from logsuper.learning._examples import UNKNOWN, Codes
from logsuper.learning._flip_rates import LARGEST, Fit, fit_rates, flat_pixels
from logsuper.learning._grey_levels import fit_grey_levels
from logsuper.learning._lazy_images import LazyImages
from logsuper.learning._make_examples import as_codes, as_images
from logsuper.learning._neighbourhoods import (
    LazyStack,
    Neighbourhood,
    Stack,
    choose,
    count,
    variance,
)

KINDS = ("flips", "asymmetric", "gaussian")

CLUMPED = 2.5
"""Standard errors by which images must look like texture before a warning says so."""

# A rate above this can hardly be told from pure noise.
_LARGE = 0.4
# Standard error, absolute and relative to the rate, above which a warning is given.
_UNSURE = (0.0125, 0.2)
_LEAST = 1e-6
# Pixels among like neighbours below which their rate is not told.
_FEW = 25.0
# A rate for each group: iterations, and the change that ends them.
_STEPS = 100
_CLOSE_GROUP = 1e-6


class _Rates(NamedTuple):
    """Estimated rates of false ones and of false zeros, and how far they may be off.

    Attributes
    ----------
    on, off : float
    covariance : ndarray of shape (2, 2)
    texture : float
        How many standard errors more than smooth shapes the images look like texture.
    """

    on: float
    off: float
    covariance: FloatArray
    texture: float

    @property
    def error(self) -> float:
        """The standard error of the mean of both."""
        return math.sqrt(float(self.covariance.sum())) / 2.0


def estimate_noise(
    observed: Any, *, kind: str = "flips", groups: ArrayLike | str | None = None
) -> Channel:
    r"""Estimate the noise of images whose clean versions nobody has seen.

    It rests on clean images that are smooth, with few single pixels, ends and thin lines, and on
    flips that are independent of each other.

    Parameters
    ----------
    observed : array-like (N, ...) or list of arrays
        Images, volumes or chains of 0 and 1, or of grey levels for ``kind="gaussian"``; NaN or
        masked where nothing was observed.
    kind : {"flips", "asymmetric", "gaussian"}
        What the noise does: flip pixels at one rate; flip zeros and ones at different rates; add
        Gaussian noise to two grey levels, of which the brighter one is x = 1.
    groups : array-like of int, or "pixel", optional
        For flips of images of one shape: the group 0, 1, ... of each pixel, for a rate per group;
        or a rate per pixel, shrunk towards the mean of all as much as their scatter says.

    Returns
    -------
    Channel

    Warns
    -----
    UserWarning
        When the images do not say how large the noise is: they look like nothing but noise, or
        like texture or flips in clumps, have no smooth parts, or, for "asymmetric", only one of the
        colours. Textures may pass unnoticed where there is much noise and few images.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import estimate_noise
    >>> clean = ls.make_silhouettes(20, seed=0)
    >>> noisy = ls.Flips(0.1).sample(clean, seed=1)
    >>> abs(estimate_noise(noisy).rate - 0.1) < 0.005
    np.True_
    """
    check_choice(kind, "kind", KINDS)
    if groups is not None and kind != "flips":
        raise ValueError(f"groups is for kind='flips', not {kind!r}")
    images = as_images(observed, "observed")
    if kind == "gaussian":
        return fit_grey_levels(images)
    stacks = _stack(images)
    group = None if groups is None else _check_groups(stacks, groups)
    overall = _settle(_measure(stacks, kind), smooth=groups is None)
    if kind == "asymmetric":
        return AsymmetricFlips(overall.on, overall.off)
    if group is None:
        return Flips(overall.on)
    rates = _by_group(stacks[0], group, overall.on, shrink=isinstance(groups, str))
    return Flips(rates.reshape(group.shape)) if isinstance(groups, str) else Flips(rates, group)


def find_rate(observed: Any) -> tuple[float, float, float] | None:
    """Return the rate of flips that images show, its standard error, and how they clump.

    None if images do not tell. The standard error has in it how far images of shapes may be from
    smooth. Images with texture of their own look noisier than they are. The last number is by how
    many standard errors they have more small clumps than shapes with independent flips; it is
    negative where they have none, and above `CLUMPED` no rate is to be trusted.
    """
    found = _measure(_stack(as_images(observed, "observed")), "flips")
    return None if found is None else (found.on, found.error, found.texture)


def find_rate_errors(observed: Any, kinds: int) -> tuple[float, ...]:
    """Return the standard errors of the rates that `estimate_noise` finds; NaN where it has none.

    Parameters
    ----------
    observed : array-like (N, ...) or list of arrays
    kinds : {1, 2}
        One error for all flips, or those of the rates of false ones and of false zeros.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # those of the estimate itself
        found = _measure(_stack(as_images(observed, "observed")), KINDS[kinds - 1])
    if found is None:
        return (math.nan,) * kinds
    return tuple(np.sqrt(np.diag(found.covariance)).tolist()[:kinds])


def _measure(stacks: Sequence[Stack], kind: str) -> _Rates | None:
    """Return what the images say of the rates, if anything."""
    chosen = [(stack, around) for stack in stacks if (around := choose(stack)) is not None]
    tables: dict[Neighbourhood, IntArray] = {}
    for stack, around in chosen:
        found = count(stack, around)
        if found.any():
            tables[around] = tables.get(around, np.zeros_like(found)) + found
    if not tables:
        return None
    fit = fit_rates(tables) if kind != "asymmetric" else _fit_both(tables)
    return _with_errors(fit, [pair for pair in chosen if pair[1] in tables], tables)


def _with_errors(
    fit: Fit, chosen: list[tuple[Stack, Neighbourhood]], tables: dict[Neighbourhood, IntArray]
) -> _Rates:
    """Return the rates with the covariance that the noise at hand and the model give them."""
    size = len(fit.noise)
    scores = {
        around: np.concatenate([own, texture])
        for around, own, texture in zip(tables, fit.scores, fit.texture_scores, strict=True)
    }
    total = np.sum([variance(stack, around, scores[around]) for stack, around in chosen], axis=0)
    # where the estimate from few pixels is too small, what independent ones would have stands in
    pixels = sum(int(table.sum()) for table in tables.values())
    noise = total[:size, :size]
    short = np.trace(fit.noise) - np.trace(noise)
    covariance = fit.model + noise + max(short, 0.0) / size * np.eye(size)
    spread = math.sqrt(max(total[size, size], 0.0) + fit.texture_model)
    # half a flip: none among many pixels does not make the rate 0
    on, off = (max(rate, 0.5 / pixels, _LEAST) for rate in (fit.on, fit.off))
    return _Rates(on, off, np.broadcast_to(covariance, (2, 2)), fit.texture / (spread or 1.0))


def _fit_both(tables: dict[Neighbourhood, IntArray]) -> Fit:
    """Return the fit of both rates; that of one, with a warning, if images do not tell them."""
    together = fit_rates(tables)
    few = flat_pixels(tables, together.on) < _FEW
    if not few.any():
        return fit_rates(tables, asymmetric=True)
    if few.all():
        reason = (
            "does not tell the rates of false ones and false zeros apart; one is taken for both"
        )
    else:
        reason = (
            f"has next to no {'zeros' if few[0] else 'ones'} among like neighbours to tell the "
            "rate of their flips by; that of the others is taken"
        )
    warnings.warn(f"observed {reason}; give the channel if you know it", UserWarning, stacklevel=4)
    return together


def _stack(images: Sequence[NDArray[Any]]) -> Sequence[Stack]:
    """Return the images of each shape as one array (N, ...), a byte per pixel; lazy stay lazy."""
    if isinstance(images, LazyImages):
        numbers: dict[tuple[int, ...], list[int]] = {}
        for i, shape in enumerate(images.shapes):
            numbers.setdefault(shape, []).append(i)
        return [LazyStack(images, each) for each in numbers.values()]
    stacks: dict[tuple[int, ...], list[Codes]] = {}
    for i, image in enumerate(images):
        beat()
        codes = np.atleast_1d(as_codes(image, f"observed[{i}]", "grey levels need kind='gaussian'"))
        stacks.setdefault(image.shape, []).append(codes)
    return [_join(stack) for stack in stacks.values()]


def _join(images: list[Codes]) -> Codes:
    """Return one array of images of one shape."""
    stack = np.empty((len(images), *images[0].shape), dtype=np.uint8)
    for place, image in zip(stack, images, strict=True):
        beat()
        place[...] = image
    return stack


def _settle(found: _Rates | None, smooth: bool) -> _Rates:
    """Return rates that a channel can have; warn where images do not tell, or are not `smooth`."""
    if found is None:
        raise ValueError(
            "observed does not tell the noise: no image has enough pixels, or smooth parts; give "
            "the channel"
        )
    mean, error = (found.on + found.off) / 2, found.error
    message = ""
    if mean >= _LARGE:
        message = (
            f"observed looks like hardly anything but noise, of a rate of {mean:.2g}; give the "
            "channel if you know it"
        )
    elif smooth and found.texture > CLUMPED:
        message = (
            f"observed is not smooth shapes with independent flips: a rate of {mean:.3g} leaves "
            f"small clumps, {found.texture:.1f} standard errors more than shapes have; the rate is "
            "not to be trusted; give the noise (noise=, or a channel) if you know it, or try "
            "'asymmetric' if zeros and ones may have rates of their own"
        )
    elif error > max(_UNSURE[0], _UNSURE[1] * mean):
        message = (
            f"the rate {mean:.2g} of the noise has a standard error of {error:.2g}: few images, or "
            "few smooth parts; give the channel if you know it"
        )
    if message:
        warnings.warn(message, UserWarning, stacklevel=3)
    return found


# ------------------------------------------------------------------------------ a rate for a group


def _check_groups(stacks: Sequence[Stack], groups: Any) -> IntArray:
    """Return the group of each pixel."""
    shape = stacks[0].shape[1:]
    if len(stacks) > 1:
        raise ValueError(
            f"groups needs images of one shape, but some are {shape}, some {stacks[1].shape[1:]}"
        )
    if isinstance(groups, str):
        if groups != "pixel":
            raise ValueError(f"groups must be 'pixel' or an array of integers, got {groups!r}")
        return np.arange(math.prod(shape)).reshape(shape)
    group = as_array(groups, "groups")
    if group.dtype.kind not in "iu" or group.shape != shape:
        raise ValueError(
            f"groups must hold an integer per pixel, in the shape {shape} of the images; got shape "
            f"{group.shape}, dtype {group.dtype}"
        )
    if group.size and group.min() < 0:
        raise ValueError(f"groups has the entry {group.min()}; groups are numbered from 0")
    return group.astype(np.int64)


def _by_group(images: Stack, group: IntArray, overall: float, shrink: bool) -> FloatArray:
    """Return the rates of the groups by the same fixed point, neighbours at their own rates."""
    size = int(group.max(initial=-1)) + 1
    rates = np.full(size, overall)
    for _ in range(_STEPS):
        flips, total, squares = np.zeros(size), np.zeros(size), np.zeros(size)
        for image in images:
            flipped, kept = _between_like(image, rates[group])
            flips += np.bincount(group.ravel(), flipped.ravel(), size)
            total += np.bincount(group.ravel(), (flipped + kept).ravel(), size)
            squares += np.bincount(group.ravel(), (flipped**2 + kept**2).ravel(), size)
        # a share of weighted pixels is as good as one of so many; without any it is that of all
        draws = total**2 / np.where(squares > 0, squares, 1.0)
        found = flips / np.where(total != 0, total, 1.0)
        prior = _prior_draws(found, draws, overall) if shrink else 1.0
        prior = prior or 1.0  # no pixel has enough neighbours
        new = np.clip((draws * found + prior * overall) / (draws + prior), _LEAST, LARGEST)
        change = np.abs(new - rates).max(initial=0.0)
        rates = new
        if change < _CLOSE_GROUP:
            break
    return rates


def _between_like(image: Codes, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimate, for each pixel, whether all clean neighbours are unlike what is seen, or like."""
    x = np.where(image == UNKNOWN, np.nan, (image - rate) / (1.0 - 2.0 * rate))
    ones, zeros = np.ones(image.shape), np.ones(image.shape)
    count = np.zeros(image.shape, dtype=np.int64)
    axes = [axis for axis, size in enumerate(image.shape) if size > 1]
    for axis in axes:
        lead = [slice(None)] * axis
        for here, there in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            beside = x[*lead, there]
            seen = ~np.isnan(beside)
            count[*lead, here] += seen
            ones[*lead, here] *= np.where(seen, beside, 1.0)
            zeros[*lead, here] *= np.where(seen, 1.0 - beside, 1.0)
    # a pixel at the border, or beside a missing one, may lack one neighbour
    enough = (count >= 2 * len(axes) - 1) & (image != UNKNOWN)
    unlike, like = np.where(image == 1, (zeros, ones), (ones, zeros))
    return enough * unlike, enough * like


def _prior_draws(rates: FloatArray, draws: FloatArray, overall: float) -> float:
    """Return how many draws the overall rate counts for: more where the true rates differ less."""
    unit = overall * (1.0 - overall)
    # of all scatter, what is more than the draws explain
    excess = np.sum(draws * (rates - overall) ** 2) - unit * np.count_nonzero(draws)
    return float(unit * draws.sum() / max(excess, _LEAST * unit * len(rates)))
