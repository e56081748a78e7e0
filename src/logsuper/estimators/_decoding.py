"""What estimators of masks share once they are fitted: how to decide, and how to infer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper import learning
from logsuper._base import FloatArray, as_key, check_choice
from logsuper.estimators._common import as_seed, check_count
from logsuper.learning import LEARNERS, Examples, Parameters
from logsuper.sampling import NotCoalesced

DOUBT = 1e-4
"""Minimum distance of probabilities from 0 and 1, since the model may be wrong.
Chosen by cross-validation in `python -m benchmarks.probabilities`."""


class Decoding:
    """The arguments of decoding, checked and put to use."""

    decode: str
    marginals: str
    n_samples: int
    n_jobs: int | None
    parameters_: Parameters
    learner_: str
    decode_factor_: float
    _key: int

    def _check_decoding(self) -> None:
        check_choice(self.decode, "decode", ["auto", "mean", "map"])
        check_choice(self.marginals, "marginals", learning.METHODS)
        check_count(self.n_samples, "n_samples")

    @property
    def _decides_by_means(self) -> bool:
        """Whether each pixel is decided by its probability, not all by the most probable mask."""
        decode = LEARNERS[self.learner_].decode if self.decode == "auto" else self.decode
        return decode == "mean"

    @property
    def _method(self) -> str:
        """The method that was asked for, or the one that the learner assumes."""
        asked = self.marginals
        return LEARNERS[self.learner_].marginals if asked == "auto" else asked

    @property
    def _inference(self) -> dict[str, Any]:
        """How probabilities are found."""
        return {
            "method": self._method,
            "n_samples": self.n_samples,
            "seed": self._key,
            "n_jobs": self.n_jobs,
        }

    def _find_means(self, examples: Examples, theta: FloatArray) -> Any:
        return learning.means(examples, theta, **self._inference)

    def _sampler(
        self, n_samples: Any, random_state: Any, max_iter: Any, method: str, where: str
    ) -> Callable[[Examples, FloatArray], Any]:
        """Return what draws masks; `where` says where exact sampling may not end."""
        count, most = check_count(n_samples, "n_samples"), check_count(max_iter, "max_iter")
        check_choice(method, "method", ("cftp", "perturb"))
        rng = np.random.default_rng(as_key(as_seed(random_state)))
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "max_iter": most, "method": method}

        def find(examples: Examples, theta: FloatArray) -> Any:
            try:
                return learning.samples(examples, theta, count, seed=rng, **options)
            except NotCoalesced as error:
                error.args = (
                    f"exact sampling did not end within max_iter = {most}: {error.differing} "
                    f"pixels still differ, as they do {where}. Raise max_iter and keep "
                    "random_state (trying others until one succeeds favours easy samples), or take "
                    "method='perturb'",
                )
                raise

        return find

    def _find_modes(self, examples: Examples, theta: FloatArray) -> Any:
        return learning.modes(examples, theta, factor=self.decode_factor_, n_jobs=self.n_jobs)


def keep_doubt(p: FloatArray) -> FloatArray:
    """Return probabilities that are not nearer to 0 and 1 than `DOUBT`."""
    return np.clip(p, DOUBT, 1.0 - DOUBT)


def share_right(
    labels: Iterable[NDArray[Any]],
    masks: Iterable[NDArray[Any]],
    weights: Sequence[FloatArray] | None = None,
) -> float:
    """Return the share of labelled pixels that masks have right, with weights of the pixels."""
    right, known = 0.0, 0.0
    for i, (x, y) in enumerate(zip(labels, masks, strict=True)):
        w = np.ones(x.shape) if weights is None else weights[i]
        right += float(w[x == y].sum())
        known += float(w[x == x].sum())  # NaN has no label
    return right / known
