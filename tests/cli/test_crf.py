"""`logsuper crf fit` and `logsuper crf apply`, as a user runs them."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cli.masks import listed, run

import logsuper as ls
from logsuper.cli import _fields
from logsuper.io import read_image, write_image

SCENES = ls.make_scenes(7, (40, 56), seed=0)
TRUTH = SCENES.masks.astype(np.uint8)
P = np.clip(
    0.7 * TRUTH + 0.15 + np.random.default_rng(0).normal(scale=0.3, size=TRUTH.shape), 0.02, 0.98
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return photographs, masks and a network's probabilities; the last two images are new."""
    path = tmp_path_factory.mktemp("crf")
    for k, (image, mask, p) in enumerate(zip(SCENES.images, TRUTH, P, strict=True)):
        side = "photos" if k < 5 else "new"
        write_image(path / side / f"a{k}.png", image, color=True)
        write_image(path / "masks" / f"a{k}.png", 255 * mask)
        write_image(path / "network" / f"a{k}.tif", np.round(65535 * p).astype(np.uint16))
    return path


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "network.npz"
    done = run(*fitting(folder), "--unary-probabilities", folder / "network", "--save-model", path)
    assert done.exit_code == 0, done.output
    return path


def fitting(folder):
    return "crf", "fit", folder / "photos", "--masks", folder / "masks"


def applying(folder, model, out, *more):
    return "crf", "apply", folder / "new", "--model", model, "--out", out, *more


def behind(folder):
    return "--unary-probabilities", folder / "network"


def test_behind_the_classifier_inside(folder, tmp_path):
    uniform = "--edges", "uniform"  # the quickest to learn
    done = run(*fitting(folder), *uniform, "--save-model", tmp_path / "m.npz", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["model"]["unary"] == "trees" and said["model"]["images"] == 5
    assert 0 < said["model"]["alone_wrong"] < 0.5 and said["left_out"] == []
    out = tmp_path / "out"
    done = run(*applying(folder, tmp_path / "m.npz", out, "--probabilities", "--json"))
    assert done.exit_code == 0, done.output
    assert listed(out) == ["a5.png", "a6.png", "probabilities/a5.png", "probabilities/a6.png"]
    # what Python finds from the same pixels
    crf = ls.MaskCRF(edges="uniform").fit(
        [(image / np.float32(255)).astype(np.float32) for image in SCENES.images[:5]], TRUTH[:5]
    )
    p = crf.predict_proba([(SCENES.images[5] / np.float32(255)).astype(np.float32)])[0]
    assert np.abs(read_image(out / "probabilities" / "a5.png") / 65535 - p).max() < 1e-5
    assert ((read_image(out / "a5.png") == 255) == (p > 0.5)).all()
    found = json.loads(done.stdout)["files"][0]
    assert found["object"] == (p > 0.5).sum() and found["pixels"] == p.size


def test_behind_a_network(folder, model, tmp_path):
    out = tmp_path / "out"
    done = run(*applying(folder, model, out, *behind(folder)))
    assert done.exit_code == 0, done.output
    assert "images segmented" in done.stdout and "Written to" in done.stdout
    alone = np.mean((P[5:] > 0.5) != TRUTH[5:])
    found = np.array([read_image(out / f"a{k}.png") > 0 for k in (5, 6)])
    assert np.mean(found != TRUTH[5:]) < 0.5 * alone
    loaded = ls.load_model(model)
    assert loaded.unary == "probabilities" and loaded.channels_ == 4 and loaded.n_jobs is None


def test_a_second_run_continues(folder, model, tmp_path):
    out = tmp_path / "out"
    assert run(*applying(folder, model, out, *behind(folder))).exit_code == 0
    first = (out / "a5.png").read_bytes()
    (out / "a6.png").unlink()
    done = run(*applying(folder, model, out, *behind(folder), "--json"))
    assert [one["finished_before"] for one in json.loads(done.stdout)["files"]] == [True, False]
    write_image(out / "a5.png", 255 - read_image(out / "a5.png"), force=True)
    done = run(*applying(folder, model, out, *behind(folder)))
    assert done.exit_code == 2 and "--force to replace it" in done.stderr
    assert run(*applying(folder, model, out, *behind(folder), "--force")).exit_code == 0
    assert (out / "a5.png").read_bytes() == first


def test_partial_masks_grey_photographs_and_files_that_are_wrong(folder, tmp_path):
    rng = np.random.default_rng(1)
    for k, mask in enumerate(TRUTH[:5]):
        partial = np.where(rng.random(mask.shape) < 0.5, 128, 255 * mask).astype(np.uint8)
        write_image(tmp_path / "masks" / f"a{k}.png", partial)
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos", photos)
    write_image(tmp_path / "masks" / "b.png", 255 * TRUTH[0][:, :-1])
    write_image(photos / "b.png", SCENES.images[0], color=True)
    (photos / "c.png").write_text("nothing")
    grey = SCENES.images[5].mean(axis=-1).astype(np.uint8)
    write_image(tmp_path / "new" / "grey.png", grey)
    line = ["crf", "fit", photos, "--masks", tmp_path / "masks", "--unary", "linear"]
    line += ["--edges", "uniform", "--save-model", tmp_path / "m.npz"]
    refused = run(*line)
    assert refused.exit_code == 2 and "as in --missing 128" in refused.stderr
    assert "--threshold" not in refused.stderr
    done = run(*line, "--missing", "128")
    assert done.exit_code == 1, done.output  # two files are left out
    assert "c.png" in done.stderr and "b.png: has shape (40, 55)" in done.stderr
    assert "50" in done.stdout or "49" in done.stdout  # percent labelled
    out = tmp_path / "out"
    done = run("crf", "apply", tmp_path / "new", "--model", tmp_path / "m.npz", "--out", out)
    assert done.exit_code == 0 and read_image(out / "grey.png").shape == grey.shape


def test_volumes(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        mask = np.zeros((6, 14, 16), dtype=np.uint8)
        mask[1:5, 3 + k : 10 + k, 4:12] = 1
        write_image(
            tmp_path / "v" / f"{k}.tif",
            (90 * mask + rng.integers(0, 120, mask.shape)).astype(np.uint8),
        )
        write_image(tmp_path / "m" / f"{k}.tif", 255 * mask)
    line = ["crf", "fit", tmp_path / "v", "--masks", tmp_path / "m", "--unary", "linear"]
    done = run(*line, "--edges", "uniform", "--save-model", tmp_path / "m.npz")
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    done = run("crf", "apply", tmp_path / "v", "--model", tmp_path / "m.npz", "--out", out)
    assert done.exit_code == 0, done.output
    assert (
        np.mean((read_image(out / "0.tif") > 0) != (read_image(tmp_path / "m" / "0.tif") > 0))
        < 0.05
    )


def test_bad_input_is_one_line(folder, model, tmp_path, density):
    fit = [*fitting(folder), "--save-model", tmp_path / "m.npz"]
    wrong = tmp_path / "maps"
    for k in range(5):
        np.save((wrong.mkdir(exist_ok=True) or wrong) / f"a{k}.npy", 3.0 * P[k])
    (tmp_path / "none").mkdir()
    cases = [
        ([*fit, *behind(folder), "--unary", "trees"], "--unary is for images without"),
        ([*fit, "--unary-probabilities", wrong], "probabilities are from 0 to 1"),
        ([*fit[:4], tmp_path / "none", *fit[5:]], "--masks: no image in"),
        ([*fit, "--neighbors", "26"], "cannot learn from these images: neighbors"),
        ([*fitting(folder), "--save-model", model], "--force to replace it"),
        (applying(folder, model, tmp_path / "o"), "give --unary-probabilities"),
        (applying(folder, density, tmp_path / "o"), "not a field behind a classifier"),
        (applying(folder, folder / "no.npz", tmp_path / "o"), "No such file"),
    ]
    for line, message in cases:
        done = run(*line)
        assert done.exit_code == 2 and message in done.stderr, (line, done.output)
        assert done.stderr.splitlines()[-1].startswith("Error: ") and done.stdout == ""
    assert not (tmp_path / "m.npz").exists() and not (tmp_path / "o").exists()


def test_the_file_is_named_where_the_estimator_names_an_entry():
    jobs = [type("Job", (), {"source": "one.png"}), type("Job", (), {"source": "two.png"})]
    text = _fields.name_files("masks[1][0, 2] = 3: images[0] is odd", jobs, {"two.png": "m.png"})
    assert text == "m.png[0, 2] = 3: one.png is odd"


@pytest.mark.parametrize("command", ["fit", "apply"])
def test_every_option_is_explained(command):
    done = run("crf", command, "--help")
    assert done.exit_code == 0 and "Examples:" in done.stdout
    assert "crf" in run("--help").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_leaves_whole_files(folder, model, tmp_path):
    code = """
import os, signal, sys
from logsuper.cli import main, _fields

finish = _fields.Painter._finish

def stop(self, *arguments):
    found = finish(self, *arguments)
    os.kill(os.getpid(), signal.SIGINT)
    return found

_fields.Painter._finish = stop
main(sys.argv[1:])
"""
    line = [str(word) for word in applying(folder, model, tmp_path / "out", *behind(folder))]
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True)
    assert done.returncode == 130 and "the same command continues" in done.stderr, done.stderr
    assert listed(tmp_path / "out") == ["a5.png"]
    assert run(*line).exit_code == 0
    assert listed(tmp_path / "out") == ["a5.png", "a6.png"]


def test_grey_images_and_volumes_for_a_model_of_colours(folder, model, tmp_path):
    new, network = tmp_path / "new", tmp_path / "network"
    write_image(new / "grey.png", SCENES.images[5].mean(axis=-1).astype(np.uint8))
    write_image(network / "grey.png", np.round(65535 * P[5]).astype(np.uint16))
    write_image(new / "volume.tif", np.repeat(SCENES.images[5][None, ..., 0], 4, axis=0))
    write_image(network / "volume.tif", np.repeat(np.round(65535 * P[5])[None], 4, 0).astype("u2"))
    line = "crf", "apply", new, "--model", model, "--unary-probabilities", network
    done = run(*line, "--out", tmp_path / "out")
    assert done.exit_code == 1 and listed(tmp_path / "out") == ["grey.png"], done.output
    assert "some images are grey" in done.stderr
    assert "volume.tif: is a volume of 4 slices" in done.stderr


def test_masks_without_an_object_and_a_classifier_that_sees_nothing(folder, tmp_path):
    for k in range(5):
        write_image(tmp_path / "black" / f"a{k}.png", np.zeros_like(TRUTH[k]))
        rng = np.random.default_rng(k)
        noise = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
        write_image(tmp_path / "noise" / f"a{k}.png", noise, color=True)
        mask = np.roll(255 * (np.arange(24) < 6), int(rng.integers(24)))
        write_image(tmp_path / "any" / f"a{k}.png", np.tile(mask.astype(np.uint8), (20, 1)))
    line = "crf", "fit", folder / "photos", "--masks", tmp_path / "black", "--unary", "linear"
    done = run(*line, "--save-model", tmp_path / "m.npz")
    assert done.exit_code == 2 and "--masks: every pixel with a label is black" in done.stderr
    line = "crf", "fit", tmp_path / "noise", "--masks", tmp_path / "any", "--edges", "uniform"
    done = run(*line, "--save-model", tmp_path / "m.npz")
    assert done.exit_code == 0 and "no better than one label for all" in done.stderr, done.output


def test_what_is_read_is_never_replaced(folder, model, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos", photos)
    before = {path: path.read_bytes() for path in photos.iterdir()}
    line = "crf", "fit", photos, "--masks", folder / "masks", "--force"
    done = run(*line, "--save-model", photos / "a0.png")
    assert done.exit_code == 2 and "is no model; give another name" in done.stderr
    network = tmp_path / "network"
    network.mkdir()
    for path in (folder / "network").iterdir():
        write_image(network / f"{path.stem}.png", read_image(path))
    before |= {path: path.read_bytes() for path in network.iterdir()}
    line = "crf", "apply", folder / "new", "--model", model, "--unary-probabilities", network
    done = run(*line, "--out", network, "--force")
    assert done.exit_code == 2 and "would replace the image" in done.stderr
    assert all(path.read_bytes() == held for path, held in before.items())
