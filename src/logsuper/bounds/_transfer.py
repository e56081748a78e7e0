r"""Exact log Z and marginals of image grids with a short side, by transfer matrices.

Pixels are added one at a time, along the short side of length w, and only the newest value of each
of the w lines is kept: :math:`2^w` weights, :math:`O(n2^w)` operations.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from logsuper._base import EPS
from logsuper.bounds._needs import need_image
from logsuper.bounds._results import Bound, Marginals
from logsuper.bounds._windows import (
    WIDEST,
    refuse_too_large,
    transfer,
    transfer_error,
)
from logsuper.functions import SubmodularFunction
from logsuper.solvers import kernels
from logsuper.structures import Image, image_of


def _narrow(grid: Image) -> Image:
    """Return the grid with its short side across."""
    rows, columns = grid.shape
    return grid.transposed() if rows < columns else grid


def _count(grid: Image, passes: float) -> float:
    rows, columns = grid.shape
    return passes * rows * columns * 2.0**columns


def log_partition(f: SubmodularFunction) -> Bound:
    """Sum over all configurations of an image grid with a short side.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image, up to 24 pixels high or wide, and a
        `Modular`.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import logsuper as ls
    >>> across, down = ls.grid_cuts((100, 8))
    >>> ls.bounds.transfer(0.5 * across + 0.5 * down)
    <exact 230.4719367 by transfer, certified>
    """
    grid = _narrow(need_image(f, "transfer"))
    refuse_too_large("transfer", grid.shape[1], 4.0, _count(grid, 1.0))
    total = transfer(grid, odds=False)[0] - grid.fixed * math.log(2.0)
    error = transfer_error(grid) + 4.0 * EPS * (abs(total) + grid.t.size)
    return Bound.exactly(total, error, "transfer")


def marginals(f: SubmodularFunction) -> Marginals:
    """Return the exact marginals of an image grid with a short side.

    Parameters
    ----------
    f : SubmodularFunction
        A sum of the 4-neighbour `grid_cuts` of one image and a `Modular`. The weights of about
        twice the square root of the number of rows must fit into a gigabyte.

    Returns
    -------
    Marginals

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> across, down = ls.grid_cuts((3, 50))
    >>> f = across + down - ls.Modular(np.repeat([2.0, -1.0, 0.0], 50))
    >>> np.round(ls.LogSupermodular(f).marginals("transfer")[:, 0], 3)
    array([0.906, 0.443, 0.461])
    """
    grid = _narrow(need_image(f, "transfer"))
    rows, columns = grid.shape
    # the kernels keep the profiles of all rows only if there are few
    kept = rows if kernels() is None else min(rows, 2.0 * math.ceil(math.sqrt(rows)))
    refuse_too_large("transfer", columns, kept + 4.0, _count(grid, 3.0))
    _, odds = transfer(grid, odds=True)
    assert odds is not None
    error = transfer_error(grid)
    values, lower, upper = (
        expit(odds + shift).ravel()[grid.pixels] for shift in (0.0, -error, error)
    )
    return Marginals(
        values, "transfer", lower * (1.0 - 4.0 * EPS), np.minimum(upper * (1.0 + 4.0 * EPS), 1.0)
    )


def operations(f: SubmodularFunction) -> float:
    """Return the approximate number of operations of log Z; infinity if it is not possible."""
    grid = image_of(f)
    if grid is None or min(grid.shape) > WIDEST:
        return math.inf
    return _count(_narrow(grid), 1.0)
