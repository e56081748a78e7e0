"""Signs of life: long loops call `beat`, and who started the work decides what comes of it.

Loops need no argument for it, however deep they lie below the fit whose callback is to be called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[], None] | None] = ContextVar("listener", default=None)


def beat() -> None:
    """Say that a loop has done a part of its work, well below a second of it."""
    listener = _LISTENER.get()
    if listener is not None:
        listener()


@contextlib.contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Call a listener at each `beat` inside; one further out hears nothing meanwhile."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
