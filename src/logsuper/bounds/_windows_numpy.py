"""Transfer matrices over windows of a grid in NumPy, for installations without compiled kernels.

Pixels are added one at a time, on logarithms only, for a batch of windows. A profile has a weight
for each state of the newest pixels of n columns. Adding a pixel removes the old value of its
column, the top bit of the number of a state, and inserts the new value at the bottom, next to that
of its left neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray
from logsuper.structures import Image

_HALF_ULP = 2.0**-53
_NEVER = -1e300  # finite: no NaN from the difference of two
# Maximum number of weights that a batch of windows keeps: half a gigabyte.
_ROOM = 1 << 26


class _Windows:
    """Windows that start at `starts`, with fields (B, h) on their first and last columns."""

    def __init__(
        self,
        grid: Image,
        window: int,
        starts: IntArray,
        left: FloatArray,
        right: FloatArray,
    ) -> None:
        h, w = grid.shape
        # columns beyond the grid have neither fields nor edges, and do not change the odds
        t, across, down = np.zeros((3, h, w + window))
        t[:, :w], across[:, 1:w], down[1:, :w] = grid.t, grid.across, grid.down
        columns = starts[:, None] + np.arange(window)
        self.one, self.differ, self.flip = (
            np.ascontiguousarray(part[:, columns].swapaxes(0, 1)) for part in (t, across, down)
        )
        self.differ[:, :, 0] = 0.0
        self.zero = np.zeros((len(starts), h))  # weight of a 0 in the first column
        self.n, self.h = window, h
        used = np.minimum(window, w - starts)
        spread = np.abs(self.one).sum(2) + self.differ.sum(2) + self.flip.sum(2)
        spread = (spread + np.abs(left) + np.abs(right)).max(axis=1)
        self.one[:, :, 0] += left
        self.one[np.arange(len(starts)), :, used - 1] += right
        # a site rounds each logarithm eight times, and it is at most twice the spread
        sites = h * window * (16 + 16 * spread)
        self.rounding = _HALF_ULP * (sites + 2.0**window + 4 * spread + 8)

    def forward(self, v: FloatArray, r: int, k: int) -> FloatArray:
        """Add pixel k of row r."""
        half = v.shape[1] // 2
        flip = self.flip[:, r, k, None]
        a = np.logaddexp(v[:, :half], v[:, half:] - flip)
        b = np.logaddexp(v[:, half:], v[:, :half] - flip)
        self._weigh(a, b, r, k)
        return np.stack((a, b), axis=2).reshape(v.shape)

    def backward(self, v: FloatArray, r: int, k: int) -> FloatArray:
        """Remove pixel k of row r: the transposed matrix."""
        flip = self.flip[:, r, k, None]
        a, b = v[:, 0::2].copy(), v[:, 1::2].copy()
        self._weigh(a, b, r, k)
        return np.concatenate([np.logaddexp(a, b - flip), np.logaddexp(b, a - flip)], axis=1)

    def _weigh(self, a: FloatArray, b: FloatArray, r: int, k: int) -> None:
        """Add the weights of a new 0 to a, of a new 1 to b; odd columns have a 1 to the left."""
        if k == 0:
            a += self.zero[:, r, None]
        b += self.one[:, r, k, None]
        a[:, 1::2] -= self.differ[:, r, k, None]
        b[:, 0::2] -= self.differ[:, r, k, None]

    def _betas(self) -> list[FloatArray]:
        """Return the weights of everything below each row, the last row first."""
        betas = [np.zeros((len(self.one), 2**self.n))]
        for r in range(self.h - 1, 0, -1):
            beta = betas[-1]
            for k in reversed(range(self.n)):
                beta = self.backward(beta, r, k)
            betas.append(_centred(beta)[0])
        return betas

    def columns(self, wanted: int) -> tuple[FloatArray, FloatArray]:
        """Return log Z (B,) and the log-odds (B, h, wanted) of the first columns."""
        size = (len(self.one), 2**self.n)
        betas = self._betas() if wanted else []
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
        # the clamped column acts as a field on the next one
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

    def clamp(self, reference: NDArray[np.uint8], rows: IntArray) -> None:
        """Clamp the first `rows` (B,) pixels of the first column at the reference (B, h)."""
        clamped = np.arange(self.h) < rows[:, None]
        self.zero[clamped & (reference == 1)] = _NEVER
        self.one[:, :, 0][clamped & (reference == 0)] = _NEVER

    def moments(self) -> FloatArray:
        """Return the probabilities (3, B, h, n) of a 1, of differing to the left, and upwards."""
        betas = self._betas()
        alpha, found = np.zeros_like(betas[0]), np.empty((3, *self.one.shape))
        half = alpha.shape[1] // 2
        for r in range(self.h):
            after = [betas.pop()]
            for k in range(self.n - 1, 0, -1):
                after.append(self.backward(after[-1], r, k))
            for k in range(self.n):
                behind = after.pop()
                a, b = behind[:, 0::2].copy(), behind[:, 1::2].copy()
                self._weigh(a, b, r, k)
                x, y, flip = alpha[:, :half], alpha[:, half:], self.flip[:, r, k, None]
                logs = np.stack([x + a, y + b, y + a - flip, x + b - flip])
                p = np.exp(logs - logs.max(axis=(0, 2))[:, None])
                p /= p.sum(axis=(0, 2))[:, None]
                found[0, :, r, k] = p[1::2].sum(axis=(0, 2))
                found[1, :, r, k] = p[0::2, :, 1::2].sum(axis=(0, 2)) + p[1::2, :, 0::2].sum(
                    axis=(0, 2)
                )
                found[2, :, r, k] = p[2:].sum(axis=(0, 2))
                alpha = self.forward(alpha, r, k)
            alpha = _centred(alpha)[0]
        return found


def _centred(v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows minus their largest entries, and these entries."""
    top = v.max(axis=1)
    return v - top[:, None], top


def _log_sum(v: FloatArray) -> FloatArray:
    top = v.max(axis=1)
    return np.asarray(top + np.log(np.exp(v - top[:, None]).sum(axis=1)))


def _pieces(grid: Image, window: int, starts: IntArray) -> Iterator[tuple[slice, IntArray]]:
    """Yield the starts in batches that fit into memory."""
    step = max(1, _ROOM // (grid.shape[0] * 2**window))
    for first in range(0, len(starts), step):
        yield slice(first, first + step), starts[first : first + step]


def _at(fields: FloatArray, columns: IntArray, size: int) -> FloatArray:
    """Return the fields (B, h) at some columns; 0 outside the grid and at its left edge."""
    inside = (columns > 0) & (columns < size)
    return np.where(inside[:, None], fields.T[np.where(inside, columns, 0)], 0.0)


def outside_fields(grid: Image, window: int) -> tuple[FloatArray, FloatArray]:
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
    grid: Image,
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


def chain_gradient(
    grid: Image, window: int, reference: NDArray[np.uint8], upper: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """See `logsuper.bounds._windows.chain_gradient`."""
    h, w = grid.shape
    padded = np.zeros((h, w + 1))
    padded[:, 1:w] = grid.across
    sign = 2.0 * reference - 1.0
    runs = [
        (c, -sign[begin, c] if upper else sign[begin, c], begin, end)
        for c in range(w)
        for begin, end in _runs(reference[:, c], whole=c + window >= w)
    ]
    tasks = np.array([(*run[:2], *part) for run in runs for part in ((1, run[2]), (-1, run[3]))])
    dt, da, dd = np.zeros((3, h, w + window))
    first = tasks[:, 0].astype(np.int64)
    for part, starts in _pieces(grid, window, first):
        side, factor, clamped = tasks[part, 1:].T
        before = np.where(starts[:, None] > 0, sign.T[starts - 1], 0.0)
        end = np.minimum(starts + window, w)
        win = _Windows(
            grid, window, starts, before * padded.T[starts], side[:, None] * padded.T[end]
        )
        win.clamp(reference.T[starts], clamped.astype(np.int64))
        one, differ, flip = factor[:, None, None] * win.moments()
        differ[:, :, 0] = 0.0
        for i, (start, stop) in enumerate(zip(starts, end, strict=True)):
            here = slice(start, start + window)
            dt[:, here] += one[i]
            da[:, here] -= differ[i]
            dd[:, here] -= flip[i]
            da[:, start] += before[i] * one[i, :, 0]
            da[:, stop] += side[i] * one[i, :, stop - start - 1]
    return dt[:, :w], da[:, 1:w], dd[1:, :w]


def _runs(values: NDArray[np.uint8], whole: bool) -> list[tuple[int, int]]:
    """Return the beginning and end of each run of equal values, or of all values as one run."""
    cuts = [] if whole else (np.flatnonzero(np.diff(values)) + 1).tolist()
    return list(zip([0, *cuts], [*cuts, len(values)], strict=True))


def window_odds(
    grid: Image,
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


def marginal_odds(grid: Image, window: int, reach: int, step: int) -> tuple[FloatArray, FloatArray]:
    """See `logsuper.bounds._windows.marginal_odds`."""
    last = grid.shape[1] - window
    none = np.zeros(grid.shape)
    left = right = (none, none)
    if last:
        right = outside_fields(grid, reach)
        # column c of the mirrored grid is column w - 1 - c
        low, high = (np.roll(f[:, ::-1], 1, axis=1) for f in outside_fields(grid.mirrored(), reach))
        left = (low, high)
    starts = np.append(np.arange(0, last, step, dtype=np.int64), last)
    lows, highs = window_odds(grid, window, starts, left, right)
    low, high = np.full(grid.shape, -np.inf), np.full(grid.shape, np.inf)
    for start, below, above in zip(starts, lows, highs, strict=True):
        here = (slice(None), slice(start, start + window))
        low[here] = np.maximum(low[here], below)
        high[here] = np.minimum(high[here], above)
    return low, high


def transfer(grid: Image, odds: bool) -> tuple[float, FloatArray | None]:
    """See `logsuper.bounds._windows.transfer`."""
    h, w = grid.shape
    none = np.zeros((1, h))
    log_z, found = _Windows(grid, w, np.array([0]), none, none).columns(w if odds else 0)
    return float(log_z[0]), found[0] if odds else None
