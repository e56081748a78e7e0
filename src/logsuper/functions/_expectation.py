"""Expectations of functions of the number of ones among independent elements."""

from __future__ import annotations

import math

import numpy as np

from logsuper._base import FloatArray


def mean_of_count(Q: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return :math:`\mathbb{E}g(K)` and its gradient in Q, where K is the number of ones per row.

    The ones of row m are independent with probabilities Q[m] (M, size); `slopes`, (size,) or
    (M, size), are the differences :math:`g(k+1)-g(k)`, and :math:`g(0)=0`.

    K has the Poisson-binomial distribution: adding element d moves the fraction :math:`q_d` of the
    probability of each count to the next count. The gradient is computed by the reverse of this
    recursion, which has no divisions and no cancellation except among the slopes. Only every
    :math:`\sqrt{size}`-th distribution is stored; the others are recomputed in the reverse pass.
    """
    rows, size = Q.shape
    stride = math.isqrt(size) + 1
    slopes = np.broadcast_to(slopes, (rows, size))
    counts = np.zeros((rows, size))  # P(K = k) before element d is added, so k <= d
    counts[:, :1] = 1.0
    values = np.zeros(rows)
    stored = []
    for d in range(size):
        if d % stride == 0:
            stored.append(counts)
        values += Q[:, d] * (counts * slopes).sum(axis=1)
        counts = _add_element(counts, Q[:, d])

    gradients = np.empty((rows, size))
    ahead = slopes  # expected slope at the final count, given the count so far
    for start in reversed(range(0, size, stride)):
        stop = min(start + stride, size)
        block = [stored.pop()]
        for d in range(start, stop - 1):
            block.append(_add_element(block[-1], Q[:, d]))
        for d in reversed(range(start, stop)):
            gradients[:, d] = (block[d - start] * ahead).sum(axis=1)
            q = Q[:, d, None]
            ahead = (1.0 - q) * ahead + q * np.roll(ahead, -1, axis=1)
    return values, gradients


def _add_element(counts: FloatArray, q: FloatArray) -> FloatArray:
    """Return the distribution of the count after adding one element, without its last entry."""
    moved = counts * (1.0 - q)[:, None]
    moved[:, 1:] += counts[:, :-1] * q[:, None]
    return moved
