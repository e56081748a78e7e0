"""Transfer matrices over windows of a grid in NumPy, for where there are no compiled kernels.

The same steps as in the kernels, on logarithms only, a batch of windows at a time. A profile holds
the newest value of each of n columns; a site takes the top bit of its number out, the old value,
and puts the new one in at the bottom, next to its left neighbour's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from logsuper.bounds._pairwise import GridForm
from logsuper.functions._checks import FloatArray, IntArray

_ULP = 2.0**-53
# Numbers that a batch of windows may keep: half a gigabyte.
_ROOM = 1 << 26


class _Windows:
    """Windows that begin at `starts`, with fields (B, h) on their first and last columns."""

    def __init__(
        self,
        grid: GridForm,
        window: int,
        starts: IntArray,
        left: FloatArray,
        right: FloatArray,
    ) -> None:
        h, w = grid.shape
        # columns beyond the grid are free and alone, which changes no odds
        t, across, down = np.zeros((3, h, w + window))
        t[:, :w], across[:, 1:w], down[1:, :w] = grid.t, grid.across, grid.down
        columns = starts[:, None] + np.arange(window)
        self.one, self.differ, self.flip = (
            np.ascontiguousarray(part[:, columns].swapaxes(0, 1)) for part in (t, across, down)
        )
        self.differ[:, :, 0] = 0.0
        self.n, self.h = window, h
        used = np.minimum(window, w - starts)
        spread = np.abs(self.one).sum(2) + self.differ.sum(2) + self.flip.sum(2)
        spread = (spread + np.abs(left) + np.abs(right)).max(axis=1)
        self.one[:, :, 0] += left
        self.one[np.arange(len(starts)), :, used - 1] += right
        n = np.maximum(4, used)  # as in the kernels
        self.rounding = _ULP * (h * n * (12 + spread) + 2.0**n)

    def forward(self, v: FloatArray, r: int, k: int) -> FloatArray:
        """Put site k of row r in."""
        half = v.shape[1] // 2
        one, differ, flip = self._site(r, k)
        a = np.logaddexp(v[:, :half], v[:, half:] - flip)
        b = np.logaddexp(v[:, half:], v[:, :half] - flip) + one
        a[:, 1::2] -= differ
        b[:, 0::2] -= differ
        return np.stack((a, b), axis=2).reshape(v.shape)

    def backward(self, v: FloatArray, r: int, k: int) -> FloatArray:
        """Take site k of row r out: the transposed matrix."""
        one, differ, flip = self._site(r, k)
        a, b = v[:, 0::2].copy(), v[:, 1::2] + one
        a[:, 1::2] -= differ
        b[:, 0::2] -= differ
        return np.concatenate([np.logaddexp(a, b - flip), np.logaddexp(b, a - flip)], axis=1)

    def _site(self, r: int, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.one[:, r, k, None], self.differ[:, r, k, None], self.flip[:, r, k, None]

    def columns(self, wanted: int) -> tuple[FloatArray, FloatArray]:
        """Return log Z (B,) and the log-odds (B, h, wanted) of the first columns."""
        size = (len(self.one), 2**self.n)
        betas = [np.zeros(size)]
        for r in range(self.h - 1, 0, -1) if wanted else ():
            beta = betas[-1]
            for k in reversed(range(self.n)):
                beta = self.backward(beta, r, k)
            betas.append(_centred(beta)[0])
        alpha, log_z = np.zeros(size), np.full(len(self.one), -self.n * np.log(2.0))
        odds = np.empty((len(self.one), self.h, wanted))
        for r in range(self.h):
            for k in range(self.n):
                alpha = self.forward(alpha, r, k)
            alpha, top = _centred(alpha)
            log_z += top
            both = alpha + betas.pop() if wanted else alpha
            for k in range(wanted):
                half = both.shape[1] // 2
                odds[:, r, k] = _log_sum(both[:, half:]) - _log_sum(both[:, :half])
                both = np.logaddexp(both[:, :half], both[:, half:])
        return log_z + _log_sum(alpha), odds

    def chain(self, reference: NDArray[np.uint8]) -> FloatArray:
        """Return log-odds (B, h) of the first column, given the reference (B, h) above."""
        gammas, v = [], np.zeros((len(self.one), 2**self.n))
        for r in reversed(range(self.h)):
            for k in range(self.n - 1, 0, -1):
                v = self.backward(v, r, k)
            v = _centred(v)[0]
            gammas.append(v)
            v = self.backward(v, r, 0)
        value = reference.astype(np.float64)
        # the clamped column is a field on the next one
        if self.n > 1:
            pull = self.differ[:, :, 1]
            self.one[:, :, 1] += pull * (2.0 * value - 1.0)
            self.differ[:, :, 1] = 0.0
        alpha, odds = np.zeros((len(self.one), 2 ** (self.n - 1))), np.empty(value.shape)
        for r in range(self.h):
            gamma = gammas.pop()
            odds[:, r] = _log_sum(alpha + gamma[:, 1::2]) - _log_sum(alpha + gamma[:, 0::2])
            odds[:, r] += self.one[:, r, 0]
            if r:
                odds[:, r] += self.flip[:, r, 0] * (2.0 * value[:, r - 1] - 1.0)
            for k in range(1, self.n):
                alpha = self.forward(alpha, r, k)
            alpha = _centred(alpha)[0]
        return odds


def _centred(v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows less their largest entries, and these."""
    top = v.max(axis=1)
    return v - top[:, None], top


def _log_sum(v: FloatArray) -> FloatArray:
    top = v.max(axis=1)
    return np.asarray(top + np.log(np.exp(v - top[:, None]).sum(axis=1)))


def _pieces(grid: GridForm, window: int, starts: IntArray) -> Iterator[tuple[slice, IntArray]]:
    """Yield the starts in batches that fit into memory."""
    step = max(1, _ROOM // (grid.shape[0] * 2**window))
    for first in range(0, len(starts), step):
        yield slice(first, first + step), starts[first : first + step]


def _at(fields: FloatArray, columns: IntArray, size: int) -> FloatArray:
    """Return the fields (B, h) at some columns, 0 at those outside the grid or at its left edge."""
    inside = (columns > 0) & (columns < size)
    return np.where(inside[:, None], fields.T[np.where(inside, columns, 0)], 0.0)


def outside_fields(grid: GridForm, window: int) -> tuple[FloatArray, FloatArray]:
    """See `logsuper.bounds._windows.outside_fields`."""
    h, w = grid.shape
    low, high = np.zeros((h, w)), np.zeros((h, w))
    for c in range(w - 1, 0, -1):
        start, n = np.array([c]), min(window, w - c)
        a = grid.across[:, c - 1]
        for sign, field in ((-1.0, low), (1.0, high)):
            right = _at(field, start + window, w)
            win = _Windows(grid, n, start, sign * a[None], right)
            error = sign * win.rounding[0]
            q = win.columns(1)[1][0, :, 0] - sign * a + error
            act = np.logaddexp(q, -a) - np.logaddexp(q - a, 0.0) + error
            field[:, c] = np.clip(act, -a, a)
    return low, high


def chain_odds(
    grid: GridForm,
    window: int,
    reference: NDArray[np.uint8],
    fields: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """See `logsuper.bounds._windows.chain_odds`."""
    h, w = grid.shape
    before = np.zeros((h, w))
    before[:, 1:] = grid.across * (2.0 * reference[:, :-1] - 1.0)
    low, high = np.empty((h, w)), np.empty((h, w))
    for _, starts in _pieces(grid, window, np.arange(w)):
        for sign, field, out in ((-1.0, fields[0], low), (1.0, fields[1], high)):
            right = _at(field, starts + window, w)
            win = _Windows(grid, window, starts, _at(before, starts, w), right)
            odds = win.chain(reference.T[starts]) + sign * win.rounding[:, None]
            out[:, starts] = odds.T
    return low, high


def window_odds(
    grid: GridForm,
    window: int,
    starts: IntArray,
    left: tuple[FloatArray, FloatArray],
    right: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """See `logsuper.bounds._windows.window_odds`."""
    h, w = grid.shape
    shape = (len(starts), h, window)
    low, high = np.empty(shape), np.empty(shape)
    for part, some in _pieces(grid, window, starts):
        for sign, before, after, out in (
            (-1.0, left[0], right[0], low),
            (1.0, left[1], right[1], high),
        ):
            win = _Windows(grid, window, some, _at(before, some, w), _at(after, some + window, w))
            out[part] = win.columns(window)[1] + sign * win.rounding[:, None, None]
    return low, high


def transfer(grid: GridForm, odds: bool) -> tuple[float, FloatArray | None]:
    """See `logsuper.bounds._windows.transfer`."""
    h, w = grid.shape
    none = np.zeros((1, h))
    log_z, found = _Windows(grid, w, np.array([0]), none, none).columns(w if odds else 0)
    return float(log_z[0]), found[0] if odds else None
