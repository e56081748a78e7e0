"""Warnings that the whole package shares."""

from __future__ import annotations

__all__ = ["ConvergenceWarning", "PrecisionWarning"]


class ConvergenceWarning(UserWarning):
    """An iterative solver stopped before it could prove its answer.

    The result that comes with it is still feasible, and its ``gap`` still bounds its distance from
    the optimum; only the requested accuracy was not reached. The message names the solver, the
    gap that was left, and what to change.

    Examples
    --------
    Turn every such warning into an error while debugging:

    >>> import warnings
    >>> from logsuper._base._warnings import ConvergenceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)
    ...     try:
    ...         warnings.warn("gap 1e-3 is above 1e-8", ConvergenceWarning, stacklevel=2)
    ...     except ConvergenceWarning as error:
    ...         print(error)
    gap 1e-3 is above 1e-8
    """


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
