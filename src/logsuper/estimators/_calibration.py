r"""Probabilities of a field that are as sure as they are right.

A field behind a classifier is too sure: a wrong region is wrong as a whole, and neighbours that
agree count as if each had judged alone. Its log-odds are therefore mixed with those of the unary
term :math:`u`,

.. math:: \operatorname{logit}\hat p=a\operatorname{logit}p+b\,u+c,\qquad a,b\ge0,

with the least log loss on labelled pixels of images that the classifier has not seen. With
b = c = 0 this is a temperature, with a = 0 the unary alone: on these images it is at least as good
as either. The result is then bent by a function that rises everywhere, linear between knots: errors
of whole regions make even the surest pixels wrong now and then, which no line can say.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from logsuper._base import FloatArray

__all__ = ["Calibration", "bounded_logit", "mix"]

# Largest log-odds that count: beyond, single pixels would outweigh all others.
_MOST = 20.0
# Weights of the quadratic penalties, in nats per pixel: of the mixture towards the plain mean of
# both, and of the slopes of the bend towards 1.
_RIDGE, _STIFF = 1e-6, 1e-3
# Log-odds between which the bend is linear.
_KNOTS = np.array([-5.0, -3.5, -2.0, -1.0, 0.0, 1.0, 2.0, 3.5, 5.0])


def bounded_logit(p: Any) -> FloatArray:
    """Return log-odds within the largest that count."""
    with np.errstate(divide="ignore"):
        found: FloatArray = np.clip(logit(p), -_MOST, _MOST)
    return found


class Calibration(NamedTuple):
    """Weights of the field's log-odds and of the unary's, and a constant; slopes of the bend.

    There is one slope below all knots, one between each two, and one above; no bend without them.
    The last number of a bend is its constant.
    """

    field: float = 1.0
    unary: float = 0.0
    constant: float = 0.0
    bend: tuple[float, ...] = ()

    def apply(self, probabilities: Any, unary: Any) -> FloatArray:
        """Return calibrated probabilities."""
        if self == Calibration():
            return np.asarray(probabilities)
        odds = self.field * bounded_logit(probabilities) + self.unary * unary + self.constant
        if self.bend:
            odds = _segments(odds) @ np.array(self.bend)
        found: FloatArray = expit(odds)
        return found

    @property
    def valid(self) -> bool:
        """Whether all numbers are finite and the weights and slopes are not negative."""
        numbers = np.array([*self[:3], *self.bend], dtype=np.float64)
        rises = self.field >= 0 and self.unary >= 0 and bool((numbers[3:-1] >= 0).all())
        return bool(np.isfinite(numbers).all()) and rises and len(self.bend) in (0, len(_KNOTS) + 2)


def mix(
    probabilities: Sequence[FloatArray], unary: Sequence[FloatArray], labels: Sequence[FloatArray]
) -> Calibration:
    """Return the weights with the least log loss on labelled pixels; NaN is no label."""
    y = np.concatenate([own.ravel() for own in labels])
    known = ~np.isnan(y)
    columns = [
        np.concatenate([own.ravel() for own in rows])[known] for rows in (probabilities, unary)
    ]
    columns[0] = bounded_logit(columns[0])
    sign = 2.0 * y[known] - 1.0
    X = np.stack([*columns, np.ones(len(sign))], axis=1)
    weights = _fit(X * sign[:, None], np.array([0.5, 0.5, 0.0]), _RIDGE)
    slopes = np.append(np.ones(len(_KNOTS) + 1), 0.0)
    bend = _fit(_segments(X @ weights) * sign[:, None], slopes, _STIFF)
    a, b, c = weights.tolist()
    return Calibration(a, b, c, tuple(bend.tolist()))


def _segments(odds: FloatArray) -> FloatArray:
    """Return how far from 0 to each number lies in each segment between knots, and a one."""
    ends = np.concatenate([[-np.inf], _KNOTS, [np.inf]])
    parts = [
        np.clip(odds, low, high) - min(max(0.0, low), high)
        for low, high in itertools.pairwise(ends.tolist())
    ]
    return np.stack([*parts, np.ones_like(odds)], axis=-1)


def _fit(X: FloatArray, center: FloatArray, ridge: float) -> FloatArray:
    """Return the weights of the least mean log loss of margins; all but the last at least 0."""

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margins, away = X @ weights, weights - center
        value = float(np.logaddexp(0.0, -margins).mean()) + 0.5 * ridge * float(away @ away)
        return value, -(expit(-margins) @ X) / len(X) + ridge * away

    bounds = [(0.0, None)] * (len(center) - 1) + [(None, None)]
    found = minimize(loss, center, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x)
