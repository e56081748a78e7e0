"""Regular grids of images and volumes, possibly with fixed pixels.

A grid is recognised by its edges: the cuts of `grid_cuts`, a `Cut` with the edges of an image in
row-major order, or the remainder of either after conditioning. Pixels that were fixed stay in the
grid as pixels that are not elements. Pairwise functions on 4-neighbour images have a form of their
own, `Image`, for strips and transfer matrices.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from logsuper._base import BoolArray, FloatArray, IntArray
from logsuper.functions import Cut

Step = tuple[int, int, int]
Shape = tuple[int, int, int]
WeightedCut = tuple[int, float, Cut]
"""The index of a function, a factor, and one of its cuts."""
Origin = tuple[Cut, IntArray | None]

# The stencils that the grid kernel supports, as steps in (depth, height, width), along rows first.
_AXES_2 = ((0, 0, 1), (0, 1, 0))
_PLANE_8 = (*_AXES_2, (0, 1, 1), (0, 1, -1))
_AXES_3 = (*_AXES_2, (1, 0, 0))
_ALL_26 = (
    *_AXES_3,
    *((0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0)),
    *((1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1)),
)
STENCILS: tuple[tuple[Step, ...], ...] = (_AXES_2, _AXES_3, _PLANE_8, _ALL_26)

# Maximum number of pixels, including padding, of the grid kernel.
_LARGEST_GRID = (1 << 30) - 1
# A grid of more pixels than the first number is treated as a list of edges if its fraction of
# elements is below the second.
_SMALL_GRID, _FEWEST = 1 << 12, 0.1
# Minimum width (and height of planes) of grids guessed from edges, except 4-neighbour images.
_NARROWEST = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    r"""A regular grid and the weights of functions on its edges.

    Attributes
    ----------
    shape : tuple of three int
        Depth, height and width.
    steps : tuple of steps
        One of `STENCILS`: the offsets from the first end of an edge to the second.
    planes : list of (int, int, float or ndarray of shape (N,))
        Index of the function, index of the step, and the weights of the edges, stored at their
        first ends; a single number if all edges of this step between elements have the same
        weight. Edges of pixels that are not elements have weight 0 in either case.
    pixels : ndarray of shape (n,), int64, or None
        The pixel of each element; None if every pixel is an element, in row-major order.
    """

    shape: Shape
    steps: tuple[Step, ...]
    planes: list[tuple[int, int, float | FloatArray]]
    pixels: IntArray | None = None

    @property
    def size(self) -> int:
        """Number of pixels, including those that are not elements."""
        return math.prod(self.shape)

    @property
    def is_image(self) -> bool:
        """Whether this is an image, or a row, with edges between 4-neighbours only."""
        used = {self.steps[step] for _, step, _ in self.planes}
        return self.shape[0] == 1 and used <= set(_AXES_2)

    def edges(self) -> IntArray:
        """Return all edges (E, 2) between pixels in the order of the kernel: by step, row-major."""
        index = np.arange(self.size, dtype=np.int64).reshape(self.shape)
        ends = [
            [index[_part(self.shape, step, end)].ravel() for end in (0, 1)] for step in self.steps
        ]
        return np.concatenate([np.stack(pair, axis=1) for pair in ends])

    def to_pixels(self, elements: IntArray) -> IntArray:
        """Return the pixels of elements; the array may have any shape, such as that of edges."""
        return elements if self.pixels is None else self.pixels[elements]

    @cached_property
    def least_width(self) -> int:
        """Lower bound on the treewidth: the second longest side minus the number of fixed pixels.

        The bound is 0 if an edge between neighbours along an axis is missing.
        """
        holes = 0 if self.pixels is None else self.size - len(self.pixels)
        missing = np.zeros(self.shape, dtype=bool)
        if self.pixels is not None:
            missing.ravel()[:] = True
            missing.ravel()[self.pixels] = False
        for axis, size in enumerate(self.shape):
            step = tuple(int(a == axis) for a in range(3))
            if size == 1:
                continue
            first, second = (_part(self.shape, step, end) for end in (0, 1))  # type: ignore[arg-type]
            there = missing[first] | missing[second]
            for _, number, value in self.planes:
                if self.steps[number] == step:
                    plane = value if isinstance(value, float) else value.reshape(self.shape)[first]
                    there = there | (np.asarray(plane) > 0)
            if not there.all():
                return 0
        return max(0, sorted(self.shape)[-2] - holes)

    def couplings(
        self, alpha: FloatArray, factors: FloatArray | None, problems: int
    ) -> tuple[IntArray, FloatArray]:
        """Return offsets (O,) from first to second ends, and weights (problems, O, N) at the first.

        `factors` has shape (M or 1, K or 1, E), in the order of `edges`.
        """
        used = sorted({step for _, step, _ in self.planes})
        weights = np.zeros((len(used), problems, *self.shape))
        starts = np.cumsum([0, *(_count(self.shape, step) for step in self.steps)])
        for k, step, value in self.planes:
            block = (slice(None), *_part(self.shape, self.steps[step], 0))
            plane = weights[used.index(step)][block]
            own = value if isinstance(value, float) else value.reshape(1, *self.shape)[block]
            factor: float | FloatArray = 1.0
            if factors is not None:
                mine = slice(starts[step], starts[step + 1])
                factor = factors[:, min(k, factors.shape[1] - 1), mine]
                factor = factor.reshape(-1, *plane.shape[1:])
            plane += alpha[:, k, None, None, None] * own * factor
        _, height, width = self.shape
        steps = np.array([self.steps[step] for step in used], dtype=np.int64).reshape(-1, 3)
        offsets = steps @ np.array([height * width, width, 1])
        ordered = weights.reshape(len(used), problems, self.size).swapaxes(0, 1)
        return offsets, np.ascontiguousarray(ordered)


def find_grid(n: int, cuts: Sequence[WeightedCut]) -> Grid | None:
    """Return the grid on which all cuts lie, or None if there is none.

    For cuts that result from conditioning, the grid before conditioning is tried first.
    """
    if not cuts or n == 0:
        return None
    origins = [cut.origin for _, _, cut in cuts]
    if origins[0][1] is not None and all(_same(origin, origins[0]) for origin in origins[1:]):
        found = _on_grid(cuts, origins)
        if found is not None:
            return found
    return _on_grid(cuts, [(cut, None) for _, _, cut in cuts])


def _on_grid(cuts: Sequence[WeightedCut], origins: Sequence[Origin]) -> Grid | None:
    """Return the grid of cuts, given the cut and the free elements that each was made from."""
    pixels = origins[0][1]
    size = origins[0][0].n
    if pixels is not None and size > _SMALL_GRID and len(pixels) < _FEWEST * size:
        return None
    shapes = {other.shape for other, _ in origins if other.shape is not None}
    if len(shapes) > 1:
        return None
    shape = _as_three(shapes.pop()) if shapes else _guess(size, [other for other, _ in origins])
    if shape is None or math.prod(shape) != size:
        return None
    while shape[2] == 1 and size > 1:  # turn a column into a row
        shape = (shape[2], shape[0], shape[1])
    # The kernel pads rows to multiples of 64: for a large grid with short rows, edges are better.
    padded = size // shape[2] * (-(-shape[2] // 64) * 64)
    if padded > _LARGEST_GRID or (padded > 4 * size and size > 1 << 16):
        return None
    holes: BoolArray | None = None
    if pixels is not None:
        holes = np.ones(shape, dtype=bool)
        holes.ravel()[pixels] = False
    planes: list[tuple[int, Step, float | FloatArray]] = []
    for number, factor, cut in cuts:
        if pixels is None and cut.offset is not None:
            if cut.weights.size:
                step = _turned(cut.offset, cut.shape)
                planes.append((number, step, _on_step(shape, step, cut) * factor))
            continue
        ends = cut.edges if pixels is None else pixels[cut.edges]
        found = _by_step(shape, ends, cut.weights, holes)
        if found is None:
            return None
        planes += [(number, step, value * factor) for step, value in found]
    used = {step for _, step, _ in planes}
    steps = next(
        (s for s in STENCILS if used <= set(s) and (shape[0] == 1 or s is not _AXES_2)), None
    )
    if steps is None:
        return None
    if holes is not None and not all(isinstance(value, float) for _, _, value in planes):
        planes = [(number, step, _spread(holes, step, value)) for number, step, value in planes]
    numbered = [(number, steps.index(step), value) for number, step, value in planes]
    return Grid(shape, steps, numbered, pixels)


def _same(one: Origin, other: Origin) -> bool:
    """Return whether two cuts have the same free elements of ground sets of the same size."""
    (root, left), (its_root, its_left) = one, other
    if root.n != its_root.n or left is None or its_left is None:
        return root.n == its_root.n and left is its_left
    return left is its_left or np.array_equal(left, its_left)


def _part(shape: Shape, step: Step, end: int) -> tuple[slice, ...]:
    """Return the slices of the grid at the first (0) or second (1) ends of the edges of a step."""
    signs = step if end else tuple(-s for s in step)
    return tuple(slice(max(0, s), size + min(0, s)) for s, size in zip(signs, shape, strict=True))


def _count(shape: Shape, step: Step) -> int:
    """Return the number of edges of a step."""
    return math.prod(max(0, size - abs(s)) for s, size in zip(step, shape, strict=True))


def _as_three(shape: tuple[int, ...]) -> Shape:
    a, b, c = (1,) * (3 - len(shape)) + tuple(shape)
    return a, b, c


def _turned(offset: tuple[int, ...], shape: tuple[int, ...] | None) -> Step:
    """Return the step of a grid cut after columns have been turned into rows."""
    assert shape is not None
    sizes = list(_as_three(shape))
    step = [0] * (3 - len(offset)) + list(offset)
    while sizes[2] == 1 and math.prod(sizes) > 1:
        sizes, step = [sizes[2], *sizes[:2]], [step[2], *step[:2]]
    return step[0], step[1], step[2]


def _on_step(shape: Shape, step: Step, cut: Cut) -> float | FloatArray:
    """Return the weights of a cut of one direction: a single number if they are all equal."""
    first = float(cut.weights[0])
    if cut.weights.strides == (0,) or bool((cut.weights == first).all()):
        return first
    plane = np.zeros(shape)
    block = _part(shape, step, 0)
    plane[block] = cut.weights.reshape(plane[block].shape)
    return plane.ravel()


def _by_step(
    shape: Shape, edges: IntArray, weights: FloatArray, holes: BoolArray | None
) -> list[tuple[Step, float | FloatArray]] | None:
    """Group edges between pixels by their step; return None if a step is not supported.

    The weights of a step are a single number if all edges between elements exist and are equal.
    """
    a, b = (np.stack(np.unravel_index(end, shape), axis=1) for end in edges.T)
    steps, place = np.unique(b - a, axis=0, return_inverse=True)
    if len(steps) > len(_ALL_26):
        return None
    found: list[tuple[Step, float | FloatArray]] = []
    for t, row in enumerate(steps):
        step: Step = (int(row[0]), int(row[1]), int(row[2]))
        if step not in _ALL_26:
            return None
        mine = place.ravel() == t
        own = weights[mine]
        if (own == own[0]).all() and len(own) == _between(shape, step, holes).sum():
            found.append((step, float(own[0])))
            continue
        plane = np.zeros(math.prod(shape))
        plane[edges[mine, 0]] = own
        found.append((step, plane))
    return found


def _between(shape: Shape, step: Step, holes: BoolArray | None) -> BoolArray:
    """Return, at the first ends of the edges of a step, whether both ends are elements."""
    first, second = (_part(shape, step, end) for end in (0, 1))
    if holes is None:
        return np.ones(_count(shape, step), dtype=bool)
    return ~(holes[first] | holes[second])


def _spread(holes: BoolArray, step: Step, value: float | FloatArray) -> FloatArray:
    """Return a single weight as an array with one weight per edge between elements."""
    if not isinstance(value, float):
        return value
    plane, shape = np.zeros(holes.shape), _as_three(holes.shape)
    plane[_part(shape, step, 0)] = value * _between(shape, step, holes)
    return plane.ravel()


def _guess(n: int, cuts: Sequence[Cut]) -> Shape | None:
    """Return the shape of an image or volume, in row-major order, whose grid has all edges."""
    every = np.concatenate([cut.edges for cut in cuts])
    lags = np.unique(every[:, 1] - every[:, 0])
    wide = [int(lag) for lag in lags if lag > 1]
    if not wide or len(lags) > len(_ALL_26):
        return None
    # a few edges fit many different grids, so beyond 4-neighbour images require at least n of them
    for shape in _candidates(n, wide, 1 in lags and len(every) >= n):
        if _fits(shape, every):
            return shape
    return None


def _candidates(n: int, lags: list[int], beyond: bool) -> Iterator[Shape]:
    """Yield shapes whose steps may produce these index lags; with `beyond`, all stencils."""
    if len(lags) == 1 and n % lags[0] == 0:
        yield 1, n // lags[0], lags[0]
    if not beyond or len(lags) == 1:
        return
    # the lags of an image are 1, w - 1, w, w + 1; a volume adds those between its planes
    widths = [w for w in dict.fromkeys((lags[0], lags[0] + 1)) if w >= _NARROWEST and n % w == 0]
    for width in widths:
        if lags[-1] <= width + 1:
            yield 1, n // width, width
    for width in widths:
        for lag in lags:
            if lag > width and lag % width == 0 and n % lag == 0 and lag // width >= _NARROWEST:
                yield n // lag, lag // width, width


def _fits(shape: Shape, edges: IntArray) -> bool:
    """Return whether all edges are between neighbours of a grid."""
    a, b = (np.stack(np.unravel_index(end, shape)) for end in edges.T)
    return bool((np.abs(b - a).max(axis=0) <= 1).all())


@dataclasses.dataclass(frozen=True, eq=False)
class Image:
    r"""A function :math:`\sum_ew_e|x_i-x_j|-t^\top x` on the 4-neighbour grid of an image.

    A pixel that is not an element is kept without edges and without a field, which doubles Z.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    t : ndarray of shape (rows, columns)
    across : ndarray of shape (rows, columns - 1)
        Weights >= 0 between horizontal neighbours.
    down : ndarray of shape (rows - 1, columns)
        Weights >= 0 between vertical neighbours.
    pixels : ndarray of shape (n,), int64
        The pixel of each element of the function, in row-major order.
    """

    shape: tuple[int, int]
    t: FloatArray
    across: FloatArray
    down: FloatArray
    pixels: IntArray

    @classmethod
    def lay(
        cls,
        shape: tuple[int, int],
        edges: IntArray,
        weights: FloatArray,
        field: FloatArray,
        pixels: IntArray | None = None,
    ) -> Image:
        """Return the function with the given weights on edges (E, 2) between elements.

        The weights of repeated edges are summed, in their order.
        """
        rows, columns = shape
        place = np.arange(len(field), dtype=np.int64) if pixels is None else pixels
        first, second = place[edges[:, 0]], place[edges[:, 1]]
        down = second - first == columns if columns > 1 else np.ones(len(first), dtype=bool)
        planes = np.zeros((2, rows * columns))
        np.add.at(planes, (down.astype(np.int64), first), weights)
        image = np.zeros(rows * columns)
        image[place] = field
        across, below = planes.reshape(2, rows, columns)
        return cls(
            shape,
            image.reshape(shape),
            np.ascontiguousarray(across[:, :-1]),
            np.ascontiguousarray(below[:-1]),
            place,
        )

    @property
    def fixed(self) -> int:
        """Number of pixels that are not elements."""
        return self.t.size - len(self.pixels)

    def transposed(self) -> Image:
        """Return the same function with rows and columns exchanged."""
        rows, columns = self.shape
        t, across, down = (np.ascontiguousarray(p.T) for p in (self.t, self.down, self.across))
        r, c = np.divmod(self.pixels, columns)
        return Image((columns, rows), t, across, down, c * rows + r)

    def mirrored(self) -> Image:
        """Return the same function with the columns in the opposite order."""
        parts = (self.t, self.across, self.down)
        t, across, down = (np.ascontiguousarray(part[:, ::-1]) for part in parts)
        r, c = np.divmod(self.pixels, self.shape[1])
        return Image(self.shape, t, across, down, (r + 1) * self.shape[1] - 1 - c)

    def edges(self) -> tuple[IntArray, FloatArray]:
        """Return all edges (E, 2) between pixels, including weights of 0, and their weights."""
        index = np.arange(self.t.size).reshape(self.shape)
        across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
        down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
        weights = np.concatenate([self.across.ravel(), self.down.ravel()])
        return np.concatenate([across, down]), weights
