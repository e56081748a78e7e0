"""Annealed importance sampling in both directions, which encloses log Z between two averages.

R. M. Neal, "Annealed importance sampling", Statistics and Computing 11, 2001. The chains are also
run backwards from exact samples, following R. B. Grosse, Z. Ghahramani and R. P. Adams,
"Sandwiching the marginal likelihood using bidirectional Monte Carlo", 2015.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from logsuper._base import (
    Bits,
    FloatArray,
    Seed,
    as_generator,
    as_key,
    check_confidence,
    count_threads,
)
from logsuper.bounds import Bound, rare, unseen
from logsuper.functions import SubmodularFunction, check_function, split_modular
from logsuper.sampling._budget import Meter, check_count
from logsuper.sampling._cftp import couple
from logsuper.sampling._scan import Scan, Sweeps, make_scan
from logsuper.solvers import logistic_noise


def log_partition(
    f: SubmodularFunction,
    meter: Meter,
    *,
    n_samples: int = 100,
    steps: int = 500,
    max_iter: int = 2**13,
    seed: Seed = None,
    n_jobs: int | None = None,
    confidence: float = 0.95,
) -> Bound:
    r"""Anneal from the modular part of f to f, and from exact samples of f back.

    Along :math:`f_b=b\,g-t^\top x` with :math:`0=b_0<\dots<b_K=1`, where :math:`-t^\top x` are the
    modular terms of f, a chain accumulates the log-weight
    :math:`\log w=-\sum_k(b_{k+1}-b_k)\,g(x_k)`, with a sweep at :math:`b_k` before :math:`x_k`.
    Forwards :math:`E\,w=e^{A(1)-A(0)}`, and backwards :math:`E\,1/w=e^{A(0)-A(1)}`. By Jensen's
    inequality :math:`E\log w` is at most :math:`A(1)-A(0)` forwards, and at least that backwards.

    Parameters
    ----------
    f : SubmodularFunction
    meter : Meter
    n_samples : int
        Number of independent chains per direction.
    steps : int
        Number of steps of the path; more steps bring the two averages closer.
    max_iter : int
        Maximum number of sweeps of coupling from the past, which provides the initial states of
        the backward chains.
    seed : int, Generator or None
    n_jobs : int, optional
    confidence : float

    Returns
    -------
    Bound
        The value is the midpoint of the two averages. `interval` extends from the lower to the
        upper average, widened by their sampling errors at the given confidence (central limit
        theorem), with an allowance for rare states if almost all chains have the same weight.
        ``details`` has the averages as ``"lower"`` and ``"upper"``.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import log_partition
    >>> found = log_partition(ls.Cut(2, [(0, 1)], 1.0), "ais", seed=0, confidence=0.99)
    >>> found.interval[0] < 1.0064 < found.interval[1]  # log 2 + log(1 + 1/e)
    True
    """
    total = check_count(n_samples, "n_samples", 2)
    points = np.linspace(0.0, 1.0, check_count(steps, "steps", 1) + 1)
    cap = check_count(max_iter, "max_iter", 1)
    level = check_confidence(confidence)
    threads = count_threads(n_jobs)
    scan = make_scan(check_function(f))
    rng = as_generator(seed)
    keys = [as_key(rng) for _ in range(4)]
    problems = np.arange(total, dtype=np.uint64)
    chains = 2 * (scan.operations(total, 1, len(points) - 2) + total * scan.energy_cost * steps)
    what = f"{total} chains of {f.n} elements and {steps} steps each way"
    meter.require(scan.operations(total, 2, 1) + chains, what)
    meter.count = 3 * total  # initial exact samples, forward chains and backward chains
    independent = logistic_noise(keys[0], problems, 0, f.n)[:, 0] < scan.modular
    exact = couple(scan, scan.modular[None], keys[1], total, cap, threads, meter)
    meter.require(chains, what)
    meter.plan(chains)
    there = _work(scan, independent.astype(np.uint8), points, keys[2], threads, meter)
    back = -_work(scan, exact, points[::-1], keys[3], threads, meter)
    modular = float(np.logaddexp(0.0, scan.modular).sum())
    lower, upper = (modular + float(work.mean()) for work in (there, back))
    below, above = (_error(f, work) for work in (there, back))
    z = float(stdtrit(total - 1, (1.0 + level) / 2.0))
    return Bound(
        (lower + upper) / 2.0,
        "estimate",
        "ais",
        confidence=level,
        stderr=float(np.hypot(below, above)) / 2.0,
        interval=(lower - z * below, upper + z * above),
        details={"lower": lower, "upper": upper, "log_weights": there, "log_weights_back": back},
    )


def _error(f: SubmodularFunction, work: FloatArray) -> float:
    """Return the standard error of the mean, with an allowance for chains that were not observed.

    Chains of total probability p, however low their log w, lower log E w by at most -log(1 - p),
    and by at most the range of g.
    """
    error = float(np.hypot(work.std(ddof=1) / np.sqrt(len(work)), rare(work)))
    g, _ = split_modular(f)
    gains = g.gains(np.stack([np.zeros(g.n), np.ones(g.n)]))
    return max(error, unseen(f, work) * min(1.0, float(np.abs(gains).sum())))


def _work(
    scan: Scan, states: Bits, points: FloatArray, key: int, threads: int, meter: Meter
) -> FloatArray:
    """Return log w of every chain along the points; the states are samples at the first point."""
    problems = np.arange(len(states), dtype=np.uint64)
    work = np.zeros(len(states))
    for k, step in enumerate(np.diff(points)):
        if k:
            sweep = Sweeps(key, problems, range(k, k + 1), float(points[k]), threads)
            scan.run(states[:, None], scan.modular[None], sweep, meter)
        work -= step * scan.energy(states)
        meter.spend(len(states) * scan.energy_cost)
    meter.spend(0.0, samples=len(states))
    return work
