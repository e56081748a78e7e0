"""The warning about errors caused by rounding."""

from __future__ import annotations


class PrecisionWarning(UserWarning):
    """Numbers of very different magnitude were added, and rounding may matter.

    The message gives a bound on the error: the result is feasible and within that amount of the
    optimum. Scale the large numbers down. If a large field was meant to fix an element, use an
    infinite one, which costs no precision.

    Examples
    --------
    >>> import logsuper as ls
    >>> issubclass(ls.PrecisionWarning, UserWarning)
    True
    """
