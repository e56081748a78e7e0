"""Thermodynamic integration: log Z from the mean of f along a path, enclosed by Riemann sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

from logsuper._base import Seed, as_generator, check_confidence
from logsuper.bounds import Bound, hardly_any, is_modular, rare
from logsuper.functions import Modular, SubmodularFunction, check_function, split_modular
from logsuper.sampling._budget import Meter
from logsuper.sampling._inputs import check_count
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
    integral and the one over the right ends below: with exact samples only the sampling error is
    left to chance.

    Parameters
    ----------
    f : SubmodularFunction
    meter : Meter
        Of all samples together.
    n_samples : int
        At each of the steps + 1 points of the path.
    steps : int
    sampler : str
        With an approximate one the interval does not cover its bias.
    seed : int, Generator or None
    n_jobs : int, optional
    confidence : float
    **options
        Those of the sampler.

    Returns
    -------
    Bound
        The value is the trapezoidal sum; `interval` covers the error of the discretisation, fully,
        and that of sampling, at the given confidence by the central limit theorem, with an
        allowance for states that may not have come up where hardly any sample differs. ``details``
        has the two sums as ``"lower"`` and ``"upper"``.

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
    r"""Return the least standard error where hardly any sample differs at some point of the path.

    States that are :math:`\Delta` in g above the others have a probability of
    :math:`p\,e^{-b\Delta}`, and :math:`p(1-e^{-\Delta})` of the integral; at 95 % the samples of
    all points miss them only if they are fewer than three among them,
    :math:`p\lesssim(3/S)\min(1,\Delta/K)` for S samples at K points. One element moves g by its
    largest gain, a few by as much as twice that.
    """
    gains = g.gains(np.stack([np.zeros(g.n), np.ones(g.n)]))
    return 3.0 / samples * min(1.0, 2.0 * float(np.abs(gains).max()) / steps)
