"""Which method suits: the best of those that are cheap, by one cost model.

Every exact method says, as `operations`, about how many nanoseconds it takes. For single functions
`_exact` takes the cheapest; here is what follows from that for marginals, and for batches of models
with common functions, where tables and plans are shared.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray
from logsuper.bounds import _elimination, _exact
from logsuper.bounds._cardinality import count_cost
from logsuper.bounds._errors import NotApplicable, TooLarge
from logsuper.bounds._windows import MEMORY, WIDEST, size_of
from logsuper.functions import Cut, Modular, SubmodularFunction
from logsuper.solvers import Prepared, kernels
from logsuper.structures import Pairs, image_of, pairwise_of

LARGEST = 16
"""Elements of the largest ground set of which all states are kept, for a batch."""

# Up to so many elements a batch is enumerated, whatever the functions are.
_TINY = 10
# Operations, of about a nanosecond, that exact inference in one model of a batch may take.
_BUDGET = 1e9
# Weights that an image may take in place of its windows: some milliseconds.
_WHOLE = 1e6
# Columns of the widest window that is taken without having been asked for.
_WIDEST = 12
# Exact inference up to this many operations, some tenths of a second, is always worth it.
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
    """Return the columns of a window that covers the images of a batch, None if that is dear."""
    short, long = sorted(shape)
    cheap = short <= WIDEST and short * long * 2.0**short <= _CHEAP
    fits = size_of(long + short + 4.0, short) <= MEMORY
    # without the kernels elimination may be faster
    return short if cheap and fits and kernels() is not None else None


@dataclasses.dataclass(frozen=True)
class Choice:
    """A method for a batch, and the columns of its windows (0 but for strips)."""

    method: str
    window: int = 0


def choose(
    prepared: Prepared, factors: bool = False, window: int = 6, budget: float | None = None
) -> Choice:
    r"""Return the method that suits some functions: exact where affordable, else strips on images.

    Parameters
    ----------
    prepared : Prepared
    factors : bool
        Whether there will be factors on edges.
    window : int
        Columns of the strips, on images whose short side is too long to be summed over at once.
    budget : float, optional
        Weights that a model may take. An image of n pixels whose short side has s is summed whole,
        exactly, where :math:`n2^s` are no more; otherwise windows have as many columns w as
        :math:`nw2^w` allows, if these are more than `window`. By default a million, and no wider
        windows.

    Raises
    ------
    NotApplicable, TooLarge
        When no method would end in reasonable time.
    """
    n, structure = prepared.n, prepared.structure
    if n <= _TINY:
        return Choice("enumeration")
    # the graph of a count has as many edges as pairs of elements
    pairs = None if structure.counts else pairs_of(prepared, factors)
    shape = None if pairs is None else structure.image_shape
    if shape is not None and structure.is_whole:
        columns = _columns(n, min(shape), window, budget)
        # wide windows take long without the kernels, which elimination does not need
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
    """Return pairwise functions on common edges; refuse, in the name of a method, others."""
    pairs = pairs_of(prepared, factors)
    if pairs is None:
        raise NotApplicable(f"{method} needs pairwise functions, got {list(prepared.functions)!r}")
    return pairs


def as_function(pairs: Pairs, weights: FloatArray, field: FloatArray) -> SubmodularFunction:
    """Return the pairwise function of these weights and fields."""
    return Cut(len(field), pairs.edges, weights) - Modular(field)
