"""The best affordable method: exact if possible, else certified bounds; never `TooLarge`."""

from __future__ import annotations

from typing import Any

from logsuper._base import check_number
from logsuper.bounds import _exact, _methods
from logsuper.bounds._bracket import bracket
from logsuper.bounds._choose import marginal_method
from logsuper.bounds._phases import Widths, settle
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction

# Ratio of the budget of exact inference to that of bounds.
_WORTH = 10.0


def log_partition(
    f: SubmodularFunction, *, budget: float = _exact.BUDGET, n_jobs: int | None = None
) -> Bound:
    """Return the exact log Z where that is affordable, else the middle of a certified bracket.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        Any function.
    budget : float, default 1e10
        Maximum number of operations (of about a nanosecond) of exact inference; a tenth of it for
        the bracket.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    Bound
        Its ``interval`` is certified to contain log Z. Its target is "exact" if the interval is at
        most a millionth of a nat wide, else "estimate".

    Examples
    --------
    >>> import logsuper as ls
    >>> fh, fv = ls.grid_cuts((40, 40))
    >>> bound = ls.bounds.auto(0.4 * fh + 0.4 * fv)
    >>> bound.method, bound.target, bound.certified
    ('auto (strips)', 'estimate', True)
    >>> low, high = bound.interval
    >>> low < bound.value < high < low + 0.1
    True
    """
    if _exact.operations(f) <= check_number(budget, "budget"):
        return _methods.log_partition(f, "exact", budget=budget)
    found = bracket(f, budget / _WORTH, n_jobs=n_jobs)
    names = " and ".join(dict.fromkeys([found.below.method, found.above.method]))
    middle = found.lower + found.width / 2.0
    solves = found.below.solves + found.above.solves
    ends = (found.lower, found.upper)
    return Bound(
        middle, "exact", f"auto ({names})", True, interval=ends, solves=solves
    ).classified()


def marginals(f: SubmodularFunction, **options: Any) -> Marginals:
    """Return marginals by the best cheap method, with estimates where its brackets are wide.

    The methods are "exact" where that is cheap, then "strips", "bethe" and "power"; options are
    those of the method.
    """
    found = settle(f, _methods.marginals(f, marginal_method(f), **options))
    Widths().add(found).warn(stacklevel=5)
    return found
