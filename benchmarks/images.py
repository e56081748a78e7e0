"""Silhouettes for the benchmarks: from a folder, or those that ship with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from logsuper.datasets import load_weizmann, make_silhouettes


def load_silhouettes(data: Path | None, count: int, size: int = 50) -> np.ndarray:
    """Return images (count, size, size) of 0 and 1.

    With `data`, the last `count` pictures of ``weizmann_horse_db/figure_ground``, prepared as
    `load_weizmann` does by default.
    """
    if data is None:
        return make_silhouettes(count, shape=(size, size), seed=0)
    try:
        return load_weizmann(data, (size, size)).images[-count:]
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from None
