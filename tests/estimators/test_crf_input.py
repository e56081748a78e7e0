"""What MaskCRF takes: sizes, windows, volumes, graphs; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

import logsuper as ls
from logsuper.estimators import _crops, _field_examples, _unary, _working_size
from logsuper.learning import contrast_weights

QUICK = {"unary": "linear", "tol": 0.05}


def noisy(mask, seed=0, channels=1):
    noise = np.random.default_rng(seed).normal(scale=0.7, size=(*mask.shape, channels))
    return mask[..., None] + noise


def silhouettes(*shapes):
    return [ls.make_silhouettes(1, shape=shape, seed=k)[0] for k, shape in enumerate(shapes)]


def test_images_of_different_sizes_and_their_order():
    masks = silhouettes((16, 18), (20, 16), (16, 18), (17, 17), (20, 16))
    images = [noisy(mask, k, 3) for k, mask in enumerate(masks)]
    crf = ls.MaskCRF(**QUICK).fit(images, masks)
    found = crf.predict(images)
    assert [x.shape for x in found] == [mask.shape for mask in masks]
    assert crf.score(images, masks) > 0.85
    for image, p in zip(images, crf.predict_proba(images), strict=True):
        np.testing.assert_array_equal(p, crf.predict_proba([image])[0])
    drawn = crf.sample_posterior(images[:2], 2, random_state=0)
    assert drawn[1].shape == (2, 20, 16)


def test_grey_images_need_no_channel_axis():
    masks = np.stack(silhouettes((16, 16), (16, 16), (16, 16)))
    grey = noisy(masks)[..., 0]
    a = ls.MaskCRF(**QUICK).fit(grey, masks)
    b = ls.MaskCRF(**QUICK).fit(grey[..., None], masks)
    np.testing.assert_array_equal(a.predict_proba(grey), b.predict_proba(grey[..., None]))
    assert a.predict(grey).shape == masks.shape


def test_volumes():
    rng = np.random.default_rng(0)
    masks = np.zeros((4, 6, 8, 8), dtype=int)
    for mask, (z, y, x) in zip(masks, rng.integers(0, 4, (4, 3)), strict=True):
        mask[z : z + 3, y : y + 4, x : x + 5] = 1
    odds = 2.0 * noisy(masks)[..., 0] - 1.0
    images = np.stack([odds, noisy(masks, 1)[..., 0]], axis=-1)
    for near, directions in ((None, 3), (26, 13)):
        crf = ls.MaskCRF("log_odds", neighbors=near, learner="pseudo").fit(images, masks)
        assert crf.alpha_.shape == (3, directions)
        assert crf.score(images, masks) > max(0.85, np.mean((odds > 0) == masks))


def test_eight_neighbours_have_four_directions():
    masks = np.stack(silhouettes((16, 16), (16, 16)))
    crf = ls.MaskCRF(**QUICK, neighbors=8, scales=[1.0]).fit(noisy(masks), masks)
    assert crf.alpha_.shape == (1, 4)


def test_a_grid_as_a_graph_is_the_grid():
    masks = np.stack(silhouettes(*[(16, 17)] * 3))
    odds = noisy(masks)[..., 0] - 0.5
    pictures = noisy(masks, 1, 2)
    images = np.concatenate([odds[..., None], pictures], axis=-1)
    # one weight for both directions, as a graph has
    edges = ls.prepare(ls.grid_cuts((16, 17))).edges
    graphs = [(image.reshape(-1, 3), edges) for image in images]
    flat = [mask.ravel() for mask in masks]
    crf = ls.MaskCRF("log_odds", learner="pseudo").fit(graphs, flat)
    assert crf.alpha_.shape == (3, 1)
    grid = ls.MaskCRF("log_odds", learner="pseudo").fit(images, masks)
    both = np.repeat(crf.alpha_, 2, axis=1)
    grid.parameters_.alpha[:] = both.ravel()
    grid.parameters_.beta[:], grid.parameters_.modular[:] = crf.beta_, crf.modular_
    grid.calibration_ = crf.calibration_
    for name in ("logistic", "exact"):
        for model in (crf, grid):
            model.set_params(marginals=name)
        p, q = np.stack(crf.predict_proba(graphs)), grid.predict_proba(images)
        np.testing.assert_allclose(p.reshape(q.shape), q, atol=1e-6)


def test_graphs_of_different_sizes_and_without_edges():
    rng = np.random.default_rng(0)
    graphs, masks = [], []
    for n in (30, 30, 41, 25):
        y = (np.arange(n) > n // 2).astype(int)
        edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        graphs.append((y[:, None] + rng.normal(size=(n, 2)), edges))
        masks.append(y)
    graphs.append((rng.normal(size=(5, 2)), np.empty((0, 2), dtype=int)))
    masks.append(np.array([0, 1, 0, 1, 0]))
    crf = ls.MaskCRF(**QUICK).fit(graphs, masks)
    assert crf.score(graphs[:4], masks[:4]) > 0.8
    assert [len(p) for p in crf.predict_proba(graphs)] == [30, 30, 41, 25, 5]
    with_trees = ls.MaskCRF(LogisticRegression(), tol=0.1, folds=2).fit(graphs, masks)
    assert len(with_trees.held_log_odds_) == 5


def test_windows_of_large_images_have_the_contrast_of_the_whole(monkeypatch):
    monkeypatch.setitem(_crops.SIDE, 2, 8)
    masks = silhouettes((20, 26), (18, 18))
    images = [noisy(mask, k, 2) for k, mask in enumerate(masks)]
    crf = ls.MaskCRF(**QUICK, neighbors=8).fit(images, masks)
    assert crf.score(images, masks) > 0.7
    coupling = crf._coupling
    from logsuper.estimators._field_samples import read_samples

    samples = read_samples(images, 2)
    parts = _field_examples.take_parts(samples, masks, coupling, 0)
    assert len(parts) > 6 and all(part.shape == (8, 8) for part in parts)
    part = parts[3]
    whole = coupling.contrasts(samples[part.number], 0)
    factors = _field_examples._factors(coupling, samples[part.number], part, whole)
    cuts = ls.grid_cuts((8, 8), 8)
    edges = np.concatenate([cut.edges for cut in cuts])
    values = samples[part.number].channels / coupling.spread
    full = np.concatenate([cut.edges for cut in ls.grid_cuts(samples[part.number].shape, 8)])
    expected = contrast_weights(values, full, crf.scales)
    names = {tuple(edge): e for e, edge in enumerate(full.tolist())}
    place = [names[tuple(edge)] for edge in part.places[edges].tolist()]
    summed = factors.reshape(3, 4, -1).sum(axis=1)
    np.testing.assert_allclose(summed, expected[:, place])


def test_few_parts_are_kept_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(_field_examples, "_NUMBERS", 6 * 2 * 256 * 3)
    masks = np.stack(silhouettes(*[(16, 16)] * 6))
    crf = ls.MaskCRF(**QUICK).fit(noisy(masks), masks)
    assert crf.score(noisy(masks), masks) > 0.8


def in_files(folder, images, masks):
    """Write images and masks; return them as sequences that are read when they are indexed."""
    for name, arrays in (("images", images), ("masks", masks)):
        (folder / name).mkdir()
        for i, array in enumerate(arrays):
            np.save(folder / name / f"{i:02d}.npy", array)
    images = ls.io.ImageFiles(folder / "images", color=True, memory_limit=0)
    return images, ls.io.ImageFiles(folder / "masks", memory_limit=0)


@pytest.mark.parametrize("size", [16, 120])
@pytest.mark.parametrize("unary", ["linear", "trees", "log_odds"])
def test_files_are_read_again_and_give_the_same_bits(unary, size, tmp_path, monkeypatch):
    """Whole small images, or images that are reduced and learned from by windows."""
    monkeypatch.setattr(_unary, "_KEPT", 3 * 16 * 16 * 4 * 8)
    monkeypatch.setattr(_working_size, "KEPT", 8 * 100 * 100)
    masks = silhouettes(*[(size, size + 2)] * 6)
    images = [np.round(noisy(mask, k, 3), 2) for k, mask in enumerate(masks)]
    options = {"unary": unary, "tol": 0.1, "folds": 3, "max_pixels": 2000}
    options["working_size"] = None if size == 16 else 98
    options |= {"learner": "pseudo", "n_samples": 4, "marginals": "logistic"}
    right = ls.MaskCRF(**options).fit(images, masks)
    files, labels = in_files(tmp_path, images, masks)
    found = ls.MaskCRF(**options).fit(files, labels)
    assert found.held_log_odds_ is None
    np.testing.assert_array_equal(found.alpha_, right.alpha_)
    np.testing.assert_array_equal(found.beta_, right.beta_)
    assert found.calibration_ == right.calibration_
    for p, q in zip(found.predict_proba(files), right.predict_proba(images), strict=True):
        np.testing.assert_array_equal(p, q)
    assert found.score(files, labels) == right.score(images, masks)


def test_stacks_on_disk_and_arrays_of_objects(tmp_path):
    masks = np.stack(silhouettes(*[(16, 17)] * 6))
    images = noisy(masks, 0, 2)
    right = ls.MaskCRF(**QUICK).fit(images, masks)
    np.save(tmp_path / "images.npy", images)
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=images.shape, dtype="f8")
    stored[:] = images
    labels = zarr.create_array(str(tmp_path / "m.zarr"), shape=masks.shape, dtype="u1")
    labels[:] = masks
    objects = np.empty(6, dtype=object)
    objects[:] = list(images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    for given, own in ((stored, labels), (mapped, masks), (objects, masks), (stored, list(masks))):
        found = ls.MaskCRF(**QUICK).fit(given, own)
        np.testing.assert_array_equal(found.alpha_, right.alpha_)
        p = found.predict_proba(given)
        assert isinstance(p, list) == (given is objects)
        np.testing.assert_array_equal(np.stack(p), right.predict_proba(images))


def test_files_that_change_are_named(tmp_path):
    masks = silhouettes(*[(16, 16)] * 6)
    images, labels = in_files(tmp_path, [noisy(m, k, 3) for k, m in enumerate(masks)], masks)
    read = images.__class__.__getitem__
    seen = []

    class Changing(images.__class__):
        def __getitem__(self, i):
            seen.append(i)
            return read(self, i) + (seen.count(2) > 1 and i == 2)

    changing = Changing(tmp_path / "images", color=True, memory_limit=0)
    with pytest.raises(OSError, match=r"images\[2\] has changed since it was first read"):
        ls.MaskCRF(**QUICK).fit(changing, labels)
    np.save(tmp_path / "masks" / "03.npy", np.full((16, 16), 2))
    with pytest.raises(ValueError, match=r"masks\[3\].* is neither 0 nor 1"):
        ls.MaskCRF(**QUICK).fit(images, labels)


@pytest.mark.parametrize("kept", [0, 3 * 16 * 16 * 4 * 8])
def test_features_that_are_not_kept_are_made_again(kept, monkeypatch):
    masks = np.stack(silhouettes(*[(16, 16)] * 6))
    options = {"unary": LogisticRegression(), "tol": 0.05, "folds": 3}
    right = ls.MaskCRF(**options).fit(noisy(masks), masks)
    made = []
    feature_rows = _unary.feature_rows
    monkeypatch.setattr(
        _unary, "feature_rows", lambda *given: made.append(given) or feature_rows(*given)
    )
    monkeypatch.setattr(_unary, "_KEPT", kept)
    found = ls.MaskCRF(**options).fit(noisy(masks), masks)
    assert 6 < len(made) <= 12 and (len(made) < 12) == bool(kept)
    np.testing.assert_array_equal(found.alpha_, right.alpha_)
    np.testing.assert_array_equal(found.beta_, right.beta_)


def test_callables_give_features():
    masks = np.stack(silhouettes((16, 16), (16, 16), (16, 16)))
    images = noisy(masks, channels=2)
    crf = ls.MaskCRF(lambda image: image**2, tol=0.05).fit(images, masks)
    assert crf.beta_.shape == (2,)
    crf = ls.MaskCRF(
        LogisticRegression(), features=lambda image: image[..., 0], folds=2, tol=0.1
    ).fit(images, masks)
    assert crf.unary_.coef_.shape == (1, 1)
    margin = ls.MaskCRF(RidgeClassifier(), folds=2, tol=0.1).fit(images, masks)
    assert margin.score(images, masks) > 0.8


def test_generators_and_pil_images_are_read():
    masks = silhouettes((16, 18), (20, 16), (16, 18))
    images = [np.clip(90 * noisy(mask, k, 3) + 80, 0, 255) for k, mask in enumerate(masks)]
    images = [image.astype(np.uint8) for image in images]
    crf = ls.MaskCRF(**QUICK).fit(images, masks)
    other = ls.MaskCRF(**QUICK).fit(iter(images), (mask.astype(bool) for mask in masks))
    np.testing.assert_array_equal(crf.alpha_, other.alpha_)
    assert crf.score(iter(images), iter(masks)) == crf.score(images, masks)
    pictures = [Image.fromarray(image) for image in images]
    for a, b in zip(crf.predict(images), crf.predict(pictures), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fold_with_one_label_only():
    masks = np.zeros((3, 8, 8), dtype=int)
    masks[0, 2:6, 2:6] = 1
    images = noisy(masks)
    crf = ls.MaskCRF(LogisticRegression(), folds=3, tol=0.1).fit(images, masks)
    assert np.isfinite(crf.predict_proba(images)).all()


def data():
    masks = np.zeros((2, 8, 9), dtype=int)
    masks[:, 2:6, 3:7] = 1
    return noisy(masks, channels=2), masks


def changed(array, value):
    array = np.array(array, dtype=float)
    array.flat[3] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unary": "tree"}, "unary must be one of"),
        ({"unary": LogisticRegression}, "unary must be one of"),
        ({"unary": LinearRegression()}, "neither predict_proba nor decision_function"),
        ({"unary": 3}, "unary must be one of"),
        ({"edges": "sharp"}, "edges must be contrast, uniform or None"),
        ({"edges": []}, "edges must be contrast, uniform or None"),
        ({"learner": "resample"}, "learner must be one of"),
        ({"neighbors": 5}, "neighbors"),
        ({"scales": [1.0, 0.0]}, r"scales\[1\] = 0: a scale must be positive"),
        ({"scales": []}, "scales is empty"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"max_pixels": 0}, "max_pixels must be at least 1"),
        ({"features": 3}, "features must be callable"),
        ({"unary": lambda image: image, "features": lambda image: image}, "features is for a cl"),
        ({"unary": lambda image: image[0]}, "one row per pixel"),
        ({"calibration": "isotonic"}, "calibration must be one of"),
        ({"decode": "best"}, "decode must be one of"),
        ({"callback": 3}, "callback"),
        (
            {"unary": "log_odds", "edges": "contrast", "images": data()[0][..., 0]},
            "needs a picture",
        ),
        ({"unary": "probabilities"}, "is not a probability"),
        ({"unary": "log_odds", "images": changed(data()[0], np.inf)}, "infinite|has the value inf"),
        (
            {"images": changed(data()[0], np.nan)},
            r"images\[0\]\[0, 1\] has the value nan in channel 1",
        ),
        ({"images": data()[0][:1]}, "images has 1 entries, masks 2"),
        ({"images": data()[0][:, :7]}, r"but masks\[0\] \(8, 9\)"),
        ({"images": None}, "images must be an array or a list"),
        ({"images": []}, "images is empty"),
        ({"images": np.zeros((2, 8))}, "images has shape"),
        ({"images": [np.zeros((8, 9, 2)), np.zeros((8, 9, 3))]}, "same channels"),
        ({"masks": None}, "masks must be"),
        ({"masks": 255 * data()[1]}, r"= 255 is neither 0 nor 1; threshold it \(mask > 127"),
        ({"masks": np.repeat(data()[1][..., None], 3, -1)}, r"give one channel, masks\[0\]"),
        ({"images": "photographs"}, "images must be an array or a list of arrays, got str"),
        ({"images": data()[0][0], "masks": data()[1][0]}, r"a single image .* images\[None\]"),
        ({"masks": np.full((2, 8, 9), np.nan)}, "masks has no label at all"),
        ({"masks": changed(data()[1], 2)}, r"masks\[0\]\[0, 3\] = 2.0 is neither 0 nor 1"),
        ({"masks": np.zeros((2, 8, 9))}, "no other label than 0"),
        (
            {"unary": LogisticRegression(), "images": data()[0][:1], "masks": data()[1][:1]},
            "one entry",
        ),
        ({"images": [(np.zeros((8, 2)), [[0, 0]])] * 2, "masks": np.eye(2, 8)}, "to itself"),
        ({"images": [(np.zeros((8, 2)), [[0, 8]])] * 2, "masks": np.eye(2, 8)}, "outside"),
        ({"images": [(np.zeros((8, 2)),)] * 2, "masks": np.eye(2, 8)}, "a graph is"),
        ({"images": np.zeros((2, 8, 2)), "masks": np.eye(2, 8)}, "pairs"),
    ],
)
def test_bad_input_is_refused_in_one_clear_sentence(arguments, message):
    images, masks = data()
    arguments = dict(arguments)
    images, masks = arguments.pop("images", images), arguments.pop("masks", masks)
    with pytest.raises((ValueError, TypeError), match=message):
        ls.MaskCRF(**arguments).fit(images, masks)


def test_new_images_must_be_like_the_training_images():
    images, masks = data()
    crf = ls.MaskCRF(**QUICK).fit(images, masks)
    with pytest.raises(ValueError, match="channels"):
        crf.predict(images[..., :1])
    with pytest.raises(ValueError, match=r"another kind|axes"):
        crf.predict([(np.zeros((8, 2)), [[0, 1]])])
    with pytest.raises(ValueError, match="sample_weight must be None"):
        crf.fit(images, masks, sample_weight=[1, 1])
