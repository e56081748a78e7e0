"""What estimators of masks share once they are fitted: how to decide, and how to infer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper import learning
from logsuper._base import FloatArray, check_choice
from logsuper.estimators._common import check_count
from logsuper.learning import LEARNERS, Examples, Parameters

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
