"""Pairwise functions on 4-neighbour image grids, as arrays for strips and transfer matrices."""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray, IntArray


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
