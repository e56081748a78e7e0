"""Maximum likelihood by exact samples: unbiased gradients where log Z is out of reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logsuper._base import as_key
from logsuper.functions import Modular
from logsuper.learning._decoding import make_function
from logsuper.learning._engines import Batch, FixedNoise, Partition, Side, noise_key
from logsuper.learning._examples import Examples, Group
from logsuper.learning._objective import Objective
from logsuper.sampling import NotCoalesced, sample, sample_fields
from logsuper.structures import pairwise_of

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
