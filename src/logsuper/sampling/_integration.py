"""Thermodynamic integration: log Z from means along a path, enclosed by Riemann sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

from logsuper._base import Seed, as_generator, check_confidence
from logsuper.bounds import Bound, hardly_any, is_modular, rare
from logsuper.functions import Modular, SubmodularFunction, check_function, split_modular
from logsuper.sampling._budget import Meter, check_count
from logsuper.sampling._methods import draw


def log_partition(
    f: SubmodularFunction,
    meter: Meter,
    *,
    n_samples: int = 200,
    steps: int = 32,
    sampler: str = "cftp",
    seed: Seed = None,
    n_jobs: int | None = None,
    confidence: float = 0.95,
    **options: Any,
) -> Bound:
    r"""Integrate :math:`A(1)=A(0)-\int_0^1E_b[g]\,db` along :math:`f_b=b\,g-t^\top x`.

    :math:`-t^\top x` are the modular terms of f, hence :math:`A(0)=\sum_d\log(1+e^{t_d})`. As
    :math:`dE_b[g]/db=-\mathrm{Var}_b(g)\le 0`, the sum over the left ends of the steps is above the
    integral and the one over the right ends below it. With exact samples, the only other error is
    that of sampling.

    Parameters
    ----------
    f : SubmodularFunction
    meter : Meter
        Counts the operations of all samples together.
    n_samples : int
        Number of samples at each of the steps + 1 points of the path.
    steps : int
    sampler : str
        The interval does not cover the bias of an approximate sampler.
    seed : int, Generator or None
    n_jobs : int, optional
    confidence : float
    **options
        Options of the sampler.

    Returns
    -------
    Bound
        The value is the trapezoidal sum. `interval` covers the discretisation error with
        certainty, and the sampling error at the given confidence (central limit theorem), with an
        allowance for unobserved states if almost all samples have the same energy. ``details`` has
        the two sums as ``"lower"`` and ``"upper"``.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.sampling import log_partition
    >>> found = log_partition(ls.Cut(2, [(0, 1)], 1.0), "ti", seed=0, confidence=0.99)
    >>> found.interval[0] < 1.0064 < found.interval[1]  # log 2 + log(1 + 1/e)
    True
    """
    total = check_count(n_samples, "n_samples", 2)
    points = np.linspace(0.0, 1.0, check_count(steps, "steps", 1) + 1)
    level = check_confidence(confidence)
    g, t = split_modular(check_function(f))
    rng = as_generator(seed)
    meter.count = total * len(points)
    own = {"n_jobs": n_jobs, **options}
    least = meter.rehearse(lambda: draw(f, total, sampler, meter, {"seed": 0, **own}))
    meter.require(int(steps) * least, f"{total} samples by {sampler!r} at {steps} points of a path")
    means, errors = np.empty((2, len(points)))
    missing = False
    for k, b in enumerate(points):
        X = draw(b * g - Modular(t), total, sampler, meter, {"seed": rng, **own})
        values = g(X)
        error = values.std(ddof=1) / np.sqrt(total)
        means[k], errors[k] = values.mean(), np.hypot(error, rare(values))
        missing |= hardly_any(values)
    width = np.diff(points)
    left, right = np.append(width, 0.0), np.append(0.0, width)
    modular = float(np.logaddexp(0.0, t).sum())
    lower, value, upper = (modular - float(w @ means) for w in (left, (left + right) / 2.0, right))
    below, stderr, above = (
        float(np.sqrt((w**2) @ errors**2)) for w in (left, (left + right) / 2.0, right)
    )
    if missing and not is_modular(f):
        least = _unseen(g, total, len(width))
        below, stderr, above = (max(error, least) for error in (below, stderr, above))
    z = float(stdtrit(total - 1, (1.0 + level) / 2.0))
    return Bound(
        value,
        "estimate",
        "ti",
        confidence=level,
        stderr=stderr,
        interval=(lower - z * below, upper + z * above),
        details={"lower": lower, "upper": upper, "points": points, "means": means},
    )


def _unseen(g: SubmodularFunction, samples: int, steps: int) -> float:
    r"""Return a minimum standard error for points where almost all samples have the same energy.

    States whose g is :math:`\Delta` above that of the others have a probability of
    :math:`p\,e^{-b\Delta}`, and contribute :math:`p(1-e^{-\Delta})` to the integral. At 95 %
    confidence, all samples miss them only if fewer than three are expected, that is
    :math:`p\lesssim(3/S)\min(1,\Delta/K)` for S samples at K points. :math:`\Delta` is taken as
    twice the largest gain of an element.
    """
    gains = g.gains(np.stack([np.zeros(g.n), np.ones(g.n)]))
    return 3.0 / samples * min(1.0, 2.0 * float(np.abs(gains).max()) / steps)
