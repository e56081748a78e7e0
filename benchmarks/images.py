"""Silhouettes to measure on: a folder of the user's, or those that ship with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from logsuper.datasets import make_silhouettes


def load_silhouettes(data: Path | None, count: int, size: int = 50) -> np.ndarray:
    """Return images (count, size, size) of 0 and 1.

    With `data`, the last `count` pictures of ``weizmann_horse_db/figure_ground``: grey, resized by
    a box filter, cut at one half.
    """
    if data is None:
        return make_silhouettes(count, shape=(size, size), seed=0)
    folder = data / "weizmann_horse_db" / "figure_ground"
    paths = sorted(folder.glob("*.jpg"))[-count:]
    if not paths:
        raise SystemExit(f"no pictures in {folder}")
    grey = [
        np.asarray(Image.open(path).convert("L").resize((size, size), Image.Resampling.BOX))
        for path in paths
    ]
    return (np.stack(grey) > 127.5).astype(np.uint8)
