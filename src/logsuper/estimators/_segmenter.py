"""Segmentation of images and volumes from scribbles."""

from __future__ import annotations

import copy
import dataclasses
import os
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from logsuper._base import (
    as_array,
    as_key,
    as_list,
    check_callback,
    check_choice,
    check_number,
    entry,
    first_index,
)
from logsuper.estimators._common import as_seed, check_count, whole
from logsuper.estimators._saving import Saveable
from logsuper.estimators._scribbles import (
    choose_block,
    draw_scribbles,
    kind_of,
    read_photograph,
    read_scribbles,
    shrink_image,
    shrink_scribbles,
    shrink_truth,
)
from logsuper.estimators._segment_learning import (
    START,
    Example,
    learn_constants,
    learn_from_strokes,
)
from logsuper.estimators._segmentation import Segmentation
from logsuper.estimators._session import (
    Constants,
    Progress,
    ScribbleSession,
    Settings,
    as_constants,
)

__all__ = ["ScribbleSegmenter", "segment"]

DEFAULTS = Constants(
    clip=3.0,
    geodesic=1.5,
    straight=0.0,
    coupling=20.0,
    contrast=1.0,
    temperature=2.0,
    calibration=(-0.793, 0.137, 0.457, 0.953, 0.118),
)
"""Learned from the 25 photographs of the GrabCut database with two sets of scribbles each, by
`python -m benchmarks.segment --data DIR --defaults`."""


class ScribbleSegmenter(Saveable, BaseEstimator):  # type: ignore[misc]
    r"""Separate an object from the background, given scribbles on both.

    The mask is the exact minimum cut of

    .. math:: \sum_{ij}\lambda w_{ij}|x_i-x_j|-\sum_iu_ix_i,\qquad
              u_i=c\tanh(l_i/c)+g\,r_i+s\,q_i,

    with :math:`l_i` the log-ratio of the densities of the colour of pixel i (Gaussian mixtures of
    the colours in and outside a rough mask, which is found at a coarse scale in the same way from
    the colours under the scribbles), :math:`r_i` and :math:`q_i` those of its distances to the
    scribbles, along paths that avoid changes of colour and along straight lines, and
    :math:`w_{ij}` the contrast between neighbours (`logsuper.learning.contrast_weights`). Scribbles
    have infinite fields. Probabilities are means of perturbed cuts of the same model at a higher
    temperature, calibrated. The constants come from photographs; `fit` learns them from others.

    Parameters
    ----------
    learn : {"none", "strokes"}
        "strokes" adapts strength, scale of the contrast and clipping to each image, by holding out
        whole strokes: needs two strokes or more of a label, and takes a few seconds. In a session
        each call of `segment` learns, except with ``quick=True``.
    neighbors : int, optional
        8 (default) or 4 for images, 26 (default), 18 or 6 for volumes.
    trust : float, default 1.0
        Probability that a scribbled pixel has its label, above one half; 1 is a hard constraint.
    channel_axis : int, None or "auto"
        The axis of the channels, as in scikit-image; None if there are none. "auto" compares with
        the scribbles; without them (`start`) an array of three axes whose last has at most four
        entries is an image with channels, and one of four axes a volume with channels last.
    n_samples : int, default 16
        Perturbations for probabilities.
    callback : callable, optional
        Called as ``callback(done, total)`` while `fit` runs; an exception ends the fit.
    random_state : int, Generator, RandomState or None, default 0
        Of the perturbations, and of scribbles that `fit` draws.
    n_jobs : int, optional
        Threads; they do not change the result.

    Attributes
    ----------
    constants_ : dict
        The learned constants, after `fit`; see `Constants` in the source for their meaning.

    Notes
    -----
    Colours: three channels of uint8 or uint16, of integers up to 255, or of floats in [0, 1], are
    taken for sRGB and compared in CIE L*a*b*; any other channels are scaled to their 1st and 99th
    percentile.
    More than two labels: segment one against the rest for each label.

    How it may fail: an object whose colours are all over the background needs more strokes, where
    `Segmentation.suggest` says; thin parts are lost if the coupling is strong, mark them.

    References
    ----------
    Y. Boykov and M.-P. Jolly, "Interactive graph cuts for optimal boundary and region segmentation
    of objects in N-D images", 2001. X. Bai and G. Sapiro, "A geodesic framework for fast
    interactive image and video segmentation and matting", 2007.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, masks, scribbles = ls.make_scenes(1, shape=(48, 64), seed=0)
    >>> session = ls.ScribbleSegmenter().start(images[0])
    >>> mask = session.segment(scribbles[0]).mask  # again with every new stroke
    >>> bool((mask == masks[0]).mean() > 0.9)
    True
    >>> session.probabilities().probability.shape  # when there is time
    (48, 64)
    """

    _FITTED = ("constants_",)
    _OPTIONAL = ("constants_",)

    def __init__(
        self,
        learn: str = "none",
        neighbors: int | None = None,
        trust: float = 1.0,
        channel_axis: int | str | None = "auto",
        n_samples: int = 16,
        callback: Progress | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.learn = learn
        self.neighbors = neighbors
        self.trust = trust
        self.channel_axis = channel_axis
        self.n_samples = n_samples
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, images: Any, masks: Any, scribbles: Any = None) -> Self:
        """Learn the constants from images with masks.

        Parameters
        ----------
        images : list of arrays, or array (N, ...)
            Sizes may differ; large ones are made smaller.
        masks : the same without channels
            0 or 1, NaN where the label is not known.
        scribbles : the same, int, optional
            0 unknown, 1 object, 2 background. Without it a few strokes are drawn at random.

        Returns
        -------
        self
        """
        check_callback(self.callback)
        photographs = as_list(images, "images", "a list of images")
        truths = as_list(masks, "masks", "a list of masks, one per image")
        if not photographs or len(photographs) != len(truths):
            raise ValueError(
                f"images has {len(photographs)} entries and masks {len(truths)}; give one mask "
                "per image, and at least one"
            )
        truths = [_read_mask(mask, f"masks[{i}]") for i, mask in enumerate(truths)]
        rng = np.random.default_rng(as_key(as_seed(self.random_state)))
        if scribbles is None:
            drawn = [draw_scribbles(mask, rng) for mask in truths]
        else:
            drawn = as_list(scribbles, "scribbles", "a list of label images, one per image")
            if len(drawn) != len(photographs):
                raise ValueError(f"scribbles has {len(drawn)} entries, images {len(photographs)}")
            drawn = [
                read_scribbles(own, mask.shape, f"scribbles[{i}]")
                for i, (own, mask) in enumerate(zip(drawn, truths, strict=True))
            ]
        settings = self._settings()
        examples = []
        for image, mask, marks in zip(photographs, truths, drawn, strict=True):
            values, axes = self._read(image, marks)
            examples.append(_make_example(values, axes, mask, marks, settings))
        with whole(self):
            found = learn_constants(examples, START, self.callback, self.n_jobs)
            self.constants_ = dataclasses.asdict(found)
        return self

    def start(self, image: Any) -> ScribbleSession:
        """Prepare an image for segmentation with more and more scribbles.

        Parameters
        ----------
        image : array-like (H, W), (H, W, C), (Z, H, W) or (Z, H, W, C)

        Returns
        -------
        ScribbleSession
            With the methods `segment` and `probabilities`.
        """
        return ScribbleSession(*read_photograph(image, self.channel_axis), self._settings())

    def segment(self, image: Any, scribbles: Any, probability: bool = True) -> Segmentation:
        """Segment one image.

        Parameters
        ----------
        image : array-like (H, W), (H, W, C), (Z, H, W) or (Z, H, W, C)
        scribbles : array-like of the shape of the image without channels, int
            0 unknown, 1 object, 2 background.
        probability : bool, default True
            Whether to find probabilities too, which takes longer than the mask.

        Returns
        -------
        Segmentation
        """
        settings = self._settings()
        marks = read_scribbles(scribbles, None)
        values, axes = self._read(image, marks)
        session = ScribbleSession(values, axes, settings)
        found = session.segment(marks)
        return session.probabilities() if probability else found

    def predict(self, images: Any, scribbles: Any) -> list[NDArray[np.bool_]]:
        """Return the masks of several images.

        Parameters
        ----------
        images, scribbles : lists of arrays

        Returns
        -------
        list of ndarray
        """
        return [found.mask for found in self._segment_all(images, scribbles, False)]

    def predict_proba(self, images: Any, scribbles: Any) -> list[NDArray[np.float64]]:
        """Return the probability of the object at each pixel of several images.

        Parameters
        ----------
        images, scribbles : lists of arrays

        Returns
        -------
        list of ndarray
        """
        found = self._segment_all(images, scribbles, True)
        return [one.probability for one in found if one.probability is not None]

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the segmenter to a file that `load_model` reads.

        Without `fit`, the file holds the constants that ship, as if they had been learned.

        Parameters
        ----------
        path : str, path or binary file
            An open file must be empty, and open for reading too, such as an `io.BytesIO`.
        """
        saved = copy.copy(self)
        if not hasattr(self, "constants_"):
            saved.constants_ = dataclasses.asdict(DEFAULTS)
        super(ScribbleSegmenter, saved).save(path)

    # ------------------------------------------------------------------------------------- inside

    def _segment_all(self, images: Any, scribbles: Any, probability: bool) -> list[Segmentation]:
        photographs = as_list(images, "images", "a list of images")
        marks = as_list(scribbles, "scribbles", "a list of label images, one per image")
        if len(photographs) != len(marks):
            raise ValueError(f"images has {len(photographs)} entries, scribbles {len(marks)}")
        return [self.segment(*pair, probability) for pair in zip(photographs, marks, strict=True)]

    def _read(self, image: Any, marks: NDArray[np.uint8]) -> tuple[NDArray[Any], int]:
        values, axes = read_photograph(image, self.channel_axis, marks.ndim)
        if values.shape[:axes] != marks.shape:
            raise ValueError(
                f"scribbles has shape {marks.shape}, but the {kind_of(axes)} "
                f"{values.shape[:axes]} without channels; they need one size (if channels are not "
                "last, give channel_axis)"
            )
        return values, axes

    def _settings(self) -> Settings:
        """Check the parameters."""
        check_choice(self.learn, "learn", ("none", "strokes"))
        trust = check_number(self.trust, "trust")
        if not 0.5 < trust <= 1.0:
            raise ValueError(f"trust must be above 0.5 and at most 1, got {trust:g}")
        constants = as_constants(self.constants_) if hasattr(self, "constants_") else DEFAULTS
        samples = check_count(self.n_samples, "n_samples")
        key = as_key(as_seed(self.random_state))
        learn = learn_from_strokes if self.learn == "strokes" else None
        return Settings(constants, self.neighbors, trust, samples, key, self.n_jobs, learn)

    def _refit(self) -> None:
        """Refuse constants of a file that are not a model."""
        self._settings()


def segment(
    image: Any,
    scribbles: Any,
    *,
    probability: bool = True,
    model: ScribbleSegmenter | None = None,
    **options: Any,
) -> Segmentation:
    """Separate an object from the background of an image or a volume, given scribbles on both.

    Parameters
    ----------
    image : array-like (H, W), (H, W, C), (Z, H, W) or (Z, H, W, C)
        Grey, colour or any channels, of any real dtype, without NaN.
    scribbles : array-like of the shape of the image without channels, int
        0 unknown, 1 object, 2 background.
    probability : bool, default True
        Whether to find probabilities too, which takes longer than the mask.
    model : ScribbleSegmenter, optional
        With other constants than those that ship.
    **options
        Parameters of `ScribbleSegmenter`, such as ``neighbors=4``; not together with `model`.

    Returns
    -------
    Segmentation
        With `mask`, `probability`, and `suggest`: where to scribble next.

    Examples
    --------
    >>> import logsuper as ls
    >>> images, masks, scribbles = ls.make_scenes(1, shape=(48, 64), seed=0)
    >>> found = ls.segment(images[0], scribbles[0])
    >>> bool((found.mask == masks[0]).mean() > 0.9)
    True
    """
    if model is not None and options:
        raise ValueError(f"{next(iter(options))} cannot be given together with model; set it there")
    if model is not None and not isinstance(model, ScribbleSegmenter):
        raise TypeError(f"model must be a ScribbleSegmenter, got a {type(model).__name__}")
    chosen = ScribbleSegmenter(**options) if model is None else model
    return chosen.segment(image, scribbles, probability)


def _make_example(
    image: NDArray[Any],
    axes: int,
    truth: NDArray[np.float64],
    marks: NDArray[np.uint8],
    settings: Settings,
) -> Example:
    """Return an example of moderate size, on which a cut takes milliseconds."""
    block = choose_block(marks.shape)
    small = shrink_scribbles(marks, block)
    if block > 1 and (small == 1).any() and (small == 2).any():  # no label was crowded out
        image, truth, marks = shrink_image(image, axes, block), shrink_truth(truth, block), small
    return Example.of(ScribbleSession(image, axes, settings), marks, truth)


def _read_mask(mask: Any, name: str) -> NDArray[np.float64]:
    values = as_array(mask, name)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold 0, 1 or NaN, got dtype {values.dtype}")
    found = values.astype(np.float64)
    bad = ~((found == 0) | (found == 1) | np.isnan(found))
    if bad.any():
        at = first_index(bad)
        raise ValueError(f"{entry(name, at)} = {values[at]} is neither 0 nor 1 nor NaN (unknown)")
    return found
