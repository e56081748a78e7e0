"""The compiled kernels: the fastest version that this machine supports, if any was built."""

from __future__ import annotations

import functools
import importlib
import warnings
from types import ModuleType


@functools.cache
def kernels() -> ModuleType | None:
    """Return the compiled module, or None (after one warning) if it was not built."""
    try:
        baseline = importlib.import_module("logsuper._kernels")
    except ImportError:
        warnings.warn(
            "logsuper was installed without its compiled kernels; scipy's much slower max-flow is "
            "used instead. Install a C++ compiler, then reinstall logsuper.",
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
