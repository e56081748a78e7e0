r"""Log-partition functions of a batch of examples, with their moments.

An engine says what is put in the place of :math:`A(f)`: the logistic bound with fresh or fixed
perturbations here; a learner can bring its own. Fields may be infinite, which fixes an element:
the value then is that of the conditioned model, without the fixed elements' finite fields.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.bounds import latin_hypercube, logit
from logsuper.learning._examples import Group

__all__ = ["Engine", "FixedNoise", "FreshNoise", "KeptNoise", "Partition"]

# Fixed noise up to that many numbers is kept; beyond, it is drawn again at every step.
_KEPT = 1 << 25


class Partition(NamedTuple):
    r"""Log-partition functions of B models and their derivatives.

    Attributes
    ----------
    values : ndarray of shape (B, S)
        Draws whose mean is the bound; one column for a number without randomness.
    stats : ndarray of shape (B, K)
        Expected :math:`f_k`.
    mean : ndarray of shape (B, n)
        Expected x.
    """

    values: FloatArray
    stats: FloatArray
    mean: FloatArray


@runtime_checkable
class Engine(Protocol):
    """What computes log-partition functions of examples."""

    def evaluate(
        self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray, step: int
    ) -> Partition:
        """Return A of each row; `step` numbers the call, for those that draw fresh noise."""


@dataclasses.dataclass(frozen=True)
class FreshNoise:
    r"""The logistic bound :math:`E_z\max_yz^\top y-f(y)` (eq. 3) with new noise at every step.

    The noise of step h is a function of (key, h), whatever ran before: a run can be resumed.

    Attributes
    ----------
    samples : int
        Perturbations of each example.
    key : int
    n_jobs : int or None
    """

    samples: int
    key: int
    n_jobs: int | None = None

    def evaluate(
        self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray, step: int
    ) -> Partition:
        """Perturb, maximise and average in one call of the kernel."""
        out = group.prepared.perturb(
            fields,
            alpha,
            self.samples,
            step_key(self.key, step),
            edge_weights=group.factors(rows),
            n_jobs=self.n_jobs,
        )
        return Partition(out.values, out.stats, out.mean)


@dataclasses.dataclass(frozen=True)
class FixedNoise:
    """The logistic bound with the same noise for an example at every step, a Latin hypercube.

    Attributes
    ----------
    samples : int
        Perturbations of each example.
    key : int
    n_jobs : int or None
    """

    samples: int
    key: int
    n_jobs: int | None = None

    def draw(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the noise of some examples, (B, S, n); an example's own never changes."""
        noise = np.empty((len(rows), self.samples, group.prepared.n))
        for place, i in enumerate(group.index[rows]):
            pair = np.array([self.key, int(i)], dtype=np.uint64)  # a list may turn to floats
            rng = np.random.Generator(np.random.Philox(key=pair))
            noise[place] = logit(latin_hypercube(rng, self.samples, group.prepared.n))
        return noise

    def evaluate(
        self, group: Group, rows: IntArray, alpha: FloatArray, fields: FloatArray, step: int
    ) -> Partition:
        """Maximise under the noise of these examples, all of it in one call of the kernel."""
        size = (len(rows), self.samples)
        theta = fields[:, None, :] + self.draw(group, rows)
        factors = group.factors(rows)
        if factors is not None:
            factors = np.repeat(factors, self.samples, axis=0)
        y, values, stats = group.prepared.maximize(
            theta.reshape(-1, group.prepared.n), alpha, edge_weights=factors, n_jobs=self.n_jobs
        )
        return Partition(
            values.reshape(size),
            stats.reshape(*size, -1).mean(axis=1),
            y.reshape(*size, -1).mean(axis=1),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class KeptNoise(FixedNoise):
    """Fixed noise that is drawn once where memory allows."""

    kept: dict[tuple[Group, bytes], FloatArray] = dataclasses.field(default_factory=dict)

    def draw(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the noise of some examples, (B, S, n)."""
        key = (group, rows.tobytes())
        if key not in self.kept:
            drawn = super().draw(group, rows)
            if drawn.size + sum(noise.size for noise in self.kept.values()) > _KEPT:
                return drawn
            self.kept[key] = drawn
        return self.kept[key]


def step_key(key: int, step: int) -> int:
    """Return the key of a step's noise."""
    mixed = np.random.SeedSequence([key, step]).generate_state(1, dtype=np.uint64)
    return int(mixed[0])
