r"""The logistic bound :math:`\log Z\le\mathbb E\max_yz^\top y-f(y)`, by sampling.

The :math:`z_d` are independent standard logistic numbers (Shpakova and Bach 2016, section 3.2):
differences of two Gumbel numbers, so that this is the bound of Hazan and Jaakkola 2012 for binary
variables. It holds for any f; submodularity makes each maximum a single minimisation.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from logsuper._base import FloatArray, IntArray, Seed, as_key, check_choice, check_confidence
from logsuper.bounds._draws import (
    Batch,
    Controls,
    Design,
    Draws,
    block_means,
    block_sizes,
    check_samples,
    frequency_error,
    independent,
    latin_hypercube,
    mean_of_blocks,
    rare,
    seldom,
    student_factor,
    t_interval,
    unseen,
)
from logsuper.bounds._needs import TooLarge
from logsuper.bounds._results import Bound, Marginals
from logsuper.functions import SubmodularFunction
from logsuper.solvers import prepare

_REDUCTIONS = ("auto", "none", "latin_hypercube", "regression")
_FORMS = ("plain", "smoothed", "ratio")
# Minimum number of draws for learning control variates.
_FEW = 20
_PILOT = 50
_FOLDS = 10
_MOST_SOLVES = 10**8
_HELD = 1 << 22


def log_partition(
    f: SubmodularFunction,
    *,
    n_samples: int = 100,
    variance_reduction: str = "auto",
    confidence: float = 0.95,
    rigorous: bool = False,
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Bound:
    r"""Estimate the logistic upper bound :math:`\mathbb E\max_yz^\top y-f(y)`.

    Parameters
    ----------
    f : LogSupermodular or SubmodularFunction
    n_samples : int, default 100
        Total number of minimisations, at least 2.
    variance_reduction : {"auto", "none", "latin_hypercube", "regression"}
        "none" averages independent draws. "latin_hypercube" draws in blocks, each of which covers
        the range of every coordinate evenly. "regression" spends a tenth of the draws on a pilot
        run, which determines control variates with known means. "auto" does both, unless there are
        fewer than 20 draws.
    confidence : float, default 0.95
        Confidence of the interval, or of the certificate.
    rigorous : bool, default False
        Return a certified upper bound instead of an estimate of one: the mean of independent draws
        plus a radius that holds for any sample size. It is wide, about
        :math:`\sqrt{(\pi^2/6)n\log(1/\delta)/M}` for M draws; `variance_reduction` must keep its
        default, since no certificate is known with it.
    seed : int, numpy Generator or None
    n_jobs : int, optional
        Number of threads over the draws; it does not change the result.

    Returns
    -------
    Bound
        With target "upper". Not certified, unless rigorous: its interval is for the expectation,
        which in turn exceeds log Z.

    Notes
    -----
    The coefficients of the control variates of a block come from the other blocks (cross-fitting),
    so that the estimate is unbiased. Its standard error is that of the mean of independent blocks,
    with Student's quantile and an allowance for rare events that the draws may have missed. At
    strong coupling, where the control variates explain everything except such events, an interval
    from a hundred draws can still be too narrow; use a thousand, or
    ``variance_reduction="none"``.

    Examples
    --------
    >>> import logsuper as ls
    >>> f = ls.Cut(2, [(0, 1)])
    >>> bound = ls.bounds.logistic(f, n_samples=1000, seed=0)
    >>> round(bound.value, 2)  # 2 log(1 + 1/e) + 2 sigma(1) - 1; log Z is 1.0064
    1.09
    """
    count = check_samples(n_samples)
    level = check_confidence(confidence)
    how = check_choice(variance_reduction, "variance_reduction", _REDUCTIONS)
    if rigorous:
        if how not in ("auto", "none"):
            raise ValueError(
                f"rigorous needs independent draws, got variance_reduction={how!r}; leave it out"
            )
        return _certified(f, count, level, seed, n_jobs)
    if how == "auto" and count < _FEW:
        how = "none"
    if how == "regression" and count < _FEW:
        raise ValueError(f"regression needs at least {_FEW} samples to learn from, got {count}")
    if how == "none":
        pilot, units = 0, np.ones(count, dtype=np.int64)
        noisy = prepare([f]).perturb(np.zeros(f.n), [1.0], count, as_key(seed), n_jobs=n_jobs)
        values = noisy.values[0]
    else:
        draws = Draws(f, seed, n_jobs)
        pilot = 0 if how == "latin_hypercube" else min(_PILOT, count // 10)
        units = block_sizes(count - pilot)
        design = independent if how == "regression" else latin_hypercube
        values = _reduced(f, draws, pilot, units, design)
    mean, stderr = (float(x) for x in mean_of_blocks(block_means(values, units), units))
    stderr = max(math.hypot(stderr, rare(values)), unseen(f, values))
    return Bound(
        mean,
        "upper",
        "logistic",
        confidence=level,
        stderr=stderr,
        interval=t_interval(mean, stderr, len(units), level),
        solves=count,
        details={"variance_reduction": how, "pilot": pilot, "blocks": len(units)},
    )


def _certified(
    f: SubmodularFunction, samples: int, confidence: float, seed: Seed, n_jobs: int | None
) -> Bound:
    """Return the mean over independent draws plus their `radius`."""
    draws = Draws(f, seed, n_jobs)
    # one draw per block: the draws are independent, and any number of them fits in memory
    units = np.ones(samples, dtype=np.int64)
    parts = [b.values - b.z.sum(axis=1) / 2.0 for b in draws.solve(units, independent)]
    mean, stderr = (float(x) for x in mean_of_blocks(np.concatenate(parts), units))
    wide = radius(f.n, samples, confidence)
    return Bound(
        mean + wide,
        "upper",
        "logistic",
        certified=True,
        confidence=confidence,
        stderr=stderr,
        solves=samples,
        details={"mean": mean, "radius": wide},
    )


def _reduced(
    f: SubmodularFunction, draws: Draws, pilot: int, sizes: IntArray, design: Design
) -> FloatArray:
    """Return the values of all draws, minus the control variates of a pilot run, if any."""
    controls = None
    if pilot:
        [first] = draws.solve(np.array([pilot]), latin_hypercube)
        controls = Controls.learn(f, first.y)
    values, columns = [], []
    for batch in draws.solve(sizes, design):
        values.append(batch.values)
        if controls is not None:
            columns.append(controls(batch.z))
    value = np.concatenate(values)
    if controls is None:
        return value
    return without(value, np.concatenate(columns), controls.guess, sizes)


def without(
    values: FloatArray, controls: FloatArray, guess: FloatArray, sizes: IntArray
) -> FloatArray:
    """Subtract the control variates from the values, with coefficients from other blocks.

    Least squares with a penalty of one residual variance on the squared distance from the guess: a
    control variate that hardly varies in the draws, since its events are rare, keeps its guess.
    """
    fold = np.repeat(np.arange(len(sizes)) * min(_FOLDS, len(sizes)) // len(sizes), sizes)
    count, p = controls.shape
    out = values - controls @ guess
    design = np.column_stack([np.ones(count), controls])
    rest = out.copy()
    for k in range(fold[-1] + 1):
        here = fold == k
        rows, target = design[~here], rest[~here]
        residual = target - rows @ np.linalg.lstsq(rows, target, rcond=None)[0]
        noise = np.sqrt(residual @ residual / max(1, len(rows) - p - 1))
        rows = np.concatenate([rows, noise * np.eye(p + 1)[1:]])
        target = np.concatenate([target, np.zeros(p)])
        out[here] -= controls[here] @ np.linalg.lstsq(rows, target, rcond=None)[0][1:]
    return out


def marginals(
    f: SubmodularFunction,
    *,
    n_samples: int = 100,
    form: str = "plain",
    variance_reduction: str = "auto",
    seed: Seed = None,
    n_jobs: int | None = None,
) -> Marginals:
    r"""Estimate marginals from the maximisers under logistic noise.

    Parameters
    ----------
    f : SubmodularFunction
    n_samples : int, default 100
        Number of draws, at least 2.
    form : {"plain", "smoothed", "ratio"}
        With :math:`\Delta_d(z)` the best value with :math:`y_d=1` minus the best with
        :math:`y_d=0`, both without :math:`z_d`:

        * "plain", the mean of the maximisers :math:`y^*_d=1[z_d>-\Delta_d]`, the gradient of the
          logistic bound;
        * "smoothed", the mean of :math:`\sigma(\Delta_d)`: the same expectation, less noise;
        * "ratio", :math:`\sigma` of the mean of :math:`\Delta_d`, the ratio of the logistic bounds
          of the two conditional models: usually much closer to the exact marginals.

        The latter two take n + 1 minimisations per draw instead of one.
    variance_reduction : {"auto", "none", "latin_hypercube"}
        How the noise is drawn. "auto" is "none" for the plain form, for which the kernel draws the
        noise so fast that a better design does not pay, and "latin_hypercube" for the others.
    seed : int, numpy Generator or None
    n_jobs : int, optional

    Returns
    -------
    Marginals
        With standard errors of the quantity that the form estimates.

    Examples
    --------
    >>> import logsuper as ls
    >>> m = ls.LogSupermodular(ls.Cut(2, [(0, 1)]) - ls.Modular([1.0, 0.0]))
    >>> m.marginals("logistic", n_samples=2000, form="ratio", seed=0).values.round(1)
    array([0.7, 0.6])
    """
    count = check_samples(n_samples)
    check_choice(form, "form", _FORMS)
    how = check_choice(variance_reduction, "variance_reduction", _REDUCTIONS[:3])
    solves = count if form == "plain" else count * (f.n + 1)
    if solves > _MOST_SOLVES:
        raise TooLarge(
            f"the form {form!r} needs {solves:.3g} minimisations, above {_MOST_SOLVES:g}; "
            "ask for fewer samples, or for the form 'plain'",
            solves,
        )
    if form == "plain" and how != "latin_hypercube":
        noisy = prepare([f]).perturb(np.zeros(f.n), [1.0], count, as_key(seed), n_jobs=n_jobs)
        mean = noisy.mean[0]
        stderr = frequency_error(mean, count)
        return Marginals(mean, "logistic", stderr=stderr, solves=solves, details={"form": form})
    draws = Draws(f, seed, n_jobs)
    if how == "none":
        sizes, design = np.ones(count, dtype=np.int64), independent
    else:
        sizes, design = block_sizes(count), latin_hypercube
    means, on = [], np.zeros(f.n)
    for batch in draws.solve(sizes, design):
        found = batch.y.astype(np.float64) if form == "plain" else _differences(draws, batch)
        means.append(block_means(expit(found) if form == "smoothed" else found, batch.sizes))
        on += (found > 0).sum(axis=0)
    mean, stderr = mean_of_blocks(np.concatenate(means), sizes)
    stderr = student_factor(len(sizes)) * stderr
    # if the better value of an element almost never changed, changes may have been missed: each
    # changes the mean by at most the difference of the extreme gains
    few = seldom(on / count, count)
    least = frequency_error(on / count, count)
    gains = -f.gains(np.stack([np.ones(f.n), np.zeros(f.n)]))
    if form == "smoothed":
        least = least * (expit(gains[0]) - expit(gains[1]))
    elif form == "ratio":
        least = least * (gains[0] - gains[1])
    stderr = np.where(few, np.maximum(stderr, least), stderr)
    if form == "ratio":
        mean, stderr = expit(mean), expit(mean) * expit(-mean) * stderr
    return Marginals(mean, "logistic", stderr=stderr, solves=solves, details={"form": form})


def _differences(draws: Draws, batch: Batch) -> FloatArray:
    """Return the best value with y_d = 1 minus that with y_d = 0, without z_d, per row and d.

    One of the two is known from the maximiser; the other takes a minimisation in which element d
    is fixed to its other value.
    """
    z, on, best = batch.z, batch.y > 0, batch.values[:, None]
    n = z.shape[1]
    other = np.empty_like(z)
    step = max(1, _HELD // n)
    for at in range(0, z.size, step):
        m, d = np.divmod(np.arange(at, min(at + step, z.size)), n)
        theta = z[m]
        theta[np.arange(len(m)), d] = np.where(on[m, d], -np.inf, np.inf)
        other[m, d] = draws.prepared.maximize(theta, [1.0], n_jobs=draws.n_jobs)[1]
    return np.where(on, best - z - other, other - best)


def radius(n: int, samples: int, confidence: float) -> float:
    r"""Return r such that the mean of F over iid draws plus r exceeds its expectation.

    :math:`F(z)=V(z)-\mathbf 1^\top z/2` changes by at most half the change of a coordinate, and for
    logistic z

    .. math:: \mathbb E\,e^{\lambda(\mathbb EF-F)}
              \le\Bigl(\frac{\pi\lambda/2}{\sin(\pi\lambda/2)}\Bigr)^n,\qquad 0<\lambda<2,

    one coordinate after the other: the right side is the moment generating function of z/2. By
    Chernoff :math:`r=\min_\lambda(n\psi(\lambda)+\log(1/\delta)/M)/\lambda` with the logarithm
    :math:`n\psi` of the right side, M draws and :math:`\delta=1-` confidence. Any :math:`\lambda`
    gives a valid radius, so the minimisation need not be accurate.
    """
    spare = -math.log1p(-confidence) / samples

    def bound(scale: float) -> float:
        angle = math.pi * scale / 2.0
        return (n * math.log(angle / math.sin(angle)) + spare) / scale

    # psi is at least pi^2 lambda^2 / 24, so the minimum lies below this (or 1e-6, for a confidence
    # close to 0)
    most = max(1e-6, min(2.0 - 1e-9, math.sqrt(24.0 * spare / (n * math.pi**2))))
    best = minimize_scalar(bound, bounds=(most / 1e3, most), method="bounded")
    return float(bound(float(best.x)))
