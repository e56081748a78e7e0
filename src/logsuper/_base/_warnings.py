"""The warning about early stops; in its own module because scikit-learn is slow to import."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _ConvergenceWarning


class ConvergenceWarning(_ConvergenceWarning):  # type: ignore[misc]
    """An iterative solver stopped before it reached the requested accuracy.

    The result that comes with it is still feasible, and its ``gap`` still bounds its distance from
    the optimum. The message names the solver, the remaining gap, and what to change. It is a
    subclass of `sklearn.exceptions.ConvergenceWarning`, so one warning filter covers both.

    Examples
    --------
    Turn every such warning into an error while debugging:

    >>> import warnings
    >>> import logsuper as ls
    >>> from sklearn.exceptions import ConvergenceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)
    ...     try:
    ...         warnings.warn("gap 1e-3 is above 1e-8", ls.ConvergenceWarning, stacklevel=2)
    ...     except ls.ConvergenceWarning as error:
    ...         print(error)
    gap 1e-3 is above 1e-8
    """
