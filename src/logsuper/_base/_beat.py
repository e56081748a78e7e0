"""Progress signals: long loops call `beat`, and the caller that started the work listens.

The loops need no argument for this, however deep below the caller they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[], None] | None] = ContextVar("listener", default=None)


def beat() -> None:
    """Signal that a loop has done a part of its work, which takes well below a second."""
    listener = _LISTENER.get()
    if listener is not None:
        listener()


@contextlib.contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Call a listener at each `beat` inside the context, instead of an outer listener."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
