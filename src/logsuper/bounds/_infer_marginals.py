r"""Marginals of many models at once, with common functions.

The models are those of `logsuper.bounds._infer`. Each gets the method that "auto" takes for a
single one; images by windows are one call of the kernel, with threads over the images.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, beat
from logsuper.bounds import _heavy, _methods
from logsuper.bounds._choose import covering_window, marginal_method, pairs_of
from logsuper.bounds._infer import Models
from logsuper.bounds._phases import is_wide, settle
from logsuper.bounds._results import Marginals
from logsuper.bounds._strips import marginal_brackets, marginal_operations
from logsuper.functions import Cut, Modular, SubmodularFunction, Sum
from logsuper.solvers import Prepared

# Weights per call of the kernel, some tenths of a second: signs of life come between calls.
_PIECE = 3e9


@dataclasses.dataclass(frozen=True, eq=False)
class BatchMarginals:
    """Marginals of M models.

    Attributes
    ----------
    values, lower, upper : ndarray of shape (M, n)
        Probabilities of a 1 and certified bounds on them; NaN for models that were left out.
    methods : ndarray of shape (M,), str
        For each model "exact", "strips", or "" if it was left out.
    """

    values: FloatArray
    lower: FloatArray
    upper: FloatArray
    methods: NDArray[np.str_]

    def by_strips(self) -> Marginals:
        """Return the marginals of those models that were bracketed by strips."""
        rows = self.methods == "strips"
        return Marginals(self.values[rows], "strips", self.lower[rows], self.upper[rows])

    def _set(self, row: int, found: Marginals, fixed: NDArray[np.bool_], ones: FloatArray) -> None:
        """Set the marginals of a model, given those of its free elements."""
        for out, part in (
            (self.values, found.values),
            (self.lower, found.lower),
            (self.upper, found.upper),
        ):
            out[row] = ones
            out[row, ~fixed] = np.nan if part is None else part


def infer_marginals(
    prepared: Prepared,
    alpha: FloatArray,
    theta: FloatArray,
    factors: FloatArray | None = None,
    *,
    n_jobs: int | None = None,
) -> BatchMarginals:
    """Return the marginals of each model, by the method that "auto" takes for a single one.

    Models for which there is neither cheap exact inference nor strips are left out.

    Parameters
    ----------
    prepared : Prepared
    alpha : ndarray of shape (K,)
    theta : ndarray of shape (M, n)
        Infinite fields fix elements.
    factors : ndarray of shape (M, E) or (M, K, E), optional
        On `Prepared.edges`.
    n_jobs : int, optional
        Threads over the images; the result does not depend on them.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.bounds import infer_marginals
    >>> s = ls.prepare(ls.grid_cuts((30, 30)))
    >>> theta = np.random.default_rng(0).choice([-2.0, 2.0], (3, 900))
    >>> found = infer_marginals(s, np.full(2, 0.5), theta)
    >>> found.methods.tolist(), bool((found.upper - found.lower).max() < 1e-4)
    (['strips', 'strips', 'strips'], True)
    """
    models = Models(prepared, alpha, theta, factors)
    methods = _find_methods(models)
    values, lower, upper = np.full((3, *theta.shape), np.nan)
    found = BatchMarginals(values, lower, upper, methods)
    chosen = np.flatnonzero(methods != "")
    for m in chosen[~_sum_images(models, chosen, found, n_jobs)]:
        beat()
        f, fixed = _single(models, m)
        options = {"n_jobs": n_jobs} if methods[m] == "strips" else {}
        one = settle(f, _methods.marginals(f, methods[m], **options))
        found._set(m, one, fixed, np.where(theta[m] == np.inf, 1.0, 0.0))
    return found


def _find_methods(models: Models) -> NDArray[np.str_]:
    """Return the method for each model, "" if it has none.

    The costs depend on the elements that are fixed and on edges of weight 0, if there are any.
    Otherwise all models are alike.
    """
    special, factors = np.isinf(models.theta).any(axis=1), models.factors
    if factors is not None:
        special |= ~(factors > 0).reshape(len(factors), -1).all(axis=1)
    methods = np.full(len(models.theta), "", dtype="<U6")
    alike = np.flatnonzero(~special)
    for rows in [*np.flatnonzero(special)[:, None], *([alike] if len(alike) else [])]:
        method = marginal_method(_single(models, int(rows[0]))[0])
        methods[rows] = method if method in ("exact", "strips") else ""
    return methods


def _sum_images(
    models: Models, rows: IntArray, found: BatchMarginals, n_jobs: int | None
) -> NDArray[np.bool_]:
    """Find the marginals of the images among some models; return which of them are done."""
    done = np.zeros(len(rows), dtype=bool)
    structure = models.prepared.structure
    shape, pairs = structure.image_shape, pairs_of(models.prepared, models.factors is not None)
    if shape is None or not structure.is_whole or pairs is None:
        return done
    window = covering_window(shape)
    # if a window covers the image, strips are exact
    batch = (found.methods[rows] == "strips") | (window is not None)
    cost = marginal_operations(shape, window)
    pieces = math.ceil(np.count_nonzero(batch) * cost / _PIECE)
    for places in np.array_split(np.flatnonzero(batch), max(1, pieces)):
        if not len(places):
            continue
        beat()
        some = rows[places]
        frees, stack = models.some(some).free_parts(pairs)
        # huge numbers are replaced by harmless ones first, one function at a time
        light = stack.largest() <= _heavy._LIGHT
        done[places] = light
        kept = np.flatnonzero(light)
        if not len(kept):
            continue
        (lower, upper), _ = marginal_brackets(stack.some(kept), window, n_jobs)
        for i, *ends in zip(kept, lower, upper, strict=True):
            m, free = int(some[i]), frees[i]
            low, high = (end.ravel()[~free.fixed] for end in ends)
            one = Marginals(low + (high - low) / 2, "strips", low, high)
            if is_wide(one):
                one = settle(_single(models, m)[0], one)
            found._set(m, one, free.fixed, free.point)
    return done


def weighted_sum(
    prepared: Prepared, alpha: FloatArray, factors: FloatArray | None = None
) -> SubmodularFunction:
    r"""Return :math:`\sum_k\alpha_kf_k`, with factors (E,) or (K, E) on the edges of the cuts."""
    functions = prepared.functions
    if factors is None:
        return Sum(zip(alpha.tolist(), functions, strict=True))
    places = iter(prepared.structure.cut_places)
    given = np.atleast_2d(factors)  # one row for all functions, or one for each

    def weigh(atom: SubmodularFunction, k: int) -> SubmodularFunction:
        if not isinstance(atom, Cut):
            return atom
        return atom.with_weights(atom.weights * given[k % len(given), next(places)])

    return Sum(
        (weight * own, weigh(atom, k))
        for k, (weight, f) in enumerate(zip(alpha.tolist(), functions, strict=True))
        for own, atom in f.terms()
    )


def _single(models: Models, m: int) -> tuple[SubmodularFunction, NDArray[np.bool_]]:
    """Return the function of one model on its free elements, and which elements are fixed."""
    field = models.theta[m]
    fixed = np.isinf(field)
    whole = weighted_sum(models.prepared, models.alpha, models.factors_of(m))
    f = whole - Modular(np.where(fixed, 0.0, field))
    if fixed.any():
        f = f.condition({int(d): int(field[d] > 0) for d in np.flatnonzero(fixed)})[0]
    return f, fixed
