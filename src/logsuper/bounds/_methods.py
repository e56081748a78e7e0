"""The registry of methods: a new method is a module and a line here."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable, Collection
from typing import Any, Protocol

import numpy as np

from logsuper._base import check_choice
from logsuper.bounds._heavy import lighten
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction


class Model(Protocol):
    """The part of a `LogSupermodular` that is used here: its function and its constant."""

    f: SubmodularFunction
    constant: float


@dataclasses.dataclass(frozen=True)
class Method:
    """A method that bounds log Z or computes marginals.

    Its module in this room has a function ``log_partition(f, *, ...) -> Bound``, a function
    ``marginals(f, *, ...) -> Marginals``, or both, for a function of at least one element.
    """

    name: str
    module: str
    side: str
    valid_for: str

    def find(self, what: str) -> Callable[..., Any] | None:
        """Return the function `what` ("log_partition" or "marginals") of the module, if any."""
        module = importlib.import_module(f"logsuper.bounds.{self.module}")
        return getattr(module, what, None)


_ANY = "any function"
_PAIRWISE = "pairwise functions"
_GRID = "4-neighbour grids"

METHODS: dict[str, Method] = {
    name: Method(name, module, side, valid_for)
    for name, module, side, valid_for in [
        ("auto", "_auto", "exact", _ANY),
        ("exact", "_exact", "exact", "what one of the next four can afford"),
        ("enumeration", "_enumeration", "exact", "any function of some 20 elements"),
        ("elimination", "_elimination", "exact", "pairwise functions of moderate treewidth"),
        ("transfer", "_transfer", "exact", "4-neighbour grids with a short side"),
        ("cardinality", "_cardinality", "exact", "a function of the count plus a Modular"),
        ("lfield", "_lfield", "upper", _ANY),
        ("logistic", "_logistic", "upper", _ANY),
        ("power", "_power", "upper", _ANY),
        ("trw", "_trw", "upper", _PAIRWISE),
        ("superdifferential", "_superdifferential", "lower", _ANY),
        ("mean_field", "_mean_field", "lower", "functions whose expectation has a closed form"),
        ("bethe", "_bethe", "lower", _PAIRWISE),
        ("strips", "_strips", "both", _GRID),
    ]
}


# Methods for which huge numbers are replaced first; the others handle them.
_PRECISE = {"exact", "enumeration", "elimination", "transfer", "strips"}


def find(what: str, name: str, options: Collection[str]) -> Callable[..., Any]:
    """Return the function `what` of a method; errors for unknown names list the legal ones."""
    have = {key: method for key, method in METHODS.items() if method.find(what) is not None}
    function = have[check_choice(name, "method", have)].find(what)
    assert function is not None
    check_options(function, name, options)
    return function


def check_options(
    function: Callable[..., Any],
    name: str,
    options: Collection[str],
    common: Collection[str] = (),
) -> None:
    """Raise a TypeError for an option that the function of a method does not have.

    The message lists the legal options and those in `common`, which are not passed to the function.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return  # the function passes them on, and they are checked there
    legal = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in legal:
            listed = ", ".join([*legal, *common]) or "none"
            raise TypeError(f"{name} has no option {option!r}; its options are: {listed}")


def log_partition(f: SubmodularFunction | Model, method: str, **options: Any) -> Bound:
    """Return a bound on log Z of a function or model, or its value, by a method of the registry."""
    function = find("log_partition", method, options)
    if not isinstance(f, SubmodularFunction):
        if not isinstance(getattr(f, "f", None), SubmodularFunction):
            kind = type(f).__name__
            raise TypeError(f"f must be a LogSupermodular or a SubmodularFunction, got a {kind}")
        return log_partition(f.f, method, **options).shifted(f.constant)
    if f.n == 0:
        return Bound(0.0, "exact", method, certified=True, interval=(0.0, 0.0))
    light = lighten(f) if method in _PRECISE else None
    bound: Bound = function(f if light is None else light.f, **options)
    return bound if light is None else light.bound(bound)


def as_function_of_model(name: str) -> Callable[..., Bound]:
    """Return a method as a function of a model or function, with its documentation."""
    inner = METHODS[name].find("log_partition")
    assert inner is not None

    @functools.wraps(inner)
    def bound(f: SubmodularFunction | Model, **options: Any) -> Bound:
        return log_partition(f, name, **options)

    bound.__name__ = bound.__qualname__ = name
    bound.__module__ = "logsuper.bounds"
    return bound


def marginals(f: SubmodularFunction, method: str, **options: Any) -> Marginals:
    """Return the probabilities that x_d = 1 by a method of the registry."""
    function = find("marginals", method, options)
    if f.n == 0:
        return Marginals(np.empty(0), method, np.empty(0), np.empty(0))
    light = lighten(f) if method in _PRECISE else None
    found: Marginals = function(f if light is None else light.f, **options)
    return found if light is None else light.marginals(found)
