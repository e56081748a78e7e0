"""Classifiers that are fitted side by side: errors, Ctrl-C, signs of life, and the same bits."""

import threading
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from logsuper._base import listening
from logsuper.estimators import _training

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4)).astype(np.float32)
Y = (X[:, 0] + 0.5 * RNG.normal(size=600) > 0).astype(float)
USES = [RNG.random(600) < 0.5, np.arange(600) % 3 == 0, np.arange(0, 600, 2)]
BOOSTED = HistGradientBoostingClassifier(max_iter=10, early_stopping=False, random_state=0)
OTHERS = [RandomForestClassifier(5, random_state=0, n_jobs=2), LogisticRegression()]


class Slow(ClassifierMixin, BaseEstimator):
    """Takes ever, unless somebody ends it."""

    ended = threading.Event()

    def fit(self, X, y):
        try:
            while True:
                time.sleep(0.01)
        finally:
            self.ended.set()


class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("cannot be fitted")


@pytest.mark.parametrize("template", [BOOSTED, *OTHERS], ids=lambda t: type(t).__name__)
def test_each_is_what_it_would_be_by_itself(template):
    alone = [type(template)(**template.get_params()).fit(X[use], Y[use]) for use in USES]
    for threads in (1, 2, 3):
        found = _training.fit_each(template, X, Y, USES, threads)
        for one, other in zip(alone, found, strict=True):
            np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_probabilities_are_both_labels_weighted():
    soft = np.clip(Y, 0.1, 0.9)
    (found,) = _training.fit_each(LogisticRegression(), X, soft, [np.arange(600)], 1)
    both = LogisticRegression().fit(
        np.concatenate([X, X]), np.repeat([0, 1], 600), np.concatenate([1 - soft, soft])
    )
    np.testing.assert_allclose(found.predict_proba(X), both.predict_proba(X))


def test_one_label_or_none_gives_a_share():
    ones = np.ones(600)
    nothing = np.zeros(600, dtype=bool)
    assert _training.fit_each(BOOSTED, X, ones, [np.arange(9), nothing], 2) == [0.95, 0.5]
    assert _training.fit_each(BOOSTED, X, 0 * ones, [np.arange(9)], 2) == [pytest.approx(0.05)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_in_this_thread_ends_the_others(error, monkeypatch):
    """Ctrl-C, or a callback that raises."""
    monkeypatch.setattr(_training, "_WAIT", 0.05)
    Slow.ended.clear()

    def complain():
        raise error("enough")

    start = time.monotonic()
    with listening(complain), pytest.raises(error, match="enough"):
        _training.fit_each(Slow(), X, Y, USES, 1)
    assert Slow.ended.is_set() and time.monotonic() - start < 30.0


def test_an_error_of_a_classifier_is_passed_on():
    with pytest.raises(RuntimeError, match="cannot be fitted"):
        _training.fit_each(Broken(), X, Y, USES, 1)


def test_signs_of_life(monkeypatch):
    monkeypatch.setattr(_training, "_WAIT", 0.0)
    heard = []
    with listening(lambda: heard.append(1)):
        _training.fit_each(BOOSTED, X, Y, USES, 2)
    assert heard
