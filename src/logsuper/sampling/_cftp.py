"""Coupling from the past: exact samples of any log-supermodular model.

J. G. Propp and D. B. Wilson, "Exact sampling with coupled Markov chains and applications to
statistical mechanics", Random Structures and Algorithms 9, 1996.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, FloatArray, Seed, as_key, count_threads, refuse
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import BUDGET, Callback, Meter, check_count
from logsuper.sampling._scan import GenericScan, Problems, Scan, Sweeps, make_scan
from logsuper.solvers import check_theta

# From this number of sweeps on, one sample is finished first: if it fails, others are not tried.
_HARD = 256
# Total number of elements of the samples that are drawn at a time.
_HELD = 1 << 25


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_iter: int = 2**13,
) -> Bits:
    r"""Draw independent exact samples of :math:`p(x)\propto e^{-f(x)}`.

    Two chains, started from all 0 and from all 1 and driven by the same noise, enclose every other
    chain. They start T = 1, 2, 4, ... sweeps in the past, always with the same noise at the same
    time; if they are equal at time 0, their common state is an exact sample.

    Parameters
    ----------
    f : SubmodularFunction
        Grids are fastest, then other pairwise functions, then functions whose gains are known in
        closed form; a Python callable costs n evaluations per sweep and chain.
    count : int
    meter : Meter
        The number of sweeps is not doubled further if that would exceed the budget.
    seed : int, Generator or None
    n_jobs : int, optional
        Number of threads over the samples; callables use one.
    max_iter : int
        Maximum number T of sweeps.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Raises
    ------
    NotCoalesced
        If a sample needs more sweeps than `max_iter` or the budget allow. Leaving it out would
        bias the samples.
    TooLarge
        If one sweep per sample exceeds the budget.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.LogDet([[1.0, 0.5], [0.5, 1.0]]), 4000, "cftp", seed=0)
    >>> both = X.all(axis=1).mean()  # 4/3 of (1 + 1 + 1 + 4/3)
    >>> bool(abs(both - 4 / 13) < 0.03)
    True
    """
    total, cap = check_count(count), check_count(max_iter, "max_iter", 1)
    scan = make_scan(check_function(f))
    threads = count_threads(n_jobs)
    return couple(scan, scan.modular[None], as_key(seed), total, cap, threads, meter)


def sample_fields(
    f: SubmodularFunction,
    theta: ArrayLike,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    max_iter: int = 2**13,
    budget: float = BUDGET,
    callback: Callback | None = None,
) -> Bits:
    r"""Draw one exact sample of :math:`p(x)\propto e^{\theta_m^\top x-f(x)}` per field.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array-like of shape (M, n)
        Finite fields, for instance of the posteriors of many images under one prior.
    seed, n_jobs, max_iter, budget, callback
        As for the sampler "cftp".

    Returns
    -------
    ndarray of shape (M, n), uint8

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample_fields
    >>> fh, fv = ls.grid_cuts((2, 3))
    >>> theta = np.array([[50.0] * 6, [-50.0] * 6])
    >>> sample_fields(fh + fv, theta, seed=0)
    array([[1, 1, 1, 1, 1, 1],
           [0, 0, 0, 0, 0, 0]], dtype=uint8)
    """
    fields, _ = check_theta(theta, check_function(f).n)
    refuse(np.isinf(fields), fields, "theta", "fix an element with f.condition instead")
    cap = check_count(max_iter, "max_iter", 1)
    threads = count_threads(n_jobs)
    meter = Meter("cftp", budget, callback, len(fields))
    key = as_key(seed)
    if f.n == 0:
        return np.empty(fields.shape, dtype=np.uint8)
    scan = make_scan(f)
    drawn = couple(scan, fields + scan.modular, key, len(fields), cap, threads, meter)
    meter.report()
    return drawn


def couple(
    scan: Scan,
    theta: FloatArray,
    key: int,
    count: int,
    max_iter: int,
    threads: int,
    meter: Meter,
) -> Bits:
    """Return one exact sample per problem 0, ..., count - 1; theta has one row or `count`."""
    meter.require(scan.operations(count, 2, 1), f"{count} samples of {scan.n} elements")
    out = np.empty((count, scan.n), dtype=np.uint8)

    def stuck(sweeps: int, differing: int, budget: float | None = None) -> NotCoalesced:
        pairwise = not isinstance(scan, GenericScan)
        return NotCoalesced(sweeps, differing, scan.n, budget, pairwise=pairwise)

    def finish(problems: Problems, reached: int, differing: int) -> None:
        """Write the samples of the given problems, which `reached` sweeps did not finish.

        `differing` is the largest number of elements on which two chains differed then.
        """
        while len(problems):
            sweeps = max(1, 2 * reached)
            if sweeps == _HARD and len(problems) > 1:
                finish(problems[:1], reached, differing)
                problems = problems[1:]
            sweeps = min(sweeps, max_iter)
            cost = scan.operations(len(problems), 2, sweeps)
            if not meter.affords(cost):
                raise stuck(reached, differing, meter.budget)
            meter.plan(cost)
            past = Sweeps(key, problems, range(sweeps - 1, -1, -1), threads=threads)
            states = coupled_states(scan, theta, past, meter)
            apart = (states[:, 0] != states[:, 1]).sum(axis=1)
            out[problems[apart == 0]] = states[apart == 0, 0]
            meter.spend(0.0, samples=int((apart == 0).sum()))
            problems, differing, reached = problems[apart > 0], int(apart.max()), sweeps
            if len(problems) and sweeps == max_iter:
                raise stuck(sweeps, differing)

    step = max(threads, _HELD // scan.n)
    for first in range(0, count, step):
        finish(np.arange(first, min(count, first + step), dtype=np.uint64), 0, scan.n)
    return out


def coupled_states(
    scan: Scan, theta: FloatArray, sweeps: Sweeps, meter: Meter | None = None
) -> Bits:
    """Return the final states of the chains from all 0 and from all 1, shape (B, 2, n)."""
    states = np.empty((len(sweeps.problems), 2, scan.n), dtype=np.uint8)
    states[:, 0], states[:, 1] = 0, 1
    scan.run(states, theta if len(theta) == 1 else theta[sweeps.problems], sweeps, meter)
    return states


class NotCoalesced(RuntimeError):
    """Coupling from the past did not finish within its limit; the message says what to do.

    Attributes
    ----------
    sweeps : int
        Number of sweeps that were tried.
    differing : int
        Number of elements on which the two chains of the worst sample still differ.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import NotCoalesced, sample
    >>> try:
    ...     sample(ls.Cut(2, [(0, 1)], 40.0), 1, "cftp", seed=0, max_iter=64)
    ... except NotCoalesced as error:
    ...     print(error.sweeps, error.differing)
    64 2
    """

    def __init__(
        self, sweeps: int, differing: int, n: int, budget: float | None = None, *, pairwise: bool
    ) -> None:
        limit = "max_iter" if budget is None else "budget"
        cap = f"{sweeps}" if budget is None else f"{budget:.2g} operations, after {sweeps} sweeps"
        instead = (
            "the approximate samplers 'swendsen_wang' or 'gibbs', or ask for marginals: by "
            "'strips' on a grid, or coupled_marginals"
            if pairwise
            else "the approximate sampler 'gibbs', or ask for marginals: coupled_marginals"
        )
        super().__init__(
            f"coupling from the past did not coalesce within {limit} = {cap}: {differing} of "
            f"{n} elements still differ. Raise {limit} and keep the seed (trying other seeds "
            f"until one succeeds favours easy samples), use {instead}, which needs no coalescence"
        )
        self.sweeps = sweeps
        self.differing = differing
