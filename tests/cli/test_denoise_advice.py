"""What the commands say of inputs, and that the advice applies."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from cli.masks import NOISY, listed, run, write_masks
from PIL import Image

from logsuper.io import read_image, write_image

BITS = NOISY[0] * np.uint8(255)


def _apply(tmp_path, model, name, pixels, *options, color=False):
    write_image(tmp_path / "in" / name, pixels, color=color)
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out")
    return run(*line, *options)


def test_one_colour_may_be_missing_and_is_named(tmp_path, model):
    pixels = np.stack([BITS] * 3, axis=-1)
    pixels[:3] = (200, 10, 0)
    done = _apply(tmp_path, model, "x.png", pixels, color=True)
    assert done.exit_code == 2 and "--missing '#c80a00'" in done.stderr
    done = _apply(tmp_path, model, "y.png", BITS, "--missing", "#c80a00")
    assert done.exit_code == 0, done.output  # what it said works


@pytest.mark.parametrize("count", [2, 300])
def test_a_photograph_is_not_said_to_have_missing_pixels(tmp_path, model, count):
    colors = np.random.default_rng(0).integers(0, 256, (count, 3)).astype(np.uint8)
    pixels = colors[np.random.default_rng(1).integers(0, count, (24, 24))]
    done = _apply(tmp_path, model, "x.png", pixels, color=True)
    assert done.exit_code == 2 and "is in colour; a mask is grey: convert it" in done.stderr
    assert "--missing" not in done.stderr


@pytest.mark.parametrize("levels", [3, 4])
def test_a_level_is_missing_only_if_two_are_left(tmp_path, model, levels):
    pixels = BITS.copy()
    pixels[0], pixels[1] = 77, 77 if levels == 3 else 88
    done = _apply(tmp_path, model, "x.png", pixels)
    assert f"has the {levels} levels" in done.stderr and "(--threshold)" in done.stderr
    assert ("--missing 77" in done.stderr) == (levels == 3)
    done = _apply(tmp_path, model, "y.png", BITS, "--missing", 77)
    assert done.exit_code == (0 if levels == 3 else 1)
    assert "--missing" not in done.stderr


def test_lossy_masks_get_a_hint(tmp_path, model):
    (tmp_path / "in").mkdir()
    Image.fromarray(BITS).save(tmp_path / "in" / "x.jpg", quality=90)
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--json")
    done = run(*line)
    assert done.exit_code == 0 and "keep masks as PNG or TIFF" in done.stderr
    [warning] = json.loads(done.stdout)["warnings"]
    assert "JPEG" in warning and "x.jpg" in warning


def test_the_model_is_checked_before_images_are_read(tmp_path, noisy):
    (noisy / "broken.png").write_bytes(b"x")
    for command in ("apply", "denoise"):
        done = run(command, noisy, "--model", tmp_path / "none", "--out", tmp_path / "out")
        assert done.exit_code == 2 and done.stderr.count("\n") == 1 and "none" in done.stderr
        assert not (tmp_path / "out").exists()


def test_all_clashes_of_names_are_listed(tmp_path, model):
    write_masks(tmp_path / "in", NOISY[:3])
    write_masks(tmp_path / "in", NOISY[:3], suffix=".bmp")
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out")
    done = run(*line, "--probabilities")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    for k in range(3):
        pair = f"m{k}.bmp and {tmp_path / 'in' / f'm{k}.png'} to {tmp_path / 'out'}"
        assert pair in done.stderr
    assert run(*line).exit_code == 0  # the masks have different names


def test_what_is_there_is_counted(tmp_path, noisy, model):
    shutil.copytree(noisy, tmp_path / "out")
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "out")
    assert done.exit_code == 2 and "--force" in done.stderr
    assert f"{tmp_path / 'out' / 'm0.png'} and 7 more are there already" in done.stderr
    assert np.array_equal(read_image(tmp_path / "out" / "m0.png"), BITS)


def test_folders_that_are_not_read_are_named(tmp_path, noisy, model):
    write_masks(noisy / "sub", NOISY[:1])
    write_masks(noisy / "given", NOISY[:1])
    write_masks(noisy / ".hidden", NOISY[:1])
    (noisy / "empty").mkdir()
    for _ in range(2):  # the second time with results inside
        line = ("apply", "--model", model[0], noisy, noisy / "given", "--out", noisy / "clean")
        done = run(*line, "--probabilities")
        assert done.exit_code == 0
        [text] = done.stderr.splitlines()
        assert f"not read: {noisy / 'sub'};" in text
    # nor are results of another run named, or its probabilities
    done = run("apply", "--model", model[0], noisy / "clean", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    assert str(noisy / "clean" / "probabilities") not in done.stderr
    write_masks(tmp_path / "deep" / "a", NOISY[:1])
    done = run("apply", "--model", model[0], tmp_path / "deep", "--out", tmp_path / "x")
    assert done.exit_code == 2 and f"give the images in {tmp_path / 'deep' / 'a'}" in done.stderr
    assert not listed(tmp_path / "x")


def test_a_threshold_in_units_of_the_file_is_explained(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, size=(20, 20)).astype(np.uint8)
    write_image(tmp_path / "grey.png", grey)
    np.save(tmp_path / "inf.npy", np.where(np.eye(20, dtype=bool), np.inf, 0.0))
    for threshold in ("128", "-0.1"):
        given = [tmp_path / "grey.png", "--out", tmp_path / "out", "--threshold", threshold]
        done = run("denoise", *given)
        assert done.exit_code == 2 and "is not a share of white, from 0 to 1" in done.stderr
    assert "-0.1 of 255" in done.stderr
    done = run("denoise", tmp_path / "inf.npy", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "has infinite pixels" in done.stderr


def test_a_group_without_a_command_prints_its_help():
    for group in ("crf", "reproduce"):
        done = run(group)
        assert done.exit_code == 0 and "Commands:\n" in done.stdout
