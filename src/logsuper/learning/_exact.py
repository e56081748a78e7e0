"""Maximum likelihood itself, where the log-partition function can be computed or sampled from."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
from numpy.typing import NDArray

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    Seed,
    as_generator,
    as_key,
    check_callback,
    check_choice,
    check_integer,
    check_number,
)
from logsuper.functions import Modular
from logsuper.learning._decoding import make_function
from logsuper.learning._descent import descend
from logsuper.learning._engines import (
    SHARED,
    WIDTH,
    Batch,
    Exact,
    FixedNoise,
    Partition,
    Side,
    noise_key,
    some_of,
)
from logsuper.learning._examples import Examples, Group
from logsuper.learning._learned import Callback, Learned, Record
from logsuper.learning._objective import Objective, Penalty, check_problem
from logsuper.learning._smooth import minimize
from logsuper.sampling import NotCoalesced, sample, sample_fields
from logsuper.structures import pairwise_of

METHODS = ("auto", "sums", "samples")

# Windows of the strips: the first, and the widest that is tried if the user gives none.
_FIRST, _WIDEST = 5, 8
# Tolerance of the first round.
_ROUGH = 1e-2


def exact(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    method: str = "auto",
    window: int | None = None,
) -> Learned:
    r"""Maximise the likelihood, :math:`\log p(x)` or :math:`\log p(x\mid z)`, with exact gradients.

    Sums are exact for small ground sets, for pairwise functions of small treewidth and for grids
    with a short side: about 12 pixels, or 16 where all examples have the same log Z. On other
    4-neighbour grids log Z is bounded by strips from above: an upper bound on the loss is
    minimised, and how far it can be from the loss itself is reported. That is little given
    observations, and can be nats for strongly coupled images without. Elsewhere exact samples, by
    coupling from the past, give unbiased gradients.

    Parameters
    ----------
    examples : Examples
        With labels; some of them may be missing.
    penalty : Penalty
    start : ndarray of shape (P,), optional
    seed : int, Generator or None
        For samples.
    n_jobs : int, optional
        Threads over the examples.
    callback : callable, optional
    tol : float, optional
        For sums as in `minimize`, 1e-4 by default; for samples as in `descend`, 1e-3 by default.
    max_iter : int, optional
        Of L-BFGS, 200 by default, or steps with samples, 20000 by default.
    method : {"auto", "sums", "samples"}
        "auto" takes sums where they are affordable.
    window : int, optional
        Columns of the strips, for grids that are not summed whole. By default from 5 up to 8, until
        the width is below 0.1 nats per example; up to 12 where all have the same log Z.

    Returns
    -------
    Learned
        With the ``method``; for grids also the ``window`` and its ``width``: the mean distance, of
        some examples, between the bounds on their losses. It is 0, up to rounding, where the
        window holds the short side.

    Warns
    -----
    ConvergenceWarning
        When the optimiser stops early, and when the width stays above a tenth of a nat: the fit may
        have converged, to the minimum of a bound that is not tight.

    Raises
    ------
    NotApplicable, TooLarge
        With method "sums", where they are not possible or not affordable.

    Examples
    --------
    >>> import numpy as np, logsuper as ls
    >>> from logsuper.learning import Penalty, exact, make_examples
    >>> fh, fv = ls.grid_cuts((8, 8))
    >>> x = ls.LogSupermodular(0.6 * fh + 0.4 * fv).sample(2000, "cftp", seed=0)
    >>> data = make_examples([fh, fv], labels=x.reshape(-1, 8, 8), modular="shared")
    >>> found = exact(data, Penalty.of(data.layout))
    >>> np.round(found.parameters.alpha, 1)
    array([0.6, 0.4])
    """
    check_problem(examples, penalty)
    check_choice(method, "method", METHODS)
    first = _FIRST if window is None else check_integer(window, "window", 1, 2**31)
    engine = Exact(first, n_jobs)
    if method == "samples" or (method == "auto" and not engine.applies(examples)):
        rng = as_generator(seed)
        sampled, estimate = make_sampled(examples, rng, n_jobs)
        found = descend(
            sampled,
            penalty,
            start=start,
            seed=rng,
            callback=callback,
            tol=1e-3 if tol is None else tol,
            max_iter=20_000 if max_iter is None else max_iter,
            estimate=estimate,
        )
        return dataclasses.replace(found, details={**found.details, "method": "samples"})
    objective = Objective.supervised(examples, engine)
    if window is None and objective.together:
        objective = dataclasses.replace(objective, engine=Exact(first, n_jobs, SHARED))
    return fit_exactly(
        objective,
        penalty,
        start=start,
        callback=callback,
        tol=1e-4 if tol is None else tol,
        max_iter=200 if max_iter is None else max_iter,
        widen=window is None,
        remedy="raise window, each column of which doubles the time, or take method='samples'",
    )


def fit_exactly(
    objective: Objective,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    tol: float = 1e-4,
    max_iter: int = 200,
    widen: bool = True,
    remedy: str = "smaller images or a stronger penalty on alpha narrow it",
) -> Learned:
    """Minimise an objective whose engine is `Exact`; see `exact`.

    On grids the first round, with references that are labels or follow the parameters, comes near
    the optimum from anywhere. Then references are modes that stay, and the window grows while
    `widen` allows it. `remedy` ends the warning about a width that stays too large.
    """
    check_callback(callback)
    check_number(tol, "tol")
    engine, examples = objective.engine, objective.examples
    assert isinstance(engine, Exact)
    theta = examples.layout.fill(alpha=0.5) if start is None else start
    history: list[Record] = []

    def note(record: Record) -> None:
        # steps are numbered through all rounds, and sums solve no cuts
        line = dataclasses.replace(record, step=len(history), cuts=0)
        if not math.isnan(line.objective):  # else it only shows that the fit is alive
            history.append(line)
        if callback is not None:
            callback(line)

    def run(engine: Exact, tolerance: float, warn: bool) -> Learned:
        posed = dataclasses.replace(objective, engine=engine)
        return minimize(
            posed, penalty, start=theta, callback=note, tol=tolerance, max_iter=max_iter, warn=warn
        )

    details: dict[str, object] = {"method": "sums"}
    strips = engine.window(examples) > 0
    if strips:
        theta = run(engine, max(tol, _ROUGH), warn=False).theta
        size = engine.strips.window
        while True:
            engine = engine.anchor(size)
            width = measure_width(dataclasses.replace(objective, engine=engine), theta)
            if width <= WIDTH or not widen or size == _WIDEST:
                break
            size += 1
    found = run(engine, tol, warn=True)
    if strips:
        width = measure_width(dataclasses.replace(objective, engine=engine), found.theta)
        details |= {"window": engine.window(examples), "width": width}
        if width > WIDTH:
            warnings.warn(
                f"log Z is known to {width:.2g} nats per example only, above {WIDTH:g}, with "
                f"windows of {details['window']} columns: an upper bound on the loss was "
                "minimised, which can be as far from it, and couplings may come out too weak; "
                + remedy,
                ConvergenceWarning,
                stacklevel=3,
            )
    return dataclasses.replace(found, history=tuple(history), details={**found.details, **details})


def keep_references(objective: Objective) -> Objective:
    """Return the same with strips that will keep the references of their first evaluation."""
    prior, posterior = objective.engine, objective.posterior
    assert isinstance(prior, Exact) and isinstance(posterior, Exact)
    prior, posterior = (engine.anchor(engine.strips.window) for engine in (prior, posterior))
    return dataclasses.replace(objective, engine=prior, posterior=posterior)


def measure_width(objective: Objective, theta: FloatArray) -> float:
    """Return the mean distance between the bounds on the losses of some examples.

    For engines that are `Exact`; 0, up to rounding, where none of them has windows. Labels that
    are held count as if their side were exact.
    """
    index, total = some_of(objective.examples), 0.0
    sides: tuple[Side, ...] = ("free", "held") if objective.latent else ("free",)
    for group, rows in objective.examples.parts(index):
        width = 0.0
        for side in sides:
            engine = objective.engine_of(side)
            assert isinstance(engine, Exact)
            width += float(engine.widths(objective.pose(theta, group, rows, side)[0]).mean())
        total += len(rows) * width
    return total / len(index)


# A field that fixes an element: larger than any sum of weights and noise.
_FIXING = 1e12
# Steps of the cluster chains: at first, and from one call to the next.
_BURN_IN, _STEPS = 100, 5
# Samples of the one model of examples that are alike.
_ALIKE = 32
# Perturbations for estimates of the objective: per example, and in all for examples that are alike.
# Estimates may take a small share of all cuts, and a step has few: more would come too late.
_DRAWS, _SHARED = 2, 128


class Samples:
    r"""Moments of exact samples, by coupling from the past: unbiased gradients of the likelihood.

    Where chains do not coalesce in time, as in strongly coupled priors, pairwise functions go by
    Swendsen-Wang chains that persist from one step to the next (T. Tieleman, "Training restricted
    Boltzmann machines using approximations to the likelihood gradient", ICML 2008).

    Samples know no log-partition function: the values are those of :math:`-f` at the samples, less
    than log Z by the entropy on average. They are not a loss: do not judge a fit by them.

    Parameters
    ----------
    key : int
        The samples of step h are a function of (key, h) as long as none comes from a chain.
    draws : int
        Samples of each example.
    n_jobs : int, optional
    max_iter : int
        How far coupling from the past goes.
    """

    together = True

    def __init__(
        self, key: int, draws: int = 1, n_jobs: int | None = None, max_iter: int = 2**10
    ) -> None:
        self.key, self.draws, self.n_jobs, self.max_iter = key, draws, n_jobs, max_iter
        self._chains: dict[tuple[Group, Side, int], NDArray[np.uint8]] = {}
        self._slow: set[tuple[Group, Side]] = set()

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Draw samples of each example and average their statistics."""
        group, rows, alpha, fields, side = batch
        rng = np.random.default_rng(noise_key(self.key, side, step))
        x = self._draw(batch._replace(fields=np.clip(fields, -_FIXING, _FIXING)), rng)
        points = x.reshape(-1, group.prepared.n)
        stats = group.evaluate(points, rows, self.draws).reshape(len(rows), self.draws, -1)
        finite = np.where(np.isinf(fields), 0.0, fields)
        values = np.einsum("bsd,bd->bs", x, finite) - stats @ alpha
        return Partition(values, stats.mean(axis=1), x.mean(axis=1))

    def _draw(self, batch: Batch, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return samples of each example, (B, draws, n)."""
        group, rows, alpha, fields, side = batch
        if (group, side) not in self._slow:
            try:
                return self._couple(batch, rng)
            except NotCoalesced:
                if any(pairwise_of(f) is None for f in group.prepared.functions):
                    raise
                self._slow.add((group, side))
        drawn = []
        for row, field in zip(rows.tolist(), fields, strict=True):
            before = self._chains.get((group, side, row))
            after = sample(
                make_function(group, row, alpha) - Modular(field),
                self.draws,
                "swendsen_wang",
                seed=rng,
                n_jobs=self.n_jobs,
                burn_in=_BURN_IN if before is None else _STEPS,
                start=before,
            )
            self._chains[group, side, row] = after
            drawn.append(after)
        return np.stack(drawn)

    def _couple(self, batch: Batch, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return exact samples; all examples at once unless their edges differ."""
        group, rows, alpha, fields, _ = batch
        parts = [slice(None)]
        if group.edge_weights is not None:
            parts = [slice(i, i + 1) for i in range(len(rows))]
        drawn = [
            sample_fields(
                make_function(group, int(rows[part][0]), alpha),
                np.repeat(fields[part], self.draws, axis=0),
                seed=rng,
                n_jobs=self.n_jobs,
                max_iter=self.max_iter,
            )
            for part in parts
        ]
        return np.concatenate(drawn).reshape(len(rows), self.draws, -1)


def make_sampled(
    examples: Examples, rng: np.random.Generator, n_jobs: int | None
) -> tuple[Objective, FixedNoise]:
    """Return the objective with unbiased gradients, and the engine that estimates its progress.

    Progress is judged by the logistic bound on the loss, which a fit does not minimise but which
    comes to rest when the parameters do.
    """
    engine = Samples(as_key(rng), n_jobs=n_jobs)
    objective = Objective.supervised(examples, engine)
    if objective.alike:
        engine.draws = _ALIKE
    draws = _SHARED if objective.together else _DRAWS
    return objective, FixedNoise(draws, as_key(rng), n_jobs)
