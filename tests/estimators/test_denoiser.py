import warnings

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from objective_oracles import long

import logsuper as ls
from logsuper.estimators._learners import LEARNERS
from logsuper.estimators._noise import noise_of
from logsuper.learning import Record

SHAPE = (16, 16)


@pytest.fixture(autouse=True)
def _short():
    """Small problems with few steps: whether they converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


def quick(*args, **params):
    """Return a denoiser that stops early."""
    return ls.MaskDenoiser(*args, **{"max_iter": 25, "samples": 20, "context": 0, **params})


def make_pairs(count, shape=SHAPE, rate=0.1, seed=0):
    clean = ls.make_silhouettes(count, shape=shape, seed=seed)
    return ls.Flips(rate).sample(clean, seed=seed + 100).astype(np.uint8), clean


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(24)


@pytest.fixture(scope="module")
def fitted(pairs):
    noisy, clean = pairs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        return quick(noise=0.1, context=2).fit(noisy[:20], clean[:20])


# ------------------------------------------------------------------------------------- what it does


def test_removes_noise_with_clean_images(pairs, fitted):
    noisy, clean = pairs
    before = (noisy[20:] == clean[20:]).mean()
    assert fitted.score(noisy[20:], clean[20:]) > before + 0.03
    assert fitted.learner_ == "logistic"


def test_removes_noise_without_clean_images(pairs):
    noisy, clean = pairs
    denoiser = quick().fit(noisy)
    assert denoiser.learner_ == "moments"
    assert abs(denoiser.noise_ - 0.1) < 0.03
    assert denoiser.score(noisy, clean) > (noisy == clean).mean() + 0.03


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
    beta[4] = 50.0  # row by row without the middle: (0, +1) comes fifth
    denoiser.parameters_ = type(found)(0 * found.alpha, 0 * found.modular, beta, 0.0)
    denoiser._refit()
    assert denoiser.filter_[1, 2] == 50.0
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


def test_grey_levels(seed):
    clean = ls.make_silhouettes(4, shape=SHAPE, seed=seed)
    grey = ls.Gaussian(mean=(60.0, 120.0), scale=(20.0, 30.0)).sample(clean, seed=seed)
    denoiser = quick().fit(grey, clean)
    assert isinstance(denoiser.channel_, ls.Gaussian)
    np.testing.assert_allclose(denoiser.channel_.mean, [60, 120], atol=5)
    np.testing.assert_allclose(denoiser.noise_, [20, 30], rtol=0.2)
    assert denoiser.score(grey, clean) > 0.9


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


# ------------------------------------------------------------------------------------ determinism


@pytest.mark.parametrize("learner", ["auto", "moments"])
def test_same_seed_same_result(pairs, learner):
    noisy, clean = pairs
    runs = []
    for n_jobs in (1, 1, 2):
        denoiser = quick(learner=learner, random_state=3, n_jobs=n_jobs)
        denoiser.fit(noisy[:6], clean[:6])
        runs.append((denoiser.alpha_, denoiser.modular_, denoiser.predict_proba(noisy)))
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@long
@pytest.mark.parametrize("learner", LEARNERS)
def test_threads_change_no_learner(learner):
    noisy, clean = make_pairs(5, rate=0.15)
    one, two = (
        quick(noise=0.15, learner=learner, max_iter=6, n_jobs=n_jobs).fit(noisy, clean)
        for n_jobs in (1, 2)
    )
    assert one.parameters_.alpha.tobytes() == two.parameters_.alpha.tobytes()
    assert repr(one.history_) == repr(two.history_)
    np.testing.assert_array_equal(one.predict_proba(noisy), two.predict_proba(noisy))
    np.testing.assert_array_equal(
        one.sample_posterior(noisy[:2], 2, 0), two.sample_posterior(noisy[:2], 2, 0)
    )


@pytest.mark.parametrize("context", [0, 1])
@pytest.mark.parametrize("learner", ["logistic", "moments"])
def test_a_fit_goes_on_from_its_checkpoint(learner, context, tmp_path):
    noisy, clean = make_pairs(6)
    path = tmp_path / "fit"

    def make(**params):
        return quick(noise=0.1, learner=learner, context=context, max_iter=70, **params)

    lines = []

    def stop(line):
        lines.append(line)
        if len(lines) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(options={"checkpoint": path}, callback=stop, n_jobs=2).fit(noisy, clean)
    assert 0 < lines[-1].step < 70
    resumed = make(options={"checkpoint": path}).fit(noisy, clean)
    whole = make().fit(noisy, clean)
    assert repr(resumed.history_) == repr(whole.history_)
    for name in ("alpha", "modular", "beta"):
        found, expected = (getattr(d.parameters_, name) for d in (resumed, whole))
        assert found.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(resumed.predict_proba(noisy), whole.predict_proba(noisy))
    with pytest.raises(ValueError, match="written with other data"):
        make(options={"checkpoint": path}, random_state=1).fit(noisy, clean)


def test_fits_that_stop_early_warn_and_say_so(pairs):
    noisy, clean = pairs
    denoiser = quick(noise=0.1, max_iter=2)
    with pytest.warns(ls.ConvergenceWarning, match="2 steps"):
        denoiser.fit(noisy, clean)
    assert not denoiser.converged_ and denoiser.n_iter_ == 2


def test_without_a_seed_a_fitted_estimator_decodes_the_same_twice(pairs):
    noisy, clean = pairs
    denoiser = quick(noise=0.1, random_state=None).fit(noisy[:4], clean[:4])
    np.testing.assert_array_equal(denoiser.predict_proba(noisy), denoiser.predict_proba(noisy))


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"]
)
def test_generators_are_seeds_too(pairs, make):
    noisy, clean = pairs
    first, second = (quick(noise=0.1, random_state=make(5)).fit(noisy[:4], clean[:4]) for _ in "ab")
    np.testing.assert_array_equal(first.predict_proba(noisy), second.predict_proba(noisy))


@pytest.mark.parametrize("marginals", ["exact", "logistic"])
def test_decoding_in_pieces_changes_nothing(marginals, pairs, monkeypatch):
    from logsuper.estimators import _images

    noisy, _ = pairs
    fitted = quick(noise=0.1, marginals=marginals).fit(*pairs)
    whole = fitted.predict_proba(noisy)
    monkeypatch.setattr(_images, "_PIECE", 700)
    np.testing.assert_allclose(fitted.predict_proba(noisy), whole, rtol=1e-12)


def test_callback_sees_the_history(pairs):
    noisy, clean = pairs
    lines = []
    denoiser = quick(noise=0.1, callback=lines.append).fit(noisy[:4], clean[:4])
    assert lines and all(isinstance(line, Record) for line in lines)
    assert lines[-1] in denoiser.history_

    def stop(line):
        raise KeyboardInterrupt

    before = denoiser.predict(noisy)
    denoiser.set_params(callback=stop, modular="none", context=1)
    with pytest.raises(KeyboardInterrupt):
        denoiser.fit(noisy[:4], clean[:4])
    np.testing.assert_array_equal(denoiser.predict(noisy), before)  # the fit before still stands


# ------------------------------------------------------------------------------------------- noise


def test_noise_is_counted_against_labels(pairs):
    noisy, clean = pairs
    kwargs = {"modular": "none"}
    wrong = int((noisy != clean).sum())
    denoiser = quick(**kwargs).fit(noisy, clean)
    assert denoiser.noise_ == pytest.approx((wrong + 0.5) / (noisy.size + 1))
    on, off = quick("asymmetric", **kwargs).fit(noisy, clean).noise_
    zeros = clean == 0
    assert on == pytest.approx((noisy[zeros].sum() + 0.5) / (zeros.sum() + 1))
    assert off == pytest.approx(((1 - noisy[~zeros]).sum() + 0.5) / ((~zeros).sum() + 1))


def test_a_rate_for_each_pixel(pairs):
    _, clean = pairs
    rate = np.full(SHAPE, 0.02)
    rate[:, 8:] = 0.3
    noisy = ls.Flips(rate).sample(clean, seed=0)
    denoiser = quick(noise=rate, modular="shared").fit(noisy, clean)
    np.testing.assert_array_equal(denoiser.noise_, rate)
    plain = quick(modular="shared").fit(noisy, clean)
    assert denoiser.score(noisy, clean) > plain.score(noisy, clean)


@long
@pytest.mark.parametrize(
    ("start", "truth"),
    [
        (ls.Flips(0.3), ls.Flips(0.1)),
        (
            ls.Flips([0.3, 0.3], np.indices(SHAPE)[1] // 8),
            ls.Flips([0.05, 0.2], np.indices(SHAPE)[1] // 8),
        ),
        (ls.AsymmetricFlips(0.2, 0.2), ls.AsymmetricFlips(0.05, 0.2)),
        (ls.Gaussian((40.0, 140.0), 40.0), ls.Gaussian((60.0, 120.0), 20.0)),
    ],
    ids=["scalar", "grouped", "asymmetric", "grey"],
)
def test_noise_is_learned_with_the_model(start, truth, pairs):
    noisy = truth.sample(pairs[1], seed=5)
    options = {"noise": "learned", "engine": "exact", "window": 4}
    denoiser = quick(start, "latent", modular="shared", options=options, max_iter=8).fit(noisy)
    assert type(denoiser.channel_) is type(truth)
    given, found, expected = (
        np.ravel(noise_of(channel)) for channel in (start, denoiser.channel_, truth)
    )
    # silhouettes are smoother than any such model, which then takes some noise for signal
    assert np.linalg.norm(found - expected) < 0.5 * np.linalg.norm(given - expected)


# ------------------------------------------------------------------------------------------ input


@given(
    dtype=st.sampled_from([bool, np.uint8, np.int64, np.float32, np.float64]),
    count=st.integers(1, 4),
    shape=st.sampled_from([(1, 1), (1, 7), (5, 1), (3, 4), (2, 3, 2), (1, 1, 1)]),
    as_list=st.booleans(),
    labelled=st.booleans(),
)
def test_shapes_and_dtypes(dtype, count, shape, as_list, labelled):
    rng = np.random.default_rng(count)
    clean = rng.integers(0, 2, (count, *shape))
    noisy = ls.Flips(0.1).sample(clean, seed=0).astype(dtype)
    if as_list:
        clean, noisy = list(clean.astype(dtype)), list(noisy)
    denoiser = quick(noise=0.1, samples=10, max_iter=5, context="auto")
    denoiser.fit(noisy, clean if labelled else None)
    proba, masks = denoiser.predict_proba(noisy), denoiser.predict(noisy)
    assert isinstance(proba, list) == isinstance(masks, list) == as_list
    assert np.shape(proba) == np.shape(masks) == (count, *shape)
    assert np.isfinite(proba).all()


ONE = np.zeros((1, 4, 4))
HOLES = np.stack([np.zeros((4, 4)), np.full((4, 4), np.nan)])
WRONG = {
    "one image": ({}, np.zeros((4, 4)), None, ValueError, r"noisy\[None\]"),
    "one axis": ({}, np.zeros(4), None, ValueError, "noisy must be a stack"),
    "five axes": ({}, np.zeros((1,) * 5), None, ValueError, "noisy must be a stack"),
    "no image": ({}, np.zeros((0, 4, 4)), None, ValueError, "noisy is empty"),
    "empty list": ({}, [], None, ValueError, "noisy is empty"),
    "no pixel": ({}, np.zeros((2, 0, 4)), None, ValueError, r"noisy\[0\].*without a single pixel"),
    "rows": ({}, [[0, 1], [1, 0]], None, ValueError, r"noisy\[0\] has shape \(2,\)"),
    "None": ({}, None, None, TypeError, "noisy must be an array"),
    "text": ({}, [[["a"]]], None, TypeError, r"noisy\[0\] must hold real numbers"),
    "complex": ({}, ONE + 1j, None, TypeError, r"noisy\[0\] must hold real numbers"),
    "infinite": ({}, ONE + np.inf, None, ValueError, r"noisy\[0\]\[0, 0\] = inf is infinite"),
    "too large": ({}, ONE + 1e200, None, ValueError, r"so large that its square is"),
    "mixed": ({}, [ONE[0], ONE], None, ValueError, r"noisy\[1\] has 3 axes"),
    "0 and 255": ({}, [[[0, 255]]], None, ValueError, r"two levels 0 and 255.*noisy > 127.5"),
    "grey flips": ({"noise": 0.1}, ONE + 7, None, ValueError, r"noisy\[0\]\[0, 0\] = 7.*0 nor 1"),
    "fewer labels": ({}, ONE, np.zeros((2, 4, 4)), ValueError, "noisy has 1 images, clean 2"),
    "label shape": ({}, ONE, np.zeros((1, 4, 5)), ValueError, r"clean\[0\] has \(4, 5\)"),
    "grey labels": ({}, ONE, ONE + 0.5, ValueError, r"clean\[0\]\[0, 0\] = 0.5 is neither"),
    "no labels": ({}, ONE, ONE * np.nan, ValueError, "clean has no label at all"),
    "all missing": ({}, ONE * np.nan, ONE, ValueError, "noisy has no observed pixel"),
    "no overlap": ({}, HOLES, HOLES[::-1], ValueError, "clean has no label on a pixel"),
    "noise 0": ({"noise": 0}, ONE, ONE, ValueError, "noise = 0 leaves no doubt"),
    "noise 0.": ({"noise": ls.Flips(0.0)}, ONE, ONE, ValueError, "noise = 0 leaves no doubt"),
    "noise .5": ({"noise": 0.5}, ONE, ONE, ValueError, r"noise = 0.5.*says nothing"),
    "noise .7": ({"noise": ls.Flips(0.7)}, ONE, ONE, ValueError, "invert the images"),
    "noise 2": ({"noise": 2}, ONE, ONE, ValueError, r"noise must be a rate in \(0, .5\)"),
    "noise nan": ({"noise": np.nan}, ONE, ONE, ValueError, r"noise must be a rate in \(0, .5\)"),
    "noise bool": ({"noise": True}, ONE, ONE, TypeError, "noise must be a rate"),
    "noise word": ({"noise": "salt"}, ONE, ONE, ValueError, "noise must be one of auto, flips"),
    "noise entry": (
        {"noise": np.full((4, 4), 0.5)},
        ONE,
        ONE,
        ValueError,
        r"noise\[0, 0\] = 0.5",
    ),
    "noise shape": (
        {"noise": np.full((3, 4), 0.1)},
        ONE,
        ONE,
        ValueError,
        r"noise has rate of shape \(3, 4\)",
    ),
    "noise inside": (
        {"noise": ls.Missing(0.1)},
        ONE,
        ONE,
        ValueError,
        "noise = 0 leaves no doubt",
    ),
    "noise asymmetric": (
        {"noise": ls.AsymmetricFlips(0.5, 0.6)},
        ONE,
        ONE,
        ValueError,
        r"on \+ off >= 1",
    ),
    "noise gaussian": (
        {"noise": ls.Gaussian((1.0, 1.0))},
        ONE,
        ONE,
        ValueError,
        "noise = .* says nothing",
    ),
    "noise found": ({}, 1 - ONE, ONE, ValueError, "invert the images"),
    "no ones": ({"noise": "asymmetric"}, ONE, ONE, ValueError, "clean has no ones"),
    "learner": ({"learner": "magic"}, ONE, ONE, ValueError, "learner must be one of auto"),
    "learner type": ({"learner": None}, ONE, ONE, ValueError, "learner must be one of auto"),
    "needs labels": ({"learner": "exact"}, ONE, None, ValueError, "'exact' needs clean images"),
    "modular": ({"modular": "all"}, ONE, ONE, ValueError, "modular must be one of auto, pixel"),
    "pixel": (
        {"modular": "pixel"},
        [np.zeros((2, 3)), np.zeros((3, 2))],
        None,
        ValueError,
        "modular='pixel' needs images of one shape",
    ),
    "neighbors": ({"neighbors": 5}, ONE, ONE, ValueError, "neighbors must be one of 4, 8"),
    "neighbors 3-D": ({"neighbors": 4}, ONE[None], ONE[None], ValueError, "one of 6, 18, 26"),
    "neighbors bool": ({"neighbors": True}, ONE, ONE, TypeError, "neighbors must be an integer"),
    "neighbors type": ({"neighbors": 4.0}, ONE, ONE, TypeError, "neighbors must be a list"),
    "one function": (
        {"neighbors": ls.Modular(np.zeros(16))},
        ONE,
        ONE,
        TypeError,
        r"neighbors.*write \[f\]",
    ),
    "no function": ({"neighbors": []}, ONE, ONE, ValueError, "neighbors is empty"),
    "not a function": ({"neighbors": [3]}, ONE, ONE, TypeError, r"neighbors\[0\] is a int"),
    "function size": (
        {"neighbors": [ls.Modular(np.zeros(3))]},
        ONE,
        ONE,
        ValueError,
        r"neighbors\[0\] has n = 3, but there are 16",
    ),
    "context": ({"context": -1}, ONE, ONE, ValueError, "context must be at least 1"),
    "context type": ({"context": 1.5}, ONE, ONE, TypeError, "context must be an integer"),
    "context word": ({"context": "big"}, ONE, ONE, ValueError, "context must be an integer"),
    "context of latent": (
        {"context": 1, "learner": "latent", "noise": 0.1},
        ONE,
        None,
        ValueError,
        "use context=0",
    ),
    "scale": ({"scale": 1}, ONE, ONE, TypeError, "scale must be True or False"),
    "decode": ({"decode": "best"}, ONE, ONE, ValueError, "decode must be one of auto, mean, map"),
    "marginals": ({"marginals": 1}, ONE, ONE, ValueError, "marginals must be one of auto"),
    "samples": ({"samples": 0}, ONE, ONE, ValueError, "samples must be at least 1"),
    "samples type": ({"samples": 1.5}, ONE, ONE, TypeError, "samples must be an integer"),
    "penalty": ({"penalty": -1.0}, ONE, ONE, ValueError, "penalty of alpha = -1 must be at least"),
    "penalty type": ({"penalty": "big"}, ONE, ONE, TypeError, "penalty must be a real number"),
    "penalty key": ({"penalty": {"t": 1.0}}, ONE, ONE, ValueError, "penalty has the key 't'"),
    "penalty nan": (
        {"penalty": {"alpha": np.nan}},
        ONE,
        ONE,
        ValueError,
        r"penalty\['alpha'\] must be finite",
    ),
    "tol": ({"tol": 0.0}, ONE, ONE, ValueError, "tol must be positive"),
    "max_iter": ({"max_iter": 0}, ONE, ONE, ValueError, "max_iter must be at least 1"),
    "options": ({"options": [1]}, ONE, ONE, TypeError, "options must be a mapping"),
    "options twice": ({"options": {"seed": 1}}, ONE, ONE, ValueError, "options has the key 'seed'"),
    "checkpoint without a seed": (
        {"options": {"checkpoint": "a"}, "random_state": None},
        ONE,
        ONE,
        ValueError,
        "needs an integer as random_state",
    ),
    "options key": ({"options": {"magic": 1}}, ONE, ONE, TypeError, "magic"),
    "seed": ({"random_state": -1}, ONE, ONE, ValueError, "at least 0"),
    "seed type": ({"random_state": "a"}, ONE, ONE, TypeError, "seed must be an integer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error(case):
    params, noisy, clean, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        ls.MaskDenoiser(**params).fit(noisy, clean)


def test_errors_after_the_fit(pairs, fitted):
    noisy, clean = pairs
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "predict_proba", "sample_posterior"):
        with pytest.raises(NotFittedError):
            getattr(ls.MaskDenoiser(), method)(noisy)
    with pytest.raises(ValueError, match=r"noisy\[0\] has shape \(4, 4\).*modular='shared'"):
        fitted.predict(ONE)
    with pytest.raises(ValueError, match=r"noisy\[0\] has 3 axes"):
        fitted.predict(noisy[None])
    with pytest.raises(ValueError, match="is neither 0 nor 1"):
        fitted.predict(255 * noisy)
    with pytest.raises(ValueError, match="clean is missing"):
        fitted.score(noisy, None)
    with pytest.raises(ValueError, match="noisy has 24 images, clean 3"):
        fitted.score(noisy, clean[:3])
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        fitted.sample_posterior(noisy, 0)


def test_an_image_is_decoded_alike_in_any_company(pairs):
    noisy, clean = pairs
    denoiser = quick(0.1).fit(noisy[:8], clean[:8])
    whole = denoiser.predict_proba(noisy[:6])
    np.testing.assert_array_equal(denoiser.predict_proba(noisy[:6][::-1])[::-1], whole)
    np.testing.assert_array_equal(denoiser.predict_proba(noisy[4:5]), whole[4:5])
    mixed = denoiser.predict_proba([noisy[0][:10], noisy[4]])
    np.testing.assert_array_equal(mixed[1], whole[4])


@pytest.mark.parametrize("factor, offset", [(1.0, 0.0), (1e-150, 0.0), (1e130, 0.0), (1.0, 1e11)])
@pytest.mark.parametrize("supervised", [True, False])
def test_grey_levels_have_no_scale_and_no_origin(factor, offset, supervised):
    clean = ls.make_silhouettes(6, shape=SHAPE, seed=0)
    grey = ls.Gaussian((50.0, 200.0), 40.0).sample(clean, seed=1)
    labels = clean if supervised else None
    plain = quick().fit(grey, labels)
    other = quick().fit(factor * grey + offset, labels)
    np.testing.assert_allclose(np.array(other.noise_) / factor, plain.noise_, rtol=1e-5)
    np.testing.assert_allclose(other.alpha_, plain.alpha_, rtol=0.05)


@pytest.mark.parametrize("scale", [40.0, 80.0])
def test_bytes_that_are_cut_off_need_no_labels(scale):
    clean = ls.make_silhouettes(20, shape=(24, 24), seed=0)
    grey = ls.Gaussian((50.0, 200.0), scale).sample(clean, seed=1)
    grey = np.clip(np.round(grey), 0, 255).astype(np.uint8)
    denoiser = ls.MaskDenoiser(max_iter=1000).fit(grey)
    before = np.mean((grey > 125) != clean)
    assert 1.0 - denoiser.score(grey, clean) < 0.4 * before
    assert max(*denoiser.alpha_, denoiser.scale_) < 50.0
