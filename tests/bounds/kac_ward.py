"""Exact log Z of grids without field, of any size: the determinant of Kac and Ward (1952)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array, identity
from scipy.sparse.linalg import splu


def kac_ward(across: np.ndarray, down: np.ndarray) -> float:
    r"""Return log sum_x exp(-f(x)) of a planar cut, f(x) = sum of weights w of cut edges.

    With J = w / 2 and T[e, e'] = tanh(J_e) exp(i angle(e, e') / 2) for directed edges e' that
    follow e without turning back, Z = 2^n prod_e (cosh J_e e^{-J_e}) sqrt(det(I - T)).
    """
    h, w = down.shape[0] + 1, across.shape[1] + 1
    index = np.arange(h * w).reshape(h, w)
    ends = [(index[:, :-1], index[:, 1:], across, 0), (index[:-1], index[1:], down, 3)]
    tail, head, weight, turn = (
        np.concatenate(parts)
        for parts in zip(
            *[
                (a.ravel(), b.ravel(), value.ravel(), np.full(a.size, direction))
                for first, second, value, right in ends
                for a, b, direction in ((first, second, right), (second, first, (right + 2) % 4))
            ],
            strict=True,
        )
    )
    leaving = [np.flatnonzero(tail == node) for node in range(h * w)]
    pairs = [
        (e, follow)
        for e in range(len(tail))
        for follow in leaving[head[e]]
        if head[follow] != tail[e]
    ]
    n, J = h * w, weight / 2
    rest = (np.log(np.cosh(J)) - J).sum() / 2  # each edge is there in both directions
    if not pairs:
        return float(n * np.log(2) + rest)
    e, follow = np.array(pairs).T
    quarter = (turn[follow] - turn[e] + 1) % 4 - 1  # -1, 0 or 1 quarter turns
    entries = np.tanh(J[e]) * np.exp(1j * np.pi / 4 * quarter)
    matrix = identity(len(tail)) - csc_array((entries, (e, follow)), shape=(len(tail),) * 2)
    log_det = np.log(np.abs(splu(csc_array(matrix)).U.diagonal())).sum()
    return float(n * np.log(2) + rest + log_det / 2)
