"""Fields: the functions of one, certified likelihoods and exact samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, check_choice
from logsuper.bounds import Bracket, NotApplicable
from logsuper.estimators._common import check_functions
from logsuper.estimators._forest import attractive_forest
from logsuper.functions import ConcaveCardinality, Cut, SubmodularFunction, zero
from logsuper.model import LogSupermodular


def bound_log_likelihood(
    model: LogSupermodular, bracket: Bracket, rows: FloatArray, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return certified bounds on the log-probability of the known entries of each row."""
    unknown = np.isnan(rows)
    whole = ~unknown.any(axis=1)
    below = np.empty(len(rows))
    # lower and upper bounds on the log of the sum of exp(-f) over the unknown entries
    below[whole] = -np.asarray(model.f(rows[whole]))
    above = below.copy()
    for i in np.flatnonzero(~whole):
        known = {int(d): int(rows[i, d]) for d in np.flatnonzero(~unknown[i])}
        part = model.condition(known).bracket(n_jobs=n_jobs)
        below[i], above[i] = part.lower, part.upper
    return below - bracket.upper, above - bracket.lower


def draw(
    model: LogSupermodular, count: int, rng: np.random.Generator, n_jobs: int | None
) -> NDArray[np.uint8]:
    """Return exact samples of a field."""
    try:
        return model.sample(count, "ancestral", seed=rng)
    except NotApplicable:
        return model.sample(count, "cftp", seed=rng, n_jobs=n_jobs)


def single_pairs(pairs: IntArray, n: int) -> tuple[SubmodularFunction, ...]:
    """Return one function per pair; a single zero function if there are none."""
    return tuple(Cut(n, [pair]) for pair in pairs.tolist()) or (zero(n),)


def functions_on(functions: Any, rows: FloatArray) -> tuple[SubmodularFunction, ...]:
    """Return the functions on the features of rows."""
    n = rows.shape[1]
    if isinstance(functions, str):
        check_choice(functions, "functions", ["counts", "forest"])
        if functions == "forest":
            return single_pairs(attractive_forest(rows), n)
        bends = [1 << k for k in range(n.bit_length()) if 1 << k < n]
        counts = np.arange(n + 1.0)
        return tuple(ConcaveCardinality(np.minimum(counts, j)) for j in bends) or (zero(n),)
    return check_functions(functions, "functions", n, n)
