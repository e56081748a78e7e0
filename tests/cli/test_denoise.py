"""Folders of masks, cleaned from the shell."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.masks import CLEAN, NOISY, listed, run, write_masks
from PIL import Image

import logsuper as ls
from logsuper.cli import _cleaning, _learning
from logsuper.io import find_images, read_image, write_image


def test_a_folder_of_noisy_masks(tmp_path, noisy):
    out = tmp_path / "out"
    done = run("denoise", noisy, "--out", out, "--probabilities", "--uncertain", "--compare")
    assert done.exit_code == 0, done.output
    names = [f"m{k}.png" for k in range(8)]
    sides = [
        f"{side}/{name}" for side in ("compare", "probabilities", "uncertain") for name in names
    ]
    assert listed(out) == sorted(["compare/overview.png", *names, *sides])
    assert [path.name for path in find_images(out)] == names  # nothing but masks
    wrong = 0
    for k, clean in enumerate(CLEAN):
        mask, chance = (
            read_image(out / f"m{k}.png"),
            read_image(out / "probabilities" / f"m{k}.png"),
        )
        assert set(np.unique(mask)) <= {0, 255} and mask.dtype == np.uint8
        assert chance.dtype == np.uint16
        assert np.array_equal(chance > 65535 // 2, mask > 0)
        wrong += np.count_nonzero((mask > 0) != clean)
    assert wrong < 0.6 * np.count_nonzero(NOISY != CLEAN)
    for words in ("Learned from 8 images", "of the pixels are flipped, with a standard error of"):
        assert words in done.stdout
    for words in ("Smoothness:", "Wrong pixels, as the model expects:", "images cleaned"):
        assert words in done.stdout
    assert done.stdout.endswith(f"Written to: {out}\n")
    assert done.stderr == ""  # no progress but on terminals


def test_the_same_as_the_estimator(tmp_path, noisy):
    assert run("denoise", noisy, "--out", tmp_path / "out", "--seed", 5).exit_code == 0
    expected = ls.MaskDenoiser(random_state=5).fit(list(NOISY)).predict(list(NOISY))
    for k, mask in enumerate(expected):
        assert np.array_equal(read_image(tmp_path / "out" / f"m{k}.png") > 0, mask)


def test_steps_are_the_same_as_one(tmp_path, noisy, model):
    path, found = model
    one = run(
        "denoise", noisy, "--out", tmp_path / "one", "--save-model", tmp_path / "s.npz", "--json"
    )
    two = run("apply", "--model", path, noisy, "--out", tmp_path / "two", "--json")
    three = run("denoise", "--model", tmp_path / "s.npz", noisy, "--out", tmp_path / "three")
    assert (one.exit_code, two.exit_code, three.exit_code) == (0, 0, 0), three.output
    for name in listed(tmp_path / "one"):
        data = (tmp_path / "one" / name).read_bytes()
        assert data == (tmp_path / "two" / name).read_bytes()
        assert data == (tmp_path / "three" / name).read_bytes()
    assert json.loads(one.stdout)["model"]["weights"] == found["model"]["weights"]
    assert json.loads(one.stdout)["all"] == json.loads(two.stdout)["all"]
    said = json.loads(run("info", path, "--json").stdout)
    assert said["weights"] == found["model"]["weights"] and said["noise_kind"] == "flips"
    assert "cleans images" in run("info", path).stdout


def test_the_figures_are_true(tmp_path, noisy, model):
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "o", "--json")
    content = json.loads(done.stdout)
    denoiser = ls.load_model(model[0])
    chances = denoiser.predict_proba(list(NOISY))
    expected = np.mean([np.minimum(p, 1 - p).mean() for p in chances])
    assert content["all"]["wrong_after"] == pytest.approx(expected)
    assert content["all"]["wrong_before"] == pytest.approx(float(denoiser.noise_))
    masks = np.array([p > 0.5 for p in chances])
    assert content["all"]["changed"] == pytest.approx(np.mean(masks != NOISY))
    differ = sum(np.count_nonzero(np.diff(NOISY.astype(int), axis=axis)) for axis in (1, 2))
    assert content["all"]["neighbours_differ_before"] == pytest.approx(differ / (8 * 2 * 24 * 23))
    assert [file["pixels"] for file in content["files"]] == [24 * 24] * 8
    assert content["left_out"] == [] and content["files"][0]["finished_before"] is False


def test_pairs_by_name(tmp_path, noisy):
    clean = write_masks(tmp_path / "clean", CLEAN[:6], ".npy", (0, 1))
    done = run("denoise", noisy, "--clean", clean, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["model"]["images"] == 6 and content["model"]["labelled"]
    assert content["model"]["learner"] == "logistic"
    rate = np.mean(NOISY[:6] != CLEAN[:6])
    assert content["model"]["noise"] == pytest.approx(rate, abs=1e-3)  # half a flip more
    error = np.sqrt(rate * (1 - rate) / (6 * 576))
    assert content["model"]["noise_error"] == pytest.approx(error, rel=0.01)
    assert len(content["files"]) == 8


def test_a_given_rate_is_taken(tmp_path, noisy):
    done = run("fit", noisy, "--noise", "0.1", "--save-model", tmp_path / "m.npz", "--json")
    assert json.loads(done.stdout)["model"]["noise"] == 0.1


@pytest.mark.parametrize(
    ("suffix", "dtype", "levels"),
    [
        (".png", bool, (0, 1)),
        (".png", np.uint8, (0, 1)),
        (".png", np.uint8, (17, 203)),
        (".png", np.uint16, (0, 65535)),
        (".tif", np.uint16, (0, 1)),
        (".tif", np.float32, (-1.0, 2.5)),
        (".bmp", np.uint8, (0, 255)),
        (".pbm", bool, (0, 1)),
        (".pgm", np.uint16, (0, 65535)),
        (".npy", np.int64, (-3, 9)),
        (".npy", bool, (0, 1)),
    ],
)
def test_masks_keep_format_depth_and_levels(tmp_path, model, suffix, dtype, levels):
    masks = [*NOISY[:2], np.zeros((24, 24))]
    folder = write_masks(tmp_path / "in", masks, suffix, levels, dtype)
    done = run("apply", "--model", model[0], folder, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    reference = ls.load_model(model[0]).predict([*NOISY[:2], np.zeros((24, 24), np.uint8)])
    for k, mask in enumerate(reference[:2]):
        found = read_image(tmp_path / "out" / f"m{k}{suffix}")
        assert found.dtype == dtype and np.array_equal(found == levels[1], mask > 0)
        assert set(np.unique(found).tolist()) == set(np.array(levels, dtype=dtype).tolist())
    if levels[0] == 0:  # of one level: black stays black
        assert not read_image(tmp_path / "out" / f"m2{suffix}").any()


def test_jpeg_becomes_png_and_is_cut(tmp_path, model):
    (tmp_path / "in").mkdir()
    for k, mask in enumerate(CLEAN[:3]):
        large = np.kron(mask, np.ones((7, 7), np.uint8)) * 255
        Image.fromarray(large).save(tmp_path / "in" / f"m{k}.jpg")
    done = run("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert listed(tmp_path / "out") == ["m0.png", "m1.png", "m2.png"]
    assert "3 masks with soft or compressed borders were cut at one half" in done.stdout
    assert "m0.jpg as m0.png" in done.stdout
    for k, mask in enumerate(CLEAN[:3]):
        found = read_image(tmp_path / "out" / f"m{k}.png")
        assert np.mean((found > 0) != np.kron(mask, np.ones((7, 7)))) < 0.02


def test_grey_stays_grey_or_is_cut(tmp_path):
    rng = np.random.default_rng(3)
    for k, mask in enumerate(CLEAN):
        grey = np.clip(80 + 90 * mask + 30 * rng.standard_normal(mask.shape), 0, 255)
        write_image(tmp_path / "in" / f"g{k}.png", grey.astype(np.uint8))
    done = run("denoise", tmp_path / "in", "--out", tmp_path / "grey", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["model"]
    assert found["noise_kind"] == "gaussian"
    assert found["levels"] == pytest.approx([80 / 255, 170 / 255], abs=0.03)
    cut = run(
        "denoise", tmp_path / "in", "--out", tmp_path / "cut", "--threshold", "otsu", "--json"
    )
    assert json.loads(cut.stdout)["model"]["noise_kind"] == "flips"
    errors = [
        np.mean(
            [(read_image(tmp_path / place / f"g{k}.png") > 0) != m for k, m in enumerate(CLEAN)]
        )
        for place in ("grey", "cut")
    ]
    assert errors[0] < errors[1] < 0.07  # the levels say more than zeros and ones
    plain = run("denoise", tmp_path / "in", "--out", tmp_path / "x", "--noise", 0.1)
    assert plain.exit_code == 2 and "are for masks of two levels" in plain.stderr
    assert (
        "Noise: grey levels" in run("denoise", tmp_path / "in", "--out", tmp_path / "grey").stdout
    )


def test_a_model_is_for_masks_or_for_grey_images(tmp_path, noisy, model):
    rng = np.random.default_rng(0)
    grey = [60 + 120 * mask + 25 * rng.standard_normal(mask.shape) for mask in CLEAN]
    for k, image in enumerate(grey):
        write_image(tmp_path / "grey" / f"{k}.png", np.clip(image, 0, 255).astype(np.uint8))
    done = run("apply", "--model", model[0], tmp_path / "grey", noisy, "--out", tmp_path / "out")
    assert done.exit_code == 1 and done.stderr.count("has grey levels, but the model") == 1
    assert all(str(tmp_path / "grey" / f"{k}.png") in done.stderr for k in range(8))
    assert run("fit", tmp_path / "grey", "--save-model", tmp_path / "g.npz").exit_code == 0
    done = run("apply", "--model", tmp_path / "g.npz", noisy, "--out", tmp_path / "other")
    assert done.exit_code == 2 and "but the model was learned from grey images" in done.stderr
    assert done.stderr.endswith("\nError: none of the images could be cleaned\n")


def test_a_run_that_fails_leaves_no_empty_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"not a picture")
    done = run("denoise", tmp_path / "in", "--out", tmp_path / "new" / "out")
    assert done.exit_code != 0 and not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["alpha", "red", "128", "nan"])
def test_missing_pixels_are_filled_in(tmp_path, model, kind):
    gone = np.random.default_rng(0).random((24, 24)) < 0.2
    seen = 255 * NOISY[0]
    if kind == "alpha":
        pixels = np.stack([seen, np.where(gone, 0, 255).astype(np.uint8)], axis=-1)
        (tmp_path / "in").mkdir()
        Image.fromarray(pixels).save(tmp_path / "in" / "m.png")
    elif kind == "red":
        pixels = np.repeat(seen[..., None], 3, axis=-1)
        pixels[gone] = (255, 0, 0)
        write_image(tmp_path / "in" / "m.png", pixels, color=True)
    elif kind == "nan":
        write_image(tmp_path / "in" / "m.tif", np.where(gone, np.nan, seen))
    else:
        write_image(tmp_path / "in" / "m.png", np.where(gone, 128, seen).astype(np.uint8))
    options = () if kind == "nan" else ("--missing", kind)
    done = run(
        "apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", *options, "--json"
    )
    assert done.exit_code == 0, done.output
    [name] = listed(tmp_path / "out")
    found = read_image(tmp_path / "out" / name)
    expected = ls.load_model(model[0]).predict([np.where(gone, np.nan, NOISY[0])])[0]
    assert np.array_equal(found == 255, expected > 0) and set(np.unique(found)) == {0, 255}
    assert json.loads(done.stdout)["all"]["missing"] == pytest.approx(gone.mean())
    if kind != "nan":
        plain = run("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "other")
        assert plain.exit_code == 2 and "Left out: " in plain.stderr


def test_volumes(tmp_path, model):
    stack = np.where(NOISY > 0, 255, 0).astype(np.uint8)
    write_image(tmp_path / "in" / "v.tif", stack)
    done = run(
        "apply",
        "--model",
        model[0],
        tmp_path / "in",
        "--out",
        tmp_path / "slices",
        "--probabilities",
    )
    assert done.exit_code == 0, done.output
    assert listed(tmp_path / "slices") == ["probabilities/v.tif", "v.tif"]
    found = read_image(tmp_path / "slices" / "v.tif")
    expected = ls.load_model(model[0]).predict(list(NOISY))
    assert found.dtype == np.uint8 and np.array_equal(found > 0, np.array(expected) > 0)
    line = ["denoise", tmp_path / "in", "--out", tmp_path / "whole", "--volume", "whole"]
    done = run(*line, "--save-model", tmp_path / "v.npz", "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["model"]["weights"]) == 3
    expected = ls.MaskDenoiser(random_state=0, modular="shared").fit([NOISY]).predict([NOISY])[0]
    assert np.array_equal(read_image(tmp_path / "whole" / "v.tif") > 0, expected > 0)
    done = run("apply", "--model", tmp_path / "v.npz", tmp_path / "in", "--out", tmp_path / "x")
    assert done.exit_code == 2 and "give --volume whole" in done.stderr
    done = run(
        "apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "x", "--volume", "whole"
    )
    assert done.exit_code == 2 and "leave out --volume whole" in done.stderr
    write_image(tmp_path / "flat" / "x.png", stack[0])
    done = run(
        "apply",
        "--model",
        tmp_path / "v.npz",
        tmp_path / "flat",
        "--out",
        tmp_path / "x",
        "--volume",
        "whole",
    )
    assert done.exit_code == 2 and "is an image, not a volume" in done.stderr


def test_sizes_may_differ(tmp_path):
    for k, side in enumerate((20, 30, 25)):
        mask = ls.Flips(0.1).sample(ls.make_silhouettes(1, (side, side + k), seed=k), seed=k)[0]
        write_image(tmp_path / "in" / f"{k}.png", (255 * mask).astype(np.uint8))
    done = run("denoise", tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert [f["shape"] for f in json.loads(done.stdout)["files"]] == [[20, 20], [30, 31], [25, 27]]


def test_threads_and_batches_change_nothing(tmp_path, noisy, model, monkeypatch):
    line = ("apply", "--model", model[0], noisy, "--probabilities", "--out")
    assert run(*line, tmp_path / "a", "--jobs", 1).exit_code == 0
    monkeypatch.setattr(_cleaning, "_BATCH", 1)
    assert run(*line, tmp_path / "b", "--jobs", 2).exit_code == 0
    for name in listed(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("volume", ["slices", "whole"])
def test_learning_takes_a_bounded_sample(tmp_path, monkeypatch, volume):
    monkeypatch.setattr(_learning, "SAMPLE", 5000)
    monkeypatch.setattr(_learning, "_LEAST", {2: 900, 3: 1200})
    rng, deep = np.random.default_rng(0), volume == "whole"
    for k in range(12):
        shape = (6, 30 + k, 40) if deep else (60 + k, 80)
        y, x = np.indices(shape)[-2:]
        mask = np.hypot(y - 15, x - 20) < 12
        noise = rng.random(shape) < 0.1
        write_image(tmp_path / "in" / f"{k:02}.tif", (mask ^ noise).astype(np.uint8))
    line = ("fit", tmp_path / "in", "--volume", volume, "--json", "--save-model")
    first, again, other = (
        json.loads(run(*line, tmp_path / f"{k}.npz", "--seed", seed).stdout)["model"]
        for k, seed in enumerate((0, 0, 1))
    )
    assert first["images"] < 12 and 4000 < first["pixels"] <= 7000
    assert first["weights"] == again["weights"] != other["weights"]
    assert isinstance(first["modular"], float)


@pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": np.linspace(0.05, 0.2, 576).reshape(24, 24)}, "Noise: Flips(<576 rates>)."),
        ({"noise": "asymmetric"}, "Noise: AsymmetricFlips(on="),
        ({"neighbors": 8}, "Smoothness: functions with the weights"),
        ({"learner": "max_margin"}, "learned by"),
    ],
)
def test_models_from_python(tmp_path, noisy, options, words):
    fitted = ls.MaskDenoiser(max_iter=2, **options).fit(NOISY, CLEAN)
    fitted.save(tmp_path / "m.npz")
    said = run("info", tmp_path / "m.npz")
    assert said.exit_code == 0 and words in said.stdout
    json.loads(run("info", tmp_path / "m.npz", "--json").stdout)
    done = run("apply", "--model", tmp_path / "m.npz", noisy, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for k, mask in enumerate(fitted.predict(NOISY)):
        assert np.array_equal(read_image(tmp_path / "out" / f"m{k}.png") > 0, mask > 0)
