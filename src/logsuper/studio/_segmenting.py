"""The mode *segment*: scribbles on one image, and what follows from them."""

from __future__ import annotations

import dataclasses
import io
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from logsuper.estimators import ScribbleSegmenter, ScribbleSession, Segmentation
from logsuper.studio._desk import Check
from logsuper.studio._limits import Refusal
from logsuper.studio._sources import Source, encode_png

__all__ = ["Refined", "Segmenting"]

# Regions that are outlined.
_REGIONS = 3
# Probabilities wait for so many pauses (of so many seconds) without a stroke: the next stroke has
# to wait for a part of them.
_PAUSES, _PAUSE = 20, 0.02
# Numbers per run of a message: its first pixel, its length, its label.
_RUN = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Refined:
    """What is known of the mask once there was time.

    Attributes
    ----------
    probability : ndarray of shape (H, W)
    regions : ndarray of shape (H, W), uint8
        1 to 3 where to scribble next, the best first; 0 elsewhere.
    centers : list of tuple of int
        Where to put the pen in each.
    wrong : float
        Expected share of wrong pixels.
    """

    probability: NDArray[np.float64]
    regions: NDArray[np.uint8]
    centers: list[tuple[int, ...]]
    wrong: float


class Segmenting:
    """One image with its scribbles.

    Attributes
    ----------
    labels : ndarray of shape (H, W), uint8
        0 unknown, 1 object, 2 background.
    version : int
        Of the labels, by the page.
    found : Segmentation or None
        The last result; its scribbles may be older than `labels`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.labels: NDArray[np.uint8] = np.zeros(source.shape, dtype=np.uint8)
        self.version = 0
        self.found: Segmentation | None = None
        self._segmenter = ScribbleSegmenter(channel_axis=-1 if source.colored else None)
        self._session: ScribbleSession | None = None
        self._quick = False

    def paint(self, runs: NDArray[np.uint32], version: int) -> None:
        """Set the labels of runs of pixels, (first, length, label) each, in row-major order."""
        if runs.size % _RUN:
            raise Refusal("paint: runs are triples of first pixel, length and label")
        first, length, label = runs.astype(np.int64).reshape(-1, _RUN).T
        if ((first + length > self.labels.size) | (length < 1) | (label > 2)).any():
            raise Refusal("paint: a run leaves the image, is empty, or has a label above 2")
        if length.sum() > 4 * self.labels.size:
            raise Refusal("paint: runs cover the image more than four times; send less")
        flat = self.labels.reshape(-1)
        for start, count, value in zip(first, length, label, strict=True):
            flat[start : start + count] = value
        self.version = version

    @property
    def missing(self) -> str | None:
        """What must be marked before there is a cut: "object", "background" or None."""
        for value, kind in ((1, "object"), (2, "background")):
            if not (self.labels == value).any():
                return kind
        return None

    def prepare(self, check: Check) -> ScribbleSession:
        """Return the session of this image, made on first use."""
        if self._session is None:
            self._session = self._segmenter.start(self.source.pixels)
            check()
        return self._session

    def cut(self, check: Check, quick: bool = False) -> Segmentation | None:
        """Return the exact cut for the present labels, None if a label is missing.

        A quick one, while a stroke is being drawn, keeps the colour models of the one before.
        """
        labels = self.labels.copy()
        if not ((labels == 1).any() and (labels == 2).any()):
            return None
        self.found = self.prepare(check).segment(labels, quick=quick)
        self._quick = quick
        return self.found

    def refine(self, check: Check) -> Refined | None:
        """Return probabilities and where to scribble next, after a while without a stroke."""
        if self.found is None or self.missing:
            return None
        for _ in range(_PAUSES):
            time.sleep(_PAUSE)
            check()
        found = self.prepare(check).probabilities(callback=lambda done, total: check())
        regions = np.zeros(self.source.shape, dtype=np.uint8)
        suggested = found.suggest(_REGIONS)
        for number, region in enumerate(suggested, 1):
            regions[_smoothed(region.mask)] = number
        p = found.probability
        assert p is not None
        check()
        self.found = found
        wrong = float(np.where(found.mask, 1.0 - p, p).mean())
        return Refined(p, regions, [region.center for region in suggested], wrong)

    # ------------------------------------------------------------------------------------ exports

    def settled(self, check: Check) -> Segmentation:
        """Return mask and probabilities of the present labels, computed if need be."""
        if self.missing:
            raise Refusal(f"mark a part of the {self.missing} first: there is no mask yet", 409)
        found = self.found
        if found is None or self._quick or not np.array_equal(found.scribbles, self.labels):
            found = self.cut(check)
        if found is not None and found.probability is None:
            found = self.prepare(check).probabilities(callback=lambda done, total: check())
            self.found = found
        assert found is not None
        return found

    def export(self, kind: str, check: Check) -> bytes:
        """Return a file: its bytes by its name."""
        if kind == "model.npz":
            file = io.BytesIO()
            self._segmenter.save(file)
            return file.getvalue()
        if kind == "code.py":
            return self.code().encode()
        if kind == "scribbles.png":
            return encode_png(self.labels)
        found = self.settled(check)
        assert found.probability is not None
        images: dict[str, Any] = {
            "mask.png": np.where(found.mask, 255, 0).astype(np.uint8),
            "probability.png": np.round(65535.0 * found.probability).astype(np.uint16),
        }
        return encode_png(self.source.enlarge(images[kind]))

    def code(self) -> str:
        """Return a program that makes the same mask from the exported scribbles."""
        lines = [
            '"""Made by logsuper studio: cut an object out of an image, given scribbles.',
            "",
            'Needs scribbles.png beside it, which the studio exports."""',
            "",
            "import numpy as np",
            "",
            "import logsuper as ls",
            "from logsuper.io import read_image, write_image",
            "",
            *self.source.code,
            'scribbles = read_image("scribbles.png", color=True, palette="indices")',
            "",
            f"segmenter = ls.ScribbleSegmenter(channel_axis={self._segmenter.channel_axis})",
            "found = segmenter.segment(image, scribbles)",
            "mask, probability = found.mask, found.probability",
            *self.source.code_of_results,
            "for region in found.suggest():",
            '    print(f"in doubt around row, column {region.center}")',
        ]
        return "\n".join(lines) + "\n"


def _smoothed(region: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a region without specks and fringes, unless it consists of them."""
    smooth = uniform_filter(region.astype(np.float32), 7) > 0.5
    return smooth if np.count_nonzero(smooth) > 0.3 * np.count_nonzero(region) else region
