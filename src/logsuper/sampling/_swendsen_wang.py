r"""Swendsen-Wang cluster moves with fields, for pairwise functions.

R. H. Swendsen and J.-S. Wang, "Nonuniversal critical dynamics in Monte Carlo simulations", Physical
Review Letters 58, 1987; with the auxiliary variables of R. G. Edwards and A. D. Sokal, 1988. From

.. math:: e^{-w|x_i-x_j|}=e^{-w}+(1-e^{-w})\,1[x_i=x_j],

a bond between neighbours that agree is open with probability :math:`1-e^{-w}`; a cluster C of open
bonds is then 1 with probability :math:`\sigma(\sum_{i\in C}t_i)`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array

from logsuper._base import Bits, FloatArray, Seed, as_generator, as_key, count_threads
from logsuper.bounds import need_pairwise
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import Meter, check_count
from logsuper.sampling._chains import run_chains
from logsuper.sampling._scan import Problems, Sweeps, make_scan
from logsuper.solvers import kernels, logistic_noise
from logsuper.structures import Pairwise

# Number of nodes and bonds kept in memory at a time by the NumPy implementation.
_BLOCK = 1 << 20
# Operations (about one nanosecond each) of a move per node and per bond.
_NODE, _BOND = 10.0, 5.0


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
    burn_in: int = 50,
    thin: int = 5,
    sweeps: int = 1,
    chains: int | None = None,
    start: ArrayLike | None = None,
) -> Bits:
    r"""Draw approximate samples of a pairwise model by cluster moves and heat-bath sweeps.

    Cluster moves flip whole regions, which suits priors and weak fields above the critical
    coupling, where sweeps mix slowly; sweeps suit strong fields of both signs. A step is one
    cluster move followed by some sweeps.

    Parameters
    ----------
    f : SubmodularFunction
        Pairwise.
    count : int
    meter : Meter
    seed : int, Generator or None
    n_jobs : int, optional
        Number of threads over the chains.
    burn_in : int
        Number of steps before the first sample of a chain.
    thin : int
        Number of steps between the samples of a chain.
    sweeps : int
        Number of heat-bath sweeps after each cluster move.
    chains : int, optional
        Number of chains, which provide samples in turn; by default one per sample, which makes the
        samples independent.
    start : array-like of shape (n,) or (chains, n), optional
        Initial states; independent fair coin flips by default.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Raises
    ------
    NotApplicable
        If f is not pairwise.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> fh, fv = ls.grid_cuts((16, 16))
    >>> X = sample(1.2 * fh + 1.2 * fv, 400, "swendsen_wang", seed=0)
    >>> bool(abs(X.mean() - 0.5) < 0.1)  # both phases, though sweeps alone would stay in one
    True
    """
    clusters = Clusters(need_pairwise(check_function(f), "swendsen_wang"))
    scan = make_scan(f)
    each = check_count(sweeps, "sweeps")
    threads = count_threads(n_jobs)
    rng = as_generator(seed)
    key, sweep_key = as_key(rng), as_key(rng)
    theta = scan.modular[None]

    def advance(states: Bits, first: int, steps: int) -> None:
        problems = np.arange(len(states), dtype=np.uint64)
        for step in range(first, first + steps):
            clusters.move(states, key, problems, 2 * step, threads)
            meter.spend(clusters.operations(len(states)))
            times = range(step * each, (step + 1) * each)
            between = Sweeps(sweep_key, problems, times, threads=threads)
            scan.run(states[:, None], theta, between, meter)

    def cost(own: int, steps: int) -> float:
        return steps * clusters.operations(own) + scan.operations(own, 1, steps * each)

    return run_chains(advance, f.n, count, rng, burn_in, thin, chains, start, meter, cost)


class Clusters:
    """Cluster moves on a graph; the noise of a cluster is that of its first element."""

    def __init__(self, pairwise: Pairwise) -> None:
        self._pairwise = pairwise
        # u < 1 - exp(-w) for logistic noise logit(u); log(expm1(w)) without overflow
        w = pairwise.weights
        self._threshold: FloatArray = w + np.log(-np.expm1(-w))

    def operations(self, chains: int) -> float:
        """Return the approximate number of operations (nanoseconds) of one move of the chains."""
        return chains * (_NODE * self._pairwise.n + _BOND * len(self._threshold))

    @cached_property
    def _kernel(self) -> Any:
        module = kernels()
        pairwise = self._pairwise
        return module and module.clusters(pairwise.n, pairwise.edges, self._threshold)

    def move(self, states: Bits, key: int, problems: Problems, time: int, threads: int = 1) -> None:
        """Draw the bonds at `time` and new states (B, n) at `time + 1`, in place."""
        if self._kernel is not None:
            self._kernel.move(states, self._pairwise.t[None], key, problems, time, threads)
            return
        rows = max(1, _BLOCK // (self._pairwise.n + len(self._threshold)))
        for first in range(0, len(states), rows):
            block = slice(first, first + rows)
            self._move(states[block], key, problems[block], time)

    def _move(self, states: Bits, key: int, problems: Problems, time: int) -> None:
        """Make the move in NumPy, for all problems together."""
        # slow to import and needed only here
        from scipy.sparse.csgraph import connected_components

        count, n = states.shape
        i, j = self._pairwise.edges.T
        noise = logistic_noise(key, problems, time, len(i))[:, 0]
        problem, bond = np.nonzero((states[:, i] == states[:, j]) & (noise < self._threshold))
        ends = problem * n + i[bond], problem * n + j[bond]
        graph = coo_array((np.ones(len(bond)), ends), shape=(count * n, count * n))
        _, label = connected_components(graph, directed=False)
        _, first = np.unique(label, return_index=True)
        field = np.bincount(label, np.tile(self._pairwise.t, count))
        drawn = logistic_noise(key, problems, time + 1, n)[:, 0].ravel()[first]
        states[:] = (drawn < field)[label].reshape(count, n)
