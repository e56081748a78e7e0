"""What both estimators do: check their arguments, run a learner, keep what it found."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from logsuper._base import Seed, check_callback, check_choice, check_number
from logsuper.estimators._learners import LEARNERS, find_penalty
from logsuper.functions import SubmodularFunction
from logsuper.learning import Callback, Examples, Learned

__all__ = [
    "as_seed",
    "check_callback",
    "check_choice",
    "check_count",
    "check_functions",
    "check_tol",
    "run",
    "whole",
]


@contextmanager
def whole(estimator: object) -> Iterator[None]:
    """Leave an estimator as it was if a fit fails, or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def run(
    estimator: Any, name: str, examples: Examples, key: int, callback: Callback | None
) -> Learned:
    """Run a learner with the arguments of an estimator."""
    learner = LEARNERS[name]
    arguments: dict[str, Any] = {
        "seed": key,
        "n_jobs": estimator.n_jobs,
        "callback": callback,
    }
    if estimator.tol is not None:
        arguments["tol"] = check_tol(estimator.tol)
    if estimator.max_iter is not None:
        arguments[learner.cap] = check_count(estimator.max_iter, "max_iter")
    given = {} if estimator.options is None else estimator.options
    if not isinstance(given, Mapping):
        raise TypeError(f"options must be a mapping or None, got {type(given).__name__}")
    for option in given:
        if not isinstance(option, str):
            raise TypeError(f"options has the key {option!r}; keys are names of arguments")
    twice = sorted(given.keys() & {*arguments, "tol"})
    if twice:
        raise ValueError(f"options has the key {twice[0]!r}; set it on the estimator itself")
    if given.get("checkpoint") is not None and not isinstance(
        estimator.random_state, int | np.integer
    ):
        raise ValueError(
            "options has a checkpoint, which needs an integer as random_state: no other fit could "
            "go on from it"
        )
    penalty = find_penalty(estimator.penalty, name, examples.layout, examples.count)
    return learner.load(name)(examples, penalty, **arguments, **given)


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{name} must be an integer >= {least}, got {kind}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if number >= 2**31:
        raise ValueError(f"{name} must be below 2**31, got {number}")
    return number


def check_tol(value: Any) -> float:
    """Return a positive tolerance."""
    if check_number(value, "tol") <= 0:
        raise ValueError(f"tol must be positive or None, got {value:g}")
    return float(value)


def check_functions(functions: Any, name: str, n: int) -> tuple[SubmodularFunction, ...]:
    """Return functions on n elements."""
    if isinstance(functions, SubmodularFunction):
        raise TypeError(f"{name} must be a list of functions; write [f] for one")
    try:
        found = tuple(functions)
    except TypeError:
        raise TypeError(f"{name} must be a list of functions, got {functions!r}") from None
    if not found:
        raise ValueError(f"{name} is empty; give at least one function")
    for k, f in enumerate(found):
        if not isinstance(f, SubmodularFunction):
            raise TypeError(f"{name}[{k}] is a {type(f).__name__}, not a function")
        if f.n != n:
            raise ValueError(f"{name}[{k}] has n = {f.n}, but there are {n} elements")
    return found


def as_seed(random_state: Any) -> Seed:
    """Return a seed of the library; the legacy generator of numpy gives an integer."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    seed: Seed = random_state
    return seed
