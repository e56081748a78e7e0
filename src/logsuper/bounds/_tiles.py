r"""Certified marginals by tiles, for images larger than memory.

In a log-supermodular model the probability of a 1 is a non-decreasing function of all fixed values
(Holley 1974; Fortuin, Kasteleyn and Ginibre 1971). The marginals of a whole image are averages of
those of a box over the values around it, hence lie between those with all values around it 0 and
all values 1. The strips bracket these two in turn: the lower end of the first and the upper end of
the second bracket the marginals of the whole image.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
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
    load_arrays,
    make_tiles,
    on_frame,
    relative,
    save_arrays,
)
from logsuper.bounds._columns import column_bounds, fold
from logsuper.bounds._results import Marginals
from logsuper.bounds._strips import WINDOW, marginal_brackets
from logsuper.bounds._windows import Stack
from logsuper.functions import SubmodularFunction
from logsuper.solvers import (
    Model,
    Sealed,
    TileGrid,
    TileMap,
    TileProgress,
    WeightParts,
    Window,
    box_field,
    checkpoint_file,
    crop,
    is_dask,
    lay_problem,
    put_box,
    refuse_nan,
)

_KIND, _VERSION = "bracket", 1
# Pixels of a block and of its halo by default, for one, two and three axes.
_BLOCK = {1: 4096, 2: 64, 3: 16}
_HALO = {1: 16, 2: 4, 3: 2}
# Largest halo and window that a tile may get: by strips, and by columns, whose windows are fronts.
_MOST_HALO, _MOST_WINDOW = 64, 14
_MOST_FRONT_HALO, _MOST_FRONT = 16, 12
# Columns are not made larger once brackets shrink by less than this factor.
_WORTH = 0.7
# Strips are not made wider, nor the halo larger than they can use, once that helps by less.
_HELPED = 0.95


class _Problem(NamedTuple):
    """A tile and how narrow its brackets shall be."""

    grid: TileGrid
    theta: Any
    tile: Tile
    width: float
    window: int
    halo: int


def marginals_tiles(
    f: SubmodularFunction | Model,
    theta: Any,
    *,
    width: float = 1e-3,
    edge_weights: Sequence[Any] | None = None,
    window: int = WINDOW,
    block: int | None = None,
    halo: int | None = None,
    out: tuple[Any, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    callback: Callable[[TileProgress], object] | None = None,
) -> Marginals:
    r"""Bracket all marginals of :math:`p(y)\propto\exp(\theta^\top y-f(y))` on an image, by tiles.

    A block is solved with a halo around it, with all pixels outside set to 0 and to 1. Where the
    bracket is wider than asked for, the tile is solved again with a larger halo, or a wider window
    if the window is what limits it.

    Parameters
    ----------
    f : SubmodularFunction or LogSupermodular
        As in `maximize_tiles`; images and volumes, of any stencil.
    theta : array of the shape of the image
        Fields: any kind of array, see `maximize_tiles`. Infinite fields fix their pixels.
    width : float
        Width of the brackets that is asked for. It is not always reached: near a phase transition
        boundaries act over any distance, and in volumes windows are small. `details` has the
        largest width found.
    edge_weights : sequence of array, optional
        As in `maximize_tiles`.
    window : int
        For images with four neighbours the columns per window of the strips; see ``bounds.strips``.
        For others the number of pixels between two parts of a window, at most 12: with eight
        neighbours one more than its columns, in volumes the pixels of its section. Time doubles
        with each.
    block, halo : int, optional
        Pixels of a block and of the margin that is tried first: by default 64 and 4 for images, 16
        and 2 for volumes.
    out : pair of arrays, optional
        Where lower and upper bounds are written, of float64; by default arrays in memory.
    checkpoint : str or path, optional
        A folder for finished tiles. A second call with the same arguments continues from there.
    n_jobs : int, optional
        Threads over tiles; does not change the result.
    callback : callable, optional
        Called with a `TileProgress` after each tile; `open` counts pixels with wider brackets.

    Returns
    -------
    Marginals
        With certified `lower` and `upper`; `values` are the middle of these (with `out` given, the
        lower bounds are not read back, and `values` is empty). For a dask array, unless `out` is
        given, all three are lazy dask arrays, of the same bits as those of an array in memory, and
        `details` has no widths.

    Notes
    -----
    With four neighbours the two extremes of a box are bracketed by strips. For other stencils, and
    volumes, windows span the box along one axis, and what lies beside them acts by fields that are
    bounded from pixels up to two steps away. Eight neighbours take about a tenth of a millisecond
    per pixel, volumes about a millisecond, which each enlargement multiplies by two to four. Blocks
    are not enlarged further when that no longer helps. At strong coupling brackets are wide, and
    may be as wide as the nearest pixels alone allow, but hold.

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
    check_callback(callback)
    grid, source, shape = lay_problem(f, theta, edge_weights)
    asked = check_number(width, "width")
    if not asked > 0:
        raise ValueError(f"width must be positive, got {asked:g}")
    count_threads(n_jobs)
    columns = check_integer(window, "window", 1, _MOST_WINDOW + 1)
    axes = len(grid.shape)
    side = _BLOCK[axes] if block is None else check_integer(block, "block", 1, 2**30)
    margin = _HALO[axes] if halo is None else check_integer(halo, "halo", 0, 2**20)
    cuts = even_cuts(grid.shape, (side,) * axes)
    tiles = make_tiles(grid.shape, cuts, margin + 1, same_size=False)
    method = "strips" if has_strips(grid) else "columns"
    if is_dask(theta) and out is None:
        if callback is not None or checkpoint is not None:
            raise ValueError(
                "callback, checkpoint: not for lazy bounds of a dask array; give out too"
            )
        options = (asked, columns, margin)
        ends = (
            end.reshape(shape).rechunk(theta.chunks)
            for end in _lazy_bounds(grid, source, tiles, cuts, options)
        )
        lower, upper = ends
        details: dict[str, Any] = {"tiles": len(tiles)}
        return Marginals(lower + (upper - lower) / 2, method, lower, upper, details=details)
    lower, upper = (np.empty(shape), np.empty(shape)) if out is None else _check_out(out, shape)
    widest, open_, most = 0.0, 0, margin
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    tasks = ((_problem(grid, source, tile, asked, columns, margin), folder) for tile in tiles)
    for number, (low, high, reach) in enumerate(TileMap(n_jobs)(bracket_saved, tasks)):
        core = tiles[number].core
        put_box(lower, core, low)
        put_box(upper, core, high)
        gap = high - low
        widest, most = max(widest, float(gap.max())), max(most, reach)
        open_ += int((gap > asked).sum())
        if callback is not None:
            callback(TileProgress(number + 1, len(tiles), open_))
    details = {"width": widest, "wider": open_, "tiles": len(tiles), "halo": most}
    if out is not None:
        return Marginals(np.empty(0), method, lower, upper, details=details)
    return Marginals(lower + (upper - lower) / 2, method, lower, upper, details=details)


def _lazy_bounds(
    grid: TileGrid,
    theta: Any,
    tiles: list[Tile],
    cuts: list[list[int]],
    options: tuple[float, int, int],
) -> Any:
    """Return lower and upper bounds as a dask array (2, ...), a task per chunk of some tiles."""
    import dask.array as da
    from dask import delayed

    ends = []
    for cut, chunks in zip(cuts, theta.chunks, strict=True):
        near = (min(cut, key=lambda c: abs(c - end)) for end in itertools.accumulate(chunks))
        ends.append(sorted({0, cut[-1], *near}))
    parts = make_tiles(grid.shape, ends, max(options[2], _MOST_HALO) + 1, same_size=False)
    blocks = np.empty(len(parts), dtype=object)
    for number, part in enumerate(parts):
        mine = [
            tile
            for tile in tiles
            if all(p.start <= c.start < p.stop for p, c in zip(part.core, tile.core, strict=True))
        ]
        sealed = Sealed((grid.crop(part.outer), part, mine, options))
        found = delayed(_bracket_part, pure=False)(theta[part.outer], sealed)
        blocks[number] = da.from_delayed(found, (2, *extent(part.core)), dtype=np.float64)
    return da.block(blocks.reshape([len(end) - 1 for end in ends]).tolist())


def _bracket_part(block: FloatArray, sealed: Sealed[Any]) -> FloatArray:
    """Return the lower and upper bounds of the tiles in a part of an image."""
    grid, part, tiles, options = sealed.value
    theta = Window(np.asarray(block), tuple(side.start for side in part.outer), grid.shape)
    found = np.empty((2, *extent(part.core)))
    for tile in tiles:
        low, high, _ = bracket_tile(_Problem(grid, theta, tile, *options))
        found[:, *relative(tile.core, part.core)] = low, high
    return found


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


def bracket_saved(problem: _Problem, folder: Path | None) -> tuple[FloatArray, FloatArray, int]:
    """Bracket the marginals of a tile, unless a file has them."""
    if folder is None:
        return bracket_tile(problem)
    grid, theta, tile, *options = problem
    box = _grown(tile.core, max(problem.halo, _MOST_HALO) + 1, grid.shape)
    field, weights = grid.field_parts(theta, box), grid.parts(box)
    whole = (grid.shape, grid.steps, *options)
    path = checkpoint_file(folder, Tile(tile.core, box), field, weights, _KIND, *whole)
    try:
        header, arrays = load_arrays(path, _KIND, _VERSION)
        return arrays["low"], arrays["high"], int(header["halo"])
    except (FileNotFoundError, KeyError, TypeError, ValueError):  # none, or damaged
        low, high, halo = bracket_tile(problem)
        save_arrays(path, _KIND, _VERSION, {"halo": halo}, {"low": low, "high": high})
        return low, high, halo


def bracket_tile(problem: _Problem) -> tuple[FloatArray, FloatArray, int]:
    """Return bounds on the marginals of the block of a tile, and the halo that was needed."""
    grid, theta, tile, width, window, halo = problem
    low, high = np.zeros(extent(tile.core)), np.ones(extent(tile.core))
    strips = has_strips(grid)
    most, farthest = (_MOST_WINDOW, _MOST_HALO) if strips else (_MOST_FRONT, _MOST_FRONT_HALO)
    last, wider = math.inf, False
    left = own_left = math.inf
    while True:
        outer = _grown(tile.core, halo + 1, grid.shape)
        at = Tile(tile.core, outer).inner
        lower, upper, own = _bracket_box(grid, theta, outer, window, at, strips)
        # brackets of several boxes hold at the same time
        low, high = np.maximum(low, lower), np.minimum(high, upper)
        gap = high - low
        widest = float(gap.max())
        if widest <= width:
            return low, high, halo
        whole = all(o.start == 0 and o.stop == n for o, n in zip(outer, grid.shape, strict=True))
        full = whole or 2 * halo > farthest
        worth = widest < _WORTH * last
        if strips:
            # wider strips, as long as they help: in wide areas without fields they do not. What
            # strips leave open, a larger halo does not close.
            limit, total = float(own.max()), float(own.sum())
            wider = limit > width / 2 and window < most and total < _HELPED * own_left
            worth = wider or (not full and (limit <= width or gap.sum() < _HELPED * left))
            left, own_left = float(gap.sum()), total
        elif not wider and (full or not worth):
            # a larger halo has not helped; columns of more pixels may, and cost more
            wider = worth = True
        if not worth or (wider and window >= most):
            return low, high, halo
        last = widest
        if wider:
            window = min(most, window + 2)
        else:
            halo = max(1, 2 * halo)


def _grown(core: Box, margin: int, shape: Sequence[int]) -> Box:
    return tuple(
        slice(max(0, side.start - margin), min(size, side.stop + margin))
        for side, size in zip(core, shape, strict=True)
    )


def _bracket_box(
    grid: TileGrid, theta: Any, box: Box, window: int, at: Box, strips: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return bounds on the marginals of a part of a box, with what lies around at both extremes.

    The third array has the widths of the brackets of strips for either extreme, which a larger halo
    hardly changes.
    """
    shape = extent(box)
    weights = grid.parts(box)
    field = box_field(grid.field_parts(theta, box))
    refuse_nan(field, [side.start for side in box])
    ring = on_frame(box, grid.shape)
    if strips:
        lower, upper = _by_strips(grid, field, weights, ring, window)
        own = (upper - lower)[:, *at].max(axis=0)
        low, high = lower[0], upper[1]
    else:
        edges = [weights.of(k, shape) for k in range(len(grid.steps))]
        front = min(window, _MOST_FRONT)
        high, _ = column_bounds(fold(field, grid.steps, edges, ring, up=True), front)
        _, low = column_bounds(fold(field, grid.steps, edges, ring, up=False), front)
        own = np.full(low[at].shape, np.inf)
    certain = np.isinf(field) & ~ring
    low[certain] = high[certain] = field[certain] > 0
    return low[at], high[at], own


def has_strips(grid: TileGrid) -> bool:
    """Return whether a grid is an image with edges between four neighbours only."""
    return len(grid.shape) == 2 and all(
        not terms or step in ((0, 1), (1, 0))
        for step, terms in zip(grid.steps, grid.terms, strict=True)
    )


def _by_strips(
    grid: TileGrid, field: FloatArray, weights: WeightParts, ring: BoolArray, window: int
) -> tuple[FloatArray, FloatArray]:
    """Return bounds (2, rows, columns) with the pixels around a box set to 0, and to 1."""
    across = weights.of(grid.steps.index((0, 1)), field.shape)
    down = weights.of(grid.steps.index((1, 0)), field.shape)
    fixed = ring | np.isinf(field)
    stacked = [_folded(field, across, down, fixed, ring, outside) for outside in (-1.0, 1.0)]
    stack = Stack(*(np.stack(each) for each in zip(*stacked, strict=True)))
    return marginal_brackets(stack, window)[0]


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
