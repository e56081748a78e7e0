r"""Learning from noisy observations alone: draw clean images, corrupt them again, learn from pairs.

A round draws, for each noisy image z, a clean one :math:`x\sim p_\theta(x\mid z)`, passes it
through the channel again, :math:`z'\sim p(z'\mid x)`, and learns from the pairs :math:`(z',x)` as
from labels. If :math:`p_\theta(x\mid z)` is the posterior of a prior q, the images have the law

.. math:: q^+(x)=\sum_zp(z)\,\frac{q(x)\,p(z\mid x)}{\sum_{x'}q(x')\,p(z\mid x')},

which is the next iterate of expectation maximisation for the law of the clean images: the
likelihood of the noisy ones never falls, and their true law is a fixed point (W. H. Richardson,
"Bayesian-based iterative method of image restoration", 1972; G. Celeux and J. Diebolt, "The SEM
algorithm", 1985, for a draw instead of the sum).

A model is never quite right: what it draws is rougher than smooth masks are, and the rounds settle
at weights that are too small for them. The most probable value of each pixel is smoother than a
draw, too smooth where there is much doubt. So the first rounds take the most probable values, the
last one a draw, and the `score` of pixels that are hidden says which of the two it was better to
learn from: where little is in doubt (large images) the former, else the latter.

Every round has labels, so that it is the convex supervised problem, and no error in the estimated
noise can drive a weight to infinity, as it can in a match of estimated moments: these only give
the weights to start from.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from logsuper._base import (
    ConvergenceWarning,
    FloatArray,
    Seed,
    as_generator,
    as_keys,
    check_callback,
    check_integer,
)
from logsuper.functions import Cut, Modular, SubmodularFunction
from logsuper.learning._checkpoint import check_seed
from logsuper.learning._descent import logistic
from logsuper.learning._examples import Examples, Rows, check_observed
from logsuper.learning._learned import Callback, Learned, Pulse, Record
from logsuper.learning._make_examples import corrupt_again
from logsuper.learning._moments import moments
from logsuper.learning._objective import Penalty, check_problem, refuse_certainty
from logsuper.learning._score import Hiding
from logsuper.learning._smooth import check_start
from logsuper.learning._stochastic import half_a_unit, units

# The first weights: steps of the match of moments, its accuracy, and its regulariser, a nat for so
# many pixels at a weight of about one. In trials (100 horses of 50x50, and windows of large ones) a
# tenth of it let weights explode, and two rounds undid ten times as well as a tenth of it.
_FIRST_STEPS, _FIRST_TOL, _FIRST_PIXELS, _FIRST_LEAST = 300, 1e-2, 1000.0, 10.0
# All but the last two rounds need not be accurate.
_ROUGH_TOL = 1e-2
# Perturbations behind the most probable value of a pixel.
_DRAWS = 16
# Weights that a round moves by this share or more are still on their way.
_SETTLED = 0.25
# The score looks at so many pixels, hidden in that many patterns, by so many perturbations.
_SCORED, _PATTERNS, _SCORE_DRAWS = 1 << 18, 4, 16


def resample(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    rounds: int = 3,
    n_samples: int | None = None,
    batch: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Learned:
    """Learn from noisy observations alone, by clean images that are drawn and corrupted again.

    Parameters
    ----------
    examples : Examples
        With observations; labels are not looked at. Features must not be made from the
        observations, except for ``context``, which is recomputed from those of each round.
    penalty : Penalty
        As for `logistic` with labels.
    start : ndarray of shape (P,), optional
        By default a rough match of estimated moments, see `moments`; half a unit of each function
        where these cannot be estimated.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    callback : callable, optional
        Called with each estimate of the objective of a round, and between them at least each
        second.
    tol, samples, batch
        As in `logistic`, for each round.
    max_iter : int
        In all.
    rounds : int
        Each takes about as long as learning from labels. The last one learns from a draw, those
        before from the more probable value of each pixel; the result is of one of the last two.
    checkpoint : path, optional
        Where the state of each round is kept, with its number behind the name. If files are there,
        the fit goes on from them, to the very same result.

    Returns
    -------
    Learned
        Its details have the number of ``steps``, the weights after each round, ``path``, the first
        of which are those it started from, and the ``scores`` of the last two.

    Warns
    -----
    ConvergenceWarning
        When `max_iter` were done before, or weights were still moving by a quarter.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, resample
    >>> z = ls.Flips(0.1).sample(ls.make_silhouettes(30, shape=(24, 24), seed=0), seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((24, 24)), observed=z, channel=ls.Flips(0.1), modular="shared", scale=True
    ... )
    >>> fit = resample(data, Penalty.of(data.layout, alpha=1e-3, scale=1e-3))
    >>> fit.converged, bool((fit.parameters.alpha > 0.5).all())
    (True, True)
    """
    check_problem(examples, penalty)
    check_observed(examples, "resample learns from")
    check_callback(callback)
    check_seed(checkpoint, seed)
    refuse_certainty(examples)
    count = check_integer(rounds, "rounds", 1, 1000)
    limit = check_integer(max_iter, "max_iter", 1, 2**40)
    rng = as_generator(seed)
    history: list[Record] = []
    pulse = Pulse(callback)
    theta = (
        _first(examples, rng, n_jobs, pulse)
        if start is None
        else check_start(start, examples.layout)
    )
    path, done, steps, cuts = [theta], False, 0, 0
    for number in range(count):
        keys = as_keys(rng, 3)
        last = number + 1 == count
        pulse.beat(steps, cuts)
        with pulse.listening():
            clean = clean_images(examples, theta, keys[0], last and count > 1, n_jobs)
        with warnings.catch_warnings(), pulse.listening():
            if not last:
                warnings.simplefilter("ignore", ConvergenceWarning)
            found = logistic(
                corrupt_again(examples, clean, np.random.default_rng(keys[1])),
                penalty,
                start=theta,
                warm=True,
                seed=keys[2],
                n_jobs=n_jobs,
                callback=_later(pulse, steps, cuts),
                tol=tol if number + 2 >= count else max(tol, _ROUGH_TOL),
                max_iter=max(1, limit - steps),
                n_samples=n_samples,
                batch=batch,
                checkpoint=None if checkpoint is None else f"{os.fspath(checkpoint)}.{number}",
            )
        history += [line.later(steps, cuts) for line in found.history]
        steps, cuts = history[-1].step, history[-1].cuts
        theta, done = found.theta, found.converged
        path.append(theta)
        if steps >= limit and not last:
            done = False
            warnings.warn(
                f"resample: max_iter = {limit} were done in round {number + 1} of {count}; raise "
                "max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
            break
    with pulse.listening():
        scores = _scores(examples, path[-2:] if len(path) > 2 else path[-1:], rng, n_jobs)
    theta = path[len(path) - len(scores) + int(np.argmax(scores))]
    moved = _moved(examples, path[-3:-1])
    if done and moved > _SETTLED:
        done = False
        warnings.warn(
            f"resample: the weights of functions still moved by {100 * moved:.0f} % from round to "
            f"round after {count} of them; raise rounds (of an estimator: "
            f"options={{'rounds': {2 * count}}})",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Learned.of(
        examples, theta, done, history, steps=steps, path=tuple(path), scores=tuple(scores)
    )


def clean_images(
    examples: Examples, theta: FloatArray, key: int, draw: bool, n_jobs: int | None = None
) -> list[Rows]:
    """Return a clean image for each noisy one, (N, n) of each group.

    Either a draw, a perturbed maximiser: a fit by the logistic bound matches its moments. Or the
    more probable value of each pixel.
    """
    alpha = examples.layout.unpack(theta).alpha
    clean = []
    for group in examples.groups:
        x = group.room()
        for rows in group.pieces():
            fields = examples.fields(theta, group, rows)
            options: dict[str, Any] = {
                "edge_weights": group.factors(rows),
                "numbers": group.index[rows],
                "n_jobs": n_jobs,
            }
            if draw:
                drawn = group.prepared.perturb(
                    fields, alpha, 1, key, return_samples=True, **options
                )
                assert drawn.samples is not None
                x[rows] = drawn.samples[:, 0]
            else:
                mean = group.prepared.conditional_means(fields, alpha, _DRAWS, key, **options)
                x[rows] = (mean > 0.5).astype(np.uint8)
        clean.append(x)
    return clean


def is_pairwise(functions: Iterable[SubmodularFunction]) -> bool:
    """Return whether all functions are cuts and modular terms."""
    return all(isinstance(atom, Cut | Modular) for f in functions for _, atom in f.terms())


# ------------------------------------------------------------------------------------------ inside


def _first(
    examples: Examples, rng: np.random.Generator, n_jobs: int | None, pulse: Pulse
) -> FloatArray:
    """Return the weights to start from."""
    layout = examples.layout
    if not all(is_pairwise(group.prepared.functions) for group in examples.groups):
        return half_a_unit(examples)
    weight = max(_FIRST_LEAST, examples.pixels / _FIRST_PIXELS) / examples.count
    firm = Penalty.of(layout, alpha=weight, modular=weight, beta=weight, scale=weight)
    # per unit of each function, whatever its own size is
    where = layout.blocks["alpha"]
    firm.weights[where] /= units(examples)[where] ** 2
    with warnings.catch_warnings(), pulse.listening():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return moments(
            examples,
            firm,
            seed=rng,
            n_jobs=n_jobs,
            # another objective than that of the rounds, so that its lines are signs of life only
            callback=lambda line: pulse.beat(0, line.cuts),
            tol=_FIRST_TOL,
            max_iter=_FIRST_STEPS,
            relax=0.0,
        ).theta


def _scores(
    examples: Examples, path: list[FloatArray], rng: np.random.Generator, n_jobs: int | None
) -> list[float]:
    """Return how well each of some parameters predicts hidden pixels, on part of the examples."""
    (key,) = as_keys(rng, 1)
    part = examples.some(_SCORED, key)
    hiding = Hiding(_PATTERNS, _SCORE_DRAWS, key, n_jobs)
    return [hiding.score(part, theta).value for theta in path]


def _moved(examples: Examples, path: list[FloatArray]) -> float:
    """Return by what share a round moved the weights of functions, in their own units."""
    where = examples.layout.blocks["alpha"]
    unit = units(examples)[where]
    if not unit.size or len(path) < 2:
        return 0.0
    before, after = (theta[where] / unit for theta in path)
    return float(np.abs(after - before).max() / max(1.0, np.abs(after).max()))


def _later(callback: Pulse, steps: int, cuts: int) -> Callback:
    """Return the callback of a round that was preceded by so many steps and cuts."""
    return lambda line: callback(line.later(steps, cuts))
