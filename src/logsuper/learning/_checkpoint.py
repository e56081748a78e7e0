"""Saving a descent half way, and finding out whether a saved one is of the same problem."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from logsuper._base import (
    FloatArray,
    Seed,
    as_float,
    check_integer,
    check_number,
    load_arrays,
    refuse,
    save_arrays,
)
from logsuper.learning._layout import LARGEST, Layout
from logsuper.learning._lazy_images import LazyRows
from logsuper.learning._learned import Record
from logsuper.learning._objective import Objective

_KIND, _VERSION = "checkpoint", 1
# The fields of a state in a file: numbers in its header, and arrays.
_NAMES = ("step", "cuts", "estimated"), ("theta", "average", "squares")


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """Everything a descent knows after some steps; never changed, only replaced.

    Attributes
    ----------
    step : int
        Steps done.
    cuts : int
        Maximisations solved in them, and for the estimates of the objective.
    estimated : int
        Those for the estimates.
    theta, average : ndarray of shape (P,)
        The iterate, and the mean of all iterates, that of step h with the weight h.
    squares : ndarray of shape (P,)
        The mean of the squared subgradients, later ones with more weight.
    history : tuple of Record
        Estimates of the objective at the parameters that would be returned.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.learning import State
    >>> zero = np.zeros(2)
    >>> state = State(step=0, cuts=0, estimated=0, theta=zero, average=zero, squares=zero)
    >>> state.step, state.history
    (0, ())
    """

    step: int
    cuts: int
    estimated: int
    theta: FloatArray
    average: FloatArray
    squares: FloatArray
    history: tuple[Record, ...] = ()


def check_seed(checkpoint: str | os.PathLike[str] | None, seed: Seed) -> None:
    """Refuse a checkpoint of a run that cannot be continued."""
    if checkpoint is not None and seed is None:
        raise ValueError("checkpoint needs a seed: without one, no run can be continued")


def save_state(path: str | os.PathLike[str], state: State, problem: str) -> None:
    """Write a state, with the fingerprint of its problem."""
    numbers, arrays = ({name: getattr(state, name) for name in names} for names in _NAMES)
    lines = [dataclasses.astuple(record) for record in state.history]
    save_arrays(path, _KIND, _VERSION, {"problem": problem, **numbers, "history": lines}, arrays)


def load_state(path: str | os.PathLike[str], problem: str, layout: Layout) -> State | None:
    """Return the state in a file, None if there is no file yet; refuse that of another problem."""
    if not Path(path).exists():
        return None
    header, arrays = load_arrays(path, _KIND, _VERSION)
    if header.get("problem") != problem:
        raise ValueError(
            f"checkpoint {path} was written with other data, options or seed; "
            "give another path, or remove it to start anew"
        )
    try:
        return _read_state(header, arrays, layout)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"checkpoint {path} is malformed ({str(error)[:200]}); remove it to start anew"
        ) from None


def _read_state(header: dict[str, Any], arrays: dict[str, Any], layout: Layout) -> State:
    """Return the state in a header and arrays, after checking all of it."""
    vectors = {name: as_float(arrays[name], name) for name in _NAMES[1]}
    for name, vector in vectors.items():
        if vector.shape != (layout.size,):
            raise ValueError(f"{name} has shape {vector.shape}, not ({layout.size},)")
        squares = name == "squares"
        most = LARGEST**2 if squares else LARGEST
        refuse(vector < (0.0 if squares else layout.lower), vector, name, "below 0")
        refuse(np.abs(vector) > most, vector, name, f"beyond {most:g}")
    step, cuts, estimated = (check_integer(header[name], name, 0, 2**63) for name in _NAMES[0])
    history = tuple(_read_record(line) for line in header["history"])
    steps = [0, *(record.step for record in history), step]
    if steps != sorted(steps):
        raise ValueError("the steps of its history do not increase")
    return State(step, cuts, estimated, history=history, **vectors)


def _read_record(line: Any) -> Record:
    """Return a line of the history; the gap alone may be unknown."""
    step, cuts, objective, stderr, gap = line
    if not isinstance(gap, float):
        raise TypeError(f"a gap must be a number, got {gap!r}")
    return Record(
        check_integer(step, "a step", 0, 2**63),
        check_integer(cuts, "cuts", 0, 2**63),
        check_number(objective, "an objective"),
        check_number(stderr, "a standard error"),
        gap,
    )


def fingerprint(objective: Objective, options: Iterable[Any]) -> str:
    """Return a number that changes with the data, the functions, the channel or the options."""
    digest = hashlib.sha256()
    examples = objective.examples
    _feed(digest, repr(examples.layout), objective.latent, *_fields(objective.engine), *options)
    if objective.posterior is not None:
        _feed(digest, *_fields(objective.posterior))
    for group in examples.groups:
        _feed(digest, repr(group.shape), group.index)
        if isinstance(group.labels, LazyRows):  # the same bytes as of an array
            _feed_rows(digest, group.labels)
        else:
            _feed(digest, group.labels)
        _feed(digest, group.edge_weights)
        _feed(digest, *_fields(group.features))
        for rows in group.pieces():
            _feed(digest, examples.log_odds(group, rows))
        some = np.random.default_rng(0).integers(0, 2, (4, group.prepared.n))
        _feed(digest, *(f(some) for f in group.prepared.functions))
        if objective.targets is not None:
            _feed(digest, *objective.targets(group, np.arange(min(1, group.count))))
    return digest.hexdigest()


def _feed_rows(digest: Any, rows: LazyRows) -> None:
    digest.update(repr((rows.dtype.str, rows.shape)).encode())
    for row in rows:
        digest.update(row.data)


def _fields(thing: object) -> list[Any]:
    """Return what a small object is made of, without the number of threads: it changes nothing."""
    fields = getattr(thing, "__dict__", {})
    return [type(thing).__name__, *(value for name, value in fields.items() if name != "n_jobs")]


def _feed(digest: Any, *values: Any) -> None:
    """Add arrays, numbers and text to a digest; other objects have no lasting name, but a type."""
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(repr((value.dtype.str, value.shape)).encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            plain = value is None or isinstance(value, bool | int | float | str | tuple)
            digest.update((repr(value) if plain else type(value).__name__).encode() + b"\n")
