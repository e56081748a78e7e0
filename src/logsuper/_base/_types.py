"""Types and constants that all rooms speak of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EPS = 2.0**-52
"""From 1 to the next float64: a sum of m numbers of one sign is off by less than m times this."""
