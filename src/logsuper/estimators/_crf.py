"""A random field behind a classifier, or behind a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from logsuper import learning
from logsuper._base import FloatArray, as_key, as_vector, check_callback, check_choice, refuse
from logsuper.estimators._calibration import Calibration, mix
from logsuper.estimators._common import as_seed, check_count, refuse_weights, run, whole
from logsuper.estimators._crf_decoder import CRFDecoder
from logsuper.estimators._field_examples import Coupling, gather, take_parts, take_whole
from logsuper.estimators._field_samples import Sample, Samples, match, read_masks, read_samples
from logsuper.estimators._progress import Progress
from logsuper.estimators._refinement import Refinement, choose_refinement
from logsuper.estimators._saving import is_boosting
from logsuper.estimators._working_size import choose_size, enlarge, reduce_mask, reduce_samples
from logsuper.learning import LEARNERS, Callback, Examples, Learner, Record, choose_learner

__all__ = ["MaskCRF"]

_EDGES = {"contrast": "contrast", "uniform": "uniform", None: "none"}
# Pixels of reduced images, at their own sizes, that the calibration is chosen on.
_DRAWN = 1 << 18


class MaskCRF(CRFDecoder, BaseEstimator):  # type: ignore[misc]
    r"""Learn a conditional random field behind a classifier, from images and their masks.

    The model of a mask x given an image is

    .. math::
        p(x\mid\text{image})\propto\exp\Big(\sum_d(t+\beta^\top\phi_d)\,x_d
        -\sum_{s,r}\alpha_{sr}\sum_{(i,j)\in r}w_{s,ij}|x_i-x_j|\Big),

    where :math:`\phi_d` is what is known of pixel d by itself (the log-odds of a classifier or of a
    network, or features), and :math:`w_{s,ij}` falls with the contrast between neighbours, at
    several scales s and in each direction r. The weights :math:`\beta`, t and :math:`\alpha\ge0`
    are learned from the masks: by conditional likelihood, or with the maximum margin.

    Parameters
    ----------
    unary : {"trees", "linear", "log_odds", "probabilities"}, classifier or callable
        What is known of a pixel by itself. A scikit-learn classifier is trained on `features`
        inside: for the images that the field learns from without them, so that the field does not
        trust it more than it may on new images. "trees" is histogram gradient boosting. "linear"
        leaves out the classifier; the field weighs the features themselves. A callable, called with
        an image, returns such features. "log_odds" and "probabilities" are brought by the user, as
        the first channel of each image; the other channels are the picture.
    edges : {"contrast", "uniform", None}
        Neighbours are coupled less where the picture changes, or alike everywhere, or not at all.
    learner : {"auto", "logistic", "exact", "saa", "pseudo", "lfield", "max_margin"}
        How to learn: by likelihood (its logistic bound, exactly, ...) or with the maximum margin;
        "auto" is "logistic". "saa", "pseudo" and "max_margin" need a label for every pixel.
    neighbors : int, optional
        4 (default) or 8 for images, 6 (default), 18 or 26 for volumes.
    scales : sequence of float, default (0.3, 1.0, 3.0)
        Of the contrast, in root mean square differences between neighbours; see
        `logsuper.learning.contrast_weights`.
    features : {"auto", "context", "local"} or callable
        What the classifier judges a pixel by. "local": the channels, their means and deviations in
        three windows, and the place of the pixel. "context" also compares a pixel with its whole
        image, with its row and column, and with windows to all sides: three times as many
        features. In graphs both are the features of a node and their mean over its neighbours.
        "auto" is "context" for "trees", which pass over what does not help, else "local". A
        callable, called with an image, returns the features (..., p) of its pixels.
    folds : int, default 5
        Parts of the training images; those of each get their log-odds from a classifier that was
        trained on the others.
    max_pixels : int, default 50_000
        Labelled pixels that a classifier is trained on, drawn at random.
    working_size : int, "auto" or None
        Longer side, in pixels, to which larger images are reduced for features, classifier and
        field; log-odds and masks are then brought back to the image's own size. "auto": if images
        are learned from in windows (longer side above 96), the size at which typical objects
        of the training masks span 64 pixels, or larger where thin objects would get lost; volumes
        are not reduced unless a number is given. None: the images' own sizes.
    calibration : {"mix", "temperature", None}
        How probabilities are made as sure as they are right: those of the field are softened and
        kept off 0 and 1 by the rates :math:`\epsilon` at which it is wrong however sure it is, and
        the unary term u and the log-odds m of the mean probability of the image are added to their
        log-odds, :math:`\operatorname{logit}(\epsilon_0+(1-\epsilon_0-\epsilon_1)\sigma(a
        \operatorname{logit}p))+b\,u+c+d\,m`; or log-odds are divided by one number. Chosen by the
        log loss on training images that the classifier has not seen.
    penalty : float or dict, optional
        Weight of the quadratic regulariser, in nats per image, for all parameters or for each kind
        ("alpha", "modular", "filter"), as in `MaskDenoiser`; "filter" is that of beta.
    decode : {"auto", "mean", "map"}
        How `predict` decides: each pixel by its calibrated probability, or all by the most probable
        mask. "auto" is "map" for "max_margin", else "mean".
    marginals : {"auto", "logistic", "exact"}
        How probabilities are found: by perturbations, or by (nearly) exact inference.
    n_samples : int, default 64
        Perturbations per image, for "logistic".
    tol, max_iter, options, callback, verbose, random_state, n_jobs
        As in `MaskDenoiser`.

    Attributes
    ----------
    parameters_ : Parameters
    alpha_ : ndarray of shape (scales, directions)
        Weights of the couplings; of shape (0, 0) without edges.
    beta_ : ndarray of shape (p,)
        Weights of the log-odds, or of the (standardised) features.
    modular_ : float
        The constant t.
    unary_ : object or None
        The classifier, trained on all images; of a model that was loaded, its trees.
    held_log_odds_ : list of ndarray, or None
        Log-odds of the training images from classifiers that have not seen them; None if images
        are read from files, as `logsuper.io.ImageFiles` are.
    calibration_ : Calibration
        Its ``field`` (a), ``unary`` (b), ``constant`` (c), rates ``missed`` and ``false``, and
        ``image`` (d), with bounds on m.
    learner_ : str
    history_ : tuple of Record
    n_iter_ : int
    converged_ : bool
    working_size_ : int or None
        The longer side to which larger images are reduced; None if they are not.
    axes_, channels_ : int
        Number of axes of a mask, and of channels of an image (1 where it has no axis for them).
    decode_factor_ : float
        Factor on all weights for "map", chosen on the training images if `decode` is "map".
    classes_ : ndarray of shape (2,)
        0 and 1.

    Notes
    -----
    Images are an array (N, H, W) or (N, H, W, C), volumes (N, Z, H, W) or (N, Z, H, W, C), or a
    list (or generator) of arrays or PIL images of different sizes. The masks, without channels,
    say which it is. Superpixels and other graphs are pairs ``(features, edges)`` in a list, of
    shapes (n, C) and (E, 2), with masks (n,). Masks are 0 or 1; NaN, or masked, where there is no
    label. NaN as log-odds, or as a probability, is "not known"; a picture must be complete.

    Reduced images are averaged (a callable gets float64), and a cell of a reduced mask has the
    label that most of its labelled pixels have; NaN if none is labelled. Probabilities are brought
    back to an image's own size by interpolated log-odds and, with ``edges="contrast"`` and
    ``calibration="mix"``, refined there: they are denoised by a total variation that is cheap
    where the picture changes, of a strength with the least log loss on the training images.
    Images that are large even at the working size are learned from windows.

    References
    ----------
    Y. Boykov and M.-P. Jolly, "Interactive graph cuts for optimal boundary and region segmentation
    of objects in N-D images", 2001.
    J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields", 2001.

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> masks = ls.make_silhouettes(12, shape=(24, 24), seed=0)
    >>> images = masks + np.random.default_rng(0).normal(scale=0.8, size=masks.shape)
    >>> crf = ls.MaskCRF(unary="linear").fit(images[:8], masks[:8])
    >>> crf.predict(images[8:]).shape
    (4, 24, 24)
    >>> crf.score(images[8:], masks[8:]) > 0.9  # 0.73 by a threshold on each pixel
    True
    """

    _FITTED = (
        *("parameters_", "learner_", "history_", "converged_", "decode_factor_", "calibration_"),
        *("_plan", "_key", "unary_"),
    )
    _OPTIONAL = ("unary_",)

    history_: tuple[Record, ...]
    converged_: bool

    def __init__(
        self,
        unary: Any = "trees",
        edges: str | None = "contrast",
        learner: str = "auto",
        *,
        neighbors: int | None = None,
        scales: Sequence[float] = (0.3, 1.0, 3.0),
        features: Any = "auto",
        folds: int = 5,
        max_pixels: int = 50_000,
        working_size: int | str | None = "auto",
        calibration: str | None = "mix",
        penalty: float | dict[str, float] | None = None,
        decode: str = "auto",
        marginals: str = "auto",
        n_samples: int = learning.SAMPLES,
        tol: float | None = None,
        max_iter: int | None = None,
        options: dict[str, Any] | None = None,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.unary = unary
        self.edges = edges
        self.learner = learner
        self.neighbors = neighbors
        self.scales = scales
        self.features = features
        self.folds = folds
        self.max_pixels = max_pixels
        self.working_size = working_size
        self.calibration = calibration
        self.penalty = penalty
        self.decode = decode
        self.marginals = marginals
        self.n_samples = n_samples
        self.tol = tol
        self.max_iter = max_iter
        self.options = options
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, images: Any, masks: Any, sample_weight: None = None) -> Self:
        """Learn from images and their masks.

        Parameters
        ----------
        images : array-like (N, H, W), (N, H, W, C) or (N, Z, H, W[, C]), or list
            Images, volumes or graphs; see the notes.
        masks : array-like (N, H, W) or (N, Z, H, W), or list of arrays
            0 or 1; NaN, or masked, where there is no label.
        sample_weight : None
            Images have no weights: leave images out, or give pixels that shall not count the label
            NaN.

        Returns
        -------
        self
        """
        refuse_weights(sample_weight)
        labelled = [name for name, learner in LEARNERS.items() if learner.labels]
        check_choice(self.learner, "learner", ["auto", *labelled])
        learner = choose_learner(True, ()) if self.learner == "auto" else LEARNERS[self.learner]
        check_callback(self.callback)
        self._check_decoding()
        if self.calibration is not None:
            check_choice(self.calibration, "calibration", ["mix", "temperature"])
        given_labels = read_masks(masks)
        given = read_samples(images, given_labels[0].ndim)
        match(given, given_labels)
        size = choose_size(self.working_size, given_labels)
        key = as_key(as_seed(self.random_state))
        unary = self._unary_of(key)
        unary.check(given)
        progress = Progress(self.callback, bool(self.verbose))
        progress.begin(f"{len(given)} images, {given.pixels} pixels")
        with progress.listening():
            samples = reduce_samples(given, size)
            labels = given_labels
            if samples is not given:
                labels = [
                    reduce_mask(mask, sample.shape)
                    for mask, sample in zip(given_labels, samples, strict=True)
                ]
            if samples.pixels < given.pixels:
                progress.say(f"reduced to {size} pixels of the longer side")
            coupling = self._choose_coupling(samples, unary.picture)
            parts = take_parts(samples, labels, coupling, key)
            windows = parts[0].places is not None
            entire = take_whole(samples, coupling, key) if windows else parts
            # log-odds of all images in files would fill the memory
            stored = given[0].stored
            wanted = {part.number for part in [*parts, *entire]} if stored else None
            features = unary.learn(samples, labels, key, wanted)
            progress.say(f"unary: {features[parts[0].number].shape[1]} features of each pixel")
            if windows:
                progress.say(f"learning looks at {len(parts)} windows of them")
            examples = gather(coupling, samples, features, unary.picture, labels, parts)
            learned = run(self, learner, examples, key, progress.callback)
            progress.say(f"{learner.name}: {'converged' if learned.converged else 'not converged'}")
            if windows:
                # near the border of a window a field is less sure than in the middle of an image:
                # what is decoded whole must be judged whole
                examples = gather(coupling, samples, features, unary.picture, labels, entire)
            with whole(self):
                self._plan = {
                    "axes": labels[0].ndim,
                    "graphs": samples[0].edges is not None,
                    "channels": samples[0].source.shape[labels[0].ndim :],
                    "coupling": {
                        "kind": coupling.kind,
                        "neighbors": coupling.neighbors,
                        "scales": coupling.scales,
                        "spread": coupling.spread,
                    },
                    "scaling": getattr(unary, "scaling", None),
                    "working_size": size,
                    "refinement": Refinement()._asdict(),
                }
                self.held_log_odds_: list[FloatArray] | None = None
                if unary.classifier is not None and not stored:
                    self.held_log_odds_ = [
                        enlarge(rows[:, 0].reshape(small.shape), mask.shape)
                        for rows, small, mask in zip(features, labels, given_labels, strict=True)
                    ]
                self._key, self.learner_, self.unary_ = key, learner.name, unary.classifier
                self.parameters_, self.history_ = learned.parameters, tuple(learned.history)
                self.converged_ = bool(learned.converged)
                self._choose_decoding(learner, examples)
                if self.calibration == "mix":
                    numbers = [part.number for part in entire]
                    terms = [
                        self._unary_term(unary, features[k], given[k], samples[k]) for k in numbers
                    ]
                    own = [given[k] for k in numbers]
                    self._mix(examples, terms, own, [given_labels[k] for k in numbers])
                progress.say(f"probabilities: {self.calibration_[:3]}")
                self._refit()
        return self

    def _choose_coupling(self, samples: Samples, picture: int) -> Coupling:
        """Check what the user says of edges."""
        if not (self.edges is None or isinstance(self.edges, str)) or self.edges not in _EDGES:
            raise ValueError(f"edges must be contrast, uniform or None, got {self.edges!r}")
        scales = as_vector(self.scales, "scales")
        refuse(scales <= 0, scales, "scales", "a scale must be positive")
        if not len(scales):
            raise ValueError("scales is empty; give at least one, or edges='uniform'")
        near = self.neighbors
        if near is not None:
            near = check_count(near, "neighbors")
            if samples[0].edges is not None:
                raise ValueError("neighbors is for images; a graph has edges of its own")
        axes = len(samples[0].shape)
        if samples[0].edges is None and axes == 1:
            raise ValueError(
                "masks have one axis each, as those of graphs: give graphs as pairs (features, "
                "edges); or a single image and its mask as stacks, images[None] and masks[None]"
            )
        kind = _EDGES[self.edges]
        spread = np.ones(0)
        if kind == "contrast":
            width = samples[0].channels.shape[1] - picture
            if not width:
                raise ValueError(
                    "edges='contrast' needs a picture behind the first channel, (..., 1 + C); "
                    "give one, or edges='uniform'"
                )
            total = sum(sample.channels[:, picture:].sum(axis=0) for sample in samples)
            mean = total / samples.pixels
            squares = sum(
                ((sample.channels[:, picture:] - mean) ** 2).sum(axis=0) for sample in samples
            )
            spread = np.sqrt(squares / samples.pixels)
            spread = np.where(spread > 0, spread, 1.0)
        found = Coupling(kind, near, tuple(scales.tolist()), spread)
        found.functions(samples[0])  # refuses a number of neighbours that does not exist
        return found

    def _choose_decoding(self, learner: Learner, examples: Examples) -> None:
        """Choose the temperature, and the factor of "map", on the training images."""
        theta = examples.layout.pack(self.parameters_)
        self.calibration_ = Calibration()
        if self.calibration == "temperature":
            temperature = learning.best_temperature(examples, theta, **self._inference)
            self.calibration_ = Calibration(1.0 / temperature)
        self.decode_factor_ = 1.0
        if self.decode == "map" != learner.decode:
            self.decode_factor_ = learning.best_factor(examples, theta, n_jobs=self.n_jobs)

    def _mix(
        self,
        examples: Examples,
        terms: Sequence[FloatArray],
        samples: Sequence[Sample],
        labels: Sequence[NDArray[Any]],
    ) -> None:
        """Choose the calibration on labels of the training images at their own sizes.

        Of reduced images, labelled pixels are drawn at random, as many of each image.
        """
        found = self._find_means(examples, examples.layout.pack(self.parameters_))
        rng = np.random.default_rng(self._key)
        share = max(1, _DRAWN // len(labels))
        columns: list[list[FloatArray]] = [[], [], []]
        places = []
        for p, term, sample, mask in zip(found, terms, samples, labels, strict=True):
            known = np.flatnonzero(mask == mask)
            rows = [p, term, mask.astype(np.float64)]
            if p.shape != mask.shape:
                rows[:2] = self._enlarge_terms(p, term, sample)
                known = np.sort(rng.permutation(known)[:share])
            places.append(known)
            for column, row in zip(columns, rows, strict=True):
                column.append(row.ravel()[known])
        means = [float(p.mean()) for p in found]
        self.calibration_ = mix(columns[0], columns[1], columns[2], means)
        reduced = [k for k, mask in enumerate(labels) if found[k].shape != mask.shape]
        if reduced and self._coupling.kind == "contrast" and labels[0].ndim == 2:
            refinement = choose_refinement(
                lambda k: self._calibrate(
                    found[reduced[k]], terms[reduced[k]], samples[reduced[k]]
                ),
                [samples[k] for k in reduced],
                [labels[k] for k in reduced],
                [places[k] for k in reduced],
                self._picture,
            )
            self._plan["refinement"] = refinement._asdict()

    def _refit(self) -> None:
        found = self.parameters_
        self.classes_ = np.array([0, 1])
        self.working_size_: int | None = self._plan["working_size"]
        if not hasattr(self, "held_log_odds_"):  # read from a file
            self.held_log_odds_ = None
            self.unary_ = getattr(self, "unary_", None)
            if (self.unary_ is not None) != (self.unary == "trees" or is_boosting(self.unary)):
                raise ValueError("unary and unary_ do not belong together")
        self.axes_: int = self._plan["axes"]
        self.channels_: int = sum(self._plan["channels"]) or 1
        plan = self._plan["coupling"]
        rows = {"contrast": len(plan["scales"]), "uniform": 1, "none": 0}[plan["kind"]]
        self.alpha_: FloatArray = found.alpha.reshape(rows, -1) if rows else np.zeros((0, 0))
        self.beta_: FloatArray = found.beta
        self.modular_: float = float(found.modular[0])
        self.n_iter_: int = self.history_[-1].step if self.history_ else 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags
