"""Which channel the noisy images came through: given, counted against labels, or estimated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from logsuper._base import ConvergenceWarning, FloatArray, entry, first_index
from logsuper.channels import AsymmetricFlips, Channel, Flips, Gaussian, Missing
from logsuper.estimators._images import Image, check_bits, is_binary
from logsuper.learning import CLUMPED, estimate_noise, find_rate

__all__ = [
    "KINDS",
    "check_observed",
    "doubt",
    "find_channel",
    "has_places",
    "noise_of",
]

KINDS = ("auto", "flips", "asymmetric", "gaussian")

# A given rate is doubted if it is above what the images show by that many standard errors, and by
# that share of itself.
_SIGMAS, _SLACK = 5.0, 0.1


def find_channel(noise: Any, noisy: list[Image], clean: list[Image] | None) -> tuple[Channel, int]:
    """Return the channel that `noise` stands for, checked, and how many warnings doubt it."""
    said = 0
    if all(_blank(image) for image in noisy):
        raise ValueError("noisy has no observed pixel at all")
    if isinstance(noise, str):
        if noise not in KINDS:
            raise ValueError(
                f"noise must be one of {', '.join(KINDS)}, a rate in (0, .5) or a channel, "
                f"got {noise!r}"
            )
        kind = _guess(noisy) if noise == "auto" else noise
        if kind != "gaussian":
            _check_bits(noisy)
        if clean is None:
            channel, said = _estimate(noisy, kind)
        else:
            channel = _count(noisy, clean, kind)
    else:
        channel = noise if isinstance(noise, Channel) else _as_flips(noise)
    _refuse_useless(channel)
    check_observed(channel, noisy)
    return channel, said


def check_observed(channel: Channel, noisy: list[Image]) -> None:
    """Refuse images that cannot have come through the channel."""
    inner = _inner(channel)
    if isinstance(inner, Flips | AsymmetricFlips):
        _check_bits(noisy)
    for shape in {image.shape for image in noisy}:
        for name, rates in _rates(inner):
            if not _fits(rates.shape, shape):
                raise ValueError(
                    f"noise has {name} of shape {rates.shape}, but there are images of {shape}"
                )


def doubt(channel: Channel, noisy: list[Image]) -> bool:
    """Warn of a rate larger than the images show, and of flips that are not independent.

    No clean images would explain them.

    Returns whether it did.
    """
    rates = [values.ravel() for _, values in _rates(_inner(channel))]
    # rates that differ have another mean over the pixels that tell than over all of them
    if not rates or np.ptp(np.concatenate(rates)) > 0:
        return False
    found = find_rate(noisy)
    if found is None:
        return False
    given, (rate, error, clumps) = float(rates[0][0]), found
    if clumps > CLUMPED:
        warnings.warn(
            f"noisy is not smooth shapes with independent flips: it has small clumps, {clumps:.1f} "
            "standard errors more than shapes have. Blobs, stripes and compression flip pixels "
            "together, and masks then follow them; give clean images, or labels of some pixels "
            "(NaN for the others)",
            UserWarning,
            stacklevel=3,
        )
        return True
    doubted = given > rate + _SIGMAS * error + _SLACK * given
    if doubted:
        warnings.warn(
            f"noise = {given:.3g}, but the images look like {rate:.3g} (standard error "
            f"{error:.1g}); with too large a rate, what is learned is too smooth or meaningless. "
            "noise='auto' takes what the images say",
            UserWarning,
            stacklevel=3,
        )
    return doubted


def noise_of(channel: Channel) -> Any:
    """Return the numbers of a channel: a rate, the rates (on, off), or the (two) deviations."""
    inner = _inner(channel)
    if isinstance(inner, Gaussian):
        return tuple(inner.scale.tolist())
    rates = [float(r) if r.ndim == 0 else r for _, r in _rates(inner)]
    return rates[0] if len(rates) == 1 else tuple(rates)


def has_places(channel: Channel) -> bool:
    """Return whether a channel is another one from pixel to pixel."""
    lost = isinstance(channel, Missing) and channel.rate.ndim > 0
    return lost or any(rates.ndim > 0 for _, rates in _rates(_inner(channel)))


# ------------------------------------------------------------------------------------------ inside


def _inner(channel: Channel) -> Channel:
    return _inner(channel.channel) if isinstance(channel, Missing) else channel


def _rates(channel: Channel) -> list[tuple[str, FloatArray]]:
    """Return the rates of a channel that flips, one an element where groups were given."""
    if isinstance(channel, Flips):
        if channel.groups is None:
            return [("rate", channel.rate)]
        return [("rate", np.asarray(channel.rate[channel.groups]))]
    if isinstance(channel, AsymmetricFlips):
        return [("on", channel.on), ("off", channel.off)]
    return []


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether an array of one shape broadcasts to another."""
    try:
        return np.broadcast_shapes(given, shape) == shape
    except ValueError:
        return False


def _as_flips(noise: Any) -> Flips:
    if isinstance(noise, bool):
        raise TypeError("noise must be a rate in (0, .5), a channel or 'auto', got a bool")
    try:
        return Flips(noise)
    except (TypeError, ValueError):
        shown = noise if np.ndim(noise) == 0 else "an array with an entry that is not"
        raise ValueError(
            f"noise must be a rate in (0, .5), an array of them, a channel or one of "
            f"{', '.join(KINDS)}, got {shown}"
        ) from None


def _refuse_useless(channel: Channel) -> None:
    """Refuse channels that leave no doubt, or that say nothing or the opposite."""
    inner = _inner(channel)
    for name, rates in _rates(inner):
        label = "noise" if name == "rate" else f"noise, {name}"
        if (rates <= 0).any():
            at = first_index(rates <= 0)
            raise ValueError(
                f"{entry(label, at)} = {rates[at]:g} leaves no doubt about a pixel, so that there "
                "is nothing to remove or to learn; it must lie in (0, .5)"
            )
    if isinstance(inner, Flips) and (inner.rate >= 0.5).any():
        at = first_index(inner.rate >= 0.5)
        raise ValueError(
            f"{entry('noise', at)} = {inner.rate[at]:g}: at .5 an observation says nothing, above "
            "it says the opposite (invert the images); it must lie in (0, .5)"
        )
    if isinstance(inner, AsymmetricFlips) and (inner.on + inner.off >= 1).any():
        raise ValueError(
            f"noise = {inner!r}: with on + off >= 1 an observation says nothing, or the opposite"
        )
    if isinstance(inner, Gaussian):
        if inner.mean[0] == inner.mean[1] and inner.scale[0] == inner.scale[1]:
            raise ValueError(f"noise = {inner!r} says nothing: zeros and ones look the same")


def _guess(noisy: list[Image]) -> str:
    """Return "flips" for bits and "gaussian" for grey levels; refuse two levels other than bits."""
    if all(is_binary(image) for image in noisy):
        return "flips"
    low = min(float(np.nanmin(image)) for image in noisy if not _blank(image))
    high = max(float(np.nanmax(image)) for image in noisy if not _blank(image))
    if low == high:
        raise ValueError(
            f"noisy has the one level {low:g}, which is neither 0 nor 1: nothing tells zeros from "
            "ones; give noise as a channel"
        )
    if all(bool(((image == low) | (image == high) | (image != image)).all()) for image in noisy):
        raise ValueError(
            f"noisy has the two levels {low:g} and {high:g}; give 0 and 1, as in "
            f"noisy > {(low + high) / 2:g}"
        )
    return "gaussian"


def _blank(image: Image) -> bool:
    return image.dtype.kind == "f" and bool(np.isnan(image).all())


def _estimate(noisy: list[Image], kind: str) -> tuple[Channel, int]:
    """Return the channel that images show; what is said of it points to whoever called `fit`."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        channel = estimate_noise(noisy, kind=kind)
    for warning in said:
        warnings.warn(warning.message, stacklevel=4)
    if isinstance(channel, Gaussian):
        try:
            channel.unbiased(channel.mean)
        except ValueError:
            level, scale = float(channel.mean.mean()), float(channel.scale.mean())
            raise ValueError(
                f"noisy shows the one grey level {level:.4g}, with a deviation of {scale:.3g}, and "
                "nothing that tells zeros from ones; check that there is something to see, give "
                "noise as a channel, or labels of some pixels (NaN for the others)"
            ) from None
    return channel, sum(not issubclass(w.category, ConvergenceWarning) for w in said)


def _check_bits(noisy: list[Image]) -> None:
    check_bits(
        noisy, "noisy", "threshold it, or give noise='gaussian' for grey levels; missing is NaN"
    )


def _count(noisy: list[Image], clean: list[Image], kind: str) -> Channel:
    """Return the channel that pairs of images show; half an error is added for those unseen."""
    seen, mean = np.zeros(2), np.zeros(2)
    for value, part in _by_label(noisy, clean):
        seen[value] += part.size
        # running means: sums of squares would cancel, or overflow, far from 0
        mean[value] += np.sum((part - mean[value]) / max(seen[value], 1.0))
    if not seen.any():
        raise ValueError("clean has no label on a pixel that noisy observes; give noise a value")
    wrong = seen * [mean[0], 1.0 - mean[1]]
    if kind == "flips":
        return Flips((wrong.sum() + 0.5) / (seen.sum() + 1.0))
    if not seen.all():
        raise ValueError(
            f"clean has no {'ones' if seen[0] else 'zeros'}, so that their noise cannot be "
            "counted; give noise as a channel"
        )
    if kind == "asymmetric":
        on, off = (wrong + 0.5) / (seen + 1.0)
        return AsymmetricFlips(on, off)
    unit = abs(mean[1] - mean[0]) or 1.0
    square = np.zeros(2)
    for value, part in _by_label(noisy, clean):
        square[value] += np.sum(((part - mean[value]) / unit) ** 2)
    return Gaussian(mean, unit * np.maximum(np.sqrt(square / seen), 1e-6))


def _by_label(noisy: list[Image], clean: list[Image]) -> Iterator[tuple[int, FloatArray]]:
    """Yield, image by image, what was observed where x = 0 and where x = 1."""
    for z, x in zip(noisy, clean, strict=True):
        for value in (0, 1):
            part: FloatArray = z[x == value].astype(np.float64)
            yield value, part[~np.isnan(part)]
