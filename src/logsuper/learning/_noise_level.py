r"""How much noise there is, from noisy images alone and without a model of them.

Clean images hardly have a pixel that differs from all of its neighbours along the axes. Given the
rates of flips, products of unbiased estimates of the neighbours say without a bias whether all of
them are 0, or all 1, *in the clean image*. Of the pixels between such neighbours those that differ
were flipped, and their share gives the rates again: the estimate is the fixed point of this map.
Its variance grows quickly above a rate of .3. There the share of pairs of pixels that differ at
distances 1 to 4 says more: carried on to distance 0 it is :math:`2\pi(1-\pi)`, for flips of rate
:math:`\pi`. Both are averaged by their information.

Both see the same flips, and pixels share neighbours. So the standard error is not what independent
pixels would have, but what the scatter between images, or between parts of an image, says.
"""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper.channels import AsymmetricFlips, Channel, Flips
from logsuper.functions._checks import FloatArray, IntArray, as_array, check_choice
from logsuper.learning._examples import UNKNOWN, Codes, _as_images, _codes
from logsuper.learning._grey_levels import fit_grey_levels

__all__ = ["KINDS", "estimate_noise", "find_rate"]

KINDS = ("flips", "asymmetric", "gaussian")

# Distances at which pairs of pixels are compared, and the coefficients that carry a quadratic
# through the first three of them, or fitted to all four, on to distance 0.
_LAGS = np.arange(1, 5)
_THROUGH_THREE = np.array([3.0, -3.0, 1.0, 0.0])
_THROUGH_FOUR = np.array([2.25, -0.75, -1.25, 0.75])
# A rate above the first can hardly be told from pure noise, and none above the second is returned.
_LARGE = 0.4
_LARGEST = 0.45
# The standard error, in absolute terms and as a share of the rate, that is worth a warning.
_UNSURE = (0.0125, 0.2)
_LEAST = 1e-6
# Pixels between like neighbours below which their rate is not told.
_FEW = 25.0
_STEPS = 100
_CLOSE = 1e-9
_CLOSE_GROUP = 1e-6
# Pixels of several images that are counted at once.
_PIECE = 1 << 20
# Blocks of images, or of rows of an image, whose scatter tells the standard error; the rows that a
# block must have for two of them to share few flips; and the blocks below which they do not tell.
_BLOCKS = 32
_ROWS = 5
_TOO_FEW = 4


class _Block(NamedTuple):
    """Some images (N, ...) of one shape, of which the rows ``first <= row < last`` count."""

    images: Codes
    first: int
    last: int


class _Rates(NamedTuple):
    """Estimated rates of false ones and of false zeros, and how far their mean may be off.

    Attributes
    ----------
    on, off : float
    variance : float
        Of the mean, as if no two pixels had a neighbour in common: what estimates are weighed by.
    parts : ndarray
        What each block adds to the error of the mean.
    """

    on: float
    off: float
    variance: float
    parts: FloatArray

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        count = len(self.parts)
        if count < _TOO_FEW:
            return math.sqrt(self.variance)
        return math.sqrt(max(self.variance, count / (count - 1) * float(self.parts @ self.parts)))


def estimate_noise(
    observed: Any, *, kind: str = "flips", groups: ArrayLike | str | None = None
) -> Channel:
    r"""Estimate the noise of images whose clean versions nobody has seen.

    It rests on clean images that are smooth: nearly no pixel differs from all of its neighbours.

    Parameters
    ----------
    observed : array-like (N, ...) or list of arrays
        Images, volumes or chains of 0 and 1, or of grey levels for ``kind="gaussian"``; NaN or
        masked where nothing was observed.
    kind : {"flips", "asymmetric", "gaussian"}
        What the noise does: flip pixels at one rate; flip zeros and ones at different rates; add
        Gaussian noise to two grey levels, of which the brighter one is x = 1.
    groups : array-like of int, or "pixel", optional
        For flips of images of one shape: the group 0, 1, ... of each pixel, for a rate a group, or
        a rate for each pixel, drawn to the mean of all as much as their scatter says.

    Returns
    -------
    Channel

    Warns
    -----
    UserWarning
        When the images do not say how large the noise is: they look like nothing but noise, have
        no smooth parts, or, for "asymmetric", only one of the colours.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning._noise_level import estimate_noise
    >>> clean = ls.make_silhouettes(20, seed=0)
    >>> noisy = ls.Flips(0.1).sample(clean, seed=1)
    >>> abs(estimate_noise(noisy).rate - 0.1) < 0.005
    np.True_
    """
    check_choice(kind, "kind", KINDS)
    if groups is not None and kind != "flips":
        raise ValueError(f"groups is for kind='flips', not {kind!r}")
    images = _as_images(observed, "observed")
    if kind == "gaussian":
        return fit_grey_levels(images)
    stacks = _stack(images)
    overall = _settle(_measure(stacks, kind))
    if kind == "asymmetric":
        return AsymmetricFlips(overall.on, overall.off)
    if groups is None:
        return Flips(overall.on)
    group = _check_groups(stacks, groups)
    rates = _by_group(stacks[0], group, overall.on, shrink=isinstance(groups, str))
    return Flips(rates.reshape(group.shape)) if isinstance(groups, str) else Flips(rates, group)


def find_rate(observed: Any) -> tuple[float, float] | None:
    """Return the rate of flips that images show, with its standard error; None if they do not.

    Images with single pixels of their own look noisier than they are, hardly ever less.
    """
    found = _measure(_stack(_as_images(observed, "observed")), "flips")
    return None if found is None else (found.on, found.error)


def _measure(stacks: list[Codes], kind: str) -> _Rates | None:
    """Return what the images say of the rates, if anything."""
    total = sum(map(len, stacks))
    blocks = [block for stack in stacks for block in _split(stack, total)]
    found = _from_isolated(blocks, kind == "asymmetric")
    if kind == "asymmetric" and found is not None:
        return found
    found = _combine(found, _from_pairs(blocks))
    if kind == "asymmetric" and found is not None:
        # where one colour is missing its estimated share scatters around 0, and no rate fits
        warnings.warn(
            "observed does not tell the rates of false ones and false zeros apart; one rate is "
            "taken for both; give the channel if you know it",
            UserWarning,
            stacklevel=3,
        )
    return found


def _stack(images: list[NDArray[Any]]) -> list[Codes]:
    """Return the images of each shape as one array (N, ...), a byte a pixel."""
    stacks: dict[tuple[int, ...], list[Codes]] = {}
    for i, image in enumerate(images):
        codes = np.atleast_1d(_codes(image, f"observed[{i}]", "grey levels need kind='gaussian'"))
        stacks.setdefault(image.shape, []).append(codes)
    return [np.stack(stack) for stack in stacks.values()]


def _split(images: Codes, total: int) -> list[_Block]:
    """Return images of one shape in blocks: a few images each, or some rows of one."""
    # rows along the longest axis; which one does not matter
    turned = np.moveaxis(images, 1 + int(np.argmax(images.shape[1:])), 1)
    size = turned.shape[1]
    ends = np.linspace(0, size, 1 + max(1, min(size // _ROWS, -(-_BLOCKS // total)))).astype(int)
    parts = min(len(images), max(_BLOCKS, images.size // _PIECE))
    return [
        _Block(turned[k::parts], int(first), int(last))
        for k in range(parts)
        for first, last in pairwise(ends)
    ]


# ------------------------------------------------------------------- pixels between like neighbours


def _from_isolated(blocks: list[_Block], asymmetric: bool) -> _Rates | None:
    """Return the rates for which no clean pixel differs from all neighbours; None for none."""
    counts = [_count_neighbours(block) for block in blocks]
    tables: dict[int, IntArray] = {}
    for table in counts:
        width = table.shape[1]
        tables[width] = tables.get(width, np.zeros_like(table)) + table
    if not any(table.any() for table in tables.values()):
        return None
    on = off = 0.0
    for _ in range(_STEPS):
        # rows: the pixel is 0 or 1; columns: all clean neighbours are 0, or all are 1
        share, square = np.zeros((2, 2)), np.zeros((2, 2))
        for width, table in tables.items():
            like = _like(width, on, off)
            share += table @ like
            square += table @ like**2
        # half a flip is added: no flip among many pixels does not make the rate 0
        if asymmetric:
            new_on = (share[1, 0] + 0.5) / (share[:, 0].sum() + 1.0)
            new_off = (share[0, 1] + 0.5) / (share[:, 1].sum() + 1.0)
        else:
            new_on = new_off = (share[1, 0] + share[0, 1] + 0.5) / (share.sum() + 1.0)
        # outside of these the map has no fixed point that means anything
        if not (new_on >= 0 and new_off >= 0 and new_on + new_off < 2 * _LARGEST):
            return None
        change = max(abs(new_on - on), abs(new_off - off))
        on, off = float(new_on), float(new_off)
        if change < _CLOSE:
            break
    else:
        return None
    # a flip is worth 1 - rate, a pixel that is kept -rate; that their weights depend on the rates
    # too does not matter, for the mean of these is 0 whatever the weights
    own = np.array([table @ _like(table.shape[1], on, off) for table in counts])
    worth = np.array([[-on, 1.0 - off], [1.0 - on, -off]])
    if asymmetric:
        told = _tell_apart(on, off, share.sum(axis=0))
        used = np.array([on, off]) == told  # the rates whose mean is returned
        per = used / used.sum() / np.where(used, share.sum(axis=0), 1.0)
        on, off = told
    else:
        per = 1.0 / share.sum()
    parts = (own * worth * per).sum(axis=(1, 2))
    rate = (on + off) / 2
    flipped = square[1, 0] + square[0, 1]
    spread = flipped * (1 - rate) ** 2 + (square.sum() - flipped) * rate**2
    return _Rates(on, off, float(spread / share.sum() ** 2), parts)


def _like(width: int, on: float, off: float) -> FloatArray:
    """Estimate, by how many of the neighbours are 1, whether all clean ones are 0, or 1, (., 2)."""
    ones = np.arange(width)
    one, zero = (1.0 - on) / (1.0 - on - off), -on / (1.0 - on - off)
    return np.array(
        [(1.0 - one) ** ones * (1.0 - zero) ** ones[::-1], one**ones * zero ** ones[::-1]]
    ).T


def _tell_apart(on: float, off: float, counts: FloatArray) -> tuple[float, float]:
    """Return both rates, one for both where the images have next to no pixels for the other."""
    few = counts < _FEW
    if not few.any():
        return on, off
    zeros = bool(few[0])
    warnings.warn(
        f"observed has next to no {'zeros' if zeros else 'ones'} among like neighbours to tell the "
        "rate of their flips by; that of the others is taken; give the channel if you know it",
        UserWarning,
        stacklevel=5,
    )
    return (off, off) if zeros else (on, on)


def _count_neighbours(block: _Block) -> IntArray:
    """Count pixels by their value and by how many of 2 a neighbours are 1, (2, 2 a + 1)."""
    axes = [axis for axis, size in enumerate(block.images.shape) if axis and size > 2]
    images = block.images[:, max(block.first - 1, 0) : block.last + 1]
    inner = [slice(1, -1) if axis in axes else slice(None) for axis in range(images.ndim)]
    center = images[*inner]
    seen = center != UNKNOWN
    ones = np.zeros(center.shape, dtype=np.uint8)
    for axis in axes:
        for side in (slice(None, -2), slice(2, None)):
            beside = images[*(side if a == axis else part for a, part in enumerate(inner))]
            seen &= beside != UNKNOWN
            ones += beside
    width = 2 * len(axes) + 1
    if not axes:
        return np.zeros((2, width), dtype=np.int64)
    codes = center[seen].astype(np.int64) * width + ones[seen]
    return np.bincount(codes, minlength=2 * width).reshape(2, width)


# --------------------------------------------------------------------------------- pairs of pixels


def _from_pairs(blocks: list[_Block]) -> _Rates | None:
    """Return the rate that the share of unlike pairs has when their distance goes to 0."""
    own = np.array([_count_pairs(block) for block in blocks])
    unlike, pairs = own.sum(axis=0)
    if not pairs.all():
        return None
    share = (unlike + 0.5) / (pairs + 1.0)
    touching = np.clip(share @ _THROUGH_FOUR, 0.0, 0.5)
    rate = 0.5 * (1.0 - np.sqrt(1.0 - 2.0 * touching))
    # how much two ways of carrying on differ says how far either may be off
    variance = float((share * (1.0 - share) / pairs) @ _THROUGH_FOUR**2)
    variance += float(share @ (_THROUGH_FOUR - _THROUGH_THREE)) ** 2
    slope = max(2.0 - 4.0 * rate, 2.0 - 4.0 * _LARGEST)
    parts = (own[:, 0] - share * own[:, 1]) / pairs @ _THROUGH_FOUR / slope
    return _Rates(float(rate), float(rate), variance / slope**2, parts)


def _count_pairs(block: _Block) -> FloatArray:
    """Count the pairs at each distance that differ, and all of them, (2, 4)."""
    found = np.zeros((2, len(_LAGS)))
    for axis in range(1, block.images.ndim):
        lead = [slice(None)] * axis
        for k, lag in enumerate(_LAGS):
            # a pair belongs to the block of its first pixel
            images = block.images[:, block.first : block.last + (lag if axis == 1 else 0)]
            first, second = images[*lead, :-lag], images[*lead, lag:]
            seen = (first != UNKNOWN) & (second != UNKNOWN)
            found[:, k] += np.count_nonzero(seen & (first != second)), np.count_nonzero(seen)
    return found


def _combine(first: _Rates | None, second: _Rates | None) -> _Rates | None:
    """Average two estimates of one rate by their information."""
    if first is None or second is None:
        return second if first is None else first
    tiny = np.finfo(float).tiny
    weights = np.array([1.0 / max(each.variance, tiny) for each in (first, second)])
    rate = float(weights @ [first.on, second.on] / weights.sum())
    share = weights / weights.sum()
    variance = float(1.0 / weights.sum())
    if len(first.parts) < _TOO_FEW:  # both see the same flips; at worst they err together
        variance = float(share @ np.sqrt([first.variance, second.variance])) ** 2
    return _Rates(rate, rate, variance, share @ [first.parts, second.parts])


def _settle(found: _Rates | None) -> _Rates:
    """Return rates that a channel can have; warn where the images do not tell."""
    if found is None:
        raise ValueError(
            "observed does not tell the noise: no image has enough pixels, or smooth parts; give "
            "the channel"
        )
    mean = (found.on + found.off) / 2
    if mean >= _LARGE:
        warnings.warn(
            f"observed looks like hardly anything but noise, of a rate of {mean:.2g}; give the "
            "channel if you know it",
            UserWarning,
            stacklevel=3,
        )
        on, off = (min(max(rate, _LEAST), _LARGEST) for rate in (found.on, found.off))
        return found._replace(on=on, off=off)
    error = found.error
    if error > max(_UNSURE[0], _UNSURE[1] * mean):
        warnings.warn(
            f"the rate {mean:.2g} of the noise has a standard error of {error:.2g}: few images, or "
            "few smooth parts; give the channel if you know it",
            UserWarning,
            stacklevel=3,
        )
    return found._replace(on=max(found.on, _LEAST), off=max(found.off, _LEAST))


# ------------------------------------------------------------------------------ a rate for a group


def _check_groups(stacks: list[Codes], groups: Any) -> IntArray:
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
            f"groups must hold an integer a pixel, in the shape {shape} of the images; got shape "
            f"{group.shape}, dtype {group.dtype}"
        )
    if group.size and group.min() < 0:
        raise ValueError(f"groups has the entry {group.min()}; groups are numbered from 0")
    return group.astype(np.int64)


def _by_group(images: Codes, group: IntArray, overall: float, shrink: bool) -> FloatArray:
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
        new = np.clip((draws * found + prior * overall) / (draws + prior), _LEAST, _LARGEST)
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
    """Return how many draws the overall rate is worth: the more the less the true rates differ."""
    unit = overall * (1.0 - overall)
    # of all scatter, what is more than the draws explain
    excess = np.sum(draws * (rates - overall) ** 2) - unit * np.count_nonzero(draws)
    return float(unit * draws.sum() / max(excess, _LEAST * unit * len(rates)))
