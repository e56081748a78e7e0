r"""Exact inference where only a count matters: :math:`f(x)=g(\sum_{i\in C}x_i)-t^\top x`."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, IntArray, check_number
from logsuper.bounds import _large_counts
from logsuper.bounds._margins import refuse_overflow
from logsuper.bounds._needs import NotApplicable, TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.structures import structure_of

Groups = list[tuple[IntArray, FloatArray]]

BUDGET = 1e10

# Rounding error (nats) above which the sums are computed with exact costs.
_NEGLIGIBLE = 1e-10
# Operations (about one nanosecond each) per pair of an element and a count.
_PAIR = 20.0


def log_partition(f: SubmodularFunction, *, budget: float = BUDGET) -> Bound:
    r"""Return log Z by a recursion over the elements and the number of ones among them.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        Concave functions of the count of ones in a subset, or in several that do not overlap, plus
        a Modular.
    budget : float, default 1e10
        Operations (about one nanosecond each): about 10 times the squared size of each subset.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> ls.bounds.cardinality(ls.ConcaveCardinality(np.sqrt, n=1000))
    <exact 670.8522062 by cardinality, certified>
    """
    t, groups = _prepare(f, budget, passes=1)
    error = _error(t, groups)
    if error > _NEGLIGIBLE and (large := _large_counts.parts(f)) is not None:
        value, error = _large_counts.log_partition(*large)
        if not math.isfinite(value):
            refuse_overflow(f, [t, *(g for _, g in groups)])
        return Bound.exactly(value, error, "cardinality")
    terms = []
    for members, g in groups:
        for ahead in _backward(-g, t[members]):
            last = ahead
        terms.append(float(last[0]))
        t[members] = -np.inf
    return Bound.exactly(math.fsum([*terms, *np.logaddexp(0.0, t)]), error, "cardinality")


def marginals(f: SubmodularFunction, *, budget: float = BUDGET) -> Marginals:
    """Return the exact marginals; see `log_partition` for the option."""
    t, groups = _prepare(f, budget, passes=3)
    error = _error(t, groups)
    if error > _NEGLIGIBLE and (large := _large_counts.parts(f)) is not None:
        mean, error = _large_counts.marginals(*large)
    else:
        mean = expit(t)
        for members, g in groups:
            _, mean[members], _ = count_marginals(g, t[members])
    # one conditional probability per preceding element, from log-odds with twice that error
    slip = 2.0 * f.n * (error + 8.0 * EPS)
    return Marginals.exactly(mean, slip, "cardinality", absolute=8.0 * EPS * f.n)


def count_marginals(g: FloatArray, t: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    r"""Return log Z, the marginals and the distribution of the count.

    The model is :math:`p(x)\propto e^{t^\top x-g(\sum_ix_i)}`.

    Parameters
    ----------
    g : ndarray of shape (n + 1,)
        The values at 0, 1, ..., n ones.
    t : ndarray of shape (n,)

    Returns
    -------
    value : float
    mean : ndarray of shape (n,)
        :math:`P(x_i=1)`.
    count : ndarray of shape (n + 1,)
        :math:`P(\sum_ix_i=k)`.

    Examples
    --------
    >>> import numpy as np
    >>> value, mean, count = count_marginals(np.zeros(3), np.zeros(2))
    >>> round(value, 3), mean.tolist(), count.tolist()
    (1.386, [0.5, 0.5], [0.25, 0.5, 0.25])
    """
    size = len(t)
    step = max(1, math.isqrt(size))
    # keep every step-th of the sums and recompute those in between: memory size^1.5, not size^2
    stops = {}
    for m, ahead in enumerate(_backward(-g, t)):
        if m % step == 0:
            stops[size - m] = ahead
    value = float(ahead[0])
    mean = np.empty(size)
    count = np.ones(1)
    for stop in sorted(stops):
        start = len(count) - 1
        block = [*_backward(stops[stop], t[start:stop])][::-1]
        for j in range(start, stop):
            ahead = block[j - start + 1]
            # probabilities of counts are computed forwards, odds come from the backward pass
            on = count * expit(t[j] + ahead[1:] - ahead[:-1])
            mean[j] = on.sum()
            count = np.append(count - on, 0.0)
            count[1:] += on
    return value, mean, count


def _error(t: FloatArray, groups: Groups) -> float:
    """Return a bound on the rounding error of log Z, and of each partial sum.

    Each step of the recursion adds a few numbers that do not exceed the largest sum.
    """
    with np.errstate(over="ignore"):
        size = float(np.abs(t).sum()) + len(t) + sum(float(np.abs(g).max()) for _, g in groups)
    steps = max((len(members) for members, _ in groups), default=0) + 8.0
    return 4.0 * EPS * steps * size


def count_cost(size: int) -> float:
    """Return the approximate nanoseconds of log Z of `size` elements, a third of the marginals'."""
    return _PAIR * size**2 / 2.0


def operations(f: SubmodularFunction) -> float:
    """Return the approximate nanoseconds of log Z; infinity if f is of another kind."""
    parts = _parts(f)
    return math.inf if parts is None else _cost(f.n, parts[1])


def _cost(n: int, groups: Groups) -> float:
    """Return the approximate nanoseconds of log Z."""
    return n + sum(count_cost(len(members)) for members, _ in groups)


def _prepare(f: SubmodularFunction, budget: float, passes: int) -> tuple[FloatArray, Groups]:
    """Return the parts of f; raise TooLarge if they exceed the budget."""
    budget = check_number(budget, "budget")
    parts = _parts(f)
    if parts is None:
        raise NotApplicable(
            f"cardinality needs functions of counts over disjoint sets plus a Modular, got {f!r}"
        )
    cost = passes * _cost(f.n, parts[1])
    if cost > budget:
        raise TooLarge(
            f"cardinality would take {cost:.2g} operations for {f!r}; it may take {budget:.2g} "
            "(budget=)",
            cost,
        )
    t, groups = parts
    if _large_counts.parts(f) is None:
        refuse_overflow(f, [t, *(g for _, g in groups)])
    return parts


def _parts(f: SubmodularFunction) -> tuple[FloatArray, Groups] | None:
    """Return the field, and the members and g of each counted set; None if f has other terms."""
    structure = structure_of(f)
    if structure.counts is None:
        return None
    return structure.field, [(members, table[0]) for members, table in structure.counts]


def _backward(ahead: FloatArray, t: FloatArray) -> Iterator[FloatArray]:
    r"""Yield the logs of the sums over the last 0, 1, ... elements, for each count before them.

    With :math:`B_m(k)=-g(k)`, :math:`B_{j-1}(k)=\log(e^{B_j(k)}+e^{t_j+B_j(k+1)})`, without any
    cancellation.
    """
    yield ahead
    for field in t[::-1]:
        ahead = np.logaddexp(ahead[:-1], field + ahead[1:])
        yield ahead
