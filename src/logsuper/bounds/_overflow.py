"""Numbers whose sums no float64 holds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logsuper._base import FloatArray
from logsuper.functions import SubmodularFunction


def refuse_overflow(f: SubmodularFunction, parts: Iterable[FloatArray]) -> None:
    """Raise if a sum of the parts of f, each taken a few times, might overflow."""
    size = sum(float(np.abs(part).max(initial=0.0)) * len(part) for part in parts)
    if not size < 1e300:
        raise ValueError(f"the numbers in {f!r} are so large that their sums overflow; rescale f")
