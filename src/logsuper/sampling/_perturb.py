"""Perturb-and-MAP: maximisers under logistic noise as approximate samples."""

from __future__ import annotations

import numpy as np

from logsuper._base import Bits, Seed, as_key, count_threads
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import PIECE, Meter, check_count
from logsuper.solvers import prepare

# Minimum operations (about one nanosecond each) of a minimisation, per elementary operation of an
# evaluation of f: by max-flow or sorting; and by the min-norm point, per element in addition.
_SOLVE, _MIN_NORM = 10.0, 6.0


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bits:
    r"""Draw maximisers of :math:`z^\top y-f(y)` under standard logistic noise z.

    This is an approximation: the maximisers follow the perturb-and-MAP model of Papandreou and
    Yuille (2011), which equals :math:`p\propto e^{-f}` only for modular f. Elements agree more
    often: the ends of a single edge of weight w differ with probability :math:`2\sigma(-w)^2`
    instead of :math:`\sigma(-w)`. Each sample takes one submodular minimisation, for any coupling.

    Parameters
    ----------
    f : SubmodularFunction
    count : int
    meter : Meter
        A callback is called between minimisations.
    seed : int, Generator or None
    n_jobs : int, optional
        Number of threads over the samples, if max-flow solves them.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.Cut(2, [(0, 1)], 1.0), 20_000, "perturb", seed=0)
    >>> bool(abs((X[:, 0] != X[:, 1]).mean() - 0.1447) < 0.01)  # the model itself: 0.269
    True
    """
    total, key = check_count(count), as_key(seed)
    if total == 0:
        return np.empty((0, check_function(f).n), dtype=np.uint8)
    threads = count_threads(n_jobs)
    prepared = prepare([check_function(f)])
    cost = f._row_cost() * (_MIN_NORM * f.n if prepared.solver == "min_norm" else _SOLVE)
    meter.require(total * cost, f"{total} samples of {f!r}")
    meter.plan(total * cost)
    step = max(threads, int(threads * PIECE / cost))
    found = np.empty((total, f.n), dtype=np.uint8)
    for first in range(0, total, step):
        size = min(step, total - first)
        out = prepared.perturb(
            np.zeros(f.n), [1.0], size, key, True, first_sample=first, n_jobs=n_jobs
        )
        assert out.samples is not None
        found[first : first + size] = out.samples[0]
        meter.spend(size * cost, samples=size)
    return found
