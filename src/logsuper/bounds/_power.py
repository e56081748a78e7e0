r"""A family of upper bounds from the logistic one down to log Z itself, by sampling.

.. math:: \log Z\le U_a=\frac1a\log\mathbb E\,e^{aV(z)},\qquad V(z)=\max_yz^\top y-f(y),

for :math:`0<a<1` and :math:`z_d=\operatorname{logit}u_d` with independent
:math:`u_d\sim\mathrm{Beta}(1-a,1)`: the Fréchet bound of Balog, Tripuraneni, Ghahramani and Weller
2017 with one perturbation per element, whose pairs of Weibull numbers are merged into one.
:math:`a\to0` gives the logistic bound, :math:`a\to1` gives log Z.

The draws come from another distribution. A modular function with the field h has
:math:`C(z)=\sum_d(z_d+h_d)_+` for V and :math:`U_a=\sum_d\log(1+e^{h_d})` for every a, hence

.. math:: U_a=\sum_d\log(1+e^{h_d})+\frac1a\log\mathbb E_h\,e^{a(V(z)-C(z))}

where the distribution of z is tilted by :math:`e^{aC(z)}`. It has a closed form:
:math:`z_d>-h_d` with probability :math:`\sigma(h_d)`, and then
:math:`1-u_d=\sigma(h_d)\,r^{1/(1-a)}` with r uniform; otherwise
:math:`u_d=\sigma(-h_d)\,r^{1/(1-a)}`. As V - C is bounded, so are the logarithms of the weights,
for any a.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import expit, logsumexp

from logsuper._base import Bits, FloatArray, IntArray, Seed, check_confidence, check_number
from logsuper.bounds._draws import (
    Draws,
    block_means,
    block_sizes,
    check_samples,
    frequency_error,
    latin_hypercube,
    mean_of_blocks,
    rare,
    seldom,
    softplus,
    t_interval,
    unseen,
)
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction

# Target standard deviation of the log-weights. If they were normal, a fraction 1/e of the draws
# would be effective; as tails are heavier, a quarter is expected.
_DEVIATION = 1.0
_LARGEST = 0.95
_LEAST = 20
_PILOT = 50


def log_partition(
    f: SubmodularFunction,
    *,
    a: float | None = None,
    n_samples: int = 200,
    confidence: float = 0.95,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bound:
    r"""Estimate the upper bound :math:`U_a`, tighter than the logistic one.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
    a : float, optional
        Between 0 and 1; a larger value is tighter and noisier. By default it is chosen in a pilot
        run, such that at least a quarter of the draws should be effective, and at most 0.95.
    n_samples : int, default 200
        Total number of minimisations, including the pilot run; at least 20.
    confidence : float, default 0.95
    seed : int, numpy Generator or None
    n_jobs : int, optional
        Number of threads over the draws; it does not change the result.

    Returns
    -------
    Bound
        With target "upper", not certified. The value is corrected for the first-order bias of the
        logarithm of a mean; ``details`` has `a` and the effective sample size.

    Examples
    --------
    >>> import logsuper as ls
    >>> f = ls.Cut(2, [(0, 1)])
    >>> round(ls.bounds.power(f, a=0.9, n_samples=4000, seed=0).value, 2)  # log Z is 1.0064
    1.02
    """
    level = check_confidence(confidence)
    run = _run(f, a, n_samples, seed, n_jobs)
    mean, stderr = (
        float(x) for x in mean_of_blocks(block_means(run.weights, run.sizes), run.sizes)
    )
    noise = max(math.hypot(stderr, rare(run.weights)) / mean, run.a * unseen(f, run.weights))
    # with heavy tails, only the effective draws carry information
    units = min(len(run.sizes), max(2, int(run.effective)))
    value = run.shift + (math.log(mean) + noise**2 / 2.0) / run.a
    return Bound(
        value,
        "upper",
        "power",
        confidence=level,
        stderr=noise / run.a,
        interval=t_interval(value, noise / run.a, units, level),
        solves=n_samples,
        details={"a": run.a, "effective": run.effective},
    )


def marginals(
    f: SubmodularFunction,
    *,
    a: float | None = None,
    n_samples: int = 200,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Marginals:
    r"""Estimate marginals by the gradient of :math:`U_a`, the weighted mean of the maximisers.

    Parameters
    ----------
    f : SubmodularFunction
    a, n_samples, seed, n_jobs
        As for `log_partition`.

    Returns
    -------
    Marginals
        With standard errors by the delta method, which are positive even if almost no draw differs.

    Examples
    --------
    >>> import logsuper as ls
    >>> f = ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0])
    >>> ls.LogSupermodular(f).marginals("power", n_samples=4000, seed=0).values.round(1)
    array([0.7, 0.6])
    """
    run = _run(f, a, n_samples, seed, n_jobs)
    sums = block_means(run.weights, run.sizes)[:, None]
    ends = np.cumsum(run.sizes)[:-1]
    pairs = zip(np.split(run.weights, ends), np.split(run.y, ends), strict=True)
    products = np.stack([w @ y / len(w) for w, y in pairs])
    share, _ = mean_of_blocks(sums, run.sizes)
    # by rounding, the ratio may exceed 1 for an element that is always on
    mean = np.minimum(mean_of_blocks(products, run.sizes)[0] / share, 1.0)
    # delta method for the ratio of two means
    _, stderr = mean_of_blocks((products - sums * mean) / share, run.sizes)
    # elements for which almost no draw differs
    few = seldom(mean, run.effective)
    stderr = np.where(few, np.maximum(stderr, frequency_error(mean, run.effective)), stderr)
    details = {"a": run.a, "effective": run.effective}
    return Marginals(mean, "power", stderr=stderr, solves=n_samples, details=details)


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    """Weighted draws: U_a = shift + log(E weight) / a."""

    a: float
    shift: float
    weights: FloatArray
    y: Bits
    sizes: IntArray

    @property
    def effective(self) -> float:
        """Effective sample size: the number of equally weighted draws with the same variance."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())


def _run(
    f: SubmodularFunction, a: float | None, samples: int, seed: Seed, n_jobs: int | None
) -> _Run:
    """Learn the field, choose a, and draw."""
    power = None if a is None else check_number(a, "a")
    if power is not None and not 0.0 < power < 1.0:
        raise ValueError(f"a must lie strictly between 0 and 1, got {power:g}")
    count = check_samples(samples, _LEAST)
    draws = Draws(f, seed, n_jobs)
    pilot = min(_PILOT, count // 10)
    [first] = draws.solve(np.array([pilot]), latin_hypercube)
    # include all zeros and all ones, so that the draws also cover states that the pilot run missed
    extremes = np.repeat(np.array([[0], [1]], dtype=np.uint8), f.n, axis=1)
    field = typical_field(f.gains(np.concatenate([first.y, extremes])))
    if power is None:
        # the deviation of V - C grows with a, so a second estimate, at the first one, is safe
        power, trial = _LARGEST, 0.0
        for _ in range(2):
            gaps, _ = _draw(draws, field, trial, [pilot])
            power = trial = min(power, _DEVIATION / max(float(np.std(gaps, ddof=1)), 1e-3))
            count -= pilot
    sizes = block_sizes(count - pilot)
    gaps, maximisers = _draw(draws, field, power, sizes)
    peak = float(gaps.max())
    weights = np.exp(power * (gaps - peak))
    return _Run(power, float(softplus(field).sum()) + peak, weights, maximisers, sizes)


def _draw(
    draws: Draws, field: FloatArray, a: float, sizes: IntArray | list[int]
) -> tuple[FloatArray, Bits]:
    """Return V - C and the maximisers for draws of the distribution tilted by e^(aC)."""
    gaps, maximisers = [], []
    for batch in draws.solve(np.asarray(sizes), latin_hypercube, lambda u: tilted(u, field, a)):
        gaps.append(batch.values - np.maximum(batch.z + field, 0.0).sum(axis=1))
        maximisers.append(batch.y)
    return np.concatenate(gaps), np.concatenate(maximisers)


def tilted(u: FloatArray, field: FloatArray, a: float) -> FloatArray:
    """Map uniform numbers monotonically, per column, to noise tilted towards the field."""
    off = expit(-field)
    right = u >= off
    # below -h: u' = sigma(-h) r^(1 / (1 - a)), r = u / sigma(-h); above, from the other end
    side = np.where(right, -field, field)
    with np.errstate(divide="ignore", invalid="ignore"):
        rank = np.where(right, (1.0 - u) / expit(field), u / off)
    rank = np.clip(np.nan_to_num(rank, nan=1.0), 1e-300, 1.0)
    log_small = -softplus(side) + np.log(rank) / (1.0 - a)
    # logit of a number given by its logarithm
    z = log_small - np.log(-np.expm1(np.minimum(log_small, -1e-300)))
    return np.asarray(np.where(right, -z, z))


def typical_field(gains: FloatArray) -> FloatArray:
    """Return the logit of the mean over the rows of sigma(-gain), in log space throughout.

    The probability that x_d = 1 given the other elements is sigma(-gain_d).
    """
    on, off = -softplus(gains), -softplus(-gains)
    return np.asarray(logsumexp(on, axis=0) - logsumexp(off, axis=0))
