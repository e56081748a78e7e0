r"""Probabilities of a field that are as sure as they are right.

A field behind a classifier is too sure: a wrong region is wrong as a whole, and neighbours that
agree count as if each had judged alone. Its log-odds are therefore mixed with those of the unary
term :math:`u`,

.. math:: \operatorname{logit}\hat p=a\operatorname{logit}p+b\,u+c,\qquad a,b\ge0,

with the least log loss on labelled pixels of images that the classifier has not seen. With
b = c = 0 this is a temperature, with a = 0 the unary alone: on these images it is at least as good
as either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from logsuper._base import FloatArray

__all__ = ["Calibration", "mix"]

# Largest log-odds that count: beyond, single pixels would outweigh all others.
_MOST = 20.0
# Weight of the quadratic penalty towards the plain mean of both, in nats per pixel.
_RIDGE = 1e-6


class Calibration(NamedTuple):
    """Weights of the field's log-odds and of the unary's, and a constant."""

    field: float = 1.0
    unary: float = 0.0
    constant: float = 0.0

    def apply(self, probabilities: Any, unary: Any) -> FloatArray:
        """Return calibrated probabilities."""
        if self == Calibration():
            return np.asarray(probabilities)
        with np.errstate(divide="ignore"):
            odds = np.clip(logit(probabilities), -_MOST, _MOST)
        found: FloatArray = expit(self.field * odds + self.unary * unary + self.constant)
        return found


def mix(
    probabilities: Sequence[FloatArray], unary: Sequence[FloatArray], labels: Sequence[FloatArray]
) -> Calibration:
    """Return the weights with the least log loss on labelled pixels; NaN is no label."""
    y = np.concatenate([own.ravel() for own in labels])
    known = ~np.isnan(y)
    columns = [
        np.concatenate([own.ravel() for own in rows])[known] for rows in (probabilities, unary)
    ]
    with np.errstate(divide="ignore"):
        columns[0] = np.clip(logit(columns[0]), -_MOST, _MOST)
    X = np.stack([*columns, np.ones(len(columns[0]))], axis=1)
    sign = 2.0 * y[known] - 1.0
    X *= sign[:, None]
    center = np.array([0.5, 0.5, 0.0])

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = X @ weights
        value = np.logaddexp(0.0, -margins).mean()
        slope = -(expit(-margins) @ X) / len(X)
        away = weights - center
        return value + 0.5 * _RIDGE * float(away @ away), slope + _RIDGE * away

    found = minimize(
        loss, center, jac=True, method="L-BFGS-B", bounds=[(0, None), (0, None), (None, None)]
    )
    return Calibration(*(float(weight) for weight in found.x))
