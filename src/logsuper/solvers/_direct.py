r"""Solvers that do not use a graph: closed forms and the min-norm point.

The closed form is maximisation by sorting, for modular terms plus one concave function of a count
or weighted sum. For :math:`f(x) = t^\top x + c\,g(w^\top x)` with :math:`g` concave,
:math:`c \ge 0` and :math:`w \ge 0`, the problem

.. math:: \max_{y \in \{0, 1\}^n} \; z^\top y - c\,g(w^\top y), \qquad z = \theta - t,

maximises a function of the pair :math:`(w^\top y, z^\top y)` that is convex, and increasing in the
second number. The maximum is attained at an upper vertex of the convex hull of these pairs, and the
upper vertices are the sets :math:`\{d : z_d / w_d > \lambda\}`: sort by the ratio and take the best
prefix. An element with :math:`w_d = 0` is on if :math:`z_d > 0`. For a count, :math:`w` is 0 or 1,
and concavity is not needed. All fields of a batch are sorted together.

The smallest maximiser is the shortest best prefix, the largest one the longest: between two upper
vertices the function is convex, so if a set strictly between them is optimal, both of them are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, BoolArray, FloatArray, IntArray
from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Modular,
    SubmodularFunction,
    Sum,
    split_modular,
)
from logsuper.solvers._min_norm import maximize_generic
from logsuper.solvers._precision import report
from logsuper.solvers._problems import (
    Noise,
    Perturbed,
    Problems,
    check_theta,
    check_tie,
    perturb_each,
)
from logsuper.structures import Structure


class Direct:
    """Solve each problem by building its weighted sum of functions."""

    def __init__(self, functions: Sequence[SubmodularFunction]) -> None:
        self.functions = tuple(functions)
        self.n = functions[0].n
        self.k = len(functions)

    @staticmethod
    def has_closed_form(functions: Sequence[SubmodularFunction]) -> bool:
        """Return whether every weighted sum of the functions can be maximised by sorting."""
        return closed_form_kind(Sum([(1.0, f) for f in functions])) is not None

    def maximize(self, problems: Problems, tie: str | None) -> tuple[Bits, FloatArray, FloatArray]:
        y = np.empty((problems.size, self.n), dtype=np.uint8)
        values = np.empty(problems.size)
        fields = np.broadcast_to(problems.theta, y.shape)
        # Problems with equal weights share one function.
        rows, place = np.unique(problems.alpha, axis=0, return_inverse=True)
        which = np.broadcast_to(place.ravel(), problems.size)
        for r, row in enumerate(rows):
            f = weighted_sum(row, self.functions)
            mine = which == r
            if closed_form_kind(f) is not None:
                y[mine], values[mine] = maximize_closed_form(f, fields[mine], tie)
            else:
                y[mine], values[mine], gaps = maximize_generic(f, fields[mine], tie)
                # the tolerated gaps are relative to the largest numbers in f, so report large ones
                own = fields[mine] + split_modular(f)[1]
                report(gaps + _rounding(f), own)
        return y, values, self._statistics(y)

    def perturb(self, problems: Problems, noise: Noise, return_samples: bool) -> Perturbed:
        solve = functools.partial(self.maximize, tie=None)
        return perturb_each(solve, problems, noise, return_samples)

    def _statistics(self, y: Bits) -> FloatArray:
        return np.stack([f(y) for f in self.functions], axis=1)

    @property
    def edges(self) -> IntArray:
        """No edge has a weight of its own."""
        return np.empty((0, 2), dtype=np.int64)


class Sorting(Direct):
    """Modular terms and at most one concave function of a count or of a modular function."""

    name = "sorting"

    @classmethod
    def build(cls, structure: Structure, memory_limit: int | None = None) -> Self | None:
        """Return the solver of the functions, None if it is not for them."""
        functions = structure.functions
        return cls(functions) if Direct.has_closed_form(functions) else None


class MinNorm(Direct):
    """Any functions, by the min-norm point of their sum."""

    name = "min_norm"

    @classmethod
    def build(cls, structure: Structure, memory_limit: int | None = None) -> Self | None:
        """Return the solver of the functions."""
        return cls(structure.functions)


def weighted_sum(
    weights: FloatArray, functions: Sequence[SubmodularFunction]
) -> SubmodularFunction:
    """Return the sum of the functions with the given weights."""
    return Sum([(float(weight), f) for weight, f in zip(weights, functions, strict=True)])


def _rounding(f: SubmodularFunction) -> float:
    """Return an approximate bound on the rounding error of a sum of n gains of f."""
    gains = f.gains(np.stack([np.zeros(f.n), np.ones(f.n)]))
    return float(np.finfo(np.float64).eps * f.n * np.abs(gains).max(axis=0).sum())


_Concave = ConcaveCardinality | ConcaveOfModular

# Float64 numbers of a batch that are sorted at a time; limits scratch memory to some 100 megabytes.
_BLOCK = 1 << 21


def closed_form_kind(f: SubmodularFunction) -> str | None:
    """Return the name of the closed form that maximises ``theta'y - f(y)``.

    Parameters
    ----------
    f : SubmodularFunction

    Returns
    -------
    {"modular", "cardinality", "concave_of_modular"} or None
        None unless f is a sum of modular terms and at most one `ConcaveCardinality` or
        `ConcaveOfModular`.

    Examples
    --------
    >>> from logsuper.functions import ConcaveCardinality, Cut, Modular
    >>> f = 2.0 * ConcaveCardinality([0.0, 1.0, 1.5]) - Modular([1.0, 0.0])
    >>> closed_form_kind(f), closed_form_kind(f + Cut(2, [[0, 1]]))
    ('cardinality', None)
    """
    kinds = []
    for weight, atom in f.terms():
        if weight == 0 or isinstance(atom, Modular):
            continue
        if weight < 0 or not isinstance(atom, _Concave):
            return None
        kinds.append(
            "cardinality" if isinstance(atom, ConcaveCardinality) else "concave_of_modular"
        )
    return "modular" if not kinds else kinds[0] if len(kinds) == 1 else None


def maximize_closed_form(
    f: SubmodularFunction, theta: ArrayLike, tie: str | None = None
) -> tuple[Bits, FloatArray]:
    r"""Maximise :math:`\theta^\top y - f(y)` by sorting, for a batch of fields.

    Parameters
    ----------
    f : SubmodularFunction
        A function for which `closed_form_kind` is not None.
    theta : array_like of float, shape (M, n)
        Fields; infinite entries fix their element. A single field (n,) is treated as one row.
    tie : {None, "min", "max"}, optional
        Return the smallest or the largest maximiser, or any. Prefixes whose values differ by less
        than the rounding error of their sums are treated as equal.

    Returns
    -------
    y : ndarray of uint8, shape (M, n)
        Maximisers.
    values : ndarray of float64, shape (M,)
        Their values, the finite terms of :math:`\theta^\top y` minus :math:`f(y)`.

    Examples
    --------
    >>> from logsuper.functions import ConcaveCardinality
    >>> f = ConcaveCardinality([0.0, 2.0, 3.0, 3.5])
    >>> maximize_closed_form(f, [[2.5, 0.75, 1.5], [1.0, 1.0, 1.0]])
    (array([[1, 1, 1],
           [0, 0, 0]], dtype=uint8), array([1.25, 0.  ]))
    """
    check_tie(tie)
    if closed_form_kind(f) is None:
        raise ValueError(
            f"{f!r} has no closed form: it must be modular plus at most one ConcaveCardinality or "
            "ConcaveOfModular"
        )
    field, _ = check_theta(theta, f.n)
    tilt = np.zeros(f.n)
    curve: tuple[float, _Concave] | None = None
    for weight, atom in f.terms():
        if isinstance(atom, Modular):
            tilt += weight * atom.t
        elif weight > 0 and isinstance(atom, _Concave):
            curve = weight, atom

    y = np.empty(field.shape, dtype=np.uint8)
    values = np.empty(len(field))
    step = max(1, _BLOCK // max(1, f.n))
    for first in range(0, len(field), step):
        rows = slice(first, first + step)
        block = field[rows]
        z = block - tilt
        on = z >= 0 if tie == "max" else z > 0
        if curve is not None:
            _best_prefixes(*curve, z, tie, on)
        y[rows] = on
        finite = np.where(np.isfinite(block), block, 0.0)
        values[rows] = (finite * on).sum(axis=1) - f(on)
    return y, values


def _best_prefixes(c: float, atom: _Concave, z: FloatArray, tie: str | None, on: BoolArray) -> None:
    """Overwrite in `on` (M, n) the elements that the concave term depends on."""
    if isinstance(atom, ConcaveCardinality):
        members = atom.subset
        weights = np.ones(members.size)
    else:
        members = np.flatnonzero(atom.weights > 0)
        weights = atom.weights[members]
    if members.size == 0:
        return
    z = z[:, members]
    fixed_on, fixed_off = z == np.inf, z == -np.inf
    # Elements fixed to 1 enter first and those fixed to 0 last, whatever the ratios: a finite z
    # over a tiny weight may overflow to infinity too.
    turn = np.where(fixed_on, 0, np.where(fixed_off, 2, 1))
    with np.errstate(over="ignore"):
        # a positive weight that underflows relative to the largest stays positive: no 0 / 0
        ratio = z / np.maximum(weights / weights.max(), np.nextafter(0.0, 1.0))
    order = np.lexsort((-ratio, turn), axis=-1)
    gain = np.take_along_axis(np.where(fixed_on | fixed_off, 0.0, z), order, axis=1)
    if isinstance(atom, ConcaveCardinality):
        concave = np.broadcast_to(c * atom.g, (len(z), members.size + 1))
    else:
        concave = c * atom.g(np.pad(np.cumsum(weights[order], axis=1), ((0, 0), (1, 0))))
    total, rest = _running_sum(gain, concave[:, :-1], -concave[:, 1:])
    place = np.arange(members.size + 1)
    low = fixed_on.sum(axis=1, keepdims=True)
    high = members.size - fixed_off.sum(axis=1, keepdims=True)
    total[(place < low) | (place > high)] = -np.inf
    # relative to the maximum, so that a large common part does not hide small differences
    total = (total - total.max(axis=1, keepdims=True)) + rest
    if tie is None:
        length = total.argmax(axis=1)
    else:
        # equally good sets differ as much in their fields as in the concave term
        size = np.abs(gain).sum(axis=1)
        rounding = 8 * np.finfo(np.float64).eps * np.sqrt(members.size) * size
        good = total >= (total.max(axis=1) - rounding)[:, None]
        length = good.argmax(axis=1) if tie == "min" else place[-1] - good[:, ::-1].argmax(axis=1)
    chosen = np.empty(z.shape, dtype=bool)
    np.put_along_axis(chosen, order, place[:-1] < length[:, None], axis=1)
    on[:, members] = chosen


def _running_sum(*parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of the first 0, 1, ..., n columns of all parts, as a float64 and a remainder.

    Each rounding error is computed exactly (Knuth's two-sum) and added to the remainder, so that
    the pair has about twice the precision of float64.
    """
    step, lost = parts[0], np.zeros(parts[0].shape)
    for part in parts[1:]:
        total = step + part
        lost += _error(step, part, total)
        step = total
    total = np.pad(np.cumsum(step, axis=1), ((0, 0), (1, 0)))
    lost += _error(total[:, :-1], step, total[:, 1:])
    return total, np.pad(np.cumsum(lost, axis=1), ((0, 0), (1, 0)))


def _error(a: FloatArray, b: FloatArray, total: FloatArray) -> FloatArray:
    """Return a + b - total for the rounded sum total."""
    back = total - a
    return np.asarray((a - (total - back)) + (b - back))
