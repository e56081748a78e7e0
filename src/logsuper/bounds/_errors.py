"""The errors by which a method refuses a function."""

from __future__ import annotations


class NotApplicable(ValueError):
    """The method is not valid for this kind of function; the message names both.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.LogDet([[1.0, 0.2], [0.2, 1.0]]))
    >>> m.log_partition("bethe")
    Traceback (most recent call last):
    ...
    logsuper.bounds._errors.NotApplicable: bethe needs a pairwise function, got LogDet(n=2)
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
