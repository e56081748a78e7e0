"""The min-norm point of the base polytope, which gives the maximisers for all uniform shifts."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, FloatArray, IntArray, check_limit, count_threads, places_of, refuse
from logsuper.functions import SubmodularFunction, check_function
from logsuper.solvers._direct import Direct, closed_form_kind
from logsuper.solvers._flow import Flow
from logsuper.solvers._min_norm import MinNormPoint, min_norm_point_wolfe, unit_of
from logsuper.solvers._native import kernels
from logsuper.solvers._problems import Problems, check_theta
from logsuper.structures import structure_of

# Tolerated duality gap, relative to half the squared norm of the point (or of the field).
_RELATIVE_GAP = 1e-10
# Float64 numbers in the fields of one level that are kept in memory at a time.
_BLOCK = 1 << 23

Solver = Callable[[FloatArray], Bits]


def min_norm_point(
    f: SubmodularFunction,
    theta: ArrayLike | None = None,
    n_jobs: int | None = None,
    memory_limit: float | None = None,
) -> MinNormPoint:
    r"""Find the point of least norm in the base polytope :math:`B(f-\theta)`.

    .. math:: s^*=\operatorname{argmin}_{s\in B(f-\theta)}\tfrac12\|s\|^2,\qquad
       -s^*=\operatorname{argmin}_w\tfrac12\|w-\theta\|^2+f(w)

    with the Lovász extension of f on the right: for cuts, :math:`-s^*` is the total-variation
    denoising of :math:`\theta`. It solves :math:`\max_y(\theta+\tau)^\top y-f(y)` for every shift
    :math:`\tau` (`MinNormPoint.maximizer`), and :math:`\sigma(-s^*)` are the L-field marginals.

    Functions that sorting or max-flow can maximise are solved by divide and conquer: all regions of
    a level are one batch, and ten to twenty levels suffice for an image. Other functions are solved
    by the Fujishige-Wolfe algorithm, which suits n up to some hundreds.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array-like of shape (n,) or (M, n), optional
        Finite fields subtracted from f; 0 by default.
    n_jobs : int, optional
        Number of threads over the fields.
    memory_limit : float, optional
        Number of bytes that the call may use, as in `maximize`.

    Returns
    -------
    MinNormPoint
        With ``s`` of the shape of theta, and one duality gap per field.

    Examples
    --------
    >>> import logsuper as ls
    >>> point = ls.min_norm_point(ls.Cut(3, [(0, 1), (1, 2)]), theta=[2.0, 0.0, 0.5])
    >>> point.s
    array([-1.  , -0.75, -0.75])
    >>> point.maximizer(shift=[-2.0, -0.8, 0.0])
    array([[0, 0, 0],
           [1, 0, 0],
           [1, 1, 1]], dtype=uint8)
    """
    check_function(f)
    fields, single = check_theta(np.zeros(f.n) if theta is None else theta, f.n)
    given = fields[0] if single else fields
    refuse(np.isinf(given), given, "theta", "an infinite field has no min-norm point; condition f")
    threads, limit = count_threads(n_jobs), check_limit(memory_limit)
    if f.n == 0:
        empty = np.zeros(len(fields))
        result = MinNormPoint(np.zeros(fields.shape), empty, empty.astype(int), empty == 0)
        return _first(result) if single else result

    with np.errstate(over="ignore", invalid="ignore"):
        result = _points(f, fields, threads, limit)
        if not np.isfinite(result.gap).all():
            unit = unit_of(f, fields)  # a power of two, so that the division is exact
            found = _points(f * (1.0 / unit), fields / unit, threads, limit)
            result = dataclasses.replace(found, s=found.s * unit, gap=found.gap * unit * unit)
    return _first(result) if single else result


def _points(
    f: SubmodularFunction, fields: FloatArray, threads: int, limit: int | None
) -> MinNormPoint:
    """Return the points; their gaps are infinite if squares overflow or underflow."""
    closed = closed_form_kind(f) is not None
    flow = None if closed else Flow.build(structure_of(f), limit)
    if flow is not None and flow.simple and kernels() is not None:
        # The tolerance is relative to the kernel's fields, which include modular terms of f.
        return _judge(*flow.min_norm(_problems(fields), threads, limit))
    if flow is not None or closed:
        return _judge(*_divide_all(f, fields, flow, threads, limit), fields)
    if unit_of(f, fields) != 1.0:  # to Wolfe's algorithm, an underflow looks like convergence
        unknown = np.full(len(fields), np.inf)
        return MinNormPoint(fields, unknown, unknown == 0, unknown == 0)
    points = [min_norm_point_wolfe(f, field) for field in fields]
    return MinNormPoint(
        np.array([p.s for p in points]).reshape(fields.shape),
        np.array([p.gap for p in points], dtype=np.float64),
        np.array([p.iterations for p in points], dtype=np.int64),
        np.array([p.converged for p in points], dtype=np.bool_),
    )


def _problems(fields: FloatArray) -> Problems:
    """Return the problems of a single function of weight 1."""
    return Problems(fields, np.ones((1, 1)), None, len(fields))


def _judge(s: FloatArray, gaps: FloatArray, levels: IntArray, fields: FloatArray) -> MinNormPoint:
    wanted = _RELATIVE_GAP * np.maximum((s**2).sum(axis=1), (fields**2).sum(axis=1)) / 2
    converged = gaps <= wanted
    finite = np.isfinite(gaps + wanted)
    if not finite.all():
        gaps = np.where(finite, gaps, np.inf)
    elif not converged.all():
        from logsuper._base import ConvergenceWarning  # imports scikit-learn

        m = int(np.argmin(converged))
        warnings.warn(
            f"the gap of theta[{m}] is {gaps[m]:.3g}, above {wanted[m]:.3g}; check that the "
            "weights of f and theta have similar magnitudes",
            ConvergenceWarning,
            stacklevel=4,
        )
    return MinNormPoint(s, np.maximum(gaps, 0.0), levels, converged)


def _first(points: MinNormPoint) -> MinNormPoint:
    return MinNormPoint(
        points.s[0],
        float(np.asarray(points.gap)[0]),
        int(np.asarray(points.iterations)[0]),
        bool(np.asarray(points.converged)[0]),
    )


def _divide_all(
    f: SubmodularFunction,
    fields: FloatArray,
    flow: Flow | None,
    threads: int,
    limit: int | None,
) -> tuple[FloatArray, FloatArray, IntArray]:
    direct = Direct([f])

    def solve(batch: FloatArray) -> Bits:
        if flow is not None:
            return flow.maximize(_problems(batch), "min", threads, limit)[0]
        return direct.maximize(_problems(batch), "min")[0]

    s = np.empty_like(fields)
    gaps = np.empty(len(fields))
    levels = np.empty(len(fields), dtype=np.int64)
    for m, field in enumerate(fields):
        s[m], gaps[m], levels[m] = _divide(f, field, solve)
    return s, gaps, levels


def _divide(
    f: SubmodularFunction, theta: FloatArray, solve: Solver
) -> tuple[FloatArray, float, int]:
    r"""Divide and conquer on the chain of level sets (theory: Groenevelt 1991).

    The ground set is kept as an ordered partition. With everything before region R switched on and
    everything after it off, R has the level :math:`\tau=(g(L\cup R)-g(L))/|R|`, :math:`g=f-\theta`.
    If :math:`\max_{A\subseteq R}\tau|A|-g(L\cup A)+g(L)=\varepsilon_R` is 0, s is constant on R,
    else the maximiser comes before the rest of R. By uncrossing, s violates no constraint of
    :math:`B(g)` by more than :math:`\varepsilon=\sum_R\varepsilon_R`, and half its squared norm is
    a lower bound, so that the gap is at most :math:`\varepsilon(\max s-\min s)`.
    """
    n = f.n
    s = np.empty(n)
    regions, unfinished = [np.arange(n)], [True]
    violation, levels = 0.0, 0
    scale = float(np.abs(theta).sum() + np.abs(f.greedy(theta)).sum())
    while any(unfinished):
        levels += 1
        rank = places_of(np.concatenate(regions), n)
        bounds = np.cumsum([0, *(len(region) for region in regions)])
        active = np.flatnonzero(unfinished)
        gains = np.empty(len(active))
        chosen = np.empty((len(active), n), dtype=np.uint8)
        block = max(1, _BLOCK // n)
        for at in range(0, len(active), block):
            rows = active[at : at + block]
            start, stop = bounds[rows][:, None], bounds[rows + 1][:, None]
            before, upto = rank < start, rank < stop
            base = f(before) - before @ theta
            top = f(upto) - upto @ theta
            tau = (top - base) / (stop - start)[:, 0]
            inside = upto & ~before
            field = np.where(inside, theta + tau[:, None], np.where(before, np.inf, -np.inf))
            y = solve(field) & inside
            picked = before | (y == 1)
            gains[at : at + block] = tau * y.sum(axis=1) - (f(picked) - picked @ theta) + base
            chosen[at : at + block] = y
            for r, level in zip(rows, tau, strict=True):
                s[regions[r]] = level

        results = zip(gains.tolist(), chosen, strict=True)
        pieces: list[IntArray] = []
        still: list[bool] = []
        for region, active_one in zip(regions, unfinished, strict=True):
            parts = [region]
            if active_one:
                gain, y = next(results)
                first = y[region] == 1
                if gain > 1e-13 * scale and first.any() and not first.all():
                    parts = [region[first], region[~first]]
                else:
                    violation += max(0.0, gain)
            pieces += parts
            still += [len(parts) > 1] * len(parts)
        regions, unfinished = pieces, still
    return s, violation * float(np.ptp(s)), levels
