"""`MaskDenoiser` takes images of any shape and type, and refuses what it cannot use."""

import numpy as np
import pytest
from denoisers import quick
from hypothesis import given
from hypothesis import strategies as st

import logsuper as ls

pytestmark = pytest.mark.usefixtures("stopped_early")


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
    denoiser = quick(noise=0.1, n_samples=10, max_iter=5, context="auto")
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
    "context": ({"context": -1}, ONE, ONE, ValueError, "context must be at least 0, got -1"),
    "callback": (
        {"callback": 3},
        [],
        None,
        TypeError,
        "callback must be callable or None, got int",
    ),
    "one level": (
        {},
        ONE + 255,
        None,
        ValueError,
        "noisy has the one level 255, which is neither 0 nor 1: .* give noise as a channel",
    ),
    "context type": ({"context": 1.5}, ONE, ONE, TypeError, "context must be an integer"),
    "context word": ({"context": "big"}, ONE, ONE, ValueError, "context must be an integer"),
    "context of latent": (
        {"context": 1, "learner": "latent", "noise": 0.1},
        ONE,
        None,
        ValueError,
        "use context=0",
    ),
    "scale": ({"scale": 1}, ONE, ONE, TypeError, "scale must be True, False or 'select'"),
    "decode": ({"decode": "best"}, ONE, ONE, ValueError, "decode must be one of auto, mean, map"),
    "marginals": ({"marginals": 1}, ONE, ONE, ValueError, "marginals must be one of auto"),
    "n_samples": ({"n_samples": 0}, ONE, ONE, ValueError, "n_samples must be at least 1"),
    "n_samples type": ({"n_samples": 1.5}, ONE, ONE, TypeError, "n_samples must be an integer"),
    "penalty": ({"penalty": -1.0}, ONE, ONE, ValueError, "penalty of alpha = -1 must be at least"),
    "penalty type": ({"penalty": "big"}, ONE, ONE, ValueError, "penalty must be a number, a dict"),
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
    with pytest.raises(ValueError, match="no observed pixel, so that there is no score"):
        fitted.score(np.full(noisy.shape, np.nan))
    with pytest.raises(ValueError, match="noisy has 24 images, clean 3"):
        fitted.score(noisy, clean[:3])
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        fitted.sample_posterior(noisy, 0)


def test_samples_across_a_wide_hole_name_arguments_that_exist():
    clean = ls.make_silhouettes(4, shape=(24, 24), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    model = ls.MaskDenoiser(0.1, modular="shared", tol=0.1).fit(noisy, clean)
    noisy[0, 2:22, 2:22] = np.nan
    with pytest.raises(ls.NotCoalesced, match=r"max_iter = 4: .* wide areas .* method='perturb'"):
        model.sample_posterior(noisy, random_state=0, max_iter=4)
    drawn = model.sample_posterior(noisy, 400, random_state=0, method="perturb").mean(axis=1)
    model.set_params(n_samples=400)
    assert np.abs(drawn - model.predict_proba(noisy)).max() < 0.15
