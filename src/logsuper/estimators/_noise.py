"""Which channel the noisy images came through: given, counted against labels, or estimated."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from logsuper._base import ConvergenceWarning
from logsuper.bounds import NotApplicable
from logsuper.channels import CHANNELS, Channel
from logsuper.estimators._images import Images, check_bits, is_blank
from logsuper.learning import BINARY, CLUMPED, estimate_noise, find_rate, find_rate_errors

# The channel for a plain rate, and for "auto" with zeros and ones; and for "auto" with grey levels.
_BITS, _GREY = "flips", "gaussian"

# A given rate is doubted if it exceeds the estimate from the images by this number of standard
# errors plus this share of itself.
_SIGMAS, _SLACK = 5.0, 0.1
# Maximum standard error of an estimated rate, as a share of it, for learners.
_MOST_ERROR = 0.5


def find_channel(noise: Any, noisy: Images, clean: Images | None) -> tuple[Channel, int]:
    """Return the channel that `noise` means, checked, and the number of warnings about it."""
    said = 0
    if all(map(is_blank, noisy)):
        raise ValueError("noisy has no observed pixel at all")
    if isinstance(noise, str):
        if noise not in (words := _words()):
            raise ValueError(
                f"noise must be one of {', '.join(words)}, a rate in (0, .5) or a channel, "
                f"got {noise!r}"
            )
        kind = CHANNELS[_guess(noisy) if noise == "auto" else noise]
        _check_bits(kind, noisy)
        if clean is None:
            channel, said = _estimate(kind, noisy)
        else:
            channel = kind.from_pairs(noisy, clean)
    else:
        channel = noise if isinstance(noise, Channel) else _as_channel(noise)
    if (objection := channel.objection("noise")) is not None:
        raise ValueError(objection)
    check_observed(channel, noisy)
    return channel, said


def check_observed(channel: Channel, noisy: Images) -> None:
    """Refuse images that cannot have come through the channel."""
    _check_bits(channel, noisy)
    for shape in set(noisy.shapes):
        for name, rates in channel.rates.items():
            try:
                fits = np.broadcast_shapes(rates.shape, shape) == shape
            except ValueError:
                fits = False
            if not fits:
                raise ValueError(
                    f"noise has {name} of shape {rates.shape}, but there are images of {shape}"
                )


def doubt(channel: Channel, noisy: Images) -> bool:
    """Warn of a rate larger than the images show, and of flips that are not independent.

    No clean images would explain either. Returns whether there was a warning.
    """
    rates = [values.ravel() for values in channel.rates.values()]
    # rates that differ have another mean over the informative pixels than over all of them
    if not rates or np.ptp(np.concatenate(rates)) > 0 or (found := find_rate(noisy)) is None:
        return False
    given, (rate, error, clumps) = float(rates[0][0]), found
    if clumps > CLUMPED:
        text = (
            f"noisy is not smooth shapes with independent flips: it has small clumps, {clumps:.1f} "
            "standard errors more than shapes have. Blobs, stripes and compression flip pixels "
            "together, and masks then follow them; give clean images, or labels of some pixels "
            "(NaN for the others)"
        )
    elif given > rate + _SIGMAS * error + _SLACK * given:
        text = (
            f"noise = {given:.3g}, but the images look like {rate:.3g} (standard error "
            f"{error:.1g}); with too large a rate, what is learned is too smooth or meaningless. "
            "noise='auto' takes what the images say"
        )
    else:
        return False
    warnings.warn(text, UserWarning, stacklevel=3)
    return True


def find_error(channel: Channel, noisy: Images, clean: Images | None) -> Any:
    """Return the standard errors of rates that were found from the images, in the form of `noise`.

    NaN for grey levels.
    """
    kinds = len(channel.rates)  # of errors, each with a rate
    if kinds not in (1, 2):
        return math.nan
    if clean is None:
        errors = find_rate_errors(noisy, kinds)
    else:  # shares of the labelled zeros and ones
        counts = np.zeros(2)
        for z, x in zip(noisy, clean, strict=True):
            counts += [np.count_nonzero((x == value) & (z == z)) for value in (0, 1)]
        sizes = counts if kinds == 2 else [counts.sum()]
        rates = np.atleast_1d(channel.noise)
        errors = tuple(
            math.sqrt(rate * (1.0 - rate) / size) if size else math.nan
            for rate, size in zip(rates, sizes, strict=True)
        )
    return errors if kinds == 2 else errors[0]


def find_rate_error(channel: Channel, noisy: Images, errors: Any) -> float:
    """Return the common standard error of estimated rates, bounded as learners need it.

    `errors` are what `find_error` found.
    """
    error = errors
    if isinstance(errors, tuple):
        error = math.nan if (found := find_rate(noisy)) is None else found[1]
    if math.isnan(error):
        return 0.0
    return min(
        float(error), _MOST_ERROR * min(float(rates.min()) for rates in channel.rates.values())
    )


def has_places(noise: Any) -> bool:
    """Return whether `noise`, a channel or rates, may differ between pixels."""
    return noise.local if isinstance(noise, Channel) else np.ndim(noise) > 0


# ------------------------------------------------------------------------------------------ inside


def _words() -> list[str]:
    return ["auto", *(name for name, kind in CHANNELS.items() if kind.estimable)]


def _check_bits(channel: Channel | type[Channel], noisy: Images) -> None:
    if channel.binary:
        remedy = f"threshold it, or give noise={_GREY!r} for grey levels; missing is NaN"
        check_bits(noisy, "noisy", remedy)


def _as_channel(noise: Any) -> Channel:
    if isinstance(noise, bool):
        raise TypeError("noise must be a rate in (0, .5), a channel or 'auto', got a bool")
    try:
        return Channel.from_dict({"kind": _BITS, "rate": noise})
    except (TypeError, ValueError):
        shown = noise if np.ndim(noise) == 0 else "an array with an entry that is not"
        raise ValueError(
            f"noise must be a rate in (0, .5), an array of them, a channel or one of "
            f"{', '.join(_words())}, got {shown}"
        ) from None


def _guess(noisy: Images) -> str:
    """Return the kind of channel for bits or grey levels; refuse two levels other than bits."""
    if noisy.have(BINARY):
        return _BITS
    ends = [(np.nanmin(image), np.nanmax(image)) for image in noisy if not is_blank(image)]
    low, high = float(min(low for low, _ in ends)), float(max(high for _, high in ends))
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
    return _GREY


def _estimate(kind: type[Channel], noisy: Images) -> tuple[Channel, int]:
    """Return the estimated channel, and the number of warnings about it (passed on to users)."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            channel = kind.from_images(noisy)
        except NotApplicable:
            channel = estimate_noise(noisy, kind=kind.kind)
    for warning in said:
        warnings.warn(warning.message, stacklevel=4)
    if not (channel.binary or channel.informative):
        level, scale = float(np.mean(channel.levels)), float(np.mean(channel.noise))
        raise ValueError(
            f"noisy shows the one grey level {level:.4g}, with a deviation of {scale:.3g}, and "
            "nothing that tells zeros from ones; check that there is something to see, give "
            "noise as a channel, or labels of some pixels (NaN for the others)"
        )
    return channel, sum(not issubclass(w.category, ConvergenceWarning) for w in said)
