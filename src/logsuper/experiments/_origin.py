"""Which state of the source is running, if it runs from a clone of it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import logsuper

__all__ = ["commit", "source"]


def commit(package: Path | None = None) -> str | None:
    """Return the commit that is checked out where the package lies; None outside of a clone.

    Parameters
    ----------
    package : path, optional
        The folder of the package; that of this one by default.

    Returns
    -------
    str or None
        Forty hexadecimal digits. Changes that are not committed are not seen.
    """
    start = (Path(logsuper.__file__).parent if package is None else package).resolve()
    for root in start.parents:
        # an environment within a clone is fine, one within somebody else's repository is not
        if (root / ".git").exists() and (root / "src" / "logsuper" / "__init__.py").exists():
            try:
                return _head(root / ".git")
            except (OSError, UnicodeDecodeError):
                return None
    return None


@functools.cache
def source() -> str:
    """Return a checksum of the Python source of the package."""
    root = Path(logsuper.__file__).parent
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        total.update(file.relative_to(root).as_posix().encode() + b"\0")
        total.update(file.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def _head(git: Path) -> str | None:
    """Return what HEAD points to."""
    if git.is_file():  # a work tree, or a submodule, says where its folder is
        git = git.parent / _read(git).removeprefix("gitdir:").strip()
    head = _read(git / "HEAD")
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    common = git / _read(shared) if shared.exists() else git
    for folder in (git, common):
        if (folder / name).exists():
            return _read(folder / name)
    packed = common / "packed-refs"
    for line in _read(packed).splitlines() if packed.exists() else ():
        digits, _, reference = line.partition(" ")
        if reference == name:
            return digits
    return None


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()
