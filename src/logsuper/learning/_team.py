"""Other processes, where joblib has been told to use some: `joblib.parallel_config`.

Work on many examples is split into parts that stay in the memory of the processes. A part is sent
with its first task. Later tasks only name it, and a process that does not have it, be it another
one or a new one in the place of one that died, says so and is sent it. On a cluster of Dask a part
has an anchor, a tiny result that its tasks depend on and go to: each process works on its own
parts, and idle ones help. Elsewhere each part is sent about once to each process. Answers are put
together in the order of the examples, so that they have the same bits whatever the number of
processes is.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from logsuper._base import IntArray

# Least and most pixels of a part. A task takes a scheduler a few milliseconds, and a process holds
# a few parts while they are packed.
_PIXELS, _MOST_PIXELS = 1 << 14, 1 << 22
# Parts per process: one that is slow, or has died, leaves little to do to the others, and at the
# end of a pass a process waits for half a part.
_PARTS_EACH = 8
# Seconds of work from which it is worth while: messages take a tenth of that, and memory is slower
# in workers that return it to the system at once, as those of Dask do.
_LEAST_SECONDS = 0.3
# Bytes of parts that a process keeps.
_KEPT = 1 << 29

_HELD: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()


class Part(Protocol):
    """What a process keeps, and works on."""

    def answer(self, *arguments: Any) -> list[Any]:
        """Return arrays with one row per example."""


def count_workers() -> int:
    """Return the number of other processes that joblib would use; 0 without a backend for them."""
    import joblib

    backend = _find_backend()
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
        self._sizes = [max(1, count // max(1, pixels)) for count in (_PIXELS, _MOST_PIXELS)]
        self._name, self._sent = uuid.uuid4().hex, set[str]()
        self._anchors = dict[str, Any]()
        self._pace: float | None = None

    def split(self, rows: IntArray) -> list[IntArray]:
        """Return the rows of each part, none if they are too few or there is no process."""
        least, most = self._sizes
        if len(rows) < 2 * least or (workers := count_workers()) < 2:
            return []
        wanted = min(_PARTS_EACH * workers, -(-len(rows) // least))
        return np.array_split(rows, max(wanted, -(-len(rows) // most)))

    def is_worth_while(self, rows: IntArray, attempt: Callable[[IntArray], None]) -> bool:
        """Return whether the work takes long; the first time, a small part of it is timed here."""
        if self._pace is None:
            some = rows[: self._sizes[0]]
            start = time.perf_counter()
            attempt(some)
            self._pace = (time.perf_counter() - start) / len(some)
        return self._pace * len(rows) >= _LEAST_SECONDS

    def ask(
        self, chunks: Sequence[IntArray], pack: Callable[[IntArray], Part], *arguments: Any
    ) -> list[Any]:
        """Return the answers of all parts, which `pack` makes, joined."""
        import joblib

        names = [hashlib.sha256(chunk.tobytes()).hexdigest() for chunk in chunks]

        def task(k: int, send: bool) -> Any:
            content = pickle.dumps(pack(chunks[k]), -1) if send else None
            key, anchor = (self._name, names[k]), self._anchors.get(names[k])
            return joblib.delayed(_answer)(key, content, arguments, anchor)

        self._cast_anchors(names)
        known = self._sent.issuperset(names)
        # not in batches, whose size joblib guesses, and which are a large part of a pass; only
        # tasks without content wait all at once
        parallel = joblib.Parallel(batch_size=1, pre_dispatch="all" if known else "2 * n_jobs")
        found = parallel(task(k, name not in self._sent) for k, name in enumerate(names))
        self._sent.update(names)
        absent = [k for k, answer in enumerate(found) if answer is None]
        if absent:
            again = joblib.Parallel(batch_size=1)(task(k, True) for k in absent)
            for k, answer in zip(absent, again, strict=True):
                found[k] = answer
        return [np.concatenate(column) for column in zip(*found, strict=True)]

    def _cast_anchors(self, names: Sequence[str]) -> None:
        """Divide new parts among the workers of Dask, if there are any."""
        client = getattr(_find_backend(), "client", None)
        if client is None:
            return
        workers = sorted(client.ncores())
        for k, name in enumerate(name for name in names if name not in self._anchors):
            key, place = f"anchor-{self._name}-{name}", workers[k % len(workers)]
            self._anchors[name] = client.submit(
                str, name, key=key, workers=[place], allow_other_workers=True
            )


def _find_backend() -> Any:
    from joblib.parallel import get_active_backend  # on first use, as it takes a while

    return get_active_backend(prefer="threads")[0]


def _answer(
    key: tuple[str, str], content: bytes | None, arguments: Any, anchor: str | None
) -> list[Any] | None:
    """Return the answer of a part; None if it is not there and was not sent."""
    if content is not None:
        _HELD[key] = pickle.loads(content), len(content)
        while len(_HELD) > 1 and sum(size for _, size in _HELD.values()) > _KEPT:
            _HELD.popitem(last=False)
    if key not in _HELD:
        return None
    _HELD.move_to_end(key)
    part: Part = _HELD[key][0]
    return part.answer(*arguments)
