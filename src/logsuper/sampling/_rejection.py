r"""Rejection sampling with the L-field as proposal: exact, and efficient if the L-field is tight.

For s in the base polytope, :math:`s^\top x\le f(x)`. Hence samples of the product distribution with
odds :math:`e^{-s_d}`, accepted with probability :math:`e^{s^\top x-f(x)}`, follow
:math:`p\propto e^{-f}`. The min-norm point has the highest acceptance probability,
:math:`e^{A-A_L}` (the L-field minimises the largest ratio, Djolonga and Krause 2015).
"""

from __future__ import annotations

import numpy as np

from logsuper._base import Bits, Seed, as_key
from logsuper.bounds import TooLarge
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import PIECE, Meter, check_count
from logsuper.solvers import logistic_noise, min_norm_point

# Float64 numbers per batch of proposals.
_BLOCK = 1 << 20
# Operations (about one nanosecond each) per element, and per operation of f, of a proposal.
_NUMBER = 6.0


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_iter: int = 10**6,
) -> Bits:
    r"""Draw independent exact samples of :math:`p(x)\propto e^{-f(x)}` by rejection.

    Parameters
    ----------
    f : SubmodularFunction
        Weakly coupled, or small: the acceptance probability falls exponentially with n.
    count : int
    meter : Meter
        Counts proposals, not the min-norm point that is computed first.
    seed : int, Generator or None
    n_jobs : int, optional
        Number of threads of the min-norm point.
    max_iter : int
        Maximum number of proposals.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Raises
    ------
    TooLarge
        If too few proposals are accepted within `max_iter` or the budget.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.Cut(2, [(0, 1)], 1.0), 4000, "rejection", seed=0)
    >>> bool(abs((X[:, 0] != X[:, 1]).mean() - 0.269) < 0.03)
    True
    """
    total, cap = check_count(count), check_count(max_iter, "max_iter", 1)
    key = as_key(seed)
    cost = _NUMBER * (check_function(f).n + f._row_cost())
    meter.require(total * cost, f"{total} samples of {f!r}")
    s = min_norm_point(check_function(f), n_jobs=n_jobs).s
    found: list[Bits] = []
    have = tries = 0
    while have < total:
        if tries == cap:
            raise TooLarge(
                f"rejection accepted {have} of {tries} tries, and {total} samples were asked for; "
                "raise max_iter, or use 'cftp'",
                tries * total / max(1, have),
            )
        size = max(1, min(cap - tries, 2 * total, _BLOCK // (f.n + 1), int(PIECE / cost)))
        if not meter.affords(size * cost):
            raise TooLarge(
                f"rejection accepted {have} of {tries} tries, and {total} samples were asked for; "
                f"more would exceed budget = {meter.budget:.2g} operations: raise it, or use "
                "'cftp'",
                tries * cost * total / max(1, have),
            )
        meter.plan(size * cost)
        noise = logistic_noise(key, range(tries, tries + size), 0, f.n + 1)[:, 0]
        X = (noise[:, :-1] < -s).astype(np.uint8)
        log_u = -np.logaddexp(0.0, -noise[:, -1])
        found.append(X[log_u < X @ s - f(X)])
        meter.spend(size * cost, samples=min(len(found[-1]), total - have))
        have += len(found[-1])
        tries += size
    return np.concatenate([*found, np.empty((0, f.n), dtype=np.uint8)])[:total]
