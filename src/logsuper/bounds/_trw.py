r"""The tree-reweighted upper bound for pairwise functions.

Wainwright, Jaakkola and Willsky, "A new class of upper bounds on the log partition function",
IEEE Transactions on Information Theory 51, 2005.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from logsuper.bounds import _lfield
from logsuper.bounds._messages import Messages
from logsuper.bounds._pairwise import Pairwise, need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.bounds._rounding import allowance
from logsuper.bounds._spanning_trees import edge_probabilities
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray, add_up

# A slack below this, relative to the value, is not worth another bound.
_CONVERGED = 1e-6


def log_partition(f: SubmodularFunction, *, n_jobs: int | None = None) -> Bound:
    r"""Bound log Z from above by a mixture of trees.

    Any messages u write the model as a product of their beliefs q and pair tables
    :math:`\tau`, :math:`e^{-f(x)}=e^C\prod_iq_i(x_i)\prod_e(\tau_e/q_iq_j)^{\rho_e}`. If
    :math:`\rho` are the edge probabilities of random forests, then by the convexity of log Z it is
    at most C plus the mean of the forests' own. At a fixed point these are normalised, with log Z =
    0; elsewhere each edge adds at most the largest log-ratio of a marginal of its table and the
    belief. The value is C plus this slack, hence valid for any messages and tight at convergence.

    Parameters
    ----------
    f : SubmodularFunction
        A pairwise function.
    n_jobs : int, optional
        Threads of the L-field bound, which takes over where the messages do not converge.

    Returns
    -------
    Bound
        An upper bound, exact on trees; `details` has the ``slack``.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._trw import log_partition
    >>> log_partition(ls.Cut(2, [(0, 1)]))
    <upper bound 1.006408868 by trw, certified>
    """
    model = need_pairwise(f, "trw")
    messages, u = _solve(model)
    value, slack = dual(messages, u)
    rounding = allowance(f)
    solves = 0
    value += slack + rounding
    if slack > _CONVERGED * (1.0 + abs(value)):
        other = _lfield.log_partition(f, n_jobs=n_jobs)
        value, solves = min(value, other.value), other.solves
    return Bound(value, "upper", "trw", certified=True, solves=solves, details={"slack": slack})


def marginals(f: SubmodularFunction) -> Marginals:
    """Return the beliefs of the tree-reweighted messages.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._trw import marginals
    >>> marginals(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0])).values.round(3)
    array([0.731, 0.607])
    """
    messages, u = _solve(need_pairwise(f, "trw"))
    return Marginals(np.asarray(expit(messages.beliefs(u))), "trw")


def _solve(model: Pairwise) -> tuple[Messages, FloatArray]:
    """Return the tree-reweighted equations and messages near their fixed point."""
    messages = Messages(model, edge_probabilities(model.n, model.edges))
    u, _ = messages.solve(np.zeros(len(messages.rho)), damping=0.5)
    return messages, u


def dual(messages: Messages, u: FloatArray) -> tuple[float, float]:
    """Return the constant C of the factorisation by the messages u, and the slack to add."""
    beliefs = messages.beliefs(u)
    off, cavity = messages.residual(u)
    count = len(u) // 2
    rho, k = messages.rho[:count], messages.coupling[:count]
    first, second = cavity[:count], cavity[count:]
    # log-partition functions of the tables exp(first x_i + second x_j - k |x_i - x_j|)
    apart = np.logaddexp(first, second) - k
    tables = np.logaddexp(np.logaddexp(0.0, first + second), apart)
    alone = 1.0 - add_up(messages.target, messages.rho, messages.n)
    constant = (alone * np.logaddexp(0.0, beliefs)).sum() + (rho * tables).sum()
    # the marginal of a table has log-odds b + r, r the residual of the message
    b = beliefs[messages.target]
    on = np.logaddexp(0.0, -b) - np.logaddexp(0.0, -b - off)
    zero = np.logaddexp(0.0, b) - np.logaddexp(0.0, b + off)
    worst = np.maximum(on, zero)
    slack = (rho * np.maximum(worst[:count], worst[count:])).sum()
    return float(constant), float(slack)
