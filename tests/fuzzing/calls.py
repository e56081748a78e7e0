"""A call of the library with some of its arguments spoilt, and its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.fuzzing.hostile import Rng, hostile_function, spoil
from tests.fuzzing.outcomes import RESULT, WRONG, Verdict, shorten

Check = Callable[[Mapping[str, Any], Any], str | None]
"""Is given the arguments and the result of a call; returns what is wrong with it, if anything."""


@dataclasses.dataclass
class Call:
    """A function and its arguments, by name.

    Attributes
    ----------
    function : callable
    arguments : dict
    check : callable, optional
        Looks at the result; NaN is looked for in any case.
    nan : bool
        Whether NaN has a meaning in the result.
    kept : tuple of str
        Arguments that are never spoilt.
    owner : str
        The argument whose method is called: it stays a function of the library.
    """

    function: Callable[..., Any]
    arguments: dict[str, Any]
    check: Check | None = None
    nan: bool = False
    kept: tuple[str, ...] = ()
    owner: str = ""
    spoilt: tuple[str, ...] = ()

    def spoil(self, rng: Rng) -> Call:
        """Return the call with one to three arguments replaced."""
        names = [name for name in self.arguments if name not in self.kept]
        count = min(len(names), 1 + int(rng.integers(4) == 0) + int(rng.integers(8) == 0))
        chosen = [names[i] for i in rng.permutation(len(names))[:count]]
        arguments = dict(self.arguments)
        for name in chosen:
            arguments[name] = (
                hostile_function(rng, arguments[name].n)
                if name == self.owner
                else spoil(rng, name, arguments[name])
            )
        return dataclasses.replace(self, arguments=arguments, spoilt=tuple(chosen))

    def describe(self) -> str:
        """Return the call, with the arguments that were spoilt marked."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        lines = [
            f"  {'!' if key in self.spoilt else ' '} {key} = {shorten(value, 400)}"
            + (f" {value.dtype}{value.shape}" if isinstance(value, np.ndarray) else "")
            for key, value in self.arguments.items()
        ]
        return "\n".join([name, *lines])

    def run(self) -> Verdict:
        """Make the call; NaN in the result, or what the check says, is wrong."""
        result = self.function(**self.arguments)
        if not self.nan and has_nan(result):
            return Verdict(WRONG, f"NaN in {shorten(result)}")
        complaint = None if self.check is None else self.check(self.arguments, result)
        return Verdict(RESULT) if complaint is None else Verdict(WRONG, complaint)


Maker = Callable[[Rng], Call]


def target(maker: Maker) -> Callable[..., Call]:
    """Return what makes a case of a target: a call as it should be, or with spoilt arguments."""

    def make(rng: Rng, intact: bool) -> Call:
        call = maker(rng)
        return call if intact else call.spoil(rng)

    return make


def has_nan(value: Any) -> bool:
    """Return whether there is a NaN anywhere in a result."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, tuple | list):
        return any(has_nan(part) for part in value)
    if isinstance(value, dict):
        return any(has_nan(part) for part in value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(has_nan(part) for part in vars(value).values())
    return False
