r"""Functions of the noise that resemble :math:`V(z)=\max_yz^\top y-f(y)` and have known means.

There are three, each exact in a limit: every element alone (no coupling), every pair of neighbours
alone (weak coupling), and two groups that act as one element each (strong coupling). They are
subtracted from V with coefficients that are learned.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import expit

from logsuper._base import Bits, BoolArray, FloatArray
from logsuper.functions import SubmodularFunction
from logsuper.structures import Pairwise, pairwise_of

_BLOCK = 1 << 18
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(256)


def softplus(v: FloatArray | float) -> FloatArray:
    """Return log(1 + e^v), the mean of (z + v)_+ for logistic z."""
    return np.asarray(np.logaddexp(0.0, v))


def pair_value(a: FloatArray, b: FloatArray, w: FloatArray | float) -> FloatArray:
    """Return max(0, a - w, b - w, a + b): the maximum over two elements with fields a and b."""
    return np.asarray(np.maximum(a - w, 0.0) + np.maximum(b + np.clip(a, -w, w), 0.0))


def pair_mean(a: FloatArray, b: FloatArray, w: FloatArray) -> FloatArray:
    r"""Return the mean of `pair_value` when independent logistic noise is added to a and to b.

    .. math:: E=\mathrm{sp}(a-w)+\mathrm{sp}(b+w)-\int_{-w}^w\sigma(b+v)\,\sigma(v-a)\,dv

    which for :math:`a=b=0` is :math:`2\,\mathrm{sp}(-w)+2\sigma(w)-1`.
    """
    low, gap = np.minimum(b, -a), np.abs(a + b)
    rate = np.expm1(np.minimum(gap, 700.0))
    flat = rate == 0.0

    def primitive(v: FloatArray) -> FloatArray:
        # of sigma(p + v) sigma(q + v), p <= q: sp(p + v) - log(1 + sigma(p + v) E) / E with
        # E = e^(q - p) - 1, and sp(p + v) - sigma(p + v) for p = q
        chance = expit(low + v)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = np.log1p(chance * rate) / rate
        return np.asarray(softplus(low + v) - np.where(flat, chance, tail))

    return np.asarray(softplus(a - w) + softplus(b + w) - primitive(w) + primitive(-w))


class LogisticSum:
    r"""The sum X of n independent logistic numbers, by Fourier series on a wide enough interval.

    Its characteristic function is :math:`(\pi t/\sinh\pi t)^n`; its mass beyond `reach` is below
    double precision.
    """

    def __init__(self, n: int) -> None:
        self.reach = 9.0 * math.pi * math.sqrt(n / 3.0) + 40.0
        period = 2.0 * self.reach
        odd = np.arange(1.0, 15.0 / math.sqrt(n) * period / math.pi + 2.0, 2.0)
        self._rates = odd * math.pi / period
        x = math.pi * self._rates
        log_sinh = x + np.log1p(-np.exp(-2.0 * x)) - math.log(2.0)
        self._terms = np.exp(n * (np.log(x) - log_sinh)) / odd
        self._odd, self._period = odd, period

    def positive(self, c: float) -> float:
        """Return E (X + c)_+, from the series of the triangle wave |x|."""
        if abs(c) >= self.reach:
            return max(c, 0.0)
        wave = float((np.cos(self._rates * c) * self._terms / self._odd).sum())
        spread = self._period / 2.0 - 4.0 * self._period / math.pi**2 * wave
        return (c + spread) / 2.0

    def above(self, x: FloatArray) -> FloatArray:
        """Return P(X > x), from the series of the square wave sign x."""
        inside = np.clip(x, -self.reach, self.reach)
        wave = np.sin(np.outer(inside, self._rates)) @ self._terms
        return np.asarray(np.clip(0.5 - 2.0 / math.pi * wave, 0.0, 1.0))


def crowd_mean(first: LogisticSum, second: LogisticSum, a: float, b: float, w: float) -> float:
    """Return the mean of `pair_value` when a sum of logistic numbers is added to a and to b."""
    low = max(-w, a - first.reach, -b - second.reach)
    high = min(w, max(a + first.reach, -b + second.reach))
    both = first.positive(a - w) + second.positive(b + w)
    if low >= w:
        return both
    v = low + (high - low) * (_NODES + 1.0) / 2.0
    inner = second.above(-b - v) * (1.0 - first.above(v - a))
    return both - (high - low) / 2.0 * float(_WEIGHTS @ inner) - (w - high)


@dataclasses.dataclass(frozen=True, eq=False)
class Controls:
    r"""Control variates learned from a few maximisers: a function of noise (M, n), values (M, p).

    Their expectations over logistic noise are 0.

    Attributes
    ----------
    field : ndarray of shape (n,)
        Minus the mean gain of each element over the maximisers, its effective field. For a modular
        f it is exact and leaves no variance.
    """

    field: FloatArray
    _pairs: _Pairs | None
    _crowds: _Crowds

    @classmethod
    def learn(cls, f: SubmodularFunction, y: Bits) -> Controls:
        """Choose the control variates for f from some of its maximisers, the rows of y."""
        field = -f.gains(y).mean(axis=0)
        pairwise = pairwise_of(f)
        pairs = None
        if pairwise is not None and len(pairwise.edges):
            pairs = _Pairs(pairwise, field, y.mean(axis=0))
        return cls(field, pairs, _Crowds(f, field > 0))

    @property
    def guess(self) -> FloatArray:
        """Initial coefficients: elements and pairs are a weak-coupling expansion of V."""
        return np.array([1.0, 0.0, 1.0][: 2 + (self._pairs is not None)])

    def __call__(self, z: FloatArray) -> FloatArray:
        """Return the control variates at the rows of z."""
        alone = np.maximum(z + self.field, 0.0).sum(axis=1) - softplus(self.field).sum()
        columns = [alone, self._crowds(z)]
        if self._pairs is not None:
            columns.append(self._pairs(z))
        return np.stack(columns, axis=1)


class _Pairs:
    """Every edge with its two ends in the mean field of the others, minus the two ends alone."""

    def __init__(self, pairwise: Pairwise, field: FloatArray, mean: FloatArray) -> None:
        i, j = pairwise.edges.T
        w = pairwise.weights
        self._pairwise, self._field = pairwise, field
        # the field of one end without the contribution of the other
        self._first = field[i] + w * (1.0 - 2.0 * mean[j])
        self._second = field[j] + w * (1.0 - 2.0 * mean[i])
        both = pair_mean(self._first, self._second, w).sum()
        self._mean = float(both - pairwise.degree @ softplus(field))

    def __call__(self, z: FloatArray) -> FloatArray:
        i, j = self._pairwise.edges.T
        total = -np.maximum(z + self._field, 0.0) @ self._pairwise.degree - self._mean
        rows = max(1, _BLOCK // len(i))
        for at in range(0, len(z), rows):
            part = z[at : at + rows]
            a, b = part[:, i] + self._first, part[:, j] + self._second
            total[at : at + rows] += pair_value(a, b, self._pairwise.weights).sum(axis=1)
        return np.asarray(total)


class _Crowds:
    """The elements that are mostly 1 and those that are mostly 0, each as a single element."""

    def __init__(self, f: SubmodularFunction, on: BoolArray) -> None:
        self._members = np.stack([on, ~on]).astype(np.float64)
        f_on, f_off, f_all = (float(v) for v in f(np.stack([*self._members, np.ones(f.n)])))
        w = max(0.0, (f_on + f_off - f_all) / 2.0)
        self._a, self._b, self._w = w - f_on, w - f_off, w
        n_on, n_off = (int(row.sum()) for row in self._members)
        if n_on and n_off:
            self._mean = crowd_mean(LogisticSum(n_on), LogisticSum(n_off), self._a, self._b, w)
        else:
            self._mean = LogisticSum(f.n).positive(-f_all)

    def __call__(self, z: FloatArray) -> FloatArray:
        first, second = self._members @ z.T
        return pair_value(first + self._a, second + self._b, self._w) - self._mean
