"""`MaskDenoiser`: what it learns, and what it makes of it."""

import itertools

import numpy as np
import oracles
import pytest
from denoisers import SHAPE, make_pairs, quick
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import logsuper as ls
from logsuper.estimators import _images
from logsuper.learning import LEARNERS, Record, _learned, _neighbourhoods, _noise_level
from logsuper.solvers import Prepared

pytestmark = pytest.mark.usefixtures("stopped_early")


def test_removes_noise_with_clean_images(pairs, fitted):
    noisy, clean = pairs
    before = (noisy[20:] == clean[20:]).mean()
    assert fitted.score(noisy[20:], clean[20:]) > before + 0.03
    assert fitted.learner_ == "logistic"


def test_removes_noise_without_clean_images(pairs):
    noisy, clean = pairs
    denoiser = quick().fit(noisy)
    assert denoiser.learner_ == "resample"
    assert abs(denoiser.noise_ - 0.1) < 0.03
    assert denoiser.score(noisy, clean) > (noisy == clean).mean() + 0.03


def test_a_score_without_labels_chooses(pairs):
    noisy, _ = pairs
    search = GridSearchCV(quick(), {"penalty": [1e-2, 1e4]}, cv=2).fit(noisy)
    assert search.best_params_ == {"penalty": 1e-2}
    found = cross_val_score(quick(), noisy, cv=3)
    assert (found < 0).all() and (found > np.log(0.5)).all()


def test_a_score_is_of_the_probabilities_that_users_get():
    noisy = make_pairs(3)[0][:, 4:12, 4:13]
    found = {}
    for way in ("exact", "logistic"):
        model = quick(0.1, marginals=way).fit(noisy)
        examples = ls.learning.make_examples(
            ls.grid_cuts((8, 9)), observed=noisy, channel=model.channel_, modular="shared",
            scale=True,
        )  # fmt: skip
        theta = examples.layout.pack(model.parameters_)
        expected = ls.learning.score(examples, theta, method=way, patterns=16, seed=model._key)
        found[way] = model.score(noisy)
        assert found[way] == pytest.approx(expected.value, rel=1e-12)
    assert found["exact"] != found["logistic"]


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "neg_brier_score", "roc_auc", "f1"])
def test_scores_of_scikit_learn(pairs, fitted, name):
    noisy, clean = pairs
    scorer = ls.pixel_scorer(name)
    found = scorer(fitted, noisy, clean)
    p, y = fitted.predict_proba(noisy).ravel(), clean.ravel()
    expected = {
        "accuracy": lambda: (fitted.predict(noisy).ravel() == y).mean(),
        "neg_log_loss": lambda: np.log(np.where(y == 1, p, 1 - p)).mean(),
        "neg_brier_score": lambda: -((p - y) ** 2).mean(),
        "roc_auc": lambda: roc_auc_score(y, p),
        "f1": lambda: f1_score(y, fitted.predict(noisy).ravel()),
    }[name]()
    assert found == pytest.approx(expected, rel=1e-9)
    some = clean.astype(float)
    some[:, 3:] = np.nan
    assert np.isfinite(scorer(fitted, noisy, some))
    scores = cross_val_score(quick(), noisy, clean, cv=2, scoring=scorer, error_score="raise")
    assert scores.shape == (2,)
    with pytest.raises(ValueError, match="leave scoring out"):
        scorer(fitted, noisy, None)


def test_cross_validated_predictions(pairs):
    noisy, clean = pairs
    assert cross_val_predict(quick(), noisy, clean, cv=2).shape == clean.shape
    found = cross_val_predict(quick(), noisy, cv=2, method="predict_proba")
    assert found.shape == clean.shape
    assert quick().fit(noisy, clean).classes_.tolist() == [0, 1]


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_removes_noise(learner):
    noisy, clean = make_pairs(6, rate=0.15)
    denoiser = quick(noise=0.15, learner=learner).fit(noisy, clean)
    assert denoiser.learner_ == learner
    assert denoiser.score(noisy, clean) > (noisy == clean).mean() + 0.03


def test_fitted_attributes(fitted):
    assert fitted.alpha_.shape == (2,) and (fitted.alpha_ >= 0).all()
    assert fitted.modular_.shape == SHAPE == fitted.shape_  # 20 images of one shape: a pixel each
    assert fitted.filter_.shape == (5, 5) and fitted.filter_[2, 2] == 0
    assert fitted.scale_ > 0 and fitted.noise_ == 0.1 and fitted.decode_factor_ == 1
    assert fitted.n_iter_ >= 1 and isinstance(fitted.converged_, bool)
    assert fitted.parameters_.alpha is fitted.alpha_


@pytest.mark.parametrize(
    ("count", "shape", "radius"), [(1, (20, 20), 0), (1, (100, 100), 1), (3, (100, 100), 2)]
)
def test_filter_grows_with_the_data(count, shape, radius):
    clean = np.zeros((count, *shape))
    clean[:, 30:60, 30:60] = 1
    noisy = ls.Flips(0.1).sample(clean, seed=0)
    denoiser = quick(noise=0.1, context="auto", max_iter=2).fit(noisy, clean)
    assert denoiser.filter_.shape == (2 * radius + 1,) * 2


def test_filter_is_applied_as_a_window(pairs):
    # a filter that copies the right neighbour, and nothing else
    noisy, _ = pairs
    denoiser = quick(noise=0.1, context=1, marginals="exact").fit(*pairs)
    found = denoiser.parameters_
    beta = np.zeros(8)
    beta[4] = 12.0  # row by row without the middle: (0, +1) comes fifth
    denoiser.parameters_ = type(found)(0 * found.alpha, 0 * found.modular, beta, 0.0)
    denoiser._refit()
    assert denoiser.filter_[1, 2] == 12.0
    np.testing.assert_array_equal(denoiser.predict(noisy)[:, :, :-1], noisy[:, :, 1:])


@pytest.mark.parametrize("modular", ["pixel", "shared", "none"])
def test_probabilities_are_those_of_the_posterior(modular, seed):
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, (6, 2, 4))
    noisy = ls.Flips(0.2).sample(clean, seed=rng)
    noisy[0, 0, 0] = np.nan
    denoiser = quick(noise=0.2, modular=modular, scale=False, marginals="exact").fit(noisy, clean)
    assert denoiser.scale_ == 1
    X = oracles.enumerate_x(8)
    fh, fv = ls.grid_cuts((2, 4))
    t = np.broadcast_to(denoiser.modular_, (2, 4)).ravel()
    energy = denoiser.alpha_[0] * fh(X) + denoiser.alpha_[1] * fv(X) - X @ t
    for z, found in zip(noisy, denoiser.predict_proba(noisy), strict=True):
        score = X @ ls.Flips(0.2).log_odds(z.ravel()) - energy
        p = np.exp(score - score.max())
        np.testing.assert_allclose(found.ravel(), p @ X / p.sum(), atol=1e-9)
    # the most probable mask, and samples, of the same posterior
    best = denoiser.set_params(decode="map").predict(noisy)[0].ravel()
    score = X @ ls.Flips(0.2).log_odds(noisy[0].ravel()) - energy
    np.testing.assert_allclose(score[np.flatnonzero((X == best).all(axis=1))], score.max())
    drawn = denoiser.sample_posterior(noisy[:1], 4000, random_state=seed)
    assert drawn.shape == (1, 4000, 2, 4) and drawn.dtype == np.uint8
    mean = denoiser.predict_proba(noisy[:1])[0]
    error = np.abs(drawn[0].mean(axis=0) - mean)
    assert (error < 5 * np.sqrt(mean * (1 - mean) / 4000) + 1e-3).all()


def test_predictions_are_thresholded_probabilities(pairs, fitted):
    noisy, _ = pairs
    proba = fitted.predict_proba(noisy)
    assert proba.shape == noisy.shape and proba.dtype == np.float64
    assert (proba >= 0).all() and (proba <= 1).all()
    masks = fitted.predict(noisy)
    assert masks.dtype == np.uint8
    np.testing.assert_array_equal(masks, proba > 0.5)


def test_missing_pixels_are_filled_in(pairs, fitted):
    noisy, clean = pairs
    lost = np.random.default_rng(0).random(noisy.shape) < 0.1
    holes = np.where(lost, np.nan, noisy)
    filled = fitted.predict(holes)
    assert set(np.unique(filled)) <= {0, 1}
    masked = np.ma.masked_array(noisy, lost)
    np.testing.assert_array_equal(fitted.predict(masked), filled)
    assert (filled == clean)[lost].mean() > 0.85  # zeros alone would be right on four fifths


def test_labels_may_be_missing(pairs):
    noisy, clean = pairs
    rng = np.random.default_rng(0)
    partial = np.where(rng.random(clean.shape) < 0.5, np.nan, clean)
    denoiser = quick(noise=0.1).fit(noisy, partial)
    assert denoiser.score(noisy, clean) > 0.93
    # only labelled pixels count
    wrong = denoiser.predict(noisy) != clean
    expected = 1 - wrong[~np.isnan(partial)].mean()
    assert denoiser.score(noisy, partial) == pytest.approx(expected)


def test_images_of_different_shapes():
    shapes = [(16, 20), (18, 16), (16, 20)]
    made = [make_pairs(1, shape, seed=k) for k, shape in enumerate(shapes)]
    noisy, clean = [z[0] for z, _ in made], [x[0] for _, x in made]
    denoiser = quick(noise=0.1).fit(noisy, clean)
    assert denoiser.shape_ is None and isinstance(denoiser.modular_, float)
    found = denoiser.predict(noisy)
    assert isinstance(found, list) and [y.shape for y in found] == [x.shape for x in clean]
    assert denoiser.score(noisy, clean) > 0.9
    assert [p.shape for p in denoiser.sample_posterior(noisy, 2, 0)] == [
        (2, *x.shape) for x in clean
    ]


def test_volumes():
    clean = np.repeat(ls.make_silhouettes(4, shape=(16, 16), seed=0)[:, None], 3, axis=1)
    noisy = ls.Flips(0.15).sample(clean, seed=1)
    denoiser = quick(noise=0.15, context=1).fit(noisy, clean)
    assert denoiser.alpha_.shape == (3,) and denoiser.filter_.shape == (3, 3, 3)
    assert denoiser.predict(noisy).shape == clean.shape
    assert denoiser.score(noisy, clean) > 0.93


def test_decode_by_the_mode_picks_a_factor(pairs):
    noisy, clean = pairs
    denoiser = quick(noise=0.1, decode="map", modular="shared").fit(noisy, clean)
    picked = denoiser.score(noisy, clean)
    for factor in (0.5, 0.8, 1.0, 1.2):
        denoiser.decode_factor_ = factor
        assert denoiser.score(noisy, clean) <= picked


def test_functions_of_ones_own(pairs):
    noisy, clean = pairs
    cuts = ls.grid_cuts(SHAPE, neighbors=8)
    given = quick(noise=0.1, neighbors=8, modular="shared").fit(noisy[:4], clean[:4])
    listed = quick(noise=0.1, neighbors=list(cuts), modular="shared")
    called = quick(
        noise=0.1, neighbors=lambda shape: ls.grid_cuts(shape, neighbors=8), modular="shared"
    )
    for other in (listed, called):
        other.fit(noisy[:4], clean[:4])
        np.testing.assert_array_equal(other.alpha_, given.alpha_)
        np.testing.assert_array_equal(other.predict(noisy), given.predict(noisy))


def test_fits_that_stop_early_warn_and_say_so(pairs):
    noisy, clean = pairs
    denoiser = quick(noise=0.1, max_iter=2)
    with pytest.warns(ls.ConvergenceWarning, match="2 steps"):
        denoiser.fit(noisy, clean)
    assert not denoiser.converged_ and denoiser.n_iter_ == 2


def test_verbose_says_what_is_found(pairs, capsys):
    noisy, clean = pairs
    quick(verbose=True).fit(noisy[:4], clean[:4])
    said = capsys.readouterr().out
    for part in ("4 images, 1024 pixels", "noise: Flips(", "step 0", "objective", "logistic: "):
        assert part in said
    large, _ = make_pairs(1, shape=(100, 100))
    quick(verbose=True, noise=0.1).fit(large)
    assert "4 windows" in capsys.readouterr().out
    quick().fit(noisy[:4], clean[:4])
    assert not capsys.readouterr().out
    with pytest.raises(TypeError, match="verbose must be True or False, got 2"):
        quick(verbose=2).fit(noisy[:4], clean[:4])


def test_signs_of_life_come_each_second(pairs, monkeypatch):
    """With a clock that leaps a second at each look, every step is heard of."""
    clock = itertools.count()
    monkeypatch.setattr(_learned.time, "monotonic", lambda: float(next(clock)))
    noisy, _ = pairs
    lines = []
    quick(noise=0.1, callback=lines.append, learner="resample").fit(noisy)
    alive = [line for line in lines if np.isnan(line.objective)]
    assert len(alive) > 20
    assert all(line not in alive for line in lines if line.objective == line.objective)


def test_no_second_of_work_is_silent(monkeypatch):
    """By a clock that advances with work alone: pixels that are read, and pixels that are solved.

    At its pace the noise of these masks takes some seconds to estimate, and so does the score.
    """
    clock = [0.0]

    def at_pace(owner, name, seconds):
        """Let a function advance the clock by what it is given."""
        real = getattr(owner, name)

        def slow(*args, **options):
            clock[0] += seconds(*args)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, slow)

    read, solve = 0.4 / 2**17, 0.4 / 2**23
    at_pace(_images, "_neither", lambda image: read * image.size)
    at_pace(_noise_level, "as_codes", lambda image, *_: read * image.size)
    at_pace(_neighbourhoods, "_encode", lambda images, _: read * images.size)
    for name in ("conditional_means", "perturb"):
        at_pace(Prepared, name, lambda _, theta, alpha, n, *__: solve * np.size(theta) * n)
    monkeypatch.setattr(_learned.time, "monotonic", lambda: clock[0])
    heard = []
    noisy = ls.Flips(0.1).sample(ls.make_silhouettes(40, shape=(128, 128), seed=0), seed=1)
    quick(callback=lambda line: heard.append(clock[0])).fit(noisy.astype(np.uint8))
    assert heard[0] == 0.0 and clock[0] > 10.0
    assert np.diff([*heard, clock[0]]).max() < 1.5  # a second, and a part of the work


def test_callback_sees_the_history(pairs):
    noisy, clean = pairs
    lines = []
    denoiser = quick(noise=0.1, callback=lines.append).fit(noisy[:4], clean[:4])
    assert all(isinstance(line, Record) for line in lines)
    assert lines[0].step == 0 and np.isnan(lines[0].objective)  # before the first step
    assert lines[-1] in denoiser.history_

    def stop(line):
        raise KeyboardInterrupt

    before = denoiser.predict(noisy)
    denoiser.set_params(callback=stop, modular="none", context=1)
    with pytest.raises(KeyboardInterrupt):
        denoiser.fit(noisy[:4], clean[:4])
    np.testing.assert_array_equal(denoiser.predict(noisy), before)  # the fit before still stands
