r"""Lower bounds from modular functions above f.

Djolonga and Krause, "From MAP to marginals: variational inference in Bayesian submodular models",
NIPS 2014, with the supergradients of Iyer, Jegelka and Bilmes, "Fast semidifferential-based
submodular function optimization", ICML 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray, add_up
from logsuper.bounds._margins import at_most, extreme_gains, margin
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.solvers import Prepared
from logsuper.structures import Pairwise, pairwise_of

KINDS = ("bar", "grow", "shrink")

# Maximum number of values per round of flips if flips are not local: some tenths of a second.
_AFFORDABLE = 1 << 22
# Maximum number of rounds of flips, and of elements in all rounds together: some seconds.
_ROUNDS, _LOOKS = 20, 1 << 22


def log_partition(f: SubmodularFunction, *, n_jobs: int | None = None) -> Bound:
    r"""Bound log Z from below by the best of the bounds of three supergradients.

    With a supergradient g of f at X, :math:`f(Y)\le f(X)+g(Y)-g(X)` for all Y, hence
    :math:`A(f)\ge-f(X)+\sum_{j\in X}\log(1+e^{g_j})+\sum_{j\notin X}\log(1+e^{-g_j})`. The "bar"
    supergradient finds its best X by one minimisation; "grow" and "shrink" are improved by flips,
    starting from there, from the modes, from 0 and from 1.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
    n_jobs : int, optional
        Number of threads of the solver.

    Returns
    -------
    Bound
        A lower bound; `details` has the ``kind`` of the best supergradient and the value of each.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.superdifferential(ls.Cut(2, [(0, 1)]))
    <lower bound 0.626523375 by superdifferential, certified>
    """
    return with_gradients(f, n_jobs)[0]


class _Found(NamedTuple):
    """The best point of one kind: the bound there, its supergradient and the set itself."""

    value: float
    gradient: FloatArray
    x: FloatArray


def with_gradients(f: SubmodularFunction, n_jobs: int | None) -> tuple[Bound, list[FloatArray]]:
    """Return the best bound, and the supergradients of all kinds: starts for other methods."""
    found, solves = search(f, n_jobs)
    kind = _best(found)
    bound = Bound(
        _certified(f, found[kind]),
        "lower",
        "superdifferential",
        certified=True,
        solves=solves,
        details={"kind": kind, **{name: entry.value for name, entry in found.items()}},
    )
    return bound, [entry.gradient for entry in found.values()]


def _best(found: dict[str, _Found]) -> str:
    return max(found, key=lambda kind: found[kind].value)


def _certified(f: SubmodularFunction, found: _Found) -> float:
    """Return a lower bound on the bound, whatever the rounding errors were."""
    model = pairwise_of(f)
    if model is None:
        return found.value - margin(f)
    on = found.x == 1
    cut = model.weights[found.x[model.edges[:, 0]] != found.x[model.edges[:, 1]]]
    # a gain is a sum of the weights at an element, and its field; the bound grows with +-gain
    rounded = (EPS * (model.degree + 2) + model.relative) * (model.strength + np.abs(model.t))
    gains = np.where(on, found.gradient, -found.gradient) - rounded
    entropy = np.logaddexp(0.0, gains)
    error = 4.0 * EPS * float(entropy.sum()) + model.relative * float(cut.sum()) + model.error
    return at_most([model.t[on], -cut, entropy], error)


def marginals(f: SubmodularFunction, *, n_jobs: int | None = None) -> Marginals:
    r"""Return :math:`\sigma(-g)`, the marginals of the modular function of the best bound.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.LogSupermodular(ls.Modular([0.0, 2.0])).marginals("superdifferential").values.round(3)
    array([0.5  , 0.119])
    """
    found, solves = search(f, n_jobs)
    gradient = found[_best(found)].gradient
    return Marginals(np.asarray(expit(-gradient)), "superdifferential", solves=solves)


def search(f: SubmodularFunction, n_jobs: int | None = None) -> tuple[dict[str, _Found], int]:
    """Return the best point found for each kind, and the number of solves."""
    bounds = Supergradients(f)
    solver = Prepared([f])
    # -f(X) + sum_X softplus(bottom) + sum_notX softplus(-top) is maximal for this field
    field = np.logaddexp(0.0, bounds.bottom) - np.logaddexp(0.0, -bounds.top)
    least = solver.maximize(np.stack([field, np.zeros(f.n)]), [1.0], n_jobs=n_jobs, tie="min")[0]
    largest = solver.maximize(np.zeros(f.n), [1.0], n_jobs=n_jobs, tie="max")[0]
    # the smallest mode is also where the L-field marginals exceed one half
    vertices = np.stack([*least, largest, np.zeros(f.n), np.ones(f.n)]).astype(np.float64)
    starts = np.stack([vertices[0], *{x.tobytes(): x for x in vertices[1:]}.values()])

    best: dict[str, _Found] = {}
    for kind in KINDS:
        found = bounds.values(kind, starts)
        x, value = starts[0], float(found[0])
        if kind != "bar":
            x, value = bounds.climb(kind, starts[int(found.argmax())], float(found.max()))
        best[kind] = _Found(value, bounds.gradients(kind, x[None])[0], x)
    return best, len(least) + 1


class Supergradients:
    """The supergradients of a function, by kind, and the bounds on log Z by them."""

    def __init__(self, f: SubmodularFunction) -> None:
        self.f = f
        self.top, self.bottom = extreme_gains(f)

    def gradients(self, kind: str, X: FloatArray) -> FloatArray:
        """Return the supergradient of one kind at each row of X."""
        gains = self.f.gains(X) if kind != "bar" else X
        inside = gains if kind == "shrink" else self.bottom
        outside = gains if kind == "grow" else self.top
        return np.where(X == 1, inside, outside)

    def values(self, kind: str, X: FloatArray) -> FloatArray:
        """Return the bound of one kind at each row of X."""
        g = self.gradients(kind, X)
        return np.asarray(np.logaddexp(0.0, np.where(X == 1, g, -g)).sum(axis=1) - self.f(X))

    def flips(self, kind: str, x: FloatArray) -> FloatArray | None:
        """Return the change of the bound by each single flip of x, None if that is expensive."""
        f, pairwise = self.f, pairwise_of(self.f)
        if pairwise is not None:
            return self._local_flips(pairwise, kind, x)
        if f.n * max(f.n, f._row_size()) > _AFFORDABLE:
            return None
        return self.values(kind, np.abs(x - np.eye(f.n))) - self.values(kind, x[None])

    def _local_flips(self, f: Pairwise, kind: str, x: FloatArray) -> FloatArray:
        """Return them for a pairwise function; a flip changes the gains of neighbours only."""
        i, j = np.concatenate([f.edges, f.edges[:, ::-1]]).T
        w = np.tile(f.weights, 2)
        gains = add_up(i, w * (1.0 - 2.0 * x[j]), f.n) - f.t
        on = np.logaddexp(0.0, gains if kind == "shrink" else self.bottom)
        off = np.logaddexp(0.0, -(gains if kind == "grow" else self.top))
        turn = 1.0 - 2.0 * x
        change = turn * (on - off - gains)
        # when i flips, the gain of j moves by -2 w turn_i; it counts for j outside (grow) or inside
        sign = 1.0 if kind == "shrink" else -1.0
        counts = x[j] == (1.0 if kind == "shrink" else 0.0)
        moved = gains[j] - 2.0 * w * turn[i]
        effect = np.logaddexp(0.0, sign * moved) - np.logaddexp(0.0, sign * gains[j])
        return change + add_up(i, effect * counts, f.n)

    def climb(self, kind: str, x: FloatArray, value: float) -> tuple[FloatArray, float]:
        """Improve x by flips that help on their own: all, or the best half, or quarter, ..."""
        for _ in range(min(_ROUNDS, 1 + _LOOKS // self.f.n)):
            change = self.flips(kind, x)
            if change is None:
                break
            order = np.argsort(-change, kind="stable")[: int((change > 0).sum())]
            before = value
            while len(order) and value == before:
                trial = x.copy()
                trial[order] = 1.0 - trial[order]
                found = float(self.values(kind, trial[None])[0])
                if found > value:
                    x, value = trial, found
                order = order[: len(order) // 2]
            if value <= before + 1e-7 * abs(before):
                break
        return x, value
