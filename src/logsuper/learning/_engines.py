r"""Log-partition functions of a batch of examples, with their moments.

An engine computes :math:`A(f)`, or a bound on it: the logistic bound with fresh or fixed
perturbations here; a learner can bring its own. Fields may be infinite, which fixes an element:
the value then is that of the conditioned model, without the finite fields of fixed elements.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.bounds import latin_hypercube, logit
from logsuper.learning._examples import Group

Side = Literal["free", "held"]
"""Which log-partition function of an objective: the model's own, or with what is known held."""

# Maximum number of fixed noise values that are kept; beyond, they are drawn again at every step.
_KEPT = 1 << 25


class Batch(NamedTuple):
    """Models of some examples of one shape: the input of an engine.

    Attributes
    ----------
    group : Group
    rows : ndarray of shape (B,)
        The examples, as rows of the group.
    alpha : ndarray of shape (K,)
        Weights of the functions.
    fields : ndarray of shape (B, n)
        What is added to -f; infinite where an element is fixed.
    side : {"free", "held"}
        Which side of the objective the models are on: bounds may differ between them.
    """

    group: Group
    rows: IntArray
    alpha: FloatArray
    fields: FloatArray
    side: Side


class Partition(NamedTuple):
    r"""Log-partition functions of B models and their derivatives.

    Attributes
    ----------
    values : ndarray of shape (B, S)
        Draws whose mean is the bound; one column for a value without randomness.
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
    """What computes log-partition functions of examples.

    Examples
    --------
    >>> from logsuper.learning import Engine, Exact, FixedNoise
    >>> isinstance(FixedNoise(n_samples=8, seed=0), Engine), isinstance(Exact(), Engine)
    (True, True)
    """

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Return A of each model; `step` numbers the call, for engines that draw fresh noise."""


@dataclasses.dataclass(frozen=True)
class Perturbations:
    r"""The logistic bound :math:`E_z\max_yz^\top y-f(y)` (eq. 3), by some draws of the noise z.

    Attributes
    ----------
    n_samples : int
        Perturbations of each example.
    seed : int
    n_jobs : int or None
    """

    n_samples: int
    seed: int
    n_jobs: int | None = None


class FixedNoise(Perturbations):
    """The logistic bound with the same noise for an example at every step, a Latin hypercube.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FixedNoise, Objective, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FixedNoise(n_samples=8, seed=0))
    >>> theta = data.layout.fill(alpha=0.5)
    >>> objective.loss(theta).value == objective.loss(theta).value
    True
    """

    def draw(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the noise of some examples, (B, S, n); that of an example never changes."""
        noise = np.empty((len(rows), self.n_samples, group.prepared.n))
        for place, i in enumerate(group.index[rows]):
            pair = np.array([self.seed, int(i)], dtype=np.uint64)  # a list may become floats
            rng = np.random.Generator(np.random.Philox(key=pair))
            noise[place] = logit(latin_hypercube(rng, self.n_samples, group.prepared.n))
        return noise

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Maximise under the noise of these examples, all of it in one call of the kernel."""
        group, rows, alpha, fields, _ = batch
        size = (len(rows), self.n_samples)
        theta = (fields[:, None, :] + self.draw(group, rows)).reshape(-1, group.prepared.n)
        factors = group.factors(rows, self.n_samples)
        y, values, stats = group.prepared.maximize(
            theta, alpha, edge_weights=factors, n_jobs=self.n_jobs
        )
        stats, mean = (part.reshape(*size, -1).mean(axis=1) for part in (stats, y))
        return Partition(values.reshape(size), stats, mean)


class FreshNoise(Perturbations):
    """The logistic bound with new noise at every step.

    The noise of a step is a function of the seed, the step and the side, not of earlier steps, so
    that a run can be resumed.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import FreshNoise, Objective, make_examples
    >>> x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> objective = Objective.supervised(data, FreshNoise(n_samples=8, seed=0))
    >>> theta = data.layout.fill(alpha=0.5)
    >>> objective.loss(theta, step=1).value == objective.loss(theta, step=2).value
    False
    """

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Perturb, maximise and average in one call of the kernel."""
        group, rows, alpha, fields, side = batch
        key, factors = noise_key(self.seed, side, step), group.factors(rows)
        out = group.prepared.perturb(
            fields, alpha, self.n_samples, key, edge_weights=factors, n_jobs=self.n_jobs
        )
        return Partition(out.values, out.stats, out.mean)


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


def derive_key(key: int, number: int) -> int:
    """Return the key of a stream of random numbers that belongs to another key."""
    mixed = np.random.SeedSequence([key, number]).generate_state(1, dtype=np.uint64)
    return int(mixed[0])


def noise_key(key: int, side: Side, step: int) -> int:
    """Return the key of the noise of a step on one side."""
    return derive_key(key, 2 * step + (side == "held"))
