r"""Probabilities of a field that are as sure as they are right.

A field behind a classifier is too sure: a wrong region is wrong as a whole, and neighbours that
agree count as if each had judged alone. What it says of a pixel, p, is therefore softened and kept
off 0 and 1 by the rates at which it is wrong however sure it is, and the unary term u is added. It
is also wrong about whole images: where it sees much more foreground than usual there is somewhat
more, and pixels cannot know. The log-odds m of the mean of p over the image are therefore weighed:

.. math:: \operatorname{logit}\hat p=\operatorname{logit}\bigl(\epsilon_0+(1-\epsilon_0-\epsilon_1)
          \,\sigma(a\operatorname{logit}p)\bigr)+b\,u+c+d\,m,\qquad a,b\ge0.

Beyond those of the training images m is bounded: a prediction far away from them is none of d's.

The six numbers have the least log loss on labelled pixels of images that the classifier has not
seen. With :math:`\epsilon=b=c=d=0` this is a temperature, with a = 0 the unary alone: on these
images it is at least as good as either. More freedom, such as a function that is linear between
many knots, was less calibrated on other images: the images to calibrate on are few, even where
pixels are many. For that reason d, which is learned from one number per image, is held near 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from logsuper._base import FloatArray

__all__ = ["Calibration", "bounded_logit", "mix"]

# Largest log-odds that count: beyond, single pixels would outweigh all others.
_MOST = 20.0
# Weight of a quadratic penalty, in nats per pixel, towards the start of the search.
_RIDGE = 1e-6
# Of d: the same divided by the number of images, in nats per pixel.
_RIDGE_OF_IMAGES = 0.1
# Where the search starts: a, b, c, the log-odds of both rates, d, and their bounds. A rate of one
# in a million is none.
_START = np.array([0.7, 0.3, 0.0, -4.0, -4.0, 0.0])
_FREE = (None, None)
_BOUNDS = [(0.0, None), (0.0, None), _FREE, (-14.0, -0.7), (-14.0, -0.7), _FREE]


def bounded_logit(p: Any) -> FloatArray:
    """Return log-odds within the largest that count."""
    with np.errstate(divide="ignore"):
        found: FloatArray = np.clip(logit(p), -_MOST, _MOST)
    return found


class Calibration(NamedTuple):
    """Weights of the field's log-odds and of the unary term, a constant, two rates, and an effect.

    Attributes
    ----------
    field, unary, constant : float
        a, b and c of the formula.
    missed, false : float
        Shares of ones where the field is sure of 0, and of zeros where it is sure of 1.
    image, least, most : float
        d of the formula, and bounds on m.
    """

    field: float = 1.0
    unary: float = 0.0
    constant: float = 0.0
    missed: float = 0.0
    false: float = 0.0
    image: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def apply(self, probabilities: Any, unary: Any, mean: float = 0.5) -> FloatArray:
        """Return calibrated probabilities, from those of an image, whose mean is given."""
        if self == Calibration():
            return np.asarray(probabilities)
        odds = self.field * bounded_logit(probabilities)
        if self.missed or self.false:
            odds = logit(self.missed + (1.0 - self.missed - self.false) * expit(odds))
        constant = self.constant
        if self.image:
            constant += self.image * min(max(float(bounded_logit(mean)), self.least), self.most)
        found: FloatArray = expit(odds + self.unary * np.asarray(unary) + constant)
        return found

    @property
    def valid(self) -> bool:
        """Whether all numbers are finite, weights and rates not negative, rates below one half."""
        numbers = np.array(self, dtype=np.float64)
        rates = numbers[3:5]
        return bool(
            np.isfinite(numbers).all()
            and (numbers[:2] >= 0).all()
            and ((rates >= 0) & (rates < 0.5)).all()
        )


def mix(
    probabilities: Sequence[FloatArray],
    unary: Sequence[FloatArray],
    labels: Sequence[FloatArray],
    means: Sequence[float] | None = None,
) -> Calibration:
    """Return the calibration with the least log loss on labelled pixels; NaN is no label.

    Parameters
    ----------
    probabilities, unary, labels : sequences of ndarray
        Of some pixels of each image.
    means : sequence of float, optional
        Mean probability of each whole image; without it images have no effect.
    """
    y = np.concatenate([own.ravel() for own in labels])
    known = ~np.isnan(y)
    sign = 2.0 * y[known] - 1.0
    p, u = (np.concatenate([own.ravel() for own in rows])[known] for rows in (probabilities, unary))
    field = bounded_logit(p)
    # the unary term is a small multiple of log-odds where the coupling is strong
    unit = float(np.sqrt(np.mean(u**2))) or 1.0
    each_mean = bounded_logit(np.zeros(0) if means is None else means)
    middle = float(each_mean.mean()) if len(each_mean) else 0.0
    away_from_middle = np.zeros(len(sign))
    if len(each_mean):
        away_from_middle = np.repeat(each_mean - middle, [own.size for own in labels])[known]
    ridge = np.full(len(_START), _RIDGE)
    ridge[-1] = _RIDGE_OF_IMAGES / len(labels)

    def loss(numbers: FloatArray) -> tuple[float, FloatArray]:
        a, b, c, *odds, d = numbers
        missed, false = expit(np.array(odds))
        q = expit(a * field)
        inside = missed + (1.0 - missed - false) * q
        outer = inside * (1.0 - inside)
        total = np.log(inside / (1.0 - inside)) + b * u / unit + c + d * away_from_middle
        margin = sign * total
        slope = -sign * expit(-margin) / len(sign)
        each = slope / outer
        away = numbers - _START
        value = float(np.logaddexp(0.0, -margin).mean()) + 0.5 * float(ridge @ away**2)
        gradient = np.array(
            [
                each @ ((1.0 - missed - false) * q * (1.0 - q) * field),
                slope @ u / unit,
                slope.sum(),
                (each @ (1.0 - q)) * missed * (1.0 - missed),
                -(each @ q) * false * (1.0 - false),
                slope @ away_from_middle,
            ]
        )
        return value, gradient + ridge * away

    # a millionth of a nat per pixel is less than any image decides
    stop = {"ftol": 1e-7, "maxiter": 100}
    found = minimize(loss, _START, jac=True, method="L-BFGS-B", bounds=_BOUNDS, options=stop)
    a, b, c, *odds, d = found.x.tolist()
    missed, false = expit(np.array(odds)).tolist()
    flat = Calibration(a, b / unit, c, missed, false)
    if not d:
        return flat
    bounds = {"least": float(each_mean.min()), "most": float(each_mean.max())}
    return flat._replace(constant=c - d * middle, image=d, **bounds)
