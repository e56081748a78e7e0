"""Denoisers on dask arrays, and on images so large that they are solved by tiles."""

import copy
import dataclasses

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import logsuper as ls
from logsuper.estimators._blind_spot import BlindSpot
from logsuper.estimators._lazy import block_cuts
from logsuper.learning import _decoding

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def fitted():
    clean = ls.make_silhouettes(8, shape=(40, 44), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    options = {"noise": 0.1, "context": 1, "marginals": "exact"}
    return noisy, {
        decode: ls.MaskDenoiser(decode=decode, **options).fit(noisy[:6], clean[:6])
        for decode in ("map", "mean")
    }


def test_most_probable_masks_of_dask_arrays_are_lazy_and_have_the_same_bits(fitted):
    noisy, denoisers = fitted
    right = denoisers["map"].predict(noisy[6:])
    for given, wanted in ((noisy[6], right[0]), (noisy[6:], right)):
        lazy = denoisers["map"].predict(da.from_array(given, chunks=17))
        assert isinstance(lazy, da.Array) and lazy.dtype == np.uint8
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), wanted)


@pytest.fixture
def small_blocks(monkeypatch):
    """Images of more than 400 pixels are decoded by blocks of 20x20."""
    monkeypatch.setattr("logsuper.estimators._lazy.WHOLE", 400)
    monkeypatch.setattr("logsuper.estimators._lazy.BLOCK", {2: 20, 3: 6})
    monkeypatch.setattr("logsuper.estimators._lazy.HALO", {2: 8, 3: 2})


@pytest.mark.usefixtures("small_blocks")
def test_probabilities_by_blocks_do_not_depend_on_chunks(fitted, monkeypatch):
    noisy, denoisers = fitted
    mean = denoisers["mean"]
    monkeypatch.setattr("logsuper.estimators._lazy.WHOLE", 1 << 22)
    right = mean.predict_proba(noisy[6:7])[0]
    lazy = mean.predict_proba(da.from_array(noisy[6], chunks=13))
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), right)
    monkeypatch.setattr("logsuper.estimators._lazy.WHOLE", 400)
    errors = []
    for halo in (0, 8):
        monkeypatch.setattr("logsuper.estimators._lazy.HALO", {2: halo})
        inside = mean.predict_proba(noisy[6:7])[0]
        for chunks in (11, (40, 5), -1):
            given = da.from_array(noisy[6], chunks=chunks)
            parts = mean.predict_proba(given)
            assert isinstance(parts, da.Array) and parts.chunks == given.chunks
            np.testing.assert_array_equal(parts.compute(scheduler="synchronous"), inside)
            masks = mean.predict(given).compute(scheduler="synchronous")
            assert masks.dtype == np.uint8
            np.testing.assert_array_equal(masks, inside > 0.5)
        errors.append(np.abs(inside - right).max())
    assert 0 < errors[1] < 0.1 * errors[0]
    masks = mean.predict([noisy[6], noisy[7, :9]])  # a large and a small one
    np.testing.assert_array_equal(masks[0], inside > 0.5)
    np.testing.assert_array_equal(masks[1], mean.predict([noisy[7, :9]])[0])


@pytest.mark.usefixtures("small_blocks")
def test_costs_per_pixel_of_large_images(fitted):
    noisy, denoisers = fitted
    careful = copy.copy(denoisers["mean"])
    right = careful.predict_proba(noisy[6:7])
    price = np.where(np.arange(44) < 20, 9.0, 1.0) * np.ones((40, 1))
    careful = careful.set_params(cost=(price, 1.0))
    np.testing.assert_array_equal(careful.predict_proba(noisy[6:7]), right)
    np.testing.assert_array_equal(careful.predict(noisy[6:7])[0], right[0] > price / (1.0 + price))
    with pytest.raises(ValueError, match="cost is per pixel"):
        careful.predict(da.from_array(noisy[6], chunks=20))
    with pytest.raises(ValueError, match=r"cost has shape .* noisy\[1\]"):
        careful.predict([noisy[6], noisy[7, :39]])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", [(40, 44), (9, 10, 11)])
def test_noise_of_blocks_does_not_depend_on_chunks(shape):
    """Eight neighbours, and volumes, are decoded with noise."""
    rng = np.random.default_rng(0)
    clean = np.cumsum(rng.normal(size=(4, *shape)), axis=-1) > 0
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    near = 8 if len(shape) == 2 else 26
    options = {"neighbors": near, "context": 1, "marginals": "logistic", "modular": "shared"}
    model = ls.MaskDenoiser(0.1, **options).fit(noisy, clean)
    right = model.predict_proba(noisy[3:])[0]
    for chunks in (7, 20, -1):
        lazy = model.predict_proba(da.from_array(noisy[3], chunks=chunks))
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), right)


@pytest.mark.parametrize("size", [1, 399, 1023, 1024, 1025, 1279, 1280, 1281, 9999])
def test_blocks_lie_at_multiples_and_none_is_narrow(size):
    for cut in block_cuts((size, 5_000_000)):
        widths = np.diff(cut)
        assert cut[0] == 0 and (np.array(cut[:-1]) % 1024 == 0).all()
        assert widths.max() < 1280 and (len(widths) == 1 or widths.min() >= 256)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("decode", ["map", "mean"])
def test_margins_hold_all_that_the_classifier_of_the_context_sees(decode, monkeypatch):
    clean = [ls.make_silhouettes(1, (48 + i, 52), seed=i)[0] for i in range(6)]
    noisy = [ls.Flips(0.15).sample(image, seed=i) for i, image in enumerate(clean)]
    quick = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=50, random_state=0)
    model = ls.MaskDenoiser(
        0.15, context=quick, modular="shared", decode=decode, marginals="exact"
    ).fit(noisy[:5], clean[:5])
    given = da.from_array(noisy[5], chunks=27)
    right = model.predict([noisy[5]])[0]
    assert model.trust_ > 0.1
    if decode == "map":
        found = model.predict(given).compute(scheduler="synchronous")
        np.testing.assert_array_equal(found, right)
        return
    # without couplings nothing but the margin matters
    model.parameters_ = dataclasses.replace(model.parameters_, alpha=np.zeros(2))
    monkeypatch.setattr("logsuper.estimators._lazy.HALO", {2: 0})
    right = model._finish(model._means_of(noisy[5]))
    found = model.predict_proba(given).compute(scheduler="synchronous")
    np.testing.assert_allclose(found, right, atol=1e-12)


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_intervals_are_certified_and_have_the_same_bits_for_dask_arrays(fitted, alpha):
    noisy, denoisers = fitted
    model = copy.copy(denoisers["mean"])
    model.temperature_ = 1.3
    if alpha is not None:
        model.parameters_ = dataclasses.replace(model.parameters_, alpha=np.zeros(2))
    given = noisy[6:].astype(float)
    given[0, 3:9, 4:20] = np.nan
    lower, upper = model.predict_interval(given, width=1e-2)
    exact = model.predict_proba(given)  # by strips over the whole image
    assert (lower <= exact + 1e-6).all() and (exact <= upper + 1e-6).all()
    assert (upper - lower).max() <= 1e-2
    for one, wanted in ((given[0], [lower[0], upper[0]]), (given, [lower, upper])):
        found = model.predict_interval(da.from_array(one, chunks=17), width=1e-2)
        for lazy, right in zip(found, wanted, strict=True):
            assert isinstance(lazy, da.Array)
            np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), right)


def test_the_posterior_of_an_image_has_its_probabilities(fitted):
    noisy, denoisers = fitted
    model = denoisers["mean"].posterior(noisy[6])
    assert model.shape == (40, 44)
    right = denoisers["mean"].predict_proba(noisy[6:7])[0]
    np.testing.assert_allclose(np.clip(model.marginals(), 1e-4, 1 - 1e-4), right, atol=1e-9)
    with pytest.raises(ValueError, match="axes"):
        denoisers["mean"].posterior(noisy)


def test_costs_hold_for_dask_arrays(fitted):
    noisy, denoisers = fitted
    careful = copy.copy(denoisers["mean"]).set_params(cost=(9.0, 1.0))
    lazy = careful.predict(da.from_array(noisy[6], chunks=-1))
    right = careful.predict(noisy[6:7])[0]
    assert (right != denoisers["mean"].predict(noisy[6:7])[0]).any()
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), right)


def test_what_cannot_be_decoded_by_chunks_is_refused(fitted):
    noisy, denoisers = fitted
    with pytest.raises(ValueError, match="axes"):
        denoisers["map"].predict(da.zeros((3, 4, 5, 6)))
    pixel = ls.MaskDenoiser(noise=0.1, modular="pixel").fit(noisy[:6], noisy[:6])
    with pytest.raises(ValueError, match="modular='shared'"):
        pixel.predict(da.from_array(noisy[6], chunks=20))
    local = copy.copy(denoisers["map"])
    local.channel_ = ls.Flips(np.full((40, 44), 0.1))
    with pytest.raises(ValueError, match="rates per pixel"):
        local.predict(da.from_array(noisy[6], chunks=20))
    placed = copy.copy(denoisers["map"])
    placed.surroundings_ = BlindSpot((0.5,), (0.0, 1.0), True, False, True, 2)
    with pytest.raises(ValueError, match="place of a pixel"):
        placed.predict_proba(da.from_array(noisy[6], chunks=20))


def test_large_images_are_solved_by_tiles(fitted, monkeypatch):
    noisy, denoisers = fitted
    right = denoisers["map"].predict(noisy[6:])
    calls = []

    def spy(*arguments):
        calls.append(arguments)
        return modes_by_tiles(*arguments)

    modes_by_tiles = _decoding.modes_by_tiles
    monkeypatch.setattr(_decoding, "TILED", 100)
    monkeypatch.setattr(_decoding, "modes_by_tiles", spy)
    np.testing.assert_array_equal(denoisers["map"].predict(noisy[6:]), right)
    assert calls


def test_large_images_behind_a_classifier_are_solved_by_tiles(monkeypatch):
    rng = np.random.default_rng(0)
    masks = ls.make_silhouettes(6, shape=(30, 32), seed=0)
    images = masks[..., None] + rng.normal(scale=0.8, size=(*masks.shape, 2))
    crf = ls.MaskCRF("linear", learner="max_margin", tol=0.1).fit(images, masks)
    right = crf.predict(images)
    monkeypatch.setattr(_decoding, "TILED", 100)
    np.testing.assert_array_equal(crf.predict(images), right)


def test_learning_from_files_equals_learning_from_arrays(fitted, tmp_path):
    noisy = fitted[0].astype(np.uint8)
    for i, image in enumerate(noisy):
        np.save(tmp_path / f"{i}.npy", image)
    model = ls.MaskDenoiser(noise=0.1, context=0)
    right = model.fit(list(noisy)).parameters_
    found = model.fit(ls.io.ImageFiles(tmp_path)).parameters_
    np.testing.assert_array_equal(found.alpha, right.alpha)
    with pytest.raises(TypeError, match="must be an array or a list"):
        model.fit("images")
