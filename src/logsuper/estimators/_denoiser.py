"""Clean masks from noisy ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from logsuper._random import as_key
from logsuper.channels import Channel
from logsuper.estimators._common import (
    as_seed,
    check_callback,
    check_choice,
    check_count,
    check_functions,
    run,
    whole,
)
from logsuper.estimators._crops import crop, is_large
from logsuper.estimators._images import Image, check_bits, check_pairs, pieces, read_images
from logsuper.estimators._learners import LEARNERS
from logsuper.estimators._noise import check_observed, doubt, find_channel, has_places, noise_of
from logsuper.estimators._saving import Saveable
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray
from logsuper.functions._grid import grid_cuts
from logsuper.learning import Examples, Parameters, Record, make_examples
from logsuper.learning import _decoding as decoding
from logsuper.learning._learned import Callback
from logsuper.learning._resample import clean_images, is_pairwise
from logsuper.learning._residuals import neighbour_correlation
from logsuper.learning._score import PART, score

__all__ = ["MaskDenoiser"]

_ENOUGH = 20
"""Images from which on a modular term of each pixel is worth its numbers."""

_RADII = {2: (2, 1), 3: (1,)}
"""How far the learned filter may reach by default, in images and in volumes."""

_SUPPORT = 1000
"""Training pixels that each coefficient of it should have."""

_DOUBT = 1e-4
"""No probability is nearer than this to 0 or 1: a model is never that sure of its own assumptions.
Chosen in cross-validation by `python -m benchmarks.probabilities`."""


_CORRELATED = 0.1
"""Correlation of neighbouring observations inside of regions that is worth a warning."""


class MaskDenoiser(Saveable, BaseEstimator):  # type: ignore[misc]
    r"""Learn what masks look like, and remove the noise from noisy ones.

    The model of a mask x given what was observed, z, is a conditional random field with weights
    that are learned,

    .. math::
        p(x\mid z)\propto\exp\Big(-\sum_k\alpha_kf_k(x)+(t+h*\tanh(l/2)+w\,l)^\top x\Big),

    with submodular :math:`f_k` (cuts between neighbouring pixels), a modular term t, the log-odds
    :math:`l(z)` of the observations, and a linear filter h of those around a pixel. It is learned
    from pairs of noisy and clean images, or from noisy images alone.

    Parameters
    ----------
    noise : {"auto", "flips", "asymmetric", "gaussian"}, float, array-like or Channel
        What happened to the images. A number is the share of flipped pixels, in (0, .5); an array
        has one for each pixel. A word names the kind of a channel whose numbers are found from the
        data: counted against `clean` where that is given, else estimated from the noisy images.
        "auto" is "flips" where all is 0 or 1, and "gaussian" for grey levels. Without `clean`, one
        rate for all pixels is checked: a warning says if it is larger than the images show.
    learner : {"auto", "logistic", "saa", "exact", "pseudo", "lfield", "max_margin", "resample", \
"moments", "latent"}
        How to learn. "auto" is "logistic", the paper's maximum likelihood, with clean images;
        without them "resample" where all functions are pairwise, else "latent". The last three
        learn from noisy images alone and ignore clean ones.
    modular : {"auto", "pixel", "shared", "none"}
        The modular term t: one number for each pixel, one for all, or none. "auto" is "pixel" for
        20 images or more of one shape, no side of them longer than 96 (24 in volumes), else
        "shared".
    neighbors : int, list of SubmodularFunction or callable, optional
        4 (default) or 8 for images, 6 (default), 18 or 26 for volumes; or the functions
        :math:`f_k` themselves; or what returns them for the shape of an image.
    context : int or "auto"
        How far the filter h reaches along each axis; 0 for none. "auto" is 2, or 1 for volumes,
        as far as there are a thousand training pixels for each of its coefficients, and 0 for
        "latent", which cannot learn one.
    scale : bool, default True
        Whether the weight w of the observations is learned; else, and for "latent", it is 1.
    penalty : float or dict, optional
        Weight of the quadratic regulariser, in nats an image, for all parameters or for each kind
        ("alpha", "modular", "filter", "scale", 0 where not given). By default a Gaussian prior: 3
        over the number of images for the modular term (30 for "moments"), 30 over it for the
        filter, and little, .1 over it (10 for "moments"), for the others.
    decode : {"auto", "mean", "map"}
        How `predict` decides: each pixel by its probability, or all by the most probable mask.
        "auto" is "map" for "max_margin", whose probabilities mean nothing, else "mean".
    marginals : {"auto", "logistic", "exact"}
        How `predict_proba` finds probabilities: by perturbations, or by (nearly) exact inference.
        "auto" is what the learner assumed; exact inference only where it can be had.
    samples : int, default 64
        Perturbations of each image, for "logistic".
    tol : float, optional
        Accuracy of the learner; its own default if None.
    max_iter : int, optional
        Most steps, rounds or iterations of the learner; its own default if None.
    options : dict, optional
        More arguments of the learner.
    callback : callable, optional
        Called with each line of the learner's history while it runs; what it raises ends the fit.
    random_state : int, Generator, RandomState or None, default 0
        The same number gives the same result, whatever `n_jobs`. A fitted estimator decodes with
        the same perturbations every time: what it makes of an image depends on no other image.
    n_jobs : int, optional
        Threads; -1 for all processors.

    Attributes
    ----------
    parameters_ : Parameters
    alpha_ : ndarray of shape (K,)
        Weights of the functions.
    modular_ : ndarray of the shape of an image, or float
        The modular term.
    filter_ : ndarray of shape (2 * context + 1, ...)
        The filter h; 0 in the middle, where the observation itself counts by its log-odds.
    scale_ : float
        Weight w of the observations.
    channel_ : Channel
        With the noise that was given, found or learned.
    noise_ : float, ndarray or tuple
        The numbers of the channel: the rate, or the rates of false ones and false zeros, or the
        standard deviations of zeros and ones.
    learner_ : str
        The learner that ran.
    history_ : tuple of Record
    n_iter_ : int
        Steps that the learner took.
    converged_ : bool
    decode_factor_ : float
        By which all but w is multiplied for "map": what maximum likelihood finds is too smooth for
        it. Picked on the training images where `decode` is "map" and they have labels, else 1; and
        1 for "max_margin", which is made for it.
    shape_ : tuple of int or None
        The shape of the training images, None where they differ.
    classes_ : ndarray of shape (2,)
        0 and 1.

    Notes
    -----
    Images are an array (N, H, W), volumes (N, Z, H, W), or a list of arrays, which may differ in
    shape unless t is per pixel. Of large ones, learning looks at windows, up to half a million
    pixels in all, unless something is given for each pixel. Any dtype will do; NaN, or the mask of
    a masked array, is a missing pixel in `noisy`, which is filled in, and a pixel without a label
    in `clean`.

    References
    ----------
    T. Shpakova and F. Bach, "Parameter learning for log-supermodular distributions", NIPS 2016.

    Examples
    --------
    >>> import logsuper as ls
    >>> clean = ls.make_silhouettes(12, shape=(24, 24), seed=0)
    >>> noisy = ls.Flips(0.1).sample(clean, seed=1)
    >>> denoiser = ls.MaskDenoiser().fit(noisy[:8], clean[:8])
    >>> denoiser.predict(noisy[8:]).shape
    (4, 24, 24)
    >>> denoiser.score(noisy[8:], clean[8:]) > 0.95  # 0.9 before
    True
    """

    _FITTED = (
        "parameters_",
        "channel_",
        "learner_",
        "history_",
        "converged_",
        "decode_factor_",
        "shape_",
        "_design",
        "_key",
    )

    parameters_: Parameters
    channel_: Channel
    learner_: str
    history_: tuple[Record, ...]
    converged_: bool
    decode_factor_: float
    shape_: tuple[int, ...] | None
    _design: dict[str, Any]
    _key: int

    def __init__(
        self,
        noise: Any = "auto",
        learner: str = "auto",
        *,
        modular: str = "auto",
        neighbors: Any = None,
        context: Any = "auto",
        scale: bool = True,
        penalty: float | dict[str, float] | None = None,
        decode: str = "auto",
        marginals: str = "auto",
        samples: int = decoding.SAMPLES,
        tol: float | None = None,
        max_iter: int | None = None,
        options: dict[str, Any] | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.noise = noise
        self.learner = learner
        self.modular = modular
        self.neighbors = neighbors
        self.context = context
        self.scale = scale
        self.penalty = penalty
        self.decode = decode
        self.marginals = marginals
        self.samples = samples
        self.tol = tol
        self.max_iter = max_iter
        self.options = options
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -------------------------------------------------------------------------------- learning

    def fit(self, noisy: Any, clean: Any = None) -> Self:
        """Learn from noisy images, and from clean ones where they are given.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        clean : the same, optional
            0 or 1; NaN, or masked, where there is no label.

        Returns
        -------
        self
        """
        check_choice(self.learner, "learner", ["auto", *LEARNERS])
        check_choice(self.modular, "modular", ["auto", "pixel", "shared", "none"])
        if not isinstance(self.scale, bool | np.bool_):
            raise TypeError(f"scale must be True or False, got {self.scale!r}")
        check_callback(self.callback)
        self._check_decoding()
        images = read_images(noisy, "noisy")
        labels = None if clean is None else _read_labels(clean, images)
        shapes = {image.shape for image in images}
        name = self._choose_learner(images[0].shape, labels)
        if not LEARNERS[name].supervised:
            labels = None
        windows = self._may_crop() and is_large(images)
        design = {
            "neighbors": self.neighbors,
            "axes": images[0].ndim,
            "modular": self._choose_term(shapes, len(images), windows),
            "context": self._choose_radius(name, images),
            "scale": bool(self.scale) and name != "latent",
        }
        key = as_key(as_seed(self.random_state))
        channel = find_channel(self.noise, images, labels)
        learned_too = isinstance(self.options, Mapping) and self.options.get("noise") == "learned"
        doubted = False
        if labels is None and not learned_too and not isinstance(self.noise, str):
            doubted = doubt(channel, images)
        parts, marked = crop(images, labels, key) if windows else (images, labels)
        examples = _gather(design, parts, channel, marked)
        learned = run(self, name, examples, key)
        if labels is None and not doubted and not has_places(channel):
            _doubt_independence(examples, learned.theta, key, self.n_jobs)
        with whole(self):
            self._design, self._key = design, key
            self.parameters_ = learned.parameters
            self.channel_ = channel if learned.channel is None else learned.channel
            self.learner_ = name
            self.history_ = tuple(learned.history)
            self.converged_ = bool(learned.converged)
            self.shape_ = images[0].shape if len(shapes) == 1 else None
            self.decode_factor_ = 1.0
            if labels is not None and self.decode == "map" and name != "max_margin":
                theta = examples.layout.pack(self.parameters_)
                self.decode_factor_ = decoding.best_factor(examples, theta, n_jobs=self.n_jobs)
            self._refit()
        return self

    def _choose_learner(self, shape: tuple[int, ...], labels: list[Image] | None) -> str:
        if self.learner != "auto":
            if LEARNERS[self.learner].supervised and labels is None:
                raise ValueError(
                    f"learner={self.learner!r} needs clean images: fit(noisy, clean); without them "
                    "use 'resample', 'moments' or 'latent'"
                )
            return self.learner
        if labels is not None:
            return "logistic"
        return "resample" if is_pairwise(_functions_on(self.neighbors, shape)) else "latent"

    def _may_crop(self) -> bool:
        """Return whether the model is the same everywhere, so that parts of images will do."""
        fixed = self.neighbors is not None and not (
            isinstance(self.neighbors, int | np.integer) or callable(self.neighbors)
        )
        rates = not isinstance(self.noise, str | Channel) and np.ndim(self.noise) > 0
        local = isinstance(self.noise, Channel) and has_places(self.noise)
        return self.modular != "pixel" and not (fixed or rates or local)

    def _choose_term(self, shapes: set[tuple[int, ...]], count: int, windows: bool) -> str:
        if self.modular == "auto":
            alike = len(shapes) == 1 and not windows
            return "pixel" if alike and count >= _ENOUGH else "shared"
        if self.modular == "pixel" and len(shapes) > 1:
            raise ValueError(
                f"modular='pixel' needs images of one shape, but noisy has {len(shapes)} shapes; "
                "use modular='shared'"
            )
        return self.modular

    def _choose_radius(self, name: str, images: list[Image]) -> int:
        if self.context == "auto":
            axes, pixels = images[0].ndim, sum(image.size for image in images)
            radii = () if name == "latent" else _RADII[axes]
            return max((r for r in radii if pixels >= _SUPPORT * (2 * r + 1) ** axes), default=0)
        if isinstance(self.context, str):
            raise ValueError(f"context must be an integer >= 0 or 'auto', got {self.context!r}")
        radius = 0 if self.context == 0 else check_count(self.context, "context", 0)
        if radius and name == "latent":
            raise ValueError(
                f"context = {radius}: 'latent' models the observations and cannot filter them; "
                "use context=0"
            )
        return radius

    def _refit(self) -> None:
        found = self.parameters_
        self.classes_ = np.array([0, 1])
        self.alpha_: FloatArray = found.alpha
        self.scale_: float = found.scale
        if self._design["modular"] == "pixel":
            assert self.shape_ is not None
            self.modular_: Any = found.modular.reshape(self.shape_)
        else:
            self.modular_ = float(found.modular[0]) if found.modular.size else 0.0
        window = np.insert(found.beta, len(found.beta) // 2, 0.0)
        self.filter_: FloatArray = window.reshape(
            (2 * self._design["context"] + 1,) * self._design["axes"]
        )
        self.noise_: Any = noise_of(self.channel_)
        self.n_iter_: int = self.history_[-1].step if self.history_ else 0

    # -------------------------------------------------------------------------------- decoding

    def predict(self, noisy: Any) -> Any:
        """Return clean masks.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays

        Returns
        -------
        ndarray of the shape of `noisy`, or list, uint8
        """
        if self._choose_decode() == "mean":
            return self._decode(noisy, self._find_means, np.uint8, lambda p: p > 0.5)

        def find(examples: Examples, theta: FloatArray) -> Any:
            return decoding.modes(examples, theta, factor=self.decode_factor_, n_jobs=self.n_jobs)

        return self._decode(noisy, find, np.uint8)

    def predict_proba(self, noisy: Any) -> Any:
        """Return the probability of each pixel to be 1.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays

        Returns
        -------
        ndarray of the shape of `noisy`, or list, float64
            Never nearer than 1e-4 to 0 or 1, so that no pixel has an infinite log loss.
        """
        return self._decode(
            noisy, self._find_means, np.float64, lambda p: np.clip(p, _DOUBT, 1.0 - _DOUBT)
        )

    def sample_posterior(self, noisy: Any, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw clean masks given the noisy ones, exactly, by coupling from the past.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        n_samples : int, default 1
            Masks for each image.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        ndarray of shape (N, n_samples, ...), or list of arrays (n_samples, ...), uint8
        """
        count = check_count(n_samples, "n_samples")
        rng = np.random.default_rng(as_key(as_seed(random_state)))

        def find(examples: Examples, theta: FloatArray) -> Any:
            return decoding.samples(examples, theta, count, seed=rng, n_jobs=self.n_jobs)

        return self._decode(noisy, find, np.uint8, copies=(count,))

    def score(self, noisy: Any, clean: Any = None) -> float:
        """Return the share of labelled pixels that `predict` gets right; or a score without labels.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        clean : the same, optional
            Without it, every observed pixel is hidden once, among others, and predicted from those
            that were not: a proper score of noisy images, which needs no clean one.

        Returns
        -------
        float
            With `clean` in [0, 1]: 1 less the normalised Hamming distance. Without, the mean
            log-probability of a hidden pixel, in nats; differences count, and larger is better.

        Examples
        --------
        >>> import logsuper as ls
        >>> noisy = ls.Flips(0.1).sample(ls.make_silhouettes(9, shape=(24, 24), seed=0), seed=1)
        >>> good = ls.MaskDenoiser(noise=0.1).fit(noisy[:6])
        >>> bad = ls.MaskDenoiser(noise=0.1, penalty=1e4).fit(noisy[:6])  # hardly any coupling
        >>> good.score(noisy[6:]) > bad.score(noisy[6:])
        True
        """
        if clean is None:
            return self._score_hidden(noisy)
        labels = _read_labels(clean, read_images(noisy, "noisy"))
        right, total = 0, 0
        for x, y in zip(labels, self.predict(noisy), strict=True):
            right += int(np.count_nonzero(x == y))
            total += int(np.count_nonzero(x == x))  # NaN has no label
        return right / total

    def _score_hidden(self, noisy: Any) -> float:
        """Return the mean log-probability of observed pixels, each hidden once."""
        check_is_fitted(self)
        images = read_images(noisy, "noisy")
        self._check_shapes(images)
        check_observed(self.channel_, images)
        total, known = 0.0, 0
        for piece in pieces(images):
            examples = _gather(self._design, images[piece], self.channel_)
            found = score(
                examples,
                examples.layout.pack(self.parameters_),
                patterns=PART,
                seed=self._key,
                n_jobs=self.n_jobs,
            )
            for part in found.pixels:
                total += float(np.nansum(part))
                known += int(np.count_nonzero(part == part))
        if not known:
            raise ValueError("noisy has no observed pixel at all, so that there is no score")
        return total / known

    def _check_decoding(self) -> None:
        check_choice(self.decode, "decode", ["auto", "mean", "map"])
        check_choice(self.marginals, "marginals", decoding.METHODS)
        check_count(self.samples, "samples")

    def _choose_decode(self) -> str:
        check_is_fitted(self)
        if self.decode != "auto":
            return self.decode
        return "map" if self.learner_ == "max_margin" else "mean"

    def _find_means(self, examples: Examples, theta: FloatArray) -> Any:
        """Return probabilities by the method that was asked for."""
        method = self.marginals
        if method == "auto" and not LEARNERS[self.learner_].exact:
            method = "logistic"
        return decoding.means(
            examples,
            theta,
            method=method,
            samples=self.samples,
            seed=self._key,
            n_jobs=self.n_jobs,
        )

    def _decode(
        self,
        noisy: Any,
        find: Callable[[Examples, FloatArray], Any],
        dtype: type,
        finish: Callable[[NDArray[Any]], NDArray[Any]] = lambda found: found,
        copies: tuple[int, ...] = (),
    ) -> Any:
        """Run a decoder on pieces of bounded size; a stack gives a stack, a list a list."""
        check_is_fitted(self)
        self._check_decoding()
        images = read_images(noisy, "noisy")
        self._check_shapes(images)
        check_observed(self.channel_, images)
        out: Any = [None] * len(images)
        if isinstance(noisy, np.ndarray) and noisy.dtype != object:
            out = np.empty((len(images), *copies, *images[0].shape), dtype=dtype)
        for piece in pieces(images):
            examples = _gather(self._design, images[piece], self.channel_)
            found = find(examples, examples.layout.pack(self.parameters_))
            for i, image in zip(range(len(images))[piece], found, strict=True):
                out[i] = finish(image).astype(dtype, copy=False)
        return out

    def _check_shapes(self, images: list[Image]) -> None:
        axes = self._design["axes"]
        if images[0].ndim != axes:
            raise ValueError(
                f"noisy[0] has {images[0].ndim} axes, but the training images have {axes}"
            )
        if self._design["modular"] != "pixel":
            return
        for i, image in enumerate(images):
            if image.shape != self.shape_:
                raise ValueError(
                    f"noisy[{i}] has shape {image.shape}, but the modular term was learned for the "
                    f"pixels of {self.shape_}; resize it, or fit with modular='shared'"
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


# ------------------------------------------------------------------------------------------ inside


def _read_labels(clean: Any, noisy: list[Image]) -> list[Image]:
    """Return labels that belong to the noisy images."""
    labels = read_images(clean, "clean")
    check_pairs(noisy, labels)
    check_bits(labels, "clean", "threshold it; a pixel without a label is NaN")
    if all(x.dtype.kind == "f" and bool(np.isnan(x).all()) for x in labels):
        raise ValueError("clean has no label at all; leave it out to learn from noisy images alone")
    return labels


def _gather(
    design: dict[str, Any],
    images: list[Image],
    channel: Channel,
    labels: list[Image] | None = None,
) -> Examples:
    """Return images as the learners and decoders see them."""
    return make_examples(
        lambda shape: _functions_on(design["neighbors"], shape),
        labels=labels,
        observed=images,
        channel=channel,
        modular=design["modular"],
        context=design["context"],
        scale=design["scale"],
    )


def _doubt_independence(
    examples: Examples, theta: FloatArray, key: int, n_jobs: int | None
) -> None:
    """Warn if what is left of the noise inside of regions is correlated from pixel to pixel."""
    cleaned = clean_images(examples, theta, key, draw=False, n_jobs=n_jobs)
    pairs = [
        (z.reshape(group.shape), x.reshape(group.shape))
        for group, masks in zip(examples.groups, cleaned, strict=True)
        for z, x in zip(group.read_observed(np.arange(group.count)), masks, strict=True)
    ]
    found, stderr = neighbour_correlation(*zip(*pairs, strict=True))
    if found > _CORRELATED + 5.0 * stderr:
        warnings.warn(
            f"inside of regions, neighbouring pixels of noisy have a correlation of {found:.2f}, "
            "and independent noise has none: blobs, stripes, compression, texture or uneven light. "
            "What was learned cannot tell them from masks. Flatten the images (subtract a wide "
            "blur), give clean images, or features of a classifier (logsuper.learning)",
            UserWarning,
            stacklevel=3,
        )


def _functions_on(neighbors: Any, shape: tuple[int, ...]) -> tuple[SubmodularFunction, ...]:
    """Return the functions on images of a shape."""
    if neighbors is None or isinstance(neighbors, int | np.integer):
        if isinstance(neighbors, bool):
            raise TypeError("neighbors must be an integer, functions or a callable, got a bool")
        return grid_cuts(shape, None if neighbors is None else int(neighbors))
    if callable(neighbors) and not isinstance(neighbors, SubmodularFunction):
        return check_functions(
            neighbors(shape), f"neighbors, called with {shape},", math.prod(shape)
        )
    return check_functions(neighbors, "neighbors", math.prod(shape))
