"""Conversion of functions to the form that a method needs, or a clear error."""

from __future__ import annotations

import numpy as np

from logsuper.bounds._errors import NotApplicable
from logsuper.functions import SubmodularFunction
from logsuper.structures import Image, Pairwise, image_of, pairwise_of

_LARGEST = 1e290


def need_pairwise(f: SubmodularFunction, method: str) -> Pairwise:
    """Return f in normal form; raise NotApplicable, naming the method, if it is not pairwise."""
    pairwise = pairwise_of(f)
    if pairwise is None:
        raise NotApplicable(f"{method} needs a pairwise function, got {f!r}")
    return pairwise


def need_image(f: SubmodularFunction, method: str) -> Image:
    """Return f as an image; raise NotApplicable, naming the method, if it is not one."""
    image = image_of(f)
    if image is None:
        raise NotApplicable(
            f"{method} needs a sum of the 4-neighbour cuts of one image (grid_cuts) and a "
            f"Modular, got {f!r}"
        )
    if not magnitude(image) < _LARGEST:
        raise NotApplicable(f"{method} needs weights and fields that add up to below {_LARGEST:g}")
    return image


def magnitude(image: Image) -> float:
    """Return the sum of all weights and of the sizes of all fields."""
    with np.errstate(over="ignore"):
        return float(np.abs(image.t).sum() + image.across.sum() + image.down.sum())
