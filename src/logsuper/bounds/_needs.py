"""Conversion of functions to the form that a method needs, and the errors that refuse one."""

from __future__ import annotations

import numpy as np

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


class NotApplicable(ValueError):
    """The method is not valid for this kind of function; the message names both.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.LogDet([[1.0, 0.2], [0.2, 1.0]]))
    >>> m.log_partition("bethe")
    Traceback (most recent call last):
    ...
    logsuper.bounds._needs.NotApplicable: bethe needs a pairwise function, got LogDet(n=2)
    """


class TooLarge(ValueError):
    """The method is valid, but its cost exceeds its limit; the message gives the cost.

    Attributes
    ----------
    operations : float
        Number of operations that it would need.

    Examples
    --------
    >>> import logsuper as ls
    >>> try:
    ...     ls.bounds.enumeration(ls.Cut(60, [(0, 1)]))
    ... except ls.TooLarge as error:
    ...     print(error.operations > 1e15)
    True
    """

    def __init__(self, message: str, operations: float) -> None:
        super().__init__(message)
        self.operations = operations
