"""Long runs in parts: side by side, with progress, and not done again when they are done."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from logsuper._base import FloatArray
from logsuper.experiments._partial import Partial

__all__ = ["Part", "Progress", "run_parts"]

Progress = Callable[[int, int], None]
"""Called with the number of finished parts and of all."""


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A piece of work that gives some numbers.

    Attributes
    ----------
    name : str
        Unique in a run, fit for a file name.
    work : callable
        Called with `arguments`, in any process; returns an array of numbers.
    arguments : mapping
        What it is called with.
    size : int
        How many numbers it returns.
    """

    name: str
    work: Callable[..., FloatArray]
    arguments: Mapping[str, Any]
    size: int


def run_parts(
    parts: Sequence[Part],
    depends: Mapping[str, Any],
    *,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> dict[str, FloatArray]:
    """Do all parts that are not done yet, and return their numbers by name.

    Parameters
    ----------
    parts : sequence of Part
    depends : mapping
        What the numbers depend on besides the name of a part, as JSON can hold it: a part is found
        again only under the same.
    partial : path, optional
        The folder where finished parts are kept.
    progress : callable, optional
    n_jobs : int
        Processes.

    Returns
    -------
    dict

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.experiments._parts import Part, run_parts
    >>> part = Part("two", np.array, {"object": [1.0, 2.0]}, 2)
    >>> run_parts([part], {})["two"].tolist()
    [1.0, 2.0]
    """
    store = None if partial is None else Partial(partial, depends)
    found: dict[str, FloatArray] = {}
    for part in parts:
        done = None if store is None else store.load(part.name, (part.size,))
        if done is not None:
            found[part.name] = done
    left = [part for part in parts if part.name not in found]
    if progress is not None:
        progress(len(found), len(parts))
    results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(_do)(part) for part in left
    )
    for name, numbers in results:
        found[name] = numbers
        if store is not None:
            store.store(name, numbers)
        if progress is not None:
            progress(len(found), len(parts))
    return found


def _do(part: Part) -> tuple[str, FloatArray]:
    """Work on one thread of linear algebra: parts run side by side."""
    with threadpool_limits(1):
        numbers = np.asarray(part.work(**part.arguments), dtype=np.float64)
    if numbers.shape != (part.size,):
        raise ValueError(f"{part.name} returned shape {numbers.shape}, not ({part.size},)")
    return part.name, numbers
