"""Masks, probabilities and samples from a fitted field behind a classifier."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from logsuper._base import FloatArray, count_threads
from logsuper.estimators._calibration import Calibration, bounded_logit
from logsuper.estimators._common import check_count, refuse_weights
from logsuper.estimators._decoding import Decoding, keep_doubt, share_right
from logsuper.estimators._field_examples import Coupling, gather
from logsuper.estimators._field_samples import Sample, Samples, match, read_masks, read_samples
from logsuper.estimators._lazy import is_lazy
from logsuper.estimators._lazy_field import lazy_modes, lazy_probabilities
from logsuper.estimators._refinement import Picture, Refinement
from logsuper.estimators._saving import Saveable, is_boosting
from logsuper.estimators._trees import Trees
from logsuper.estimators._unary import Unary, make_unary
from logsuper.estimators._working_size import enlarge, reduce_samples
from logsuper.learning import Examples

__all__ = ["CRFDecoder"]

Finder = Callable[[Examples, FloatArray], Any]
Finisher = Callable[[NDArray[Any], FloatArray, Sample], NDArray[Any]]


class CRFDecoder(Decoding, Saveable):
    """The half of `MaskCRF` that needs a fitted model: it learns nothing."""

    unary: Any
    features: Any
    folds: int
    max_pixels: int
    calibration_: Calibration
    unary_: Any
    _plan: dict[str, Any]

    def predict(self, images: Any) -> Any:
        """Return masks.

        Parameters
        ----------
        images : array-like (N, H, W), (N, H, W, C) or (N, Z, H, W[, C]), or list
            As in `fit`; or a dask array, one image or a stack of images.

        Returns
        -------
        ndarray of the shape of the masks, or list, uint8
            Of a dask array a lazy one: for ``decode="map"`` by tiles, with the mask of the whole
            image (contrast is measured by a mean over the image, whose last digit may differ); else
            from the probabilities of each chunk. Images that are reduced to a working size, and
            features that see the whole image, as built-in ones do, are refused.

        Notes
        -----
        Features of a dask array are log-odds (or probabilities) that are brought, or made by a
        callable with an attribute ``reach``: how many pixels it looks at to each side. With
        ``edges="contrast"`` the call reads the whole picture once, for the mean contrast.
        """
        check_is_fitted(self)
        if is_lazy(images):
            if self._decides_by_means:
                return (lazy_probabilities(self, images) > 0.5).astype(np.uint8)
            return lazy_modes(self, images)
        if self._decides_by_means:
            return self._decode(
                images, self._find_means, np.uint8, lambda *found: self._refine(*found) > 0.5
            )
        return self._decode(images, self._find_modes, np.uint8, _enlarge_mask)

    def predict_proba(self, images: Any) -> Any:
        """Return the calibrated probability that each pixel is 1.

        Parameters
        ----------
        images : array-like or list
            As in `fit`.

        Returns
        -------
        ndarray of the shape of the masks, or list, float64
            In [1e-4, 1 - 1e-4], so that no pixel has an infinite log loss. Of a dask array a lazy
            one, each chunk with 32 pixels around it; see `predict`.
        """
        if is_lazy(images):
            check_is_fitted(self)
            return lazy_probabilities(self, images)
        return self._decode(
            images, self._find_means, np.float64, lambda *found: keep_doubt(self._refine(*found))
        )

    def predict_unary(self, images: Any) -> Any:
        """Return the log-odds of each pixel by itself, without its neighbours.

        Those of the classifier or those that were brought; for "linear" and callables the unary
        term of the field, which is only made to be used with the neighbours.

        Parameters
        ----------
        images : array-like or list
            As in `fit`.

        Returns
        -------
        ndarray of the shape of the masks, or list, float64
        """
        samples, small, unary = self._open(images)
        out = samples.room(np.float64)
        for piece, some in (samples if unary.brought else small).pieces():
            for i, sample, rows in zip(piece, some, unary.features(some), strict=True):
                alone = rows[:, 0] if unary.judges else self._unary_field(rows)
                out[i] = _enlarge(alone.reshape(sample.shape), samples[i].shape)
        return out

    def sample_posterior(
        self,
        images: Any,
        n_samples: int = 1,
        random_state: Any = None,
        *,
        method: str = "perturb",
        max_iter: int = 2**13,
    ) -> Any:
        """Draw masks from the field.

        Samples are of the field itself: `calibration` changes the probabilities of single pixels,
        and says nothing about whole masks. The field judges each pixel as if its unary term erred
        there alone, but that errs about whole images (the ``image`` of `calibration_`): areas of
        true masks vary more than those of samples, and an interval of areas of samples holds fewer
        than it says. Samples of a reduced image are drawn at the working size and brought back.

        Parameters
        ----------
        images : array-like or list
            As in `fit`.
        n_samples : int, default 1
            Masks per image.
        random_state : int, Generator, RandomState or None
        method : {"perturb", "cftp"}, default "perturb"
            "perturb" finds the most probable masks under random perturbations of the field, one cut
            each: the distribution that the learner "logistic" fits, whose means `predict_proba`
            calibrates. "cftp", coupling from the past, draws exactly from the field of the other
            learners. Where couplings are strong and the unary term says little, as behind weak
            classifiers, it does not end.
        max_iter : int, default 8192
            Maximum number of sweeps of "cftp"; after that `logsuper.sampling.NotCoalesced` is
            raised.

        Returns
        -------
        ndarray of shape (N, n_samples, ...), or list of arrays (n_samples, ...), uint8
        """
        where = "where couplings are strong beside the unary term"
        find = self._sampler(n_samples, random_state, max_iter, method, where)
        return self._decode(images, find, np.uint8, _enlarge_mask, copies=(n_samples,))

    def score(self, images: Any, masks: Any, sample_weight: None = None) -> float:
        """Return the share of labelled pixels that `predict` gets right.

        Parameters
        ----------
        images, masks : array-like or list
            As in `fit`.
        sample_weight : None
            As in `fit`.

        Returns
        -------
        float
        """
        refuse_weights(sample_weight)
        labels = read_masks(masks)
        samples = read_samples(images, labels[0].ndim)
        match(samples, labels)
        return share_right(labels, self.predict(samples))

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the fitted estimator to a file that `load_model` reads.

        The file holds numbers and text only, so that reading a stranger's is safe. Boosted trees
        (``unary="trees"``, or a `HistGradientBoostingClassifier` of scikit-learn) are among the
        numbers; `unary_` of what is read are `Trees`, which predict the same. Another classifier,
        or a callable, cannot be held.

        Parameters
        ----------
        path : str, path or binary file

        Raises
        ------
        TypeError
            If the unary is another classifier or a callable. Nothing is lost: pickle the estimator,
            or fit it again with a unary that can be saved.
        """
        check_is_fitted(self)
        saved = self
        if self.unary_ is not None and not isinstance(self.unary_, Trees):
            saved = copy.copy(self)
            saved.unary_ = Trees.take(self.unary_) if is_boosting(self.unary_) else None
        lost = saved.unary_ is None and self.unary_ is not None
        word = isinstance(self.unary, str) or is_boosting(self.unary)
        if lost or not word or callable(self.features):
            self._refuse_to_save(lost)
        super(CRFDecoder, saved).save(path)

    def _refuse_to_save(self, classifier: bool) -> NoReturn:
        """Say which argument a file cannot hold, and what to do."""
        held = f"unary is a {type(self.unary_).__name__}" if classifier else "unary is a callable"
        if not classifier and not callable(self.unary):
            held = "features is a callable"
        elif is_boosting(self.unary_):
            held += " with categorical features"
        raise TypeError(
            f"{held}, which a file without code cannot hold: use unary='trees' or 'linear' with "
            "built-in features, or keep yours and give its log-odds with unary='log_odds'; or "
            "pickle the estimator"
        )

    # ------------------------------------------------------------------------------------- inside

    def _read_labels(self, images: Any, masks: Any) -> Sequence[NDArray[Any]]:
        """Check masks, and that they belong to images; `pixel_scorer` asks for it too."""
        labels = read_masks(masks)
        match(read_samples(images, labels[0].ndim), labels)
        return labels

    @property
    def _coupling(self) -> Coupling:
        return Coupling(**self._plan["coupling"])

    def _unary_of(self, key: int, fitted: Any = None, scaling: FloatArray | None = None) -> Unary:
        folds, most = (
            check_count(self.folds, "folds", 2),
            check_count(self.max_pixels, "max_pixels"),
        )
        threads = count_threads(self.n_jobs)
        return make_unary(self.unary, self.features, folds, most, key, threads, fitted, scaling)

    def _calibrate(self, p: FloatArray, unary: FloatArray, sample: Sample) -> FloatArray:
        """Return calibrated probabilities of a sample, from those of the field."""
        return self.calibration_.apply(*self._enlarge_terms(p, unary, sample), float(p.mean()))

    def _enlarge_terms(
        self, p: FloatArray, unary: FloatArray, sample: Sample
    ) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of the field and the unary term at a sample's own size."""
        shape = sample.shape
        if p.shape == shape:
            return p, unary.reshape(shape)
        own = unary if unary.size == sample.size else enlarge(unary.reshape(p.shape), shape)
        return expit(enlarge(bounded_logit(p), shape)), own.reshape(shape)

    def _refine(self, p: FloatArray, unary: FloatArray, sample: Sample) -> FloatArray:
        """Return calibrated probabilities of a sample; refined if it was reduced."""
        found = self._calibrate(p, unary, sample)
        if p.shape == sample.shape:
            return found
        return Refinement(**self._plan["refinement"]).apply(found, sample, self._picture)

    @property
    def _picture(self) -> Picture:
        spread = self._plan["coupling"]["spread"]
        width = sum(self._plan["channels"]) or 1
        return Picture(width - len(spread), spread, self._plan["working_size"])

    def _unary_field(self, features: FloatArray) -> FloatArray:
        """Return the unary term of the field, from its features (n, p)."""
        found = self.parameters_
        return np.asarray(features @ found.beta + found.modular)

    def _decode(
        self,
        images: Any,
        find: Finder,
        dtype: type,
        finish: Finisher,
        copies: tuple[int, ...] = (),
    ) -> Any:
        """Run a decoder; a stack gives a stack, a list a list.

        `finish` gets what was found for an image, its unary term, and the image.
        """
        samples, small, unary = self._open(images)
        self._check_decoding()
        out, coupling = samples.room(dtype, copies), self._coupling
        for piece, some in small.pieces():
            features = unary.features(some)
            examples = gather(coupling, some, features, unary.picture)
            theta = examples.layout.pack(self.parameters_)
            for i, rows, found in zip(piece, features, find(examples, theta), strict=True):
                own = self._unary_term(unary, rows, samples[i], some[i - piece[0]])
                out[i] = finish(found, own, samples[i]).astype(dtype, copy=False)
        return out

    def _unary_term(
        self, unary: Unary, rows: FloatArray, sample: Sample, small: Sample
    ) -> FloatArray:
        """Return the unary term of a sample: at its own size where that costs nothing."""
        if unary.brought and small is not sample:
            [rows] = unary.features([sample])
        return self._unary_field(rows)

    def _open(self, images: Any) -> tuple[Samples, Samples, Unary]:
        """Check images; return them, the same at the working size, and what makes features."""
        check_is_fitted(self)
        samples = read_samples(images, self._plan["axes"])
        channels = self._plan["channels"]
        if samples[0].source.shape[self._plan["axes"] :] != channels:
            raise ValueError(
                f"images[0] has shape {samples[0].source.shape}; the training images have "
                f"{self._plan['axes']} axes and channels {channels}; give the same, and a list for "
                "one image"
            )
        if (samples[0].edges is not None) != self._plan["graphs"]:
            kind = "graphs" if self._plan["graphs"] else "images"
            raise ValueError(f"images[0] is of another kind than the training data: {kind}")
        unary = self._unary_of(self._key, self.unary_, self._plan["scaling"])
        unary.check(samples)
        return samples, reduce_samples(samples, self._plan["working_size"]), unary


def _enlarge(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return values if values.shape == shape else enlarge(values, shape)


def _enlarge_mask(masks: NDArray[Any], unary: FloatArray, sample: Sample) -> NDArray[Any]:
    """Return a mask, or masks (n, ...), with outlines interpolated."""
    shape = sample.shape
    if masks.shape[-len(shape) :] == shape:
        return masks
    if masks.ndim == len(shape):
        return enlarge(masks, shape) > 0.5
    return np.stack([enlarge(mask, shape) > 0.5 for mask in masks])
