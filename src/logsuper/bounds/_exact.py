"""Exact inference by the cheapest method for a function."""

from __future__ import annotations

import inspect
import math
from types import ModuleType
from typing import Any

from logsuper._base import check_budget
from logsuper.bounds import _cardinality, _elimination, _enumeration, _transfer
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction

BUDGET = 1e10

# The search for an elimination order, the only slow cost estimate, comes last.
_METHODS: dict[str, ModuleType] = {
    "cardinality": _cardinality,
    "enumeration": _enumeration,
    "transfer": _transfer,
    "elimination": _elimination,
}
# Nanoseconds per element of that search: a cheaper method is not compared with elimination.
_SEARCH = 1e5


def log_partition(f: SubmodularFunction, *, budget: float = BUDGET) -> Bound:
    """Return log Z by the cheapest of "cardinality", "enumeration", "transfer" and "elimination".

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
    budget : float, default 1e10
        Maximum number of operations (about one nanosecond each).

    Returns
    -------
    Bound
        Its `method` is the one that was used.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.exact(ls.Cut(1000, [(i, i + 1) for i in range(999)]))
    <exact 313.641573 by elimination, certified>
    """
    found: Bound = _run(f, "log_partition", budget)
    return found


def marginals(f: SubmodularFunction, *, budget: float = BUDGET) -> Marginals:
    """Return the exact marginals by the cheapest method; see `log_partition` for the option."""
    found: Marginals = _run(f, "marginals", budget)
    return found


def operations(f: SubmodularFunction) -> float:
    """Return the approximate nanoseconds of log Z; infinity if no method applies."""
    return min(_estimates(f).values())


def _estimates(f: SubmodularFunction) -> dict[str, float]:
    """Return the operations of each method, up to the first one that is cheap enough."""
    found: dict[str, float] = {}
    for name, method in _METHODS.items():
        found[name] = method.operations(f)
        if found[name] <= _SEARCH * f.n:
            break
    return found


def _run(f: SubmodularFunction, what: str, budget: float) -> Any:
    """Run the cheapest method; raise TooLarge if it exceeds the budget."""
    budget = check_budget(budget)
    estimates = _estimates(f)
    name = min(estimates, key=lambda key: estimates[key])
    if estimates[name] > budget:
        raise _refusal(f, what, budget, estimates)
    function = getattr(_METHODS[name], what)
    own = inspect.signature(function).parameters
    return function(f, budget=budget) if "budget" in own else function(f)


def _refusal(
    f: SubmodularFunction, what: str, budget: float, estimates: dict[str, float]
) -> TooLarge:
    """Return the error that lists the cost of each valid method."""
    reasons, least = [], math.inf
    for name, cost in estimates.items():
        reason = f"{name} would take {cost:.2g} operations"
        if math.isinf(cost):  # the method itself raises an error at once, with the reason
            try:
                getattr(_METHODS[name], what)(f)
            except NotApplicable:
                continue
            except TooLarge as error:
                reason, cost = str(error), error.operations
        reasons.append(reason)
        least = min(least, cost)
    return TooLarge(
        f"no exact method can do {f!r} with {budget:.2g} operations: {'; '.join(reasons)}. "
        "Bound log Z by bracket() or, on a grid, by 'strips', or sample",
        least,
    )
