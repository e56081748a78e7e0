r"""Factors on edges that are small where neighbouring pixels differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, IntArray, as_float, as_indices, as_vector, refuse

# Edges worked on at a time, so that differences of images with many channels stay small.
_PIECE = 1 << 18


def contrast_weights(
    image: ArrayLike, edges: ArrayLike, scales: Sequence[float] | float = (1.0,)
) -> FloatArray:
    r"""Return factors on edges that fall with the difference between the two pixels.

    For an edge between pixels i and j with values :math:`I_i,I_j\in\mathbb{R}^C`, and scale k,

    .. math:: w_{k,ij}=\exp\Bigl(-\frac{\|I_i-I_j\|^2}{2\,s_k^2\,m}\Bigr),\qquad
              m=\frac1E\sum_{ij}\|I_i-I_j\|^2 .

    As m is a mean over the edges of the image, the factors do not depend on the unit of its values.
    A small scale keeps only edges within even regions; a large one treats all edges nearly alike.
    One function per scale, each with its learned weight, makes the coupling any non-negative
    combination of these curves (Boykov and Jolly, "Interactive graph cuts", 2001, have one).

    Parameters
    ----------
    image : array-like of shape (n,) or (n, C)
        The value or the C channels of each pixel, in row-major order. Scale the channels such
        that equal differences matter equally.
    edges : array-like of shape (E, 2), int
        Pairs of pixels, such as `Prepared.edges`.
    scales : float or sequence of float
        The :math:`s_k`, positive: 1 is the root mean square difference over the edges.

    Returns
    -------
    ndarray of shape (K, E)
        In (0, 1], up to underflow; 1 everywhere if no two neighbours differ.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import contrast_weights
    >>> [row] = ls.grid_cuts((1, 4))[:1]
    >>> contrast_weights([0.0, 0.0, 3.0, 3.0], row.edges).round(3)
    array([[1.   , 0.223, 1.   ]])
    >>> contrast_weights([0.0, 0.0, 3.0, 3.0], row.edges, scales=(0.5, 2.0)).round(3)
    array([[1.   , 0.002, 1.   ],
           [1.   , 0.687, 1.   ]])
    """
    values = as_float(image, "image")
    if values.ndim not in (1, 2):
        raise ValueError(
            f"image must have shape (n,) or (n, C), one row per pixel, got {values.shape}"
        )
    pairs = as_indices(edges, len(values), "edges")
    if pairs.size == 0:
        pairs = pairs.reshape(-1, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must have shape (E, 2), got {pairs.shape}")
    widths = np.atleast_1d(as_vector(scales, "scales", None if np.ndim(scales) else 1))
    refuse(widths <= 0, widths, "scales", "a scale must be positive")
    squares = _square_differences(values.reshape(len(values), -1), pairs)
    mean = float(squares.mean()) if squares.size else 0.0
    if mean == 0.0:
        return np.ones((len(widths), len(squares)))
    # divided one after the other: the square of a tiny scale times a tiny mean would underflow
    with np.errstate(over="ignore", under="ignore"):
        relative = squares / mean
        return np.exp(-0.5 * relative / widths[:, None] / widths[:, None])


def _square_differences(values: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the squared differences over the edges, up to a common factor."""
    halves = 0.5 * values  # differences of these cannot overflow
    spread = float(np.ptp(halves, axis=0).max(initial=0.0)) if len(halves) else 0.0
    if spread == 0.0:
        return np.zeros(len(pairs))
    # by a power of two, so that squares neither overflow nor underflow and scaling is exact
    scaled = np.ldexp(halves - halves[0], -math.frexp(spread)[1])
    found = np.empty(len(pairs))
    for first in range(0, len(pairs), _PIECE):
        part = pairs[first : first + _PIECE]
        difference = scaled[part[:, 0]] - scaled[part[:, 1]]
        found[first : first + _PIECE] = np.einsum("ec,ec->e", difference, difference)
    return found
