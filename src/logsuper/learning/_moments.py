r"""Learning from noisy observations alone, by the supervised likelihood of estimated moments.

The loss of labelled examples (section 4.3 of the paper), :math:`A_i(\theta)-\theta^\top
\varphi_i(x_i)`, needs of the labels only the mean of :math:`\varphi_i(x_i)`. Where elements are
corrupted independently, an estimate :math:`\hat x(z)` with :math:`E[\hat x\mid x]=x` gives all of
that mean without a bias and without a label: an edge :math:`|x_i-x_j|` by :math:`\hat x_i+\hat x_j
-2\hat x_i\hat x_j`, x by :math:`\hat x`, and :math:`l(z)^\top x` by the channel's `agreement`. So
the problem stays the convex supervised one.

Estimated moments may be those of no distribution; the loss then has no lower bound, and only a
regulariser keeps the parameters finite.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import NamedTuple

import numpy as np

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    Seed,
    as_generator,
    as_keys,
    check_callback,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.channels import Channel
from logsuper.learning._checkpoint import check_seed
from logsuper.learning._descent import Path, descend, draws_of
from logsuper.learning._engines import Exact, FreshNoise
from logsuper.learning._error_bars import Relaxed, find_error_bars, move_rates
from logsuper.learning._exact import fit_exactly
from logsuper.learning._examples import Examples, check_observed
from logsuper.learning._learned import Callback, Learned, Record
from logsuper.learning._moment_targets import check_penalty, moment_targets
from logsuper.learning._objective import Objective, Penalty, check_problem
from logsuper.learning._stochastic import units

HEAVY = 10.0
"""Number of units beyond which weights are impossible: no pixel could feel the difference."""

# An objective is negative if it is below 0 by this number of its standard errors.
_SIGMAS = 3.0
# After an impossible result: factors on the regulariser, then numbers of standard errors by which
# rates are lowered; where they have none, this share of the rates stands in.
_STRONGER, _LOWER, _SHARE = (4.0, 16.0), (1.0, 2.0), 0.02


def moments(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    method: str = "logistic",
    n_samples: int | None = None,
    batch: int | None = None,
    checkpoint: Path | None = None,
    relax: float = 1.0,
    rate_stderr: float = 0.0,
) -> Learned:
    r"""Learn from noisy observations alone, by estimated moments.

    Parameters
    ----------
    examples : Examples
        With observations; see `moment_targets` for what they and the functions must be. No
        feature of a pixel may depend on the noise of that pixel, no factor of an edge on that of
        its ends: the moments would be biased.
    penalty : Penalty
        Above 0 for every parameter, because estimated moments can be those of no distribution. It
        may be 0 where they provably are not: for cuts, with at most one modular term for all
        pixels, if the estimates allow it. Estimates are noisier than labels: a penalty of the
        modular term of 30 over the number of images does where 3 would with labels.
    start, callback, tol, max_iter
        As in `descend`; for "exact" as in `exact`, with at most `max_iter` iterations.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    method : {"logistic", "exact"}
        The log-partition function of the model: its logistic bound, by stochastic descent; or what
        `exact` takes, by L-BFGS.
    n_samples : int, optional
        Perturbations of each example of a step, for "logistic"; by default five of small images,
        one of large ones.
    batch, checkpoint
        As in `descend`, for "logistic".
    relax : float
        The moments of the model may differ from the estimated ones by so many standard errors of
        these, see the notes; 0 for an exact match.
    rate_stderr : float
        Standard error of the rates of flips, common to all; 0 where they are known.

    Returns
    -------
    Learned
        Its details have the error ``bars`` of the targets, None without, and what was ``tried``.

    Warns
    -----
    ConvergenceWarning
        When `max_iter` were done before; and when the result is impossible.

    Notes
    -----
    With :math:`s_j` the standard error of the estimated moment j due to the noise of the pixels,
    v the derivative of all moments with respect to the rate, and :math:`s_\pi` the error of the
    rate, what is minimised is

    .. math:: A(\theta)-\theta^\top\hat\mu+\Omega(\theta)
        +c\sum_js_j|\theta_j-c_j|+c\,s_\pi|\theta^\top v|,

    the dual of maximum entropy subject to moments within c (`relax`) standard errors of the
    estimates. An objective below 0 is impossible: minus a log-probability never is; so are weights
    beyond ten units, which no pixel could tell from infinite ones. Such a result is not returned
    as it is: stronger regularisers are tried, then lower rates, and what remains is warned of.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, moments
    >>> z = ls.Flips(0.1).sample(ls.make_silhouettes(30, shape=(16, 16), seed=0), seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1), scale=True
    ... )
    >>> penalty = Penalty.of(data.layout, alpha=1e-4, modular=1.0, scale=1e-4)
    >>> fit = moments(data, penalty, tol=1e-2)
    >>> fit.converged, bool((fit.parameters.alpha > 0.5).all())
    (True, True)
    """
    check_problem(examples, penalty)
    check_callback(callback)
    check_choice(method, "method", ("logistic", "exact"))
    if checkpoint is not None and method == "exact":
        raise ValueError("checkpoint is for method='logistic'; L-BFGS keeps none")
    check_seed(checkpoint, seed)
    count = check_integer(
        draws_of(examples) if n_samples is None else n_samples, "n_samples", 1, 2**31
    )
    channel = check_observed(examples, "moments learns from")
    factor, error = _check_errors(channel, relax, rate_stderr)
    rng = as_generator(seed)
    keys = as_keys(rng, 2)

    def solve(objective: Objective, firm: Penalty, watch: Callback, number: int) -> Learned:
        if method == "exact":
            return fit_exactly(
                objective, firm, start=start, callback=watch, tol=tol, max_iter=max_iter
            )
        path = checkpoint if checkpoint is None or not number else f"{checkpoint}.{number}"
        return descend(
            objective,
            firm,
            start=start,
            seed=rng,
            callback=watch,
            tol=tol,
            max_iter=max_iter,
            batch=batch,
            estimate=FreshNoise(2, keys[1], n_jobs),
            checkpoint=path,
        )

    engine = Exact(n_jobs=n_jobs) if method == "exact" else FreshNoise(count, keys[0], n_jobs)
    history: list[Record] = []
    tried: list[str] = []
    trials = _find_trials(channel, error) if factor else [_Trial()]
    for number, trial in enumerate(trials):
        last = number + 1 == len(trials)
        data = trial.lowered(examples)
        targets = moment_targets(data)
        check_penalty(targets, penalty)
        parabola = firm = trial.strengthened(penalty)
        bars, least = None, 0.0
        if factor:
            bars = find_error_bars(data, error, keys[0])
            firm = Relaxed.make(parabola, bars, factor * trial.strength, data)
            least = firm.least
        watch = _Watch(callback, history[-1] if history else None, None if last else least)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                found = solve(Objective(data, engine, targets), firm, watch, number)
                impossible = _find_impossible(data, found, parabola, least)
                lines = [watch.later(line) for line in found.history]
            except _Impossible as reason:
                impossible, lines = str(reason), watch.lines
        history += lines
        tried.append(f"{trial}: {impossible or 'possible'}")
        if not impossible:
            break
    for warning in said:
        warnings.warn(warning.message, stacklevel=2)
    if impossible or trial.lower:
        warnings.warn(_explain(impossible, trial, tried), ConvergenceWarning, stacklevel=2)
    return dataclasses.replace(
        found,
        converged=found.converged and not impossible,
        history=tuple(history),
        details={**found.details, "bars": bars, "tried": tuple(tried)},
    )


# ------------------------------------------------------------------------------------------ inside


class _Impossible(Exception):
    """Ends a fit whose objective is negative."""


class _Trial(NamedTuple):
    """A factor on the regulariser, and by how much rates are lowered."""

    strength: float = 1.0
    lower: float = 0.0

    def strengthened(self, penalty: Penalty) -> Penalty:
        """Return the stronger regulariser."""
        return dataclasses.replace(penalty, weights=self.strength * penalty.weights)

    def lowered(self, examples: Examples) -> Examples:
        """Return the examples with lower rates."""
        if not self.lower:
            return examples
        assert examples.channel is not None
        return examples.with_channel(move_rates(examples.channel, -self.lower))

    def __str__(self) -> str:
        lower = f" and a rate lower by {self.lower:.2g}" if self.lower else ""
        return f"{self.strength:g} times the penalty{lower}"


class _Watch:
    """Passes records on, numbered after those of earlier fits; ends a fit that is impossible.

    Parameters
    ----------
    callback : callable or None
    before : Record or None
        The last line of the earlier fits.
    least : float or None
        What no objective is below; None to let an impossible fit go on.

    Attributes
    ----------
    lines : list of Record
        What was passed on, signs of life excepted.
    """

    def __init__(
        self, callback: Callback | None, before: Record | None, least: float | None
    ) -> None:
        self._callback, self._least = callback, least
        self._before = (0, 0) if before is None else (before.step, before.cuts)
        self.lines: list[Record] = []

    def later(self, line: Record) -> Record:
        return line.later(*self._before)

    def __call__(self, line: Record) -> None:
        line = self.later(line)
        if self._callback is not None:
            self._callback(line)
        if not math.isnan(line.objective):
            self.lines.append(line)
        if self._least is not None and (why := _negative(line, 0.0, self._least)):
            raise _Impossible(why)


def _check_errors(channel: Channel, relax: object, rate_stderr: object) -> tuple[float, float]:
    """Return how many standard errors moments may be off, and that of the rate."""
    factor, error = check_number(relax, "relax"), check_number(rate_stderr, "rate_stderr")
    for name, value in (("relax", factor), ("rate_stderr", error)):
        if value < 0:
            raise ValueError(f"{name} = {value:g} must be at least 0")
    rates = [rates.ravel() for rates in channel.rates.values()]
    if error and not rates:
        raise ValueError(f"rate_stderr = {error:g}, but {channel!r} has no rate; give 0")
    if error and error >= (least := float(np.concatenate(rates).min())):
        raise ValueError(
            f"rate_stderr = {error:g} is not below the rate itself, {least:g}: nothing is known of "
            "the noise; give a channel that is known better"
        )
    return factor, error


def _find_trials(channel: Channel, error: float) -> list[_Trial]:
    """Return what to try, one after the other, until a result is possible."""
    rates = [rates.ravel() for rates in channel.rates.values()]
    trials = [_Trial(), *(_Trial(factor) for factor in _STRONGER)]
    if rates:
        least = float(np.concatenate(rates).min())
        unit = min(error or _SHARE * least, least / (1.0 + max(_LOWER)))
        trials += [_Trial(_STRONGER[-1], number * unit) for number in _LOWER]
    return trials


def _find_impossible(examples: Examples, found: Learned, parabola: Penalty, least: float) -> str:
    """Return why a result is impossible, nothing if it is not."""
    if why := _negative(found.history[-1], parabola.value(found.theta), least):
        return why
    name, weight = heaviest(examples, found.theta)
    return f"the weight of {name} is {weight:.3g} units" if weight > HEAVY else ""


def heaviest(examples: Examples, theta: FloatArray) -> tuple[str, float]:
    """Return the largest weight of a function or of the observations, in its own unit."""
    where, sizes = examples.layout.blocks, np.abs(theta) / units(examples)
    found = [(f"function {k}", float(size)) for k, size in enumerate(sizes[where["alpha"]])]
    found += [("the observations", float(size)) for size in sizes[where["scale"]]]
    return max(found, key=lambda pair: pair[1], default=("", 0.0))


def _negative(line: Record, penalty: float, least: float) -> str:
    """Return that an objective, less a penalty, is below the least that a distribution can have."""
    value = line.objective - penalty
    if value + _SIGMAS * float(np.nan_to_num(line.stderr)) < least:
        return f"the objective is {value:.3g}, and minus a log-probability is never below 0"
    return ""


def _explain(impossible: str, trial: _Trial, tried: list[str]) -> str:
    """Return a warning about estimated moments that no distribution has."""
    if not impossible:
        return f"moments: with {tried[0]}; so the fit has {trial}"
    more = "" if len(tried) == 1 else f", even with {trial}"
    return (
        f"moments: {impossible}{more}: the estimated moments are those of no distribution. Raise "
        "penalty, lower the noise rate, or learn by 'resample', which cannot come to that"
    )
