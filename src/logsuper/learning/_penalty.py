r"""The weighted quadratic regulariser of every learner."""

from __future__ import annotations

import dataclasses

import numpy as np

from logsuper._base import FloatArray, check_number
from logsuper.learning._examples import Examples, check_examples
from logsuper.learning._layout import LARGEST, Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Penalty:
    r""":math:`\Omega(\theta)=\frac12\sum_j\lambda_j(\theta_j-c_j)^2`, in nats per example.

    Attributes
    ----------
    weights : ndarray
        :math:`\lambda_j\ge0`, one per parameter.
    center : ndarray
        :math:`c_j`: 0, except for the channel scale w, whose natural value is 1.
    """

    weights: FloatArray
    center: FloatArray

    @classmethod
    def of(
        cls,
        layout: Layout,
        alpha: float = 0.0,
        modular: float = 0.0,
        beta: float = 0.0,
        scale: float = 0.0,
    ) -> Penalty:
        """Return the regulariser with one weight for each kind of parameter."""
        if not isinstance(layout, Layout):
            raise TypeError(
                f"layout must be a Layout, such as examples.layout, got a {type(layout).__name__}"
            )
        given = {"alpha": alpha, "modular": modular, "beta": beta, "scale": scale}
        for name, value in given.items():
            number = check_number(value, f"penalty of {name}")
            if number < 0:
                raise ValueError(f"penalty of {name} = {number:g} must be at least 0")
            if number > 0 and not 1.0 / LARGEST <= number <= LARGEST:
                raise ValueError(
                    f"penalty of {name} = {number:g} must be 0 or from {1.0 / LARGEST:g} to "
                    f"{LARGEST:g}; rescale functions, features and penalty"
                )
        return cls(layout.fill(**given), layout.fill())

    def value(self, theta: FloatArray) -> float:
        """Return the penalty."""
        return 0.5 * float(np.dot(self.weights, (theta - self.center) ** 2))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return its gradient."""
        return self.weights * (theta - self.center)


def check_problem(examples: Examples, penalty: object) -> None:
    """Refuse to learn from anything but examples, with a penalty on their parameters."""
    check_examples(examples)
    if not isinstance(penalty, Penalty):
        raise TypeError(
            "penalty must be a Penalty, such as Penalty.of(examples.layout, modular=0.1), got a "
            f"{type(penalty).__name__}"
        )
    if len(penalty.weights) != examples.layout.size:
        raise ValueError(
            f"penalty is for {len(penalty.weights)} parameters, these examples have "
            f"{examples.layout.size}"
        )
