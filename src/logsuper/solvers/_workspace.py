"""What a call will take of memory, counted before any work."""

from __future__ import annotations

import sys
from typing import Any

from logsuper._base import SMALL, as_text, require_memory

_REMEDY = (
    "solve fewer problems at a time, smaller images or tiles of them, on fewer threads (n_jobs), "
    "or allow more (memory_limit)"
)
# Bytes per edge while a list of edges is made: sorted, numbered, copied into the kernel.
_PER_EDGE = 150.0


class KernelRoom:
    """The room that calls of a kernel need; a call goes between `limit` and `shortage`."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._most = kernel.workspace(1, False, False)[1]

    def limit(
        self,
        what: str,
        arrays: float,
        memory_limit: int | None,
        threads: int,
        wide: bool = False,
        min_norm: bool = False,
    ) -> int:
        """Refuse a call that cannot fit; return what remains for the work space of the kernel.

        Parameters
        ----------
        what : str
            The name of the call.
        arrays : float
            Bytes of its results, and of the copies that it makes of its arguments.
        memory_limit : int or None
        threads : int
            Workers that can find work.
        wide, min_norm : bool
            Whether the integers are wide from the beginning; whether points of least norm are
            wanted.
        """
        if memory_limit is None and arrays + threads * self._most < SMALL:
            return sys.maxsize  # most calls: nothing is asked, of the kernel or of the system
        least, most = self._kernel.workspace(max(1, threads), wide, min_norm)
        limit = require_memory(arrays + least, memory_limit, what, _REMEDY, arrays + most)
        return sys.maxsize if limit is None else max(0, int(limit - arrays))

    def shortage(self, what: str, arrays: float, threads: int) -> MemoryError:
        """Return the error of a kernel that ran into its limit, in words of the caller."""
        most = arrays + max(1, threads) * self._most
        return MemoryError(
            f"{what} needs up to {as_text(most)} of memory and found less: {_REMEDY}; "
            "numbers of similar magnitude in theta and f take a third of that"
        )


def require_arrays(what: str, size: float, memory_limit: int | None) -> None:
    """Refuse a call whose arrays cannot fit."""
    require_memory(size, memory_limit, what, _REMEDY)


def require_edges(count: int, memory_limit: int | None) -> None:
    """Refuse functions whose list of edges cannot fit."""
    require_memory(
        _PER_EDGE * count,
        memory_limit,
        f"a graph of {count} edges",
        "use grid_cuts for images and volumes, a smaller graph, or allow more (memory_limit)",
    )
