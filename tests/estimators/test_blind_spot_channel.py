"""Inverted channels against known models; features that are legal and one that is not."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

import logsuper as ls
from logsuper.estimators import _blind_spot, _training, reuse_classifiers
from logsuper.estimators._blind_spot import train_blind_spot
from logsuper.learning import PART

SMALL = LogisticRegression(C=1.0, max_iter=200)
GREY = ls.Gaussian((0.0, 1.0), 0.5)


def train(images, channel, classifier=SMALL):
    images = list(images)
    return train_blind_spot(
        images, None, channel, classifier, images=images, windows=None, key=0, threads=1
    )


class Frequencies(ClassifierMixin, BaseEstimator):
    """The share of ones among training rows that are equal to a row: right, given enough rows.

    Of a row, only the nearest 24 pixels and the place are looked at.
    """

    def fit(self, X, y):
        rows, at, counts = np.unique(self.cut(X), axis=0, return_inverse=True, return_counts=True)
        shares = np.bincount(at.ravel(), y) / counts
        self.table_ = {row.tobytes(): share for row, share in zip(rows, shares, strict=True)}
        return self

    def predict_proba(self, X):
        one = np.array([self.table_.get(row.tobytes(), 0.5) for row in self.cut(X)])
        return np.stack([1.0 - one, one], axis=1)

    @staticmethod
    def cut(X):
        return np.ascontiguousarray(np.delete(X, np.s_[24:-2], axis=1))


class Plane(ClassifierMixin, BaseEstimator):
    """Least squares, for what is linear in the features."""

    def fit(self, X, y, sample_weight):
        self.model_ = LinearRegression().fit(X, y, sample_weight)
        return self

    def predict_proba(self, X):
        one = self.model_.predict(X)
        return np.stack([1.0 - one, one], axis=1)


@pytest.mark.parametrize(
    "channel",
    [ls.Flips(0.2), ls.AsymmetricFlips(0.1, 0.3), ls.Missing(0.1, ls.Flips(0.2))],
    ids=repr,
)
def test_the_inverted_channel_gives_the_known_probability(channel):
    """For all images of 2 x 2 pixels, against sums over all x of a known model.

    Out of sight there are random pixels, as equal images would be in one fold.
    """

    def widen(z, rng):
        rest = rng.integers(2, size=(len(z), 2, 7))
        return np.concatenate([z.reshape(-1, 2, 2), np.full((len(z), 2, 3), np.nan), rest], axis=2)

    functions, t = ls.grid_cuts((2, 2)), np.array([0.3, -0.2, 0.4, -0.5])
    true = ls.LogSupermodular(1.2 * functions[0] + 1.6 * functions[1] - ls.Modular(t))
    all_x = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    prior = np.exp(true.log_prob(all_x, side="exact"))
    # likelihoods p(z_d | x_d) of all z given all x
    zero, one = (np.exp(part).reshape(16, 1, 4) for part in channel.log_likelihoods(all_x))
    each = np.where(all_x == 1, one, zero)
    # half of the training images have hidden pixels, one in PART, and are other rows then
    share = 1.0 - _blind_spot._HIDDEN * (1.0 - (1.0 - 1.0 / PART) ** 3)
    found, without = [], []
    for seed, d in itertools.product(range(2), range(4)):
        if d == 0:
            rng = np.random.default_rng(seed)
            z = channel.sample(all_x[rng.choice(16, 1500, p=prior)], seed=rng)
            model, _ = train(widen(z, rng), channel, Frequencies())
            odds = channel.log_odds(widen(all_x, rng))
            p = expit(model.judge_new()(np.arange(16), odds))[:, [0, 1, 12, 13]]
            low, high = model.ends
        other = np.arange(4) != d
        weights = each[..., other].prod(axis=2) * prior
        truth = weights[:, all_x[:, d] == 1].sum(axis=1) / weights.sum(axis=1)
        q = (truth - low) / (high - low)  # P(z_d = 1 | others)
        same = (z[:, None, other] == all_x[:, other]).all(axis=2)
        count = share * (same & ~np.isnan(z[:, d, None])).sum(axis=0)
        stderr = (high - low) * np.sqrt(q * (1.0 - q) / count)
        found.append(((p[:, d] - truth) / stderr) ** 2)
        without.append(((q - truth) / stderr) ** 2)
    # squared errors in units of their variance: one on average if nothing is biased, more without
    # the inversion. Of two times 32 different surroundings, the mean has a deviation of about 0.2.
    assert np.mean(found) < 1.6 < 2.0 < np.mean(without)


@pytest.mark.parametrize("channel", [GREY, ls.Gaussian((10.0, 50.0), (20.0, 12.0))], ids=repr)
def test_the_inverted_channel_of_grey_levels_gives_the_known_probability(channel):
    """For pairs of pixels, P(x = 1 | the other) is linear in the feature of the other."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(2, size=(1500, 1, 1)), 2, axis=2).astype(float)
    x[..., 1] = np.where(rng.random((1500, 1)) < 0.85, x[..., 1], 1.0 - x[..., 1])
    z = channel.sample(x, seed=1)
    judged, _ = train(z, channel, Plane())
    odds = channel.log_odds(z[:200])
    truth = 0.15 + 0.7 * expit(odds[..., ::-1])
    p = expit(judged.judge_new()(np.arange(200), odds)).reshape(truth.shape)
    assert np.abs(p - truth).max() < 0.05
    q = (truth - judged.ends[0]) / (judged.ends[1] - judged.ends[0])
    assert np.abs(q - truth).max() > 0.1  # what no inversion would give


def test_classifiers_are_trained_once_where_they_are_reused(monkeypatch):
    z = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(16, 16), seed=0), seed=1)
    trained, plain = [], _training.fit_each

    def count(template, X, y, uses, threads):
        trained.extend(uses)
        return plain(template, X, y, uses, threads)

    monkeypatch.setattr(_training, "fit_each", count)

    def judge(classifier, channel):
        return train(z, channel, classifier)[1](np.arange(6), channel.log_odds(z))

    cases = [(SMALL, ls.Flips(0.1)), (SMALL, ls.Flips(0.2)), (LogisticRegression(C=0.01), GREY)]
    alone = [judge(*case) for case in cases]
    assert len(trained) == 9
    with reuse_classifiers():
        shared = [judge(*case) for case in cases]
    assert len(trained) == 9 + 6  # the rate of flips changes nothing
    np.testing.assert_array_equal(alone, shared)
    judge(*cases[0])
    assert len(trained) == 9 + 6 + 3


@pytest.mark.parametrize("channel", [ls.Flips(0.15), ls.AsymmetricFlips(0.05, 0.25)], ids=repr)
def test_a_feature_with_its_own_noise_is_biased_and_ours_is_not(channel):
    """Without labels and with them, objectives differ in the statistics of x alone.

    Those are estimated without bias, for every weight, so that weights are consistent; where a
    feature contains the noise of its own pixel, that of its weight is not.
    """
    count, cuts = 400, ls.grid_cuts((6, 6))
    model = ls.LogSupermodular(0.5 * cuts[0] + 0.8 * cuts[1] - ls.Modular(np.full(36, 0.1)))
    x = model.sample(count, seed=0).reshape(-1, 6, 6)
    z = channel.sample(x, seed=1)
    own, rows = train(z, channel)[1], np.arange(count)

    def errors(judge):
        """Return the mean error of each statistic, in units of its standard error."""
        data = ls.learning.make_examples(
            cuts, labels=x, observed=z, channel=channel, judge=judge, modular="shared", scale=True
        )
        (group,) = data.groups
        found = ls.learning.moment_targets(data).statistics(group, rows)
        off = found - data.statistics(group, rows, data.label_moments(group, rows))
        return off.mean(axis=0) / (off.std(axis=0) / np.sqrt(count)), data.layout.blocks["beta"]

    ours, beta = errors(own)
    seeing, _ = errors(lambda i, odds: own(i, odds) + odds.reshape(len(odds), -1))
    assert np.abs(ours).max() < 3.5
    assert np.abs(seeing[beta]).min() > 10.0
    assert np.abs(np.delete(seeing, beta)).max() < 3.5
