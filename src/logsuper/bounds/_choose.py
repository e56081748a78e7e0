"""The choice of a method: the best of those that are cheap, by one cost model.

Every exact method has a function `operations`, an estimate of its time in nanoseconds. For single
functions `_exact` takes the cheapest method; this module chooses the method for marginals, and for
batches of models with common functions, where tables and plans are shared.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray
from logsuper.bounds import _elimination, _exact
from logsuper.bounds._cardinality import count_cost
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.bounds._windows import MEMORY, WIDEST, size_of
from logsuper.functions import Cut, Modular, SubmodularFunction
from logsuper.solvers import Prepared, kernels
from logsuper.structures import Pairs, image_of, pairwise_of

LARGEST = 16
"""Maximum number of elements for enumeration in a batch, which keeps all states."""

# Maximum number of elements for which a batch is enumerated whatever the functions are.
_TINY = 10
# Maximum operations (of about a nanosecond) per model for exact inference in a batch.
_BUDGET = 1e9
# Maximum number of weights for summing over a whole image instead of windows: some milliseconds.
_WHOLE = 1e6
# Maximum columns of a window that is chosen by its cost.
_WIDEST = 12
# Maximum operations, some tenths of a second, for which exact inference is always preferred.
_CHEAP = 3e8


def marginal_method(f: SubmodularFunction) -> str:
    """Return the name of the method for marginals of f."""
    if _exact.operations(f) <= _CHEAP:
        return "exact"
    if image_of(f) is not None:
        return "strips"
    if pairwise_of(f) is not None:
        return "bethe"
    return "power"


def covering_window(shape: tuple[int, int]) -> int | None:
    """Return the columns of a window that covers an image; None if it would cost too much."""
    short, long = sorted(shape)
    cheap = short <= WIDEST and short * long * 2.0**short <= _CHEAP
    fits = size_of(long + short + 4.0, short) <= MEMORY
    # without the kernels elimination may be faster
    return short if cheap and fits and kernels() is not None else None


@dataclasses.dataclass(frozen=True)
class Choice:
    """A method for a batch, and the columns of its windows (0 except for strips)."""

    method: str
    window: int = 0


def choose(
    prepared: Prepared, factors: bool = False, window: int = 6, budget: float | None = None
) -> Choice:
    r"""Return the method for some functions: exact where affordable, else strips on images.

    Parameters
    ----------
    prepared : Prepared
    factors : bool
        Whether there will be factors on edges.
    window : int
        Columns of the windows of strips, on images whose short side is too long to sum over.
    budget : float, optional
        Maximum number of weights per model. An image of n pixels whose short side has s pixels is
        summed over exactly if :math:`n2^s` is at most this; otherwise windows have the most columns
        w for which :math:`nw2^w` is, and at least `window`. By default a million, and windows of
        `window` columns.

    Raises
    ------
    NotApplicable, TooLarge
        If no method would finish in reasonable time.
    """
    n, structure = prepared.n, prepared.structure
    if n <= _TINY:
        return Choice("enumeration")
    # the graph of a count has as many edges as pairs of elements
    pairs = None if structure.counts else pairs_of(prepared, factors)
    shape = None if pairs is None else structure.image_shape
    if shape is not None and structure.is_whole:
        columns = _columns(n, min(shape), window, budget)
        # without the kernels wide windows are slow, and elimination is not
        if columns > window and columns == min(shape) and kernels() is None:
            return Choice("elimination")
        return Choice("strips", columns)
    if n <= LARGEST:
        return Choice("enumeration")
    if pairs is not None:
        cost = _elimination.operations(as_function(pairs, pairs.weights.sum(axis=0), np.zeros(n)))
    elif structure.counts is not None:
        free = n - sum(len(members) for members, _ in structure.counts)
        sizes = [free, *(len(members) for members, _ in structure.counts)]
        cost = sum(3.0 * count_cost(size) for size in sizes)
    else:
        raise NotApplicable(
            "exact needs pairwise functions, counts over disjoint sets, or at most "
            f"{LARGEST} elements, got n = {n} and {list(prepared.functions)!r}; use "
            "method='samples'"
        )
    if not cost <= _BUDGET:
        raise TooLarge(
            f"exact would take {cost:.2g} operations per example for {list(prepared.functions)!r}, "
            f"above {_BUDGET:.0e}; use method='samples'",
            cost,
        )
    return Choice("cardinality" if pairs is None else "elimination")


def _columns(n: int, short: int, given: int, budget: float | None) -> int:
    """Return the columns of the windows of an image."""
    if short > given and n * 2.0 ** min(short, 1000) <= (_WHOLE if budget is None else budget):
        return short
    if short <= given or budget is None:
        return given
    wider = range(given + 1, _WIDEST + 1)
    return max((w for w in wider if n * w * 2.0**w <= budget), default=given)


def pairs_of(prepared: Prepared, factors: bool) -> Pairs | None:
    """Return pairwise functions on common edges; with factors, only those of cuts."""
    structure = prepared.structure
    return None if factors and structure.others else structure.pairs


def need_pairs(prepared: Prepared, factors: bool, method: str) -> Pairs:
    """Return pairwise functions on common edges; for others raise an error naming the method."""
    pairs = pairs_of(prepared, factors)
    if pairs is None:
        raise NotApplicable(f"{method} needs pairwise functions, got {list(prepared.functions)!r}")
    return pairs


def as_function(pairs: Pairs, weights: FloatArray, field: FloatArray) -> SubmodularFunction:
    """Return the pairwise function of these weights and fields."""
    return Cut(len(field), pairs.edges, weights) - Modular(field)
