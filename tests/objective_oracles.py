"""Losses by enumeration, one example of every kind of objective, and short fits to compare."""

import warnings

import numpy as np
import oracles
import pytest

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import Objective, make_examples
from logsuper.learning._engines import Partition
from logsuper.solvers._native import kernels

# They run wherever the kernels are built. Without these max-flows by scipy would take them long,
# and the solvers, bounds and samplers below them have tests of their own there.
long = pytest.mark.skipif(kernels() is None, reason="takes long without compiled kernels")


class Exact:
    """An engine by enumeration: A, and the expectations of f_k and x."""

    def evaluate(self, batch, step=0):
        group, _, alpha, fields, _ = batch
        x = oracles.enumerate_x(group.prepared.n)
        f = np.stack([g(x) for g in group.prepared.functions], axis=1)
        values, stats, mean = [], [], []
        for field in fields:
            infinite = np.isinf(field)
            score = x @ np.where(infinite, 0.0, field) - f @ alpha
            score[np.any(x[:, infinite] != (field[infinite] > 0), axis=1)] = -np.inf
            log_z = np.logaddexp.reduce(score)
            p = np.exp(score - log_z)
            values.append([log_z])
            stats.append(p @ f)
            mean.append(p @ x)
        return Partition(np.array(values), np.array(stats), np.array(mean))


def images(rng, count, shape):
    return rng.integers(0, 2, (count, *shape))


def holes(rng, x, share):
    """Return images with NaN in the place of some pixels."""
    return np.where(rng.random(x.shape) < share, np.nan, x)


def two_shapes(rng):
    return [images(rng, 1, shape)[0] for shape in [(2, 3), (3, 3), (2, 3), (1, 4)]]


SHAPE = (2, 3)
CUTS = ls.grid_cuts(SHAPE)


def generative(rng):
    return Objective.supervised, make_examples(CUTS, labels=images(rng, 4, SHAPE))


def conditional(rng):
    return Objective.supervised, make_examples(
        CUTS,
        labels=images(rng, 4, SHAPE),
        observed=images(rng, 4, SHAPE),
        channel=ls.Flips(0.2),
    )


def scaled(rng):
    return Objective.supervised, make_examples(
        CUTS,
        labels=images(rng, 4, SHAPE),
        observed=holes(rng, images(rng, 4, SHAPE), 0.2),
        channel=ls.AsymmetricFlips(0.1, 0.3),
        modular="shared",
        scale=True,
    )


def features(rng):
    return Objective.supervised, make_examples(
        CUTS,
        labels=images(rng, 4, SHAPE),
        features=rng.normal(size=(4, *SHAPE, 3)),
        modular="none",
    )


def context(rng):
    return Objective.supervised, make_examples(
        CUTS,
        labels=images(rng, 4, SHAPE),
        observed=images(rng, 4, SHAPE),
        channel=ls.Flips(0.2),
        context=1,
        scale=True,
    )


def edge_weights(rng):
    edges = len(ls.prepare(CUTS).edges)
    return Objective.supervised, make_examples(
        CUTS, labels=images(rng, 4, SHAPE), edge_weights=rng.exponential(size=(4, edges))
    )


def partial(rng):
    return Objective.supervised, make_examples(
        CUTS,
        labels=holes(rng, images(rng, 4, SHAPE), 0.5),
        observed=rng.normal(size=(4, *SHAPE)),
        channel=ls.Gaussian(scale=0.7),
        scale=True,
    )


def shapes(rng):
    return Objective.supervised, make_examples(
        ls.grid_cuts, labels=two_shapes(rng), modular="shared"
    )


def latent(rng):
    def make(examples, engine):
        return Objective(examples, engine, latent=True)

    return make, make_examples(
        CUTS, observed=holes(rng, images(rng, 4, SHAPE), 0.1), channel=ls.Flips(0.2), scale=True
    )


def latent_shapes(rng):
    def make(examples, engine):
        return Objective(examples, engine, latent=True)

    return make, make_examples(
        ls.grid_cuts, observed=two_shapes(rng), channel=ls.Flips(0.2), modular="shared"
    )


def cardinality(rng):
    f = ls.ConcaveCardinality(oracles.random_concave(rng, 6))
    return Objective.supervised, make_examples([f], labels=images(rng, 4, (6,)))


def coverage(rng):
    functions = [oracles.random_coverage(rng, 6), oracles.random_cut(rng, 6)]
    return Objective.supervised, make_examples(
        functions, labels=holes(rng, images(rng, 4, (6,)), 0.3), modular="shared"
    )


def log_determinant(rng):
    f = ls.LogDet(oracles.random_kernel(rng, 5))
    return Objective.supervised, make_examples([f], labels=images(rng, 3, (5,)))


KINDS = [
    generative,
    conditional,
    scaled,
    features,
    context,
    edge_weights,
    partial,
    shapes,
    latent,
    latent_shapes,
    cardinality,
    coverage,
    log_determinant,
]

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def random_theta(rng, layout):
    theta = rng.normal(size=layout.size)
    theta[layout.lower == 0.0] = rng.uniform(0.3, 1.0, int((layout.lower == 0.0).sum()))
    return theta


# ---------------------------------------------------------------------------------------- fits

SMALL = (6, 7)


def silhouettes(count=20, **options):
    x = ls.make_silhouettes(count, shape=(16, 16), seed=0)[:, 4:10, 4:11]
    z = ls.Flips(0.2).sample(x, seed=1)
    return make_examples(
        ls.grid_cuts(SMALL), labels=x, observed=z, channel=ls.Flips(0.2), **options
    )


def quiet(learner, *args, **options):
    """Run a fit that is too short to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner(*args, **options)


def same(a, b):
    assert a.theta.tobytes() == b.theta.tobytes()
    assert repr(a.history) == repr(b.history)  # as text: NaN equals NaN
    assert a.converged == b.converged and a.details["steps"] == b.details["steps"]


def estimates(lines):
    """Return the lines that a callback heard, without mere signs of life."""
    return [line for line in lines if line.objective == line.objective]
