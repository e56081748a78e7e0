r"""Mean field: :math:`A(f)\ge\max_q H(q)-\mathbb{E}_qf` over independent elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from logsuper._base import (
    EPS,
    FloatArray,
    IntArray,
    check_integer,
    check_number,
    check_probabilities,
)
from logsuper.bounds import _lfield, _superdifferential
from logsuper.bounds._margins import at_most, extreme_gains, margin
from logsuper.bounds._needs import NotApplicable
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction, combine
from logsuper.solvers import kernels, maximize
from logsuper.structures import pairwise_of, structure_of

# Distance below which two stationary points count as equal: the difference of their bounds is of
# third order in it.
_SAME = 1e-3


def log_partition(
    f: SubmodularFunction,
    *,
    starts: ArrayLike | str = "auto",
    tol: float = 1e-10,
    max_iter: int = 1000,
) -> Bound:
    r"""Bound log Z from below by the best product distribution that is found.

    For submodular f the update :math:`q_d\leftarrow\sigma(-\mathbb{E}_qf(d\mid\cdot))` of all
    elements is monotone in q: from all zeros and from all ones it converges to the smallest and the
    largest fixed point. If these agree, there is no other.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        With a closed form for its multilinear extension.
    starts : "auto" or array-like of shape (n,) or (M, n)
        Probabilities to start from; by default several, among them the modes, the L-field and the
        supergradients.
    tol : float
        A search stops when a sweep improves its value by less than this, relative to 1 + value.
    max_iter : int
        Maximum number of sweeps over all elements per start.

    Returns
    -------
    Bound
        A lower bound, whether the search has converged or not.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.mean_field(ls.Cut(2, [(0, 1)]))
    <lower bound 0.8862943611 by mean_field, certified>
    """
    _, logits, solves, sweeps = search(f, starts, tol, max_iter)
    value, details = certified(f, logits), {"sweeps": sweeps}
    return Bound(value, "lower", "mean_field", certified=True, solves=solves, details=details)


def marginals(
    f: SubmodularFunction,
    *,
    starts: ArrayLike | str = "auto",
    tol: float = 1e-10,
    max_iter: int = 1000,
) -> Marginals:
    """Return the probabilities of the best product distribution.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.LogSupermodular(ls.Modular([0.0, 2.0])).marginals("mean_field").values.round(3)
    array([0.5  , 0.119])
    """
    _, logits, solves, sweeps = search(f, starts, tol, max_iter)
    q = np.asarray(expit(logits))
    return Marginals(q, "mean_field", solves=solves, details={"sweeps": sweeps})


def certified(f: SubmodularFunction, logits: FloatArray) -> float:
    """Return a lower bound on the exact value of the bound at these logits."""
    model = pairwise_of(f)
    if model is None:
        return float(_objective(_closed(f), logits[None])[0][0]) - margin(f)
    i, j = model.edges.T
    q, p, size = expit(logits), expit(-logits), np.abs(logits)
    less = np.minimum(q, p)
    entropy = np.logaddexp(0.0, -size) + size * less
    cut = model.weights * (q[i] * p[j] + q[j] * p[i])
    # the field of an element that is mostly on is split into all of it, exact, minus the rest
    field = np.where(q > 0.5, -model.t, model.t) * less
    terms = [entropy, field, -cut]
    error = sum(float(np.abs(term).sum()) for term in terms)
    return at_most(
        [model.t[q > 0.5], *terms],
        16.0 * EPS * error + model.relative * float(cut.sum()) + model.error,
    )


def search(
    f: SubmodularFunction,
    starts: ArrayLike | str = "auto",
    tol: float = 1e-10,
    max_iter: int = 1000,
    inner: tuple[FloatArray, int] | None = None,
) -> tuple[float, FloatArray, int, int]:
    """Return the best value, its logits, and the number of solves and of sweeps.

    `inner` are the logits of starts between the extremes and the number of their solves, if known.
    """
    if check_number(tol, "tol") < 0:
        raise ValueError(f"tol must be at least 0, got {tol!r}")
    check_integer(max_iter, "max_iter", 1, 2**31)
    given = None if isinstance(starts, str) else _as_logits(starts, f.n)
    if given is None and starts != "auto":
        raise ValueError(f'starts must be "auto" or probabilities, got {starts!r}')
    g = _closed(f)
    # by default one update from all zeros and from all ones, which never needs a smaller step
    first = -np.stack(extreme_gains(f)) if given is None else given
    values, logits, sweeps = _ascend(g, first, tol, max_iter)
    solves = 0
    if given is None and np.abs(np.diff(expit(logits), axis=0)).max() > _SAME:
        more, solves = inner or _inner_starts(f)
        found = _ascend(g, more, tol, max_iter)
        values = np.concatenate([values, found[0]])
        logits, sweeps = np.concatenate([logits, found[1]]), sweeps + found[2]
    best = int(values.argmax())
    return float(values[best]), logits[best], solves, sweeps


def _inner_starts(f: SubmodularFunction) -> tuple[FloatArray, int]:
    """Return logits between the extremes, and the number of solves for them."""
    found, solves = _superdifferential.search(f)
    q = None
    if not _lfield.too_large(f):
        fields = _lfield.marginals(f)
        q, solves = fields.values, solves + fields.solves
    starts, more = inner_starts(f, [best.gradient for best in found.values()], q)
    return starts, more + solves


def inner_starts(
    f: SubmodularFunction, gradients: list[FloatArray], q: FloatArray | None = None
) -> tuple[FloatArray, int]:
    """Return logits to start from, given supergradients and the marginals of the L-field."""
    modes = [maximize(f, np.zeros(f.n), tie=tie)[0] for tie in ("min", "max")]
    top, bottom = extreme_gains(f)
    logits = [
        np.zeros(f.n),
        -(top + bottom) / 2,  # the field of a cut
        *-f.gains(np.stack(modes)),
        *(-g for g in gradients),
        *([] if q is None else _as_logits(q, f.n)),
    ]
    return np.stack(logits), len(modes)


def _as_logits(q: Any, n: int) -> FloatArray:
    """Return logits of probabilities (n,) or (M, n), finite for 0 and 1 too."""
    rows = check_probabilities(q, n, "starts").reshape(-1, n)
    if len(rows) == 0:
        raise ValueError("starts must hold at least one row of probabilities")
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(rows, tiny)) - np.log(np.maximum(1.0 - rows, tiny))


def _closed(f: SubmodularFunction) -> SubmodularFunction:
    """Return f in a form whose expectation has a closed form; raise NotApplicable if it has none.

    Functions and terms that are pairwise are replaced by their normal form.
    """
    model = pairwise_of(f)
    if model is not None:
        return model.as_function()
    terms = []
    for weight, atom in f.terms():
        if atom._multilinear(np.zeros((0, f.n))) is None:
            model = pairwise_of(atom)
            if model is None:
                raise NotApplicable(
                    f"mean_field needs a function whose expectation has a closed form, got {atom!r}"
                )
            atom = model.as_function()
        terms.append((weight, atom))
    return combine(terms)


def _objective(f: SubmodularFunction, logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bound at each row of logits, and the logits that one update would give."""
    found = f._multilinear(expit(logits))
    assert found is not None
    size = np.abs(logits)
    entropy = np.logaddexp(0.0, -size) + size * expit(-size)
    return entropy.sum(axis=1) - found[0], -found[1]


def _ascend(
    f: SubmodularFunction, logits: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Climb from every row at once; return the values, the logits and the number of sweeps."""
    native, pairs = kernels(), _pairs(f)
    if native is None or pairs is None:
        return _ascend_together(f, logits, tol, max_iter)
    logits, values = np.array(logits, order="C"), np.empty(len(logits))
    sweeps: int = native.mean_field(*pairs, max_iter, tol, logits, values)
    return values, logits, sweeps


def _pairs(f: SubmodularFunction) -> tuple[FloatArray, IntArray, FloatArray] | None:
    """Return the field, edges (with repetitions) and weights of cuts; None for other functions."""
    structure = structure_of(f)
    return None if structure.others else (structure.field, *structure.listed)


def _ascend_together(
    f: SubmodularFunction, logits: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, int]:
    """Climb like `_ascend`, for any function.

    All elements move together, towards their updates in the logits: the natural gradient of the
    bound. If the bound of a row would decrease, its step is halved.
    """
    logits = logits.copy()
    values, updates = _objective(f, logits)
    updates = updates.copy()
    steps = np.ones(len(logits))
    active = np.arange(len(logits))
    sweeps = 0
    while len(active) and sweeps < max_iter:
        sweeps += 1
        old = logits[active]
        trial = old + steps[active, None] * (updates[active] - old)
        found, onward = _objective(f, trial)
        change = found - values[active]
        small = np.abs(change) <= tol * (1.0 + np.abs(found))
        better = change >= 0
        rows = active[better]
        values[rows], logits[rows], updates[rows] = found[better], trial[better], onward[better]
        steps[active] = np.where(better, np.minimum(1.0, 2.0 * steps[active]), steps[active] / 2)
        active = active[~small]
    return values, logits, sweeps
