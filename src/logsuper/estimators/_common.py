"""What both estimators do: check their arguments, run a learner, keep what it found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from logsuper._base import FloatArray, Seed, as_float, check_number, refuse, refuse_negative
from logsuper.estimators._images import Images
from logsuper.functions import SubmodularFunction
from logsuper.learning import LEARNERS, Callback, Examples, Learned, Learner, Penalty, check_cost

__all__ = [
    "as_seed",
    "check_count",
    "check_functions",
    "check_tol",
    "find_threshold",
    "has_cost",
    "read_weights",
    "refuse_weights",
    "run",
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


def find_threshold(cost: Any) -> FloatArray:
    """Return the probability from which on a pixel is a one, given the costs of both errors."""
    false_one, false_zero = check_cost(cost)
    return false_one / (false_one + false_zero)


def has_cost(cost: Any) -> bool:
    """Return whether the two errors differ in their costs anywhere."""
    return bool(np.any(find_threshold(cost) != 0.5))


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer >= {least}, got {type(value).__name__}")
    if not least <= value < 2**31:
        bound = f"at least {least}" if value < least else "below 2**31"
        raise ValueError(f"{name} must be {bound}, got {value}")
    return int(value)


def refuse_weights(sample_weight: object, learner: str | None = None) -> None:
    """Refuse weights where they have no meaning: for most learners, or for all."""
    if sample_weight is not None:
        names = ", ".join(repr(name) for name, other in LEARNERS.items() if other.costs)
        remedy = f", or learn by one of {names}" if learner else ""
        raise ValueError(
            f"sample_weight must be None{f' for {learner!r}' if learner else ''}: leave images "
            f"out, or give pixels that shall not count the label NaN{remedy}"
        )


def read_weights(sample_weight: Any, images: Images) -> list[FloatArray] | None:
    """Return the weights of the pixels of each image, given those of images or of pixels."""
    if sample_weight is None:
        return None
    try:
        given = list(sample_weight)
    except TypeError:
        raise TypeError("sample_weight must have a weight, or an array, per image") from None
    if len(given) != len(images):
        raise ValueError(f"sample_weight has {len(given)} entries for {len(images)} images")
    found = []
    for i, (part, image) in enumerate(zip(given, images, strict=True)):
        weights = as_float(part, f"sample_weight[{i}]")
        if weights.shape not in ((), image.shape):
            raise ValueError(
                f"sample_weight[{i}] has shape {weights.shape}; give a number, or an array of the "
                f"image's shape {image.shape}"
            )
        refuse(~np.isfinite(weights), weights, f"sample_weight[{i}]", "must be finite")
        refuse_negative(weights, f"sample_weight[{i}]", "a wrong pixel must not be a gain")
        found.append(np.broadcast_to(weights, image.shape))
    return found


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
