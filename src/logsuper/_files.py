"""Writing files so that a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when all went well.

    The bytes go to a temporary file in the same folder, which is renamed over `path` at the end.
    After an exception, or a crash, `path` is what it was before. Missing parent folders are made.

    Parameters
    ----------
    path : str or path
        Where the file shall appear. A symbolic link is followed: what it points to is replaced.

    Yields
    ------
    BinaryIO
        The open file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "new" / "note.txt") as file:
    ...         _ = file.write(b"all or nothing")
    ...     (Path(folder) / "new" / "note.txt").read_text()
    'all or nothing'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(f"path: {target} is a folder; give the name of a file in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are private to the owner, and would stay so after the rename.
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
