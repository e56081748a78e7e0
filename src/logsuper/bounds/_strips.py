r"""The strip sandwich: certified brackets of log Z and of marginals on image grids.

For any reference :math:`\hat x`, and the pixels in column-major order,

.. math:: \log Z=-f(\hat x)-\sum_d\log p(\hat x_d\mid\hat x_{<d}).

Each factor is bracketed in a window of a few columns, with its left border clamped at the reference
and a field between two bounds on its right border; see `logsuper.bounds._windows`. The
monotonicity behind it is Holley's inequality (1974), which like that of Fortuin, Kasteleyn and
Ginibre (1971) holds for every log-supermodular model. The reference is the mode: the clamped pixels
then are in the phase of the image, so that brackets stay narrow at strong coupling.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper._base import (
    EPS,
    Bits,
    FloatArray,
    check_choice,
    check_integer,
    count_threads,
)
from logsuper.bounds._needs import magnitude, need_image
from logsuper.bounds._results import Bound, Marginals
from logsuper.bounds._windows import (
    MEMORY,
    Pair,
    Stack,
    chain_gradient,
    chain_odds,
    edge_fields,
    marginal_odds,
    outside_fields,
    refuse_too_large,
    size_of,
)
from logsuper.functions import SubmodularFunction
from logsuper.solvers import maximize
from logsuper.structures import Image

Side = Literal["both", "lower", "upper"]

WINDOW = 10
"""Columns per window by default."""
# Distance in columns between windows for marginals: every pixel is near the middle of one.
_STEP = 2


@dataclasses.dataclass(frozen=True)
class _Plan:
    """How images of one shape are cut into windows."""

    shape: tuple[int, int]
    window: int
    reach: int
    threads: int

    @classmethod
    def of(cls, shape: tuple[int, int], window: int | None, n_jobs: int | None) -> _Plan:
        """Return the plan for images that are transposed as `_is_transposed` says."""
        size = min(_check_window(window), shape[1])
        # half the window suffices for the fields from outside, which act at its far end
        return cls(shape, size, size // 2 + 1, count_threads(n_jobs))

    @property
    def exact(self) -> bool:
        """Whether a window has all columns."""
        return self.window == self.shape[1]

    @property
    def operations(self) -> float:
        """The approximate number of weights that a bracket of log Z computes."""
        rows, columns = self.shape
        chain = 3.0 * self.window * 2.0**self.window
        fields = 0.0 if self.exact else 4.0 * self.reach * 2.0**self.reach
        return rows * columns * (chain + fields)

    @property
    def profiles(self) -> float:
        """The number of profiles that a thread keeps."""
        return self.shape[0] + self.window + 4.0

    def fitting(self) -> _Plan:
        """Return the plan with as many threads as fit into memory; raise if not one does."""
        refuse_too_large("strips", self.window, self.profiles, self.operations)
        most = int(MEMORY // size_of(self.profiles, self.window))
        return dataclasses.replace(self, threads=min(self.threads, most))

    def fields(self, stack: Stack) -> Pair:
        """Bound the fields on windows from their right."""
        return edge_fields(stack) if self.exact else outside_fields(stack, self.reach, self.threads)


def _check_window(window: int | None) -> int:
    return WINDOW if window is None else check_integer(window, "window", 1, 2**31)


def _is_transposed(stack: Stack, window: int) -> NDArray[np.bool_]:
    """Return whether windows are cut from rows instead of columns, for each image.

    Windows end at the weaker edges, unless one covers the short side.
    """
    rows, columns = stack.shape
    if min(rows, columns) <= window:
        return np.full(len(stack.t), rows < columns)
    down, across = (part.reshape(len(part), -1).mean(axis=1) for part in (stack.down, stack.across))
    return np.broadcast_to(down < across, len(stack.t))


def _lay(
    f: SubmodularFunction, window: int | None, n_jobs: int | None
) -> tuple[Image, _Plan, bool]:
    """Return a function as an image, transposed where that is better, with its plan."""
    size = _check_window(window)
    grid = need_image(f, "strips")
    transposed = bool(_is_transposed(Stack.of(grid), size)[0])
    if transposed:
        grid = grid.transposed()
    return grid, _Plan.of(grid.shape, size, n_jobs), transposed


def _score(grid: Image, x: Bits, surprise: FloatArray) -> float:
    """Return -f(x) + sum(surprise), rounded once, without the share of fixed pixels."""
    point = x.astype(np.float64)
    broken = (np.abs(np.diff(point)) * grid.across, np.abs(np.diff(point, axis=0)) * grid.down)
    fixed = np.full(1, -grid.fixed * math.log(2.0))
    terms = (surprise, point * grid.t, -broken[0], -broken[1], fixed)
    return math.fsum(itertools.chain.from_iterable(term.ravel().tolist() for term in terms))


def _surprise(x: Bits, of_zero: FloatArray, of_one: FloatArray) -> FloatArray:
    """Return -log p(x_d), given log-odds for the pixels that are 0 and for those that are 1."""
    return np.logaddexp(0.0, np.where(x, -of_one, of_zero))


def _sandwich(plan: _Plan, grid: Image, reference: Bits) -> tuple[float, float]:
    """Return the lower and the upper bound on log Z."""
    stack = Stack.of(grid)
    fields = plan.fields(stack)
    (low,), (high,) = chain_odds(stack, plan.window, reference[None], fields, plan.threads)
    lower = _score(grid, reference, _surprise(reference, low, high))
    upper = _score(grid, reference, _surprise(reference, high, low))
    # weights and fields are rounded sums; log Z changes by at most as much as they do
    error = 4.0 * EPS * (magnitude(grid) + grid.fixed + abs(lower) + abs(upper))
    return lower - error, upper + error


def brackets(
    f: SubmodularFunction, window: int | None = None, n_jobs: int | None = None
) -> tuple[Bound, Bound]:
    """Return the certified lower and upper bound on log Z; see `log_partition`."""
    grid, plan, transposed = _lay(f, window, n_jobs)
    plan = plan.fitting()
    reference = np.zeros(grid.t.size, dtype=np.uint8)
    reference[grid.pixels] = maximize(f, np.zeros(f.n))[0]
    lower, upper = _sandwich(plan, grid, reference.reshape(grid.shape))
    details = {"window": plan.window, "transposed": transposed, "covers": plan.exact}
    return (
        Bound(lower, "lower", "strips", certified=True, solves=1, details=details),
        Bound(upper, "upper", "strips", certified=True, solves=1, details=details),
    )


def log_partition(
    f: SubmodularFunction,
    *,
    window: int | None = None,
    side: Side = "both",
    n_jobs: int | None = None,
) -> Bound:
    """Bracket log Z of an image grid, deterministically.

    The bracket is narrow if the correlation length is below the width of a window, as in posteriors
    with informative observations and in priors away from their phase transition. Its width usually
    halves with every further column.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and a `Modular`; any weights >= 0.
    window : int, default 10
        Columns per window; time and memory double with each. If a window covers the shorter side of
        the image, the result is exact.
    side : {"both", "lower", "upper"}, default "both"
        "both" returns the middle, an estimate, with the bracket as its `interval`.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    Bound
        Certified in floating point too: the bounds allow for rounding.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> across, down = ls.grid_cuts((30, 30))
    >>> f = 0.6 * across + 0.5 * down - ls.Modular(np.tile([1.0, -0.5], 450))
    >>> bound = ls.bounds.strips(f)
    >>> bound.target, bound.certified, round(bound.value, 3)
    ('estimate', True, 396.366)
    >>> low, high = bound.interval
    >>> high - low < 1e-3
    True
    """
    check_choice(side, "side", get_args(Side))
    lower, upper = brackets(f, window, n_jobs)
    if side != "both":
        return lower if side == "lower" else upper
    return dataclasses.replace(
        lower,
        value=lower.value + (upper.value - lower.value) / 2,
        target="exact" if lower.details["covers"] else "estimate",
        interval=(lower.value, upper.value),
    ).classified()


def marginals(
    f: SubmodularFunction, *, window: int | None = None, n_jobs: int | None = None
) -> Marginals:
    """Bracket all marginals of an image grid, deterministically.

    Every pixel has the intersection of its brackets in several overlapping windows.

    Parameters
    ----------
    f : SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and a `Modular`; any weights >= 0.
    window : int, default 10
        Columns per window; time and memory double with each. If a window covers the shorter side of
        the image, the result is exact.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    Marginals
        With certified `lower` and `upper`; `values` are the middle of these.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> across, down = ls.grid_cuts((20, 20))
    >>> f = 0.6 * across + 0.5 * down - ls.Modular(np.tile([1.0, -0.5], 200))
    >>> found = ls.LogSupermodular(f).marginals("strips")
    >>> np.round(found[0, :2], 3), bool(np.all(found.upper - found.lower < 2e-3))
    (array([0.775, 0.557]), True)
    """
    grid = need_image(f, "strips")
    ends, details = marginal_brackets(Stack.of(grid), window, n_jobs)
    lower, upper = (end.ravel()[grid.pixels] for end in ends)
    middle = lower + (upper - lower) / 2
    return Marginals(middle, "strips", lower=lower, upper=upper, details=details)


def marginal_brackets(
    stack: Stack, window: int | None = None, n_jobs: int | None = None
) -> tuple[Pair, dict[str, int | bool]]:
    """Return lower and upper bounds (M, rows, columns) on the marginals of images, and details.

    Images that are cut in the same direction are one call of the kernel.
    """
    size = _check_window(window)
    transposed = _is_transposed(stack, size)
    lower, upper = np.empty(stack.t.shape), np.empty(stack.t.shape)
    used = size
    for flag in np.unique(transposed):
        rows = np.flatnonzero(transposed == flag)
        some = stack.some(rows).transposed() if flag else stack.some(rows)
        plan = _Plan.of(some.shape, size, n_jobs).fitting()
        used = plan.window
        step = min(_STEP, plan.window)
        odds = marginal_odds(some, plan.window, plan.reach, step, plan.threads)
        low, high = (part.swapaxes(1, 2) if flag else part for part in odds)
        lower[rows] = expit(low) * (1.0 - 4.0 * EPS)
        upper[rows] = np.minimum(1.0, expit(high) * (1.0 + 4.0 * EPS))
    return (lower, upper), {"window": used, "transposed": bool(transposed[0])}


def marginal_operations(shape: tuple[int, int], window: int | None = None) -> float:
    """Return the approximate number of weights that brackets of all marginals compute."""
    short, long = sorted(shape)
    size = min(_check_window(window), short)
    windows = 1 + math.ceil((long - size) / _STEP) if short > size else 1
    return 4.0 * windows * long * size * 2.0**size


def operations(f: SubmodularFunction, window: int | None = None) -> float:
    """Return the approximate number of elementary operations of a bracket of log Z."""
    return _lay(f, window, None)[1].operations


def affordable(f: SubmodularFunction, window: int, budget: float) -> bool:
    """Return whether a bracket of log Z fits in the budget of operations and in memory."""
    plan = _lay(f, window, None)[1]
    return plan.operations <= budget and size_of(plan.profiles, plan.window) <= MEMORY


def strips_gradient(
    stack: Stack, reference: Bits, window: int, n_jobs: int | None = None, side: Side = "lower"
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return strip bounds on log Z of some images and their gradients, for learners.

    In this bound the columns beyond a window are clamped at all 0 or all 1. It is a little wider
    than that of `log_partition`, and a smooth function of the weights for a fixed reference.

    Parameters
    ----------
    stack : Stack
    reference : ndarray of shape (M, rows, columns), uint8
        Any images of 0 and 1; the mode gives the best bound.
    window : int
    n_jobs : int, optional
    side : {"lower", "upper"}

    Returns
    -------
    values : ndarray of shape (M,)
    dt, dacross, ddown : ndarray
        Derivatives in the parts of the grids, with their shapes.
    """
    check_integer(window, "window", 1, 2**31)
    plan, odds = _by_edges(stack, reference, window, n_jobs)
    upper = side == "upper"
    surprise = _surprise(reference, *(odds[::-1] if upper else odds))
    rows = zip(stack.images(), reference, surprise, strict=True)
    values = np.array([_score(*row) for row in rows])
    dt, dacross, ddown = chain_gradient(stack, plan.window, reference, plan.threads, upper)
    x = reference.astype(np.float64)
    return values, dt + x, dacross - np.abs(np.diff(x)), ddown - np.abs(np.diff(x, axis=-2))


def chain_widths(
    stack: Stack, reference: Bits, window: int, n_jobs: int | None = None
) -> FloatArray:
    """Return the widths of the brackets of log Z whose ends are those of `strips_gradient`."""
    _, (low, high) = _by_edges(stack, reference, window, n_jobs)
    widths = _surprise(reference, high, low) - _surprise(reference, low, high)
    return np.asarray(widths.sum(axis=(-2, -1)))


def _by_edges(stack: Stack, reference: Bits, window: int, n_jobs: int | None) -> tuple[_Plan, Pair]:
    """Bound the log-odds of each pixel with the columns beyond its window at all 0 or all 1."""
    size = min(window, stack.shape[1])
    plan = _Plan(stack.shape, size, size, count_threads(n_jobs)).fitting()
    return plan, chain_odds(stack, size, reference, edge_fields(stack), plan.threads)
