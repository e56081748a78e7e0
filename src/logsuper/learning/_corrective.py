r"""A small quadratic programme over a product of simplices and an orthant.

.. math:: \max_{z\ge0} b^\top z-\tfrac12z^\top Qz\quad\text{with}\quad
    \sum_{m\in g}z_m=1\ \text{for every group }g.

An active-set method in the manner of P. Wolfe, "Finding the nearest point in a polytope",
Mathematical Programming 11, 1976: it keeps a support on which the optimum is known, adds the
variable that gains most, and drops those that reach zero.
"""

from __future__ import annotations

import numpy as np

from logsuper._base import FloatArray, IntArray

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
