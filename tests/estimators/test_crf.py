"""MaskCRF: what it learns, and how it decodes."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import logsuper as ls
from logsuper.learning import contrast_weights, make_examples, samples

SHAPE = (16, 16)
QUICK = {"unary": "linear", "tol": 0.05}


def scene(count, seed, shape=SHAPE, channels=2):
    """Return pictures whose colours tell little about one pixel, and their masks."""
    rng = np.random.default_rng(seed)
    masks = ls.make_silhouettes(count, shape=shape, seed=seed)
    tint = rng.normal(size=channels)
    noise = rng.normal(scale=1.2, size=(*masks.shape, channels))
    return masks[..., None] * tint / np.abs(tint).max() + noise, masks


def log_loss(p, y):
    return -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))


@pytest.fixture(scope="module")
def fitted():
    images, masks = scene(16, 0)
    return ls.MaskCRF(**QUICK).fit(images[:10], masks[:10]), images[10:], masks[10:]


def test_weights_of_a_known_field_are_found():
    rng = np.random.default_rng(0)
    shape, scales, alpha, beta, t = (6, 9), (0.5, 2.0), [0.5, 0.8, 0.4, 0.2], 0.7, 0.2
    odds, picture = rng.normal(scale=1.5, size=(2, 600, *shape))
    cuts = ls.grid_cuts(shape)
    edges = ls.prepare(cuts).edges
    factors = [np.repeat(contrast_weights(own.ravel(), edges, scales), 2, 0) for own in picture]
    data = make_examples(
        cuts * 2, features=odds[..., None], modular="shared", edge_weights=np.stack(factors)
    )
    masks = samples(data, [*alpha, t, beta], 1, seed=rng)[:, 0]
    images = np.stack([odds, picture], axis=-1)
    crf = ls.MaskCRF("log_odds", learner="pseudo", scales=scales, calibration=None)
    crf.fit(images, masks)
    np.testing.assert_allclose(crf.alpha_, np.reshape(alpha, (2, 2)), atol=0.2)
    # the sum over scales is far better determined than each
    np.testing.assert_allclose(crf.alpha_.sum(axis=0), [0.9, 1.0], atol=0.1)
    np.testing.assert_allclose([crf.beta_[0], crf.modular_], [beta, t], atol=0.06)


def test_the_field_is_better_than_its_unary_in_error_and_log_loss(seed):
    images, masks = scene(18, seed, (20, 20))
    crf = ls.MaskCRF(LogisticRegression(), features=lambda image: image, folds=2, tol=0.03)
    crf.fit(images[:10], masks[:10])
    alone, p, truth = (
        expit(crf.predict_unary(images[10:])),
        crf.predict_proba(images[10:]),
        masks[10:],
    )
    assert crf.score(images[10:], truth) > np.mean((alone > 0.5) == truth) + 0.01
    assert log_loss(p, truth) < log_loss(alone, truth) - 0.01
    assert (crf.alpha_ >= 0).all() and crf.alpha_.shape == (3, 2)


def test_the_field_learns_from_log_odds_of_classifiers_that_have_not_seen_the_image():
    images, masks = scene(8, 1)

    class Memory(LogisticRegression):
        """Knows its training pixels by heart, and nothing else."""

        def fit(self, X, y):
            self.seen_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
            self.classes_ = np.array([0, 1])
            return self

        def predict_proba(self, X):
            p = np.array([self.seen_.get(row.tobytes(), 0.5) for row in X])
            p = np.clip(p, 0.01, 0.99)
            return np.stack([1 - p, p], axis=1)

    crf = ls.MaskCRF(Memory(), folds=4, tol=0.05, max_pixels=10**6).fit(images, masks)
    assert all(not odds.any() for odds in crf.held_log_odds_)
    assert np.abs(crf.predict_unary(images)).min() > 4.0


def test_brought_probabilities_are_brought_log_odds(fitted):
    _, images, masks = fitted
    odds = images[..., :1]
    both = [
        ls.MaskCRF(word, tol=0.05).fit(np.concatenate([first, images], -1), masks)
        for word, first in (("log_odds", odds), ("probabilities", expit(odds)))
    ]
    np.testing.assert_allclose(both[0].beta_, both[1].beta_, rtol=1e-6)
    np.testing.assert_allclose(both[0].alpha_, both[1].alpha_, rtol=1e-6)
    np.testing.assert_allclose(
        both[0].predict_unary(np.concatenate([odds, images], -1)), odds[..., 0]
    )


def test_unknown_log_odds_are_filled_in_by_the_field():
    masks = ls.make_silhouettes(6, shape=SHAPE, seed=2)
    odds = np.where(masks == 1, 2.0, -2.0)
    odds[:, 5:8, 5:8] = np.nan
    crf = ls.MaskCRF("log_odds", "uniform").fit(odds, masks)
    p = crf.predict_proba(odds)
    assert np.isfinite(p).all() and crf.score(odds, masks) > 0.95


def test_partial_masks_are_enough():
    images, masks = scene(12, 3)
    partial = masks.astype(float)
    partial[:, ::2] = np.nan
    crf = ls.MaskCRF(**QUICK).fit(images, partial)
    hidden = np.where(np.isnan(partial), masks, np.nan)
    assert crf.score(images, hidden) > 0.75
    masked = np.ma.array(masks, mask=np.isnan(partial))
    again = ls.MaskCRF(**QUICK).fit(images, list(masked))
    np.testing.assert_array_equal(crf.alpha_, again.alpha_)


@pytest.mark.parametrize("learner", ["max_margin", "pseudo"])
def test_other_learners(learner):
    images, masks = scene(10, 4)
    crf = ls.MaskCRF("linear", "uniform", learner, tol=0.05).fit(images[:7], masks[:7])
    assert crf.learner_ == learner and crf.score(images[7:], masks[7:]) > 0.7


def test_map_is_the_most_probable_mask():
    rng = np.random.default_rng(0)
    shape = (3, 3)
    odds, picture = rng.normal(size=(2, 8, *shape))
    masks = (odds + rng.normal(size=odds.shape) > 0).astype(int)
    images = np.stack([odds, picture], axis=-1)
    crf = ls.MaskCRF("log_odds", decode="map", learner="max_margin").fit(images, masks)
    found = crf.predict(images)
    edges = ls.prepare(ls.grid_cuts(shape)).edges
    directions = np.repeat([0, 1], len(edges) // 2)
    states = np.array(list(itertools.product([0, 1], repeat=9)))
    cut = states[:, edges[:, 0]] != states[:, edges[:, 1]]
    for k in range(len(images)):
        contrast = contrast_weights(picture[k].ravel(), edges, crf.scales)
        weights = (crf.alpha_[:, directions] * contrast).sum(axis=0)
        field = crf.modular_ + crf.beta_[0] * odds[k].ravel()
        value = states @ field - cut @ weights
        mine = (
            found[k].ravel() @ field
            - (found[k].ravel()[edges[:, 0]] != found[k].ravel()[edges[:, 1]]) @ weights
        )
        assert mine == pytest.approx(value.max())


def test_without_calibration_probabilities_are_those_of_the_field():
    rng = np.random.default_rng(1)
    shape = (3, 3)
    odds = rng.normal(size=(6, *shape))
    masks = (odds + rng.normal(size=odds.shape) > 0).astype(int)
    crf = ls.MaskCRF("log_odds", "uniform", calibration=None, marginals="exact").fit(odds, masks)
    states = np.array(list(itertools.product([0, 1], repeat=9)))
    cuts = ls.grid_cuts(shape)
    f = sum((cut(states) * a for cut, a in zip(cuts, crf.alpha_[0], strict=True)), 0.0)
    for k, p in enumerate(crf.predict_proba(odds)):
        logs = states @ (crf.modular_ + crf.beta_[0] * odds[k].ravel()) - f
        weight = np.exp(logs - logs.max())
        np.testing.assert_allclose(p.ravel(), weight @ states / weight.sum(), atol=1e-6)


def test_calibration_has_the_least_log_loss_on_training_images(seed):
    images, masks = scene(10, seed)
    rng = np.random.default_rng(seed)
    sure = 4.0 * (2 * masks - 1) * np.where(rng.random(masks.shape) < 0.25, -1, 1)
    images = np.concatenate([sure[..., None], images], axis=-1)
    losses = {}
    for calibration in (None, "temperature", "mix"):
        crf = ls.MaskCRF("log_odds", calibration=calibration, tol=0.05)
        losses[calibration] = log_loss(crf.fit(images, masks).predict_proba(images), masks)
    # clipping at 1e-4 may cost a little
    assert losses["mix"] <= losses["temperature"] + 1e-4 <= losses[None] + 2e-4


def test_samples_have_the_marginals_of_the_field():
    rng = np.random.default_rng(2)
    odds = rng.normal(size=(2, 4, 4))
    masks = (odds > 0).astype(int)
    crf = ls.MaskCRF("log_odds", "uniform", calibration=None, marginals="exact", penalty=0.5)
    crf.fit(odds, masks)
    drawn = crf.sample_posterior(odds, 3000, random_state=0, method="cftp")
    assert drawn.shape == (2, 3000, 4, 4)
    np.testing.assert_allclose(drawn.mean(axis=1), crf.predict_proba(odds), atol=0.05)
    crf = ls.MaskCRF("log_odds", "uniform", calibration=None, n_samples=3000, penalty=0.5)
    crf.fit(odds, masks)
    drawn = crf.sample_posterior(odds, 3000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1), crf.predict_proba(odds), atol=0.05)
    # the same of a part of the images, and for any number of threads
    other = crf.set_params(n_jobs=2).sample_posterior(odds[:1], 3000, random_state=0)
    np.testing.assert_array_equal(other, drawn[:1])


def test_samples_where_couplings_are_strong():
    odds = np.random.default_rng(3).normal(scale=0.05, size=(1, 30, 30))
    crf = ls.MaskCRF("log_odds", "uniform", calibration=None, tol=0.05)
    crf.fit(odds, np.ones_like(odds, dtype=int) * (np.arange(30) < 15))
    assert crf.sample_posterior(odds, 2).shape == (1, 2, 30, 30)
    with pytest.raises(ls.NotCoalesced, match="method='perturb'"):
        crf.sample_posterior(odds, 2, random_state=0, method="cftp", max_iter=8)
    with pytest.raises(ValueError, match="method must be"):
        crf.sample_posterior(odds, method="gibbs")


def test_clone_pickle_and_seed(fitted):
    crf, images, _ = fitted
    again = clone(crf).set_params(n_jobs=2).fit(*scene_part())
    np.testing.assert_array_equal(crf.alpha_, again.alpha_)
    p = crf.predict_proba(images)
    np.testing.assert_array_equal(p, again.predict_proba(images))
    np.testing.assert_array_equal(p, pickle.loads(pickle.dumps(crf)).predict_proba(images))
    np.testing.assert_array_equal(p[1:2], crf.predict_proba(images[1:2]))


def scene_part():
    images, masks = scene(16, 0)
    return images[:10], masks[:10]


def test_grid_search_and_scores_per_pixel():
    images, masks = scene(6, 5)
    search = GridSearchCV(
        ls.MaskCRF(unary="linear", tol=0.05),
        {"edges": ["contrast", None]},
        cv=2,
        scoring=ls.pixel_scorer("neg_log_loss"),
    ).fit(images, masks)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("unary", ["linear", "log_odds", "probabilities"])
def test_files_hold_everything_but_classifiers(tmp_path, unary):
    images, masks = scene(6, 6)
    if unary != "linear":
        images = np.concatenate([expit(images[..., :1]), images], axis=-1)
    crf = ls.MaskCRF(unary, learner="pseudo").fit(images, masks)
    crf.save(tmp_path / "crf.npz")
    same = ls.load_model(tmp_path / "crf.npz")
    np.testing.assert_array_equal(crf.predict_proba(images), same.predict_proba(images))
    assert same.calibration_ == crf.calibration_ and same.unary_ is None


@pytest.mark.parametrize("given", [False, True])
def test_files_hold_boosted_trees_as_arrays(tmp_path, given):
    images, masks = scene(6, 6)
    images[0, :, :, 1] = np.float32(1 / 3)  # ties with thresholds
    settings = {"max_iter": 20, "random_state": np.random.RandomState(0), "class_weight": {0: 2.0}}
    unary = HistGradientBoostingClassifier(**settings) if given else "trees"
    crf = ls.MaskCRF(unary, learner="pseudo").fit(images, masks)
    crf.save(tmp_path / "crf.npz")
    same = ls.load_model(tmp_path / "crf.npz")
    for ask in ("predict", "predict_proba", "predict_unary"):
        np.testing.assert_array_equal(getattr(crf, ask)(images), getattr(same, ask)(images))
    assert type(crf.unary_) is HistGradientBoostingClassifier  # as it was
    same.save(tmp_path / "again.npz")
    assert np.array_equal(
        ls.load_model(tmp_path / "again.npz").predict(images), crf.predict(images)
    )
    if given:
        kept = same.unary.get_params()
        assert kept["max_iter"] == 20 and kept["class_weight"] == {0: 2.0}
    assert clone(same).fit(images, masks).held_log_odds_ is not None


def test_other_classifiers_are_not_saved(tmp_path):
    images, masks = scene(4, 7)
    table = {"features": lambda image: image}
    grouped = HistGradientBoostingClassifier(max_iter=5, categorical_features=[0])
    cases = [
        ({"unary": LogisticRegression()}, "unary is a LogisticRegression"),
        ({"unary": lambda image: image}, "unary is a callable"),
        ({"unary": "trees", **table}, "features is a callable"),
        ({"unary": grouped, "features": lambda image: (image > 0) * 1.0}, "categorical features"),
    ]
    for parameters, message in cases:
        crf = ls.MaskCRF(**parameters, tol=0.05).fit(images, masks)
        with pytest.raises(TypeError, match=message + ".*a file without code cannot.*pickle"):
            crf.save(tmp_path / "crf.npz")
        assert crf.predict(images).shape == masks.shape  # nothing is lost
    assert not list(tmp_path.iterdir())


def test_eight_neighbours_converge():
    masks = ls.make_silhouettes(16, shape=(24, 30), seed=0)
    noise = np.random.default_rng(0).normal(scale=0.55, size=(*masks.shape, 3))
    pictures = masks[..., None] * [0.6, 0.3, -0.3] + noise
    odds = 3 * pictures @ [0.6, 0.3, -0.3] - 1
    stacked = np.concatenate([odds[..., None], pictures], axis=-1)
    four, eight = (ls.MaskCRF("log_odds", neighbors=near).fit(stacked, masks) for near in (4, 8))
    assert eight.converged_ and eight.n_iter_ < 3000
    # with more couplings to choose from it is no worse
    assert eight.history_[-1].objective < 1.002 * four.history_[-1].objective


def test_progress_and_interruption():
    images, masks = scene(4, 8)
    lines = []
    crf = ls.MaskCRF(**QUICK, callback=lines.append).fit(images, masks)
    assert lines[0].step == 0 and len(lines) > 1
    before = crf.alpha_.copy()

    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crf.set_params(callback=stop).fit(images[:2], masks[:2])
    np.testing.assert_array_equal(crf.alpha_, before)


def test_verbose_prints(capsys):
    images, masks = scene(4, 8)
    ls.MaskCRF(**QUICK, verbose=True).fit(images, masks)
    assert "4 images, 1024 pixels" in capsys.readouterr().out
