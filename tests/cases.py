"""Many small cases in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of the values of an argument, as `parametrize` does, but as one test.

    A test of its own costs some milliseconds, more than most cases take. Every case is run: the
    error at the end has those of all that failed. Cases share the fixtures of the test.
    """
    values = list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**given: Any) -> None:
            failed, skipped = [], []
            for value in values:
                try:
                    test(**given, **{name: value})
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"{name} = {value!r}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(values)} cases failed", failed)
            if len(skipped) == len(values):
                raise skipped[0]

        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name != name]
        assert len(others) < len(signature.parameters) and values
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate
