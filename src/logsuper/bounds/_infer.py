r"""One question for a batch: log Z, its derivatives and marginals of many models at once.

The models have the energies :math:`\sum_k\alpha_kf_k(x)-\theta_m^\top x` with common functions, and
optional factors on their edges. An infinite field fixes its element: results then are those of the
conditioned models, without the fields of the fixed elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from logsuper._base import Bits, FloatArray, IntArray, check_choice
from logsuper.bounds._cardinality import count_marginals
from logsuper.bounds._choose import LARGEST, Choice, as_function, need_pairs
from logsuper.bounds._elimination import log_partition as eliminate
from logsuper.bounds._elimination import pair_marginals
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.bounds._strips import chain_widths, strips_gradient
from logsuper.bounds._windows import Stack, is_down
from logsuper.solvers import Prepared
from logsuper.structures import Free, Pairs

Side = Literal["lower", "upper"]
Row = tuple[float, FloatArray, FloatArray]
"""Of one model: log Z, the expected functions and the expected x."""

# Maximum number of states of all models that are held at once.
_HELD = 1 << 22
# A weight too small to change a result, in place of 0.
_LEAST = 1e-300


class Models(NamedTuple):
    """A batch of M models: weights (K,), fields (M, n), and factors (M, E) or (M, K, E) if any."""

    prepared: Prepared
    alpha: FloatArray
    theta: FloatArray
    factors: FloatArray | None = None

    def some(self, rows: IntArray) -> Models:
        """Return some of the models."""
        factors = None if self.factors is None else self.factors[rows]
        return self._replace(theta=self.theta[rows], factors=factors)

    def factors_of(self, m: int) -> FloatArray | None:
        """Return the factors of one model, if there are any."""
        return None if self.factors is None else self.factors[m]

    def need_pairs(self, method: str) -> Pairs:
        """Return the functions on common edges; raise an error if they are not pairwise."""
        return need_pairs(self.prepared, self.factors is not None, method)

    def free_parts(self, pairs: Pairs) -> tuple[list[Free], Stack]:
        """Return the free part of each model, and all of them as images."""
        shape = self.prepared.structure.image_shape
        assert shape is not None
        frees = [
            pairs.free(pairs.scaled(self.factors_of(m)), self.alpha, field)
            for m, field in enumerate(self.theta)
        ]
        common = self.factors is None and not np.isinf(self.theta).any()
        weights = np.stack([free.weights for free in (frees[:1] if common else frees)])
        fields = np.stack([free.field for free in frees])
        return frees, Stack.lay(shape, pairs.edges, weights, fields)


class Inferred(NamedTuple):
    r"""Results for M models.

    Attributes
    ----------
    values : ndarray of shape (M,)
        log Z, or the requested bound on it.
    stats : ndarray of shape (M, K)
        :math:`E f_k`; for a bound, its derivatives in :math:`-\alpha_k`.
    mean : ndarray of shape (M, n)
        E x; for a bound, its derivatives in the fields.
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
        The bound on log Z by strips that do not cover the image.
    references : ndarray of shape (M, n), uint8, optional
        For strips, which are smooth in the weights while these do not change; by default the modes.
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
    models = Models(prepared, alpha, theta, factors)
    if method == "strips":
        return _strips(models, choice.window, side, references, n_jobs)
    return _METHODS[method](models)


def strip_widths(
    prepared: Prepared,
    alpha: FloatArray,
    theta: FloatArray,
    factors: FloatArray | None,
    window: int,
    references: Bits,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return the distance (M,) between the two bounds on log Z by strips of so many columns."""
    models = Models(prepared, alpha, theta, factors)
    _, stack = models.free_parts(_pairs_of_image(models))
    widths = np.empty(len(theta))
    for rows, part, x, _ in _by_direction(stack, references, window):
        widths[rows] = chain_widths(part, x, window, n_jobs)
    return widths


# ----------------------------------------------------------------------------------------- methods


_tables: WeakKeyDictionary[Prepared, tuple[Bits, FloatArray]] = WeakKeyDictionary()


def _table(prepared: Prepared) -> tuple[Bits, FloatArray]:
    """Return all states (2^n, n) and the values (2^n, K) of the functions, computed once."""
    if prepared not in _tables:
        n = prepared.n
        X = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(np.uint8)
        _tables[prepared] = X, _values_of(prepared, X)
    return _tables[prepared]


def _values_of(prepared: Prepared, X: Bits, factors: FloatArray | None = None) -> FloatArray:
    """Return the functions at all states: with every element fixed, maximising only evaluates."""
    fixed, none = np.where(X == 1, np.inf, -np.inf), np.zeros(len(prepared.functions))
    return prepared.maximize(fixed, none, edge_weights=factors)[2]


def _enumeration(models: Models) -> Inferred:
    """Sum over the states, for some models at a time."""
    prepared, alpha, theta, factors = models
    n = prepared.n
    if n > LARGEST:
        raise TooLarge(f"enumeration takes up to {LARGEST} elements, got n = {n}", 2.0**n)
    X, F = _table(prepared)
    size = 1 if factors is not None else max(1, _HELD // len(X))
    parts = []
    for first in range(0, len(theta), size):
        if factors is not None:
            F = _values_of(prepared, X, factors[first : first + 1])
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


def _elimination(models: Models) -> Inferred:
    """Sum out the elements, one model after the other."""
    pairs = models.need_pairs("elimination")
    rows: list[Row] = []
    for m, field in enumerate(models.theta):
        weights = pairs.scaled(models.factors_of(m))
        free = pairs.free(weights, models.alpha, field)
        # edges without weight are kept, so that all models have the same plan
        f = as_function(pairs, np.maximum(free.weights, _LEAST), free.field)
        value = eliminate(f).value - float(free.fixed.sum()) * math.log(2.0) + free.constant
        mean, _, apart = pair_marginals(f)
        rows.append((value, *pairs.expect(weights, free, mean, apart)))
    return _stack(rows)


def _cardinality(models: Models) -> Inferred:
    """Sum over counts, one model after the other."""
    prepared, alpha, theta, _ = models
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
        # the own fields of fixed elements do not count, but their terms of the functions do
        values[m] -= float(alpha @ linear @ np.isposinf(given))
    return Inferred(values, stats, means)


def _sum_out(
    table: FloatArray, alpha: FloatArray, field: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return log Z, E x and the expected functions of the elements of one count."""
    fixed = np.isinf(field)
    ones = int(np.count_nonzero(field[fixed] > 0))
    free = field[~fixed]
    seen = table[:, ones : ones + len(free) + 1]  # values at the counts that are possible
    mean = np.where(field > 0, 1.0, 0.0)
    value, mean[~fixed], count = count_marginals(alpha @ seen, free)
    return value, mean, seen @ count


def _strips(
    models: Models, window: int, side: Side, references: Bits | None, n_jobs: int | None
) -> Inferred:
    """Bound log Z of all images by windows, with its derivatives."""
    prepared, alpha, theta, factors = models
    pairs = _pairs_of_image(models)
    if references is None:
        references = prepared.maximize(theta, alpha, edge_weights=factors, n_jobs=n_jobs)[0]
    frees, stack = models.free_parts(pairs)
    found: list[Row] = [(0.0, alpha, alpha)] * len(theta)
    for rows, part, x, transposed in _by_direction(stack, references, window):
        values, *gradient = strips_gradient(part, x, window, n_jobs, side)
        means, by_weight = _gather(prepared, pairs, gradient, transposed)
        for m, value, mean, slope in zip(rows, values, means, by_weight, strict=True):
            free = frees[m]
            value += free.constant - float(free.fixed.sum()) * math.log(2.0)
            weights = pairs.scaled(models.factors_of(m))
            found[m] = (value, *pairs.expect(weights, free, mean, -slope))
    return _stack(found)


_METHODS: dict[str, Callable[..., Inferred]] = {
    "enumeration": _enumeration,
    "elimination": _elimination,
    "cardinality": _cardinality,
    "strips": _strips,
}

# ------------------------------------------------------------------------------------------ inside


def _pairs_of_image(models: Models) -> Pairs:
    """Return the functions on common edges; raise an error if they are not on a whole image."""
    pairs, prepared = models.need_pairs("strips"), models.prepared
    if prepared.structure.image_shape is None or not prepared.structure.is_whole:
        raise NotApplicable(
            "strips needs 4-neighbour cuts of one image (grid_cuts) without fixed pixels, got "
            f"{list(prepared.functions)!r}"
        )
    return pairs


def _stack(rows: list[Row]) -> Inferred:
    values, stats, means = zip(*rows, strict=True)
    return Inferred(np.array(values), np.array(stats), np.array(means))


def _by_direction(
    stack: Stack, references: Bits, window: int
) -> Iterator[tuple[IntArray, Stack, Bits, bool]]:
    """Yield the images whose windows are columns, then those whose windows are rows, transposed.

    Windows end at the edges whose ends differ more often in the reference, if none covers the
    image. The parts are: the rows of the batch, their images and references, whether transposed.
    """
    shape = stack.shape
    x = references.reshape(-1, *shape)
    transposed = np.full(len(x), shape[0] < shape[1])
    if min(shape) > window:
        down, across = (x[:, 1:] != x[:, :-1], x[:, :, 1:] != x[:, :, :-1])
        transposed = down.mean(axis=(1, 2)) > across.mean(axis=(1, 2))
    for flag in (False, True):
        rows = np.flatnonzero(transposed == flag)
        if not len(rows):
            continue
        part, some = stack.some(rows), x[rows]
        if flag:
            part, some = part.transposed(), np.ascontiguousarray(some.swapaxes(1, 2))
        yield rows, part, some, flag


def _gather(
    prepared: Prepared, pairs: Pairs, gradient: list[FloatArray], transposed: bool
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives in the fields (M, n) and in the weights of the edges (M, E)."""
    shape = prepared.structure.image_shape
    assert shape is not None
    dt, dacross, ddown = gradient
    if transposed:
        dt, dacross, ddown = (part.swapaxes(1, 2) for part in (dt, ddown, dacross))
    planes = np.zeros((2, len(dt), *shape))
    planes[0, :, :, :-1], planes[1, :, :-1] = dacross, ddown
    kind = is_down(pairs.edges, shape).astype(np.int64)
    by_weight = planes.reshape(2, len(dt), -1)[kind, :, pairs.edges[:, 0]].T
    return dt.reshape(len(dt), -1), by_weight
