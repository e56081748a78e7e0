"""Memory that a solver call needs, computed before any work."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from logsuper._base import SMALL, as_text, require_memory

_REMEDY = (
    "solve fewer problems at a time, smaller images or tiles of them, on fewer threads (n_jobs), "
    "or allow more (memory_limit)"
)
# Bytes per edge while a list of edges is built: sorted, numbered, copied into the kernel.
_PER_EDGE = 150.0


class Workspace:
    """Memory that calls of a kernel need."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._most = kernel.workspace(1, False, False)[1]

    @contextlib.contextmanager
    def granted(
        self,
        what: str,
        arrays: float,
        memory_limit: int | None,
        threads: int,
        wide: bool = False,
        min_norm: bool = False,
    ) -> Iterator[int]:
        """Yield the bytes left for the kernel's workspace; raise a MemoryError if too few.

        A MemoryError of the kernel inside is raised again in terms of the caller's call.

        Parameters
        ----------
        what : str
            The name of the call.
        arrays : float
            Bytes of its results and of its copies of arguments.
        memory_limit : int or None
        threads : int
            Number of threads that can be used.
        wide, min_norm : bool
            Whether 64-bit integers are used from the start; whether min-norm points are computed.
        """
        limit = None
        # most calls are too small to ask the kernel or the system
        if memory_limit is not None or arrays + threads * self._most >= SMALL:
            least, most = self._kernel.workspace(max(1, threads), wide, min_norm)
            limit = require_memory(arrays + least, memory_limit, what, _REMEDY, arrays + most)
        try:
            yield sys.maxsize if limit is None else max(0, int(limit - arrays))
        except MemoryError:
            most = arrays + max(1, threads) * self._most
            raise MemoryError(
                f"{what} needs up to {as_text(most)} of memory and found less: {_REMEDY}; if theta "
                "and the weights of f have similar magnitudes, a third of that is enough"
            ) from None


def require_arrays(what: str, size: float, memory_limit: int | None) -> None:
    """Raise a MemoryError for a call whose arrays do not fit."""
    require_memory(size, memory_limit, what, _REMEDY)


def require_edges(count: int, memory_limit: int | None) -> None:
    """Raise a MemoryError for functions whose list of edges does not fit."""
    require_memory(
        _PER_EDGE * count,
        memory_limit,
        f"a graph of {count} edges",
        "use grid_cuts for images and volumes, a smaller graph, or allow more (memory_limit)",
    )
