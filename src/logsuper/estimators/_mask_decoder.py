"""Masks, probabilities, samples and scores from a fitted denoiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from logsuper import learning
from logsuper._base import Box, FloatArray, count_threads
from logsuper.channels import Channel
from logsuper.estimators._blind_spot import BlindSpot
from logsuper.estimators._common import find_threshold, read_weights
from logsuper.estimators._decoding import Decoding, keep_doubt, share_right
from logsuper.estimators._images import Images, read_images, read_labels
from logsuper.estimators._lazy import (
    bound_means,
    decode_by_blocks,
    goes_by_blocks,
    is_lazy,
    lazy_decisions,
    lazy_intervals,
    lazy_means,
    lazy_modes,
)
from logsuper.estimators._mask_examples import gather
from logsuper.estimators._noise import check_observed
from logsuper.estimators._spread import spread
from logsuper.learning import Examples
from logsuper.model import LogSupermodular

__all__ = ["MaskDecoder"]


class MaskDecoder(Decoding):
    """The part of `MaskDenoiser` that uses a fitted model."""

    cost: tuple[Any, Any]
    temperature_: float
    channel_: Channel
    shape_: tuple[int, ...] | None
    surroundings_: BlindSpot | None
    _design: dict[str, Any]

    def predict(self, noisy: Any) -> Any:
        """Return clean masks, with the least expected `cost` where pixels are decided one by one.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
            A dask array, of one image (H, W) or of a stack, gives a lazy dask array.

        Returns
        -------
        ndarray of the shape of `noisy`, or list, uint8
            The same bits for a dask array, but for training images beside a classifier, which are
            not recognised in chunks. Where pixels are decided one by one, see
            `predict_proba` for images of more than 4 million pixels.
        """
        check_is_fitted(self)
        if is_lazy(noisy):
            means = self._decides_by_means
            return lazy_decisions(self, noisy) if means else lazy_modes(self, noisy)
        images = self._read(noisy)
        if (found := spread(self, "predict", images, np.uint8)) is not None:
            return found
        if self._decides_by_means:
            return self._decode_means(images, np.uint8, self._decide)
        return self._decode(images, self._find_modes, np.uint8)

    def predict_proba(self, noisy: Any) -> Any:
        """Return the probability that each pixel is 1.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays

        Returns
        -------
        ndarray of the shape of `noisy`, or list, float64
            In [1e-4, 1 - 1e-4], so that no pixel has an infinite log loss. Their log-odds are
            divided by `temperature_`. Lazy for a dask array, as in `predict`. Images of more than
            2**22 pixels, in memory or not, are cut into blocks of 1024x1024 pixels (128 cubed for
            volumes), each of which is decoded with 32 pixels around it (16): nothing certifies
            that what lies further away does not matter, as `predict_interval` does. Training
            images of this size are not recognised.
        """
        if is_lazy(noisy):
            check_is_fitted(self)
            return lazy_means(self, noisy)
        images = self._read(noisy)
        if (spreading := spread(self, "predict_proba", images, np.float64)) is not None:
            return spreading
        return self._decode_means(images, np.float64, self._finish)

    def predict_interval(self, noisy: Any, width: float = 1e-3) -> tuple[Any, Any]:
        """Return certified bounds on the exact probability that each pixel is 1.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
            Or a dask array, of one image or of a stack.
        width : float, default 1e-3
            Width of the intervals that is asked for; see `marginals_tiles`, which finds them, for
            when it is not reached.

        Returns
        -------
        lower, upper : ndarray of the shape of `noisy`, or list, float64
            Finished as those of `predict_proba` are: with `temperature_`, and in [1e-4, 1 - 1e-4].
            Of the same bits for a dask array, as in `predict`, but lazy.

        Examples
        --------
        >>> import logsuper as ls
        >>> noisy = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(24, 24), seed=0), seed=1)
        >>> model = ls.MaskDenoiser(marginals="exact").fit(noisy)
        >>> lower, upper = model.predict_interval(noisy[:1])
        >>> p = model.predict_proba(noisy[:1])
        >>> bool((lower <= p).all() and (p <= upper).all() and (upper - lower).max() <= 1e-3)
        True
        """
        check_is_fitted(self)
        if is_lazy(noisy):
            return lazy_intervals(self, noisy, width)
        images = self._read(noisy)
        lower, upper = images.room(np.float64), images.room(np.float64)
        for i, image in enumerate(images):
            group, alpha, field = self._pose(image)
            f = learning.make_function(group, 0, alpha)
            lower[i], upper[i] = bound_means(self, f, field.reshape(image.shape), width)
        return lower, upper

    def posterior(self, image: Any) -> LogSupermodular:
        """Return the model of the clean mask given one noisy image.

        Its marginals are what `predict_proba` estimates, up to `temperature_`; it has bounds,
        samples and modes of its own.

        Parameters
        ----------
        image : array-like (H, W) or (Z, H, W)
            NaN, or masked, where it is missing.

        Returns
        -------
        LogSupermodular

        Examples
        --------
        >>> import logsuper as ls
        >>> noisy = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(24, 24), seed=0), seed=1)
        >>> model = ls.MaskDenoiser().fit(noisy).posterior(noisy[0])
        >>> model.shape, model.bracket().width < 0.1
        ((24, 24), True)
        """
        group, alpha, field = self._pose(image)
        return learning.make_model(group, 0, alpha, field, group.shape)

    def _pose(self, image: Any) -> tuple[Any, FloatArray, FloatArray]:
        """Return one image as an example, the weights of the functions, and the field (n,)."""
        [(_, examples, theta)] = self._examples(self._read([image]))
        [group] = examples.groups
        [field] = examples.fields(theta, group, np.arange(1))
        return group, theta[examples.layout.blocks["alpha"]], field

    def sample_posterior(
        self,
        noisy: Any,
        n_samples: int = 1,
        random_state: Any = None,
        *,
        max_iter: int = 2**13,
        method: str = "cftp",
    ) -> Any:
        """Draw samples of the clean masks given the noisy ones, by default exact ones.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        n_samples : int, default 1
            Masks per image.
        random_state : int, Generator, RandomState or None
        max_iter : int, default 8192
            Maximum number of sweeps of "cftp"; after that `logsuper.sampling.NotCoalesced` is
            raised. Wide areas without observations need many.
        method : {"cftp", "perturb"}, default "cftp"
            "cftp", coupling from the past, is exact. "perturb" finds the most probable masks under
            random perturbations of the field: one cut each, wherever couplings are strong or
            observations missing, and their means are those that `predict_proba` has by default.

        Returns
        -------
        ndarray of shape (N, n_samples, ...), or list of arrays (n_samples, ...), uint8
        """
        where = "across wide areas without observations"
        find = self._sampler(n_samples, random_state, max_iter, method, where)
        return self._decode(self._read(noisy), find, np.uint8, copies=(n_samples,))

    def score(self, noisy: Any, clean: Any = None, sample_weight: Any = None) -> float:
        """Return the share of labelled pixels that `predict` gets right, or a score without labels.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        clean : the same, optional
            Without it, every observed pixel is hidden once, together with others, and predicted
            from the remaining pixels by the probabilities that `marginals` names: a proper score
            for noisy images without clean ones.
        sample_weight : sequence, optional
            Per image a number or an array of its shape: weights of the labelled pixels.

        Returns
        -------
        float
            With `clean`, a number in [0, 1]: 1 minus the normalised Hamming distance. Without, the
            mean log-probability of a hidden pixel, in nats; larger is better, and only differences
            are meaningful.

        Examples
        --------
        >>> import logsuper as ls
        >>> noisy = ls.Flips(0.1).sample(ls.make_silhouettes(9, shape=(24, 24), seed=0), seed=1)
        >>> good = ls.MaskDenoiser(noise=0.1).fit(noisy[:6])
        >>> bad = ls.MaskDenoiser(noise=0.1, penalty=1e4).fit(noisy[:6])  # hardly any coupling
        >>> good.score(noisy[6:]) > bad.score(noisy[6:])
        True
        """
        images = self._read(noisy)
        weights = read_weights(sample_weight, images)
        if clean is not None:
            return share_right(read_labels(clean, images), self.predict(images), weights)
        if weights is not None:
            raise ValueError("sample_weight must be None without clean images")
        total, known = 0.0, 0
        for _, examples, theta in self._examples(images):
            found = learning.score(
                examples,
                theta,
                method=self._method,
                patterns=learning.PART,
                temperature=self.temperature_,
                seed=self._key,
                n_jobs=self.n_jobs,
            )
            for part in found.pixels:
                total += float(np.nansum(part))
                known += int(np.count_nonzero(part == part))
        if not known:
            raise ValueError("noisy has no observed pixel, so that there is no score")
        return total / known

    def _read(self, noisy: Any) -> Images:
        check_is_fitted(self)
        self._check_decoding()
        images = read_images(noisy, "noisy")
        self._check_shapes(images)
        check_observed(self.channel_, images)
        return images

    def _finish(self, p: FloatArray, box: Box | None = None) -> FloatArray:
        """Return probabilities as `predict_proba` gives them."""
        return keep_doubt(learning.soften(p, self.temperature_))

    def _decide(self, p: FloatArray, box: Box | None = None) -> NDArray[np.uint8]:
        """Return the mask of the least expected cost, of an image or of a box of it."""
        least = find_threshold(self.cost)
        if least.ndim and box is not None:
            least = least[box]
        if least.ndim and least.shape != p.shape:
            raise ValueError(f"cost has shape {least.shape}, but an image has {p.shape}")
        return np.asarray(learning.soften(p, self.temperature_) > least, dtype=np.uint8)

    def _means_of(self, image: Any) -> FloatArray:
        """Return the probabilities of one image, solved as a whole, as they come."""
        [(_, examples, theta)] = self._examples(self._read([image]))
        return np.asarray(self._find_means(examples, theta)[0])

    def _decode_means(
        self, images: Images, dtype: type, finish: Callable[..., NDArray[Any]]
    ) -> Any:
        """Run `_find_means` on all images, by blocks on those that are large."""
        if not any(goes_by_blocks(self, shape) for shape in images.shapes):
            return self._decode(images, self._find_means, dtype, finish)
        out = images.room(dtype)
        for i, shape in enumerate(images.shapes):
            if goes_by_blocks(self, shape):
                least = find_threshold(self.cost)
                if least.ndim and least.shape != shape:
                    raise ValueError(f"cost has shape {least.shape}, but noisy[{i}] has {shape}")
                out[i] = np.empty(shape, dtype) if isinstance(out, list) else out[i]
                decode_by_blocks(self, images[i], finish, out[i])
            else:
                out[i] = finish(self._means_of(images[i])).astype(dtype, copy=False)
        return out

    def _decode(
        self,
        images: Images,
        find: Callable[[Examples, FloatArray], Any],
        dtype: type,
        finish: Callable[[NDArray[Any]], NDArray[Any]] = lambda found: found,
        copies: tuple[int, ...] = (),
    ) -> Any:
        """Run a decoder; the result is a stack for a stack and a list for a list."""
        out = images.room(dtype, copies)
        for piece, examples, theta in self._examples(images):
            for i, image in zip(piece, find(examples, theta), strict=True):
                out[i] = finish(image).astype(dtype, copy=False)
        return out

    def _examples(self, images: Images) -> Iterator[tuple[range, Examples, FloatArray]]:
        """Yield pieces of bounded size as examples, with the parameters."""
        around = self.surroundings_
        threads = count_threads(self.n_jobs)
        for piece in images.pieces():
            part = images[piece]
            judge = None if around is None else around.judge(part, threads)
            examples = gather(self._design, part, self.channel_, judge=judge)
            yield range(len(images))[piece], examples, examples.layout.pack(self.parameters_)

    def _check_shapes(self, images: Images) -> None:
        axes = self._design["axes"]
        if len(images.shapes[0]) != axes:
            raise ValueError(
                f"noisy[0] has {len(images.shapes[0])} axes, but the training images have {axes}"
            )
        for i, shape in enumerate(images.shapes):
            if self._design["modular"] == "pixel" and shape != self.shape_:
                raise ValueError(
                    f"noisy[{i}] has shape {shape}, but the modular term was learned for the "
                    f"pixels of {self.shape_}; resize it, or fit with modular='shared'"
                )
