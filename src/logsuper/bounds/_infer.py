r"""One question for a batch: log Z, its ends, :math:`E f_k` and E x of many models at once.

The models have the weights :math:`\sum_k\alpha_kf_k(x)-\theta_m^\top x` of common functions, with
factors on their edges if given. An infinite field fixes its element: the values then are those of
the conditioned models, without the fixed elements' own fields.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from logsuper._base import FloatArray, check_choice, count_threads
from logsuper.bounds._cardinality import count_marginals
from logsuper.bounds._choose import LARGEST, Choice, as_function, need_pairs
from logsuper.bounds._elimination import log_partition as eliminate
from logsuper.bounds._elimination import pair_marginals
from logsuper.bounds._errors import NotApplicable, TooLarge
from logsuper.bounds._strips import strips_gradient
from logsuper.bounds._windows import chain_odds, edge_fields
from logsuper.solvers import Prepared
from logsuper.structures import Free, Image, Pairs

Bits = NDArray[np.uint8]
Side = Literal["lower", "upper"]
Row = tuple[float, FloatArray, FloatArray]
"""Of one model: log Z, the expected functions and the expected x."""

# States of all models that are held at once.
_HELD = 1 << 22
# A weight that changes nothing, and keeps an edge.
_LEAST = 1e-300


class Inferred(NamedTuple):
    r"""What was found for M models.

    Attributes
    ----------
    values : ndarray of shape (M,)
        log Z, or the bound on it that was asked for.
    stats : ndarray of shape (M, K)
        :math:`E f_k`; of a bound, its derivatives in :math:`-\alpha_k`.
    mean : ndarray of shape (M, n)
        E x; of a bound, its derivatives in the fields.
    """

    values: FloatArray
    stats: FloatArray
    mean: FloatArray


def infer(
    prepared: Prepared,
    alpha: FloatArray,
    theta: FloatArray,
    factors: FloatArray | None = None,
    *,
    choice: Choice,
    side: Side = "lower",
    references: Bits | None = None,
    n_jobs: int | None = None,
) -> Inferred:
    """Return log Z and expectations of each model.

    Parameters
    ----------
    prepared : Prepared
    alpha : ndarray of shape (K,)
    theta : ndarray of shape (M, n)
    factors : ndarray of shape (M, E) or (M, K, E), optional
        On `Prepared.edges`.
    choice : Choice
        From `choose`.
    side : {"lower", "upper"}
        Of strips that do not cover the image: which bound on log Z.
    references : ndarray of shape (M, n), uint8, optional
        For strips, which are smooth in the weights while these stay; the modes by default.
    n_jobs : int, optional
        Threads over the models, for strips.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.bounds import choose, infer
    >>> s = ls.prepare([ls.Cut(2, [(0, 1)])])
    >>> found = infer(s, np.ones(1), np.zeros((1, 2)), choice=choose(s))
    >>> bool(np.isclose(found.values[0], np.log(2 + 2 / np.e)))
    True
    """
    method = check_choice(choice.method, "method", _METHODS)
    if not len(theta):
        return Inferred(np.empty(0), np.empty((0, len(alpha))), np.empty(theta.shape))
    if method == "strips":
        return _strips(prepared, alpha, theta, factors, choice.window, side, references, n_jobs)
    return _METHODS[method](prepared, alpha, theta, factors)


def strip_widths(
    prepared: Prepared,
    alpha: FloatArray,
    theta: FloatArray,
    factors: FloatArray | None,
    window: int,
    references: Bits,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return how far log Z can be from the bounds that strips of so many columns give, (M,)."""
    pairs = _pairs_of_image(prepared, factors)

    def one(m: int) -> float:
        free = pairs.free(pairs.scaled(_row(factors, m)), alpha, theta[m])
        image, x, _ = _lay(prepared, pairs, free, references[m], window)
        columns = min(window, image.shape[1])
        low, high = chain_odds(image, columns, x, edge_fields(image), threads=1)
        above, below = np.where(x == 1, (-low, -high), (high, low))
        return float(np.sum(np.logaddexp(0.0, above) - np.logaddexp(0.0, below)))

    return np.array(_map(one, len(theta), n_jobs))


# ----------------------------------------------------------------------------------------- methods


def _enumeration(
    prepared: Prepared, alpha: FloatArray, theta: FloatArray, factors: FloatArray | None
) -> Inferred:
    """Sum over the states, for some models at a time."""
    n = prepared.n
    if n > LARGEST:
        raise TooLarge(f"enumeration takes up to {LARGEST} elements, got n = {n}", 2.0**n)
    X = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(np.uint8)
    # with every element fixed, maximising only evaluates, factors on edges and all
    fixed, none = np.where(X == 1, np.inf, -np.inf), np.zeros(len(prepared.functions))
    F = None if factors is not None else prepared.maximize(fixed, none)[2]
    size = 1 if factors is not None else max(1, _HELD // len(X))
    parts = []
    for first in range(0, len(theta), size):
        if factors is not None:
            F = prepared.maximize(fixed, none, edge_weights=factors[first : first + 1])[2]
        assert F is not None
        parts.append(_sum_states(X, F, alpha, theta[first : first + size]))
    return Inferred(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _sum_states(
    X: Bits, F: FloatArray, alpha: FloatArray, fields: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum e^(u'x - f(x)) over all states for each field."""
    states = X.astype(np.float64)
    finite = np.where(np.isinf(fields), 0.0, fields)
    score = finite @ states.T - F @ alpha
    wrong = np.isneginf(fields) @ states.T + np.isposinf(fields) @ (1.0 - states.T)
    score[wrong > 0] = -np.inf
    top = score.max(axis=1, keepdims=True)
    mass = np.exp(score - top)
    total = mass.sum(axis=1, keepdims=True)
    p = mass / total
    return (top + np.log(total))[:, 0], p @ F, p @ states


def _elimination(
    prepared: Prepared, alpha: FloatArray, theta: FloatArray, factors: FloatArray | None
) -> Inferred:
    """Sum out the elements of each model in turn."""
    pairs = need_pairs(prepared, factors is not None, "elimination")

    def free_part(free: Free) -> Row:
        # the edges stay whatever their weights are: the same plan serves all models
        f = as_function(pairs, np.maximum(free.weights, _LEAST), free.field)
        value = eliminate(f).value - float(free.fixed.sum()) * math.log(2.0)
        mean, _, apart = pair_marginals(f)
        return value, mean, apart

    rows = [_solve(pairs, alpha, t, _row(factors, m), free_part) for m, t in enumerate(theta)]
    return _stack(rows)


def _cardinality(
    prepared: Prepared, alpha: FloatArray, theta: FloatArray, factors: FloatArray | None
) -> Inferred:
    """Sum over the elements of each model in turn, count by count."""
    structure = prepared.structure
    if structure.counts is None:
        raise NotApplicable(
            "cardinality needs functions of counts over disjoint sets plus a Modular, got "
            f"{list(prepared.functions)!r}"
        )
    count = structure.count
    linear = np.zeros((count, prepared.n))
    for k, tilt in structure.tilts.items():
        linear[k] = tilt
    alone = np.ones(prepared.n, dtype=bool)
    for members, _ in structure.counts:
        alone[members] = False
    left = np.flatnonzero(alone)
    parts = [*structure.counts, (left, np.zeros((count, len(left) + 1)))]
    values, means = np.zeros(len(theta)), np.empty(theta.shape)
    stats = np.zeros((len(theta), count))
    for m, given in enumerate(theta):
        field = given - alpha @ linear
        for members, table in parts:
            value, means[m, members], expected = _sum_out(table, alpha, field[members])
            values[m] += value
            stats[m] += expected
        stats[m] += linear @ means[m]
        # what is fixed has no field of its own, but its share of the functions
        values[m] -= float(alpha @ linear @ np.isposinf(given))
    return Inferred(values, stats, means)


def _sum_out(
    table: FloatArray, alpha: FloatArray, field: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return log Z, E x and the expected functions of elements that are counted together."""
    fixed = np.isinf(field)
    ones = int(np.count_nonzero(field[fixed] > 0))
    free = field[~fixed]
    seen = table[:, ones : ones + len(free) + 1]  # at the counts that remain possible
    mean = np.where(field > 0, 1.0, 0.0)
    value, mean[~fixed], count = count_marginals(alpha @ seen, free)
    return value, mean, seen @ count


def _strips(
    prepared: Prepared,
    alpha: FloatArray,
    theta: FloatArray,
    factors: FloatArray | None,
    window: int,
    side: Side,
    references: Bits | None,
    n_jobs: int | None,
) -> Inferred:
    """Bound log Z of each image by windows, with its derivatives."""
    pairs = _pairs_of_image(prepared, factors)
    if references is None:
        references = prepared.maximize(theta, alpha, edge_weights=factors, n_jobs=n_jobs)[0]
    known = references

    def one(m: int) -> Row:
        def free_part(free: Free) -> Row:
            image, x, transposed = _lay(prepared, pairs, free, known[m], window)
            value, *gradient = strips_gradient(image, x, window, side=side)
            mean, by_weight = _gather(prepared, pairs, gradient, transposed)
            return value, mean, -by_weight

        return _solve(pairs, alpha, theta[m], _row(factors, m), free_part)

    return _stack(_map(one, len(theta), n_jobs))


_METHODS: dict[str, Callable[..., Inferred]] = {
    "enumeration": _enumeration,
    "elimination": _elimination,
    "cardinality": _cardinality,
    "strips": _strips,
}

# ------------------------------------------------------------------------------------------ inside


def _pairs_of_image(prepared: Prepared, factors: FloatArray | None) -> Pairs:
    """Return the functions on common edges; refuse what is not on a whole image."""
    pairs = need_pairs(prepared, factors is not None, "strips")
    if prepared.structure.image_shape is None or not prepared.structure.is_whole:
        raise NotApplicable(
            "strips needs 4-neighbour cuts of one image (grid_cuts) without fixed pixels, got "
            f"{list(prepared.functions)!r}"
        )
    return pairs


def _row(factors: FloatArray | None, m: int) -> FloatArray | None:
    return None if factors is None else factors[m]


def _solve(
    pairs: Pairs,
    alpha: FloatArray,
    field: FloatArray,
    factors: FloatArray | None,
    free_part: Callable[[Free], Row],
) -> Row:
    """Return log Z and expectations of a model, by what finds those of its free part."""
    weights = pairs.scaled(factors)
    free = pairs.free(weights, alpha, field)
    value, mean, apart = free_part(free)
    return value + free.constant, *pairs.expect(weights, free, mean, apart)


def _stack(rows: list[Row]) -> Inferred:
    values, stats, means = zip(*rows, strict=True)
    return Inferred(np.array(values), np.array(stats), np.array(means))


def _map(one: Callable[[int], Any], count: int, n_jobs: int | None) -> list[Any]:
    """Do something for each model, on threads: the kernels release the interpreter."""
    threads = count_threads(n_jobs)
    if threads == 1:
        return [one(m) for m in range(count)]
    return list(Parallel(threads, require="sharedmem")(delayed(one)(m) for m in range(count)))


def _lay(
    prepared: Prepared, pairs: Pairs, free: Free, reference: Bits, window: int
) -> tuple[Image, Bits, bool]:
    """Return a function as an image, its reference, and whether it is transposed.

    Windows of rows or columns: those that end at the weaker edges, which more often have different
    ends in the reference.
    """
    shape = prepared.structure.image_shape
    assert shape is not None
    image = Image.lay(shape, pairs.edges, free.weights, free.field)
    image = dataclasses.replace(image, pixels=np.flatnonzero(~free.fixed))
    x = reference.reshape(shape)
    transposed = shape[0] < shape[1]
    if min(shape) > window:
        transposed = bool(np.mean(x[1:] != x[:-1]) > np.mean(x[:, 1:] != x[:, :-1]))
    return (
        (image.transposed(), np.ascontiguousarray(x.T), True) if transposed else (image, x, False)
    )


def _gather(
    prepared: Prepared, pairs: Pairs, gradient: list[FloatArray], transposed: bool
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives in the fields (n,) and in the weights of the edges (E,)."""
    shape = prepared.structure.image_shape
    assert shape is not None
    dt, dacross, ddown = gradient
    if transposed:
        dt, dacross, ddown = dt.T, ddown.T, dacross.T
    planes = np.zeros((2, *shape))
    planes[0, :, :-1], planes[1, :-1] = dacross, ddown
    first, second = pairs.edges.T
    across, down = planes.reshape(2, -1)[:, first]
    return dt.ravel(), np.where(second == first + 1, across, down)
