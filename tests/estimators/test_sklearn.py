"""The tools of scikit-learn work on the estimators."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import logsuper as ls

CLEAN = ls.make_silhouettes(6, shape=(16, 16), seed=0)
NOISY = ls.Flips(0.1).sample(CLEAN, seed=1)
ROWS = (np.random.default_rng(0).random((40, 4)) < 0.4).astype(int)


@pytest.fixture(autouse=True)
def _short():
    """Whether a learner converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


# Checks that fit or score real numbers. An estimator of binary rows refuses them unless it is
# told by `binarize` what to take for a one; there is no tag for it.
_REAL_NUMBERS = "X must hold zeros and ones; the check gives real numbers"
_EXPECTED = dict.fromkeys(
    [
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
    ],
    _REAL_NUMBERS,
)


@parametrize_with_checks(
    [
        ls.LogSupermodularDensity(binarize=0.0, max_iter=20),
        ls.LogSupermodularDensity(binarize=0.0, n_components=2, n_init=1),
        ls.LogSupermodularDensity(),
    ],
    expected_failed_checks=lambda estimator: {} if estimator.binarize is not None else _EXPECTED,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [ls.MaskDenoiser(), ls.LogSupermodularDensity()])
def test_parameters(estimator):
    params = estimator.get_params()
    changed = estimator.set_params(random_state=7)
    assert changed is estimator and clone(estimator).get_params() == {**params, "random_state": 7}
    assert type(estimator).__name__ in repr(estimator)
    with pytest.raises(ValueError, match="Invalid parameter 'magic'"):
        estimator.set_params(magic=1)
    estimator.set_params(random_state=0)


def test_arguments_are_stored_untouched():
    noise, cuts = ls.Flips(0.2), list(ls.grid_cuts((2, 2)))
    denoiser = ls.MaskDenoiser(noise=noise, neighbors=cuts, penalty={"alpha": 1})
    assert denoiser.noise is noise and denoiser.neighbors is cuts
    ls.MaskDenoiser(noise=-1, learner=3, n_samples="many")  # nothing is checked before the fit


def test_grid_search_over_denoisers():
    search = GridSearchCV(
        ls.MaskDenoiser(noise=0.1, modular="shared", context=0, n_samples=20, max_iter=50),
        {"penalty": [0.01, 1e4], "neighbors": [4, 8]},
        cv=2,
    ).fit(NOISY, CLEAN)
    assert search.best_params_["penalty"] == 0.01
    assert search.predict(NOISY).shape == NOISY.shape
    assert search.score(NOISY, CLEAN) > 0.9


def test_weights_of_images_are_refused():
    """With what to do instead; None, which scikit-learn's tools may pass, is fine."""
    model = ls.MaskDenoiser(noise=0.1, context=0, n_samples=20, max_iter=50)
    model.fit(NOISY, CLEAN, sample_weight=None)
    assert model.score(NOISY, CLEAN, sample_weight=None) > 0.9
    told = "sample_weight must be None for 'logistic': leave images out, or give .* label NaN"
    with pytest.raises(ValueError, match=told):
        model.fit(NOISY, CLEAN, sample_weight=np.ones(len(NOISY)))
    with pytest.raises(ValueError, match=told):
        cross_val_score(
            model, NOISY, CLEAN, cv=2, error_score="raise",
            params={"sample_weight": np.ones(len(NOISY))},
        )  # fmt: skip


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss"])
def test_scores_by_name_are_for_rows(name):
    """They compare one label per row and raise; `pixel_scorer` is what the docs name instead."""
    model = ls.MaskDenoiser(noise=0.1, context=0, n_samples=20, max_iter=50)
    with pytest.raises(ValueError):
        cross_val_score(model, NOISY, CLEAN, cv=2, scoring=name, error_score="raise")
    scorer = ls.pixel_scorer(name)
    found = cross_val_score(model, NOISY, CLEAN, cv=2, scoring=scorer, error_score="raise")
    assert np.isfinite(found).all()


def test_cross_validation_of_lists():
    images = [image[:, : 14 + i % 3] for i, image in enumerate(NOISY)]
    labels = [image[:, : 14 + i % 3] for i, image in enumerate(CLEAN)]
    scores = cross_val_score(
        ls.MaskDenoiser(noise=0.1, context=0, n_samples=20, max_iter=50), images, labels, cv=3
    )
    assert scores.shape == (3,) and (scores > 0.85).all()


def test_pipelines():
    grey = ls.Gaussian((50.0, 200.0), 30.0).sample(CLEAN, seed=2)
    threshold = FunctionTransformer(lambda images: images > 125.0)
    pipeline = Pipeline(
        [("threshold", threshold), ("denoise", ls.MaskDenoiser(context=0, max_iter=50))]
    )
    assert pipeline.fit(grey, CLEAN).score(grey, CLEAN) > 0.95
    rows = make_pipeline(Binarizer(threshold=0.5), ls.LogSupermodularDensity()).fit(ROWS * 0.9)
    assert np.isfinite(rows.score(ROWS * 0.9))


def test_grid_search_over_densities():
    search = GridSearchCV(ls.LogSupermodularDensity(), {"penalty": [1e-2, 1e3]}, cv=2).fit(ROWS)
    assert search.best_params_ == {"penalty": 1e-2}


def test_pickles():
    denoiser = ls.MaskDenoiser(noise=0.1, max_iter=5, neighbors=list(ls.grid_cuts((16, 16)))).fit(
        NOISY, CLEAN
    )
    copy = pickle.loads(pickle.dumps(denoiser))
    np.testing.assert_array_equal(copy.predict_proba(NOISY), denoiser.predict_proba(NOISY))
    density = ls.LogSupermodularDensity().fit(ROWS)
    copy = pickle.loads(pickle.dumps(density))
    np.testing.assert_array_equal(copy.score_samples(ROWS), density.score_samples(ROWS))


def test_feature_names_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=list("abcd"))
    density = ls.LogSupermodularDensity().fit(frame)
    density.save(tmp_path / "model")
    assert ls.load_model(tmp_path / "model").feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        density.score_samples(frame[list("abdc")])
