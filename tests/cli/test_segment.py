"""`logsuper segment`, as a user runs it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy.ndimage import gaussian_filter

import logsuper as ls
from logsuper.cli import main
from logsuper.cli._segment import read_strokes
from logsuper.io import read_image, write_image


@pytest.fixture(scope="module")
def scene():
    images, masks, scribbles = ls.make_scenes(1, (48, 64), seed=0)
    return images[0], masks[0], scribbles[0]


@pytest.fixture
def files(tmp_path, scene):
    image, _, marks = scene
    write_image(tmp_path / "photo.png", image, color=True)
    picture = Image.frombytes("P", marks.shape[::-1], marks.tobytes())
    picture.putpalette([0, 0, 0, 200, 30, 30, 30, 30, 200] + [0] * 759)
    picture.save(tmp_path / "marks.png")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, ["segment", *map(str, arguments)])


def usual(folder, *more, marks="marks.png", out="mask.png"):
    return run(folder / "photo.png", "--scribbles", folder / marks, "--out", folder / out, *more)


def test_everything_it_writes(files, scene):
    image, _, marks = scene
    result = usual(
        files, "--probabilities", files / "p.png", "--suggest", files / "next.png", "--json"
    )
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    alone = ls.segment(image, marks)
    mask, p = read_image(files / "mask.png"), read_image(files / "p.png")
    assert mask.dtype == np.uint8 and (mask == np.where(alone.mask, 255, 0)).all()
    assert p.dtype == np.uint16 and np.abs(p / 65535 - alone.probability).max() < 1e-5
    assert said["object"] == pytest.approx(alone.mask.mean())
    assert 0 <= said["expected_wrong"] < 0.5 and set(said["files"]) == {
        "out",
        "probabilities",
        "suggest",
    }
    centers = [tuple(region["center"]) for region in said["suggestions"]]
    assert centers == [region.center for region in alone.suggest(3)]
    picture = read_image(files / "next.png", color=True)
    for center in centers:
        assert tuple(picture[center]) == (230, 0, 0)


def test_plain_words(files):
    result = usual(files)
    assert result.exit_code == 0
    assert "% of the pixels; expected wrong" in result.output and "Wrote" in result.output


def test_strokes_painted_on_the_photograph(files, scene):
    image, _, marks = scene
    image = image.copy()
    image[:10] = 250, 20, 10  # as red as a stroke
    write_image(files / "photo.png", image, color=True, force=True)
    paints = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], dtype=np.uint8)
    painted = np.where(marks[..., None] > 0, paints[marks], image)
    write_image(files / "painted.png", painted, color=True)
    write_image(files / "ground.png", paints[marks], color=True)
    for name in ("painted", "ground"):
        result = usual(files, marks=f"{name}.png", out=f"{name}_mask.png")
        counts = f"{np.sum(marks == 1):,} pixels on the object, {np.sum(marks == 2):,} on the back"
        assert result.exit_code == 0 and counts in result.output, result.output
        assert "Warning" not in result.stderr
    refused = usual(files, marks="photo.png")
    assert refused.exit_code == 2 and "no object (label 1)" in refused.stderr


def test_soft_strokes_on_something_red(files, scene):
    marks = scene[2]
    image = np.full((*marks.shape, 3), (190, 60, 50), dtype=np.uint8)  # no stroke, but reddish
    image += np.random.default_rng(0).integers(0, 9, image.shape, dtype=np.uint8)
    write_image(files / "photo.png", image, color=True, force=True)
    paints = np.array([[0, 0, 0], [230, 20, 20], [30, 60, 220]])
    share = gaussian_filter((marks > 0).astype(float), 1.0)[..., None]
    near = [gaussian_filter((marks == label).astype(float), 3) for label in (1, 2)]
    colour = paints[np.where(near[0] > near[1], 1, 2)]
    soft = np.round(share * colour + (1 - share) * image).astype(np.uint8)
    write_image(files / "soft.png", soft, color=True)
    labels = read_strokes(soft, image, "soft.png")[0]
    assert (labels == 1).any() and (labels == 2).any()
    assert not ((labels == 1) & (colour[..., 2] == 220)).any()
    assert not ((labels == 2) & (colour[..., 2] == 20)).any()


@pytest.mark.parametrize("quality", [95, 75])
def test_strokes_painted_on_a_copy_that_was_compressed_again(files, scene, quality):
    image, mask, _ = scene
    image = gaussian_filter(image, (2, 2, 0))  # a picture, not white noise
    image[:8] = 250, 20, 10  # as red as a stroke
    write_image(files / "photo.png", image, color=True, force=True)
    Image.fromarray(image).save(files / "copy.jpg", quality=quality)
    copy = np.asarray(Image.open(files / "copy.jpg")).copy()
    assert not (copy == image).all()
    inside = np.argwhere(mask)[len(np.argwhere(mask)) // 2]
    copy[inside[0] - 1 : inside[0] + 2, inside[1] - 1 : inside[1] + 2] = 0, 255, 0  # green: outside
    copy[20:22, :8] = 255, 0, 0  # the labels are wrong, but it is they that count here
    Image.fromarray(copy).save(files / "strokes.png")
    result = usual(files, marks="strokes.png", out="m.png")
    assert result.exit_code == 0, result.output
    assert "16 pixels on the object, 9 on the background" in result.output
    assert "that was compressed again" in result.stderr


@pytest.mark.parametrize("kind", ["levels", "far levels", "colours", "npy"])
def test_scribbles_of_all_kinds(files, scene, kind):
    marks = scene[2]
    assert usual(files).exit_code == 0
    if kind == "levels":
        write_image(files / "other.png", marks)
    elif kind == "far levels":
        write_image(files / "other.png", np.array([0, 255, 128], dtype=np.uint8)[marks])
    elif kind == "colours":
        paints = np.array([[255, 255, 255], [250, 10, 0], [0, 40, 255]], dtype=np.uint8)
        write_image(files / "other.png", paints[marks], color=True)
    else:
        np.save(files / "other.npy", marks)
    other = "other.npy" if kind == "npy" else "other.png"
    result = usual(files, marks=other, out="second.png")
    assert result.exit_code == 0, result.output
    assert (read_image(files / "second.png") == read_image(files / "mask.png")).all()


def test_a_volume(tmp_path):
    grid = np.indices((8, 16, 16)) - np.array([4, 8, 8]).reshape(3, 1, 1, 1)
    ball = (grid**2).sum(axis=0) < 20
    marks = np.zeros(ball.shape, dtype=np.uint8)
    marks[4, 7:9, 7:9], marks[:, :1] = 1, 2
    write_image(tmp_path / "v.tif", (200 * ball).astype(np.uint8))
    write_image(tmp_path / "s.tif", marks)
    line = [tmp_path / "v.tif", "--scribbles", tmp_path / "s.tif", "--out"]
    assert run(*line, tmp_path / "m.tif").exit_code == 0
    assert np.mean((read_image(tmp_path / "m.tif") > 0) != ball) < 0.02
    words = run(*line, tmp_path / "m3.tif").stdout
    assert (
        "voxels on the object" in words
        and "pixels" not in words
        and "row, column" not in (words.replace("slice, row, column", ""))
    )
    result = run(*line, tmp_path / "m2.tif", "--suggest", tmp_path / "n.png")
    assert result.exit_code == 2 and "leave it out for volumes" in result.stderr


def test_a_saved_model(files):
    train = ls.make_scenes(2, (32, 40), seed=3)
    model = ls.ScribbleSegmenter().fit(train.images, train.masks, train.scribbles)
    model.save(files / "model.npz")
    assert usual(files, "--model", files / "model.npz").exit_code == 0
    image, marks = (
        read_image(files / "photo.png", color=True),
        read_image(files / "marks.png", color=True, palette="indices"),
    )
    found = model.segment(image, marks, probability=False).mask
    assert ((read_image(files / "mask.png") > 0) == found).all()


def test_the_mask_alone(files, scene):
    result = usual(files, "--no-probabilities", "--json")
    assert result.exit_code == 0 and (files / "mask.png").exists(), result.output
    said = json.loads(result.stdout)
    assert said["expected_wrong"] is None and set(said["seconds"]) == {"preparing", "mask"}
    result = usual(files, "--no-probabilities", "--probabilities", files / "p.png", out="m.png")
    assert result.exit_code == 2 and "leave out --no-probabilities" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_leaves_the_mask(files, scene):
    code = """
import os, signal, sys
from logsuper.cli import main
from logsuper.estimators import ScribbleSession

mean = ScribbleSession.mean

def stop(self, *arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return mean(self, *arguments)

ScribbleSession.mean = stop
main(sys.argv[1:])
"""
    line = [files / "photo.png", "--scribbles", files / "marks.png", "--out", files / "mask.png"]
    line = ["segment", *map(str, line), "--probabilities", str(files / "p.png")]
    command = [sys.executable, "-c", code, *line]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130 and "probabilities were not finished" in done.stderr
    found = ls.segment(scene[0], scene[2], probability=False).mask
    assert ((read_image(files / "mask.png") > 0) == found).all()
    assert not (files / "p.png").exists()


def test_certified_bounds(files, scene):
    p = files / "p.png"
    result = usual(files, "--certify", "--probabilities", p, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    names = "p-lower.png", "p.png", "p-upper.png"
    lower, middle, upper = (read_image(files / name).astype(int) for name in names)
    assert (lower <= middle).all() and (middle <= upper).all() and 0 <= said["decided"] <= 1
    assert said["files"]["lower"] == str(files / "p-lower.png")
    alone = ls.ScribbleSegmenter(neighbors=4).start(scene[0])
    alone.segment(scene[2])
    found = alone.probabilities(certify=True)
    assert np.abs(lower - 65535 * found.lower).max() < 1.001
    assert "--probabilities P.png keeps" in usual(files, "--certify", out="again.png").stdout


def test_learning_from_strokes(files, scene):
    result = usual(files, "--learn", "--no-probabilities")
    assert result.exit_code == 0 and "learning" in result.stdout, result.output
    alone = ls.segment(scene[0], scene[2], learn="strokes", probability=False)
    assert ((read_image(files / "mask.png") > 0) == alone.mask).all()
    few = np.zeros_like(scene[2])
    few[tuple(np.argwhere(scene[1])[0])], few[0, 0] = 1, 2
    write_image(files / "few.png", few)
    result = usual(files, "--learn", "--no-probabilities", marks="few.png", out="few_mask.png")
    assert result.exit_code == 0 and "Warning: --learn holds out whole strokes" in result.stderr


def test_learning_from_a_folder_once(files):
    train = ls.make_scenes(2, (32, 40), seed=3)
    for k, (image, mask) in enumerate(zip(train.images, train.masks, strict=True)):
        write_image(files / "cells" / f"{k}.png", image, color=True)
        write_image(files / "masks" / f"{k}.png", 255 * mask.astype(np.uint8))
    folders = "--examples", files / "cells", "--masks", files / "masks"
    result = usual(files, *folders, "--save-model", files / "m.npz")
    assert result.exit_code == 0, result.output
    again = usual(files, "--model", files / "m.npz", out="again.png")
    assert again.exit_code == 0
    assert (read_image(files / "again.png") == read_image(files / "mask.png")).all()
    model = ls.ScribbleSegmenter().fit(list(train.images), [m.astype(float) for m in train.masks])
    assert ls.load_model(files / "m.npz").constants_ == model.constants_
    three = 100 * train.masks[1].astype(np.uint8)
    three[:4] = 200
    write_image(files / "masks" / "1.png", three, force=True)
    refused = usual(files, *folders, out="three.png")
    assert refused.exit_code == 2 and "masks/1.png: has the 3 levels" in refused.stderr
    assert usual(files, *folders, "--missing", "200", out="three.png").exit_code == 0
    for options, message in (
        (folders[:2], "belong together"),
        ((*folders, "--model", files / "m.npz"), "give one of them"),
        (("--save-model", files / "n.npz"), "give them"),
    ):
        result = usual(files, *options, out="other.png")
        assert result.exit_code == 2 and message in result.stderr
    assert not (files / "other.png").exists()


def test_a_label_that_vanishes_is_warned_of(files):
    write_image(files / "photo.png", np.full((48, 64, 3), 90, np.uint8), color=True, force=True)
    marks = np.zeros((48, 64), np.uint8)
    marks[24, 32], marks[:2], marks[-2:], marks[:, :2], marks[:, -2:] = 1, 2, 2, 2, 2
    write_image(files / "ring.png", marks)
    result = usual(files, marks="ring.png")
    assert result.exit_code == 0 and "Warning: the object is nothing but" in result.stderr


def test_nothing_is_replaced_without_force(files):
    (files / "mask.png").write_bytes(b"precious")
    result = usual(files)
    assert result.exit_code == 2 and "--force" in result.stderr
    assert (files / "mask.png").read_bytes() == b"precious"
    assert usual(files, "--force").exit_code == 0
    result = usual(files, "--force", out="photo.png")
    assert result.exit_code == 2 and "is an input of this command" in result.stderr


def test_bad_input_is_one_line(files, scene):
    marks = scene[2]
    write_image(files / "many.png", marks + 7)
    write_image(files / "small.png", marks[:20])
    write_image(files / "empty.png", 0 * marks)
    (files / "text.png").write_text("not an image")
    cases = [
        (dict(marks="many.png"), "has the level 7"),
        (dict(marks="small.png"), "small.png: scribbles has shape (20, 64)"),
        (dict(marks="empty.png"), "empty.png: scribbles has no object (label 1)"),
        (dict(marks="text.png"), "not an image"),
        (dict(out="mask.jpg"), "changes pixels"),
        (dict(out="mask"), "without a suffix"),
        (dict(marks="absent.png"), "does not exist"),
    ]
    for options, message in cases:
        result = usual(files, **options)
        assert result.exit_code == 2, result.output
        assert message in result.stderr and result.stderr.count("\n") == 1
    result = usual(files, "--model", files / "marks.png")
    assert result.exit_code == 2 and "--model" in result.stderr
    result = usual(files, "--probabilities", files / "mask.png")
    assert result.exit_code == 2 and "are the same file" in result.stderr
    assert not (files / "mask.png").exists()
