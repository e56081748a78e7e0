"""What was observed where x is known: the statistics that channels are estimated from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray
from logsuper.channels._checks import as_observed


def count_pairs(
    noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike], *, both: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return how many observations there are of zeros and of ones, and their means, (2,) each.

    With `both`, refuse images that have labels of one kind only.
    """
    seen, mean = np.zeros(2), np.zeros(2)
    for value, part in by_label(noisy, clean):
        seen[value] += part.size
        # running means: sums of squares would cancel, or overflow, far from 0
        mean[value] += np.sum((part - mean[value]) / max(seen[value], 1.0))
    if not seen.any():
        raise ValueError("clean has no label on a pixel that noisy observes; give noise a value")
    if both and not seen.all():
        raise ValueError(
            f"clean has no {'ones' if seen[0] else 'zeros'}, so that their noise cannot be "
            "counted; give noise as a channel"
        )
    return seen, mean


def by_label(
    noisy: Sequence[ArrayLike], clean: Sequence[ArrayLike]
) -> Iterator[tuple[int, FloatArray]]:
    """Yield, image by image, what was observed where x = 0 and where x = 1."""
    for i, (image, labels) in enumerate(zip(noisy, clean, strict=True)):
        z, x = as_observed(image, f"noisy[{i}]"), np.asarray(labels)
        if z.shape != x.shape:
            raise ValueError(f"noisy[{i}] has shape {z.shape}, but clean[{i}] has {x.shape}")
        for value in (0, 1):
            part = z[x == value]
            yield value, part[~np.isnan(part)]
