"""Available memory, and errors raised before any work for calls that would not fit."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterator
from pathlib import Path

SMALL = 1 << 28
"""Requests below this size (bytes) are granted without asking the system, which is slow."""

_CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the number of bytes this process can still allocate, or None if it is unknown.

    This is the minimum of the free memory of the machine, the memory left by the control groups of
    the process (containers, batch systems), and the remaining address space. If the system does
    not report its free memory, the total memory of the machine is used.

    Examples
    --------
    >>> found = available_memory()
    >>> found is None or found > 0
    True
    """
    found = [*_free(), *_left_by_cgroups(), *_left_of_address_space()]
    return max(0, min(found)) if found else None


def check_limit(memory_limit: object) -> int | None:
    """Return a limit in bytes; None stands for the available memory.

    Examples
    --------
    >>> check_limit(2e9)
    2000000000
    """
    if memory_limit is None:
        return None
    remedy = "give a number of bytes, as in 2e9, or None for the available memory"
    if isinstance(memory_limit, bool | str | bytes):
        raise TypeError(f"memory_limit = {memory_limit!r}: {remedy}")
    try:
        if isinstance(memory_limit, float):
            if not memory_limit >= 0:  # NaN too
                raise ValueError(f"memory_limit = {memory_limit!r}: {remedy}")
            return sys.maxsize if memory_limit >= sys.maxsize else int(memory_limit)
        number = operator.index(memory_limit)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"memory_limit is a {type(memory_limit).__name__}, not a number: {remedy}"
        ) from None
    if number < 0:
        raise ValueError(f"memory_limit = {number}: {remedy}")
    return min(number, sys.maxsize)


def require_memory(
    needed: float, memory_limit: int | None, what: str, remedy: str, most: float | None = None
) -> int | None:
    """Raise a MemoryError if a call needs more memory than there is.

    Parameters
    ----------
    needed : float
        Minimum number of bytes needed.
    memory_limit : int or None
        Number of bytes allowed; the available memory by default.
    what : str
        Name of the call or object that needs the memory.
    remedy : str
        Advice for the error message.
    most : float, optional
        Maximum number of bytes that may be needed; `needed` by default.

    Returns
    -------
    int or None
        Limit in bytes that the caller must enforce; None if `most` is too small to matter.

    Examples
    --------
    >>> require_memory(3e9, 1_000_000_000, "maximize", "use fewer threads")
    Traceback (most recent call last):
        ...
    MemoryError: maximize needs 3 GB of memory and memory_limit is 1 GB: use fewer threads
    """
    if memory_limit is None and max(needed, most or 0.0) < SMALL:
        return None
    limit = available_memory() if memory_limit is None else memory_limit
    if limit is not None and needed > limit:
        there = "memory_limit is" if memory_limit is not None else "available are"
        raise MemoryError(
            f"{what} needs {as_text(needed)} of memory and {there} {as_text(limit)}: {remedy}"
        )
    return limit


def as_text(size: float) -> str:
    """Return a number of bytes as text with a unit.

    Examples
    --------
    >>> as_text(13_700_000_000), as_text(0)
    ('13.7 GB', '0 bytes')
    """
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{math.ceil(size)} bytes"


def _free() -> Iterator[int]:
    """Yield the free memory of the machine in bytes, or its total memory if that is all known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024 * int(line.split()[1])
                return
    except (OSError, ValueError, IndexError):
        pass
    if sys.platform == "win32":
        yield from _free_on_windows()
        return
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        pass


def _free_on_windows() -> Iterator[int]:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "pages", "free_pages")),
            *((name, ctypes.c_ulonglong) for name in ("virtual", "free_virtual", "extended")),
        )

    status = Status()
    status.length = ctypes.sizeof(status)
    if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):  # type: ignore[attr-defined]
        yield int(status.free)


def _left_by_cgroups(
    root: Path = _CGROUPS, membership: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """Yield the bytes left by each control group of this process and its parents (v1 and v2).

    File pages that the system can drop count as free. A container often sees only its own group,
    mounted at the root whatever its path is, so missing folders are skipped.
    """
    try:
        entries = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return
    for entry in entries:
        if len(entry) != 3:
            continue
        if entry[1] == "":
            top, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in entry[1].split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            top = root / "memory"
        else:
            continue
        folder = top / entry[2].lstrip("/")
        for group in (folder, *folder.parents):
            if group.is_relative_to(top):
                yield from _left_by_group(group, *names)


def _left_by_group(group: Path, limit: str, usage: str, droppable: str) -> Iterator[int]:
    try:
        allowed = int((group / limit).read_text())  # "max" (no limit) raises ValueError
        used = int((group / usage).read_text())
        lines = (line.partition(" ") for line in (group / "memory.stat").read_text().splitlines())
        yield allowed - used + sum(int(size) for name, _, size in lines if name == droppable)
    except (OSError, ValueError):
        return


def _left_of_address_space() -> Iterator[int]:
    """Yield the bytes of address space left under `ulimit -v`."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError, AttributeError):
        return
