"""Windows of large images: they cover, are of one shape, and are enough to learn from."""

import numpy as np
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper.estimators import _crops
from logsuper.estimators._crops import crop, is_large


def test_small_images_stay_whole():
    assert not is_large([np.zeros((96, 50))] * 100)
    assert is_large([np.zeros((97, 50))])
    assert not is_large([np.zeros((90, 90))] * 600)
    assert not is_large([np.zeros((20, 24, 10))])
    assert is_large([np.zeros((20, 25, 10))])


@pytest.mark.parametrize("shape", [(130, 64), (97, 300), (10, 200), (20, 17, 40)])
def test_windows_cover_an_image(shape):
    image = np.arange(np.prod(shape)).reshape(shape)
    parts, none, places = crop([image], None, key=0)
    assert none is None and len({part.shape for part in parts}) == 1
    assert set(np.concatenate([part.ravel() for part in parts])) == set(image.ravel())
    for part, place in zip(parts, places, strict=True):
        window = tuple(map(slice, place.origin, np.add(place.origin, part.shape)))
        np.testing.assert_array_equal(part, image[window])
        assert place.image == 0 and place.shape == shape


def test_labels_go_with_their_pixels():
    rng = np.random.default_rng(0)
    images = [rng.random((150, 200)), rng.random((300, 70))]
    parts, labels, places = crop(images, [2 * image for image in images], key=1)
    for part, label in zip(parts, labels, strict=True):
        np.testing.assert_array_equal(label, 2 * part)
    assert {place.image for place in places} == {0, 1}


def test_of_many_windows_some_are_drawn():
    image = np.zeros((2000, 3000), dtype=np.uint8)
    parts, *_ = crop([image], None, key=3)
    assert sum(part.size for part in parts) <= _crops.PIXELS
    again, *_ = crop([image], None, key=3)
    assert len(parts) == len(again)


def test_windows_without_a_label_are_left_out():
    image, label = np.zeros((128, 128)), np.full((128, 128), np.nan)
    label[100, 3] = 1.0
    parts, labels, _ = crop([image], [label], key=0)
    assert len(parts) == 1 and np.nansum(labels[0]) == 1.0


@pytest.mark.parametrize(
    ("options", "term"),
    [
        ({}, "shared"),
        ({"modular": "pixel"}, "pixel"),
        ({"noise": np.full((100, 24), 0.1)}, "pixel"),
        ({"noise": ls.Flips(0.1)}, "shared"),
        ({"neighbors": 8}, "shared"),
    ],
)
@pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")
def test_what_is_given_for_each_pixel_keeps_images_whole(options, term):
    x = ls.make_silhouettes(20, shape=(100, 24), seed=0)
    z = ls.Flips(0.1).sample(x, seed=1)
    model = ls.MaskDenoiser(context=0, tol=0.1, max_iter=40, **options)
    model.fit(z, x)
    assert (np.ndim(model.modular_) == 2) == (term == "pixel")
    assert model.shape_ == (100, 24)


@long
def test_a_folder_of_all_sizes():
    """Ragged and large, without labels: as good as with them, calibrated, weights small."""
    rng = np.random.default_rng(0)
    sizes = [(40, 60), (100, 130), (190, 80), (64, 64), (170, 150)]
    clean = [ls.make_silhouettes(2, shape=size, seed=k) for k, size in enumerate(sizes)]
    train, test = ([pair[k] for pair in clean] for k in (0, 1))
    noisy, unseen = ([ls.Flips(0.1).sample(x, rng) for x in part] for part in (train, test))
    free = ls.MaskDenoiser(n_jobs=2).fit(noisy)
    taught = ls.MaskDenoiser(n_jobs=2).fit(noisy, train)
    assert free.learner_ == "resample" and free.converged_
    assert free.alpha_.max() < 10 and free.scale_ < 5
    wrong, best = (1 - model.score(unseen, test) for model in (free, taught))
    assert wrong <= 1.2 * best
    p = free.predict_proba(unseen)
    expected = sum(np.minimum(q, 1 - q).sum() for q in p) / sum(q.size for q in p)
    assert expected == pytest.approx(wrong, rel=0.35)
