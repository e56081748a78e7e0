"""Where `MaskDenoiser` has boosted trees without being asked."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import logsuper as ls
from logsuper.estimators import _blind_spot, _design
from logsuper.estimators._images import read_images
from logsuper.estimators._select import Selector

SHAPE = (16, 18)
CLEAN = ls.make_silhouettes(20, shape=SHAPE, seed=0)
FLIPS = ls.Flips(0.1)
NOISY = FLIPS.sample(CLEAN, seed=1)
FEW = HistGradientBoostingClassifier(max_iter=5, early_stopping=False, random_state=0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Let small images be enough, and trees be few."""
    monkeypatch.setattr(_design, "_KNOWN", NOISY.size)
    monkeypatch.setattr(_blind_spot, "trees", lambda seed: FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pays(noisy=NOISY, clean=None, channel=FLIPS, windows=False, **settings):
    images = read_images(noisy, "noisy")
    labels = None if clean is None else read_images(clean, "clean")
    estimator = ls.MaskDenoiser(**settings)
    learner = estimator._choose_learner(images, labels)
    found = _design.choose_trees(estimator, learner, channel, images, labels, windows)
    return found == (True, False)


@pytest.mark.parametrize(
    "channel", [FLIPS, ls.AsymmetricFlips(0.1, 0.2), ls.Missing(0.1, FLIPS)], ids=repr
)
def test_many_small_masks_may_have_trees(channel):
    assert pays(channel=channel) and pays(clean=CLEAN, channel=channel)
    assert pays(neighbors=8, modular="shared", cost=(1.0, 2.0), decode="map", tol=0.1, max_iter=5)
    assert pays(penalty="select", temperature="select")
    assert pays(clean=CLEAN, learner="logistic")  # which is what "auto" is


@pytest.mark.parametrize(
    "settings",
    [
        {"context": "filter"},
        {"context": 2},
        {"context": FEW},
        {"learner": "resample"},
        {"penalty": 0.0},
        {"penalty": {"alpha": 0.01}},
        {"options": {"rounds": 2}},
        {"neighbors": "position"},
        {"neighbors": list(ls.grid_cuts(SHAPE))},
        {"neighbors": ls.grid_cuts},
        {"channel": ls.Flips(np.full(SHAPE, 0.1))},
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
    assert not pays(some)
    monkeypatch.setattr(_design, "_KNOWN", 1)
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
def test_each_half_judges_what_the_other_half_taught(labelled, monkeypatch):
    taught, judged = [], []
    learn, score = Selector.learn, Selector._score

    def images(examples):
        (group,) = examples.groups
        rows = np.arange(group.count)
        found = group.labels[rows] if labelled else group.images(rows)
        return {np.asarray(one, dtype=float).tobytes() for one in found}

    def look(self, examples, *others):
        taught.append(images(examples))
        return learn(self, examples, *others)

    def watch(self, unseen, learned):
        judged.append(images(unseen))
        return score(self, unseen, learned)

    monkeypatch.setattr(Selector, "learn", look)
    monkeypatch.setattr(Selector, "_score", watch)
    ls.MaskDenoiser(n_samples=10).fit(NOISY, CLEAN if labelled else None)
    assert len(taught) == 5 and len(judged) == 4  # two ways, two halves; and all, in the end
    for own, others in zip(taught, judged, strict=False):
        assert len(own) == len(others) == 10 and not own & others
    assert judged[0] | judged[1] == judged[2] | judged[3] == taught[-1]


def test_the_filter_alone_has_the_radius_of_the_default():
    alone = ls.MaskDenoiser(context="filter", n_samples=10).fit(NOISY[:10])
    default = ls.MaskDenoiser(n_samples=10).fit(NOISY[:10])
    assert alone.surroundings_ is None
    np.testing.assert_array_equal(alone.filter_, default.filter_)
