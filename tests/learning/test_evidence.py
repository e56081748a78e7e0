"""The likelihood of observations on grids too large to enumerate: by elimination, and brackets."""

import numpy as np
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import Objective, bracket_log_evidence, log_evidence, make_examples
from logsuper.learning._engines import Exact, Strips, Sums
from logsuper.learning._exact import keep_references, measure_width

pytestmark = long


def noise(shape, count=3, rate=0.1, **options):
    """Return images without any structure: strong couplings fit them badly, and strips worse."""
    x = np.random.default_rng(0).integers(0, 2, (count, *shape))
    channel = ls.Flips(rate)
    z = channel.sample(x, seed=1)
    return make_examples(
        ls.grid_cuts(shape), observed=z, channel=channel, modular="shared", **options
    )


@pytest.mark.parametrize("shape", [(10, 10), (4, 12), (7, 9)], ids=str)
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.2, 2.0])
def test_exact_log_evidence_equals_elimination(shape, alpha):
    data = noise(shape)
    theta = [alpha, 0.9 * alpha, 0.05]
    truth = log_evidence(data, theta, Sums("elimination"))
    np.testing.assert_allclose(log_evidence(data, theta, Exact()), truth, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(12, 12), (16, 16)], ids=str)
@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.2])
def test_log_evidence_lies_within_the_certified_bracket(shape, alpha):
    data = noise(shape, count=2)
    theta = [alpha, alpha, 0.0]
    lower, upper = bracket_log_evidence(data, theta)
    for engine in (Exact(), Exact(3), Strips(3)):
        found = log_evidence(data, theta, engine)
        assert (lower - 1e-9 <= found).all() and (found <= upper + 1e-9).all()


def test_log_evidence_says_how_little_it_knows():
    data = noise((24, 24), count=2)
    budget = 1e7
    assert np.isfinite(log_evidence(data, [0.3, 0.3, 0.0], Exact(), budget=budget)).all()
    theta = [1.2, 1.2, 0.0]
    lower, upper = bracket_log_evidence(data, theta, budget=budget)
    worst = int(np.argmax(upper - lower))
    message = (
        rf"observed\[{worst}\] is known to {(upper - lower).max():.2g} nats only.*raise budget"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        found = log_evidence(data, theta, Exact(), budget=budget)
    np.testing.assert_allclose(found, (lower + upper) / 2, rtol=1e-14)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("alpha", [0.4, 0.9])
def test_strips_bound_the_objective_within_their_width(anchored, factors, alpha):
    """The prior from above and posteriors from below: no less than the truth, by the width.

    Observations that tell little leave the posterior's bound about as wide as the prior's.
    """
    size = (3, 2 * 13 * 12)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size) if factors else None
    data = noise((13, 13), rate=0.45, edge_weights=weights)
    theta = np.array([alpha, 1.1 * alpha, 0.1])
    truth = -log_evidence(data, theta, Sums("elimination")).mean()
    errors = []
    for window in (2, 5):
        evidence = Objective(data, Exact(window), latent=True, posterior=Exact(window))
        evidence = keep_references(evidence) if anchored else evidence
        found = evidence.free(theta).value - evidence.held(theta, data.channel).value
        width = measure_width(evidence, theta)
        assert 0.0 <= found - truth <= width
        errors.append(found - truth)
    assert errors[1] < 0.5 * errors[0]
