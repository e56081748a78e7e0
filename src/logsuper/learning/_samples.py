"""Maximum likelihood by exact samples: unbiased gradients where log Z is out of reach."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray, IntArray, Seed, as_generator, as_key
from logsuper.functions import Modular, SubmodularFunction
from logsuper.learning._decoding import make_function
from logsuper.learning._descent import descend
from logsuper.learning._engines import Batch, FixedNoise, Partition, Side, noise_key
from logsuper.learning._examples import Examples, Group
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Objective
from logsuper.learning._penalty import Penalty
from logsuper.sampling import NotCoalesced, sample, sample_fields
from logsuper.structures import pairwise_of

# No sum of weights and noise gets the better of a field of this size, which fixes an element.
_FIXING = 1e12
# Steps of the cluster chains: at first, and from one call to the next.
_BURN_IN, _STEPS = 100, 5
# Samples of the one model of examples that are alike.
_ALIKE = 32
# Perturbations by which the progress of a fit is judged: of each example, and of those alike. They
# may take a small share of all cuts, and a step has few, so that more would be asked for too late.
_DRAWS, _SHARED = 2, 128


class Samples:
    r"""Moments of exact samples, by coupling from the past: unbiased gradients of the likelihood.

    Where chains do not coalesce in time, as in strongly coupled priors, pairwise functions go by
    Swendsen-Wang chains that persist from one step to the next (T. Tieleman, "Training restricted
    Boltzmann machines using approximations to the likelihood gradient", ICML 2008).

    Samples know no log-partition function: the values are those of :math:`-f` at the samples, less
    than log Z by the entropy on average. They are no loss, and no fit should be judged by them.

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

    def __init__(
        self, key: int, draws: int = 1, n_jobs: int | None = None, max_iter: int = 2**10
    ) -> None:
        self.key, self.draws, self.n_jobs, self.max_iter = key, draws, n_jobs, max_iter
        self._chains: dict[tuple[Group, Side, int], NDArray[np.uint8]] = {}
        self._slow: set[tuple[Group, Side]] = set()

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Draw samples of each example and average their statistics."""
        group, rows, alpha, fields, side = batch
        theta = np.clip(fields, -_FIXING, _FIXING)
        rng = np.random.default_rng(noise_key(self.key, side, step))
        x = self._draw(group, rows, alpha, theta, rng, side)
        flat = x.reshape(-1, group.prepared.n)
        factors = group.factors(rows)
        if factors is not None:
            factors = np.repeat(factors, self.draws, axis=0)
        # with every element fixed, maximising only evaluates
        point = np.where(flat == 1, np.inf, -np.inf)
        _, _, stats = group.prepared.maximize(point, alpha, edge_weights=factors)
        stats = stats.reshape(len(rows), self.draws, -1)
        finite = np.where(np.isinf(fields), 0.0, fields)
        values = np.einsum("bsd,bd->bs", x, finite) - stats @ alpha
        return Partition(values, stats.mean(axis=1), x.mean(axis=1))

    def _draw(
        self,
        group: Group,
        rows: IntArray,
        alpha: FloatArray,
        theta: FloatArray,
        rng: np.random.Generator,
        side: Side,
    ) -> NDArray[np.uint8]:
        """Return samples of each example, (B, draws, n)."""
        if (group, side) not in self._slow:
            try:
                return self._couple(group, rows, alpha, theta, rng)
            except NotCoalesced:
                if any(pairwise_of(f) is None for f in group.prepared.functions):
                    raise
                self._slow.add((group, side))
        return np.stack(
            [
                self._walk(make_function(group, row, alpha), field, (group, side, row), rng)
                for row, field in zip(rows.tolist(), theta, strict=True)
            ]
        )

    def _couple(
        self,
        group: Group,
        rows: IntArray,
        alpha: FloatArray,
        theta: FloatArray,
        rng: np.random.Generator,
    ) -> NDArray[np.uint8]:
        """Return exact samples; all examples at once unless their edges differ."""
        parts = [slice(None)]
        if group.edge_weights is not None:
            parts = [slice(i, i + 1) for i in range(len(rows))]
        drawn = [
            sample_fields(
                make_function(group, int(rows[part][0]), alpha),
                np.repeat(theta[part], self.draws, axis=0),
                seed=rng,
                n_jobs=self.n_jobs,
                max_iter=self.max_iter,
            )
            for part in parts
        ]
        return np.concatenate(drawn).reshape(len(rows), self.draws, -1)

    def _walk(
        self,
        f: SubmodularFunction,
        field: FloatArray,
        key: tuple[Group, Side, int],
        rng: np.random.Generator,
    ) -> NDArray[np.uint8]:
        """Return the states of the chains of an example after some more steps."""
        before = self._chains.get(key)
        self._chains[key] = sample(
            f - Modular(field),
            self.draws,
            "swendsen_wang",
            seed=rng,
            n_jobs=self.n_jobs,
            burn_in=_BURN_IN if before is None else _STEPS,
            start=before,
        )
        return self._chains[key]


def fit_samples(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None,
    seed: Seed,
    n_jobs: int | None,
    callback: Callback | None,
    tol: float,
    max_iter: int,
) -> Learned:
    """Follow unbiased gradients of the likelihood by averaged, projected, adaptive steps.

    Progress is judged by the logistic bound on the loss, which a fit does not minimise but which
    comes to rest when the parameters do.
    """
    rng = as_generator(seed)
    engine = Samples(as_key(rng), n_jobs=n_jobs)
    objective = Objective.supervised(examples, engine)
    if objective.alike:
        engine.draws = _ALIKE
    found = descend(
        objective,
        penalty,
        start=start,
        seed=rng,
        callback=callback,
        tol=tol,
        max_iter=max_iter,
        estimate=FixedNoise(_SHARED if objective.together else _DRAWS, as_key(rng), n_jobs),
    )
    return dataclasses.replace(found, details={**found.details, "method": "samples"})
