"""Scores of scikit-learn for masks: every labelled pixel is a sample."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from logsuper._base import FloatArray
from logsuper.estimators._images import read_images, read_labels


def pixel_scorer(scoring: str) -> PixelScorer:
    """Return a scorer of masks, for the argument ``scoring`` of scikit-learn's tools.

    The names that scikit-learn knows take one label per row and refuse images; here every labelled
    pixel of every image is a row.

    Parameters
    ----------
    scoring : str
        Such as "accuracy", "neg_log_loss", "neg_brier_score", "roc_auc", "f1" or "jaccard".

    Returns
    -------
    callable
        With the arguments (estimator, noisy, clean).

    Examples
    --------
    >>> import logsuper as ls
    >>> from sklearn.model_selection import cross_val_score
    >>> clean = ls.make_silhouettes(6, shape=(20, 20), seed=0)
    >>> noisy = ls.Flips(0.1).sample(clean, seed=1)
    >>> scores = cross_val_score(
    ...     ls.MaskDenoiser(0.1), noisy, clean, cv=2, scoring=ls.pixel_scorer("neg_log_loss")
    ... )
    >>> bool((scores > -0.3).all())
    True
    """
    from sklearn.metrics import get_scorer_names  # slow to import, and only needed here

    if not isinstance(scoring, str):
        raise TypeError(f"scoring must be the name of a score, got {type(scoring).__name__}")
    if scoring not in get_scorer_names():
        raise ValueError(
            f"scoring = {scoring[:40]!r} is not a score that scikit-learn knows; "
            "sklearn.metrics.get_scorer_names() lists them"
        )
    return PixelScorer(scoring)


@dataclasses.dataclass(frozen=True)
class PixelScorer:
    """A scorer of masks, by the name of one of scikit-learn's."""

    scoring: str

    def __call__(self, estimator: Any, noisy: Any, clean: Any) -> float:
        """Return the score of an estimator on labelled pixels."""
        if clean is None:
            raise ValueError(
                f"the score {self.scoring!r} compares with clean images; without them leave "
                "scoring out: MaskDenoiser.score predicts hidden pixels"
            )
        from sklearn.metrics import get_scorer

        y = _flat(_labels(estimator, noisy, clean))
        known = ~np.isnan(y)
        rows = np.stack([_flat(estimator.predict(noisy)), _flat(estimator.predict_proba(noisy))], 1)
        scorer = get_scorer(self.scoring)
        return float(scorer(_Pixels().fit(), rows[known], y[known].astype(int)))


def _labels(estimator: Any, noisy: Any, clean: Any) -> Any:
    """Return labels, checked by the estimator if it reads other images than masks."""
    if hasattr(estimator, "_read_labels"):
        return estimator._read_labels(noisy, clean)
    return read_labels(clean, read_images(noisy, "noisy"))


class _Pixels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose input is what it predicts: a value, and a probability."""

    def fit(self) -> _Pixels:
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, rows: FloatArray) -> Any:
        return rows[:, 0].astype(int)

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        return np.stack([1.0 - rows[:, 1], rows[:, 1]], axis=1)


def _flat(images: Any) -> FloatArray:
    """Return all pixels of images."""
    return np.concatenate([np.asarray(image, dtype=np.float64).ravel() for image in images])
