"""Clean masks from noisy ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from logsuper import learning
from logsuper._base import FloatArray, as_key, check_callback, check_choice, count_threads
from logsuper.estimators._blind_spot import train_blind_spot
from logsuper.estimators._common import as_seed, has_cost, read_weights, refuse_weights, whole
from logsuper.estimators._crops import crop, is_large
from logsuper.estimators._design import (
    choose_beside,
    choose_radius,
    choose_term,
    choose_trees,
    has_trees,
    may_crop,
)
from logsuper.estimators._doubts import doubt_answer
from logsuper.estimators._images import Images, read_images, read_labels
from logsuper.estimators._mask_decoder import MaskDecoder
from logsuper.estimators._mask_examples import functions_on, gather
from logsuper.estimators._noise import doubt, find_channel, find_error, find_rate_error, has_places
from logsuper.estimators._progress import Progress
from logsuper.estimators._saving import Saveable
from logsuper.estimators._select import Selector, Setting, check_selection
from logsuper.learning import LEARNERS, Callback, Learner, Record, choose_learner

__all__ = ["MaskDenoiser"]


class MaskDenoiser(MaskDecoder, Saveable, BaseEstimator):  # type: ignore[misc]
    r"""Learn what masks look like, and remove the noise from noisy ones.

    The model of a mask x given what was observed, z, is a conditional random field with weights
    that are learned,

    .. math::
        p(x\mid z)\propto\exp\Big(-\sum_k\alpha_kf_k(x)+(t+h*\tanh(l/2)+w\,l)^\top x\Big),

    with submodular :math:`f_k` (cuts between neighbouring pixels), a modular term t, the log-odds
    :math:`l(z)` of the observations, and a linear filter h of those around a pixel. It is learned
    from pairs of noisy and clean images, or from noisy images alone. ``context="trees"`` adds
    :math:`b\,g`, with g the log-odds of a classifier that sees more of the surroundings.

    Parameters
    ----------
    noise : {"auto", "flips", "asymmetric", "gaussian"}, float, array-like or Channel
        What happened to the images. A number is the share of flipped pixels, in (0, .5); an array
        has one per pixel. A word names the kind of a channel whose parameters are found from the
        data: counted against `clean` where that is given, else estimated from the noisy images.
        "auto" is "flips" where all is 0 or 1, and "gaussian" for grey levels. Without `clean`, one
        rate for all pixels is checked: a warning says if it is larger than the images show.
    learner : str, default "auto"
        How to learn: "auto", "logistic", "saa", "exact", "pseudo", "lfield", "max_margin",
        "marginal", "resample", "moments" or "latent". "auto" is "logistic", the paper's maximum
        likelihood, with clean images; without them "resample" where all functions are pairwise
        ("moments" with a classifier as `context` and 50 images or more, none of them large), else
        "latent". The last three learn from noisy images alone and ignore clean ones.
    modular : {"auto", "pixel", "shared", "none"}
        The modular term t: one number per pixel, one for all, or none. "auto" is "pixel" for
        20 images or more of one shape with no side longer than 96 (24 in volumes), else "shared".
        One for all is left out where nothing was observed around a pixel (see `make_examples`).
    neighbors : int, "position", list of SubmodularFunction or callable, optional
        4 (default) or 8 for images, 6 (default), 18 or 26 for volumes; or the functions
        :math:`f_k` themselves; or a callable that returns them for the shape of an image.
        "position" is the default with weights that vary with the place in an image: per direction
        a sum of three bumps along each axis. For images that show similar things at one place.
    context : int, "auto", "filter", "trees", "select" or classifier
        Radius of the filter h; 0 for none. "filter" is 2, or 1 for volumes, reduced until there are
        a thousand training pixels per coefficient, and 0 for "latent", which cannot learn one.
        "trees" has boosted trees beside that filter, or any classifier of scikit-learn that has
        ``predict_proba``: they see up to 13 pixels away, make fewer errors, and take several times
        as long to train; see the notes. "auto" compares both where trees may be worth their time:
        for 20 or more images with no side longer than 96 that have 100,000 known pixels of zeros
        and ones in all (labels, if there are any) and are in memory, unless a learner, its penalty,
        its options or functions are given; else it is "filter". "select" chooses among trees with
        the filter, the filter alone, and all smaller ones, for images of any kind.
    cost : pair of float or array, default (1.0, 1.0)
        What a zero that is taken for a one costs, and a one that is taken for a zero; arrays have
        the shape of an image. `predict` takes a pixel for a one where its probability exceeds the
        first over their sum; "max_margin" and "marginal" learn with these losses. Not for the most
        probable mask of other learners.
    scale : bool or "select", default True
        Whether the weight w of the observations is learned; else, and for "latent", it is 1.
    penalty : float, dict or "select", optional
        Weight of the quadratic regulariser, in nats per image, for all parameters or for each kind
        ("alpha", "modular", "filter", "scale", 0 where not given; "scale" is also that of the
        classifier's weight b, which like w is 1 by nature). By default a Gaussian prior: 3
        over the number of images for the modular term (30 for "moments"), 30 over it for the
        filter, and .1 over it (10 for "moments") for the others. "select" chooses among .1, 1, 10
        and 100 times that.
    decode : {"auto", "mean", "map"}
        How `predict` decides: each pixel by its probability, or all by the most probable mask.
        "auto" is "map" for "max_margin", whose probabilities mean nothing, else "mean".
    marginals : {"auto", "logistic", "exact"}
        How `predict_proba` finds probabilities: by perturbations, or by (nearly) exact inference.
        "auto" is what the learner assumed; exact inference only where it is affordable.
    temperature : float or "select", default 1.0
        The log-odds of `predict_proba` are divided by it, which changes no mask and no sample.
        "select" is best with clean images: hidden pixels, by which it is chosen without them, lack
        their own observations, and what suits them can make the others too sure.
    n_samples : int, default 64
        Perturbations per image, for "logistic".
    tol : float, optional
        Accuracy of the learner; its own default if None.
    max_iter : int, optional
        Maximum number of steps, rounds or iterations of the learner; its own default if None.
    options : dict, optional
        More arguments of the learner.
    callback : callable, optional
        Called before the first step, with each record of the learner, and at least once per second
        by the default learners; a record that is only a sign of life has the objective NaN. An
        exception ends the fit.
    verbose : bool, default False
        Whether to print what is found and the progress of learning.
    random_state : int, Generator, RandomState or None, default 0
        The same number gives the same result, whatever `n_jobs`. A fitted estimator decodes with
        the same perturbations every time: its result for an image does not depend on the others.
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
    trust_ : float
        Weight b of the classifier's log-odds; 0 without one.
    surroundings_ : object or None
        The classifiers.
    channel_ : Channel
        With the noise that was given, found or learned.
    noise_ : float, ndarray or tuple
        The parameters of the channel: the rate, or the rates of false ones and false zeros, or the
        standard deviations of zeros and ones.
    noise_stderr_ : float or tuple
        Standard errors of rates in `noise_`: 0 where they were given, NaN where they are not known
        (grey levels, and rates that the learner changed).
    learner_ : str
        The learner that ran.
    history_ : tuple of Record
    n_iter_ : int
        Steps that the learner took.
    converged_ : bool
    decode_factor_ : float
        Factor on all weights but w for "map": maximum likelihood is too smooth for the most
        probable mask. Chosen on the training images if `decode` is "map" and they have labels, else
        1; and 1 for "max_margin", which is made for "map".
    temperature_ : float
        The temperature that was given or chosen.
    selection_ : tuple of dict
        What was compared, for "select" or as the default context: ``context``, ``scale``,
        ``penalty`` (times the default), ``trees``, the ``score`` of each, by how much it is
        ``behind`` the best, and the ``stderr`` of that; empty if nothing was.
    shape_ : tuple of int or None
        The shape of the training images, None where they differ.
    classes_ : ndarray of shape (2,)
        0 and 1.

    Notes
    -----
    Images are an array (N, H, W), volumes (N, Z, H, W), or a list of arrays, which may differ in
    shape unless t is per pixel. Large images are learned from windows, up to half a million pixels
    in all, unless something is given per pixel. Any dtype will do; NaN, or the mask of a masked
    array, is a missing pixel in `noisy`, which is filled in, and a pixel without a label in
    `clean`.

    "select" holds a fifth of the images out, or of windows where there are fewer than five images,
    and compares fits to the rest: without clean images by how well hidden pixels are predicted
    (`score`), with them by the log loss of the labels. Context, scale and penalty are chosen in
    this order, a fit per value, beginning with the defaults; the temperature belongs to the winner,
    which is fitted again to everything. Where only trees and filter are compared, each half of the
    images judges what the other half taught.

    A classifier as `context` predicts, without clean images, what was observed at a pixel from its
    surroundings, the pixel itself left out; with the channel inverted that is the probability of a
    clean one, which is known without a label and does not depend on the noise of its own pixel.
    Training images are judged by classifiers that have not seen them, of three that share the
    images (blocks of them with a gap, where there are fewer than three images); new images by
    all three. `predict` and `predict_proba` recognise training images by what is in them, so that
    in ``fit(noisy).predict_proba(noisy)`` no classifier has fitted the noise of a pixel that it
    judges; the few weights of the field have seen it. All images must have the same noise at every
    pixel. With clean
    images the classifier predicts these, and sees the noisy pixel, too. `save` writes boosted trees
    as arrays of their nodes, and refuses other classifiers.

    References
    ----------
    J. Batson and L. Royer, "Noise2Self: blind denoising by self-supervision", ICML 2019.

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
        *("parameters_", "channel_", "learner_", "history_", "converged_", "decode_factor_"),
        *("shape_", "_design", "_key", "temperature_", "selection_"),
        *("surroundings_", "noise_stderr_"),
    )
    _OPTIONAL = ("temperature_", "selection_", "surroundings_", "noise_stderr_")

    history_: tuple[Record, ...]
    converged_: bool
    selection_: tuple[dict[str, Any], ...]
    noise_stderr_: Any

    def __init__(
        self,
        noise: Any = "auto",
        learner: str = "auto",
        *,
        modular: str = "auto",
        neighbors: Any = None,
        context: Any = "auto",
        cost: tuple[Any, Any] = (1.0, 1.0),
        scale: bool | str = True,
        penalty: float | dict[str, float] | str | None = None,
        decode: str = "auto",
        marginals: str = "auto",
        temperature: float | str = 1.0,
        n_samples: int = learning.SAMPLES,
        tol: float | None = None,
        max_iter: int | None = None,
        options: dict[str, Any] | None = None,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.noise = noise
        self.learner = learner
        self.modular = modular
        self.neighbors = neighbors
        self.context = context
        self.cost = cost
        self.scale = scale
        self.penalty = penalty
        self.decode = decode
        self.marginals = marginals
        self.temperature = temperature
        self.n_samples = n_samples
        self.tol = tol
        self.max_iter = max_iter
        self.options = options
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, noisy: Any, clean: Any = None, sample_weight: Any = None) -> Self:
        """Learn from noisy images, and from clean ones where they are given.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or sequence of arrays
            Images of a lazy sequence (`logsuper.io.ImageFiles`, a memory map, zarr) beyond 256 MB
            are read again whenever they are needed, and must not change meanwhile.
        clean : the same, optional
            0 or 1; NaN, or masked, where there is no label.
        sample_weight : sequence, optional
            Per image a number or an array of its shape: factors on the losses of wrong pixels, for
            "max_margin" and "marginal". Other learners have none: leave images out, or give pixels
            that shall not count the label NaN.

        Returns
        -------
        self
        """
        check_choice(self.learner, "learner", ["auto", *LEARNERS])
        check_choice(self.modular, "modular", ["auto", "pixel", "shared", "none"])
        if not isinstance(self.verbose, bool | np.bool_):
            raise TypeError(f"verbose must be True or False, got {self.verbose!r}")
        check_callback(self.callback)
        check_selection(self)
        costly = has_cost(self.cost)
        self._check_decoding()
        images = read_images(noisy, "noisy")
        labels = None if clean is None else read_labels(clean, images)
        learner = self._choose_learner(images, labels)
        if not learner.labels:
            labels = None
        weights = read_weights(sample_weight, images)
        if not learner.costs:
            refuse_weights(weights, learner.name)
        if costly and self.decode == "map" != learner.decode:
            raise ValueError(
                f"cost = {self.cost!r} has no effect on the most probable mask; use decode='mean', "
                "or learner='max_margin'"
            )
        windows = may_crop(self, weights) and is_large(images)
        design = {
            "neighbors": self.neighbors,
            "axes": len(images.shapes[0]),
            "modular": choose_term(self.modular, images, windows),
            "context": choose_radius(self.context, learner, images),
            "scale": bool(self.scale) and not learner.latent,
        }
        has_trees(self.context, learner)  # or it is refused, before any work
        beside = choose_beside(self.learner == "auto", learner, images, windows)
        key = as_key(as_seed(self.random_state))
        progress = Progress(self.callback, bool(self.verbose))
        progress.begin(f"{len(images)} images, {images.pixels} pixels")
        with progress.listening():
            channel, said = find_channel(self.noise, images, labels)
            given = not isinstance(self.noise, str)
            learned_too = (
                isinstance(self.options, Mapping) and self.options.get("noise") == "learned"
            )
            doubted = labels is None and given and not learned_too and doubt(channel, images)
            progress.say(f"noise: {channel!r}")
            parts, marked, places = crop(images, labels, key) if windows else (images, labels, None)
            if windows:
                progress.say(f"learning looks at {len(parts)} windows of them")
            around, judge = None, None
            trees = choose_trees(self, learner, channel, images, labels, windows)
            if trees[0]:
                progress.say("training classifiers of the surroundings")
                around, judge = train_blind_spot(
                    parts,
                    marked,
                    channel,
                    None if isinstance(self.context, str) else self.context,
                    images=images,
                    windows=places,
                    key=key,
                    threads=count_threads(self.n_jobs),
                )
                progress.say(f"surroundings: {len(around.models)} classifiers trained")
            found: dict[str, Any] = {}
            if learner.costs:
                found["cost"] = self.cost
                if weights is not None:
                    found["loss"] = np.stack(weights) if len(set(images.shapes)) == 1 else weights
            stderr = 0.0 if given else find_error(channel, images, labels)
            if labels is None and not given:
                found["rate_stderr"] = find_rate_error(channel, images, stderr)
            selector = Selector(
                self,
                learner,
                beside,
                lambda setting: gather(setting.change(design), parts, channel, marked, judge),
                np.array(range(len(parts)) if places is None else [at.image for at in places]),
                learner.marginals if self.marginals == "auto" else self.marginals,
                key,
                progress,
                found,
            )
            start = Setting(design["context"], design["scale"], trees=trees[0])
            chosen = selector.choose(start, trees)
            examples = selector.gather(chosen.setting)
            learned = selector.learn(examples, chosen.setting, self.options)
            design = chosen.setting.change(design)
            learner = selector.pick(chosen.setting)
            if not doubted:
                doubt_answer(
                    examples,
                    learned,
                    parts,
                    places,
                    labelled=labels is not None,
                    estimated=labels is None and not given,
                    residuals=labels is None and not has_places(channel),
                    said=said,
                    key=key,
                    n_jobs=self.n_jobs,
                )
        progress.say(f"{learner.name}: {'converged' if learned.converged else 'not converged'}")
        with whole(self):
            self._design, self._key, self.learner_ = design, key, learner.name
            self.temperature_, self.selection_ = chosen.temperature, chosen.rows
            self.surroundings_ = around if design["trees"] else None
            self.parameters_, self.history_ = learned.parameters, tuple(learned.history)
            self.channel_ = channel if learned.channel is None else learned.channel
            self.noise_stderr_ = stderr if self.channel_ is channel else math.nan
            self.converged_ = bool(learned.converged)
            self.shape_ = images.shapes[0] if len(set(images.shapes)) == 1 else None
            self.decode_factor_ = 1.0
            if labels is not None and self.decode == "map" != learner.decode:
                theta = examples.layout.pack(self.parameters_)
                self.decode_factor_ = learning.best_factor(examples, theta, n_jobs=self.n_jobs)
            self._refit()
        return self

    def _choose_learner(self, images: Images, labels: Images | None) -> Learner:
        if self.learner == "auto":
            functions = () if labels else functions_on(self.neighbors, images.shapes[0])
            return choose_learner(labels is not None, functions)
        learner = LEARNERS[self.learner]
        if learner.labels and labels is None:
            *others, last = (repr(name) for name, other in LEARNERS.items() if not other.labels)
            raise ValueError(
                f"learner={self.learner!r} needs clean images: fit(noisy, clean); without them "
                f"use {', '.join(others)} or {last}"
            )
        return learner

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
        beta = found.beta[:-1] if self._design.get("trees") else found.beta
        self.trust_: float = float(found.beta[-1]) if self._design.get("trees") else 0.0
        window = np.insert(beta, len(beta) // 2, 0.0)
        self.filter_: FloatArray = window.reshape(
            (2 * self._design["context"] + 1,) * self._design["axes"]
        )
        if not hasattr(self, "temperature_"):  # a file that is older than they are
            self.temperature_, self.selection_ = 1.0, ()
        if not hasattr(self, "surroundings_"):
            self.surroundings_ = None
        if not hasattr(self, "noise_stderr_"):
            self.noise_stderr_ = math.nan
        around = self.surroundings_
        if bool(self._design.get("trees")) != (around is not None) or not (
            around is None or around.fits(self._design["axes"])
        ):
            raise ValueError("surroundings_ does not belong to the design of the model")
        self.noise_: Any = self.channel_.noise
        self.n_iter_: int = self.history_[-1].step if self.history_ else 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags
