"""The number of threads of a call."""

from __future__ import annotations

import os

from logsuper._base._checks import check_integer


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: None means 1, -1 all processors, -2 all but one, and so on."""
    if n_jobs is None:
        return 1
    number = check_integer(n_jobs, "n_jobs", -(2**31), 2**31)
    if number == 0:
        raise ValueError("n_jobs must not be 0; use -1 for all processors")
    affinity = getattr(os, "sched_getaffinity", None)
    available = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    # more threads than processors only cost memory
    return min(number, available) if number > 0 else max(1, available + 1 + number)
