"""Masks, probabilities, samples and scores from a fitted denoiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from logsuper import learning
from logsuper._base import FloatArray, as_key, count_threads
from logsuper.channels import Channel
from logsuper.estimators._blind_spot import BlindSpot
from logsuper.estimators._common import as_seed, check_cost, check_count, refuse_weights
from logsuper.estimators._decoding import Decoding, keep_doubt, share_right
from logsuper.estimators._images import Images, read_images, read_labels
from logsuper.estimators._lazy import is_lazy, lazy_decisions, lazy_means, lazy_modes
from logsuper.estimators._mask_examples import gather
from logsuper.estimators._noise import check_observed
from logsuper.estimators._spread import spread
from logsuper.learning import Examples
from logsuper.sampling import NotCoalesced

__all__ = ["MaskDecoder"]


class MaskDecoder(Decoding):
    """The part of `MaskDenoiser` that uses a fitted model."""

    cost: tuple[float, float]
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
            By ``decode="map"`` the same bits for a dask array; probabilities of its chunks are
            computed with a margin of 32 pixels.
        """
        check_is_fitted(self)
        if is_lazy(noisy):
            means = self._decides_by_means
            return lazy_decisions(self, noisy) if means else lazy_modes(self, noisy)
        images = self._read(noisy)
        if (found := spread(self, "predict", images, np.uint8)) is not None:
            return found
        if self._decides_by_means:
            least, heat = check_cost(self.cost), self.temperature_
            return self._decode(
                images, self._find_means, np.uint8, lambda p: learning.soften(p, heat) > least
            )
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
            divided by `temperature_`. Lazy for a dask array, as in `predict`.
        """
        if is_lazy(noisy):
            check_is_fitted(self)
            return lazy_means(self, noisy)
        images = self._read(noisy)
        if (spreading := spread(self, "predict_proba", images, np.float64)) is not None:
            return spreading

        def finish(p: FloatArray) -> FloatArray:
            return keep_doubt(learning.soften(p, self.temperature_))

        return self._decode(images, self._find_means, np.float64, finish)

    def sample_posterior(
        self, noisy: Any, n_samples: int = 1, random_state: Any = None, *, max_iter: int = 2**13
    ) -> Any:
        """Draw exact samples of the clean masks given the noisy ones, by coupling from the past.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        n_samples : int, default 1
            Masks per image.
        random_state : int, Generator, RandomState or None
        max_iter : int, default 8192
            Maximum number of sweeps; after that `logsuper.sampling.NotCoalesced` is raised. Wide
            areas without observations need many.

        Returns
        -------
        ndarray of shape (N, n_samples, ...), or list of arrays (n_samples, ...), uint8
        """
        count, most = check_count(n_samples, "n_samples"), check_count(max_iter, "max_iter")
        rng = np.random.default_rng(as_key(as_seed(random_state)))

        def find(examples: Examples, theta: FloatArray) -> Any:
            try:
                return learning.samples(
                    examples, theta, count, seed=rng, n_jobs=self.n_jobs, max_iter=most
                )
            except NotCoalesced as error:
                error.args = (
                    f"exact sampling did not end within max_iter = {most}: {error.differing} "
                    "pixels still differ, as they do across wide areas without observations. Raise "
                    "max_iter and keep random_state (trying others until one succeeds favours easy "
                    "samples), or use predict_proba",
                )
                raise

        return self._decode(self._read(noisy), find, np.uint8, copies=(count,))

    def score(self, noisy: Any, clean: Any = None, sample_weight: None = None) -> float:
        """Return the share of labelled pixels that `predict` gets right, or a score without labels.

        Parameters
        ----------
        noisy : array-like (N, H, W) or (N, Z, H, W), or list of arrays
        clean : the same, optional
            Without it, every observed pixel is hidden once, together with others, and predicted
            from the remaining pixels by the probabilities that `marginals` names: a proper score
            for noisy images without clean ones.
        sample_weight : None
            As in `fit`.

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
        refuse_weights(sample_weight)
        images = self._read(noisy)
        if clean is not None:
            return share_right(read_labels(clean, images), self.predict(images))
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
        judge = None if around is None else around.judge_new(count_threads(self.n_jobs))
        for piece in images.pieces():
            examples = gather(self._design, images[piece], self.channel_, judge=judge)
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
