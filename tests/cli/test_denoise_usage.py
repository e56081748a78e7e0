"""What commands on folders refuse, and how they say it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cli.masks import CLEAN, NOISY, run, write_masks

from logsuper.io import read_image, write_image


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


def test_uncertain_pixels_of_volumes(tmp_path):
    pixels = 255 * np.stack([NOISY[0, :10, :10]] * 6)
    pixels[2] = 255 - pixels[2]
    write_image(tmp_path / "in" / "v.tif", pixels)
    line = ("denoise", tmp_path / "in", "--out", tmp_path / "out", "--volume", "whole")
    done = run(*line, "--uncertain", "--json")
    assert done.exit_code == 0, done.output
    doubtful = read_image(tmp_path / "out" / "uncertain" / "v.tif")
    assert doubtful.shape == pixels.shape
    assert json.loads(done.stdout)["files"][0]["uncertain"] == np.count_nonzero(doubtful)


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
