"""Learning from images that are drawn and corrupted again."""

import warnings

import numpy as np
import pytest
from objective_oracles import estimates, long

import logsuper as ls
from logsuper import ConvergenceWarning
from logsuper.learning import Penalty, logistic, make_examples, resample
from logsuper.learning._make_examples import corrupt_again
from logsuper.learning._resample import clean_images

pytestmark = long


def gather(z, channel, x=None, **more):
    options = {"modular": "shared", "scale": True, **more}
    return make_examples(
        lambda shape: ls.grid_cuts(shape), labels=x, observed=z, channel=channel, **options
    )


def penalty(layout, weight=1e-3):
    return Penalty.of(layout, alpha=weight, modular=weight, beta=weight, scale=weight)


@pytest.mark.parametrize(
    ("channel", "context"),
    [(ls.Flips(0.1), 1), (ls.Flips(0.2), 0), (ls.Gaussian((0.0, 1.0), 0.5), 1)],
)
def test_near_to_what_labels_teach(channel, context):
    x = ls.make_silhouettes(40, shape=(36, 36), seed=1)
    z = channel.sample(x, seed=2)
    with_labels = gather(z, channel, x, context=context)
    without = gather(z, channel, context=context)
    truth = logistic(with_labels, penalty(with_labels.layout))
    found = resample(without, penalty(without.layout))
    assert found.converged
    test = ls.make_silhouettes(30, shape=(36, 36), seed=5)
    others = gather(channel.sample(test, seed=6), channel, context=context)

    def error(theta):
        p = np.array(ls.learning.means(others, theta, method="logistic"))
        return ((p > 0.5) != test).mean(), np.minimum(p, 1 - p).mean()

    (good, _), (mine, expected) = error(truth.theta), error(found.theta)
    assert mine <= 1.15 * good
    assert expected == pytest.approx(mine, rel=0.3)


def test_weights_stay_finite_though_the_rate_is_wrong():
    x = ls.make_silhouettes(8, shape=(48, 48), seed=1)
    z = ls.Flips(0.1).sample(x, seed=2)
    # no moments of any mask are those that a rate of .115 gives
    examples = gather(z, ls.Flips(0.115), context=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = resample(examples, penalty(examples.layout))
    assert found.parameters.alpha.max() < 10
    assert all(line.objective > 0 for line in found.history)


def test_missing_pixels_stay_missing():
    x = ls.make_silhouettes(10, shape=(24, 24), seed=1)
    channel = ls.Missing(0.3, ls.Flips(0.1))
    z = channel.sample(x, seed=2)
    examples = gather(z, channel, context=1)
    theta = examples.layout.fill(alpha=1.0)
    clean = clean_images(examples, theta, 3, draw=True)
    pairs = corrupt_again(examples, clean, np.random.default_rng(0))
    again = pairs.groups[0].read_observed(np.arange(10)).reshape(z.shape)
    np.testing.assert_array_equal(np.isnan(again), np.isnan(z))
    np.testing.assert_array_equal(pairs.groups[0].labels, clean[0])
    share = np.nanmean(again.reshape(10, -1) != clean[0], where=~np.isnan(again.reshape(10, -1)))
    assert share == pytest.approx(0.1, abs=0.02)


def test_the_same_whatever_the_threads():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(8, shape=(24, 24), seed=1), seed=2)
    examples = gather(z, ls.Flips(0.1), context=1)
    one, two = (
        resample(examples, penalty(examples.layout), n_jobs=n, tol=1e-2, seed=4) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    assert one.details["scores"] == two.details["scores"]


def test_history_goes_on_from_round_to_round():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(8, shape=(24, 24), seed=1), seed=2)
    examples = gather(z, ls.Flips(0.1))
    lines = []
    found = resample(examples, penalty(examples.layout), tol=1e-2, callback=lines.append)
    lines = estimates(lines)
    assert tuple(lines) == found.history
    assert (np.diff([line.step for line in lines]) >= 0).all()
    assert (np.diff([line.cuts for line in lines]) > 0).all()
    assert len(found.details["path"]) == 4 and len(found.details["scores"]) == 2


def test_few_steps_are_said_to_be_few():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(8, shape=(24, 24), seed=1), seed=2)
    examples = gather(z, ls.Flips(0.1))
    with pytest.warns(ConvergenceWarning):
        found = resample(examples, penalty(examples.layout), max_iter=5)
    assert not found.converged


def test_functions_that_are_not_cuts_start_from_half_a_unit():
    shape = (12, 12)
    corner = [[0, 1, 12, 13]]
    functions = [
        *ls.grid_cuts(shape),
        ls.RobustPn(144, corner, threshold=[2.0], weights=[[1.0] * 4]),
    ]
    z = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(16, 16), seed=1)[:, :12, :12], seed=2)
    examples = make_examples(functions, observed=z, channel=ls.Flips(0.1), modular="shared")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = resample(examples, penalty(examples.layout), tol=1e-2)
    assert np.isfinite(found.theta).all()


def test_bad_calls_are_refused():
    x = ls.make_silhouettes(2, shape=(16, 16), seed=0)
    labelled = make_examples(ls.grid_cuts((16, 16)), labels=x)
    with pytest.raises(ValueError, match="resample learns from observations"):
        resample(labelled, penalty(labelled.layout))
    examples = gather(x.astype(float), ls.Flips(0.1))
    with pytest.raises(ValueError, match="rounds"):
        resample(examples, penalty(examples.layout), rounds=0)


def test_remedy_in_the_warning_works_in_an_estimator():
    x = ls.make_silhouettes(3, shape=(24, 24), seed=0)
    z = x + np.random.default_rng(0).normal(scale=0.8, size=x.shape)
    with pytest.warns(ConvergenceWarning, match=r"options=\{'rounds': 4\}"):
        ls.MaskDenoiser(options={"rounds": 2}).fit(z)
