"""What a segmentation from scribbles found, and where to scribble next."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, find_objects, label, sum_labels
from scipy.special import entr

from logsuper._base import FloatArray, check_integer
from logsuper.estimators._scribbles import Labels

__all__ = ["Segmentation", "Suggestion"]

# A pixel is doubtful if the less probable label has at least this probability.
_DOUBT = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Suggestion:
    """A region whose label is in doubt.

    Attributes
    ----------
    mask : ndarray of the shape of the image, bool
    center : tuple of int
        The pixel of the region farthest from its border: where to put the pen.
    entropy : float
        Nats of doubt in the region, summed over its pixels as if each stood alone; what a stroke
        would remove if it decided the whole region.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, _, scribbles = ls.make_scenes(1, shape=(40, 60), seed=0)
    >>> suggestion = ls.segment(images[0], scribbles[0]).suggest()[0]
    >>> suggestion.mask.shape, bool(suggestion.mask[suggestion.center])
    ((40, 60), True)
    """

    mask: NDArray[np.bool_]
    center: tuple[int, ...]
    entropy: float

    def __repr__(self) -> str:
        return (
            f"<Suggestion near {self.center}: {np.count_nonzero(self.mask)} pixels, "
            f"{self.entropy:.4g} nats of doubt>"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Segmentation:
    """Object and background of one image.

    Attributes
    ----------
    mask : ndarray of the shape of the image, bool
        True for the object: the exact minimum cut.
    scribbles : ndarray of the shape of the image, uint8
        What it was found from.
    probability : ndarray of the shape of the image, or None
        Calibrated probability of the object; None if it was not asked for.
    lower, upper : ndarray of the shape of the image, or None
        Certified bounds on `probability`, where they were asked for and can be had: around what
        the model gives exactly, which perturbations estimate.
    seconds : dict
        Time of each part.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, masks, scribbles = ls.make_scenes(1, shape=(48, 64), seed=0)
    >>> found = ls.segment(images[0], scribbles[0])
    >>> found.mask.shape, bool(((found.probability >= 0) & (found.probability <= 1)).all())
    ((48, 64), True)
    >>> [region.center for region in found.suggest(1)]  # doctest: +SKIP
    [(25, 40)]
    """

    mask: NDArray[np.bool_]
    scribbles: Labels
    probability: FloatArray | None = None
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.mask.shape))
        known = "without probabilities"
        if self.probability is not None:
            known = f"{np.where(self.mask, 1 - self.probability, self.probability).mean():.1%}"
            known += " expected wrong"
        return f"<Segmentation of {shape}: {self.mask.mean():.1%} object, {known}>"

    def suggest(self, count: int = 3) -> list[Suggestion]:
        """Return where the next scribble would remove most doubt.

        Doubtful pixels (both labels have a probability of at least a tenth) are joined to regions
        by their neighbours, and ranked by the entropy in each.

        Parameters
        ----------
        count : int, default 3
            Maximum number of regions.

        Returns
        -------
        list of Suggestion
            The best first; empty if there is no doubt.
        """
        most = check_integer(count, "count", 1, 2**31)
        if self.probability is None:
            raise ValueError("there are no probabilities yet; ask for them first")
        p = self.probability
        entropy = np.where(self.scribbles > 0, 0.0, entr(p) + entr(1.0 - p))
        doubtful = (np.minimum(p, 1.0 - p) >= _DOUBT) & (self.scribbles == 0)
        regions, found = label(doubtful)
        if not found:
            return []
        sums = np.atleast_1d(sum_labels(entropy, regions, np.arange(1, found + 1)))
        boxes = find_objects(regions)
        result = []
        for number in np.argsort(-sums, kind="stable")[:most]:
            box = boxes[number]
            own = np.pad(regions[box] == number + 1, 1)
            deepest = np.unravel_index(int(distance_transform_edt(own).argmax()), own.shape)
            center = tuple(int(i) - 1 + s.start for i, s in zip(deepest, box, strict=True))
            result.append(Suggestion(regions == number + 1, center, float(sums[number])))
        return result
