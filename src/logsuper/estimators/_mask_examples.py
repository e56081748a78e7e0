"""Images as learners and decoders see them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from logsuper.channels import Channel
from logsuper.estimators._common import check_functions
from logsuper.estimators._images import Image
from logsuper.functions import SubmodularFunction, grid_cuts
from logsuper.learning import Examples, Judge, make_examples

POSITION = "position"
"""The value of `neighbors` for couplings that depend on the position."""

KNOTS = 3
"""Number of tents per axis."""


def gather(
    design: dict[str, Any],
    images: Sequence[Image],
    channel: Channel,
    labels: Sequence[Image] | None = None,
    judge: Judge | None = None,
) -> Examples:
    """Return the examples of a model for some images; `judge` knows their surroundings."""
    return make_examples(
        lambda shape: functions_on(design["neighbors"], shape),
        labels=labels,
        observed=images,
        channel=channel,
        judge=judge if design.get("trees") else None,
        **{name: design[name] for name in ("modular", "context", "scale")},
    )


def functions_on(neighbors: Any, shape: tuple[int, ...]) -> tuple[SubmodularFunction, ...]:
    """Return the functions on images of a shape."""
    if isinstance(neighbors, bool):
        raise TypeError("neighbors must be an integer, functions or a callable, got a bool")
    if isinstance(neighbors, str):
        if neighbors != POSITION:
            raise ValueError(f"neighbors must be {POSITION!r}, not {neighbors!r}, if it is a word")
        return position_cuts(shape)
    if neighbors is None or isinstance(neighbors, int | np.integer):
        return grid_cuts(shape, None if neighbors is None else int(neighbors))
    return check_functions(neighbors, "neighbors", math.prod(shape), shape)


def position_cuts(shape: tuple[int, ...], knots: int = KNOTS) -> tuple[SubmodularFunction, ...]:
    """Return a cut per direction and bump, whose weighted sum has couplings that vary smoothly.

    Bumps are products of tents along the axes, at least 0 and 1 in sum: equal weights of all are
    one weight for all positions. An edge has the mean of a bump at its ends.
    """
    bumps = np.ones((1, 1))
    for length in shape:
        at = np.linspace(0.0, knots - 1.0, length)
        tents = np.maximum(0.0, 1.0 - np.abs(at - np.arange(knots)[:, None]))
        bumps = np.einsum("ih,jw->ijhw", bumps, tents).reshape(len(bumps) * knots, -1)
    return tuple(
        cut.with_weights(bump[cut.edges].mean(axis=1)) for cut in grid_cuts(shape) for bump in bumps
    )
