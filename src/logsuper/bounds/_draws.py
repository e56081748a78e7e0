"""Logistic noise in independent blocks, and the error of the mean over the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from logsuper._base import Bits, BoolArray, FloatArray, IntArray, Seed, as_generator, check_integer
from logsuper.functions import SubmodularFunction
from logsuper.solvers import prepare
from logsuper.structures import pairwise_of

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
