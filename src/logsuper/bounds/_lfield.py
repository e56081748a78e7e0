r"""The L-field bound, :math:`A(f)\le\min_{s\in B(f)}\sum_d\log(1+e^{-s_d})`.

Djolonga and Krause, "From MAP to marginals: variational inference in Bayesian submodular models",
NIPS 2014; the minimiser is the min-norm point of the base polytope.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, FloatArray
from logsuper.bounds._margins import extreme_gains, margin
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.solvers import Prepared, min_norm_point

# Largest number whose squares can be summed without overflow.
_LARGEST = 1e140


def log_partition(f: SubmodularFunction, *, n_jobs: int | None = None) -> Bound:
    r"""Bound log Z from above by the best modular function below f.

    Any :math:`s` gives :math:`A(f)\le\sum_d\log(1+e^{-s_d})+\max_y(s^\top y-f(y))`, and the last
    term is 0 on :math:`B(f)`: one more maximisation corrects for the error of the min-norm point.
    The gap :math:`f(\mu)-s^\top\mu` with :math:`\mu=\sigma(-s)`, f the Lovász extension, bounds
    how far the value is from the best such bound.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
    n_jobs : int, optional
        Number of threads of the solver.

    Returns
    -------
    Bound
        An upper bound; `interval` contains the L-field optimum, `details` has the ``gap``.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.bounds.lfield(ls.Cut(2, [(0, 1)]))
    <upper bound 1.386294361 by lfield, certified>
    """
    return with_point(f, n_jobs)[0]


def with_point(f: SubmodularFunction, n_jobs: int | None) -> tuple[Bound, FloatArray]:
    """Return the bound, and the marginals of its modular function."""
    solver = Prepared([f])
    s, distance, solves = _solve(f, solver, n_jobs)
    mu = expit(-s)
    modular = float(np.logaddexp(0.0, -s).sum())
    if solver.solver == "min_norm":
        # by its Taylor expansion at s, with |s - s*| at most the distance
        excess = distance * float(np.linalg.norm(mu)) + distance**2 / 8
    else:
        excess = max(0.0, float(solver.maximize(s, [1.0], n_jobs=n_jobs, tie="min")[1]))
        solves += 1
    slack = margin(f)
    gap = max(0.0, float(f.lovasz(mu) - s @ mu))
    value = modular + excess + slack
    bound = Bound(
        value,
        "upper",
        "lfield",
        certified=True,
        interval=(modular - gap - slack, value),
        solves=solves,
        details={"gap": gap, "excess": excess},
    )
    return bound, np.asarray(mu)


def marginals(f: SubmodularFunction, *, n_jobs: int | None = None) -> Marginals:
    r"""Return :math:`\sigma(-s^*)`, the gradient of the bound in a field added to -f.

    Thresholded at one half they are a mode.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.LogSupermodular(ls.Modular([0.0, 2.0])).marginals("lfield").values.round(3)
    array([0.5  , 0.119])
    """
    s, _, solves = _solve(f, Prepared([f]), n_jobs)
    return Marginals(np.asarray(expit(-s)), "lfield", solves=solves)


def too_large(f: SubmodularFunction) -> bool:
    """Return whether squares of numbers in f may overflow."""
    return not float(np.abs(extreme_gains(f)).max(initial=0.0)) < _LARGEST


def _solve(
    f: SubmodularFunction, solver: Prepared, n_jobs: int | None
) -> tuple[FloatArray, float, int]:
    """Return the min-norm point, a bound on its distance from the true one, and the solves."""
    if too_large(f):
        raise ValueError(
            f"the numbers in {f!r} are so large that the squares of the min-norm point overflow; "
            "rescale f"
        )
    point = min_norm_point(f, n_jobs=n_jobs)
    # the Fujishige-Wolfe algorithm is one minimisation, divide and conquer one per level
    solves = 1 if solver.solver == "min_norm" else int(point.iterations)
    # the gap is a difference of squared norms
    gap = max(0.0, float(point.gap)) + 8.0 * EPS * float(point.s @ point.s)
    return point.s, math.sqrt(2.0 * gap), solves
