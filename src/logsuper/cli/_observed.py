"""What a file says about a mask: zeros and ones, or grey levels, with missing pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logsuper.io import ImageInfo

# Levels of an image that is neither a mask nor grey: labels, or a mask with a mark for "missing".
_FEW = 4
# Of three levels one is far away if the gap to it is this many times the other gap.
_FAR = 20.0
# A grey image is a mask with soft borders if this share of its pixels is within an eighth of black
# or of white, and both are there; each has at least a share of a thousandth.
_NEARLY_ALL, _END, _BOTH = 0.95, 0.125, 0.001


@dataclasses.dataclass(frozen=True)
class Reading:
    """How files become observations.

    Attributes
    ----------
    threshold : float, "otsu" or None
        Where grey levels are cut, from 0 (black) to 1 (white); None to keep them.
    missing : see `logsuper.io.read_image`
    volume : {"slices", "whole"}
    can_cut : bool
        Whether the command has an option for the threshold, which messages may name.
    """

    threshold: float | str | None = None
    missing: Any = None
    volume: str = "slices"
    can_cut: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Reading:
        """Return what a user has asked for."""
        return cls(options["threshold"], options["missing"], options["volume"])


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """The observations of one file.

    Attributes
    ----------
    parts : list of ndarray
        Images, or one volume: 0 and 1, or grey levels from 0 to 1; NaN where missing.
    shape : tuple of int
        Of the whole file.
    dtype : dtype
        Of its pixels.
    levels : tuple
        What 0 and 1 are in the file.
    binary : bool
    cut : bool
        Whether it was cut at one half, as a mask with soft borders.
    palette : ndarray, optional
        Colours that its pixels are numbers of.
    """

    parts: list[NDArray[Any]]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    levels: tuple[Any, Any]
    binary: bool
    cut: bool = False
    palette: NDArray[np.uint8] | None = None

    @property
    def size(self) -> int:
        """Number of pixels."""
        return sum(part.size for part in self.parts)

    def assemble(self, parts: list[NDArray[Any]]) -> NDArray[Any]:
        """Return what was found for each part as one array of the shape of the file."""
        import numpy as np

        return np.asarray(parts[0] if len(parts) == 1 else np.stack(parts)).reshape(self.shape)

    def as_pixels(self, mask: NDArray[Any]) -> NDArray[Any]:
        """Return a mask of zeros and ones with the levels and the type of the file."""
        import numpy as np

        low, high = self.levels
        pixels = np.where(mask > 0, self.dtype.type(high), self.dtype.type(low))
        return np.asarray(pixels, dtype=self.dtype)


def read_observed(path: Path, info: ImageInfo, rules: Reading) -> Observed:
    """Read a file; raise a ValueError, or an OSError, if that is not possible.

    Parameters
    ----------
    path : Path
    info : ImageInfo
        Of the file.
    rules : Reading
    """
    import numpy as np

    from logsuper.io import read_mask

    pixels, pair, palette = read_mask(path, rules.missing)
    values, gone = np.ma.getdata(pixels), np.ma.getmaskarray(pixels)
    if values.dtype.kind == "f":
        gone = gone | np.isnan(values)
        if np.isinf(np.where(gone, values.dtype.type(0), values)).any():
            raise ValueError(f"{path}: has infinite pixels; missing ones are NaN, or --missing inf")
    elif not isinstance(rules.threshold, str | None) and not 0.0 <= rules.threshold <= 1.0:
        white = _white(values.dtype)
        raise ValueError(
            f"{path}: --threshold {rules.threshold:g} is not a share of white, from 0 to 1; "
            f"{rules.threshold:g} of {white} is {rules.threshold / float(white):.3g}"
        )
    if rules.volume == "whole" and values.ndim != 3:
        raise ValueError(f"{path}: is an image, not a volume; leave out --volume whole")
    if gone.all():
        raise ValueError(f"{path}: has no pixel that is not missing")
    levels = _two_levels(values, gone)
    cut = False
    if pair is not None:
        ones, levels = values == pair[1], (values.dtype.type(pair[0]), values.dtype.type(pair[1]))
    elif levels is not None:
        ones = values == levels[1]
        if levels[0] == levels[1]:  # black is zero, any other single level is one
            ones, levels = values != 0, (values.dtype.type(0), levels[1] or _white(values.dtype))
    else:
        levels = (values.dtype.type(0), _white(values.dtype))
        grey = _as_grey(path, values, gone, rules)
        cut = rules.threshold is None and _is_soft(grey[~gone])
        if not cut and rules.threshold is None:
            return _observed(rules, np.where(gone, np.nan, grey), values.dtype, levels, False)
        ones = grey > _level(grey[~gone], 0.5 if cut else rules.threshold)
    zeros_and_ones = ones.astype(np.uint8)
    seen = np.where(gone, np.nan, zeros_and_ones) if gone.any() else zeros_and_ones
    return _observed(rules, seen, values.dtype, levels, True, cut, palette)


def _observed(
    rules: Reading,
    seen: NDArray[Any],
    dtype: np.dtype[Any],
    levels: tuple[Any, Any],
    binary: bool,
    cut: bool = False,
    palette: NDArray[np.uint8] | None = None,
) -> Observed:
    parts = list(seen) if seen.ndim == 3 and rules.volume == "slices" else [seen]
    return Observed(parts, seen.shape, dtype, levels, binary, cut, palette)


def _two_levels(values: NDArray[Any], gone: NDArray[Any]) -> tuple[Any, Any] | None:
    """Return the lower and the higher level of a mask; the same twice if it has only one."""
    seen = values[~gone] if gone.any() else values
    low, high = seen.min(), seen.max()
    return (low, high) if bool(((seen == low) | (seen == high)).all()) else None


def _white(dtype: np.dtype[Any]) -> Any:
    """Return white in a type of pixels."""
    import numpy as np

    if dtype.kind in "iu":
        return dtype.type(min(int(np.iinfo(dtype).max), 65535) if dtype.itemsize > 1 else 255)
    return dtype.type(1)


def _as_grey(
    path: Path, values: NDArray[Any], gone: NDArray[Any], rules: Reading
) -> NDArray[np.float32]:
    """Return grey levels from 0 to 1; numbers in floating point stay what they are."""
    import numpy as np

    found = np.unique(values[~gone])
    if len(found) <= _FEW:
        *first, last = (str(level) for level in found)
        remedies = ["say where to cut them (--threshold)"] if rules.can_cut else []
        if len(found) == 3 and rules.missing is None:
            which = "which one is missing" if remedies else "say which one is missing"
            remedies.append(f"{which}, as in --missing {_odd_one(found)}")
        remedy = ", or ".join(remedies) or "convert it to two"
        raise ValueError(
            f"{path}: has the {len(found)} levels {', '.join(first)} and {last}; a mask has two: "
            f"{remedy}"
        )
    if values.dtype.kind == "f":
        return np.where(gone, values.dtype.type(0), values).astype(np.float32)
    return (values / float(_white(values.dtype))).astype(np.float32)


def _odd_one(levels: NDArray[Any]) -> str:
    """Return which of three levels may well be missing: one that is far away, else the middle."""
    low, middle, high = (float(level) for level in levels)
    below, above = middle - low, high - middle
    place = 0 if below > _FAR * above else 2 if above > _FAR * below else 1
    return str(levels[place])


def _is_soft(grey: NDArray[Any]) -> bool:
    """Return whether grey levels are those of a mask whose borders were softened or compressed."""
    black, white = float((grey < _END).mean()), float((grey > 1.0 - _END).mean())
    return black + white >= _NEARLY_ALL and min(black, white) >= _BOTH


def _level(grey: NDArray[Any], threshold: float | str | None) -> float:
    """Return where grey levels are cut."""
    return _otsu(grey) if threshold == "otsu" else float(threshold or 0.0)


def _otsu(grey: NDArray[Any]) -> float:
    """Return the level that separates two classes best (Otsu, 1979), from 256 bins."""
    import numpy as np

    counts, edges = np.histogram(grey, bins=256)
    middle = (edges[:-1] + edges[1:]) / 2.0
    below = np.cumsum(counts)[:-1]
    above = counts.sum() - below
    sums = np.cumsum(counts * middle)
    means = sums[:-1] / np.maximum(below, 1), (sums[-1] - sums[:-1]) / np.maximum(above, 1)
    between = below * above * (means[0] - means[1]) ** 2
    best = np.flatnonzero(between == between.max())
    return float((edges[best[0] + 1] + edges[best[-1] + 1]) / 2.0)
