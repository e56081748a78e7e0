"""Which code is running: the commit, if it runs from a clone, and a checksum in any case."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np
import scipy
import sklearn

import logsuper
from logsuper.solvers import kernels

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
    """Return a checksum of all code that numbers depend on.

    That is the Python source of the package, its compiled kernels if they are in use, and the
    versions of the libraries that compute. A number that was stored under another one is computed
    again.
    """
    total = hashlib.sha256(repr(_libraries()).encode())
    root = Path(logsuper.__file__).parent
    module = kernels()
    compiled = [] if module is None else [Path(str(module.__file__))]
    for file in [*sorted(root.rglob("*.py")), *compiled]:
        content = file.read_bytes()
        # each with its name and length, so that no two trees look the same
        total.update(f"{file.name} {file.parent.name} {len(content)}\0".encode() + content)
    return total.hexdigest()[:12]


def _libraries() -> dict[str, str]:
    """Return the versions of the libraries that compute."""
    return {library.__name__: library.__version__ for library in (np, scipy, sklearn)}


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
