"""What both estimators do: check their arguments, run a learner, keep what it found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from logsuper._base import FloatArray, Seed, check_number
from logsuper.functions import SubmodularFunction
from logsuper.learning import Callback, Examples, Learned, Learner, Penalty

__all__ = [
    "as_seed",
    "check_cost",
    "check_count",
    "check_functions",
    "check_tol",
    "refuse_weights",
    "run",
    "weigh",
    "whole",
]

# The kinds of parameters, as users and as layouts call them.
_KINDS = {"alpha": "alpha", "modular": "modular", "filter": "beta", "scale": "scale"}


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
    estimator: Any,
    learner: Learner,
    examples: Examples,
    key: int,
    callback: Callback | None,
    **found: Any,
) -> Learned:
    """Run a learner with the arguments of an estimator, and others unless `options` has them."""
    arguments = {"seed": key, "n_jobs": estimator.n_jobs, "callback": callback}
    if estimator.tol is not None:
        arguments["tol"] = check_tol(estimator.tol)
    if estimator.max_iter is not None:
        arguments["max_iter"] = check_count(estimator.max_iter, "max_iter")
    given = {} if estimator.options is None else estimator.options
    if not isinstance(given, Mapping):
        raise TypeError(f"options must be a mapping or None, got {type(given).__name__}")
    for option in given:
        if not isinstance(option, str):
            raise TypeError(f"options has the key {option!r}; keys are names of arguments")
        if option in {*arguments, "tol"}:
            raise ValueError(f"options has the key {option!r}; set it on the estimator itself")
    seeded = isinstance(estimator.random_state, int | np.integer)
    if given.get("checkpoint") is not None and not seeded:
        raise ValueError(
            "options has a checkpoint, which needs an integer as random_state: no other fit could "
            "go on from it"
        )
    penalty = _find_penalty(estimator.penalty, learner, examples)
    return learner.learn(examples, penalty, **arguments, **{**found, **given})


def _find_penalty(given: Any, learner: Learner, examples: Examples) -> Penalty:
    """Return the regulariser that was asked for, or the learner's own."""
    if given is None:
        return learner.penalty(examples.layout, examples.count)
    if not isinstance(given, Mapping):
        given = dict.fromkeys(_KINDS, check_number(given, "penalty"))
    for kind, weight in given.items():
        if kind not in _KINDS:
            raise ValueError(f"penalty has the key {kind!r}; it may have {', '.join(_KINDS)}")
        if check_number(weight, f"penalty[{kind!r}]") < 0:
            raise ValueError(f"penalty of {kind} = {weight:g} must be at least 0")
    return Penalty.of(examples.layout, **{_KINDS[kind]: weight for kind, weight in given.items()})


def check_cost(cost: Any) -> float:
    """Return the probability from which on a pixel is a one, given the costs of both errors."""
    try:
        false_one, false_zero = (check_number(value, "cost") for value in cost)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "cost must be a pair of positive numbers, of a false one and of a false zero, got "
            f"{cost!r}"
        ) from None
    if not min(false_one, false_zero) > 0:
        raise ValueError(f"cost must be positive, got {cost!r}")
    return false_one / (false_one + false_zero)


def weigh(cost: tuple[float, float], labels: Sequence[Any]) -> list[FloatArray] | FloatArray:
    """Return what a wrong pixel costs, for each pixel of clean images."""
    false_one, false_zero = cost
    found = [np.where(np.asarray(x) == 1, false_zero, false_one) for x in labels]
    return np.stack(found) if len({x.shape for x in found}) == 1 else found


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer >= {least}, got {type(value).__name__}")
    if not least <= value < 2**31:
        bound = f"at least {least}" if value < least else "below 2**31"
        raise ValueError(f"{name} must be {bound}, got {value}")
    return int(value)


def refuse_weights(sample_weight: object) -> None:
    """Refuse the weights of images that scikit-learn's tools can pass on."""
    if sample_weight is not None:
        raise ValueError(
            "sample_weight must be None: leave images out, or give pixels that shall not count the "
            "label NaN"
        )


def check_tol(value: Any) -> float:
    """Return a positive tolerance."""
    if check_number(value, "tol") <= 0:
        raise ValueError(f"tol must be positive or None, got {value:g}")
    return float(value)


def check_functions(
    functions: Any, name: str, n: int, argument: Any = None
) -> tuple[SubmodularFunction, ...]:
    """Return functions on n elements; call what makes them of an argument."""
    if callable(functions) and not isinstance(functions, SubmodularFunction):
        functions, name = functions(argument), f"{name}, called with {argument},"
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
