"""Maximisation of theta'y - f(y) over y in {0, 1}^n, on which most of the package is built."""

from __future__ import annotations

from numpy.typing import ArrayLike

from logsuper.functions import SubmodularFunction, check_function
from logsuper.solvers._prepare import Prepared
from logsuper.solvers._problems import Maximized


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
        Number of threads over the batch of max-flows, one by default; -1 for all processors. It
        does not change the result.
    tie : {None, "min", "max"}, optional
        Return the smallest or the largest of several maximisers; any of them by default.
    memory_limit : float, optional
        Number of bytes that the call may use; the available memory by default. A call that needs
        more raises a MemoryError before any work. An image needs about 33 bytes per pixel and
        thread on a 4-neighbour grid, and up to 150 if 64-bit integers are needed (see the notes).

    Returns
    -------
    y : ndarray of shape (n,) or (M, n), uint8
        Maximisers.
    value : float or ndarray of shape (M,)
        :math:`\theta^\top y-f(y)`, in float64 from the original field.

    Notes
    -----
    Max-flow runs on integers: weights and fields are rounded to multiples of a quantum. 32-bit
    integers are used if the quantum is below 1e-7 of the smallest positive weight and three in four
    fields are at least 2**20 quanta; otherwise 64-bit integers, with a quantum below 2e-18 of the
    largest sum of weights at a node, or of the total flow if that is less. The labels are an exact
    maximiser of the rounded problem. Hence their value is within (n + E) / 2 quanta of the maximum,
    and exact if all numbers are multiples of the quantum. With a `tie`, 64 bits are always used. If
    64 bits are too coarse for the fields (for instance weights of 1e12 with fields of order 1, and
    elements fixed to both values), the problem is solved again by a slower max-flow that is exact
    for float64 numbers of any size. The only remaining error is the rounding of sums of weights in
    functions with auxiliary nodes; a `PrecisionWarning` gives a bound on it if it exceeds 1e-9 of
    the fields.

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
