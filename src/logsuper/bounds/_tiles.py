r"""Certified marginals by tiles, for images larger than memory.

In a log-supermodular model the probability of a 1 is a non-decreasing function of all fixed values
(Holley 1974; Fortuin, Kasteleyn and Ginibre 1971). The marginals of a whole image are averages of
those of a box over the values around it, hence lie between those with all values around it 0 and
all values 1. The strips bracket these two in turn: the lower end of the first and the upper end of
the second bracket the marginals of the whole image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper._base import (
    EPS,
    BoolArray,
    Box,
    FloatArray,
    Tile,
    check_callback,
    check_integer,
    check_number,
    count_threads,
    even_cuts,
    extent,
    make_tiles,
    on_frame,
)
from logsuper.bounds._needs import NotApplicable
from logsuper.bounds._results import Marginals
from logsuper.bounds._strips import WINDOW, marginal_brackets
from logsuper.bounds._windows import Stack
from logsuper.functions import SubmodularFunction, check_function, grid_shape
from logsuper.solvers import (
    TileGrid,
    TileMap,
    TileProgress,
    check_source,
    crop,
    lay_grid,
    load_part,
)

# Pixels of a block and of its halo, and the largest halo and window that a tile may get.
_BLOCK, _HALO = 64, 4
_MOST_HALO, _MOST_WINDOW = 64, 14


class _Problem(NamedTuple):
    """A tile and how narrow its brackets shall be."""

    grid: TileGrid
    theta: Any
    tile: Tile
    width: float
    window: int
    halo: int


def marginals_tiles(
    f: SubmodularFunction,
    theta: Any,
    *,
    width: float = 1e-3,
    edge_weights: Sequence[Any] | None = None,
    window: int = WINDOW,
    block: int = _BLOCK,
    halo: int = _HALO,
    out: tuple[Any, Any] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[TileProgress], object] | None = None,
) -> Marginals:
    r"""Bracket all marginals of :math:`p(y)\propto\exp(\theta^\top y-f(y))` on an image, by tiles.

    A block is solved with a halo around it, with all pixels outside set to 0 and to 1. Where the
    bracket is wider than asked for, the tile is solved again with a larger halo, or a wider window
    if the window is what limits it.

    Parameters
    ----------
    f : SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and of `Modular` functions.
    theta : array of the shape of the image
        Fields: any kind of array, see `maximize_tiles`. Infinite fields fix their pixels.
    width : float
        Width of the brackets that is asked for. It is not always reached: near a phase transition
        boundaries act over any distance. `details` has the largest width found.
    edge_weights : sequence of array, optional
        As in `maximize_tiles`.
    window : int
        Columns per window of the strips; see ``bounds.strips``.
    block, halo : int
        Pixels of a block and of the margin that is tried first.
    out : pair of arrays, optional
        Where lower and upper bounds are written, of float64; by default arrays in memory.
    n_jobs : int, optional
        Threads over tiles; does not change the result.
    callback : callable, optional
        Called with a `TileProgress` after each tile; `open` counts pixels with wider brackets.

    Returns
    -------
    Marginals
        With certified `lower` and `upper`; `values` are the middle of these (with `out` given, the
        lower bounds are not read back, and `values` is empty).

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> theta = np.random.default_rng(0).normal(size=(30, 40))
    >>> across, down = ls.grid_cuts(theta.shape)
    >>> f = 0.5 * across + 0.4 * down
    >>> found = ls.marginals_tiles(f, theta, width=0.01, block=16)
    >>> exact = ls.LogSupermodular(f - ls.Modular(theta.ravel())).marginals("strips", window=12)
    >>> bool((found.lower <= exact.upper).all() and (exact.lower <= found.upper).all())
    True
    >>> found.details["width"] <= 0.01
    True
    """
    check_function(f)
    check_callback(callback)
    grid = lay_grid(f, edge_weights)
    shape = tuple(grid_shape(f))
    if len(shape) != 2 or any(
        terms and tuple(map(abs, step)) not in ((0, 1), (1, 0))
        for step, terms in zip(_two_axes(grid), grid.terms, strict=True)
    ):
        raise NotApplicable("marginals_tiles is for images with four neighbours per pixel")
    if len(grid.shape) == 1:
        raise NotApplicable("an image of one column is a chain: use the model's marginals()")
    source = check_source(theta, "theta", shape)
    asked = check_number(width, "width")
    if not asked > 0:
        raise ValueError(f"width must be positive, got {asked:g}")
    count_threads(n_jobs)
    columns = check_integer(window, "window", 1, _MOST_WINDOW + 1)
    side = check_integer(block, "block", 1, 2**30)
    margin = check_integer(halo, "halo", 0, 2**20)
    cuts = even_cuts(shape, (side, side))
    tiles = make_tiles(shape, cuts, margin + 1, same_size=False)
    lower, upper = (np.empty(shape), np.empty(shape)) if out is None else _check_out(out, shape)
    widest, open_, most = 0.0, 0, margin
    tasks = ((_problem(grid, source, tile, asked, columns, margin),) for tile in tiles)
    for number, (low, high, reach) in enumerate(TileMap(n_jobs)(bracket_tile, tasks)):
        core = tiles[number].core
        lower[core], upper[core] = low, high
        gap = high - low
        widest, most = max(widest, float(gap.max())), max(most, reach)
        open_ += int((gap > asked).sum())
        if callback is not None:
            callback(TileProgress(number + 1, len(tiles), open_))
    details = {"width": widest, "wider": open_, "tiles": len(tiles), "halo": most}
    if out is not None:
        return Marginals(np.empty(0), "strips", lower, upper, details=details)
    return Marginals(lower + (upper - lower) / 2, "strips", lower, upper, details=details)


def _check_out(out: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return a pair of arrays; numbers of fewer bits would round bounds to the wrong side."""
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError("out must be a pair of arrays, for lower and upper bounds")
    for k, array in enumerate(out):
        found = tuple(getattr(array, "shape", ())), str(getattr(array, "dtype", None))
        if found != (shape, "float64"):
            raise ValueError(
                f"out[{k}] has shape {found[0]} and dtype {found[1]}; give an array of float64 of "
                f"shape {shape}"
            )
    return out[0], out[1]


def _problem(
    grid: TileGrid, theta: Any, tile: Tile, width: float, window: int, halo: int
) -> _Problem:
    """Return the problem of a tile, with as much of the image as it may need."""
    box = _grown(tile.core, max(halo, _MOST_HALO) + 1, grid.shape)
    return _Problem(grid.crop(box), crop(theta, box), tile, width, window, halo)


def _two_axes(grid: TileGrid) -> list[tuple[int, ...]]:
    return [step if len(step) == 2 else (*step, 0) for step in grid.steps]


def bracket_tile(problem: _Problem) -> tuple[FloatArray, FloatArray, int]:
    """Return bounds on the marginals of the block of a tile, and the halo that was needed."""
    grid, theta, tile, width, window, halo = problem
    low, high = np.zeros(extent(tile.core)), np.ones(extent(tile.core))
    while True:
        outer = _grown(tile.core, halo + 1, grid.shape)
        lower, upper = _bracket_box(grid, theta, outer, window)
        at = Tile(tile.core, outer).inner
        # brackets of several boxes hold at the same time
        low = np.maximum(low, lower[0][at])
        high = np.minimum(high, upper[1][at])
        if (high - low).max() <= width:
            return low, high, halo
        own = float((upper - lower)[:, *at].max())
        whole = all(o.start == 0 and o.stop == n for o, n in zip(outer, grid.shape, strict=True))
        if own > width / 2 and window < _MOST_WINDOW:
            window = min(_MOST_WINDOW, window + 2)
        elif whole or 2 * halo > _MOST_HALO:
            return low, high, halo
        else:
            halo = max(1, 2 * halo)


def _grown(core: Box, margin: int, shape: Sequence[int]) -> Box:
    return tuple(
        slice(max(0, side.start - margin), min(size, side.stop + margin))
        for side, size in zip(core, shape, strict=True)
    )


def _bracket_box(
    grid: TileGrid, theta: Any, box: Box, window: int
) -> tuple[FloatArray, FloatArray]:
    """Return bounds (2, rows, columns) with the pixels around a box set to 0, and to 1."""
    shape = extent(box)
    parts, weights = grid.field_parts(theta, box), grid.parts(box)
    field = np.array(load_part(parts[0]), dtype=np.float64)
    if parts[1] is not None:
        field = field - load_part(parts[1])
    if np.isnan(field).any():
        raise ValueError("theta has a NaN; use 0 for no information")
    across = weights.of(grid.steps.index((0, 1)), shape)
    down = weights.of(grid.steps.index((1, 0)), shape)
    ring = on_frame(box, grid.shape)
    fixed = ring | np.isinf(field)
    stacked = [_folded(field, across, down, fixed, ring, outside) for outside in (-1.0, 1.0)]
    stack = Stack(*(np.stack(each) for each in zip(*stacked, strict=True)))
    (lower, upper), _ = marginal_brackets(stack, window)
    certain = np.isinf(field) & ~ring
    lower[:, certain] = upper[:, certain] = field[certain] > 0
    return lower, upper


def _folded(
    field: FloatArray,
    across: FloatArray,
    down: FloatArray,
    fixed: BoolArray,
    ring: BoolArray,
    outside: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return fields and weights with fixed pixels removed: |x - a| is linear in x for a fixed a."""
    sign = np.where(ring, outside, np.where(fixed, np.sign(field), 0.0))
    t = np.where(fixed, 0.0, field)
    free = (~fixed).astype(np.float64)
    t[:, 1:] += across * sign[:, :-1] * free[:, 1:]
    t[:, :-1] += across * sign[:, 1:] * free[:, :-1]
    t[1:] += down * sign[:-1] * free[1:]
    t[:-1] += down * sign[1:] * free[:-1]
    # only the lower bounds with zeros outside, and the upper ones with ones, are used: sums that
    # are rounded downwards and upwards keep them certified
    size = np.abs(np.where(fixed, 0.0, field))
    size[:, 1:] += across
    size[:, :-1] += across
    size[1:] += down
    size[:-1] += down
    t += outside * 4.0 * EPS * size * free
    return t, across * free[:, 1:] * free[:, :-1], down * free[1:] * free[:-1]
