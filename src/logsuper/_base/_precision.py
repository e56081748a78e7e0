"""The warning that rounding was costly."""

from __future__ import annotations

__all__ = ["PrecisionWarning"]


class PrecisionWarning(UserWarning):
    """Numbers of very different size met, and rounding may have cost what the message says.

    The result is feasible, and within that amount of the best one. Scale the large numbers down, or
    write them as what they stand for: an infinite field fixes an element at no cost in precision.

    Examples
    --------
    >>> import logsuper as ls
    >>> issubclass(ls.PrecisionWarning, UserWarning)
    True
    """
