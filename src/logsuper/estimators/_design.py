"""What a denoiser's arguments mean for given images: its modular term, filter and classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from logsuper.channels import Channel
from logsuper.estimators._blind_spot import check_classifier
from logsuper.estimators._common import check_count
from logsuper.estimators._images import Images
from logsuper.estimators._noise import has_places
from logsuper.estimators._select import SELECT, is_select
from logsuper.learning import LEARNERS, Learner, choose_learner

__all__ = [
    "choose_beside",
    "choose_radius",
    "choose_term",
    "choose_trees",
    "has_trees",
    "may_crop",
]

FILTER = "filter"
"""The context without a classifier, of a radius that suits the images."""

# Minimum number of images for a modular term with one number per pixel, and for trees by default.
_ENOUGH = 20
# For moments beside a classifier.
_MANY = 50
# Minimum number of known pixels, or labels, for trees by default.
_KNOWN = 100_000
# How far the learned filter may reach by default, in images and in volumes.
_RADII = {2: (2, 1), 3: (1,)}
# Minimum number of training pixels per coefficient of the filter.
_SUPPORT = 1000


def may_crop(estimator: Any, weights: Any = None) -> bool:
    """Return whether the model is the same everywhere, so that parts of images will do."""
    if weights is not None or any(np.ndim(part) for part in estimator.cost):
        return False
    anywhere = _is_stencil(estimator.neighbors) or callable(estimator.neighbors)
    local = not anywhere or has_places(estimator.noise)
    return estimator.modular != "pixel" and not local


def choose_term(modular: str, images: Images, windows: bool) -> str:
    """Return the kind of the modular term."""
    shapes = len(set(images.shapes))
    if modular == "auto":
        alike = shapes == 1 and not windows
        return "pixel" if alike and len(images) >= _ENOUGH else "shared"
    if modular == "pixel" and shapes > 1:
        raise ValueError(
            f"modular='pixel' needs images of one shape, but noisy has {shapes} shapes; "
            "use modular='shared'"
        )
    return modular


def choose_radius(context: Any, learner: Learner, images: Images) -> int:
    """Return the radius of the filter."""
    if not _is_number(context):
        axes, pixels = len(images.shapes[0]), images.pixels
        radii = () if learner.latent else _RADII[axes]
        return max((r for r in radii if pixels >= _SUPPORT * (2 * r + 1) ** axes), default=0)
    radius = check_count(context, "context", 0)
    if radius and learner.latent:
        raise ValueError(
            f"context = {radius}: {learner.name!r} models the observations and cannot filter "
            "them; use context=0"
        )
    return radius


def has_trees(context: Any, learner: Learner) -> bool:
    """Return whether a classifier of the surroundings is asked for."""
    if _is_number(context):
        return False
    if isinstance(context, str):
        if context not in ("auto", FILTER, "trees", SELECT):
            raise ValueError(
                f"context must be an integer >= 0, 'auto', {FILTER!r}, 'trees', {SELECT!r} or a "
                f"classifier, got {context!r}"
            )
        if context in ("auto", FILTER) or (is_select(context) and learner.latent):
            return False
    else:
        check_classifier(context, "context")
    if learner.latent:
        raise ValueError(
            f"context: {learner.name!r} models the observations and cannot have a classifier look "
            "at them; use context=0"
        )
    return True


def choose_trees(
    estimator: Any,
    learner: Learner,
    channel: Channel,
    images: Images,
    labels: Images | None,
    windows: bool,
) -> tuple[bool, ...]:
    """Return whether a classifier of the surroundings stands beside the filter; both to compare."""
    asked = has_trees(estimator.context, learner)
    if is_select(estimator.context):
        return (True, False) if asked and not channel.local else (False,)
    if asked:
        return (True,)
    if _is_usual(estimator, learner, labels) and _trees_pay(channel, images, labels, windows):
        return (True, False)
    return (False,)


def choose_beside(automatic: bool, learner: Learner, images: Images, windows: bool) -> Learner:
    """Return the learner beside a classifier, given the one without.

    Moments are for many small images. In few or large ones, an error of the rate of the noise moves
    the estimated length of boundaries too much, and couplings come out too weak.
    """
    many = not windows and len(images) >= _MANY
    return LEARNERS[learner.beside] if automatic and many and learner.beside else learner


def _is_usual(estimator: Any, learner: Learner, labels: Images | None) -> bool:
    """Return whether the learner and its penalty are left to us, or are what we would choose.

    Settings of a learner are for one that stands alone.
    """
    ours = choose_learner(labels is not None, ())
    return bool(
        isinstance(estimator.context, str)
        and estimator.context == "auto"
        and (estimator.learner == "auto" or (learner is ours and ours.beside is None))
        and (estimator.penalty is None or is_select(estimator.penalty))
        and estimator.options is None
        and _is_stencil(estimator.neighbors)
    )


def _trees_pay(channel: Channel, images: Images, labels: Images | None, windows: bool) -> bool:
    """Return whether a classifier may be worth its time: for many small images of zeros and ones.

    In windows of large images it brings little for its time. Images that are read again for every
    batch would be judged again, too.
    """
    many = not windows and len(images) >= _ENOUGH and len(images.shapes[0]) == 2
    if not (many and images.complete and channel.binary) or channel.local:
        return False
    known = images if labels is None else labels
    return sum(int(np.count_nonzero(x == x)) for x in known) >= _KNOWN


def _is_stencil(neighbors: object) -> bool:
    """Return whether neighbours are given by their number, or left to the default."""
    return neighbors is None or isinstance(neighbors, int | np.integer)


def _is_number(context: object) -> bool:
    """Return whether the context is a radius, or meant to be one."""
    if hasattr(context, "fit"):  # some classifiers have a length
        return False
    return context is None or np.ndim(context) > 0 or isinstance(context, int | float | np.number)  # type: ignore[arg-type]
