"""Samples of a field as learners and decoders see them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray
from logsuper.estimators._crops import PIXELS, crop, is_large
from logsuper.estimators._field_samples import Sample, Samples
from logsuper.functions import Cut, SubmodularFunction, grid_cuts, zero
from logsuper.learning import Examples, contrast_weights, join_examples, make_examples

__all__ = ["Coupling", "Part", "gather", "take_parts", "take_whole"]

# Numbers (factors on edges) that training data may hold: a quarter of a gigabyte.
_NUMBERS = 1 << 25


@dataclasses.dataclass(frozen=True, eq=False)
class Coupling:
    """How neighbours are coupled.

    Attributes
    ----------
    kind : {"contrast", "uniform", "none"}
    neighbors : int or None
    scales : tuple of float
        Of the contrast.
    spread : ndarray of shape (C,)
        Standard deviation of each channel of the picture, by which it is divided.
    """

    kind: str
    neighbors: int | None
    scales: tuple[float, ...]
    spread: FloatArray

    def cuts(self, sample: Sample) -> tuple[Cut, ...]:
        """Return the cuts of a sample, one per direction."""
        if sample.edges is not None:
            return (Cut(sample.size, sample.edges),)
        return grid_cuts(sample.shape, self.neighbors)

    def functions(self, sample: Sample) -> tuple[SubmodularFunction, ...]:
        """Return the functions of a sample: all directions of the first scale, of the next, ..."""
        if self.kind == "none":
            return (zero(sample.size),)
        return self.cuts(sample) * (len(self.scales) if self.kind == "contrast" else 1)

    def contrasts(self, sample: Sample, picture: int) -> list[FloatArray]:
        """Return the factors (S, E) of each direction of a sample."""
        cuts = self.cuts(sample)
        edges = np.concatenate([cut.edges for cut in cuts])
        found = contrast_weights(sample.channels[:, picture:] / self.spread, edges, self.scales)
        return np.split(found, np.cumsum([len(cut.edges) for cut in cuts])[:-1], axis=1)

    def numbers(self, sample: Sample) -> int:
        """Return how many factors on edges a pixel has."""
        if self.kind != "contrast":
            return 1
        directions = len(self.cuts(Sample(sample.source, (2,) * len(sample.shape))))
        directions = 1 if sample.edges is not None else directions
        per_pixel = -(-len(sample.edges) // sample.size) if sample.edges is not None else directions
        return max(1, len(self.scales) * directions * per_pixel)


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A window of a sample, or all of it.

    Attributes
    ----------
    number : int
        Of the sample.
    shape : tuple of int
    places : ndarray of shape (n,), or None
        The pixels of the sample that are in the window; None for all.
    """

    number: int
    shape: tuple[int, ...]
    places: IntArray | None = None

    def of(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of the pixels of the window."""
        return rows if self.places is None else rows[self.places]


def take_parts(
    samples: Samples, masks: Sequence[NDArray[Any]], coupling: Coupling, key: int
) -> list[Part]:
    """Return what a learner looks at: windows of large images; as many as memory allows."""
    if samples[0].edges is None and is_large(masks):
        windows, _, places = crop(masks, None, key, _most(samples, coupling))
        parts = []
        for window, place in zip(windows, places, strict=True):
            inside = tuple(
                slice(a, a + side) for a, side in zip(place.origin, window.shape, strict=True)
            )
            every = np.arange(samples[place.image].size).reshape(samples[place.image].shape)
            parts.append(Part(place.image, window.shape, every[inside].ravel()))
        return parts
    return take_whole(samples, coupling, key)


def take_whole(samples: Samples, coupling: Coupling, key: int) -> list[Part]:
    """Return whole samples, at random, as many as memory allows; the smallest one at least."""
    order = np.random.default_rng(key).permutation(len(samples))
    sizes = np.cumsum([samples[i].size for i in order])
    count = int(np.searchsorted(sizes, _most(samples, coupling, 4), side="right"))
    kept = order[:count] if count else [min(order, key=lambda i: samples[i].size)]
    return [Part(int(i), samples[i].shape) for i in np.sort(kept)]


def _most(samples: Samples, coupling: Coupling, times: int = 1) -> int:
    """Return how many pixels may be looked at: some times as many as learners have windows of."""
    return max(1, min(times * PIXELS, _NUMBERS // coupling.numbers(samples[0])))


def gather(
    coupling: Coupling,
    samples: Sequence[Sample],
    features: Sequence[FloatArray],
    picture: int,
    masks: Sequence[NDArray[Any]] | None = None,
    parts: Sequence[Part] | None = None,
) -> Examples:
    """Return the examples of some samples, or of parts of them."""
    if parts is None:
        parts = [Part(i, sample.shape) for i, sample in enumerate(samples)]
    # windows of one image follow each other
    weigh = functools.lru_cache(maxsize=1)(lambda i: coupling.contrasts(samples[i], picture))
    alike: dict[Any, list[int]] = {}
    for k, part in enumerate(parts):
        graph = samples[part.number].edges is not None
        alike.setdefault((part.shape, part.number if graph else None), []).append(k)
    joined = []
    factors = [
        _factors(coupling, samples[part.number], part, weigh(part.number))
        if coupling.kind == "contrast"
        else None
        for part in parts
    ]
    for (shape, _), chosen in alike.items():
        own = [parts[k] for k in chosen]
        first = samples[own[0].number]
        given = [factors[k] for k in chosen]
        examples = make_examples(
            coupling.functions(Sample(first.source, shape, first.edges)),
            labels=None
            if masks is None
            else [part.of(masks[part.number].ravel()).reshape(shape) for part in own],
            features=[part.of(features[part.number]).reshape(*shape, -1) for part in own],
            modular="shared",
            edge_weights=None if given[0] is None or not given[0].size else given,
        )
        joined.append((examples, np.array(chosen)))
    return join_examples(joined)


def _factors(
    coupling: Coupling, sample: Sample, part: Part, contrasts: list[FloatArray]
) -> FloatArray:
    """Return the factors (K, E) on the edges of a part; what is not an edge of a function is 0."""
    if part.places is not None:
        cuts = coupling.cuts(Sample(sample.source, part.shape))
        found = []
        for cut, whole, rows in zip(cuts, coupling.cuts(sample), contrasts, strict=True):
            # an edge has one first pixel in each direction, in the window as in the image
            place = np.searchsorted(whole.edges[:, 0], part.places[cut.edges[:, 0]])
            found.append(rows[:, place])
        contrasts = found
    scales, directions = len(coupling.scales), len(contrasts)
    ends = np.cumsum([0, *(rows.shape[1] for rows in contrasts)])
    factors = np.zeros((scales, directions, int(ends[-1])))
    for d, rows in enumerate(contrasts):
        factors[:, d, ends[d] : ends[d + 1]] = rows
    return factors.reshape(scales * directions, -1)
