"""Versions and commit that a page was made with, and durations as text."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import scipy

import logsuper
from logsuper.solvers import kernels


def versions() -> str:
    """Return the versions that a result may depend on, in one line."""
    found = commit()
    return (
        f"logsuper {logsuper.__version__}{f' (commit {found[:12]})' if found else ''}, "
        f"{'with' if kernels() else 'without'} compiled kernels; Python "
        f"{platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}; "
        f"{os.cpu_count()} processors"
    )


def duration(seconds: float) -> str:
    """Return a duration as readable text."""
    if seconds < 0.1:
        return f"{1e3 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def commit(package: Path | None = None) -> str | None:
    """Return the commit that is checked out in the clone of the package; None outside a clone.

    Parameters
    ----------
    package : path, optional
        The folder of the package; that of this one by default.

    Returns
    -------
    str or None
        Forty hexadecimal digits. Uncommitted changes are not detected.
    """
    start = (Path(logsuper.__file__).parent if package is None else package).resolve()
    for root in start.parents:
        # an environment inside a clone of logsuper counts, one inside another repository does not
        if (root / ".git").exists() and (root / "src" / "logsuper" / "__init__.py").exists():
            # only the target of HEAD is read, so that a folder of another owner is safe
            command = ["git", "-C", str(root), "-c", "safe.directory=*", "rev-parse", "HEAD"]
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                return done.stdout.strip()
            return None
    return None
