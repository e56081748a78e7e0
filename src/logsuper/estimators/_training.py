"""Fitting classifiers of pixels, each once if several denoisers have the same."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import FloatArray, beat
from logsuper.estimators._trees import Trees

__all__ = ["reuse_classifiers", "train_once"]

# Seconds between signs of life.
_WAIT = 0.5
# Classifiers trained so far, by a checksum of what they were trained from, where they are kept.
_KEPT: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("_KEPT", default=None)


@contextlib.contextmanager
def reuse_classifiers() -> Iterator[None]:
    """Train a classifier once if it is asked for again with the same pixels and settings.

    Denoisers that are fitted to the same images by several learners, or with the noise known and
    unknown, have the same classifiers, which take most of the time.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def train_once(template: Any, *rest: Any) -> Any:
    """Return a fitted classifier, the one of an earlier call where these are kept."""
    kept = _KEPT.get()
    if kept is None:
        return train(template, *rest)
    name = str(joblib.hash((template, rest)))
    if name not in kept:
        kept[name] = train(template, *rest)
    return kept[name]


def train(template: Any, X: NDArray[np.float32], y: FloatArray, bits: bool, threads: int) -> Any:
    """Return a fitted classifier; the share of ones where there is one class or nothing."""
    if len(y) == 0:
        return 0.5
    if y.min() == y.max() and bits:
        return float((y.sum() + 0.5) / (len(y) + 1.0))
    weights = {}
    if not bits:  # both labels, weighted
        from sklearn.utils.validation import has_fit_parameter

        if not has_fit_parameter(template, "sample_weight"):
            raise ValueError(
                f"context = {type(template).__name__}() takes no sample_weight, which grey levels "
                "need; use another classifier"
            )
        weights["sample_weight"] = np.concatenate([1.0 - y, y])
        X, y = np.concatenate([X, X]), np.repeat([0.0, 1.0], len(y))

    def fit() -> Any:
        with threadpool_limits(limits=threads):
            fitted = clone(template).fit(X, y.astype(np.int64), **weights)
            return Trees.take(fitted) or fitted

    # in another thread, so that this one can give signs of life
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(fit)
        while wait([job], timeout=_WAIT).not_done:
            beat()
        return job.result()
