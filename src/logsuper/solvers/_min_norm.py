r"""Minimum-norm point of a base polytope, and generic maximisation, by Fujishige and Wolfe.

For a submodular :math:`f` with :math:`f(0) = 0`, the base polytope is

.. math:: B(f) = \{ s \in \mathbb{R}^n : s(X) \le f(X) \text{ for all } X,\; s(V) = f(V) \},

and its point of least Euclidean norm :math:`s^*` solves a whole family of problems at once: for
every shift :math:`\tau`, :math:`\{s^* < \tau\}` is the smallest and :math:`\{s^* \le \tau\}` the
largest minimiser of :math:`f(x) - \tau \sum_d x_d` [1]_. With :math:`F = f - \theta` and
:math:`\tau = 0` this is :math:`\max_y \theta^\top y - f(y)`. The method works for any submodular
function: it only needs the greedy algorithm, which maximises :math:`w^\top s` over :math:`B(f)`.

Wolfe's algorithm [2]_ keeps a few affinely independent vertices and the point :math:`x` of least
norm in their convex hull. It adds the vertex :math:`q` that minimises :math:`x^\top q`, moves
towards the new affine minimiser, and drops vertices whose weights would become negative.

**Splitting.** Convergence is slow if levels are close. But if a set :math:`A` is tight,
:math:`x(A) = f(A)`, and :math:`x` is smaller on :math:`A` than elsewhere, weak duality shows that
:math:`A` is a level set of :math:`s^*`. The problem then splits into that of :math:`f` on :math:`A`
and that of :math:`f(A \cup \cdot) - f(A)` on the other elements, both smaller; for a single
minimisation only the part around zero matters. Tight sets appear long before convergence.

**Certificates.** Every iterate :math:`x` is in :math:`B(f)`, so that weak duality holds:

* for the minimum of :math:`F`,  :math:`F(X) \ge \sum_d \min(x_d, 0)` for all :math:`X`; the gap
  of a set :math:`X` is the difference;
* for the least norm,  :math:`\tfrac12\|s^*\|^2 \ge -\tfrac12\|w\|^2 - f(w)` for all :math:`w`, with
  :math:`f(w)` the Lovász extension; the gap of the pair is
  :math:`(f(w) - x^\top w) + \tfrac12 \|x + w\|^2`, both parts :math:`\ge 0`, and
  :math:`\|s^* + w\|^2 \le 2\,\text{gap}`.

**How it may fail.** (1) Elements of very different magnitude (say :math:`10^{12}`): the small ones
are lost in the rounding errors of the large ones; scale or split the problem. (2) A function that
is not submodular: the gap is then not a certificate; run ``check_submodular``. (3) Many elements
with almost equal levels (a log-determinant of hundreds of nearly dependent variables): the
algorithm takes many small steps until the limit is reached, and a warning gives the remaining gap;
maximisation alone is much easier than the whole min-norm point. Prefer an equivalent function with
a ``graph()`` if there is one: it is solved by max-flow instead.

References
----------
.. [1] S. Fujishige, "Submodular Functions and Optimization", 2nd ed., Elsevier, 2005, section 7.1.
.. [2] P. Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11, 1976.
"""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, as_floats
from logsuper.functions import SubmodularFunction
from logsuper.solvers._problems import check_theta, check_tie
from logsuper.solvers._wolfe import Wolfe, one_blas_thread

# Values that differ by less than this, relative to the numbers they are sums of, are ties.
_TIE = 1e-12
# Relative margin by which a field must exceed a gain to decide an element without the solver.
_CLEAR = 1e-10
# Minimum number of elements of a part; smaller ones are not cheaper to solve.
_PIECE = 16
# A problem is split only if each part has at most this fraction of its elements, since parts are
# solved from scratch.
_SMALLER = 0.75


@dataclasses.dataclass(frozen=True, eq=False)
class MinNormPoint:
    r"""The point :math:`s^*` of least norm in a base polytope :math:`B(f)`.

    Attributes
    ----------
    s : ndarray of float64, shape (n,) or (M, n)
        The point, or one point per field. Elements of one level have exactly equal entries.
    gap : float or ndarray of shape (M,)
        Duality gap: :math:`\|s - s^*\|^2 \le 2\,\text{gap}`, up to rounding.
    iterations : int or ndarray of shape (M,)
        Number of greedy calls, or of levels of the divide-and-conquer algorithm.
    converged : bool or ndarray of shape (M,)
        Whether the gap is below the tolerance.

    Examples
    --------
    >>> point = MinNormPoint(np.array([-1.0, 0.0, 2.0]), 0.0, 1, True)
    >>> point.maximizer(tie="min"), point.maximizer(tie="max")
    (array([1, 0, 0], dtype=uint8), array([1, 1, 0], dtype=uint8))
    """

    s: FloatArray
    gap: float | FloatArray
    iterations: int | IntArray
    converged: bool | BoolArray

    def maximizer(self, shift: ArrayLike = 0.0, tie: str | None = None) -> Bits:
        r"""Maximise :math:`\tau \sum_d y_d - f(y)` for any shift, without another solve.

        Parameters
        ----------
        shift : float or array_like of float, shape (...)
            The shifts :math:`\tau`.
        tie : {None, "min", "max"}, optional
            The smallest maximiser :math:`\{s < \tau\}` (also for None) or the largest
            :math:`\{s \le \tau\}`.

        Returns
        -------
        ndarray of uint8, shape (..., n) or (..., M, n)
            One maximiser per shift and field.
        """
        check_tie(tie)
        level = as_floats(shift, "shift")
        level = level.reshape(level.shape + (1,) * self.s.ndim)
        if np.isnan(level).any():
            raise ValueError("shift must not be NaN")
        chosen = self.s <= level if tie == "max" else self.s < level
        return chosen.astype(np.uint8)


def min_norm_point_wolfe(
    f: SubmodularFunction,
    theta: ArrayLike | None = None,
    tol: float = 1e-14,
    max_iter: int | None = None,
) -> MinNormPoint:
    r"""Find the point of least norm in :math:`B(f - \theta)`.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array_like of float, shape (n,), optional
        Finite field subtracted from f; 0 by default.
    tol : float
        Stop when the gap is at most ``tol`` times the largest squared norm of the vertices seen.
    max_iter : int, optional
        Maximum number of greedy calls, ``20 n + 1000`` by default.

    Returns
    -------
    MinNormPoint

    Warns
    -----
    ConvergenceWarning
        If neither the tolerance nor the precision of float64 was reached within ``max_iter``.

    Examples
    --------
    >>> from logsuper.functions import Cut
    >>> point = min_norm_point_wolfe(Cut(3, [[0, 1], [1, 2]]), theta=[2.0, 0.0, 0.5])
    >>> point.s
    array([-1.  , -0.75, -0.75])
    """
    if f.n == 0:
        return MinNormPoint(np.empty(0), 0.0, 0, True)
    field = np.zeros(f.n)
    if theta is not None:
        field = np.asarray(theta, dtype=np.float64)
        if field.shape != (f.n,) or not np.all(np.isfinite(field)):
            raise ValueError(f"theta must be finite, of shape ({f.n},), got shape {field.shape}")
    with one_blas_thread():
        point, scale, calls = _least_norm(f, field, tol, _limit(f.n, max_iter))
        s, gap = _levels(point, f.greedy(-point) - field, scale)
    wanted = max(tol, 1e-12) * scale**2
    if gap > wanted:
        _warn("the gap of the min-norm point", gap, wanted, calls)
    return MinNormPoint(s, gap, calls, gap <= wanted)


def _least_norm(
    f: SubmodularFunction, field: FloatArray, tol: float, limit: int
) -> tuple[FloatArray, float, int]:
    """Return a point of nearly least norm in ``B(f - field)``, its scale, and the greedy calls."""
    point = np.empty(f.n)
    calls, scale = 0, 0.0
    parts = [(f, np.arange(f.n), np.zeros(f.n))]
    while parts:
        g, elements, start = parts.pop()
        run = Wolfe(g, field[elements], start)
        scale = max(scale, run.scale)
        wanted = tol * scale**2 * len(elements) / f.n
        cuts = [0]
        while run.norm_gap > wanted and calls + run.calls < limit:
            cuts = _worthwhile(run.tight()[0], g.n)
            if len(cuts) > 1 or not run.step():
                break
        calls += run.calls
        point[elements] = run.point
        if len(cuts) > 1:
            for first, stop in zip(cuts, [*cuts[1:], g.n], strict=True):
                piece, part = _interval(g, run.order, first, stop)
                parts.append((part, elements[piece], run.point[piece]))
    return point, scale, calls


def _levels(x: FloatArray, q: FloatArray, scale: float) -> tuple[FloatArray, float]:
    r"""Return the best vector with the order of a point x of the polytope, and the gap of the pair.

    q is the vertex that minimises :math:`x^\top q`. Among the :math:`w` that decrease along the
    order, :math:`f(w) = q^\top w` is linear, and the minimiser of :math:`f(w) + \tfrac12\|w\|^2` is
    the isotonic regression of -q: means over blocks, where blocks that differ only by rounding are
    joined too.
    """
    order = np.argsort(x, kind="stable")
    same = _TIE * scale
    means: list[float] = []
    sizes: list[int] = []
    for value in q[order].tolist():
        mean, size = value, 1
        while means and means[-1] >= mean - same:
            weight = sizes.pop()
            mean = (means.pop() * weight + mean * size) / (weight + size)
            size += weight
        means.append(mean)
        sizes.append(size)
    s = np.empty(len(x))
    s[order] = np.repeat(means, sizes)
    return s, max(0.0, float((x - q) @ s + 0.5 * np.sum((x - s) ** 2)))


def _worthwhile(places: IntArray, n: int) -> list[int]:
    """Return the places to split at, starting with 0; only [0] unless all parts are small."""
    cuts = [0]
    for place in places.tolist():
        if min(place - cuts[-1], n - place) >= _PIECE:
            cuts.append(place)
    return cuts if np.diff([*cuts, n]).max() <= _SMALLER * n else [0]


def _interval(
    g: SubmodularFunction, order: IntArray, first: int, stop: int
) -> tuple[IntArray, SubmodularFunction]:
    """Return the elements between two places of the order, and f conditioned on all others."""
    piece = np.sort(order[first:stop])
    fixed = dict.fromkeys(order[:first].tolist(), 1) | dict.fromkeys(order[stop:].tolist(), 0)
    return piece, g.condition(fixed)[0]


def maximize_generic(
    f: SubmodularFunction,
    theta: ArrayLike,
    tie: str | None = None,
    tol: float = 1e-12,
    max_iter: int | None = None,
) -> tuple[Bits, FloatArray, FloatArray]:
    r"""Maximise :math:`\theta^\top y - f(y)` for any submodular f and a batch of fields.

    Elements that are decided by their gains alone are fixed first: by submodularity
    :math:`f(y, y_d = 1) - f(y, y_d = 0)` lies between the gains at the largest and at the smallest
    set that is still possible. The function of the remaining elements is solved by the min-norm
    point.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array_like of float, shape (M, n)
        Fields; infinite entries fix their element. A single field (n,) is treated as one row.
    tie : {None, "min", "max"}, optional
        Return the smallest or the largest maximiser, or any. Sets whose values differ by less than
        1e-12 of the numbers involved are treated as equal.
    tol : float
        Stop when the gap is at most ``tol`` times the largest 1-norm of the vertices seen.
    max_iter : int, optional
        Maximum number of greedy calls per field, ``20 n + 1000`` by default.

    Returns
    -------
    y : ndarray of uint8, shape (M, n)
        Maximisers.
    values : ndarray of float64, shape (M,)
        Their values, the finite terms of :math:`\theta^\top y` minus :math:`f(y)`.
    gaps : ndarray of float64, shape (M,)
        The true maxima are at most ``values + gaps``.

    Warns
    -----
    ConvergenceWarning
        If a gap is above the tolerance.

    Examples
    --------
    >>> from logsuper.functions import Cut
    >>> y, values, gaps = maximize_generic(Cut(3, [[0, 1], [1, 2]]), [[2.0, 0.5, -1.25]])
    >>> y, values
    (array([[1, 1, 0]], dtype=uint8), array([1.5]))
    """
    check_tie(tie)
    field, _ = check_theta(theta, f.n)
    finite = np.where(np.isfinite(field), field, 0.0)
    unit = unit_of(f, finite)
    if unit != 1.0:
        y, values, gaps = maximize_generic(f * (1.0 / unit), field / unit, tie, tol, max_iter)
        return y, values * unit, gaps * unit
    with one_blas_thread():
        lower, upper = _decide_by_gains(f, field)
        chosen = lower.copy()
        gaps, allowed = np.zeros(len(field)), np.zeros(len(field))
        most = 0
        for fixed, rows in _by_pattern(lower, upper):
            free = np.flatnonzero(~fixed)
            g = f.condition({d: int(lower[rows[0], d]) for d in np.flatnonzero(fixed).tolist()})[0]
            for row in rows:
                answer = _minimise(g, finite[row, free], tie, tol, _limit(g.n, max_iter))
                chosen[row, free] = answer.chosen
                gaps[row], allowed[row] = answer.gap, answer.allowed
                most = max(most, answer.calls)
        values = (finite * chosen).sum(axis=1) - f(chosen)
    failed = np.flatnonzero(gaps > allowed)
    if failed.size:
        worst = int(failed[gaps[failed].argmax()])
        _warn(f"the gap of theta[{worst}]", float(gaps[worst]), float(allowed[worst]), most)
    return chosen.astype(np.uint8), values, gaps


def unit_of(f: SubmodularFunction, fields: FloatArray) -> float:
    """Return a power of two near the largest gain, or 1 if that is of usual magnitude.

    Wolfe's algorithm multiplies gains, and an underflow would look like convergence. Dividing f by
    this unit avoids underflow and overflow, and is exact.
    """
    zero = np.zeros(f.n)
    ends = [f.gains(zero), f.gains(1.0 - zero), fields]
    largest = max(float(np.abs(part).max(initial=0.0)) for part in ends)
    usual = largest == 0.0 or 1e-60 < largest < 1e60
    return 1.0 if usual else 2.0 ** float(np.clip(math.frexp(largest)[1], -1000, 1000))


@dataclasses.dataclass(frozen=True)
class _Minimum:
    """A minimiser, its optimality gap, the tolerated gap, and the number of greedy calls."""

    chosen: BoolArray
    gap: float
    allowed: float
    calls: int


def _minimise(
    f: SubmodularFunction, field: FloatArray, tie: str | None, tol: float, limit: int
) -> _Minimum:
    """Minimise ``f - field``; with a tie rule, iterate until the min-norm point is found."""
    chosen = np.zeros(f.n, dtype=bool)
    calls, lost, mass, scale = 0, 0.0, 0.0, 0.0
    g, elements, start = f, np.arange(f.n), np.zeros(f.n)
    while True:
        run = Wolfe(g, field[elements], start)
        first, stop = 0, g.n
        while calls + run.calls < limit:
            mass, scale = max(mass, run.mass), max(scale, run.scale)
            if run.set_gap <= tol * mass and (tie is None or run.norm_gap <= 1e-14 * scale**2):
                break
            places, slack = run.tight()
            below, above = run.point[run.order[places - 1]], run.point[run.order[places]]
            # Sets that are tight at a negative level are subsets of every minimiser, and sets that
            # are tight at a positive level are supersets of every minimiser.
            first = max(places[above <= 0].tolist(), default=0)
            stop = min(places[below >= 0].tolist(), default=g.n)
            if stop - first <= _SMALLER * g.n:
                lost += sum(slack[(places == first) | (places == stop)].tolist())
                break
            first, stop = 0, g.n
            if not run.step():
                break
        calls += run.calls
        if stop - first == g.n:
            first = stop = _pick(run.chain, tie, _TIE * mass)
            lost += run.set_gap + float(run.chain[first] - run.chain.min())
        chosen[elements[run.order[:first]]] = True
        if first == stop:
            return _Minimum(chosen, lost, max(tol, 10 * _TIE) * mass, calls)
        piece, g = _interval(g, run.order, first, stop)
        start, elements = run.point[piece], elements[piece]


def _pick(chain: FloatArray, tie: str | None, tolerance: float) -> int:
    """Return the index of the minimum; with a tie rule, the first or last of those tied."""
    good = np.flatnonzero(chain <= chain.min() + tolerance)
    return int({"min": good[0], "max": good[-1], None: chain.argmin()}[tie])


def _decide_by_gains(f: SubmodularFunction, field: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Bracket every maximiser, ``lower <= y <= upper``, by comparing gains with fields."""
    lower = field == np.inf
    upper = field != -np.inf
    active = np.arange(len(field)) if f.n else np.empty(0, dtype=np.int64)
    while active.size:
        low, high, t = lower[active], upper[active], field[active]
        free = high & ~low
        if not free.any():
            break
        most, least = f.gains(low), f.gains(high)
        size = np.maximum(np.abs(most), np.abs(least)) + np.where(free, np.abs(t), 0.0)
        margin = _CLEAR * size.max(axis=1, keepdims=True)
        on = free & (t > most + margin)
        off = free & ~on & (t < least - margin)
        lower[active] |= on
        upper[active] &= ~off
        active = active[(on | off).any(axis=1)]
    return lower, upper


def _by_pattern(lower: BoolArray, upper: BoolArray) -> list[tuple[BoolArray, IntArray]]:
    """Group the rows that have free elements by their fixed elements and values."""
    rows = np.flatnonzero((upper & ~lower).any(axis=1))
    groups: dict[bytes, list[int]] = {}
    for row in rows.tolist():
        key = np.packbits(np.concatenate([lower[row], upper[row]])).tobytes()
        groups.setdefault(key, []).append(row)
    return [(lower[g[0]] | ~upper[g[0]], np.array(g)) for g in groups.values()]


def _limit(n: int, max_iter: int | None) -> int:
    return 20 * n + 1000 if max_iter is None else max_iter


def _warn(what: str, gap: float, wanted: float, iterations: int) -> None:
    from logsuper._base import ConvergenceWarning  # imports scikit-learn

    warnings.warn(
        f"{what} is {gap:.3g}, above {wanted:.3g}, after {iterations} greedy calls; raise "
        "max_iter, or check that f is submodular and that its values have similar magnitudes",
        ConvergenceWarning,
        stacklevel=3,
    )
