r"""The tree-reweighted upper bound for pairwise functions.

Wainwright, Jaakkola and Willsky, "A new class of upper bounds on the log partition function",
IEEE Transactions on Information Theory 51, 2005.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, expit

from logsuper.bounds import _lfield
from logsuper.bounds._messages import Messages
from logsuper.bounds._pairwise import Pairwise, need_pairwise
from logsuper.bounds._results import Bound, Marginals
from logsuper.bounds._rounding import allowance
from logsuper.bounds._spanning_trees import best_forest, edge_probabilities
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._checks import FloatArray, add_up
from logsuper.solvers._inputs import check_integer

# A slack below this, relative to the value, is not worth another bound.
_CONVERGED = 1e-6

# Steps over the edge probabilities where the messages have Newton steps, and the sweeps of each.
_STEPS = 10
_SWEEPS = 30


def log_partition(
    f: SubmodularFunction, *, steps: int | None = None, n_jobs: int | None = None
) -> Bound:
    r"""Bound log Z from above by a mixture of trees.

    Any messages u write the model as a product of their beliefs q and pair tables
    :math:`\tau`, :math:`e^{-f(x)}=e^C\prod_iq_i(x_i)\prod_e(\tau_e/q_iq_j)^{\rho_e}`. If
    :math:`\rho` are the edge probabilities of random forests, then by the convexity of log Z it is
    at most C plus the mean of the forests' own. At a fixed point these are normalised, with log Z =
    0; elsewhere each edge adds at most the largest log-ratio of a marginal of its table and the
    belief. The value is C plus this slack, hence valid for any messages and tight at convergence.

    The probabilities start from a list of forests that prefer strong couplings, and move towards
    the forest of the greatest mutual information, the gradient of the bound (the conditional
    gradient method of the paper).

    Parameters
    ----------
    f : SubmodularFunction
        A pairwise function.
    steps : int, optional
        Steps over the edge probabilities; by default 10, and none for more than 20 000 elements.
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
    value, slack, _ = _search(need_pairwise(f, "trw"), steps)
    value += allowance(f)
    solves = 0
    if slack > _CONVERGED * (1.0 + abs(value)):
        other = _lfield.log_partition(f, n_jobs=n_jobs)
        value, solves = min(value, other.value), other.solves
    return Bound(value, "upper", "trw", certified=True, solves=solves, details={"slack": slack})


def marginals(f: SubmodularFunction, *, steps: int | None = None) -> Marginals:
    """Return the beliefs of the tree-reweighted messages.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.bounds._trw import marginals
    >>> marginals(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0])).values.round(3)
    array([0.731, 0.607])
    """
    _, _, beliefs = _search(need_pairwise(f, "trw"), steps)
    return Marginals(np.asarray(expit(beliefs)), "trw")


def _search(model: Pairwise, steps: int | None) -> tuple[float, float, FloatArray]:
    """Return the best value found, the slack in it, and its beliefs."""
    if steps is not None:
        steps = check_integer(steps, "steps", 0, 2**31)
    rho = edge_probabilities(model.n, model.edges, model.weights)
    messages = Messages(model, rho)
    u, _ = messages.solve(np.zeros(2 * len(rho)))
    best = _judge(messages, u)
    count = (_STEPS if messages.factorisable else 0) if steps is None else steps
    for step in range(count if (rho < 1.0).any() else 0):
        forest = best_forest(model.n, model.edges, _mutual_information(messages, u))
        rho = rho + (forest - rho) / (step + 6)
        messages = Messages(model, rho)
        u, _ = messages.solve(u, sweeps=_SWEEPS)
        best = min(best, _judge(messages, u), key=lambda found: found[0])
    return best


def _judge(messages: Messages, u: FloatArray) -> tuple[float, float, FloatArray]:
    """Return the bound by the messages u, the slack in it, and their beliefs."""
    constant, slack = dual(messages, u)
    return constant + slack, slack, messages.beliefs(u)


def _mutual_information(messages: Messages, u: FloatArray) -> FloatArray:
    """Return the mutual information of the pair table of each edge."""
    count = len(u) // 2
    _, cavity = messages.residual(u)
    first, second, k = cavity[:count], cavity[count:], messages.coupling[:count]
    logs = np.stack([np.zeros(count), first - k, second - k, first + second])
    logs -= np.logaddexp.reduce(logs, axis=0)
    table = np.exp(logs)
    ends = np.stack([table[1] + table[3], table[2] + table[3]])
    return np.asarray((entr(ends) + entr(1.0 - ends)).sum(axis=0) + (table * logs).sum(axis=0))


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
