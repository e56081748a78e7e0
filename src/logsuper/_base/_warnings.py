"""The warning that iterations ended early; apart, because scikit-learn takes a second to import."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _ConvergenceWarning

__all__ = ["ConvergenceWarning"]


class ConvergenceWarning(_ConvergenceWarning):  # type: ignore[misc]
    """An iterative solver stopped before it could prove its answer.

    The result that comes with it is still feasible, and its ``gap`` still bounds its distance from
    the optimum; only the requested accuracy was not reached. The message names the solver, the
    gap that was left, and what to change. It is a `sklearn.exceptions.ConvergenceWarning`, so that
    one filter silences both.

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
