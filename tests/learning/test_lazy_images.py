"""Images that are read again for each batch: the same bits as with all of them in memory."""

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

import logsuper as ls
from logsuper.learning import LEARNERS, _lazy_images, best_factor, estimate_noise, make_examples
from logsuper.learning._examples import LazyRows
from logsuper.learning._lazy_images import LazyImages, StoredRows

SHAPE = (16, 18)

pytestmark = pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")


class Shelf(Sequence):
    """A lazy sequence, which counts what is read."""

    def __init__(self, images):
        self.images, self.reads = list(images), 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        self.reads += 1
        return self.images[i]


@pytest.fixture
def nothing_kept(monkeypatch):
    monkeypatch.setattr(_lazy_images, "KEPT", 0)


@pytest.fixture(scope="module")
def images():
    clean = ls.make_silhouettes(24, shape=SHAPE, seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    noisy[3, 2:5, 4] = np.nan
    return noisy, clean.astype(np.uint8)


def examples(noisy, clean, **options):
    options = {"modular": "shared", "context": 1, "scale": True, **options}
    return make_examples(
        lambda shape: ls.grid_cuts(shape),
        labels=clean,
        observed=noisy,
        channel=ls.Flips(0.1),
        **options,
    )


FAST = {"latent": 3, "lfield": 5, "saa": 10, "exact": 2, "max_margin": 20}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_find_the_same_bits(name, images, nothing_kept, monkeypatch):
    # pieces of a few images, so that every pass has several
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 5 * 16 * 18)
    monkeypatch.setattr("logsuper.learning._examples._KEPT", 100)
    noisy, clean = images
    noisy = np.nan_to_num(noisy)
    learner = LEARNERS[name]
    given = clean if learner.labels else None
    shapes = {"context": 0, "scale": False} if learner.latent else {}
    found = []
    for wrap in (list, Shelf):
        data = examples(wrap(noisy), None if given is None else wrap(given), **shapes)
        assert isinstance(data.groups[0].observed, LazyRows) == (wrap is Shelf)
        penalty = learner.penalty(data.layout, data.count)
        found.append(learner.learn(data, penalty, seed=0, max_iter=FAST.get(name, 40)).theta)
    np.testing.assert_array_equal(*found)


def test_estimator_finds_the_same_bits(images, nothing_kept):
    noisy, clean = images
    for labels in (None, clean):
        options = {"max_iter": 60, "tol": 0.05, "penalty": "select"}
        memory = ls.MaskDenoiser(**options).fit(noisy, labels)
        shelf = Shelf(noisy)
        lazy = ls.MaskDenoiser(**options).fit(shelf, None if labels is None else Shelf(labels))
        np.testing.assert_array_equal(memory.parameters_.alpha, lazy.parameters_.alpha)
        np.testing.assert_array_equal(memory.filter_, lazy.filter_)
        assert memory.noise_ == lazy.noise_ and memory.selection_ == lazy.selection_
        assert shelf.reads > len(noisy)
    masks = lazy.predict(Shelf(noisy))
    assert isinstance(masks, list)
    np.testing.assert_array_equal(masks, memory.predict(noisy))


@pytest.mark.parametrize("kind", ["flips", "asymmetric", "gaussian"])
def test_windows_and_noise_of_large_images(kind, nothing_kept):
    clean = ls.make_silhouettes(3, shape=(100, 140), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    if kind == "gaussian":
        noisy = clean + np.random.default_rng(0).normal(0, 0.4, clean.shape)
    assert repr(estimate_noise(Shelf(noisy), kind=kind)) == repr(estimate_noise(noisy, kind=kind))
    given = [noisy, Shelf(noisy)]
    found = [ls.MaskDenoiser(kind, max_iter=30, tol=0.1).fit(z).parameters_ for z in given]
    np.testing.assert_array_equal(found[0].alpha, found[1].alpha)


def test_few_images_stay_in_memory(images):
    shelf = Shelf(images[0])
    ls.MaskDenoiser(0.1, max_iter=30, tol=0.1).fit(shelf)
    assert shelf.reads == len(shelf)


def test_stacks_on_disk(tmp_path, images, nothing_kept):
    noisy, clean = images
    for name, array in (("z", noisy), ("x", clean)):
        np.save(tmp_path / f"{name}.npy", array)
    z, x = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "zx")
    right = ls.MaskDenoiser(max_iter=30, tol=0.1).fit(noisy, clean)
    found = ls.MaskDenoiser(max_iter=30, tol=0.1).fit(z, x)
    np.testing.assert_array_equal(found.alpha_, right.alpha_)
    assert isinstance(found.predict(z), np.ndarray)
    zarr = pytest.importorskip("zarr")
    stack = zarr.create_array(str(tmp_path / "z.zarr"), shape=noisy.shape, dtype="f8")
    stack[...] = noisy
    found = ls.MaskDenoiser(max_iter=30, tol=0.1).fit(stack, x)
    np.testing.assert_array_equal(found.alpha_, right.alpha_)


def test_factor_of_modes(images, nothing_kept, monkeypatch):
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 5 * 16 * 18)
    noisy, clean = images
    data = [examples(wrap(noisy), wrap(clean)) for wrap in (list, Shelf)]
    theta = data[0].layout.fill(alpha=3.0)
    few = [0.05, 0.2, 1.0]
    assert best_factor(data[0], theta, few) == best_factor(data[1], theta, few) < 1.0


def test_an_image_that_changes_or_vanishes(images, nothing_kept):
    shelf = Shelf(np.nan_to_num(images[0]))
    data = examples(shelf, None)
    shelf.images[2] = 1.0 - shelf.images[2]
    with pytest.raises(OSError, match=r"observed\[2\] has changed since it was first read"):
        data.groups[0].observed[np.array([1, 2])]
    del shelf.images[5:]
    with pytest.raises(OSError, match=r"observed\[7\] could be read at first, but not again"):
        data.groups[0].observed[np.array([7])]


def test_bad_images_are_refused_before_any_work(nothing_kept):
    bad = [np.zeros((4, 5)), np.full((4, 5), 2.0)]
    with pytest.raises(ValueError, match=r"labels\[1\]\[0, 0\] = 2.0 is neither 0 nor 1"):
        make_examples(ls.grid_cuts((4, 5)), labels=Shelf(bad))
    bad[1] = np.full((4, 5), np.inf)
    with pytest.raises(ValueError, match=r"observed\[1\] has an infinite entry"):
        make_examples(ls.grid_cuts((4, 5)), observed=Shelf(bad), channel=ls.Gaussian((0, 1), 1.0))
    with pytest.raises(ValueError, match=r"noisy\[1\] has shape"):
        ls.MaskDenoiser(0.1).fit(Shelf([bad[0], np.zeros(3)]))


def test_lazy_images_travel_without_what_they_keep(images):
    lazy = LazyImages(Shelf(images[1]), "z", lambda image, name: image)
    lazy._read = np.asarray_chkfinite
    assert lazy.complete and len(pickle.dumps(lazy)) < 2 * pickle.dumps(images[1]).__len__()


def test_rows_in_a_file():
    rows = LazyRows(StoredRows(7, 5, np.float64), np.arange(7))
    right = np.random.default_rng(0).normal(size=(7, 5))
    for part in (np.array([6, 0]), np.arange(1, 6)):
        rows[part] = right[part]
    np.testing.assert_array_equal(list(rows), right)
    np.testing.assert_array_equal(rows.take(np.array([3, 1]), 0)[np.array([1])], right[[1]])
    np.testing.assert_array_equal(rows.take(np.array([3, 1]), 10), right[[3, 1]])
