r"""The strip sandwich: certified brackets of log Z and of marginals on image grids.

For any reference :math:`\hat x`, and the pixels in column-major order,

.. math:: \log Z=-f(\hat x)-\sum_d\log p(\hat x_d\mid\hat x_{<d}).

Each factor is bracketed in a window of a few columns, whose left border is clamped at the reference
and whose right border feels a field between two bounds; see `logsuper.bounds._windows`. The
monotonicity behind it is the inequality of Holley (1974), which with that of Fortuin, Kasteleyn and
Ginibre (1971) holds for every log-supermodular model. The reference is the mode: the clamped past
then carries the phase of the picture, so that brackets stay tight at strong coupling.
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
    chain_gradient,
    chain_odds,
    edge_fields,
    outside_fields,
    refuse_too_large,
    size_of,
    window_odds,
)
from logsuper.functions import SubmodularFunction
from logsuper.solvers import maximize
from logsuper.structures import Image

Side = Literal["both", "lower", "upper"]

_WINDOW = 10
# Marginal windows overlap all but this many columns: every pixel is near the middle of one.
_STEP = 2


@dataclasses.dataclass(frozen=True)
class _Plan:
    """How a grid is cut into windows."""

    grid: Image
    transposed: bool
    window: int
    reach: int
    threads: int

    @property
    def exact(self) -> bool:
        """Whether the window holds all columns."""
        return self.window == self.grid.shape[1]

    @property
    def operations(self) -> float:
        """About how many weights of profiles are computed, for one bracket of log Z."""
        rows, columns = self.grid.shape
        chain = 3.0 * self.window * 2.0**self.window
        fields = 0.0 if self.exact else 4.0 * self.reach * 2.0**self.reach
        return rows * columns * (chain + fields)

    @property
    def profiles(self) -> float:
        """How many profiles a thread holds."""
        return self.grid.shape[0] + self.window + 4.0

    def fitting(self) -> _Plan:
        """Return the plan with as many threads as fit into memory; raise when not one does."""
        refuse_too_large("strips", self.window, self.profiles, self.operations)
        most = int(MEMORY // size_of(self.profiles, self.window))
        return dataclasses.replace(self, threads=min(self.threads, most))

    def to_image(self, x: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a value for each element as an image of the plan's grid."""
        image = np.zeros(self.grid.t.size, dtype=np.uint8)
        image[self.grid.pixels] = x
        return image.reshape(self.grid.shape)

    def to_vector(self, image: FloatArray) -> FloatArray:
        """Return the values of the pixels in the order of the elements."""
        return image.ravel()[self.grid.pixels]


def _plan(f: SubmodularFunction, window: int | None, n_jobs: int | None) -> _Plan:
    """Choose the direction in which windows cut the weaker edges, unless one fits across."""
    size = _WINDOW if window is None else check_integer(window, "window", 1, 2**31)
    threads = count_threads(n_jobs)
    grid = need_image(f, "strips")
    rows, columns = grid.shape
    transposed = rows < columns
    if min(rows, columns) > size:
        transposed = bool(grid.down.mean() < grid.across.mean())
    if transposed:
        grid = grid.transposed()
    size = min(size, grid.shape[1])
    # half the window suffices for the fields from outside, which act at its far end
    return _Plan(grid, transposed, size, size // 2 + 1, threads)


def _fields(plan: _Plan, grid: Image) -> Pair:
    """Bound what acts on windows from their right."""
    return edge_fields(grid) if plan.exact else outside_fields(grid, plan.reach, plan.threads)


def _score(grid: Image, x: NDArray[np.uint8], surprise: FloatArray) -> float:
    """Return -f(x) + sum(surprise), rounded once, without what fixed pixels add."""
    point = x.astype(np.float64)
    broken = (np.abs(np.diff(point)) * grid.across, np.abs(np.diff(point, axis=0)) * grid.down)
    fixed = np.full(1, -grid.fixed * math.log(2.0))
    terms = (surprise, point * grid.t, -broken[0], -broken[1], fixed)
    return math.fsum(itertools.chain.from_iterable(term.ravel().tolist() for term in terms))


def _surprise(x: NDArray[np.uint8], of_zero: FloatArray, of_one: FloatArray) -> FloatArray:
    """Return -log p(x_d), with one log-odds for the pixels that are 0 and one for the others."""
    return np.logaddexp(0.0, np.where(x, -of_one, of_zero))


def _sandwich(plan: _Plan, reference: NDArray[np.uint8]) -> tuple[float, float]:
    """Return the lower and the upper bound on log Z."""
    grid = plan.grid
    low, high = chain_odds(grid, plan.window, reference, _fields(plan, grid), plan.threads)
    lower = _score(grid, reference, _surprise(reference, low, high))
    upper = _score(grid, reference, _surprise(reference, high, low))
    # log Z moves by no more than a weight or a field does, and those are sums of rounded terms
    error = 4.0 * EPS * (magnitude(grid) + grid.fixed + abs(lower) + abs(upper))
    return lower - error, upper + error


def brackets(
    f: SubmodularFunction, window: int | None = None, n_jobs: int | None = None
) -> tuple[Bound, Bound]:
    """Return the certified lower and upper bound on log Z; see `log_partition`."""
    plan = _plan(f, window, n_jobs).fitting()
    lower, upper = _sandwich(plan, plan.to_image(maximize(f, np.zeros(f.n))[0]))
    details = {"window": plan.window, "transposed": plan.transposed, "covers": plan.exact}
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

    The bracket is narrow where the correlation length is below the window: posteriors with real
    fields, priors away from their phase transition. It usually halves with every further column.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and a `Modular`; any weights >= 0.
    window : int, default 10
        Columns that are summed over at once; time and memory double with each. When it reaches the
        shorter side of the image the result is exact.
    side : {"both", "lower", "upper"}, default "both"
        "both" gives the middle, an estimate, with the bracket as its `interval`.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    Bound
        Certified also in floating point: the bounds allow for rounding.

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

    Overlapping windows, both sides of each bounded, are intersected.

    Parameters
    ----------
    f : SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and a `Modular`; any weights >= 0.
    window : int, default 10
        Columns that are summed over at once; time and memory double with each. When it reaches the
        shorter side of the image the result is exact.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    Marginals
        With certified `lower` and `upper`; `values` are in the middle.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> across, down = ls.grid_cuts((20, 20))
    >>> f = 0.6 * across + 0.5 * down - ls.Modular(np.tile([1.0, -0.5], 200))
    >>> found = ls.LogSupermodular(f).marginals("strips")
    >>> np.round(found[0, :2], 3), bool(np.all(found.upper - found.lower < 2e-3))
    (array([0.775, 0.557]), True)
    """
    plan = _plan(f, window, n_jobs).fitting()
    grid, (_, columns) = plan.grid, plan.grid.shape
    left, right = edge_fields(grid), _fields(plan, grid)
    for mine, other in zip(left, _fields(plan, grid.mirrored()), strict=True):
        mine[:, 1:] = other[:, :0:-1]  # column c of the mirrored grid is column w - 1 - c
    last = columns - plan.window
    starts = np.append(np.arange(0, last, _STEP, dtype=np.int64), last)
    lows, highs = window_odds(grid, plan.window, starts, left, right, plan.threads)
    low, high = np.full(grid.shape, -np.inf), np.full(grid.shape, np.inf)
    for start, below, above in zip(starts, lows, highs, strict=True):
        here = (slice(None), slice(start, start + plan.window))
        low[here] = np.maximum(low[here], below)
        high[here] = np.minimum(high[here], above)
    lower = plan.to_vector(expit(low)) * (1.0 - 4.0 * EPS)
    upper = np.minimum(1.0, plan.to_vector(expit(high)) * (1.0 + 4.0 * EPS))
    details = {"window": plan.window, "transposed": plan.transposed}
    middle = lower + (upper - lower) / 2
    return Marginals(middle, "strips", lower=lower, upper=upper, details=details)


def operations(f: SubmodularFunction, window: int | None = None) -> float:
    """Return about how many elementary operations a bracket of log Z takes."""
    return _plan(f, window, None).operations


def affordable(f: SubmodularFunction, window: int, budget: float) -> bool:
    """Return whether a bracket of log Z takes no more operations than that, and fits in memory."""
    plan = _plan(f, window, None)
    return plan.operations <= budget and size_of(plan.profiles, plan.window) <= MEMORY


def strips_gradient(
    grid: Image,
    reference: NDArray[np.uint8],
    window: int,
    n_jobs: int | None = None,
    side: Literal["lower", "upper"] = "lower",
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return a strip bound on log Z and its gradient, for learners.

    The bound is the one with what lies beyond a window clamped at all 0 or all 1, a little wider
    than that of `log_partition`: a smooth function of the weights while the reference stays fixed.

    Parameters
    ----------
    grid : Image
    reference : ndarray of shape (rows, columns), uint8
        Any image of 0 and 1; the mode gives the best bound.
    window : int
    n_jobs : int, optional
    side : {"lower", "upper"}

    Returns
    -------
    value : float
    dt, dacross, ddown : ndarray
        Derivatives in the parts of the grid, with their shapes.
    """
    threads = count_threads(n_jobs)
    size = min(check_integer(window, "window", 1, 2**31), grid.shape[1])
    plan = _Plan(grid, False, size, size, threads).fitting()
    odds = chain_odds(grid, size, reference, edge_fields(grid), plan.threads)
    upper = side == "upper"
    value = _score(grid, reference, _surprise(reference, *(odds[::-1] if upper else odds)))
    dt, dacross, ddown = chain_gradient(grid, size, reference, plan.threads, upper)
    x = reference.astype(np.float64)
    return (
        value,
        dt + x,
        dacross - np.abs(np.diff(x)),
        ddown - np.abs(np.diff(x, axis=0)),
    )
