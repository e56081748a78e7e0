"""How much memory there is, and refusing before any work what cannot fit."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["SMALL", "as_text", "available_memory", "check_limit", "require_memory"]

SMALL = 1 << 28
"""Bytes below which the system is not asked what is left: it answers slowly."""

_CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that this process can still have, None where the system does not tell.

    The least of what the machine has free, what the control groups of the process (containers,
    batch systems) leave, and the limit on its address space. Where only the size of the machine is
    known, it is that.

    Examples
    --------
    >>> from logsuper._base._memory import available_memory
    >>> found = available_memory()
    >>> found is None or found > 0
    True
    """
    found = [*_free(), *_left_by_cgroups(), *_left_of_address_space()]
    return max(0, min(found)) if found else None


def check_limit(memory_limit: object) -> int | None:
    """Return a limit in bytes, None for what is available.

    Examples
    --------
    >>> from logsuper._base._memory import check_limit
    >>> check_limit(2e9)
    2000000000
    """
    if memory_limit is None:
        return None
    remedy = "give a number of bytes, as in 2e9, or None for what is available"
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
    """Raise a MemoryError that says what is needed, what there is, and what to do.

    Parameters
    ----------
    needed : float
        Bytes that are needed at least.
    memory_limit : int or None
        Bytes allowed; what is available by default.
    what : str
        What needs them.
    remedy : str
    most : float, optional
        Bytes that may be needed in the end; `needed` by default.

    Returns
    -------
    int or None
        The limit that `most` is to be held to, None if it is so small that it need not be.

    Examples
    --------
    >>> from logsuper._base._memory import require_memory
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
    """Return a number of bytes as people write it.

    Examples
    --------
    >>> from logsuper._base._memory import as_text
    >>> as_text(13_700_000_000), as_text(0)
    ('13.7 GB', '0 bytes')
    """
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{math.ceil(size)} bytes"


def _free() -> Iterator[int]:
    """Yield what the machine has free, or has at all."""
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
    """Yield what each control group above this process leaves, of version 1 and 2.

    Pages of files that can be dropped count as free. A container often sees only its own group, at
    the root, under whatever path: the folders that are missing are passed over.
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
        allowed = int((group / limit).read_text())  # "max" is no number, and no limit
        used = int((group / usage).read_text())
        lines = (line.partition(" ") for line in (group / "memory.stat").read_text().splitlines())
        yield allowed - used + sum(int(size) for name, _, size in lines if name == droppable)
    except (OSError, ValueError):
        return


def _left_of_address_space() -> Iterator[int]:
    """Yield what `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError, AttributeError):
        return
