"""Gibbs sampling: heat-bath sweeps from any initial state."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, Seed, as_generator, as_key, count_threads
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import Meter
from logsuper.sampling._chains import run_chains
from logsuper.sampling._scan import Sweeps, make_scan


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    burn_in: int = 200,
    thin: int = 10,
    chains: int | None = None,
    start: ArrayLike | None = None,
) -> Bits:
    r"""Draw approximate samples of :math:`p(x)\propto e^{-f(x)}` by heat-bath sweeps.

    Parameters
    ----------
    f : SubmodularFunction
    count : int
    meter : Meter
    seed : int, Generator or None
    n_jobs : int, optional
        Number of threads over the chains; callables use one.
    burn_in : int
        Number of sweeps before the first sample of a chain.
    thin : int
        Number of sweeps between the samples of a chain.
    chains : int, optional
        Number of chains, which provide samples in turn; by default one per sample, which makes the
        samples independent.
    start : array-like of shape (n,) or (chains, n), optional
        Initial states; independent fair coin flips by default.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.Cut(2, [(0, 1)], 1.0), 4000, "gibbs", seed=0, burn_in=20)
    >>> bool(abs((X[:, 0] != X[:, 1]).mean() - 0.269) < 0.03)
    True
    """
    scan = make_scan(check_function(f))
    threads = count_threads(n_jobs)
    rng = as_generator(seed)
    key = as_key(rng)
    theta = scan.modular[None]

    def advance(states: Bits, first: int, steps: int) -> None:
        problems = np.arange(len(states), dtype=np.uint64)
        sweeps = Sweeps(key, problems, range(first, first + steps), threads=threads)
        scan.run(states[:, None], theta, sweeps, meter)

    def cost(own: int, steps: int) -> float:
        return scan.operations(own, 1, steps)

    return run_chains(advance, f.n, count, rng, burn_in, thin, chains, start, meter, cost)
