"""Classifiers of surroundings: what they see, what they estimate, and what the field adds."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import logsuper as ls
from logsuper._base import load_arrays, save_arrays
from logsuper.estimators import _blind_spot, _design
from logsuper.estimators._blind_spot import BlindSpot, train_blind_spot
from logsuper.estimators._surroundings import count_features, reach, surroundings
from logsuper.estimators._trees import Trees

SMALL = LogisticRegression(C=1.0, max_iter=200)
GREY = ls.Gaussian((0.0, 1.0), 0.5)


@pytest.fixture(autouse=True)
def _short():
    """Whether a learner converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


def quick(**params):
    return ls.MaskDenoiser(**{"max_iter": 25, "n_samples": 20, "context": SMALL, **params})


def train(images, channel, classifier=SMALL, labels=None):
    images = list(images)
    return train_blind_spot(
        images, labels, channel, classifier, images=images, windows=None, key=0, threads=1
    )


# ------------------------------------------------------------------------------ surroundings


@given(st.integers(0, 2**31), st.integers(0, 2), st.booleans())
@settings(max_examples=20, deadline=None)
def test_features_do_not_contain_their_pixel_not_even_by_rounding(seed, levels, volume):
    rng = np.random.default_rng(seed)
    shape = (4, 5, 7) if volume else (12, 17)
    image = np.tanh(rng.normal(size=(1, *shape)))
    at = tuple(int(rng.integers(side)) for side in shape)
    other = image.copy()
    other[(0, *at)] = rng.normal()
    before, after = (surroundings(z, levels)[(..., 0, *at)] for z in (image, other))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("shape", [(31, 33), (9, 9, 9)])
def test_features_are_means_of_boxes_within_reach(shape):
    axes = len(shape)
    image = np.random.default_rng(0).normal(size=(1, *shape))
    found = surroundings(image)
    assert found.shape == (count_features(axes), 1, *shape)
    center = tuple(side // 2 for side in shape)
    box = image[(0, *(slice(c - 4, c + 5) for c in center))]
    ring = (box.sum() - image[(0, *center)]) / 9**axes
    last = found[(..., 0, *center)][-(3**axes) :]  # boxes of 9, the central one in the middle
    assert last[len(last) // 2] == pytest.approx(ring, abs=1e-6)
    far = np.zeros((1, *(4 * reach(axes) + 1,) * axes)) if axes == 2 else None
    if far is not None:
        middle = 2 * reach(axes)
        far[0, middle, middle] = 1.0
        seen = np.flatnonzero(surroundings(far)[:, 0, middle].any(axis=0))
        assert seen.min() == middle - reach(axes) and seen.max() == middle + reach(axes)


# ------------------------------------------------------------------------------ the channel


def test_own_images_are_judged_by_classifiers_that_have_not_seen_them():
    # of pure noise, which nothing predicts: a classifier that had seen it would know it by heart
    z = (np.random.default_rng(0).random((6, 16, 16)) < 0.5).astype(float)
    greedy = HistGradientBoostingClassifier(
        max_iter=60, min_samples_leaf=2, early_stopping=False, random_state=0
    )
    model, own = train(z, ls.Flips(0.1), greedy)
    odds = ls.Flips(0.1).log_odds(z)
    agree = ((own(np.arange(6), odds) > 0) == z.reshape(6, -1)).mean()
    seen = ((model.judge_new()(np.arange(6), odds) > 0) == z.reshape(6, -1)).mean()
    assert abs(agree - 0.5) < 0.05 < seen - 0.5


def test_few_images_are_judged_by_blocks_with_a_gap():
    shape = (90, 20)
    folds = _blind_spot._stripes(shape, reach(2, 0))
    assert set(np.unique(folds)) == set(range(_blind_spot.FOLDS))
    for k in range(_blind_spot.FOLDS):
        use = _blind_spot._apart(folds, k, shape, reach(2, 0))
        rows, blocks = np.flatnonzero(use.any(axis=1)), np.flatnonzero((folds == k).any(axis=1))
        assert len(rows) and np.abs(rows[:, None] - blocks).min() == reach(2, 0) + 1
    z = (np.random.default_rng(0).random((1, *shape)) < 0.5).astype(float)
    flipped = z.copy()
    flipped[0, 45, 10] = 1 - z[0, 45, 10]
    said = [
        train(seen, ls.Flips(0.1))[1](np.arange(1), ls.Flips(0.1).log_odds(seen))
        for seen in (z, flipped)
    ]
    at = 45 * 20 + 10
    assert said[0][0, at] == said[1][0, at]
    assert (said[0] != said[1]).any()


def test_one_class_only_is_no_error():
    model, _ = train(np.zeros((3, 16, 16)), ls.Flips(0.1))
    assert all(isinstance(own, float) and own < 0.01 for own in model.models)


def test_bad_classifiers_and_channels_are_refused():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(4, shape=(16, 16), seed=0), seed=1)
    for bad, text in ((LinearSVC(), "predict_proba"), (LogisticRegression, "instance")):
        with pytest.raises(TypeError, match=text):
            quick(context=bad).fit(z)
    with pytest.raises(ValueError, match="context must be"):
        quick(context="forest").fit(z)
    with pytest.raises(ValueError, match="rates per pixel"):
        quick(noise=np.full((16, 16), 0.1)).fit(z)
    with pytest.raises(ValueError, match="latent"):
        quick(learner="latent").fit(z)


# ------------------------------------------------------------------------------ the estimator


@pytest.fixture(scope="module")
def horses():
    clean = ls.make_silhouettes(30, shape=(24, 24), seed=0)
    return ls.Flips(0.1).sample(clean, seed=1), clean


def test_trees_are_learned_saved_and_loaded(horses, tmp_path, monkeypatch):
    noisy, clean = horses
    few = HistGradientBoostingClassifier(max_iter=10, early_stopping=False, random_state=0)
    monkeypatch.setattr(_blind_spot, "trees", lambda seed: few)
    monkeypatch.setattr(_design, "_MANY", 20)
    beats = []
    denoiser = quick(context="trees", callback=beats.append).fit(noisy[:20])
    assert denoiser.learner_ == "moments" and denoiser.trust_ > 0.3
    assert quick(context="trees").fit(noisy[:19]).learner_ == "resample"
    assert all(isinstance(model, Trees) for model in denoiser.surroundings_.models)
    assert denoiser.score(noisy[20:], clean[20:]) > 0.95
    assert len(beats) >= 2 and max(record.step for record in beats) > 0
    denoiser.save(tmp_path / "model")
    loaded = ls.load_model(tmp_path / "model")
    assert loaded.trust_ == denoiser.trust_
    np.testing.assert_array_equal(loaded.predict_proba(noisy), denoiser.predict_proba(noisy))
    assert loaded.score(noisy[20:]) == denoiser.score(noisy[20:])


@pytest.mark.parametrize("change", ["none", "levels", "models", "axes"])
def test_a_classifier_that_does_not_belong_to_the_model_is_refused(change, horses, tmp_path):
    few = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=50)
    denoiser = quick(context=few).fit(horses[0][:6])
    denoiser.set_params(context="trees").save(tmp_path / "model")
    assert ls.load_model(tmp_path / "model").surroundings_.fits(2)
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    fitted = header["fitted"]
    parts = fitted["surroundings_"]["parts"]
    if change == "none":
        fitted["surroundings_"] = None
    elif change == "levels":
        parts["levels"] = 1
    elif change == "models":  # predicting would take long
        parts["models"]["parts"] = 1000 * [0.5]
    else:
        fitted["_design"]["parts"]["axes"] = 3
    save_arrays(tmp_path / "model", "model", 1, header, arrays)
    with pytest.raises(ValueError, match="malformed"):
        ls.load_model(tmp_path / "model")


def test_other_classifiers_are_not_saved(horses, tmp_path):
    denoiser = quick().fit(horses[0][:6])
    with pytest.raises(TypeError, match="LogisticRegression"):
        denoiser.save(tmp_path / "model")


@pytest.mark.parametrize("learner", ["logistic", "max_margin", "resample"])
def test_every_learner_takes_a_classifier(horses, learner):
    noisy, clean = horses
    denoiser = quick(learner=learner).fit(noisy[:8], clean[:8])
    assert denoiser.surroundings_.whole == (learner != "resample")
    assert denoiser.score(noisy[20:], clean[20:]) > 0.92


def test_grey_levels_missing_pixels_shapes_and_volumes(horses):
    _, clean = horses
    rng = np.random.default_rng(0)
    grey = ls.Gaussian((0.0, 1.0), 0.5).sample(clean[:8], seed=1)
    p = quick().fit(grey).predict_proba(grey)
    assert np.mean((p > 0.5) == clean[:8]) > 0.93
    holes = np.where(rng.random(clean[:8].shape) < 0.2, np.nan, clean[:8])
    holes = np.where(rng.random(clean[:8].shape) < 0.1, 1 - holes, holes)
    p = quick().fit(holes).predict_proba(holes)
    lost = np.isnan(holes)
    assert np.mean((p > 0.5)[lost] == clean[:8][lost]) > 0.85
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    ragged = [noisy[0], noisy[1][:20], noisy[2][:, :17], noisy[3]]
    assert [z.shape for z in quick().fit(ragged).predict(ragged)] == [z.shape for z in ragged]
    volumes = np.repeat(clean[:3, None], 6, axis=1)
    volumes = ls.Flips(0.1).sample(volumes, seed=2)
    assert quick().fit(volumes).predict(volumes).shape == volumes.shape


def test_large_images_are_learned_from_windows():
    clean = ls.make_silhouettes(1, shape=(150, 120), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    denoiser = quick().fit(noisy)
    assert not denoiser.surroundings_.places
    assert denoiser.learner_ == "resample"  # the boundary is too short to learn from moments
    assert denoiser.score(noisy, clean) > 0.97


def test_the_score_chooses_between_trees_and_filter(horses, monkeypatch):
    monkeypatch.setattr(_blind_spot, "trees", lambda seed: SMALL)
    denoiser = quick(context="select").fit(horses[0][:12])
    rows = denoiser.selection_
    assert {row["trees"] for row in rows} == {True, False}
    best = max(rows, key=lambda row: row["score"])
    assert (denoiser.surroundings_ is not None) == best["trees"]
    assert denoiser.learner_ == "resample"  # 12 images, too few for moments


# ------------------------------------------------------------------------------ costs


def test_costs_move_the_threshold(horses):
    noisy, clean = horses
    ones = [
        quick(context=0, cost=cost).fit(noisy[:8], clean[:8]).predict(noisy).mean()
        for cost in ((1.0, 9.0), (1.0, 1.0), (9.0, 1.0))
    ]
    assert ones == sorted(ones, reverse=True) and ones[0] > ones[2]
    denoiser = quick(context=0, cost=(1.0, 3.0)).fit(noisy[:8], clean[:8])
    np.testing.assert_array_equal(denoiser.predict(noisy), denoiser.predict_proba(noisy) > 0.25)


def test_max_margin_learns_with_costs(horses):
    noisy, clean = horses
    ones = [
        quick(context=0, learner="max_margin", cost=cost)
        .fit(noisy[:8], clean[:8])
        .predict(noisy)
        .mean()
        for cost in ((1.0, 5.0), (5.0, 1.0))
    ]
    assert ones[0] > ones[1]


@pytest.mark.parametrize("cost", [(0.0, 1.0), (1.0,), "ab", 3.0, (1.0, np.nan)])
def test_bad_costs_are_refused(cost, horses):
    with pytest.raises((ValueError, TypeError), match="cost"):
        quick(context=0, cost=cost).fit(horses[0][:4])
    with pytest.raises(ValueError, match="most probable mask"):
        quick(context=0, cost=(1.0, 2.0), decode="map").fit(*(a[:4] for a in horses))


def test_clipped_log_odds_are_finite():
    model = BlindSpot((0.0, 1.0), (-0.2, 1.2), True, False, False, 0)
    assert np.abs(model.invert(np.array([0.0, 1.0]))).max() == pytest.approx(logit(0.999))


# ------------------------------------------------------------------------------ own images


@pytest.mark.parametrize("count", [2, 7])
def test_training_images_are_recognised_and_judged_as_in_training(count):
    z = list(ls.Flips(0.2).sample(ls.make_silhouettes(count + 1, shape=(40, 36), seed=3), seed=4))
    z[0] = np.where(np.arange(36) < 3, np.nan, z[0])
    train_on = [*z[:count], z[1]]  # one of them twice
    model, own = train(train_on, ls.Flips(0.2))
    odds = ls.Flips(0.2).log_odds(np.stack(z))
    numbers = np.arange(count + 1)
    said = model.judge([np.asarray(image, dtype=np.float32) for image in z])(numbers, odds)
    np.testing.assert_array_equal(said[:count], own(numbers[:count], odds[:count]))
    np.testing.assert_array_equal(said[count:], model.judge_new()(numbers[:1], odds[count:]))
    assert np.abs(said[:count] - model.judge_new()(numbers, odds)[:count]).max() > 0.1
    # a copy of an image is not judged by a classifier that has seen the image
    np.testing.assert_array_equal(own(numbers[[1]], odds[[1]]), own(np.array([count]), odds[[1]]))


def test_own_images_do_not_depend_on_dtype_order_or_a_file(horses, tmp_path, monkeypatch):
    monkeypatch.setattr(
        _blind_spot, "trees", lambda seed: HistGradientBoostingClassifier(max_iter=4)
    )
    noisy = horses[0][:9]
    denoiser = quick(context="trees").fit(noisy)
    p = denoiser.predict_proba(noisy)
    np.testing.assert_array_equal(p[::-1], denoiser.predict_proba(noisy[::-1].astype(bool)))
    denoiser.save(tmp_path / "model")
    np.testing.assert_array_equal(p, ls.load_model(tmp_path / "model").predict_proba(noisy))
    other = noisy.copy()
    other[0, 0, 0] = 1 - other[0, 0, 0]  # is no longer one of them
    assert np.abs(denoiser.predict_proba(other)[0] - p[0])[10:, 10:].max() > 1e-3


def test_a_classifier_without_weights_learns_grey_levels_from_drawn_labels():
    channel = ls.Gaussian((0.0, 1.0), 0.5)
    x = ls.make_silhouettes(8, shape=(24, 24), seed=0)
    z = channel.sample(x, seed=1)
    model = ls.MaskDenoiser(context=KNeighborsClassifier(50)).fit(z)
    assert model.trust_ > 0.1
    assert (model.predict(z) != x).mean() < ((z > 0.5) != x).mean() / 2


def test_classifiers_with_a_length_are_classifiers():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    z = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(20, 20), seed=0), seed=1)
    assert ls.MaskDenoiser(context=pipeline).fit(z).trust_ > 0.0


def test_a_given_boosting_is_saved_as_arrays(tmp_path):
    noisy = ls.Flips(0.1).sample(ls.make_silhouettes(6, shape=(24, 24), seed=0), seed=1)
    few = HistGradientBoostingClassifier(max_iter=4, random_state=np.random.RandomState(0))
    denoiser = ls.MaskDenoiser(context=few, n_samples=8, max_iter=3).fit(noisy)
    denoiser.save(tmp_path / "model.npz")
    same = ls.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(same.predict_proba(noisy), denoiser.predict_proba(noisy))
    assert same.context.max_iter == 4 and same.context.random_state is None
    other = ls.MaskDenoiser(context=SMALL, n_samples=8, max_iter=3).fit(noisy)
    with pytest.raises(TypeError, match=r"context is a LogisticR.*HistGradient.*pickle"):
        other.save(tmp_path / "other.npz")
