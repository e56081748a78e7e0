"""Which density to fit: what the arguments allow, and the choice by held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import ConvergenceWarning, FloatArray
from logsuper.estimators._common import check_count

CLOSED_FORM = "exact"
"""The learner whose result a forest in closed form is."""

# Numbers of components that are tried while a step of the fit takes at most _OPERATIONS, which
# bounds the choice and the fit by some twenty seconds; and the cost of a row with unknown entries,
# in complete rows.
_COMPONENTS = (2, 5, 10, 20)
_OPERATIONS = 1e9
_PARTIAL = 8

# Minimum number of rows to hold some out, and maximum number of held-out rows: one with unknown
# entries may need a separate bracket.
_FEW, _HELD = 50, 500

# The value of each argument that a forest in closed form, hence a mixture of them, needs.
_NEEDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "functions": ("None or 'forest'", lambda value: value is None or _is_forest(value)),
    "learner": (f"'auto' or {CLOSED_FORM!r}", lambda value: value in ("auto", CLOSED_FORM)),
    "modular": ("'pixel'", lambda value: value == "pixel"),
    "penalty": ("None", lambda value: value is None),
    "options": ("None", lambda value: not value),
}


class Candidate(NamedTuple):
    """A model that may be fitted.

    Attributes
    ----------
    functions : object
        As the argument of `LogSupermodularDensity`.
    components : int
        The number of fields.
    """

    functions: Any
    components: int = 1


def check_components(estimator: Any) -> int | None:
    """Return the number of components that an estimator is to have, None for "auto"."""
    asked = estimator.n_components
    if isinstance(asked, str):
        if asked != "auto":
            raise ValueError(f"n_components must be 'auto' or an integer >= 1, got {asked!r}")
        return None
    components = check_count(asked, "n_components")
    name = _first_hindrance(estimator)
    if components > 1 and name is not None:
        raise ValueError(
            f"n_components = {components} needs {name} to be {_NEEDS[name][0]}, got "
            f"{getattr(estimator, name)!r}; with n_components=1 it is free"
        )
    return components


def find_candidates(estimator: Any, components: int | None, rows: FloatArray) -> list[Candidate]:
    """Return the models that may be fitted to the rows, simple ones first."""
    if components is not None and components > 1:
        return [Candidate("forest", components)]
    kinds = ("counts", "forest") if estimator.functions is None else (estimator.functions,)
    found = [Candidate(functions) for functions in kinds]
    if components is None and _first_hindrance(estimator) is None:
        partial = int(np.isnan(rows).any(axis=1).sum())
        each = (len(rows) + (_PARTIAL - 1) * partial) * rows.shape[1] ** 2
        found += [Candidate("forest", c) for c in _COMPONENTS if c * each <= _OPERATIONS]
    return found


def has_closed_form(estimator: Any, candidate: Candidate) -> bool:
    """Return whether a candidate is a forest in closed form, or a mixture of them."""
    return _is_forest(candidate.functions) and _first_hindrance(estimator) is None


def most_likely(
    candidates: Sequence[Candidate],
    rows: FloatArray,
    key: int,
    score: Callable[[Candidate, FloatArray, FloatArray, int], float],
) -> Candidate:
    """Return the best of the candidates on a fifth of the rows, the first one if rows are few.

    Parameters
    ----------
    candidates : sequence of Candidate
        Mixtures last, in increasing order of their components. Once one of them is not better than
        the mixture before it, larger ones are not tried.
    rows : ndarray of shape (N, n)
    key : int
        Seed for the choice of the rows.
    score : callable
        Given a candidate, rows to fit it to, other rows and the key, returns the mean
        log-likelihood of the other rows.
    """
    order = np.random.default_rng(key).permutation(len(rows))
    held = len(rows) // 5
    train, test = rows[order[held:]], rows[order[: min(held, _HELD)]]
    if len(candidates) == 1 or len(rows) < _FEW or rows.shape[1] < 2 or np.isnan(train).all():
        return candidates[0]
    scores: list[float] = []
    for candidate in candidates:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            scores.append(score(candidate, train, test, key))
        larger = len(scores) > 1 and candidates[len(scores) - 2].components > 1
        if larger and scores[-1] <= scores[-2]:
            break
    return candidates[int(np.argmax(scores))]


def _first_hindrance(estimator: Any) -> str | None:
    """Return the first argument that does not allow a forest in closed form, if any."""
    bad = (name for name, (_, fits) in _NEEDS.items() if not fits(getattr(estimator, name)))
    return next(bad, None)


def _is_forest(functions: Any) -> bool:
    return isinstance(functions, str) and functions == "forest"
