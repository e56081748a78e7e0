"""Marginals by sampling, with standard errors and confidence bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaincinv, expit

from logsuper._base import Bits, FloatArray, IntArray, Seed, as_key, check_confidence, count_threads
from logsuper.bounds import Marginals, frequency_error
from logsuper.functions import SubmodularFunction, check_function
from logsuper.sampling._budget import check_count
from logsuper.sampling._cftp import coupled_states
from logsuper.sampling._methods import SAMPLERS, sample
from logsuper.sampling._scan import Sweeps, make_scan

# Number of elements per batch of coupled chains.
_BLOCK = 1 << 24


def marginals(
    f: SubmodularFunction,
    *,
    n_samples: int = 1000,
    sampler: str = "cftp",
    seed: Seed = None,
    n_jobs: int | None = None,
    confidence: float | None = None,
    **options: Any,
) -> Marginals:
    r"""Estimate the marginals from samples.

    The estimate is the mean over samples of the probability of each element given all others,
    :math:`P(x_d=1\mid x_{-d})=\sigma(-[f(x,x_d=1)-f(x,x_d=0)])`. It has the same expectation as
    the frequency of ones, less variance (Rao-Blackwell), and is never 0 or 1.

    Parameters
    ----------
    f : SubmodularFunction
    n_samples : int
    sampler : str
        One of `SAMPLERS`. With an exact sampler, such as "cftp", the values are unbiased.
    seed : int, Generator or None
    n_jobs : int, optional
    confidence : float, optional
        Probability with which `lower` and `upper` hold for all elements at once (Clopper-Pearson
        with Bonferroni's correction); no bounds by default. Exact samplers only.
    **options
        Options of the sampler.

    Returns
    -------
    Marginals
        The standard errors are those of frequencies, which are larger. They treat the samples as
        independent, and add two zeros and two ones to the counts of each element, so that none
        of them is 0.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import marginals
    >>> f = ls.Cut(3, [(0, 1), (1, 2)], 1.0) - ls.Modular([2.0, 0.0, 0.0])
    >>> found = marginals(f, n_samples=2000, seed=0, confidence=0.99)
    >>> found
    <3 marginals by sampling, known to 0.0654, standard error up to 0.011>
    """
    total = check_count(n_samples, "n_samples", 1)
    level = None if confidence is None else check_confidence(confidence)
    if level is not None and sampler in SAMPLERS and not SAMPLERS[sampler].exact:
        exact = ", ".join(name for name, entry in SAMPLERS.items() if entry.exact)
        raise ValueError(
            f"confidence was given, but {sampler!r} is approximate and gives no confidence bounds; "
            f"leave confidence out, or use an exact sampler: {exact}"
        )
    X = sample(f, total, sampler, seed=seed, n_jobs=n_jobs, **options)
    ones = X.sum(axis=0, dtype=np.int64)
    mean = _conditional_mean(f, X)
    lower = upper = None
    if level is not None:
        lower, upper = clopper_pearson(ones, ones, total, level)
        mean = np.clip(mean, lower, upper)
    return Marginals(
        mean,
        "sampling",
        lower=lower,
        upper=upper,
        stderr=frequency_error(ones / total, total),
        confidence=level,
        details={"n_samples": total, "sampler": sampler},
    )


def _conditional_mean(f: SubmodularFunction, X: Bits) -> FloatArray:
    """Return the mean over the rows of X of P(x_d = 1 | the others), clipped inside (0, 1)."""
    total = np.zeros(f.n)
    step = max(1, _BLOCK // (8 * max(1, f.n)))
    for first in range(0, len(X), step):
        total += expit(-f.gains(X[first : first + step])).sum(axis=0)
    return np.clip(total / len(X), np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))


def coupled_marginals(
    f: SubmodularFunction,
    *,
    sweeps: int = 100,
    n_samples: int = 100,
    seed: Seed = None,
    n_jobs: int | None = None,
    confidence: float = 0.95,
) -> Marginals:
    r"""Enclose the marginals by pairs of coupled chains, which need not coalesce.

    With the same noise, a chain from all 0 stays below a stationary chain, and one from all 1
    above it, hence :math:`E\,x^{lo}_T\le\mu\le E\,x^{hi}_T` after any number T of sweeps.

    Parameters
    ----------
    f : SubmodularFunction
    sweeps : int
        Number T of sweeps; more sweeps give narrower bounds.
    n_samples : int
        Number of independent pairs of chains.
    seed : int, Generator or None
    n_jobs : int, optional
    confidence : float
        Probability with which all bounds hold at once (Clopper-Pearson with Bonferroni's
        correction).

    Returns
    -------
    Marginals
        The values are the midpoints of the two means. ``details["coalesced"]`` is the fraction of
        pairs that coalesced.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import coupled_marginals
    >>> fh, fv = ls.grid_cuts((8, 8))
    >>> f = 0.5 * fh + 0.5 * fv - ls.Modular([2.0] * 64)
    >>> found = coupled_marginals(f, sweeps=5, n_samples=2000, seed=0)
    >>> bool(found.lower.min() > 0.92), bool((found.upper - found.lower).max() < 0.05)
    (True, True)
    """
    length, total = check_count(sweeps, "sweeps", 1), check_count(n_samples, "n_samples", 1)
    level = check_confidence(confidence)
    threads = count_threads(n_jobs)
    key = as_key(seed)
    if check_function(f).n == 0:
        empty = np.empty(0)
        return Marginals(empty, "coupled", empty, empty, confidence=level)
    scan = make_scan(f)
    ones = np.zeros((2, f.n), dtype=np.int64)
    met, step = 0, max(1, _BLOCK // f.n)
    for first in range(0, total, step):
        problems = np.arange(first, min(total, first + step), dtype=np.uint64)
        past = Sweeps(key, problems, range(length - 1, -1, -1), threads=threads)
        states = coupled_states(scan, scan.modular[None], past)
        ones += states.sum(axis=0, dtype=np.int64)
        met += int((states[:, 0] == states[:, 1]).all(axis=1).sum())
    lower, upper = clopper_pearson(ones[0], ones[1], total, level)
    return Marginals(
        ones.mean(axis=0) / total,
        "coupled",
        lower=lower,
        upper=upper,
        confidence=level,
        details={"n_samples": total, "sweeps": length, "coalesced": met / total},
    )


def clopper_pearson(
    below: IntArray, above: IntArray, total: int, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return simultaneous lower (from `below`) and upper bounds (from `above`) of probabilities."""
    tail = (1.0 - confidence) / (2.0 * max(1, len(below)))
    lower, upper = np.zeros(len(below)), np.ones(len(above))
    some, rest = below > 0, above < total
    lower[some] = betaincinv(below[some], total - below[some] + 1, tail)
    upper[rest] = betaincinv(above[rest] + 1, total - above[rest], 1.0 - tail)
    return lower, upper
