r"""Features of pixels: what :math:`\Phi_i` is in the field :math:`t+\Phi_i\beta+w\,l_i`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.solvers import kernels


@dataclasses.dataclass(frozen=True, eq=False)
class Dense:
    """Features that the user gives, shape (N, n, p)."""

    values: FloatArray

    @property
    def size(self) -> int:
        """Number of features of a pixel."""
        return int(self.values.shape[2])

    def inputs(self, rows: IntArray, odds: FloatArray | None) -> FloatArray:
        r"""Return what :math:`\Phi_i` of some examples is made from: the features."""
        return self.values[rows]

    def field(self, inputs: FloatArray, beta: FloatArray) -> FloatArray:
        r"""Return :math:`\Phi_i\beta`, (B, n)."""
        return np.asarray(inputs @ beta)

    def statistics(self, inputs: FloatArray, mean: FloatArray) -> FloatArray:
        r"""Return :math:`\Phi_i^\top x_i`, (B, p)."""
        return np.asarray(np.einsum("bdp,bd->bp", inputs, mean))

    def subset(self, rows: IntArray) -> Dense:
        """Return the features of some examples only."""
        return Dense(self.values[rows])


@dataclasses.dataclass(frozen=True)
class Context:
    r"""What was observed around a pixel: :math:`\tanh(l/2)` of the other pixels of a window.

    That is the posterior mean of the sign of each neighbour, on its own and without a prior: +-1
    where an observation leaves no doubt, 0 where there is none and beyond the border. The
    coefficients are a linear filter. The pixel itself is left out: it has its place in
    :math:`w\,l_i`, and without it features and the noise of the pixel are independent, which
    learning by moments rests on. Nothing is stored; the filter is applied when it is needed.

    Attributes
    ----------
    shape : tuple of int
        Of the images.
    radius : int
        The window reaches that far along each axis.

    Examples
    --------
    >>> from logsuper.learning import Context
    >>> Context((50, 50), radius=1)
    Context(shape=(50, 50), radius=1)
    """

    shape: tuple[int, ...]
    radius: int

    @property
    def size(self) -> int:
        """Number of neighbours."""
        return int((2 * self.radius + 1) ** len(self.shape)) - 1

    def inputs(self, rows: IntArray, odds: FloatArray | None) -> FloatArray:
        """Return what was observed, with a margin."""
        return self._padded(odds)

    def field(self, inputs: FloatArray, beta: FloatArray) -> FloatArray:
        """Return the filtered observations."""
        field = np.zeros((len(inputs), *self._size))
        native = kernels()
        if native is not None:
            window = np.insert(beta, len(beta) // 2, 0.0)  # the pixel itself
            native.filter_field(inputs, window.reshape(self._taps), field)
        else:
            for place, weight in zip(self._places(), beta, strict=True):
                field += weight * inputs[place]
        return field.reshape(len(inputs), -1)

    def statistics(self, inputs: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the sums of the neighbours over the ones."""
        x = np.ascontiguousarray(mean, dtype=np.float64).reshape(-1, *self._size)
        native = kernels()
        if native is not None:
            sums = np.zeros((len(inputs), *self._taps))
            native.filter_sums(inputs, x, sums)
            return np.delete(sums.reshape(len(inputs), -1), self.size // 2, axis=1)
        result = np.empty((len(inputs), self.size))
        for k, place in enumerate(self._places()):
            result[:, k] = np.einsum("izyx,izyx->i", inputs[place], x)
        return result

    def reached(self, inputs: FloatArray) -> FloatArray | None:
        """Return 1 where anything was observed around a pixel, else 0, (B, n); None if everywhere.

        The pixel itself does not count, as it does not in the features.
        """
        center = tuple(
            slice(t // 2, t // 2 + n) for t, n in zip(self._taps, self._size, strict=True)
        )
        if not self.radius or inputs[(slice(None), *center)].all():
            return None
        return (self.field((inputs != 0.0).astype(np.float64), np.ones(self.size)) > 0.5).astype(
            np.float64
        )

    def subset(self, rows: IntArray) -> Context:
        """Return itself: it depends on the shape alone."""
        return self

    @property
    def _size(self) -> tuple[int, ...]:
        """The shape with three axes."""
        return (1,) * (3 - len(self.shape)) + self.shape

    @property
    def _taps(self) -> tuple[int, ...]:
        """The shape of the window with three axes."""
        return (1,) * (3 - len(self.shape)) + (2 * self.radius + 1,) * len(self.shape)

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape of an image with a margin, with three axes."""
        return tuple(a + b - 1 for a, b in zip(self._size, self._taps, strict=True))

    def _padded(self, odds: FloatArray | None) -> FloatArray:
        """Return the features as images with a margin of zeros, (B, depth, height, width)."""
        assert odds is not None
        half = odds.reshape(-1, *self._size) / 2.0
        margins = [(0, 0), *((taps // 2, taps // 2) for taps in self._taps)]
        return np.pad(np.tanh(half, out=half), margins)

    def _places(self) -> Iterator[tuple[slice, ...]]:
        """Yield, for each neighbour, where all pixels' neighbours lie in padded images."""
        center = tuple(taps // 2 for taps in self._taps)
        for step in product(*(range(taps) for taps in self._taps)):
            if step != center:
                yield (
                    slice(None),
                    *(slice(o, o + size) for o, size in zip(step, self._size, strict=True)),
                )


Judge = Callable[[IntArray, FloatArray], FloatArray]
"""Returns the log-odds (B, n) of pixels given what was observed around each.

Called with the numbers of examples (B,), in the user's order, and the log-odds (B, ...) of their
own observations, in the shape of the images.
"""


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a judge makes of the surroundings of a pixel, beside those themselves.

    The judge is asked again whenever observations change: when pixels are hidden, or images are
    corrupted again. For learning by moments it must not use the observation of the pixel itself,
    nor have been trained with it.

    Attributes
    ----------
    around : Context
        The features before the last one; of radius 0 for none.
    judge : callable
        Returns the last feature, see `Judge`.
    numbers : ndarray of shape (N,)
        The numbers of the examples that the judge is told.
    """

    around: Context
    judge: Judge
    numbers: IntArray

    @property
    def size(self) -> int:
        """Number of features of a pixel."""
        return self.around.size + 1

    def inputs(self, rows: IntArray, odds: FloatArray | None) -> FloatArray:
        """Return what was observed, with a margin, and behind it what the judge says, (B, m)."""
        assert odds is not None
        shape = self.around.shape
        said = self.judge(self.numbers[rows], odds.reshape(-1, *shape))
        padded = self.around.inputs(rows, odds)
        return np.concatenate([part.reshape(len(odds), -1) for part in (padded, said)], axis=1)

    def field(self, inputs: FloatArray, beta: FloatArray) -> FloatArray:
        """Return the filtered observations plus the weighted log-odds of the judge."""
        found = beta[-1] * self.said(inputs)
        if self.around.size:
            found += self.around.field(self._padded(inputs), beta[:-1])
        return np.asarray(found)

    def statistics(self, inputs: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the sums of the neighbours, and of the log-odds, over the ones."""
        last: FloatArray = np.einsum("bd,bd->b", self.said(inputs), mean)[:, None]
        if not self.around.size:
            return last
        return np.hstack([self.around.statistics(self._padded(inputs), mean), last])

    def reached(self, inputs: FloatArray) -> FloatArray | None:
        """Return the same as `Context.reached`."""
        return self.around.reached(self._padded(inputs)) if self.around.size else None

    def said(self, inputs: FloatArray) -> FloatArray:
        """Return the log-odds of the judge, (B, n)."""
        return inputs[:, inputs.shape[1] - math.prod(self.around.shape) :]

    def subset(self, rows: IntArray) -> Judged:
        """Return the features of some examples only."""
        return dataclasses.replace(self, numbers=self.numbers[rows])

    def _padded(self, inputs: FloatArray) -> FloatArray:
        sides = self.around.padded
        return np.ascontiguousarray(inputs[:, : math.prod(sides)]).reshape(-1, *sides)


Features = Dense | Context | Judged
"""Features of the examples of one shape."""
