r"""Frank-Wolfe with a certified gap, for losses that are means of maxima of linear functions.

.. math:: \min_{\theta\ge\ell}\ \tfrac12\sum_p\lambda_p(\theta_p-c_p)^2
    +\frac1J\sum_j\max_y\theta^\top(\varphi_j(y)-\varphi_j(x_j))+l_j(y)

With fixed perturbations :math:`l_j(y)=z_j^\top y` this is the sample average of the logistic
objective (eq. 5), with :math:`l_j(y)=\sum_d\omega_d|y_d-x_{jd}|` the structured support vector
machine. The dual is a quadratic over a product of polytopes, one per block of terms j, and a step
of Frank-Wolfe on a block is one batch of maximisations (S. Lacoste-Julien, M. Jaggi, M. Schmidt and
P. Pletscher, "Block-coordinate Frank-Wolfe optimization for structural SVMs", 2013). Maximisations
are cheap here, so steps are fully corrective: all vertices found are kept, as planes below the loss
of their block, and the dual is solved over their hull, as in T. Joachims, T. Finley and C.-N. Yu,
"Cutting-plane training of structural SVMs", 2009. The best point and the dual value certify each
other; the optimal weights of the planes are the convex combination of maximisers whose moments
match those of the data.

The corrective step is a small quadratic programme over a product of simplices and an orthant,

.. math:: \max_{z\ge0} b^\top z-\tfrac12z^\top Qz\quad\text{with}\quad
    \sum_{m\in g}z_m=1\ \text{for every group }g,

by an active-set method in the manner of P. Wolfe, "Finding the nearest point in a polytope",
Mathematical Programming 11, 1976: it keeps a support on which the optimum is known, adds the
variable that gains most, and drops those that reach zero.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    IntArray,
    Seed,
    as_key,
    check_callback,
    check_integer,
)
from logsuper.learning._engines import KeptNoise
from logsuper.learning._examples import Examples
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._objective import Loss, Objective, Penalty, check_problem
from logsuper.learning._smooth import check_start, check_tol
from logsuper.solvers import one_blas_thread

# A plane that has been inactive at the optimum for this number of rounds is dropped.
_IDLE = 20
# The next point lies between the best so far and the optimum over the planes, which alone would
# oscillate while there are few planes.
_STRIDES = (0.5, 1.0)


def saa(
    examples: Examples,
    penalty: Penalty,
    *,
    n_samples: int = 10,
    seed: Seed = 0,
    n_jobs: int | None = None,
    max_iter: int = 500,
    **options: Any,
) -> Learned:
    r"""Maximise the sample average of the logistic likelihood, to a certified gap.

    Each example has its own fixed perturbations, a Latin hypercube. Examples without observations,
    features and factors on edges share them.

    Parameters
    ----------
    examples : Examples
        With a label for every pixel.
    penalty : Penalty
        With a positive weight for every parameter.
    n_samples : int, default 10
        Perturbations of each example.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; the result does not depend on them.
    max_iter : int, default 500
        Rounds after which a `ConvergenceWarning` is given.

    Other Parameters
    ----------------
    start : ndarray of shape (P,), optional
        Where to begin.
    callback : callable, optional
        Called with every line of the history.
    tol : float, default 1e-3
        Certified distance to the optimum, relative to the objective.
    blocks : int, default 5
        Parts of the examples, each with its own planes: more parts need fewer rounds, but more
        memory and time for the quadratic programme.

    Returns
    -------
    Learned
        Its details: ``dual``, the certified lower bound on the objective; ``moments``, the convex
        combination :math:`\sum_m\xi_m(\varphi(y_m)-\varphi(x))` of maximisers; ``residual``, by
        how much these violate the optimality condition
        :math:`\lambda(\theta-c)+\mathrm{moments}\ge0`, with equality where :math:`\theta` is not at
        its bound; ``slack``, how far on average the :math:`y_m` are from being maximisers; and
        ``planes``, how many were used.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, saa
    >>> x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), modular="shared"
    ... )
    >>> found = saa(data, Penalty.of(data.layout, alpha=0.1, modular=0.1), tol=1e-6)
    >>> found.converged, found.history[-1].gap < 1e-6 * found.history[-1].objective
    (True, True)
    """
    check_problem(examples, penalty)
    refuse_missing_labels(examples, "saa")
    count = check_integer(n_samples, "n_samples", 1, 2**31)
    engine = KeptNoise(count, as_key(seed), n_jobs)
    objective = Objective.supervised(examples, engine)
    return minimize(objective, penalty, name="saa", max_iter=max_iter, **options)


def minimize(
    objective: Objective,
    penalty: Penalty,
    *,
    name: str,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    blocks: int = 5,
) -> Learned:
    r"""Minimise a convex, piecewise linear loss plus a strongly convex penalty.

    Parameters
    ----------
    objective : Objective
    penalty : Penalty
    name : str
        Of the learner, for messages.
    start, callback, tol, max_iter, blocks
        As for `saa`.

    Returns
    -------
    Learned
        With the details that `saa` lists.
    """
    examples = objective.examples
    for kind, where in examples.layout.blocks.items():
        if (penalty.weights[where] <= 0).any():  # the dual would have no solution
            raise ValueError(
                f"{name} needs a positive penalty on every parameter, but that of {kind} is 0; "
                "1e-6 is positive"
            )
    accuracy = check_tol(tol)
    check_callback(callback)
    rounds = check_integer(max_iter, "max_iter", 1, 2**31)
    most = check_integer(blocks, "blocks", 1, 2**31)
    theta = check_start(start, examples.layout)
    parts = np.array_split(
        np.arange(examples.count), 1 if objective.alike else min(most, examples.count)
    )
    shares = np.array([len(part) for part in parts]) / examples.count
    planes = _Planes(penalty, examples.layout.lower, len(parts))
    best, least, cuts = theta, np.inf, 0
    history, pulse = list[Record](), Pulse(callback)
    for step in range(1, rounds + 1):
        losses = [objective.loss(theta, part) for part in parts]
        cuts += sum(loss.cuts for loss in losses)
        mean = float(shares @ [loss.value for loss in losses])
        if not np.isfinite(mean):
            raise ValueError(
                f"{name} met a loss of {mean}: a channel that leaves no doubt has infinite "
                "log-odds, and cannot be learned from"
            )
        value = penalty.value(theta) + mean
        if value < least:
            best, least, attained = theta, value, mean
        with one_blas_thread():
            planes.add(theta, losses, shares)
            planes.solve()
        history.append(Record(step, cuts, least, gap=max(0.0, least - planes.dual)))
        pulse(history[-1])
        # an objective of 0 is possible: labels that all margins and the penalty's centre suit
        converged = history[-1].gap <= accuracy * max(abs(least), 1e-9)
        if converged:
            break
        theta = best + _STRIDES[step % len(_STRIDES)] * (planes.theta - best)
    if not converged:
        warnings.warn(
            f"{name} left a gap of {history[-1].gap:.2g} to the optimum of {least:.6g} after "
            f"{rounds} rounds; raise max_iter, tol or the penalty",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Learned.of(examples, best, converged, history, **planes.certificate(best, attained))


def refuse_missing_labels(examples: Examples, name: str) -> None:
    """Raise unless every pixel of every example has a label."""
    if not examples.labelled:
        raise ValueError(
            f"{name} needs a label for every pixel; learn from partial labels with 'logistic', "
            "from observations alone with 'moments' or 'latent'"
        )


class _Planes:
    r"""Linear lower bounds on the loss of each block, and the minimum of penalty plus planes.

    Plane m of block g says :math:`L_g(\theta)\ge a_m+d_m^\top\theta`. Its dual weights are
    :math:`\xi_m`, which sum to one over a block; the minimiser is
    :math:`\theta=\max(\ell,\,c-\Lambda^{-1}\sum_m\xi_md_m)`. The multipliers of the bounds
    :math:`\ell=0` are dual variables too: the first rows, :math:`d=-e_p`.
    """

    def __init__(self, penalty: Penalty, lower: FloatArray, blocks: int) -> None:
        bounds = np.flatnonzero(np.isfinite(lower))
        self.penalty, self.lower, self.blocks = penalty, lower, blocks
        self.root = np.sqrt(penalty.weights)
        self.rows = np.zeros((len(bounds), len(lower)))  # d / sqrt(lambda)
        self.rows[np.arange(len(bounds)), bounds] = -1.0 / self.root[bounds]
        self.offsets = np.zeros(len(bounds))  # a
        self.owner = np.full(len(bounds), FREE)
        self.weights = np.zeros(len(bounds))
        self.idle = np.zeros(len(bounds), dtype=np.int64)
        self.gram = self.rows @ self.rows.T
        self.theta = penalty.center
        self.dual = -np.inf
        self.best = np.zeros(len(lower)), 0.0

    def add(self, theta: FloatArray, losses: list[Loss], shares: FloatArray) -> None:
        """Add the planes that touch the losses of all blocks at a point."""
        slopes = np.array([loss.gradient for loss in losses]) * shares[:, None]
        values = shares * [loss.value for loss in losses]
        rows = slopes / self.root
        corner = self.rows @ rows.T
        self.gram = np.block([[self.gram, corner], [corner.T, rows @ rows.T]])
        first = len(self.offsets) == np.count_nonzero(self.owner == FREE)
        self.rows = np.concatenate([self.rows, rows])
        self.offsets = np.append(self.offsets, values - slopes @ theta)
        self.owner = np.append(self.owner, np.arange(self.blocks))
        self.weights = np.append(self.weights, np.full(self.blocks, float(first)))
        self.idle = np.append(self.idle, np.zeros(self.blocks, dtype=np.int64))

    def solve(self) -> None:
        """Find the optimal weights, and drop planes that have been idle for long."""
        heights = self.offsets + self.rows @ (self.root * self.penalty.center)
        self.weights = maximize(self.gram, heights, self.owner, self.weights)
        planes = self.owner != FREE
        moments = self.root * (self.weights[planes] @ self.rows[planes])
        offset = float(self.weights[planes] @ self.offsets[planes])
        shift = moments / self.penalty.weights
        self.theta = np.maximum(self.penalty.center - shift, self.lower)
        # the minimum of penalty + offset + moments'theta: a lower bound for any weights
        dual = self.penalty.value(self.theta) + offset + float(moments @ self.theta)
        if dual > self.dual:
            self.dual, self.best = dual, (moments, offset)
        self.idle = np.where(self.weights > 0, 0, self.idle + 1)
        kept = ~planes | (self.idle < _IDLE)
        if not kept.all():
            for name in ("rows", "offsets", "owner", "weights", "idle"):
                setattr(self, name, getattr(self, name)[kept])
            self.gram = self.gram[np.ix_(kept, kept)]

    def certificate(self, theta: FloatArray, loss: float) -> dict[str, Any]:
        """Return how well a point and the convex combination of maximisers fit each other."""
        moments, offset = self.best
        balance = self.penalty.gradient(theta) + moments
        balance = np.where(theta <= self.lower, np.minimum(balance, 0.0), balance)
        return {
            "dual": self.dual,
            "moments": moments,
            "residual": float(np.abs(balance).max(initial=0.0)),
            "slack": loss - offset - float(moments @ theta),
            "planes": int(np.count_nonzero(self.owner != FREE)),
        }


FREE = -1
"""The group of variables that are in no simplex, only nonnegative."""

# Added to the diagonal, relative to the largest entry: supports may be affinely dependent.
_RIDGE = 1e-13
# A variable enters the support if it gains more than this, relative to the value.
_TOL = 1e-12


def maximize(Q: FloatArray, b: FloatArray, owner: IntArray, z: FloatArray) -> FloatArray:
    """Return the maximiser, starting from a feasible z.

    Parameters
    ----------
    Q : ndarray of shape (m, m)
        Symmetric and positive semidefinite.
    b : ndarray of shape (m,)
    owner : ndarray of shape (m,)
        The group 0, 1, ... of each variable, or `FREE`.
    z : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (m,)
        Feasible also where rounding, or the limit of 20 m + 100 rounds, ends the search early.
    """
    groups = int(owner.max()) + 1
    members = (owner[:, None] == np.arange(groups)).astype(np.float64)
    support = z > 0
    for _ in range(20 * len(b) + 100):
        target, level = _stationary(Q, b, members, support)
        if (target[support] > 0).all():
            z = target
            gain = b - Q @ z - members @ level
            gain[support] = -np.inf
            best = int(gain.argmax())
            if gain[best] <= _TOL * max(1.0, abs(float(b @ z))):
                break
            support = support.copy()
            support[best] = True
        else:  # go as far as all stay nonnegative, and drop those that become 0
            falling = np.flatnonzero(support & (target <= 0))
            if (z[falling] == 0).any():  # the new variable decreases: rounding, not ascent
                break
            reach = z[falling] / (z[falling] - target[falling])
            z = np.maximum(z + reach.min() * (target - z), 0.0)
            z[falling[reach == reach.min()]] = 0.0
            support = z > 0
    total = members.T @ z
    return z / np.where(owner == FREE, 1.0, (members @ total))


def _stationary(
    Q: FloatArray, b: FloatArray, members: FloatArray, support: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """Return the optimum without signs on a support, and the multiplier of each group."""
    index = np.flatnonzero(support)
    size, groups = len(index), members.shape[1]
    scale = float(np.diagonal(Q).max()) or float(np.abs(b).max()) or 1.0
    kkt = np.zeros((size + groups, size + groups))
    kkt[:size, :size] = Q[np.ix_(index, index)]
    kkt[np.arange(size), np.arange(size)] += _RIDGE * scale
    # multipliers in units of Q, to keep the condition number small
    kkt[:size, size:] = scale * members[index]
    kkt[size:, :size] = scale * members[index].T
    found = np.linalg.solve(kkt, np.concatenate([b[index], np.full(groups, scale)]))
    z = np.zeros(len(b))
    z[index] = found[:size]
    return z, scale * found[size:]
