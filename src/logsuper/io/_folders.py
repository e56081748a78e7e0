"""Folders that appear whole or not at all, for zarr stores."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_folder"]

# Names of temporary folders, with the number of the process that made them.
_PART = re.compile(r"\.[0-9a-f]{16}\.(\d+)\.logsuper\.parts")


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new, empty folder, which gets its name only if no exception is raised.

    It replaces a folder that is there. Temporary folders of killed processes are removed.

    Parameters
    ----------
    path : str or path
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_orphans(target.parent)
    part, old = (_new_name(target.parent) for _ in range(2))
    part.mkdir()
    try:
        yield part
        if target.exists():
            os.replace(target, old)
        os.replace(part, target)
    finally:
        for folder in (part, old):
            shutil.rmtree(folder, ignore_errors=True)


def _new_name(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.{os.getpid()}.logsuper.parts"


def _remove_orphans(folder: Path) -> None:
    for entry in list(os.scandir(folder)):
        found = _PART.fullmatch(entry.name)
        if found is not None and not _is_running(int(found[1])):
            shutil.rmtree(entry.path, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether a process of this machine is there, as far as can be told."""
    if os.name != "posix":
        return True  # on Windows a signal would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
