"""Figures about cleaned files: sums per file, and shares over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.cli._observed import Observed
    from logsuper.estimators import MaskDenoiser


def measure(
    denoiser: MaskDenoiser, seen: Observed, mask: NDArray[Any], chance: NDArray[Any]
) -> dict[str, Any]:
    """Return sums over the pixels of a file, from which shares in all files are made."""
    import numpy as np
    from scipy.special import expit

    alone, noisy_pairs, pairs, noisy_differ, differ = 0.0, 0, 0, 0, 0
    observed, changed = 0, 0
    for part, clean in zip(seen.parts, mask if len(seen.parts) > 1 else [mask], strict=True):
        clean = np.asarray(clean).reshape(part.shape) > 0
        odds = denoiser.channel_.log_odds(part)
        there = part == part
        observed += int(np.count_nonzero(there))
        alone += float(expit(-np.abs(odds[there])).sum())
        guess = odds > 0
        changed += int(np.count_nonzero((guess != clean) & there))
        for axis in range(part.ndim):
            before, after = (np.diff(x.astype(np.int8), axis=axis) != 0 for x in (guess, clean))
            both = _pairs_seen(there, axis)
            noisy_pairs += int(np.count_nonzero(both))
            noisy_differ += int(np.count_nonzero(before & both))
            pairs += after.size
            differ += int(np.count_nonzero(after))
    return {
        "shape": list(seen.shape),
        "pixels": seen.size,
        "observed": observed,
        "changed": changed,
        "ones": int(np.count_nonzero(mask)),
        "wrong_before": alone,
        "wrong_after": float(np.minimum(chance, 1.0 - chance).sum()),
        "pairs": pairs,
        "pairs_differ": differ,
        "noisy_pairs": noisy_pairs,
        "noisy_pairs_differ": noisy_differ,
        "cut": seen.cut,
    }


def _pairs_seen(there: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return which pairs of neighbours along an axis were both observed."""
    import numpy as np

    first = np.take(there, range(there.shape[axis] - 1), axis=axis)
    second = np.take(there, range(1, there.shape[axis]), axis=axis)
    return np.asarray(first & second)


def total(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return shares over all pixels of all files, given the sums of each."""

    def add(name: str) -> float:
        numbers = (figures.get(name, 0) for figures in files)
        # figures of an earlier run come from a file, which may have been edited
        return float(sum(n for n in numbers if isinstance(n, int | float)))

    pixels, observed = add("pixels"), add("observed")
    if not pixels:
        return {}
    shares = {
        "pixels": int(pixels),
        "missing": 1.0 - observed / pixels,
        "changed": add("changed") / max(observed, 1.0),
        "wrong_before": add("wrong_before") / max(observed, 1.0),
        "wrong_after": add("wrong_after") / pixels,
        "neighbours_differ_before": add("noisy_pairs_differ") / max(add("noisy_pairs"), 1.0),
        "neighbours_differ_after": add("pairs_differ") / max(add("pairs"), 1.0),
    }
    if any("uncertain" in figures for figures in files):
        shares["uncertain"] = add("uncertain") / pixels
    return shares
