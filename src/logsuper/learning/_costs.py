"""What errors cost: factors on the two kinds of errors, and weights of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import FloatArray, IntArray, as_float, refuse, refuse_negative
from logsuper.learning._examples import Examples, Group

Cost = tuple[ArrayLike, ArrayLike]
"""Of a false one and of a false zero: numbers, or arrays of the shape of an image."""


def pixel_costs(
    examples: Examples, loss: str | ArrayLike = "hamming", cost: Cost = (1.0, 1.0)
) -> dict[Group, FloatArray]:
    """Return the costs of both errors at each pixel, (N or 1, n, 2), of each group."""
    pair = check_cost(cost)
    for i, part in enumerate(pair):
        for group in examples.groups if part.ndim else ():
            if part.shape != group.shape:
                raise ValueError(
                    f"cost[{i}] has shape {part.shape}, but an image has {group.shape}"
                )
    weights = _weights_of(examples, loss)
    return {
        key: np.stack([given * (part.ravel() if part.ndim else part) for part in pair], axis=2)
        for key, given in weights.items()
    }


def rows_of(costs: FloatArray, rows: IntArray) -> FloatArray:
    """Return the costs of some examples; one row serves all."""
    return costs if len(costs) == 1 else costs[rows]


def check_cost(cost: Any) -> tuple[FloatArray, FloatArray]:
    """Return the positive costs of a false one and of a false zero, as arrays."""
    told = "cost must be a pair, of a false one and of a false zero: positive numbers, or arrays"
    try:
        false_one, false_zero = cost
    except (TypeError, ValueError):
        raise TypeError(f"{told} of the shape of an image; got {cost!r}") from None
    pair = as_float(false_one, "cost[0]"), as_float(false_zero, "cost[1]")
    for i, part in enumerate(pair):
        refuse(~((part > 0.0) & np.isfinite(part)), part, f"cost[{i}]", "must be positive")
    return pair


def _weights_of(examples: Examples, loss: str | ArrayLike) -> dict[Group, FloatArray]:
    """Return the weight of each pixel in the loss, for every group."""
    if isinstance(loss, str):
        if loss != "hamming":
            raise ValueError(f"loss must be 'hamming' or the weights of pixels, got {loss!r}")
        return {group: np.ones((1, group.prepared.n)) for group in examples.groups}
    shapes = [group.shape for group in examples.groups]
    if len(shapes) == 1:
        group = examples.groups[0]
        weights = _as_weights(loss, "loss", shapes[0], (examples.count, *shapes[0]))
        return {group: weights.reshape(-1, group.prepared.n)}
    if not isinstance(loss, list | tuple) or len(loss) != examples.count:
        raise ValueError(
            f"loss must be 'hamming' or a list of {examples.count} arrays, one per image, for "
            f"images of {' and '.join(map(str, shapes))}"
        )
    return {
        group: np.stack(
            [_as_weights(loss[i], f"loss[{i}]", group.shape).ravel() for i in group.index]
        )
        for group in examples.groups
    }


def _as_weights(loss: Any, name: str, *shapes: tuple[int, ...]) -> FloatArray:
    """Return weights of pixels, of one of the given shapes."""
    weights = as_float(loss, name)
    refuse_negative(weights, name, "a wrong pixel must not be a gain")
    if weights.shape not in shapes:
        raise ValueError(f"{name} has shape {weights.shape}, but the image has {shapes[0]}")
    return weights
