"""Perturb-and-MAP: maximisers under logistic noise, as samples."""

from __future__ import annotations

import numpy as np

from logsuper._base import Seed, as_key
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._inputs import Bits, check_count
from logsuper.solvers import prepare


def sample(
    f: SubmodularFunction, count: int, *, seed: Seed = None, n_jobs: int | None = None
) -> Bits:
    r"""Draw maximisers of :math:`z^\top y-f(y)` under standard logistic noise z.

    An approximation: maximisers have a law of their own (the perturb-and-MAP model of Papandreou
    and Yuille 2011), which is that of :math:`e^{-f}` only for modular f. Elements agree more often:
    two of them differ with probability :math:`2\sigma(-w)^2` instead of :math:`\sigma(-w)`. It
    takes one submodular minimisation a sample, at any coupling.

    Parameters
    ----------
    f : SubmodularFunction
    count : int
    seed : int, Generator or None
    n_jobs : int, optional
        Threads over the samples, where a max-flow solves them.

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
    prepared = prepare([check_function(f)])
    out = prepared.perturb(np.zeros(f.n), [1.0], total, key, return_samples=True, n_jobs=n_jobs)
    assert out.samples is not None
    samples: Bits = out.samples[0]
    return samples
