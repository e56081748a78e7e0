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
    if neighbors is None or isinstance(neighbors, int | np.integer):
        return grid_cuts(shape, None if neighbors is None else int(neighbors))
    return check_functions(neighbors, "neighbors", math.prod(shape), shape)
