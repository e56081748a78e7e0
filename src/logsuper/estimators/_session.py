"""One image, prepared once, and segmented again with every new scribble."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import expit, logit

from logsuper._base import FloatArray, check_callback, check_integer
from logsuper.estimators._colours import as_colours, log_ratio, make_codes
from logsuper.estimators._distances import Distances
from logsuper.estimators._scribbles import (
    Labels,
    choose_block,
    enlarge,
    read_scribbles,
    shrink_image,
    shrink_scribbles,
)
from logsuper.estimators._segmentation import Segmentation
from logsuper.functions import Modular, Sum, grid_cuts
from logsuper.learning import contrast_weights
from logsuper.model import LogSupermodular
from logsuper.solvers import prepare

__all__ = ["Constants", "ScribbleSession", "Settings"]

Progress = Callable[[int, int], None]
"""Called with what is done and the total; whatever it raises ends the work."""

# Widths (pixels) of the Gaussian filters before colours are modelled, and before they are compared.
_MODEL_WIDTH, _EDGE_WIDTH = 2.0, 0.7
# Pixels of the image whose coupling is that of the constants; it grows with the side of an image.
_UNIT = 100_000
# Perturbations between two calls of a callback.
_CHUNK = 4
# Distance that probabilities keep from 0 and 1 away from scribbles.
_LEAST = 1e-4


@dataclasses.dataclass(frozen=True)
class Constants:
    r"""The constants of the model, learned from photographs.

    The field of a pixel is :math:`c\tanh(l/c)+g\,r+s\,q` with the log-ratio l of the densities of
    its colour and the log-ratios r and q of its geodesic and straight distances to the scribbles.

    Attributes
    ----------
    clip : float
        Bound c on what the colour may say.
    geodesic, straight : float
        The weights g and s.
    coupling : float
        Weight of edges in an image of 100,000 pixels, proportional to the side of the image: the
        number of pixels grows with its square, the length of a boundary with the side.
    contrast : float
        Scale of the contrast, see `logsuper.learning.contrast_weights`.
    temperature : float
        Divides field and coupling before probabilities are found.
    calibration : tuple of five float
        Probabilities are the logistic function of these times 1, the log-odds of the mean at this
        temperature, and the three terms of the field.
    """

    clip: float = 3.0
    geodesic: float = 1.0
    straight: float = 0.0
    coupling: float = 40.0
    contrast: float = 1.0
    temperature: float = 10.0
    calibration: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0, 0.0)


_ROUGH = Constants(clip=1.5, geodesic=1.5, coupling=40.0)
"""The constants of the rough mask."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator asks of its sessions, checked."""

    constants: Constants
    neighbors: int | None
    trust: float
    n_samples: int
    key: int
    n_jobs: int | None
    learn: Callable[[Any, Labels, Constants], Constants] | None = None
    """Adapts constants to the strokes of a session."""


class ScribbleSession:
    """An image that is segmented from scribbles, again and again; see `ScribbleSegmenter.start`.

    All that does not depend on scribbles is prepared once: the colours and their codes, contrast,
    the structure of the cut.

    Attributes
    ----------
    shape : tuple of int
        Of the image, without channels.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, masks, scribbles = ls.make_scenes(1, shape=(40, 60), seed=0)
    >>> session = ls.ScribbleSegmenter().start(images[0])
    >>> found = session.segment(scribbles[0])
    >>> session.shape, bool((found.mask != masks[0]).mean() < 0.1)
    ((40, 60), True)
    """

    def __init__(self, image: NDArray[Any], axes: int, settings: Settings) -> None:
        self._settings = settings
        colours = as_colours(image, axes)
        self.shape = colours.shape[:-1]
        neighbors = {2: 8, 3: 26}[axes] if settings.neighbors is None else settings.neighbors
        cuts = grid_cuts(self.shape, neighbors, (1.0,) * axes)
        self._prepared = prepare([Sum((1.0, cut) for cut in cuts)])
        self._codes = make_codes(colours, _MODEL_WIDTH)
        self._distances = Distances(colours)
        width = (*(_EDGE_WIDTH,) * axes, 0.0)
        self._compared = gaussian_filter(colours, width).reshape(-1, colours.shape[-1])
        self._contrast: dict[float, FloatArray] = {}
        self._edge_weights(settings.constants)
        block = choose_block(self.shape)
        # the rough mask of a large image comes from a smaller copy
        self._small = (
            (block, ScribbleSession(shrink_image(image, axes, block), axes, settings))
            if block > 1
            else None
        )
        self._last: tuple[Labels, FloatArray, NDArray[np.bool_]] | None = None
        self._seconds: dict[str, float] = {}
        self._first = settings.constants

    def segment(self, scribbles: Any, *, quick: bool = False) -> Segmentation:
        """Return the mask for some scribbles; probabilities follow by `probabilities`.

        Parameters
        ----------
        scribbles : array-like of the shape of the image, int
            0 unknown, 1 object, 2 background: all strokes so far, not only the last one.
        quick : bool, default False
            Keep the colour models of the last call, and with ``learn="strokes"`` what it has
            learned, which takes about half the time: for strokes that are still being drawn.

        Returns
        -------
        Segmentation

        Warns
        -----
        UserWarning
            If a label has no pixel but those that are marked.
        """
        labels = read_scribbles(scribbles, self.shape)
        start = time.perf_counter()
        seconds = {}
        quick = quick and self._last is not None
        if self._settings.learn is not None and not quick:
            self.adapt(self._settings.learn(self, labels, self._first))
            seconds["learning"] = time.perf_counter() - start
            start = time.perf_counter()
        colour = self._last[1][:, 0] if quick and self._last is not None else None
        terms = self.terms(labels, colour)
        mask = self.cut(labels, terms, self._settings.constants)
        self._last = labels, terms, mask
        self._seconds = {**seconds, "mask": time.perf_counter() - start}
        _warn_of_collapse(mask, labels)
        return Segmentation(mask, labels, seconds=dict(self._seconds))

    def probabilities(
        self,
        *,
        n_samples: int | None = None,
        certify: bool = False,
        callback: Progress | None = None,
    ) -> Segmentation:
        """Return the last segmentation with its probabilities.

        Parameters
        ----------
        n_samples : int, optional
            Perturbations; by default as the estimator says.
        certify : bool, default False
            Also bound the probabilities, on grids with four neighbours (``neighbors=4``), which
            takes much longer; on others bounds stay None.
        callback : callable, optional
            Called as ``callback(done, total)`` every few perturbations. An exception that it raises
            ends the work, and leaves the session as it was.

        Returns
        -------
        Segmentation
        """
        if self._last is None:
            raise ValueError("nothing has been segmented yet; call segment(scribbles) first")
        check_callback(callback)
        count = self._settings.n_samples if n_samples is None else n_samples
        total = check_integer(count, "n_samples", 1, 2**31)
        labels, terms, mask = self._last
        seconds = dict(self._seconds)
        start = time.perf_counter()
        constants = self._settings.constants
        mean = self.mean(labels, terms, constants, total, callback)
        p = self._calibrate(labels, terms, mean)
        seconds["probabilities"] = time.perf_counter() - start
        lower = upper = None
        if certify and self._prepared.structure.kind == "grid" and len(self.shape) == 2:
            start = time.perf_counter()
            bounds = self._bound(labels, terms)
            if bounds is not None:
                lower, upper = (self._calibrate(labels, terms, bound) for bound in bounds)
                p = np.clip(p, lower, upper)
            seconds["certified bounds"] = time.perf_counter() - start
        return Segmentation(mask, labels, p, lower, upper, seconds)

    def adapt(self, constants: Constants) -> None:
        """Use other constants from now on."""
        self._settings = dataclasses.replace(self._settings, constants=constants)

    # ------------------------------------------------------------- for learning, within the room

    def terms(self, labels: Labels, colour: FloatArray | None = None) -> FloatArray:
        """Return the log-ratios of each pixel, (n, 3): of colour, geodesic and straight.

        The densities of colours are those of a rough mask, found from the colours of the strokes,
        unless their log-ratios are given.
        """
        ratios = [ratio.ravel() for ratio in self._distances.log_ratios(labels)]
        if colour is not None:
            return np.stack([colour, *ratios], axis=1)
        rough = None
        if self._small is not None:
            block, small = self._small
            marks = shrink_scribbles(labels, block)
            if (marks == 1).any() and (marks == 2).any():  # no label was crowded out
                rough = enlarge(small._rough_mask(marks), block, self.shape)
        if rough is None:
            rough = self._rough_mask(labels, ratios)
        sides = np.where(labels > 0, labels, np.where(rough, 1, 2)).astype(np.uint8)
        return np.stack([log_ratio(self._codes, sides.ravel()), *ratios], axis=1)

    def _rough_mask(
        self, labels: Labels, ratios: list[FloatArray] | None = None
    ) -> NDArray[np.bool_]:
        """Return the mask with the colours of the strokes alone, and fixed constants."""
        if ratios is None:
            ratios = [ratio.ravel() for ratio in self._distances.log_ratios(labels)]
        terms = np.stack([log_ratio(self._codes, labels.ravel()), *ratios], axis=1)
        return self.cut(labels, terms, _ROUGH)

    def cut(self, labels: Labels, terms: FloatArray, constants: Constants) -> NDArray[np.bool_]:
        """Return the most probable mask."""
        field = self._field(labels, terms, constants, 1.0)
        weights = self._edge_weights(constants)
        y, _, _ = self._prepared.maximize(field, self._alpha(constants, 1.0), edge_weights=weights)
        return y.reshape(self.shape).astype(bool)

    def mean(
        self,
        labels: Labels,
        terms: FloatArray,
        constants: Constants,
        count: int,
        callback: Progress | None = None,
    ) -> FloatArray:
        """Return the mean over perturbations of the model at its temperature, (n,)."""
        hot = constants.temperature
        field, alpha = self._field(labels, terms, constants, hot), self._alpha(constants, hot)
        weights, total = self._edge_weights(constants), np.zeros(field.shape)
        rng = np.random.default_rng(self._settings.key)
        for first in range(0, count, _CHUNK):
            size = min(_CHUNK, count - first)
            found = self._prepared.conditional_means(
                field,
                alpha,
                size,
                int(rng.integers(2**63)),
                edge_weights=weights,
                n_jobs=self._settings.n_jobs,
            )
            total += size * found[0]
            if callback is not None:
                callback(first + size, count)
        return total / count

    # ------------------------------------------------------------------------------------- inside

    def _field(
        self, labels: Labels, terms: FloatArray, constants: Constants, temperature: float
    ) -> FloatArray:
        field = make_field(terms, constants) / temperature
        trust = self._settings.trust
        # odds of a scribble are those at the temperature of probabilities
        odds = math.inf if trust == 1.0 else float(logit(trust)) * constants.temperature
        marks = labels.ravel()
        field[marks == 1] += odds / temperature
        field[marks == 2] -= odds / temperature
        return field

    def _alpha(self, constants: Constants, temperature: float) -> list[float]:
        side = (math.prod(self.shape) / _UNIT) ** (1.0 / len(self.shape))
        return [constants.coupling * side / temperature]

    def _edge_weights(self, constants: Constants) -> FloatArray | None:
        edges = self._prepared.edges
        if not len(edges):
            return None
        scale = constants.contrast
        if scale not in self._contrast:
            [self._contrast[scale]] = contrast_weights(self._compared, edges, (scale,))
        return self._contrast[scale]

    def _calibrate(self, labels: Labels, terms: FloatArray, mean: FloatArray) -> FloatArray:
        p = calibrated(terms, mean, self._settings.constants)
        if self._settings.trust == 1.0:
            p = np.where(labels.ravel() == 0, p, labels.ravel() == 1)
        return np.asarray(p.reshape(self.shape), dtype=np.float64)

    def _bound(self, labels: Labels, terms: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return certified bounds on the marginals of the model at its temperature."""
        constants = self._settings.constants
        hot = constants.temperature
        field = self._field(labels, terms, constants, hot)
        fixed = np.isinf(field)
        [alpha], [total] = self._alpha(constants, hot), self._prepared.functions
        weights, first = self._edge_weights(constants), 0
        f: Any = -Modular(np.where(fixed, 0.0, field))
        for _, cut in total.terms():
            last = first + len(cut.weights)  # type: ignore[attr-defined]
            own = alpha if weights is None else alpha * weights[first:last]
            f, first = f + cut.with_weights(cut.weights * own), last  # type: ignore[attr-defined]
        known = {int(d): int(field[d] > 0) for d in np.flatnonzero(fixed)}
        model = LogSupermodular(f, shape=(len(field),))
        model = model.condition(known) if known else model
        try:
            found = model.marginals("strips", n_jobs=self._settings.n_jobs)
        except ValueError:  # not a grid of four neighbours
            return None
        if found.lower is None or found.upper is None:
            return None
        return found.lower, found.upper


def _warn_of_collapse(mask: NDArray[np.bool_], labels: Labels) -> None:
    """Warn where a label has vanished but for its strokes."""
    for value, name in ((1, "object"), (2, "background")):
        found = mask if value == 1 else ~mask
        if not (found & (labels != value)).any() and (labels == 0).any():
            warnings.warn(
                f"the {name} is nothing but what is marked: the other label has all the rest; "
                f"mark more of the {name}, or learn the constants (learn='strokes', or fit)",
                UserWarning,
                stacklevel=3,
            )


def make_field(terms: FloatArray, constants: Constants) -> FloatArray:
    """Return the field of each pixel without its scribble."""
    parts = _clipped(terms, constants)
    weights = [1.0, constants.geodesic, constants.straight]
    found: FloatArray = parts @ weights
    return found


def calibrated(terms: FloatArray, mean: FloatArray, constants: Constants) -> FloatArray:
    """Return the probabilities for means at the temperature of the model."""
    odds = design(terms, mean, constants) @ np.array(constants.calibration)
    found: FloatArray = np.clip(expit(odds), _LEAST, 1.0 - _LEAST)
    return found


def design(terms: FloatArray, mean: FloatArray, constants: Constants) -> FloatArray:
    """Return what the calibration weighs, (n, 5)."""
    odds = logit(np.clip(mean, 1e-6, 1.0 - 1e-6))
    return np.column_stack([np.ones(len(terms)), odds, _clipped(terms, constants)])


def _clipped(terms: FloatArray, constants: Constants) -> FloatArray:
    parts = terms.copy()
    parts[:, 0] = constants.clip * np.tanh(terms[:, 0] / constants.clip)
    return parts


def as_constants(values: Mapping[str, Any]) -> Constants:
    """Return constants from a mapping, as files have them."""
    given = {**values, "calibration": tuple(values["calibration"])}
    return Constants(**given)
