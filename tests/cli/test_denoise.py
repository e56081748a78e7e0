import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from PIL import Image

import logsuper as ls
from logsuper.cli import _cleaning, _learning, main
from logsuper.io import read_image, write_image

CLEAN = ls.make_silhouettes(8, (24, 24), seed=0)
NOISY = ls.Flips(0.1).sample(CLEAN, seed=1).astype(np.uint8)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def listed(folder):
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def write_masks(folder, masks=NOISY, suffix=".png", levels=(0, 255), dtype=np.uint8):
    for k, mask in enumerate(masks):
        pixels = np.where(mask > 0, levels[1], levels[0]).astype(dtype)
        write_image(folder / f"m{k}{suffix}", pixels)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a model of images, and what the command said about it."""
    folder = tmp_path_factory.mktemp("model")
    done = run("fit", write_masks(folder / "in"), "--save-model", folder / "m.npz", "--json")
    assert done.exit_code == 0, done.output
    return folder / "m.npz", json.loads(done.stdout)


@pytest.fixture(scope="module")
def density(tmp_path_factory):
    """Return a model of another kind."""
    path = tmp_path_factory.mktemp("density") / "density.npz"
    ls.LogSupermodularDensity(n_components=1).fit(NOISY.reshape(8, -1)[:, :4]).save(path)
    return path


@pytest.fixture
def noisy(tmp_path):
    return write_masks(tmp_path / "noisy")


# ---------------------------------------------------------------------------- what it is made for


def test_a_folder_of_noisy_masks(tmp_path, noisy):
    out = tmp_path / "out"
    done = run("denoise", noisy, "--out", out, "--probabilities", "--uncertain", "--compare")
    assert done.exit_code == 0, done.output
    names = [f"m{k}.png" for k in range(8)]
    sides = [
        f"{side}/{name}" for side in ("compare", "probabilities", "uncertain") for name in names
    ]
    assert listed(out) == sorted(["compare.png", *names, *sides])
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
    assert plain.exit_code == 2 and "is for masks of two levels" in plain.stderr
    assert (
        "Noise: grey levels" in run("denoise", tmp_path / "in", "--out", tmp_path / "grey").stdout
    )


def test_a_model_is_for_masks_or_for_grey_images(tmp_path, noisy, model):
    rng = np.random.default_rng(0)
    grey = [60 + 120 * mask + 25 * rng.standard_normal(mask.shape) for mask in CLEAN]
    for k, image in enumerate(grey):
        write_image(tmp_path / "grey" / f"{k}.png", np.clip(image, 0, 255).astype(np.uint8))
    done = run("apply", "--model", model[0], tmp_path / "grey", noisy, "--out", tmp_path / "out")
    assert done.exit_code == 1 and done.stderr.count("has grey levels, but the model") == 8
    assert run("fit", tmp_path / "grey", "--save-model", tmp_path / "g.npz").exit_code == 0
    done = run("apply", "--model", tmp_path / "g.npz", noisy, "--out", tmp_path / "other")
    assert done.exit_code == 2 and "but the model was learned from grey images" in done.stderr
    assert done.stderr.endswith("\nError: none of the images could be cleaned\n")


def test_masks_and_grey_images_together_are_refused(tmp_path, noisy):
    grey = np.random.default_rng(0).integers(0, 200, (24, 24)).astype(np.uint8)
    write_image(noisy / "z.png", grey)
    done = run("denoise", noisy, "--out", tmp_path / "out")
    assert (
        done.exit_code == 2 and "clean them apart" in done.stderr and not listed(tmp_path / "out")
    )


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


# ----------------------------------------------------------------------------------- never destroys


def test_nothing_is_replaced_without_force(tmp_path, noisy, model):
    out = tmp_path / "out"
    out.mkdir()
    (out / "m3.png").write_text("mine")
    for line in (("apply", "--model", model[0]), ("denoise",)):
        done = run(*line, noisy, "--out", out)
        assert done.exit_code == 2 and "is there already" in done.stderr
        assert done.stderr.count("\n") == 1 and listed(out) == ["m3.png"]
    assert (out / "m3.png").read_text() == "mine"
    assert run("apply", "--model", model[0], noisy, "--out", out, "--force").exit_code == 0
    assert len(listed(out)) == 8 and read_image(out / "m3.png").shape == (24, 24)


def test_a_second_run_skips_what_is_finished(tmp_path, noisy, model, monkeypatch):
    out = tmp_path / "out"
    line = ("apply", "--model", model[0], noisy, "--out", out, "--json")
    first = json.loads(run(*line).stdout)
    (out / "m2.png").unlink()
    times = {name: (out / name).stat().st_mtime_ns for name in listed(out)}
    second = json.loads(run(*line).stdout)
    before = [file["finished_before"] for file in second["files"]]
    assert before == [k != 2 for k in range(8)]
    assert first["all"] == second["all"]
    assert all((out / name).stat().st_mtime_ns == then for name, then in times.items())
    # another input, other settings, a result that was edited: none of them is taken for finished
    write_image(noisy / "m1.png", (255 * NOISY[7]).astype(np.uint8), force=True)
    done = run(*line)
    assert done.exit_code == 2 and "m1.png is there already" in done.stderr
    write_image(noisy / "m1.png", (255 * NOISY[1]).astype(np.uint8), force=True)
    assert run(*line).exit_code == 0
    assert run(*line, "--threshold", "0.4").exit_code == 2
    write_image(out / "m4.png", 255 * CLEAN[4], force=True)
    done = run(*line)
    assert done.exit_code == 2 and "m4.png is there already" in done.stderr
    assert np.array_equal(read_image(out / "m4.png"), 255 * CLEAN[4])


def test_a_second_run_takes_the_learned_model(tmp_path, noisy, monkeypatch):
    line = (
        "denoise",
        noisy,
        "--out",
        tmp_path / "out",
        "--save-model",
        tmp_path / "m.npz",
        "--json",
    )
    first = run(*line)
    assert first.exit_code == 0, first.output
    monkeypatch.setattr(_learning, "learn", lambda *rest: pytest.fail("learned again"))
    second = run(*line)
    assert second.exit_code == 0, second.output
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["all"] == two["all"]
    assert all(file["finished_before"] for file in two["files"])
    wider = run(*line, "--probabilities")  # more results of the same model
    assert wider.exit_code == 0 and len(listed(tmp_path / "out")) == 16


def test_models_are_not_replaced(tmp_path, noisy, model):
    (tmp_path / "m.npz").write_text("mine")
    for line in (("fit", noisy), ("denoise", noisy, "--out", tmp_path / "out")):
        done = run(*line, "--save-model", tmp_path / "m.npz")
        assert done.exit_code == 2 and "is there already" in done.stderr
    assert (tmp_path / "m.npz").read_text() == "mine" and not listed(tmp_path / "out")
    assert run("fit", noisy, "--save-model", tmp_path / "m.npz", "--force").exit_code == 0
    assert run("info", tmp_path / "m.npz").exit_code == 0


def test_inputs_are_never_replaced(tmp_path, noisy, model):
    before = {name: (noisy / name).read_bytes() for name in listed(noisy)}
    link = tmp_path / "link"
    link.symlink_to(noisy)
    for out in (noisy, noisy / "." / "x" / "..", link):
        done = run("apply", "--model", model[0], noisy, "--out", out, "--force")
        assert done.exit_code == 2, done.output
        assert "never replaced" in done.stderr or "would replace the image" in done.stderr
    done = run(
        "apply", "--model", model[0], noisy / "m0.png", noisy / "m1.png", "--out", noisy, "--force"
    )
    assert done.exit_code == 2 and "would replace the image" in done.stderr
    assert {name: (noisy / name).read_bytes() for name in listed(noisy)} == before


def test_results_below_the_input_folder_are_not_inputs(tmp_path, noisy, model):
    line = ("apply", "--model", model[0], noisy, "--out", noisy / "clean", "--json")
    assert run(*line).exit_code == 0
    assert len(json.loads(run(*line).stdout)["files"]) == 8


def test_folders_of_the_same_names(tmp_path, model):
    for name in ("a", "b"):
        write_masks(tmp_path / "in" / name, NOISY[:2])
    line = ("apply", "--model", model[0], "--out", tmp_path / "out")
    assert run(*line, tmp_path / "in" / "a", tmp_path / "in" / "b" / "m0.png").exit_code == 0
    assert listed(tmp_path / "out") == ["a/m0.png", "a/m1.png", "b/m0.png"]
    Image.fromarray(255 * CLEAN[0]).save(tmp_path / "in" / "a" / "m0.jpg")
    done = run(*line, tmp_path / "in" / "a", "--force")
    assert done.exit_code == 2 and "would both be written to" in done.stderr


def test_broken_files_are_left_out_and_the_rest_goes_on(tmp_path, noisy, model):
    (noisy / "empty.png").touch()
    (noisy / "text.png").write_text("text")
    data = (noisy / "m1.png").read_bytes()
    (noisy / "m1.png").write_bytes(data[: len(data) // 2])
    (noisy / "film.gif").write_bytes(b"GIF89a")
    write_image(noisy / "big.png", np.full((24, 24, 3), (9, 8, 7), np.uint8), color=True)
    for k, line in enumerate((("apply", "--model", model[0]), ("denoise",))):
        out = tmp_path / f"out{k}"
        done = run(*line, noisy, "--out", out, "--json")
        assert done.exit_code == 1, done.output
        assert listed(out) == [f"m{k}.png" for k in range(8) if k != 1]
        left = {os.path.basename(f["input"]) for f in json.loads(done.stdout)["left_out"]}
        assert left == {"empty.png", "text.png", "m1.png", "film.gif", "big.png"}
        assert done.stderr.count("\n") == 5 and done.stderr.count("Left out: ") == 5


@pytest.mark.skipif(sys.platform != "linux", reason="names that other systems do not allow")
def test_odd_names_are_kept_and_printed_without_control_characters(tmp_path, model):
    names = ["a\nb.png", "\udcff.png", "[red]\x1b[2J.png", "z.jpg.png"]
    for name, mask in zip(names, NOISY, strict=False):
        write_image(tmp_path / "in" / name, 255 * mask)
    (tmp_path / "in" / "bad\x1b\n.png").touch()
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--compare")
    done = run(*line)
    assert done.exit_code == 1, done.output
    assert "\x1b" not in done.output and done.stderr.count("\n") == 1
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*names, "compare", "compare.png", ".logsuper"}
    assert json.loads(run(*line, "--json").stdout)["files"][0]["finished_before"]


def test_nothing_that_can_be_read(tmp_path, model):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").touch()
    for line in (("denoise",), ("apply", "--model", model[0])):
        done = run(*line, tmp_path / "in", "--out", tmp_path / "out")
        assert done.exit_code == 2 and done.stderr.splitlines()[-1].startswith("Error: none of")
        assert not (tmp_path / "out").exists()


def test_an_image_of_another_size_than_the_model(tmp_path):
    masks = ls.Flips(0.1).sample(ls.make_silhouettes(20, (16, 16), seed=1), seed=1)
    write_masks(tmp_path / "in", masks)
    done = run("fit", tmp_path / "in", "--save-model", tmp_path / "m.npz", "--json")
    assert json.loads(done.stdout)["model"]["modular"] == "per pixel"
    write_masks(tmp_path / "other", [*masks[:2], np.eye(9)])
    done = run(
        "apply", "--model", tmp_path / "m.npz", tmp_path / "other", "--out", tmp_path / "out"
    )
    assert done.exit_code == 1 and listed(tmp_path / "out") == ["m0.png", "m1.png"]
    assert "m2.png: it has shape (9, 9)" in done.stderr


# --------------------------------------------------------------------------------------- bad usage


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("denoise",), "Missing argument 'IN...'"),
        (("denoise", "noisy"), "Missing option '--out'"),
        (("denoise", "none", "--out", "out"), "none: there is no such file or folder"),
        (("denoise", "empty", "--out", "out"), "there is no image in empty"),
        (("denoise", "noisy", "--out", "file"), "--out"),
        (("denoise", "noisy", "--out", "file/x"), "--out: cannot write"),
        (("denoise", "noisy", "--out", "x" * 300), "--out: cannot write"),
        (("denoise", "x" * 300, "--out", "out"), "File name too long"),
        (("fit", "noisy", "--save-model", "x" * 300), "--save-model: cannot write"),
        (("info", "x" * 300), "File name too long"),
        (("denoise", "noisy", "--out", "out", "--noise", "0.7"), "--noise"),
        (("denoise", "noisy", "--out", "out", "--noise", "much"), "--noise"),
        (("denoise", "noisy", "--out", "out", "--threshold", "nan"), "--threshold"),
        (("denoise", "noisy", "--out", "out", "--missing", "reddish"), "is not alpha, nan"),
        (("denoise", "noisy", "--out", "out", "--volume", "half"), "--volume"),
        (("denoise", "noisy", "--out", "out", "--jobs", "0"), "--jobs"),
        (("denoise", "noisy", "--out", "out", "--clean", "none"), "--clean"),
        (("denoise", "noisy", "--out", "out", "--clean", "empty"), "--clean: no image in empty"),
        (("denoise", "noisy", "--out", "out", "--model", "none"), "none: No such file"),
        (("denoise", "noisy", "--out", "out", "--model", "file"), "not a file of logsuper"),
        (("denoise", "noisy", "--out", "out", "--model", "m.npz", "--seed", "1"), "--seed is for"),
        (
            ("denoise", "noisy", "--out", "out", "--model", "m.npz", "--clean", "empty"),
            "--clean is",
        ),
        (("apply", "noisy", "--out", "out"), "Missing option '--model'"),
        (
            ("apply", "noisy", "--out", "out", "--model", "density.npz"),
            "is a LogSupermodularDensity",
        ),
        (("fit", "noisy"), "Missing option '--save-model'"),
        (("fit", "noisy", "--save-model", "empty"), "empty"),
        (("info",), "Missing argument 'MODEL'"),
        (("info", "none"), "none: No such file"),
        (("info", "file"), "not a file of logsuper"),
        (("completion", "csh"), "csh"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    tmp_path, monkeypatch, arguments, words, model, density
):
    monkeypatch.chdir(tmp_path)
    write_masks(tmp_path / "noisy", NOISY[:1])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    shutil.copy(model[0], tmp_path / "m.npz")
    shutil.copy(density, tmp_path / "density.npz")
    before = sorted(path for path in tmp_path.rglob("*") if path.name != "out")
    done = run(*arguments)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
    assert done.stdout == "" and done.stderr.count("\n") == 1 and words in done.stderr
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "out") == before


def test_clean_masks_that_do_not_fit(tmp_path, noisy):
    write_image(tmp_path / "clean" / "m0.png", np.zeros((5, 5), np.uint8))
    done = run("fit", noisy, "--clean", tmp_path / "clean", "--save-model", tmp_path / "m.npz")
    assert done.exit_code == 2 and "m0.png: has shape (5, 5), but" in done.stderr
    write_image(tmp_path / "clean" / "m0.bmp", np.zeros((5, 5), np.uint8))
    done = run("fit", noisy, "--clean", tmp_path / "clean", "--save-model", tmp_path / "m.npz")
    assert done.exit_code == 2 and "both have the name of" in done.stderr


def test_a_broken_clean_mask_is_not_learned_from_and_its_image_is_cleaned(tmp_path, noisy):
    clean = write_masks(tmp_path / "clean", CLEAN)
    (clean / "m2.png").write_bytes(b"")
    done = run("denoise", noisy, "--clean", clean, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["model"]["images"] == 7 and len(content["files"]) == 8
    assert "not learned from" in content["warnings"][0] and "m2.png: is empty" in done.stderr


def test_three_levels_are_not_a_mask(tmp_path, model):
    pixels = np.array([[0, 128, 255]], dtype=np.uint8).repeat(3, axis=0)
    write_image(tmp_path / "in" / "x.png", pixels)
    done = run("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "has the 3 levels 0, 128 and 255" in done.stderr
    assert "--missing 128" in done.stderr


def test_uncertain_needs_images(tmp_path):
    write_image(tmp_path / "in" / "v.tif", 255 * NOISY)
    line = (
        "denoise",
        tmp_path / "in",
        "--out",
        tmp_path / "out",
        "--volume",
        "whole",
        "--uncertain",
    )
    done = run(*line)
    assert done.exit_code == 2 and "certified intervals" in done.stderr
    assert not listed(tmp_path / "out")


def test_completion():
    for shell in ("bash", "zsh", "fish"):
        done = run("completion", shell)
        assert done.exit_code == 0 and "_LOGSUPER_COMPLETE" in done.stdout


def test_a_shell_completes_commands_and_options():
    environment = {
        **os.environ,
        "_LOGSUPER_COMPLETE": "bash_complete",
        "COMP_WORDS": "logsuper den",
        "COMP_CWORD": "1",
    }
    command = [sys.executable, "-c", "from logsuper.cli import main; main(prog_name='logsuper')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "plain,denoise\n", done.stderr


# --------------------------------------------------------------------------------------- interrupts


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_leaves_whole_files_and_a_second_run_continues(tmp_path, model):
    folder, out = tmp_path / "in", tmp_path / "out"
    write_masks(folder, np.tile(NOISY, (10, 1, 1)))
    code = (
        "import sys, time; from logsuper.cli import main, _cleaning\n"
        "_cleaning._BATCH = 1\n"
        "finish = _cleaning.Cleaner._finish\n"
        "def slowly(*rest):\n    time.sleep(0.02)\n    return finish(*rest)\n"
        "_cleaning.Cleaner._finish = slowly\n"
        "main(sys.argv[1:])\n"
    )
    line = ["apply", "--model", str(model[0]), str(folder), "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *line], stderr=subprocess.PIPE, text=True
    )
    while len(listed(out)) < 5 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    lines = said.splitlines()
    assert lines[-1] == "Interrupted." and lines[-2].endswith("the same command continues.")
    there = listed(out)
    assert list(out.glob(".*")) == [out / ".logsuper"]
    assert 5 <= len(there) < 80 and all(read_image(out / name).shape == (24, 24) for name in there)
    done = run(*line, "--json")
    assert done.exit_code == 0 and len(listed(out)) == 80
    assert sum(f["finished_before"] for f in json.loads(done.stdout)["files"]) == len(there)


def test_a_full_disk_is_one_line(tmp_path, noisy, model, monkeypatch):
    def fail(*rest, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("logsuper.io.encode_image", fail)
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "out")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr and not listed(tmp_path / "out")


def test_a_record_that_was_cut_short_is_mended(tmp_path, noisy, model):
    line = ("apply", "--model", model[0], noisy, "--out", tmp_path / "out", "--json")
    assert run(*line).exit_code == 0
    record = tmp_path / "out" / ".logsuper" / "files.jsonl"
    whole = record.read_bytes()
    record.write_bytes(whole[:-20])
    (tmp_path / "out" / "m7.png").unlink()
    assert run(*line).exit_code == 0
    assert record.read_bytes() == whole


def test_tiff_without_a_codec_is_said(tmp_path, model):
    pytest.importorskip("tifffile")
    try:
        tifffile.imwrite(tmp_path / "x.tif", 255 * NOISY[0], compression="webp")
    except Exception:  # no imagecodecs: that is the case to test, with a tag of our own
        tifffile.imwrite(tmp_path / "x.tif", 255 * NOISY[0], compression="zlib")
        with tifffile.TiffFile(tmp_path / "x.tif", mode="r+b") as file:
            file.pages[0].tags["Compression"].overwrite(50001)
        done = run("apply", "--model", model[0], tmp_path / "x.tif", "--out", tmp_path / "out")
        assert done.exit_code == 2 and "the package imagecodecs" in done.stderr
