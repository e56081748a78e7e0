"""Fitting classifiers of pixels: several side by side, each once if it is asked for again."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import FloatArray, beat
from logsuper.estimators._trees import Trees

__all__ = ["fit_each", "reuse_classifiers", "train_each"]

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


def train_each(
    template: Any, X: NDArray[np.float32], y: FloatArray, uses: Sequence[NDArray[Any]], threads: int
) -> tuple[Any, ...]:
    """Return what `fit_each` does, from earlier calls where that is kept, and trees as `Trees`."""
    kept = _KEPT.get()
    names: list[Any] = list(range(len(uses)))
    if kept is None:
        kept = {}
    else:
        names = [str(joblib.hash((template, X[use], y[use]))) for use in uses]
    fresh = {name: use for name, use in zip(names, uses, strict=True) if name not in kept}
    fitted = fit_each(template, X, y, list(fresh.values()), threads)
    kept.update(zip(fresh, (Trees.take(one) or one for one in fitted), strict=True))
    return tuple(kept[name] for name in names)


def fit_each(
    template: Any, X: NDArray[np.float32], y: FloatArray, uses: Sequence[NDArray[Any]], threads: int
) -> list[Any]:
    """Fit a clone of a classifier to each selection of rows.

    Boosted trees grow side by side, with one thread each. A team of threads waits for its slowest
    member in each of thousands of short loops: on a busy machine, where one of them has to wait
    for a processor, that takes ten times as long as a single thread. And the number of threads
    then changes no bit of them. Other classifiers have all threads, one after the other.

    Parameters
    ----------
    template : classifier
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
        Labels, 0 and 1, or probabilities of a one.
    uses : sequence of ndarray
        Indices or a mask of the rows that each classifier may see.
    threads : int

    Returns
    -------
    list of classifier or float
        The share of ones (with half a row more of either label) where there is one label or none.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    boosted = type(template) is HistGradientBoostingClassifier
    soft = bool(((y > 0.0) & (y < 1.0)).any())

    def fit(use: NDArray[Any]) -> Any:
        own, label, more = X[use], y[use], {}
        if not soft and len(np.unique(label)) < 2:
            return float((label.sum() + 0.5) / (len(label) + 1.0))
        if soft:  # both labels, weighted
            more["sample_weight"] = np.concatenate([1.0 - label, label])
            own, label = np.concatenate([own, own]), np.repeat([0.0, 1.0], len(label))
        # an OpenMP library keeps this number for each thread that calls it
        with threadpool_limits(1, "openmp") if boosted else contextlib.nullcontext():
            return clone(template).fit(own, label.astype(np.int64), **more)

    with threadpool_limits(threads):
        return _map(fit, uses, threads if boosted else 1)


def _map(work: Callable[[Any], Any], cases: Sequence[Any], threads: int) -> list[Any]:
    """Apply a function in other threads, so that this one gives signs of life and hears Ctrl-C."""
    running: set[int] = set()

    def run(case: Any) -> Any:
        running.add(threading.get_ident())
        try:
            return work(case)
        finally:
            running.discard(threading.get_ident())

    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(run, case) for case in cases]
        pending = set(jobs)
        try:
            while pending:
                done, pending = wait(pending, _WAIT, FIRST_EXCEPTION)
                for job in done:
                    job.result()
                beat()
        finally:  # where one has failed, or this thread was interrupted, the others end, too
            for job in pending:
                job.cancel()
            for thread in tuple(running):
                _interrupt(thread)
        return [job.result() for job in jobs]


def _interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in another thread, between two steps of its Python code."""
    error = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
