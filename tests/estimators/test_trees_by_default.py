"""Where `MaskDenoiser` has boosted trees without being asked."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier

import logsuper as ls
from logsuper.estimators import _blind_spot, _design
from logsuper.estimators._images import read_images

SHAPE = (16, 18)
CLEAN = ls.make_silhouettes(20, shape=SHAPE, seed=0)
FLIPS = ls.Flips(0.1)
NOISY = FLIPS.sample(CLEAN, seed=1)
FEW = HistGradientBoostingClassifier(max_iter=5, early_stopping=False, random_state=0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Let small images be enough, and trees be few."""
    monkeypatch.setattr(_design, "_FOREST", NOISY.size)
    monkeypatch.setattr(_blind_spot, "trees", lambda seed: FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pays(noisy=NOISY, clean=None, channel=FLIPS, windows=False, **settings):
    images = read_images(noisy, "noisy")
    labels = None if clean is None else read_images(clean, "clean")
    return _design.trees_pay(ls.MaskDenoiser(**settings), channel, images, labels, windows)


@pytest.mark.parametrize("channel", [FLIPS, ls.AsymmetricFlips(0.1, 0.2)])
def test_many_small_masks_have_trees(channel):
    assert pays(channel=channel) and pays(clean=CLEAN, channel=channel)
    assert pays(neighbors=8, penalty=0.1, modular="shared", cost=(1.0, 2.0), decode="map")


@pytest.mark.parametrize(
    "settings",
    [
        {"context": "filter"},
        {"context": 2},
        {"context": FEW},
        {"learner": "resample"},
        {"max_iter": 5},
        {"tol": 0.1},
        {"options": {"rounds": 2}},
        {"neighbors": "position"},
        {"neighbors": list(ls.grid_cuts(SHAPE))},
        {"neighbors": ls.grid_cuts},
        {"channel": ls.Flips(np.full(SHAPE, 0.1))},
        {"channel": ls.Missing(0.1, FLIPS)},
        {"channel": ls.Gaussian((0.0, 1.0), 0.5)},
        {"windows": True},
    ],
)
def test_where_something_else_is_set_up_there_are_none(settings):
    assert not pays(**settings)


def test_few_pixels_labels_or_images_and_volumes_have_none(monkeypatch):
    assert not pays(NOISY[:, :-1])
    some = CLEAN.astype(float)
    some[0, 0, 0] = np.nan
    assert not pays(clean=some)
    monkeypatch.setattr(_design, "_FOREST", 1)
    assert pays(clean=some)
    assert not pays(NOISY[:19])
    assert not pays(NOISY.reshape(-1, 4, *SHAPE))


@pytest.mark.parametrize("labelled", [False, True])
def test_what_predicts_better_is_kept(labelled):
    clean = CLEAN if labelled else None
    ways = {
        word: ls.MaskDenoiser(context=word, n_samples=10).fit(NOISY, clean)
        for word in ("trees", "filter")
    }
    found = ls.MaskDenoiser(n_samples=10).fit(NOISY, clean)
    rows = {row["trees"]: row for row in found.selection_}
    assert rows.keys() == {True, False} and rows[True]["score"] != rows[False]["score"]
    trees = rows[True]["score"] > rows[False]["score"]
    best = ways["trees" if trees else "filter"]
    assert rows[trees]["behind"] == 0.0 < rows[not trees]["behind"]
    assert (found.trust_ > 0.0) == trees == (found.surroundings_ is not None)
    assert found.learner_ == best.learner_
    np.testing.assert_array_equal(best.predict_proba(NOISY), found.predict_proba(NOISY))


@pytest.mark.parametrize("labelled", [False, True])
def test_a_classifier_that_knows_nothing_is_dropped(labelled, monkeypatch):
    monkeypatch.setattr(_blind_spot, "trees", lambda seed: DummyClassifier(strategy="prior"))
    found = ls.MaskDenoiser(n_samples=10).fit(NOISY, CLEAN if labelled else None)
    rows = {row["trees"]: row["score"] for row in found.selection_}
    assert rows[True] <= rows[False] + 1e-3
    if rows[True] < rows[False]:
        assert found.surroundings_ is None and found.trust_ == 0.0


def test_the_filter_alone_has_the_radius_of_the_default():
    alone = ls.MaskDenoiser(context="filter", n_samples=10).fit(NOISY[:10])
    default = ls.MaskDenoiser(n_samples=10).fit(NOISY[:10])
    assert alone.surroundings_ is None
    np.testing.assert_array_equal(alone.filter_, default.filter_)
