r"""Exact samples of pairwise models without cycles, drawn from the roots to the leaves.

Let c be a child of p by an edge of weight w, and let :math:`u_c` be its field plus the messages
from its own children. Then c sends p the message

.. math:: m(u_c,w)=\log\frac{e^{u_c}+e^{-w}}{1+e^{u_c-w}} ,

and given :math:`x_p` the field of c is :math:`u_c+w(2x_p-1)`. There is no Markov chain, so that
the cost does not depend on the weights.
"""

from __future__ import annotations

import math

import numpy as np

from logsuper._base import Bits, FloatArray, IntArray, Seed, as_key, root_forest
from logsuper.bounds import NotApplicable, need_pairwise
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import PIECE, Meter, check_count
from logsuper.solvers import logistic_noise
from logsuper.structures import Pairwise

# Float64 numbers per batch of noise.
_BLOCK = 1 << 20
# Operations (about one nanosecond each) per element of a sample.
_NUMBER = 50.0


def sample(
    f: SubmodularFunction,
    count: int,
    meter: Meter,
    *,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bits:
    r"""Draw independent exact samples of a pairwise model whose edges form a forest.

    Parameters
    ----------
    f : SubmodularFunction
        Pairwise and without cycles: chains, trees, forests.
    count : int
    meter : Meter
    seed : int, Generator or None
    n_jobs : int, optional
        Ignored: one pass over the elements draws all samples.

    Returns
    -------
    ndarray of shape (count, n), uint8

    Raises
    ------
    NotApplicable
        If f is not pairwise, or has a cycle.
    TooLarge
        If this number of samples exceeds the budget.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import sample
    >>> X = sample(ls.Cut(3, [(0, 1), (1, 2)], 30.0), 1000, "ancestral", seed=0)
    >>> bool((X[:, 0] == X[:, 2]).all()), bool(abs(X[:, 0].mean() - 0.5) < 0.05)
    (True, True)
    """
    total = check_count(count)
    pairwise = need_pairwise(check_function(f), "ancestral")
    rooted = root_forest(f.n, pairwise.edges)
    if rooted is None:
        raise NotApplicable(f"ancestral needs a forest, but the edges of {f!r} have a cycle")
    cost = _NUMBER * f.n
    meter.require(total * cost, f"{total} samples of {f!r}")
    meter.plan(total * cost)
    key = as_key(seed)
    pairs, index = rooted
    weights = pairwise.weights[index]
    fields = _fields(pairwise, pairs, weights)
    X = np.empty((total, f.n), dtype=np.uint8)
    rows = max(1, min(_BLOCK // f.n, int(PIECE / cost)))
    for first in range(0, total, rows):
        block = X[first : first + rows]
        noise = logistic_noise(key, range(first, first + len(block)), 0, f.n)[:, 0]
        block[:] = noise < fields  # final for the roots; children are overwritten below
        for (parent, child), w in zip(pairs.tolist(), weights.tolist(), strict=True):
            given = fields[child] + np.where(block[:, parent] == 1, w, -w)
            block[:, child] = noise[:, child] < given
        meter.spend(len(block) * cost, samples=len(block))
    return X


def _fields(pairwise: Pairwise, pairs: IntArray, weights: FloatArray) -> FloatArray:
    """Return the field of each element plus the messages from its children."""
    u = pairwise.t.tolist()
    for (parent, child), w in zip(pairs[::-1].tolist(), weights[::-1].tolist(), strict=True):
        size = abs(u[child])
        # m is odd in u and bounded by w; this form is accurate for large u and w
        log_sums = math.log1p(math.exp(-w - size)) - math.log1p(math.exp(-abs(w - size)))
        u[parent] += math.copysign(min(w, size) + log_sums, u[child])
    fields = np.array(u)
    # half of the largest number, since the weight of the parent's edge is added to a field
    if not (np.abs([*fields, *weights]) < np.finfo(np.float64).max / 2.0).all():
        raise ValueError(f"ancestral: the fields of {pairwise.as_function()!r} overflow; rescale f")
    return fields
