"""Other processes, where joblib has been told to use some: `joblib.parallel_config`.

Work on many examples is split into parts that stay in the memory of the processes. A part is sent
with its first task. Later tasks only name it, and a process that does not have it, be it another
one or a new one in the place of one that died, says so and is sent it: each part is sent about once
to each process. Answers are put together in the order of the examples, so that they have the same
bits whatever the number of processes is.
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from logsuper._base import IntArray

# Pixels of a part: many milliseconds of work, in which a task of a scheduler is worth one.
_PIXELS = 1 << 14
# Bytes of parts that a process keeps.
_KEPT = 1 << 29

_PARTS: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()


class Part(Protocol):
    """What a process keeps, and works on."""

    def answer(self, *arguments: Any) -> list[Any]:
        """Return arrays with one row per example."""


def count_workers() -> int:
    """Return the number of other processes that joblib would use; 0 without a backend for them.

    Inside a task it is 0, too.
    """
    import joblib  # on first use, as it takes a while
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False) or backend.nesting_level:
        return 0
    return int(joblib.effective_n_jobs(None))


class Team:
    """Processes that answer questions about parts of some examples.

    Parameters
    ----------
    pixels : int
        Of the largest example.
    """

    def __init__(self, pixels: int) -> None:
        self._size = max(1, _PIXELS // max(1, pixels))
        self._name, self._sent = uuid.uuid4().hex, set[str]()

    def split(self, rows: IntArray) -> list[IntArray]:
        """Return the rows of each part, none if it is not worth while or there is no process."""
        if len(rows) < 2 * self._size or count_workers() < 2:
            return []
        return np.array_split(rows, -(-len(rows) // self._size))

    def ask(
        self, chunks: Sequence[IntArray], pack: Callable[[IntArray], Part], *arguments: Any
    ) -> list[Any]:
        """Return the answers of all parts, which `pack` makes, joined."""
        import joblib

        names = [hashlib.sha256(chunk.tobytes()).hexdigest() for chunk in chunks]

        def task(k: int, send: bool) -> Any:
            content = pickle.dumps(pack(chunks[k]), -1) if send else None
            return joblib.delayed(_answer)((self._name, names[k]), content, arguments)

        found = joblib.Parallel()(task(k, name not in self._sent) for k, name in enumerate(names))
        self._sent.update(names)
        absent = [k for k, answer in enumerate(found) if answer is None]
        if absent:
            again = joblib.Parallel()(task(k, True) for k in absent)
            for k, answer in zip(absent, again, strict=True):
                found[k] = answer
        return [np.concatenate(column) for column in zip(*found, strict=True)]


def _answer(key: tuple[str, str], content: bytes | None, arguments: Any) -> list[Any] | None:
    """Return the answer of a part; None if it is not there and was not sent."""
    if content is not None:
        _PARTS[key] = pickle.loads(content), len(content)
        while len(_PARTS) > 1 and sum(size for _, size in _PARTS.values()) > _KEPT:
            _PARTS.popitem(last=False)
    if key not in _PARTS:
        return None
    _PARTS.move_to_end(key)
    part: Part = _PARTS[key][0]
    return part.answer(*arguments)
