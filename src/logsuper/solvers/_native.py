"""The compiled kernels: the best ones that this machine can run, if there are any."""

from __future__ import annotations

import functools
import importlib
import warnings
from types import ModuleType


@functools.cache
def kernels() -> ModuleType | None:
    """Return the compiled module, or None (after one warning) where it was not built."""
    try:
        baseline = importlib.import_module("logsuper._kernels")
    except ImportError:
        warnings.warn(
            "logsuper was installed without its compiled kernels; a much slower max-flow from "
            "scipy takes over. Install a C++ compiler, then reinstall logsuper.",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    if baseline.has_avx2():
        try:
            return importlib.import_module("logsuper._kernels_avx2")
        except ImportError:
            pass
    return baseline
