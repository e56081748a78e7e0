"""Images as learners and decoders see them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from logsuper.channels import Channel
from logsuper.estimators._common import check_functions
from logsuper.estimators._images import Image, check_bits, check_pairs, read_images
from logsuper.functions import SubmodularFunction, grid_cuts
from logsuper.learning import Examples, make_examples

__all__ = ["functions_on", "gather", "read_labels"]


def read_labels(clean: Any, noisy: list[Image]) -> list[Image]:
    """Return labels that belong to the noisy images."""
    labels = read_images(clean, "clean")
    check_pairs(noisy, labels)
    check_bits(labels, "clean", "threshold it; a pixel without a label is NaN")
    if all(x.dtype.kind == "f" and bool(np.isnan(x).all()) for x in labels):
        raise ValueError("clean has no label at all; leave it out to learn from noisy images alone")
    return labels


def gather(
    design: dict[str, Any],
    images: list[Image],
    channel: Channel,
    labels: list[Image] | None = None,
) -> Examples:
    """Return images as the learners and decoders see them."""
    return make_examples(
        lambda shape: functions_on(design["neighbors"], shape),
        labels=labels,
        observed=images,
        channel=channel,
        modular=design["modular"],
        context=design["context"],
        scale=design["scale"],
    )


def functions_on(neighbors: Any, shape: tuple[int, ...]) -> tuple[SubmodularFunction, ...]:
    """Return the functions on images of a shape."""
    if neighbors is None or isinstance(neighbors, int | np.integer):
        if isinstance(neighbors, bool):
            raise TypeError("neighbors must be an integer, functions or a callable, got a bool")
        return grid_cuts(shape, None if neighbors is None else int(neighbors))
    if callable(neighbors) and not isinstance(neighbors, SubmodularFunction):
        return check_functions(
            neighbors(shape), f"neighbors, called with {shape},", math.prod(shape)
        )
    return check_functions(neighbors, "neighbors", math.prod(shape))
