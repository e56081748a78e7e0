"""The question that everything stands on: argmax over y of theta'y - f(y)."""

from __future__ import annotations

from numpy.typing import ArrayLike

from logsuper.functions import SubmodularFunction, check_function
from logsuper.solvers._prepare import Prepared
from logsuper.solvers._results import Maximized


def maximize(
    f: SubmodularFunction,
    theta: ArrayLike,
    n_jobs: int | None = None,
    tie: str | None = None,
    memory_limit: float | None = None,
) -> Maximized:
    r"""Solve :math:`\max_{y\in\{0,1\}^n}\theta^\top y-f(y)` exactly, for one field or a batch.

    With :math:`\theta=0` the maximiser is the mode of :math:`p(x)\propto e^{-f(x)}`.

    **Which solver runs** follows from the structure of f: sorting for modular functions and a
    single concave cardinality or concave-of-modular term; max-flow for every sum of
    graph-representable terms (cuts, hyperedges, cardinality, coverage, facility location); the
    min-norm point (Fujishige-Wolfe) for everything else. For many problems with one structure and
    changing weights use `prepare`.

    Parameters
    ----------
    f : SubmodularFunction
    theta : array-like of shape (n,) or (M, n)
        Fields. An infinite entry fixes its element: the value then sums the finite terms.
    n_jobs : int, optional
        Threads over the batch of max-flows, one by default; -1 for all processors. It never
        changes the result.
    tie : {None, "min", "max"}, optional
        Ask for the smallest or the largest maximiser where there are several; any by default.
    memory_limit : float, optional
        Bytes that the call may take; what is available by default. What needs more is refused
        before any work, with a MemoryError: an image takes some 33 bytes per pixel and thread on a
        4-neighbour grid, up to 150 where 64-bit integers are needed (see the notes).

    Returns
    -------
    y : ndarray of shape (n,) or (M, n), uint8
        Maximisers.
    value : float or ndarray of shape (M,)
        :math:`\theta^\top y-f(y)`, in float64 from the original field.

    Notes
    -----
    Max-flow runs on integers. With 32 bits the quantum is below 1e-7 of the smallest positive
    weight and three in four fields span at least 2**20 quanta; other problems take 64 bits, where
    the quantum is below 2e-18 of the largest sum of weights at a node, or of all flow where that is
    less. The labels are a true maximiser of the rounded problem, hence their value is within
    (n + E) / 2 quanta of the maximum, and exact when all numbers are multiples of the quantum. Ask
    for a `tie` to have 64 bits always. Where 64 bits are too coarse for the fields (weights of 1e12
    beside fields of order 1, elements held at both values), the problem is solved once more by a
    slower max-flow that is exact for float64 numbers of any size. What is left is the rounding of
    sums of weights in functions with auxiliary nodes; a `PrecisionWarning` says how much that may
    have cost, where it is more than 1e-9 of the fields.

    Examples
    --------
    >>> import logsuper as ls
    >>> f = ls.Cut(3, [(0, 1), (1, 2)]) + ls.ConcaveCardinality([0, 1, 1, 1])
    >>> ls.maximize(f, [3.0, -0.5, -2.0])
    Maximized(y=array([1, 0, 0], dtype=uint8), value=1.0)
    """
    check_function(f)
    y, value, _ = Prepared([f], memory_limit).maximize(
        theta, [1.0], n_jobs=n_jobs, tie=tie, memory_limit=memory_limit
    )
    return Maximized(y, value)
