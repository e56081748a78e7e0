r"""Logistic noise in independent blocks, the error of the mean over the blocks, and controls.

Controls are functions of the noise that resemble :math:`V(z)=\max_yz^\top y-f(y)` and have known
means. There are three, each exact in a limit: every element alone (no coupling), every pair of
neighbours alone (weak coupling), and two groups that act as one element each (strong coupling).
They are subtracted from V with coefficients that are learned.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri, stdtrit

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, Seed, as_generator, check_integer
from logsuper.functions import SubmodularFunction
from logsuper.solvers import prepare
from logsuper.structures import Pairwise, pairwise_of

# Minimum number of independent blocks, for the standard error; maximum number of strata, as more do
# not help.
_BLOCKS, _STRATA = 10, 100
# Float64 numbers of noise in memory at a time, up to whole blocks.
_HELD = 1 << 23
# Distance (nats) below which two values count as equal.
_SAME = 1e-3
# Largest value whose squares can be summed without overflow.
_LARGEST = 1e145

Design = Callable[[np.random.Generator, int, int], FloatArray]
Transform = Callable[[FloatArray], FloatArray]


def check_samples(n_samples: Any, least: int = 2) -> int:
    """Return a number of draws; a standard error needs at least two."""
    return check_integer(n_samples, "n_samples", least, 2**31)


def logit(u: FloatArray) -> FloatArray:
    """Return log u - log(1 - u); 0 and 1 are moved inside, so that the result is finite."""
    u = np.clip(u, 1e-300, 1.0 - 2.0**-53)
    return np.asarray(np.log(u) - np.log1p(-u))


def independent(rng: np.random.Generator, rows: int, n: int) -> FloatArray:
    """Draw uniform numbers of shape (rows, n)."""
    return rng.random((rows, n))


def latin_hypercube(rng: np.random.Generator, rows: int, n: int) -> FloatArray:
    """Draw uniform numbers (rows, n), each column with one number in each of the `rows` strata.

    Every row is uniform on the cube. The mean over the rows of a function that is additive over the
    columns has almost no variance (McKay, Beckman and Conover 1979; Stein 1987).
    """
    strata = np.argsort(rng.random((rows, n)), axis=0)
    return np.asarray((strata + rng.random((rows, n))) / rows)


def block_sizes(samples: int) -> IntArray:
    """Return the sizes of at least ten blocks of at least two draws, which differ by at most one.

    Fewer than twenty draws make fewer blocks, but at least two, as one has no standard error.
    """
    count = max(min(_BLOCKS, samples // 2), -(-samples // _STRATA), 2)
    return np.full(count, samples // count) + (np.arange(count) < samples % count)


class Batch(NamedTuple):
    """Some whole blocks of draws: noise (M, n), maximisers (M, n), values (M,), sizes of blocks."""

    z: FloatArray
    y: Bits
    values: FloatArray
    sizes: IntArray


class Draws:
    """A function that is maximised under noise, some blocks at a time."""

    def __init__(self, f: SubmodularFunction, seed: Seed, n_jobs: int | None) -> None:
        self.prepared, self.rng, self.n_jobs = prepare([f]), as_generator(seed), n_jobs

    def solve(
        self, sizes: IntArray, design: Design, transform: Transform = logit
    ) -> Iterator[Batch]:
        """Draw blocks of the given sizes and maximise, a limited number of blocks at a time."""
        rows = max(1, _HELD // self.prepared.n)
        for part in np.split(sizes, np.flatnonzero(np.diff(np.cumsum(sizes) // rows)) + 1):
            blocks = [transform(design(self.rng, int(size), self.prepared.n)) for size in part]
            z = np.concatenate(blocks)
            y, values, _ = self.prepared.maximize(z, [1.0], n_jobs=self.n_jobs)
            largest = float(np.abs(values).max())
            if not largest < _LARGEST:
                raise ValueError(
                    f"the maximum of -f under noise, {largest:.3g}, has no finite square; rescale f"
                )
            yield Batch(z, y, values, part)


def block_means(x: FloatArray, sizes: IntArray) -> FloatArray:
    """Return the mean of each block of rows."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.asarray(np.add.reduceat(x, starts, axis=0) / _column(sizes, x.ndim))


def mean_of_blocks(means: FloatArray, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the mean of all draws and its standard error from the means of independent blocks.

    With :math:`e_r` the mean of the :math:`B_r` draws of block r, whose variance is assumed to be
    inversely proportional to their number, the error is
    :math:`s^2=\sum_rB_r(e_r-\bar e)^2/((R-1)\sum_rB_r)`.
    """
    weight, total = _column(sizes, means.ndim), sizes.sum()
    mean = (weight * means).sum(axis=0) / total
    square = (weight * (means - mean) ** 2).sum(axis=0) / max(1, len(sizes) - 1)
    return mean, np.sqrt(square / total)


def _column(sizes: IntArray, ndim: int) -> IntArray:
    return sizes.reshape(-1, *[1] * (ndim - 1))


def student_factor(units: int) -> float:
    """Return the factor by which 1.96 standard errors become a Student interval of 95 %."""
    return float(stdtrit(max(1, units - 1), 0.975) / ndtri(0.975))


def t_interval(mean: float, stderr: float, units: int, confidence: float) -> tuple[float, float]:
    """Return the Student interval of a mean over independent units."""
    radius = float(stdtrit(max(1, units - 1), 0.5 + confidence / 2.0)) * stderr
    return mean - radius, mean + radius


def rare(values: FloatArray) -> float:
    """Return the error, besides the standard one, of a mean with rare, large deviations.

    Control variates can leave values that are constant except for such deviations, which few draws
    rarely show. If the largest deviation exceeds five standard deviations, an allowance is made for
    three more of its size, as many as may be missing at 95 % (the rule of three).
    """
    largest = float(np.abs(values - np.median(values)).max())
    return 3.0 * largest / len(values) if largest > 5.0 * float(np.std(values)) else 0.0


def unseen(f: SubmodularFunction, values: FloatArray) -> float:
    """Return the minimum standard error of values of which almost none differ.

    If fewer than one draw in ten differs from the rest, other events may have been missed: at 95 %
    they occur fewer than three times in `len(values)` draws, and they change a perturbed maximum by
    about 1, as logistic tails are exponential. Only for a modular function can none be missed.
    """
    return 0.0 if is_modular(f) or not hardly_any(values) else 3.0 / len(values)


def hardly_any(values: FloatArray) -> bool:
    """Return whether fewer than one value in ten differs from the rest."""
    return bool((np.abs(values - np.median(values)) > _SAME).mean() < 0.1)


def is_modular(f: SubmodularFunction) -> bool:
    """Return whether the elements are known to be independent."""
    if f.n == 1:
        return True
    pairwise = pairwise_of(f)
    return pairwise is not None and not len(pairwise.edges)


def frequency_error(mean: FloatArray, count: float) -> FloatArray:
    """Return the standard error of frequencies, with two zeros and two ones added to the draws.

    It is never 0, and 1.96 times it covers as many events as may have been missed at 95 % (Agresti
    and Coull 1998).
    """
    padded = (count * mean + 2.0) / (count + 4.0)
    return np.asarray(np.sqrt(padded * (1.0 - padded) / count))


def seldom(mean: FloatArray, count: float) -> BoolArray:
    """Return which frequencies come from fewer than ten draws that differ from the others."""
    return np.asarray(np.minimum(mean, 1.0 - mean) * count < 10.0)


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
