r"""The grid of an image or volume that is solved by tiles: weights of any box of it.

A whole solve rounds all numbers to multiples of a quantum, which depends on the largest weights,
and on whether the fields are large enough for 32-bit integers, else 64-bit ones (``cuts.hpp``).
`Units` is this choice for the whole image, made before any tile is solved, so that tiles round
every number as a whole solve does.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from logsuper._base import BoolArray, Box, FloatArray, IntArray
from logsuper.functions import Cut, Modular, SubmodularFunction, check_function
from logsuper.solvers._native import kernels
from logsuper.solvers._tile_sources import (
    check_source,
    crop,
    hold,
    load_part,
    part_of,
    squeeze,
)
from logsuper.structures import STENCILS

Step = tuple[int, ...]
Tier = Literal["narrow", "wide", "capped", "exact"]


class Units(NamedTuple):
    """How the numbers of the whole image are rounded.

    Attributes
    ----------
    tier : str
        "narrow" (32-bit integers), "wide" (64-bit), "capped" (64-bit, finer than the weights
        alone would allow), or "exact" (no rounding).
    degree : float
        Bound on the sum of the weights at one pixel.
    scale : float
        Integers per unit; 0 if nothing is rounded.
    """

    tier: Tier
    degree: float
    scale: float

    def rounded(self, numbers: FloatArray) -> FloatArray:
        """Return numbers rounded as in a whole solve; infinite ones are kept."""
        if not self.scale:
            return numbers
        return np.asarray(np.rint(numbers * self.scale) / self.scale)


@dataclasses.dataclass(frozen=True, eq=False)
class TileGrid:
    """The weights of a function on the grid of an image.

    Attributes
    ----------
    shape : tuple of int
        One to three axes; trailing axes of length 1 have been removed.
    steps : tuple of tuple of int
        Offsets from the first to the second ends of edges, in the order of the kernel.
    terms : tuple of tuple of (float, source or None)
        For each step factors, and arrays of the shape of the edges of this step; the weight of an
        edge is the sum of factor * array.
    tilt : ndarray or None
        Sum of the modular terms, of the shape of the image.
    held : ndarray of int8 or None
        For a function that was conditioned: 0 at free pixels, else the sign of an infinite field.
        Edges of held pixels have weight 0, as their pull is in the modular terms.
    """

    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    terms: tuple[tuple[tuple[float, Any], ...], ...]
    tilt: Any = None
    held: NDArray[np.int8] | None = None

    @property
    def size(self) -> int:
        """Number of pixels."""
        return math.prod(self.shape)

    @property
    def uniform(self) -> bool:
        """Whether each step has one weight for all edges."""
        return all(array is None for terms in self.terms for _, array in terms)

    def commons(self) -> tuple[float, ...]:
        """Return the weight of each step if `uniform`."""
        return tuple(float(sum((factor for factor, _ in terms), 0.0)) for terms in self.terms)

    def edge_box(self, step: Step, box: Box) -> Box:
        """Return the part of the array of edges of a step whose edges lie inside a box."""
        return tuple(
            slice(side.start, max(side.start, side.stop - abs(s)))
            for side, s in zip(box, step, strict=True)
        )

    def parts(self, box: Box) -> WeightParts:
        """Return what is needed to compute the weights inside a box, elsewhere too."""
        if self.uniform:
            return WeightParts(self.steps, self.commons(), ())
        parts = tuple(
            tuple(
                (factor, None if array is None else part_of(array, self.edge_box(step, box)))
                for factor, array in terms
            )
            for step, terms in zip(self.steps, self.terms, strict=True)
        )
        return WeightParts(self.steps, None, parts)

    def crop(self, box: Box) -> TileGrid:
        """Return the same grid, of which only boxes within a box can be read."""
        terms = tuple(
            tuple(
                (factor, None if array is None else crop(array, self.edge_box(step, box)))
                for factor, array in terms
            )
            for step, terms in zip(self.steps, self.terms, strict=True)
        )
        tilt = None if self.tilt is None else crop(self.tilt, box)
        return dataclasses.replace(self, terms=terms, tilt=tilt, held=None)

    def field_parts(self, theta: Any, box: Box) -> tuple[Any, Any]:
        """Return what is needed to compute the field in a box: theta and the modular terms."""
        return part_of(theta, box), None if self.tilt is None else part_of(self.tilt, box)


class WeightParts(NamedTuple):
    """The weights of the edges in a box; arrays of files are read when they are asked for."""

    steps: tuple[Step, ...]
    commons: tuple[float, ...] | None
    terms: tuple[Any, ...]

    def of(self, number: int, shape: Sequence[int]) -> FloatArray:
        """Return the weights of the edges of a step, in a box of this shape."""
        sides = tuple(
            max(0, size - abs(s)) for size, s in zip(shape, self.steps[number], strict=True)
        )
        if self.commons is not None:
            return np.full(sides, self.commons[number])
        total = np.zeros(sides)
        for factor, part in self.terms[number]:
            total += factor if part is None else factor * load_part(part)
        if not (np.isfinite(total).all() and (total >= 0).all()):
            raise ValueError(
                "edge_weights must be finite and >= 0: a negative weight is repulsive, hence not "
                "submodular"
            )
        return total

    def factors(self, shape: Sequence[int]) -> FloatArray | None:
        """Return the weights of all edges in the order of the kernel; None if uniform."""
        if self.commons is not None:
            return None
        return np.concatenate([self.of(k, shape).ravel() for k in range(len(self.steps))])

    def at(self, shape: Sequence[int], places: Sequence[IntArray]) -> FloatArray:
        """Return weights (P, 2 K) from pixels along and against each step; 0 if not in the box."""
        found = np.zeros((len(places[0]), 2 * len(self.steps)))
        for k, step in enumerate(self.steps):
            table = None if self.commons is not None else self.of(k, shape)
            low = [min(0, s) for s in step]
            for back in (0, 1):
                # an array of edges is indexed by the smaller coordinate of the two ends
                first = [p - back * s for p, s in zip(places, step, strict=True)]
                corner = [p + m for p, m in zip(first, low, strict=True)]
                sides = [size - abs(s) for size, s in zip(shape, step, strict=True)]
                inside = np.ones(len(places[0]), dtype=bool)
                for c, size in zip(corner, sides, strict=True):
                    inside &= (c >= 0) & (c < size)
                column = found[:, 2 * k + back]
                if table is None:
                    assert self.commons is not None
                    column[inside] = self.commons[k]
                else:
                    column[inside] = table[tuple(c[inside] for c in corner)]
        return found


class Model(Protocol):
    """The part of a `LogSupermodular` that is used here: its function and its fixed elements."""

    f: SubmodularFunction
    fixed: dict[int, int]


def lay_problem(
    f: SubmodularFunction | Model, theta: Any, edge_weights: Sequence[Any] | None = None
) -> tuple[TileGrid, Any, tuple[int, ...]]:
    """Return the grid of a function or model, its fields, and the shape of its image.

    The fields of held pixels are infinite, and axes of length 1 are removed at the end.
    """
    fixed: dict[int, int] = {}
    if not isinstance(f, SubmodularFunction):
        f, fixed = getattr(f, "f", f), getattr(f, "fixed", {})
    grid, shape = lay_grid(check_function(f), edge_weights, fixed, np.shape(theta))
    source = check_source(theta, "theta", shape)
    if len(shape) > len(grid.shape):
        source = squeeze(source, grid.shape)
    return grid, source if grid.held is None else hold(source, grid.held), shape


def lay_grid(
    f: SubmodularFunction,
    edge_weights: Sequence[Any] | None = None,
    fixed: Mapping[int, int] | None = None,
    image: Sequence[int] = (),
) -> tuple[TileGrid, tuple[int, ...]]:
    """Return a sum of grid cuts and modular functions as a grid, and the shape of its image.

    Parameters
    ----------
    f : SubmodularFunction
        Possibly conditioned.
    edge_weights : sequence of array, optional
    fixed : mapping of int to {0, 1}, optional
        Values of the pixels that f was conditioned on; 0 where not given.
    image : sequence of int
        Shape of the image, for functions without cuts: those of coupling 0.

    Raises
    ------
    TypeError
        If f has other terms.
    """
    cuts: list[tuple[float, Cut, Cut]] = []
    modular: list[tuple[float, Modular]] = []
    for factor, atom in f.terms():
        if isinstance(atom, Modular):
            modular.append((factor, atom))
        elif isinstance(atom, Cut) and atom.origin[0].offset is not None:
            cuts.append((factor, atom, atom.origin[0]))
        else:
            raise TypeError(
                f"f has the term {atom!r}; tiles need a sum of the cuts of grid_cuts(shape) and of "
                "Modular functions. Use maximize for others"
            )
    shapes = {root.shape for _, _, root in cuts}
    if not cuts and 1 <= len(image) <= 3 and math.prod(image) == f.n:
        shapes = {tuple(int(size) for size in image)}
    if len(shapes) != 1:
        raise TypeError("f must have cuts of grid_cuts(shape), all of one shape")
    [full] = shapes
    assert full is not None
    shape = tuple(full)
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    axes = len(shape)
    is_free = _free_pixels([cut for _, cut, _ in cuts])
    tables = _edge_tables([root for _, _, root in cuts], edge_weights)
    by_step: dict[tuple[int, ...], list[tuple[float, Any]]] = {}
    for factor, cut, root in cuts:
        assert root.offset is not None
        sides = _edge_shape(full, root.offset)
        if 0 in sides:
            continue
        array: Any = None
        if is_free is not None:
            whole = np.zeros(math.prod(sides))
            whole[is_free[root.edges].all(axis=1)] = cut.weights * factor
            array, factor = whole.reshape(sides[:axes]), 1.0
        elif cut.weights.strides == (0,):
            factor = float(cut.weights[0]) * factor
        else:
            array = (cut.weights * factor).reshape(sides[:axes])
            factor = 1.0
        if tables is not None:
            table = tables[root.offset]
            if array is not None:
                array = array * np.asarray(table).reshape(sides[:axes])
            else:
                array = table if len(full) == axes else squeeze(table, sides[:axes])
        three = (0,) * (3 - axes) + tuple(root.offset[:axes])
        by_step.setdefault(three, []).append((factor, array))
    steps = next(
        s for s in STENCILS if set(by_step) <= set(s) and (axes < 3 or len(s) not in (2, 4))
    )
    held = tilt = None
    if modular:
        tilt = sum((factor * atom.t for factor, atom in modular), np.zeros(1))
    if is_free is not None:
        held = np.where(is_free, 0, -1).astype(np.int8)
        held[[place for place, value in (fixed or {}).items() if value]] = 1
        held = held.reshape(shape)
        if tilt is not None:
            spread = np.zeros(shape)
            spread.ravel()[is_free] = tilt
            tilt = spread
    grid = TileGrid(
        shape,
        tuple(tuple(step[3 - axes :]) for step in steps if not any(step[: 3 - axes])),
        tuple(tuple(by_step.get(step, ())) for step in steps if not any(step[: 3 - axes])),
        None if tilt is None else tilt.reshape(shape),
        held,
    )
    return grid, tuple(full)


def _free_pixels(cuts: Sequence[Cut]) -> BoolArray | None:
    """Return which pixels are elements of cuts that were conditioned; None if all are."""
    if not cuts:
        return None
    (root, free), *others = (cut.origin for cut in cuts)
    left = np.arange(0) if free is None else free
    for _, mine in others:
        if (mine is None) == (free is None) and (mine is None or np.array_equal(mine, left)):
            continue
        raise TypeError("all terms of f must be conditioned on the same pixels")
    if free is None:
        return None
    found = np.zeros(root.n, dtype=bool)
    found[free] = True
    return found


def _edge_shape(shape: Sequence[int], offset: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(0, size - abs(o)) for size, o in zip(shape, offset, strict=True))


def _edge_tables(
    cuts: Iterable[Cut], edge_weights: Sequence[Any] | None
) -> dict[tuple[int, ...], Any] | None:
    """Return the factors on the edges of each offset, checked."""
    if edge_weights is None:
        return None
    offsets = list(dict.fromkeys((cut.offset, cut.shape) for cut in cuts))
    if len(edge_weights) != len(offsets):
        raise ValueError(
            f"edge_weights has {len(edge_weights)} arrays, but f has {len(offsets)} directions; "
            "give one array per direction, in the order of the cuts"
        )
    found = {}
    for k, ((offset, shape), table) in enumerate(zip(offsets, edge_weights, strict=True)):
        assert offset is not None and shape is not None
        found[offset] = check_source(table, f"edge_weights[{k}]", _edge_shape(shape, offset))
    return found


def tile_kernel(shape: tuple[int, ...], steps: tuple[Step, ...], commons: Any) -> Any:
    """Return the kernel of a box; with `commons` None, weights are given in each call.

    Kernels are kept for the next boxes of this shape, with their work space: many of narrow
    strips, few of large boxes.
    """
    find = _large_kernel if math.prod(shape) > _LARGE else _small_kernel
    return find(shape, steps, commons)


def forget_kernels() -> None:
    """Free the work space of all kernels."""
    _large_kernel.cache_clear()
    _small_kernel.cache_clear()


# Pixels of a box beyond which few kernels are kept.
_LARGE = 1 << 17


@functools.lru_cache(maxsize=2)
def _large_kernel(shape: tuple[int, ...], steps: tuple[Step, ...], commons: Any) -> Any:
    return _make_kernel(shape, steps, commons)


@functools.lru_cache(maxsize=16)
def _small_kernel(shape: tuple[int, ...], steps: tuple[Step, ...], commons: Any) -> Any:
    return _make_kernel(shape, steps, commons)


def _make_kernel(shape: tuple[int, ...], steps: tuple[Step, ...], commons: Any) -> Any:
    native = kernels()
    assert native is not None
    pad = 3 - len(shape)
    three = np.array([(0,) * pad + step for step in steps], dtype=np.int64)
    if len(three) == 1:  # a row: the kernel has at least two steps
        three = np.array([(0, 0, 1), (0, 1, 0)], dtype=np.int64)
    weights = (1.0,) * len(steps) if commons is None else commons
    planes = [(0, k, weight) for k, weight in enumerate(weights)]
    return native.grid(*(1,) * pad, *shape, three, 1, planes)


def box_field(parts: tuple[Any, Any], copy: bool = False) -> FloatArray:
    """Return the field in a box as a contiguous array, from `TileGrid.field_parts`."""
    first = load_part(parts[0])
    field = np.array(first, dtype=np.float64, order="C", copy=copy or None)
    return field if parts[1] is None else field - load_part(parts[1])


def pixel_bytes(steps: int, wide: bool, uniform: bool) -> float:
    """Return the approximate number of bytes per pixel of a task that solves a box."""
    solver = (2 * steps + 2) * (8 if wide else 4) + 8 + (3 * steps + 8) / 8
    return solver + 8 * 3 + 4 + (0 if uniform else 24 * steps)
