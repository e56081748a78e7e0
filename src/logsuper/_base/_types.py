"""Types and constants shared by all rooms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Bits = NDArray[np.uint8]
"""Labels, 0 or 1."""

EPS = 2.0**-52
"""Spacing of float64 at 1; a sum of m numbers of one sign has relative error below m * EPS."""
